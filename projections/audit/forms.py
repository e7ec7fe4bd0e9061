"""Events as a reader wants them, by the names of their fields; and what turns their bytes into events and back."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from math import isfinite
from types import NoneType
from typing import Any, Final, Protocol

import msgspec

from reenact.domain.messages import instant
from reenact.domain.plain import is_mapping, is_sequence
from reenact.domain.tools import is_array, is_object

_PLAIN: Final = frozenset({str, int, bool, NoneType})


class Forms(Protocol):
    """The stored forms of a log's events, as a journal's codec knows them."""

    def decode(self, topic: str, state: bytes) -> tuple[int, Any]:
        """Return when the event was recorded, and the event as today's type, or raise `LogUnusableError`."""
        ...

    def encode(self, event: object, recorded_at: int) -> tuple[str, bytes]:
        """Return the topic and the bytes of the event, or raise `TypeError` or `ValueError`."""
        ...


def named(value: object) -> Any:  # noqa: ANN401 - plain data of any type
    """Return the value as plain data, with the fields of structs by their names."""
    try:
        return _named(value)
    except RecursionError:  # the log holds what is nested more deeply than Python's functions may be
        return _named_however_deep(value)


def _named(value: object) -> Any:  # noqa: ANN401 - likewise
    if type(value) in _PLAIN:
        return value
    if isinstance(value, msgspec.Struct):
        tag, names = _known(type(value))
        fields = {} if tag is None else {tag[0]: tag[1]}
        for name in names:
            fields[name] = _named(getattr(value, name))
        return fields
    if isinstance(value, float):
        return value if isfinite(value) else None
    if is_mapping(value):
        return {str(key): _named(one) for key, one in value.items()}
    if is_sequence(value):
        return [_named(one) for one in value]
    return msgspec.to_builtins(value)


def _named_however_deep(value: object) -> Any:  # noqa: ANN401 - likewise
    """Return the same, slower: each container is made with its places, which are filled one after the other."""
    whole: list[Any] = [value]
    places: list[tuple[Any, Any]] = [(whole, 0)]
    while places:
        container, place = places.pop()
        one = container[place]
        if isinstance(one, msgspec.Struct):
            tag, names = _known(type(one))
            made: Any = ({} if tag is None else {tag[0]: tag[1]}) | {name: getattr(one, name) for name in names}
            inner: Any = names
        elif is_mapping(one):
            made = {str(key): part for key, part in one.items()}
            inner = made
        elif is_sequence(one):
            made = list(one)
            inner = range(len(made))
        else:
            made, inner = _named(one), ()
        container[place] = made
        places.extend((made, part) for part in inner)
    return whole[0]


@cache
def _known(kind: type[msgspec.Struct]) -> tuple[tuple[str, Any] | None, tuple[str, ...]]:
    """Return the tag of a struct, with its name, and the names of its fields."""
    config = kind.__struct_config__
    return None if config.tag is None else (config.tag_field or "type", config.tag), kind.__struct_fields__


def agree(shown: object, own: object) -> bool:
    """Return whether what was shown of a value, perhaps by a version that knew fewer fields, is what it says."""
    pairs = [(shown, own)]
    while pairs:
        one, other = pairs.pop()
        if type(one) is not type(other):
            return False
        if is_object(one) and is_object(other):
            if not one.keys() <= other.keys():
                return False
            pairs.extend((part, other[name]) for name, part in one.items())
        elif is_array(one) and is_array(other):
            if len(one) != len(other):
                return False
            pairs.extend(zip(one, other, strict=True))
        elif one != other:
            return False
    return True


def time_of(recorded_at: int) -> datetime | None:
    """Return the time that is so many microseconds after 1970-01-01 UTC, None if no calendar has it."""
    try:
        return instant(recorded_at)
    except OverflowError:
        return None
