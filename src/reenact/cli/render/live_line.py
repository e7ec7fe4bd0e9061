"""The live line: how the answer is getting on, and what is typed meanwhile, in the row below the answer."""

from __future__ import annotations

import contextlib
import os
import re
import select
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, TextIO

from rich.cells import cell_len
from rich.console import Console as Screen

from reenact.cli.editor.keyboard import TypedAhead
from reenact.cli.interrupts import interrupt_once
from reenact.cli.render.flow import Pens, can_show, size_of
from reenact.domain.legible import harmless

_PATIENCE = 0.15
"""Seconds before it appears."""
_PERIOD = 0.1
"""Seconds between two frames."""
_BRIEF = 0.5
"""Seconds that a text streams before the line is below it: a short answer is just written."""
_NARROWEST = 8
"""In fewer columns nothing is shown."""
_LOWEST = 3
"""In fewer rows nothing is shown below a line of the answer."""
_TAB = 8
_GLYPHS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_GLYPHS_IN_ASCII = "|/-\\"
_ENTER, _ENTER_IN_ASCII = "↵", "/"
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_ERASE = "\x1b[J"
"""Erases from the cursor on: that stands where the answer goes on, and the live line is all there is behind it."""
_MAKE_ROOM = "\x1bD\x1b[A"
"""Scrolls if the cursor is in the last row, and leaves it at the end of the same text."""
_BELOW, _BACK = "\x1b7\x1b[B\r", "\x1b8"
_SEQUENCES = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")


