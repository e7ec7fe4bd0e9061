"""JSON as other programs send it."""

from __future__ import annotations

import json
from typing import TypeGuard

import msgspec

from reenact.domain.plain import Json, JsonDict, parsed


def is_json_object(value: object) -> TypeGuard[JsonDict]:
    """Return whether a decoded value is an object, not a list or a scalar."""
    return isinstance(value, dict)


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
        value = json.loads(without_surrogates(parsed(text, strict=False)))
    return value


def without_surrogates(value: object) -> str:
    """Return the value as JSON text, with U+FFFD in place of lone surrogates."""
    return json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
