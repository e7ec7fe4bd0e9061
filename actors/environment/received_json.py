"""JSON as other programs send it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeGuard

import msgspec

from reenact.domain.plain import Json, JsonDict, is_sequence, parsed


def is_json_object(value: object) -> TypeGuard[JsonDict]:
    """Return whether a decoded value is an object, not a list or a scalar."""
    return isinstance(value, dict)


def first_element(value: object) -> object:
    """Return the first element of a list, or the value itself: Google's gateways put an error into a list."""
    while is_sequence(value) and value:
        value = value[0]
    return value


def object_in(value: Mapping[str, object], name: str) -> JsonDict:
    """Return the object under the name, or an empty one if there is none."""
    found = value.get(name)
    return found if is_json_object(found) else {}


def objects_in(value: Mapping[str, object], name: str) -> list[JsonDict]:
    """Return the objects in the list under the name."""
    found = value.get(name)
    return [one for one in found if is_json_object(one)] if is_sequence(found) else []


def text_in(value: Mapping[str, object], name: str) -> str:
    """Return the text under the name, or an empty string if there is none."""
    found = value.get(name)
    return found if isinstance(found, str) else ""


def lenient_json(data: str | bytes) -> Json:
    """Return the value of a JSON text, even one with control characters in strings, lone surrogates or broken UTF-8.

    Raises:
        ValueError: it is not JSON even so, or is nested too deeply.
    """
    value: Json
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        text = data if isinstance(data, str) else data.decode(errors="replace")
        try:
            value = json.loads(without_surrogates(parsed(text, strict=False)))
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
    return value


def without_surrogates(value: object) -> str:
    """Return the value as JSON text, with U+FFFD in place of lone surrogates."""
    return json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
