"""Looks into values of JSON of which only the test knows what they hold."""

from __future__ import annotations

from typing import Any, TypeVar

from reenact.domain.plain import is_mapping, is_sequence
from reenact.domain.tools import is_array, is_object

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


def object_at(value: object, *steps: str | int) -> dict[str, Any]:
    """Return the object that stands there."""
    found = at(object, value, *steps)
    assert is_object(found)
    return found


def array_at(value: object, *steps: str | int) -> list[Any]:
    """Return the array that stands there."""
    found = at(object, value, *steps)
    assert is_array(found)
    return found
