"""A sign of life while nothing is written: it changes its own characters in place, and leaves no trace."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, TextIO

from rich.console import Console as Screen

from reenact.cli.prose.screens import Pens, can_show, width_of

_PATIENCE: Final = 0.15
"""Seconds without anything written before it appears."""
_PERIOD: Final = 0.1
"""Seconds between two frames."""
_WIDEST: Final = 24
_NARROWEST: Final = 8
"""In fewer columns nothing is shown."""
_GLYPHS: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_GLYPHS_IN_ASCII: Final = "|/-\\"
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_ERASE: Final = "\r\x1b[K"


class Spinner:
    """Shows on a terminal that something is under way, for example `⠹ waiting (3 s)`, when nothing else appears.

    What anybody writes to the streams beside it erases it first, so that neither is ever in the middle of the other.
    While a line is unfinished it does not appear. The cursor is hidden as long as it is there.
    """

    def __init__(self, screen: Screen, beside: Sequence[TextIO]) -> None:
        """Take the terminal, and the streams, its own among them, that lead there."""
        self.doing = "waiting"
        self._screen = screen
        self._streams = {id(stream): stream for stream in (screen.file, *beside)}.values()
        self._write: Callable[[str], object] = screen.file.write
        self._changed = threading.Condition(threading.RLock())
        self._thread: threading.Thread | None = None
        self._is_over = False
        self._is_paused = False
        self._line_is_open = False
        self._since = 0.0
        self._drawn = 0
        self._frame = 0
        self._glyphs = _GLYPHS if can_show(screen, _GLYPHS) else _GLYPHS_IN_ASCII
        self._before, self._after = Pens(screen)("dim")

    def start(self) -> None:
        """Let it appear, from now on, when nothing is written. Idempotent."""
        if self._thread is not None:
            return
        self._is_over = self._is_paused = self._line_is_open = False
        self._since = time.monotonic()
        self._write = self._screen.file.write
        for stream in self._streams:
            vars(stream)["write"] = self._beside(stream.write)
        self._thread = threading.Thread(target=self._run, name="reenact-spinner", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Let it be gone, and the cursor there again. Idempotent."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            with self._changed:
                self._is_over = True
                self._changed.notify()
            thread.join()
        finally:
            self._is_over = True
            for stream in self._streams:
                vars(stream).pop("write", None)
            self._erase()

    def pause(self) -> None:
        """Let it not appear until it may `go_on`."""
        with self._changed:
            self._is_paused = True
            self._erase()

    def go_on(self) -> None:
        """Let it appear again."""
        with self._changed:
            self._is_paused = False
            self._changed.notify()

    def _beside(self, write: Callable[[str], int]) -> Callable[[str], int]:
        """Return what writes to a stream and takes care of what is shown here."""

        def beside(text: str) -> int:
            with self._changed:
                if not text:
                    return write(text)
                self._erase()
                was_open, self._line_is_open = self._line_is_open, not text.endswith("\n")
                self._since = time.monotonic()
                if was_open and not self._line_is_open:
                    self._changed.notify()
                return write(text)

        return beside

    def _run(self) -> None:
        with contextlib.suppress(OSError, ValueError), self._changed:  # the terminal may have gone
            while not self._is_over:
                if self._line_is_open or self._is_paused:
                    self._changed.wait()
                    continue
                waited = time.monotonic() - self._since
                if waited < _PATIENCE:
                    self._changed.wait(_PATIENCE - waited)
                    continue
                self._draw(int(waited))
                self._changed.wait(_PERIOD)

    def _draw(self, seconds: int) -> None:
        width = width_of(self._screen)
        if width < _NARROWEST:
            self._erase()
            return
        glyph = self._glyphs[self._frame % len(self._glyphs)]
        self._frame += 1
        told = f"{glyph} {self.doing} ({seconds} s)" if seconds else f"{glyph} {self.doing}"
        told = told[: min(_WIDEST, width - 1)]
        hide = "" if self._drawn else _HIDE_CURSOR
        self._write(f"{hide}\r{self._before}{told.ljust(self._drawn)}{self._after}")
        self._screen.file.flush()
        self._drawn = len(told)

    def _erase(self) -> None:
        if self._drawn:
            self._drawn = 0
            self._write(f"{_ERASE}{_SHOW_CURSOR}")
            self._screen.file.flush()
