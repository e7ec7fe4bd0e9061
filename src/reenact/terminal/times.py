"""How long things may be made to take, in seconds."""

from __future__ import annotations

from typing import Final, TypeGuard

LONGEST: Final = 86_400
"""A day: no test waits for longer, and clocks and locks do not know all numbers that are larger."""


def is_time(value: object) -> TypeGuard[float]:
    """Return whether this can be a time: a number of seconds from 0 to a day."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LONGEST
