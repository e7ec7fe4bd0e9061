"""The live line: shows below the answer how the answer progresses and what is typed meanwhile."""

from __future__ import annotations

import os
import re
import select
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, TextIO

from rich.cells import cell_len
from rich.console import Console as Screen

from reenact.cli.editor.keyboard import TypedAhead
from reenact.cli.interrupts import around_suspension, interrupt_once
from reenact.cli.render.flow import Pens, can_be_styled, can_show, size_of
from reenact.domain.legible import display_safe

_DELAY = 0.15
"""Seconds before the line appears."""
_PERIOD = 0.1
"""Seconds between two frames."""
_BRIEF = 0.5
"""Seconds that a text must stream before the line appears below it; short answers are shown without it."""
_NARROWEST = 8
"""Minimum width of the terminal in columns."""
_LOWEST = 3
"""Minimum height of the terminal in rows, to show the line below a line of the answer."""
_TAB = 8
_GLYPHS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_GLYPHS_IN_ASCII = "|/-\\"
_ENTER, _ENTER_IN_ASCII = "↵", "/"
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_ERASE = "\x1b[J"
"""Erases from the cursor to the end of the screen: the cursor is where the answer continues, and only the live line
follows.
"""
_MAKE_ROOM = "\x1bD\x1b[A"
"""Scrolls if the cursor is in the last row, and leaves the cursor at the same text."""
_BELOW, _BACK = "\x1b7\x1b[B\r", "\x1b8"
_SEQUENCES = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")


