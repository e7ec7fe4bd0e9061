"""Renders streamed Markdown on a terminal and writes each word once later text cannot change it."""

from __future__ import annotations

import re
from typing import Protocol

from rich.console import Console as Screen

from reenact.cli.output.control_characters import escape_hidden, show_escapes, strip_controls
from reenact.cli.render.blocks import BAR, BULLET, DONE, TO_DO, Kind, LineClassifier, LineStart
from reenact.cli.render.flow import WIDE, Flow, Pens, can_show, cells_of, width_of
from reenact.cli.render.incremental_inline import Inline
from reenact.cli.render.source import MOST as MOST_OF_SOURCE
from reenact.cli.render.source import Fence
from reenact.cli.render.tables import Rows

_PIECE = 4096
"""Maximum number of characters processed at a time: the time to cut a word off a text grows with the text."""
_UNDECIDED = 500
"""Number of buffered characters from which text is processed even without a blank."""
_DECISIVE = re.compile(rf"[ \t\n{WIDE}]")
"""New text without any of these rarely makes more of the buffered text final."""
_LINE = "─"
_LONGEST_RULE = 40
_HEADINGS = ("", "bold underline magenta", "bold magenta", "bold bright_blue", "bold cyan", "bold", "bold")
_DIM = "dim"


class _Rest(Protocol):
    """Continues a line whose beginning has been written."""

    def __call__(self, line: str, *, is_over: bool) -> str: ...


