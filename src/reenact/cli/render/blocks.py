"""Classifies lines of Markdown as early as possible: heading, item, quote, fence, table row, rule or text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, auto

from reenact.cli.render.flow import Margin, Run

MOST = 1000
"""Number of characters from which a line that is still unclassified counts as text."""
MOST_OF_ROW = 10_000
"""Maximum length of a table row in characters."""
_DEEPEST = 8
"""Maximum number of quotes and items that may begin on one line; the rest of the line is text."""
_CODE = 4
"""Columns of indentation that make a line code."""
_TAB = 4
_SHORTEST_RULE = 3
_RULE = re.compile(r"(?:-[ \t]*)+|(?:\*[ \t]*)+|(?:_[ \t]*)+")
_HEADING = re.compile(r"(#{1,6})(?:[ \t]+(?=[^ \t])|[ \t]*$)")
_FENCE = re.compile(r"(?P<fence>`{3,}(?=[^`]*$)|~{3,})[ \t]*(?P<info>.*)")
_BULLET = re.compile(r"[-+*](?=[ \t]|$)")
_NUMBER = re.compile(r"[0-9]{1,9}[.)](?=[ \t]|$)")
_TASK = re.compile(r"\[([ xX])\](?=[ \t])")
_UNDECIDED = re.compile(r"#{1,6}[ \t]*|`{1,2}|`{3,}[^`]*|~{1,2}|~{3,}.*|\+|[0-9]{1,9}[.)]?")
"""Beginnings of lines that cannot be classified until more text arrives."""
_UNDECIDED_TASK = re.compile(r"\[(?:[ xX]\]?)?")
_ROW = "|"

BULLET, BAR, TO_DO, DONE = "•", "│", "☐", "☑"
_IN_ASCII = {BULLET: "*", BAR: "|", TO_DO: "[ ]", DONE: "[x]"}
_MARK_STYLE = "cyan"


class Kind(Enum):
    """The kind of a line."""

    BLANK = auto()
    TEXT = auto()
    HEADING = auto()
    RULE = auto()
    FENCE = auto()
    ROW = auto()
    CODE = auto()


@dataclass(slots=True)
class LineStart:
    """The beginning of a line: its kind, the position of its content, and the margin before that on the screen."""

    kind: Kind = Kind.TEXT
    at: int = 0
    margin: list[Run] = field(default_factory=list[Run])
    hanging: list[Run] = field(default_factory=list[Run])
    """The margin of the further rows if the content does not fit on one row."""
    bars: Margin = ()
    """The part of that margin that shows the quotes."""
    quotes: int = 0
    indent: int = 0
    """Columns before the first mark or character inside the quotes; for a fence, the columns before the fence."""
    items: list[int] = field(default_factory=list[int])
    """For each item that begins on this line, the column in which its content begins."""
    level: int = 0
    fence: str = ""
    info: str = ""

    def add(self, text: str, style: str = "", *, hanging: bool = False) -> None:
        """Add the text to both margins, or, if `hanging`, to the first one and blanks of its width to the other."""
        if text:
            self.margin.append((text, style))
            self.hanging.append((" " * len(text), "") if hanging else (text, style))


class LineClassifier:
    """Classifies how each line begins, taking the lines before it into account."""

    def __init__(self, *, in_ascii: bool = False) -> None:
        self._in_ascii = in_ascii
        self._items: list[list[int]] = [[]]
        self._before = Kind.BLANK

    def begin(self, line: str, *, is_over: bool) -> LineStart | None:
        """Return how a line begins, of which this much has arrived, or None while that is undecided.

        The result for the same beginning is the same however the line continues. Call `record` when the result is used.
        """
        return _LineParser(self, line, is_over).read()

    def record(self, beginning: LineStart) -> None:
        """Record the line as the one before the next."""
        self._before = beginning.kind
        if beginning.kind is Kind.BLANK:
            return
        del self._items[beginning.quotes + 1 :]
        self._items.extend([] for _ in range(beginning.quotes + 1 - len(self._items)))
        items = self._items[-1]
        while items and items[-1] > beginning.indent:
            items.pop()
        items.extend(beginning.items)
        del items[:-_DEEPEST]

    def is_deep(self, quotes: int, indent: int) -> bool:
        """Return whether a line is indented so far, relative to its items, that it can only be code or text."""
        items = self._items[quotes] if quotes < len(self._items) else []
        return indent - max((column for column in items if column <= indent), default=0) >= _CODE

    @property
    def is_in_paragraph(self) -> bool:
        """Whether the previous line was text."""
        return self._before is Kind.TEXT

    def glyph(self, name: str) -> str:
        """Return the character, or its ASCII substitute."""
        return _IN_ASCII[name] if self._in_ascii else name


@dataclass
class _LineParser:
    """Parses the beginning of one line."""

    _lines: LineClassifier
    _line: str
    _is_over: bool
    _column = 0

    def __post_init__(self) -> None:
        self._length = len(self._line)
        self._start = LineStart()

    def read(self) -> LineStart | None:
        start, is_item = self._start, False
        for _ in range(_DEEPEST):
            begun = start.at
            blanks = self._skip_blanks()
            rest = self._line[start.at : MOST]
            if is_item:
                start.items.append(self._column if rest else self._column - blanks + 1)
            elif not start.items:
                start.indent = self._column
            if not rest:
                return self._empty(blanks)
            is_deep = not is_item and self._lines.is_deep(start.quotes, self._column)
            if is_deep and not self._lines.is_in_paragraph:
                if start.quotes:  # a tab would be expanded from the column of the bar
                    start.add(" " * blanks)
                else:
                    start.at = begun
                return self._is_kind(Kind.CODE)
            start.add(" " * blanks)
            if is_deep:
                return start
            if is_item and rest[0] == "[":
                return self._task(rest)
            if rest[0] == ">":
                self._take_quote()
                is_item = False
                continue
            if self._is_undecided(rest):
                return None
            beginning = self._block(rest)
            if beginning is not None:
                return beginning
            is_item = self._takes_mark(rest)
            if not is_item:
                return start
        return start

    def _skip_blanks(self) -> int:
        """Advance to the next character that is not a blank; return the number of columns skipped."""
        before = self._column
        while self._start.at < min(self._length, MOST) and self._line[self._start.at] in " \t":
            self._column += 1 if self._line[self._start.at] == " " else _TAB - self._column % _TAB
            self._start.at += 1
        return self._column - before

    def _empty(self, blanks: int) -> LineStart | None:
        if self._length > MOST:  # only blanks and marks so far
            self._start.add(" " * blanks)
            return self._start
        if not self._is_over:
            return None
        return self._is_kind(Kind.TEXT if self._start.items else Kind.BLANK)

    def _is_undecided(self, rest: str) -> bool:
        if self._is_over:
            return False
        if rest[0] == _ROW and not self._start.items:
            return self._length <= MOST_OF_ROW
        untold = _RULE.fullmatch(rest) or _UNDECIDED.fullmatch(rest)
        return untold is not None and self._length <= MOST

    def _block(self, rest: str) -> LineStart | None:
        """Return the block that takes the whole line, or None if there is none."""
        if rest[0] == _ROW:
            is_row = not self._start.items and self._length <= MOST_OF_ROW
            return self._is_kind(Kind.ROW) if is_row else None
        if self._length <= MOST:
            if _RULE.fullmatch(rest) and sum(map(rest.count, "-*_")) >= _SHORTEST_RULE:
                return self._is_kind(Kind.RULE)
            fence = _FENCE.fullmatch(rest)
            if fence is not None:
                self._start.fence, self._start.info = fence["fence"], fence["info"].strip()
                self._start.indent = self._column
                return self._is_kind(Kind.FENCE)
        heading = _HEADING.match(rest)
        if heading is None or (heading.end() == len(rest) and self._length > MOST):
            return None
        self._start.at += heading.end()
        self._start.level = len(heading[1])
        return self._is_kind(Kind.HEADING)

    def _take_quote(self) -> None:
        start = self._start
        start.at += 1
        if start.at < self._length and self._line[start.at] in " \t":
            start.at += 1
        start.quotes += 1
        self._column = 0
        start.items.clear()
        start.add(self._lines.glyph(BAR), "dim")
        start.add(" ")
        start.bars = tuple(start.hanging)

    def _takes_mark(self, rest: str) -> bool:
        """Consume the mark of a list item, if there is one."""
        mark = _BULLET.match(rest) or _NUMBER.match(rest)
        if mark is None:
            return False
        length = mark.end()
        self._start.at += length
        self._column += length
        self._start.add(self._lines.glyph(BULLET) if length == 1 else mark[0], _MARK_STYLE, hanging=True)
        return True

    def _task(self, rest: str) -> LineStart | None:
        """Consume the box of a task, if there is one."""
        if _UNDECIDED_TASK.fullmatch(rest) and not self._is_over and self._length <= MOST:
            return None
        start, box = self._start, _TASK.match(rest)
        if box is not None:
            start.at += box.end()
            if start.margin[-2][0] == self._lines.glyph(BULLET):
                del start.margin[-2:], start.hanging[-2:]
            start.add(self._lines.glyph(TO_DO if box[1] == " " else DONE), _MARK_STYLE, hanging=True)
        return start

    def _is_kind(self, kind: Kind) -> LineStart:
        self._start.kind = kind
        return self._start
