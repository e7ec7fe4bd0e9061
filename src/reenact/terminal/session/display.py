"""The screen of a terminal, shared between threads, and updates of it, which are held back until they are complete."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from reenact.terminal.screen.model import Screen

if TYPE_CHECKING:
    from reenact.terminal.screen.engine import Engine

T = TypeVar("T")
_LONGEST_YIELD = 0.01
"""Maximum number of seconds to let waiting threads go first."""
_YIELD_INTERVAL = 0.0002
_BEGIN = b"\x1b[?2026h"
_END = b"\x1b[?2026l"
_PARTS = tuple(_BEGIN[:length] for length in reversed(range(1, len(_BEGIN))))
"""What may become the beginning of an update when more output arrives."""
LONGEST = 1.0
"""Seconds after which an update that has not ended is shown anyway, as in Ghostty."""
_LARGEST = 1024 * 1024
"""Maximum number of bytes that are held back."""


class Updates:
    """Holds back the output of a synchronized update (private mode 2026) until its end has arrived."""

    def __init__(self) -> None:
        self._held = b""
        self._latest = 0.0

    @property
    def is_open(self) -> bool:
        """Whether output is held back."""
        return bool(self._held)

    def finished(self, data: bytes, now: float) -> bytes:
        """Add output; return what can be shown: everything before an open update, which is included if it is late."""
        output = self._held + data
        begin = output.find(_BEGIN, output.rfind(_END) + 1)
        if begin == -1:
            begin = next((len(output) - len(part) for part in _PARTS if output.endswith(part)), -1)
        if begin or not self._held:  # the update is a new one
            self._latest = now + LONGEST
        if begin == -1 or now >= self._latest or len(output) - begin > _LARGEST:
            begin = len(output)
        self._held = output[begin:]
        return output[:begin]

    def rest(self) -> bytes:
        """Return what is held back, since no more output comes."""
        held, self._held = self._held, b""
        return held


class Display:
    """An engine behind a lock, for any thread. After `close`, the last screen remains available."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.RLock()
        self._waiting: deque[None] = deque()
        self._screen: Screen | None = None
        self._is_closed = False

    def feed(self, data: bytes, record: Callable[[bytes], None]) -> bytes:
        """Process output, calling `record` with it under the same lock; return the terminal's replies."""
        # A lock that is released and acquired again at once does not go to the threads that wait for it.
        latest = time.monotonic() + _LONGEST_YIELD
        while self._waiting and time.monotonic() < latest:
            time.sleep(_YIELD_INTERVAL)
        with self._lock:
            self._screen = None
            try:
                return self._engine.feed(data)
            finally:
                record(data)

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
            self._screen = None
            return self._engine.resize(cols, rows)

    def ask(self, question: Callable[[Engine], T]) -> T:
        """Ask the engine while no output is processed."""
        with self.locked():
            return question(self._engine)

    def screen(self) -> Screen:
        """Return a snapshot of the screen."""
        with self.locked():
            if self._screen is None:
                self._screen = self._engine.screen()
            return self._screen

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
