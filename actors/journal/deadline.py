"""How long whoever reads a log may take altogether; after that, nothing more is read for them."""

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
    """Let what is done here, on this thread, read logs for so many seconds."""
    token = _ENDS.set((time.monotonic() + seconds, seconds))
    try:
        yield
    finally:
        _ENDS.reset(token)


def must_be_in_time() -> None:
    """Raise `ReadTooLongError` if the time is over."""
    ends, seconds = _ENDS.get()
    if ends is not math.inf and time.monotonic() > ends:
        raise ReadTooLongError(seconds)


def seconds_left() -> float | None:
    """Return the seconds that are left; None if there is no end."""
    ends, _ = _ENDS.get()
    return None if ends is math.inf else max(0.0, ends - time.monotonic())