class LiveLine:
    """Shows on a terminal, for example, `⠹ writing (3 s, ~340 tokens, claude-x) > what is typed`.

    The line is drawn below the answer. The cursor stays where the answer continues, so that one sequence erases the
    line whatever the terminal's width becomes. Text that only extends the current row leaves the line in place; any
    other write to one of the streams erases it and draws the next frame in the same write. The line is not shown below
    a line of the answer that fills its row. The cursor is hidden while the line is shown.

    One thread draws the line and reads the keyboard. The lock is held while that thread draws, and by any thread that
    writes to one of the streams.
    """

    _wake: tuple[int, int] | None = None
    _thread: threading.Thread | None = None
    _shown: object = None
    """What the line below a text shows, without the token count: while this is the same, the line is not redrawn."""

    doing = "waiting"
    model = ""
    tokens = 0
    """Number of tokens that the model has written, partly estimated."""

    is_escaped = False
    """Whether Esc has interrupted the answer."""

    _is_over = False
    _is_paused = False
    _is_drawn = False
    _column = 0
    """Column in which the answer continues; an upper limit if the row has tabs."""

    _since = 0.0
    _text_since = 0.0

    def __init__(self, screen: Screen, others: Sequence[TextIO], typed: TypedAhead | None = None) -> None:
        """Attach to the screen's stream and to the streams `others` it, as far as they are terminals (the same one)."""
        self._screen = screen
        self.is_enabled = can_be_styled(screen)
        self._typed = typed
        self._streams = {id(stream): stream for stream in (screen.file, *others) if stream.isatty()}.values()
        self._write: Callable[[str], object] = screen.file.write
        self._lock = threading.RLock()
        self._frame = -1
        is_plain = not can_show(screen, f"{_GLYPHS}{_ENTER}")
        self._glyphs, self._enter = (_GLYPHS_IN_ASCII, _ENTER_IN_ASCII) if is_plain else (_GLYPHS, _ENTER)
        self._before, self._after = Pens(screen)("dim")

    @contextmanager
    def showing(self) -> Generator[None]:
        """Show the line during the block, but not while the process is suspended."""
        with around_suspension(self.pause, self.go_on):
            self.start()
            try:
                yield
            finally:
                self.stop()

    def start(self) -> None:
        """Start showing the line, unless the screen is not a terminal with styles. Idempotent."""
        if self._thread is not None or not self.is_enabled:
            return
        self._is_over = self._is_paused = self.is_escaped = False
        self._column = 0
        self._since = time.monotonic()
        self._write = self._screen.file.write
        for stream in self._streams:
            vars(stream)["write"] = self._wrapped_write(stream)
        if self._typed is not None:
            self._typed.begin()
        self._wake = os.pipe()
        self._thread = threading.Thread(target=self._run, args=(self._wake[0],), name="reenact-live-line", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Erase the line, show the cursor, and hand what was typed to the next editor. Idempotent."""
        thread, self._thread = self._thread, None
        if thread is None or self._wake is None:
            return
        try:
            self._is_over = True
            os.write(self._wake[1], b"x")
            thread.join()
        finally:
            self._is_over = True
            for descriptor in self._wake:
                os.close(descriptor)
            if self._typed is not None:
                self._typed.end()
            for stream in self._streams:
                vars(stream).pop("write", None)
            self._hide()

    def pause(self) -> None:
        """Hide the line until `go_on` is called."""
        with self._lock:
            self._is_paused = True
            self._hide()

    def go_on(self) -> None:
        """Let the line appear again after `pause`."""
        with self._lock:
            self._is_paused = False

    def begin_text(self) -> None:
        """Record that a text of the answer begins now."""
        self._text_since = time.monotonic()

    def _wrapped_write(self, stream: IO[str]) -> Callable[[str], int]:
        """Return a `write` for the stream that erases and redraws the line as necessary."""
        write = stream.write

        def others(text: str) -> int:
            with self._lock:
                before = self._column
                self._track_column(text)
                is_longer = before and "\n" not in text and self._column < size_of(self._screen)[0]
                if not text or not self._is_drawn or is_longer:
                    return write(text)
                frame = self._next_frame() if self._is_due() else ""
                self._is_drawn = bool(frame)
                write(f"{_ERASE}{text}{frame or _SHOW_CURSOR}")
                stream.flush()  # so that no frame gets ahead of it through another stream
                return len(text)

        return others

    def _track_column(self, text: str) -> None:
        """Update the column in which the answer continues."""
        _, ended, last = _SEQUENCES.sub("", text).rpartition("\n")
        self._column = (0 if ended else self._column) + cell_len(last) + (_TAB - 1) * last.count("\t")

    def _is_due(self) -> bool:
        """Return whether the line may appear by now."""
        is_typed = self._typed is not None and self._typed.text
        now = time.monotonic()
        is_brief = bool(self._column) and now - self._text_since < _BRIEF
        return now - self._since >= _DELAY and (bool(is_typed) or not is_brief)

    def _run(self, woken: int) -> None:
        with suppress(OSError, ValueError):  # the terminal may be gone
            while True:
                self._listen(woken)
                with self._lock:
                    if self._is_over:
                        return
                    if not self._is_paused and self._is_due():
                        self._draw()

    def _listen(self, woken: int) -> None:
        """Read what is typed until the next frame is due, or until the wake-up pipe has data."""
        typed = self._typed
        keyboard = [] if typed is None or self._is_paused else typed.descriptors
        ready, _, _ = select.select([woken, *keyboard], [], [], _PERIOD)
        if typed is None or not keyboard or woken in ready:
            return
        if ready:
            typed.read()
        elif typed.is_escape() and not self.is_escaped:
            self.is_escaped = interrupt_once()

    def _draw(self) -> None:
        if self._is_drawn and self._column and self._shown == self._content():
            return
        self._frame += 1
        frame = self._next_frame()
        if frame:
            hide = "" if self._is_drawn else _HIDE_CURSOR
            self._is_drawn = True
            self._write(f"{hide}{frame}")
            self._screen.file.flush()
        else:
            self._hide()

    def _hide(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            self._write(f"{_ERASE}{_SHOW_CURSOR}")
            self._screen.file.flush()

    def _next_frame(self) -> str:
        """Return the text that draws the line; empty if there is no room for it."""
        width, height = size_of(self._screen)
        if width < _NARROWEST or (self._column and (self._column >= width or height < _LOWEST)):
            return ""
        self._shown = self._content()
        status, typed = self._status_and_typed(int(time.monotonic() - self._since), width - 1)
        line = f"{self._before}{status}{self._after}{typed}\x1b[K"
        return f"{_MAKE_ROOM}{_BELOW}{line}{_BACK}" if self._column else f"\r{line}\r"

    def _content(self) -> tuple[object, ...]:
        typed = "" if self._typed is None else self._typed.text
        return int(time.monotonic() - self._since), self.doing, self.model, typed, size_of(self._screen)

    def _status_and_typed(self, seconds: int, width: int) -> tuple[str, str]:
        """Return the status and the typed text, together at most `width` columns; the typed text has priority."""
        glyph = self._glyphs[self._frame % len(self._glyphs)]
        typed = "" if self._typed is None else self._typed.text.replace("\n", self._enter)
        if typed:
            typed = _end_of(f" > {display_safe(typed)}", " > ", width - len(glyph))
        facts = [
            f"{seconds} s" if seconds else "",
            f"~{self.tokens:,} tokens" if self.tokens else "",
            display_safe(self.model),
        ]
        told = [fact for fact in facts if fact]
        status = glyph
        for count in range(len(told), -1, -1):
            others = f" ({', '.join(told[:count])})" if count else ""
            status = f"{glyph} {self.doing}{others}"
            if cell_len(status) + cell_len(typed) <= width:
                return status, typed
        return (glyph if typed else status[:width]), typed


def _end_of(text: str, head: str, width: int) -> str:
    """Return the text in at most `width` columns: its head, and as much of its end as fits."""
    if cell_len(text) <= width:
        return text
    end = text.removeprefix(head)
    while end and cell_len(end) > width - len(head) - 1:
        end = end[max(1, (cell_len(end) - width) // 2) :]
    return f"{head}…{end}"
