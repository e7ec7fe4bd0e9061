"""Values out of which something was taken: marks stand in its place, and what says it as well may say more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from reenact.domain.plain import is_mapping, is_sequence

MARK: Final = "[redacted: "
"""What every mark begins with."""

_encode: Final = msgspec.msgpack.Encoder(enc_hook=repr).encode


def same(one: object, other: object) -> bool:
    """Return whether plain values are the same; what is no number is the same as itself."""
    return one == other or _encode(one) == _encode(other)


def agree(one: object, other: object) -> bool:
    """Return whether plain values are the same but for what was taken out of one of them, or of both."""
    if _is_mark(one) or _is_mark(other):
        return True
    if _is_nothing(one) or _is_nothing(other):  # what was taken out without a mark
        return True
    if is_mapping(one) and is_mapping(other):
        return _mappings(one, other)
    if is_sequence(one) and is_sequence(other):
        return _sequences(one, other)
    return same(one, other)


def _mappings(one: Mapping[object, object], other: Mapping[object, object]) -> bool:
    if any(_is_mark(key) for key in (*one, *other)):
        return True
    return one.keys() == other.keys() and all(agree(value, other[key]) for key, value in one.items())


def _sequences(one: Sequence[object], other: Sequence[object]) -> bool:
    return len(one) == len(other) and all(map(agree, one, other))


def _is_nothing(value: object) -> bool:
    return value is None or ((is_mapping(value) or is_sequence(value)) and not value)


def _is_mark(value: object) -> bool:
    """Return whether it is text with a mark in it, or what stands in the place of a whole object."""
    if isinstance(value, str):
        return MARK in value
    return is_mapping(value) and "redacted" in value and _is_mark(value["redacted"])
