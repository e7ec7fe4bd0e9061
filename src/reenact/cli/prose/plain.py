"""Plain text written to a terminal piece by piece, in one style, its lines broken between words."""

from __future__ import annotations

from typing import Final

from rich.console import Console as Screen

from reenact.cli.listing import visible
from reenact.cli.prose.flow import Flow
from reenact.cli.prose.masks import styled, unmasked
from reenact.cli.prose.screens import Pens, width_of

_MOST: Final = 1000
"""Of a word, so many characters are waited for."""


class Plain:
    """Shows text as it comes; nothing in it means anything."""

    def __init__(self, screen: Screen, style: str) -> None:
        self._screen = screen
        self._style = style
        self._out: list[str] = []
        self._flow = Flow(Pens(screen), self._out.append)
        self._word = ""
        self._is_joined = False
        self._is_open = False

    def write(self, text: str) -> None:
        """Take in a piece; write the words that are whole."""
        self._flow.width = width_of(self._screen)
        *lines, rest = unmasked(visible(text)).split("\n")
        for line in lines:
            self._add(line)
            self._end_line()
        self._add(rest)
        self._send()

    def end(self) -> None:
        """Write what is left, and end the line."""
        if self._is_open:
            self._end_line()
            self._send()

    def _add(self, text: str) -> None:
        if not text:
            return
        self._is_open = True
        self._word += text
        place = max(self._word.rfind(" "), self._word.rfind("\t"))
        if place >= 0:
            self._put(self._word[:place])
            self._is_joined = False
            self._word = self._word[place:]
        while len(self._word) >= _MOST:
            self._put(self._word[:_MOST])
            self._is_joined = True
            self._word = self._word[_MOST:]

    def _put(self, text: str) -> None:
        self._flow.put([(text, self._style)], joined=self._is_joined)

    def _end_line(self) -> None:
        self._put(self._word)
        self._flow.end()
        self._word = ""
        self._is_joined = self._is_open = False

    def _send(self) -> None:
        if self._out:
            self._screen.file.write(styled("".join(self._out)))
            self._screen.file.flush()
            self._out.clear()
