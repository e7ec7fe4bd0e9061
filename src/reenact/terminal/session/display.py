"""What a terminal shows and what is recorded of it, for several threads."""

from __future__ import annotations

import threading
import time

from reenact.terminal.screen.model import Engine, Modes, Screen
from reenact.terminal.screen.recording import Recording
from reenact.terminal.status import ExitStatus


class Display:
    """An engine, used by one thread at a time. When it is closed, what it showed last stays."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.RLock()
        self._drawn = 0
        self._screen: tuple[int, Screen] | None = None
        self._is_closed = False

    def feed(self, data: bytes) -> bytes:
        """Take what the program wrote; return what a terminal answers."""
        with self._lock:
            self._drawn += 1
            return self._engine.feed(data)

    def resize(self, cols: int, rows: int) -> None:
        """Give the screen another size, unless it is closed."""
        with self._lock:
            if not self._is_closed:
                self._drawn += 1
                self._engine.resize(cols, rows)

    def screen(self) -> Screen:
        """Return the screen as it is."""
        with self._lock:
            if self._screen is None or self._screen[0] != self._drawn:
                self._screen = self._drawn, self._engine.screen()
            return self._screen[1]

    def text(self) -> str:
        """Return the text of the screen."""
        with self._lock:
            return self.screen().text if self._is_closed else self._engine.text()

    def modes(self) -> Modes:
        """Return what the program has asked of its terminal."""
        with self._lock:
            return self.screen().modes if self._is_closed else self._engine.modes()

    def close(self) -> None:
        """Keep the last screen, and release the engine. Idempotent."""
        with self._lock:
            if not self._is_closed:
                try:
                    self.screen()
                finally:
                    self._is_closed = True
                    self._engine.close()


class Recorder:
    """Adds to a recording what happens, with the seconds since the start; of the output no more than `limit` bytes."""

    def __init__(self, recording: Recording, limit: int) -> None:
        self._recording = recording
        self._left = limit
        self._lock = threading.RLock()
        self._began = time.monotonic()

    def output(self, data: bytes) -> None:
        """Add what the program wrote."""
        with self._lock:
            if self._left > 0:
                self._recording.add_output(self._now, data)
                self._left -= len(data)
                if self._left <= 0:
                    self._recording.mark("the output behind this was too much to be recorded", self._now)

    def input(self, data: bytes) -> None:
        """Add what was written to the program."""
        with self._lock:
            self._recording.add_input(self._now, data)

    def resized(self, cols: int, rows: int) -> None:
        """Add that the terminal has another size."""
        with self._lock:
            self._recording.add_resize(self._now, cols, rows)

    def ended(self, status: ExitStatus) -> None:
        """Add how the program has ended."""
        with self._lock:
            self._recording.add_exit(self._now, status)

    @property
    def _now(self) -> float:
        return time.monotonic() - self._began
