"""How long something may take altogether, whatever it does in the meantime; it can also be called off."""

from __future__ import annotations

import threading
import time


class TimeLimit:
    """A moment by which all is to be over, this many seconds from now. Any thread may call it off, which ends pauses.

    Attributes:
        seconds: how long it was at the beginning.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self._off = threading.Event()

    @property
    def left(self) -> float:
        """How many seconds are left; 0 if none are, or it was called off."""
        return 0.0 if self._off.is_set() else max(0.0, self._end - time.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.left == 0

    @property
    def is_off(self) -> bool:
        """Whether it was called off."""
        return self._off.is_set()

    def call_off(self) -> None:
        """Let no time be left. Idempotent."""
        self._off.set()

    def pause(self, seconds: float) -> bool:
        """Wait for so long, or until all is to be over; return whether it was the former."""
        left = self.left
        return not self._off.wait(min(seconds, left)) and seconds <= left
