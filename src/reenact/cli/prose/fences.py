"""A block of source between fences: which lines are in it, and what they look like."""

from __future__ import annotations

import re

from reenact.cli.prose.code import Source
from reenact.cli.prose.flow import Margin, Run
from reenact.cli.prose.lines import Beginning


class Fence:
    """Knows its lines: up to one that closes it, or one that is not in the same quotes.

    What stands to the left of the opening fence is no part of the source. An item of a list does not end it: where a
    model indents source by less than its item, it still means it.
    """

    def __init__(self, opening: Beginning) -> None:
        mark = re.escape(opening.fence[0])
        self.bars: Margin = opening.bars
        self._source = Source(opening.info)
        self.caption = "" if self._source.is_named_by(opening.info) else opening.info
        """What stands behind the fence and is not the name of a language, which is seen."""
        self._quotes = re.compile(rf"(?: {{0,3}}>[ \t]?){{{opening.quotes}}}")
        self._closing = re.compile(rf"[ \t]*{mark}{{{len(opening.fence)},}}[ \t]*")
        self._indentation = re.compile(rf"(?: |\t){{0,{opening.indent}}}")

    def content(self, line: str) -> str | None:
        """Return what stands behind the quotes, or None if the line is not in them."""
        quotes = self._quotes.match(line)
        return None if quotes is None else line[quotes.end() :]

    def is_closed_by(self, content: str) -> bool:
        """Return whether this is the closing fence."""
        return self._closing.fullmatch(content) is not None

    def source(self, content: str) -> str:
        """Return the line of source."""
        indentation = self._indentation.match(content)
        return content if indentation is None else content[indentation.end() :]

    def in_colors(self, source: str) -> list[Run]:
        """Return the next line of source as texts with styles."""
        return self._source.line(source)
