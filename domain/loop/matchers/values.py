"""What shape a value has that nobody has checked yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeGuard


def is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Return whether the value is what JSON calls an array."""
    return isinstance(value, list | tuple)


def is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    """Return whether the value is a mapping, from whatever to whatever."""
    return isinstance(value, Mapping)


def is_object(value: object) -> TypeGuard[Mapping[str, object]]:
    """Return whether the value is what JSON calls an object; that its keys are texts is taken for granted."""
    return isinstance(value, Mapping)
