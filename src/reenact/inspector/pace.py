"""How work in the background goes on: in short strokes with rests between them, and never while a page is made."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

STROKE: Final = 0.004
"""Seconds of work after which it rests."""
SHARE: Final = 3
"""It rests so many times as long as it has worked: a quarter of a processor at most is left to it."""
PATIENCE: Final = 1.0
"""Seconds that it waits for pages at most: a page that takes long must not stop it for good."""


class EndedError(Exception):
    """The work is to end."""


class Pace:
    """Slows down one thread for the sake of all others. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pages = 0
        self._is_ended = False
        self._since = time.monotonic()

    @contextmanager
    def page(self) -> Generator[None]:
        """Let the page go first that is made meanwhile."""
        with self._changed:
            self._pages += 1
        try:
            yield
        finally:
            with self._changed:
                self._pages -= 1
                self._changed.notify_all()

    def __call__(self) -> None:
        """Rest, if it is time for that.

        Raises:
            EndedError: the work is to end.
        """
        worked = time.monotonic() - self._since
        if worked < STROKE:
            return
        with self._changed:
            self._changed.wait_for(lambda: self._is_ended, min(SHARE * worked, PATIENCE))
            self._changed.wait_for(lambda: self._is_ended or not self._pages, PATIENCE)
            self._must_go_on()
        self._since = time.monotonic()

    def rest(self, seconds: float) -> None:
        """Rest so long, or until somebody calls; raises likewise."""
        with self._changed:
            self._must_go_on()
            self._changed.wait(seconds)
            self._must_go_on()
        self._since = time.monotonic()

    def call(self) -> None:
        """End a rest."""
        with self._changed:
            self._changed.notify_all()

    def end(self) -> None:
        """Have the work end. Idempotent."""
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()

    def _must_go_on(self) -> None:
        if self._is_ended:
            raise EndedError
