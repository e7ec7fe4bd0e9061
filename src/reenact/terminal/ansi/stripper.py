"""Text of a terminal without its sequences, in pieces of any size."""

from __future__ import annotations

from reenact.terminal.ansi.grammar import ESC, KEPT, is_introducer
from reenact.terminal.ansi.sequence import Sequence


class ANSIStripper:
    """Takes text as it comes, and returns it without sequences.

    What it returns, joined, is what `ANSIParser.strip` makes of the whole. Of a sequence that has begun nothing is kept
    but how it may go on. The time it takes grows with the length of the text, never faster.
    """

    def __init__(self) -> None:
        self._open: Sequence | None = None

    def feed(self, text: str) -> str:
        """Take the next piece; return what is to be shown of it."""
        at = 0
        while self._open is not None and at < len(text):
            at = self._open.follow(text, at)
            if self._open.ended:
                self._open = Sequence(ESC) if self._open.borrowed else None
        kept: list[str] = KEPT.findall(text, at)
        if kept and kept[-1] and is_introducer(kept[-1][0]):
            begun = kept.pop()
            self._open = Sequence(begun[0])
            self._open.follow(begun, 1)
        return "".join(kept)