class StreamedMarkdown:
    """Shows Markdown as it streams. The same text gives the same screen, however it is split into pieces."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._pens = Pens(screen)
        self._out: list[str] = []
        self._flow = Flow(self._pens, self._out.append)
        self._in_ascii = not can_show(screen, f"{BULLET}{BAR}{TO_DO}{DONE}{_LINE}")
        self._restart()

    def write(self, text: str) -> None:
        """Add a piece of text; write what is final."""
        for begin in range(0, len(text), _PIECE):
            self._add(escape_hidden(strip_controls(text[begin : begin + _PIECE])))
        if self._out:
            self._send()

    def end(self) -> None:
        """Write everything that is held back and end the line. Later text begins a new document."""
        self._flow.width = width_of(self._screen)
        self._advance(is_over=True)
        self._end_rows()
        self._text.end_break(is_kept=True)
        self._restart()
        self._send()

    def _restart(self) -> None:
        self._buffer = ""
        self._lines = LineClassifier(in_ascii=self._in_ascii)
        self._text = Inline(self._flow)
        self._rest: _Rest | None = None
        self._fence: Fence | None = None
        self._rows: Rows | None = None
        self._head: LineStart | None = None
        self._blanks = 0
        self._needs_blank_line = False
        self._is_empty = True

    def _add(self, piece: str) -> None:
        self._buffer += piece
        if _DECISIVE.search(piece) or len(self._buffer) >= _UNDECIDED:
            self._flow.width = width_of(self._screen)
            self._advance(is_over=False)

    def _send(self) -> None:
        self._screen.file.write(show_escapes("".join(self._out)))
        self._screen.file.flush()
        self._out.clear()

    def _advance(self, *, is_over: bool) -> None:
        while True:
            line, found, later = self._buffer.partition("\n")
            if not found and not line and not (is_over and self._rest is not None):
                return
            rest = self._write_line(line, is_over=bool(found) or is_over)
            if not found:
                self._buffer = rest
                return
            self._buffer = later

    def _write_line(self, line: str, *, is_over: bool) -> str:
        """Write the final part of a line, or of its rest, and return what is not final; nothing if it `is_over`."""
        if self._rest is not None:
            return self._rest(line, is_over=is_over)
        if self._fence is not None:
            if not is_over and len(line) <= MOST_OF_SOURCE:
                return line
            content = self._fence.content(line)
            if content is not None:
                return self._source(self._fence, content, is_over=is_over, is_long=len(line) > MOST_OF_SOURCE)
            self._end_fence()
        beginning = self._lines.begin(line, is_over=is_over)
        if beginning is None:
            return line
        self._lines.record(beginning)
        self._text.end_break(is_kept=beginning.kind is Kind.BLANK)
        rest = line[beginning.at :]
        if beginning.kind is Kind.ROW:
            self._row(beginning, rest)
            return ""
        self._end_rows()
        return self._begin(beginning, rest, is_over=is_over)

    def _begin(self, beginning: LineStart, rest: str, *, is_over: bool) -> str:
        """Write the beginning of a line and the final part of its rest; return what is not final."""
        match beginning.kind:
            case Kind.BLANK if not beginning.quotes:
                self._blanks += 1
            case Kind.BLANK:
                self._start(beginning)
                self._flow.end()
            case Kind.RULE:
                self._start(beginning)
                rule = "-" if self._in_ascii else _LINE
                self._flow.draw(rule * min(self._flow.room, _LONGEST_RULE), _DIM)
                self._flow.end()
            case Kind.FENCE:
                self._begin_fence(beginning)
            case Kind.CODE:
                self._start(beginning)
                return self._write_unchanged(rest, is_over=is_over)
            case _:
                self._start(beginning)
                self._text.begin(_HEADINGS[beginning.level], is_heading=beginning.kind is Kind.HEADING)
                return self._write_inline(rest, is_over=is_over)
        return ""

    def _start(self, beginning: LineStart) -> None:
        """Begin a line on the screen, after the blank lines that separate it from the block before."""
        self._skip_lines()
        self._flow.begin(beginning.margin, beginning.hanging)

    def _skip_lines(self) -> None:
        blanks = max(self._blanks, int(self._needs_blank_line))
        if blanks and not self._is_empty:
            self._out.append("\n" * blanks)
        self._blanks = 0
        self._needs_blank_line = self._is_empty = False

    def _write_inline(self, line: str, *, is_over: bool) -> str:
        """Write the final part of a line's text and return the rest."""
        self._rest = None if is_over else self._write_inline
        return self._text.write_final(line, is_over=is_over)

    def _write_unchanged(self, line: str, *, is_over: bool) -> str:
        """Write text unchanged."""
        self._flow.raw(line)
        self._rest = None if is_over else self._write_unchanged
        if is_over:
            self._flow.end()
        return ""

    def _begin_fence(self, beginning: LineStart) -> None:
        self._needs_blank_line = not beginning.quotes and not beginning.items
        self._skip_lines()
        self._fence = Fence(beginning)
        if self._fence.caption or beginning.items:
            self._flow.begin(beginning.margin if beginning.items else beginning.bars)
            self._flow.draw(self._fence.caption, _DIM)
            self._flow.end()

    def _end_fence(self) -> None:
        if self._fence is not None:
            self._needs_blank_line = not self._fence.bars
            self._fence = None

    def _source(self, fence: Fence, content: str, *, is_over: bool, is_long: bool) -> str:
        """Write a line of source, or the beginning of one that is too long to highlight."""
        if not is_long and fence.is_closed_by(content):
            self._end_fence()
            return ""
        self._flow.begin(fence.bars)
        source = fence.source(content)
        if is_long:
            return self._write_unchanged(source, is_over=is_over)
        for text, style in fence.line(source):
            self._flow.draw(text, style)
        self._flow.end()
        return ""

    def _row(self, beginning: LineStart, row: str) -> None:
        """Add a row that may belong to a table."""
        if self._head is not None and self._head.bars != beginning.bars:
            self._end_rows()
        if self._rows is None or self._head is None:
            self._rows, self._head = Rows(row), beginning
        elif self._rows.may_take(row):
            self._rows.add(row)
        else:
            self._write_rows(self._rows, self._head)
            if self._rows.is_table:
                self._write_rows(Rows(row), beginning)
            else:
                self._rows, self._head = Rows(row), beginning

    def _end_rows(self) -> None:
        """Write the table, or rows that look like one as text."""
        rows, head = self._rows, self._head
        self._rows = self._head = None
        if rows is None or head is None:
            return
        table = rows.drawn(self._screen, self._pens, self._flow.width - cells_of(head.margin))
        if table is None:
            self._write_rows(rows, head)
            return
        self._skip_lines()
        for line in table:
            self._flow.begin(head.margin)
            self._flow.raw(line)
            self._flow.end()

    def _write_rows(self, rows: Rows, head: LineStart) -> None:
        """Write the rows as text."""
        for row in rows.pop_all():
            self._start(head)
            self._text.begin("", is_heading=False)
            self._write_inline(row, is_over=True)