class LiveLine:
    """Shows on a terminal, for example, `⠹ writing (3 s, ~340 tokens, claude-x) > what is typed`.

    It stands below the answer. The cursor stays where the answer goes on, so that whatever the width of the terminal
    becomes, one sequence erases the line. Text that only makes its row longer leaves it alone; anything else that is
    written to the streams beside it is written together with its erasure and its next frame. It is not below a line of
    the answer that fills its row, and the cursor is hidden as long as it is there.

    One thread draws it and reads the keyboard; the lock is held by who writes to one of the streams.
    """

    _wake: tuple[int, int] | None = None
    _thread: threading.Thread | None = None
    _shown: object = None
    """What the line below a text says, but for the tokens: while that is the same it is not drawn again."""

    doing = "waiting"
    model = ""
    tokens = 0
    """How many tokens the model has written, as far as that can be told."""

    is_escaped = False
    """Whether Esc has interrupted the answer."""

    _is_over = False
    _is_paused = False
    _is_drawn = False
    _column = 0
    """Where the answer goes on: at this column, or further left if it has tabs."""

    _since = 0.0
    _text_since = 0.0

    def __init__(self, screen: Screen, beside: Sequence[TextIO], typed: TypedAhead | None = None) -> None:
        """Take the terminal, the streams, its own among them, of which those that are terminals lead there."""
        self._screen = screen
        self._typed = typed
        self._streams = {id(stream): stream for stream in (screen.file, *beside) if stream.isatty()}.values()
        self._write: Callable[[str], object] = screen.file.write
        self._lock = threading.RLock()
        self._frame = -1
        is_plain = not can_show(screen, f"{_GLYPHS}{_ENTER}")
        self._glyphs, self._enter = (_GLYPHS_IN_ASCII, _ENTER_IN_ASCII) if is_plain else (_GLYPHS, _ENTER)
        self._before, self._after = Pens(screen)("dim")

    def start(self) -> None:
        """Let it appear from now on. Idempotent."""
        if self._thread is not None:
            return
        self._is_over = self._is_paused = self.is_escaped = False
        self._column = 0
        self._since = time.monotonic()
        self._write = self._screen.file.write
        for stream in self._streams:
            vars(stream)["write"] = self._beside(stream)
        if self._typed is not None:
            self._typed.begin()
        self._wake = os.pipe()
        self._thread = threading.Thread(target=self._run, args=(self._wake[0],), name="reenact-live-line", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Let it be gone, the cursor there again, and what was typed be found by who asks next. Idempotent."""
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
        """Let it not appear until it may `go_on`."""
        with self._lock:
            self._is_paused = True
            self._hide()

    def go_on(self) -> None:
        """Let it appear again."""
        with self._lock:
            self._is_paused = False

    def begin_text(self) -> None:
        """Take note that a text of the answer begins."""
        self._text_since = time.monotonic()

    def _beside(self, stream: IO[str]) -> Callable[[str], int]:
        """Return what writes to a stream and takes care of what is shown here."""
        write = stream.write

        def beside(text: str) -> int:
            with self._lock:
                before = self._column
                self._note(text)
                is_longer = before and "\n" not in text and self._column < size_of(self._screen)[0]
                if not text or not self._is_drawn or is_longer:
                    return write(text)
                frame = self._next_frame() if self._is_due() else ""
                self._is_drawn = bool(frame)
                write(f"{_ERASE}{text}{frame or _SHOW_CURSOR}")
                stream.flush()  # before a frame can come through another stream
                return len(text)

        return beside

    def _note(self, text: str) -> None:
        """Take note of the column in which the text ends."""
        _, ended, last = _SEQUENCES.sub("", text).rpartition("\n")
        self._column = (0 if ended else self._column) + cell_len(last) + (_TAB - 1) * last.count("\t")

    def _is_due(self) -> bool:
        """Return whether it may appear by now."""
        is_typed = self._typed is not None and self._typed.text
        now = time.monotonic()
        is_brief = bool(self._column) and now - self._text_since < _BRIEF
        return now - self._since >= _PATIENCE and (bool(is_typed) or not is_brief)

    def _run(self, woken: int) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal may have gone
            while True:
                self._listen(woken)
                with self._lock:
                    if self._is_over:
                        return
                    if not self._is_paused and self._is_due():
                        self._draw()

    def _listen(self, woken: int) -> None:
        """Take what is typed until the next frame is due, or until woken."""
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
        if self._is_drawn and self._column and self._shown == self._said():
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
        """Return what draws the line; nothing if there is no room for it."""
        width, height = size_of(self._screen)
        if width < _NARROWEST or (self._column and (self._column >= width or height < _LOWEST)):
            return ""
        self._shown = self._said()
        status, typed = self._told(int(time.monotonic() - self._since), width - 1)
        line = f"{self._before}{status}{self._after}{typed}\x1b[K"
        return f"{_MAKE_ROOM}{_BELOW}{line}{_BACK}" if self._column else f"\r{line}\r"

    def _said(self) -> tuple[object, ...]:
        typed = "" if self._typed is None else self._typed.text
        return int(time.monotonic() - self._since), self.doing, self.model, typed, size_of(self._screen)

    def _told(self, seconds: int, width: int) -> tuple[str, str]:
        """Return the status and what is typed, together in so many columns: what is typed has room first."""
        glyph = self._glyphs[self._frame % len(self._glyphs)]
        typed = "" if self._typed is None else self._typed.text.replace("\n", self._enter)
        if typed:
            typed = _end_of(f" > {harmless(typed)}", " > ", width - len(glyph))
        facts = [
            f"{seconds} s" if seconds else "",
            f"~{self.tokens:,} tokens" if self.tokens else "",
            harmless(self.model),
        ]
        told = [fact for fact in facts if fact]
        status = glyph
        for count in range(len(told), -1, -1):
            beside = f" ({', '.join(told[:count])})" if count else ""
            status = f"{glyph} {self.doing}{beside}"
            if cell_len(status) + cell_len(typed) <= width:
                return status, typed
        return (glyph if typed else status[:width]), typed


def _end_of(text: str, head: str, width: int) -> str:
    """Return the text in at most so many columns: behind its head, as much of its end as there is room for."""
    if cell_len(text) <= width:
        return text
    end = text.removeprefix(head)
    while end and cell_len(end) > width - len(head) - 1:
        end = end[max(1, (cell_len(end) - width) // 2) :]
    return f"{head}…{end}"
