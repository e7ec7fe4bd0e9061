"""The screen of a terminal, shared between threads."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from reenact.terminal.screen.model import Screen
from reenact.terminal.session.updates import pieces

if TYPE_CHECKING:
    from reenact.terminal.screen.engine import Engine

T = TypeVar("T")
_PIECE = 65_536
"""Maximum number of bytes processed at a time, which takes a millisecond or two."""
_LONGEST_YIELD = 0.01
"""Maximum number of seconds to let waiting threads go first."""
_YIELD_INTERVAL = 0.0002


class Display:
    """An engine behind a lock, for any thread. After `close`, the last screen remains available."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.RLock()
        self._waiting: deque[None] = deque()
        self._updates = 0
        self._screen: tuple[int, Screen] | None = None
        self._is_closed = False

    def process(self, data: bytes, record: Callable[[bytes], None]) -> Iterator[bytes]:
        """Process output in pieces, calling `record` with each under the same lock; yield the terminal's replies.

        Other threads can read the screen between two pieces.
        """
        for piece in pieces(data, _PIECE):
            yield self._feed(piece, record)

    def _feed(self, piece: bytes, record: Callable[[bytes], None]) -> bytes:
        # A lock that is released and acquired again at once does not go to the threads that wait for it.
        latest = time.monotonic() + _LONGEST_YIELD
        while self._waiting and time.monotonic() < latest:
            time.sleep(_YIELD_INTERVAL)
        with self._lock:
            self._updates += 1
            try:
                return self._engine.feed(piece)
            finally:
                record(piece)

    @contextmanager
    def locked(self) -> Generator[None]:
        """Hold the lock: no output is processed meanwhile."""
        self._waiting.append(None)
        try:
            with self._lock:
                yield
        finally:
            self._waiting.pop()

    def resize(self, cols: int, rows: int) -> bytes:
        """Change the size of the screen, unless it is closed; return the report for the program."""
        with self.locked():
            if self._is_closed:
                return b""
            self._updates += 1
            return self._engine.resize(cols, rows)

    def ask(self, question: Callable[[Engine], T]) -> T:
        """Ask the engine while no output is processed."""
        with self.locked():
            return question(self._engine)

    def screen(self) -> Screen:
        """Return a snapshot of the screen."""
        with self.locked():
            if self._screen is None or self._screen[0] != self._updates:
                self._screen = self._updates, self._engine.screen()
            return self._screen[1]

    def text(self) -> str:
        """Return the text of the screen."""
        return self.screen().text

    def close(self) -> None:
        """Keep the last screen, and release the engine. Idempotent."""
        with self.locked():
            if not self._is_closed:
                try:
                    self.screen()
                finally:
                    self._is_closed = True
                    self._engine.close()
