"""A sequence that has begun, followed to its end through pieces of any size: the state machine behind the grammar."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from reenact.terminal.ansi.grammar import (
    BEL,
    ENDERS,
    ESC,
    ST,
    WITHIN_CONTROL,
    WITHIN_ESCAPE,
    WITHIN_INTERMEDIATE,
    WITHIN_OSC,
    WITHIN_STRING,
)
from reenact.terminal.ansi.tokens import TokenKind

_State: TypeAlias = Literal["escape", "intermediate", "csi", "osc", "dcs", "apc", "pm", "sos"]

_INTRODUCED: Final[dict[str, _State]] = {
    ESC: "escape",
    "\x90": "dcs",
    "\x98": "sos",
    "\x9b": "csi",
    "\x9d": "osc",
    "\x9e": "pm",
    "\x9f": "apc",
}
_AFTER_ESCAPE: Final[dict[str, _State]] = {
    "P": "dcs",
    "X": "sos",
    "[": "csi",
    "]": "osc",
    "^": "pm",
    "_": "apc",
    **{chr(intermediate): "intermediate" for intermediate in range(0x20, 0x30)},
}
_UNCHANGED_BY: Final[dict[_State, re.Pattern[str]]] = {
    "escape": WITHIN_ESCAPE,
    "intermediate": WITHIN_INTERMEDIATE,
    "csi": WITHIN_CONTROL,
    "osc": WITHIN_OSC,
    "dcs": WITHIN_STRING,
    "apc": WITHIN_STRING,
    "pm": WITHIN_STRING,
    "sos": WITHIN_STRING,
}


class Sequence:
    """A sequence of which the first character has been read.

    Attributes:
        ended: whether it has come to its end.
        borrowed: whether, at its end, an ESC turned out to have been taken that begins the next sequence.
    """

    def __init__(self, introducer: str) -> None:
        """Begin with ESC or with the 8-bit introducer of a control sequence or of a string."""
        self._state: _State = _INTRODUCED[introducer]
        self._cancelled = False
        self.ended = False
        self.borrowed = False
        self._terminating = False

    @property
    def kind(self) -> TokenKind:
        """What kind of token it is; before its end, what kind it would be."""
        if self._cancelled:
            return "cancelled"
        return "escape" if self._state == "intermediate" else self._state

    def follow(self, text: str, at: int = 0) -> int:
        """Take what belongs to the sequence, beginning at `at`; return the index behind it."""
        while at < len(text) and not self.ended:
            if not self._terminating and (run := _UNCHANGED_BY[self._state].match(text, at)) is not None:
                at = run.end()
            if at < len(text):
                at += self._take(text[at])
        return at

    def _take(self, character: str) -> bool:
        """Take a character that changes the state; return whether it belongs to the sequence."""
        if self._terminating:
            self.borrowed = character != "\\"
            return self._end(cancelled=self.borrowed, taken=not self.borrowed)
        if character in ENDERS:
            return self._end(cancelled=True)
        if self._state not in ("escape", "intermediate", "csi"):
            self._terminating = character == ESC
            known = character in (BEL, ST)
            return self._terminating or self._end(cancelled=not known, taken=known)
        if character == ESC or not character.isascii():
            return self._end(cancelled=True, taken=False)
        if self._state == "escape" and character in _AFTER_ESCAPE:
            self._state = _AFTER_ESCAPE[character]
            return True
        return self._end()

    def _end(self, *, cancelled: bool = False, taken: bool = True) -> bool:
        self.ended = True
        self._cancelled = cancelled
        return taken
