"""The screen and the recording of a terminal, shared between threads."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from reenact.terminal.screen.model import Modes, Screen
from reenact.terminal.screen.recording import Recording
from reenact.terminal.status import ExitStatus

if TYPE_CHECKING:
    from reenact.terminal.screen.engine import Engine

_PIECE: Final = 65_536
"""Bytes that the engine is given at once: that takes a millisecond or two."""
_LONG: Final = 0.01
"""Seconds for which others may have their turn."""
_YIELD: Final = 0.0002
_MOST_EVENTS: Final = 200_000
"""Events of a recording, some 40 MB."""


class Display:
    """An engine, used by one thread at a time. When it is closed, what it showed last stays."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.RLock()
        self._waiting: deque[None] = deque()
        self._drawn = 0
        self._screen: tuple[int, Screen] | None = None
        self._is_closed = False

    def taken(self, data: bytes, note: Callable[[bytes], None]) -> Iterator[bytes]:
        """Take what the program wrote, in pieces, each noted in the same moment; yield what a terminal answers.

        Others have their turn between two pieces.
        """
        for start in range(0, len(data), _PIECE):
            yield self._feed(data[start : start + _PIECE], note)

    def _feed(self, piece: bytes, note: Callable[[bytes], None]) -> bytes:
        # A lock that is let go of and taken again at once is not given to who waits for it.
        latest = time.monotonic() + _LONG
        while self._waiting and time.monotonic() < latest:
            time.sleep(_YIELD)
        with self._lock:
            self._drawn += 1
            try:
                return self._engine.feed(piece)
            finally:
                note(piece)

    @contextmanager
    def held(self) -> Generator[None]:
        """Hold what is shown: as long as that lasts, nothing is taken in."""
        self._waiting.append(None)
        try:
            with self._lock:
                yield
        finally:
            self._waiting.pop()

    def resize(self, cols: int, rows: int) -> None:
        """Give the screen another size, unless it is closed."""
        with self.held():
            if not self._is_closed:
                self._drawn += 1
                self._engine.resize(cols, rows)

    def screen(self) -> Screen:
        """Return the screen as it is."""
        with self.held():
            if self._screen is None or self._screen[0] != self._drawn:
                self._screen = self._drawn, self._engine.screen()
            return self._screen[1]

    def text(self) -> str:
        """Return the text of the screen."""
        with self.held():
            return self.screen().text if self._is_closed else self._engine.text()

    def modes(self) -> Modes:
        """Return what the program has asked of its terminal."""
        with self.held():
            return self.screen().modes if self._is_closed else self._engine.modes()

    def close(self) -> None:
        """Keep the last screen, and release the engine. Idempotent."""
        with self.held():
            if not self._is_closed:
                try:
                    self.screen()
                finally:
                    self._is_closed = True
                    self._engine.close()


class Recorder:
    """Adds to a recording what happens, with the seconds since the start.

    Of the output no more than `limit` bytes are recorded, and as many of the input, in 200,000 events.
    """

    def __init__(self, recording: Recording, limit: int) -> None:
        self._recording = recording
        self._left = {"output": limit, "input": limit}
        self._events_left = _MOST_EVENTS
        self.lock = threading.RLock()
        self._began = time.monotonic()

    def output(self, data: bytes) -> None:
        """Add what the program wrote."""
        self._add("output", data, self._recording.add_output)

    def input(self, data: bytes) -> None:
        """Add what was written to the program."""
        self._add("input", data, self._recording.add_input)

    def resized(self, cols: int, rows: int) -> None:
        """Add that the terminal has another size."""
        with self.lock:
            if self._has_room():
                self._recording.add_resize(self._now, cols, rows)

    def ended(self, status: ExitStatus) -> None:
        """Add how the program has ended."""
        with self.lock:
            self._recording.add_exit(self._now, status)

    def _add(self, what: str, data: bytes, add: Callable[[float, bytes], None]) -> None:
        with self.lock:
            left = self._left[what]
            if left > 0 and self._has_room():
                add(self._now, data[:left])
                self._left[what] -= len(data)
                if self._left[what] <= 0:
                    self._say_too_much(what)

    def _has_room(self) -> bool:
        """Whether there is room for another event; it is taken."""
        if self._events_left == 1:
            self._say_too_much("session")
        self._events_left -= 1
        return self._events_left > 0

    def _say_too_much(self, of_what: str) -> None:
        self._recording.mark(f"the {of_what} behind this was too much to be recorded", self._now)

    @property
    def _now(self) -> float:
        return time.monotonic() - self._began
