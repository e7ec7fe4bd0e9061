"""Looks into values of JSON of which only the test knows what they hold."""

from __future__ import annotations

from typing import TypeVar

from reenact.domain.plain import is_mapping, is_sequence

T = TypeVar("T")


def at(kind: type[T], value: object, *steps: str | int) -> T:
    """Return what stands in the value at the end of the steps, and is of this kind."""
    for step in steps:
        if is_mapping(value):
            value = value[step]
        else:
            assert is_sequence(value)
            assert isinstance(step, int)
            value = value[step]
    assert isinstance(value, kind)
    return value
