"""How long a server that could not be reached is left alone before it is tried again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from reenact.domain.errors import ReenactError

FIRST: Final = 1.0
"""Seconds after the first failure; twice as long after each further one."""
LONGEST: Final = 60.0


class Pause:
    """Keeps an agent from waiting in each turn for a server that is not there; until it is over, the error is the same.

    The clock tells seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._error: ReenactError | None = None
        self._seconds = 0.0
        self._until = 0.0

    def check(self) -> None:
        """Raise the error of the last attempt, if that was not long ago."""
        if self._error is not None and self._clock() < self._until:
            raise self._error.with_traceback(None)

    def begin(self, error: ReenactError) -> None:
        """Wait from now on; several who hear of the same failure wait no longer for it."""
        if error is not self._error:
            self._error = error
            self._seconds = min(LONGEST, max(FIRST, 2 * self._seconds))
            self._until = self._clock() + self._seconds

    def end(self) -> None:
        """Forget what has failed: all is well."""
        self._error = None
        self._seconds = 0.0
