"""The style that holds, as the sequences come by that change it."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from reenact.terminal.ansi.sgr import after_sgr
from reenact.terminal.ansi.tokens import control, without_executed
from reenact.terminal.style import PLAIN, ANSIStyle

_REMEMBERED: Final = 4096


class Rendition:
    """The style that holds, and the one that was saved with the cursor.

    SGR sets it; DECSC and DECRC (ESC 7, ESC 8) and `CSI s` and `CSI u` save it and bring it back; RIS (ESC c) and
    DECSTR (`CSI ! p`) reset it. Nothing else changes it.
    """

    def __init__(self) -> None:
        self.style: ANSIStyle = PLAIN
        self._saved: ANSIStyle = PLAIN

    def control(self, content: str) -> ANSIStyle:
        """Take a control sequence; return the style behind it."""
        match content[-1]:
            case "m":
                self.style = _after(self.style, content)
            case "s" | "u" | "p":
                parts = control(content)
                if parts is not None:
                    self._does(parts["private"] + parts["parameters"] + parts["intermediates"] + parts["final"])
            case _:
                pass
        return self.style

    def escape(self, content: str) -> ANSIStyle:
        """Take an escape sequence; return the style behind it."""
        if content[-1] in "78c":
            self._does(without_executed(content))
        return self.style

    def _does(self, what: str) -> None:
        match what:
            case "s" | "\x1b7":
                self._saved = self.style
            case "u" | "\x1b8":
                self.style = self._saved
            case "!p" | "\x1bc":
                self.style = self._saved = PLAIN
            case _:
                pass


@lru_cache(maxsize=_REMEMBERED)
def _after(style: ANSIStyle, content: str) -> ANSIStyle:
    parts = control(content)
    if parts is None or parts["private"] or parts["intermediates"]:
        return style
    return after_sgr(style, parts["parameters"])
