"""The text of a line, written as far as it is settled."""

from __future__ import annotations

import re
from typing import Final

from reenact.cli.prose.flow import WIDE, Flow
from reenact.cli.prose.settled import MOST, PLAIN, Settled
from reenact.cli.prose.spans import runs_of

TELLING: Final = re.compile(rf"[ \t\n{WIDE}]")
"""Without any of these, little can be written that could not be written before."""
_BREAK: Final = "\\"


class Text:
    """Writes the content of one line after the other; what stands before it is written already."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._settled = Settled()
        self._style = ""
        self._is_heading = False
        self._hashes = ""
        self._is_joined = False
        self._breaks = False

    def begin(self, style: str, *, is_heading: bool) -> None:
        """Begin the content of a line."""
        self._style = style
        self._is_heading = is_heading
        self._hashes = ""
        self._is_joined = False
        self._settled = Settled()

    def go_on(self, line: str, *, is_over: bool) -> str:
        """Write what is settled of a line, or of what was returned with what came since; return what is not."""
        while line:
            if self._settled.is_fresh and not (self._is_joined or self._hashes):
                words = PLAIN.match(line)
                if words is not None:
                    self._flow.put_words(words[0], self._style)
                    line = line[words.end() :]
            if not is_over and len(line) < MOST and not TELLING.search(line, 1):
                break
            length = self._settled.next(line, is_over=is_over)
            if not length:
                break
            self._put(line[:length], is_last=is_over and length == len(line))
            line = line[length:]
        if is_over and not self._breaks:
            self._flow.end()
        return line

    def end_break(self, *, is_kept: bool) -> None:
        """End a line that ends with a backslash, which means a line end, if it does not end the paragraph."""
        if self._breaks:
            self._breaks = False
            self._flow.raw(_BREAK if is_kept else "")
            self._flow.end()

    def _put(self, piece: str, *, is_last: bool) -> None:
        """Write a piece of a line that is settled."""
        if is_last:
            self._breaks = not self._is_heading and _ends_with_break(piece)
            piece = piece.removesuffix(_BREAK) if self._breaks else piece.rstrip(" \t")
        words = piece.strip(" \t")
        if not words:
            return
        if self._is_heading and not words.strip("#"):
            self._hashes += piece  # which are no part of the heading if they are its end
            return
        if self._hashes:
            self._flow.put([(self._hashes, self._style)])
            self._hashes = ""
        self._flow.put(runs_of(piece, self._style), joined=self._is_joined)
        self._is_joined = len(piece) == MOST


def _ends_with_break(piece: str) -> bool:
    """Return whether a line ends with a backslash that means a line end; behind a blank it is one of a shell."""
    before = piece.rstrip(_BREAK)
    return (len(piece) - len(before)) % 2 == 1 and before[-1:].strip(" \t") != ""
