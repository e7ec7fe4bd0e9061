"""A time limit on reading logs, for all reads within a context."""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from reenact.domain.errors import ReadTooLongError

_ENDS: Final[ContextVar[tuple[float, float]]] = ContextVar("reading_ends", default=(math.inf, math.inf))


@contextmanager
def reading_for(seconds: float) -> Generator[None]:
    """Limit all log reads in this context to `seconds` altogether."""
    token = _ENDS.set((time.monotonic() + seconds, seconds))
    try:
        yield
    finally:
        _ENDS.reset(token)


def must_be_in_time() -> None:
    """Raise `ReadTooLongError` if the time limit has passed."""
    ends, seconds = _ENDS.get()
    if ends is not math.inf and time.monotonic() > ends:
        raise ReadTooLongError(seconds)


def seconds_left() -> float | None:
    """Return the remaining seconds, or None if there is no limit."""
    ends, _ = _ENDS.get()
    return None if ends is math.inf else max(0.0, ends - time.monotonic())
