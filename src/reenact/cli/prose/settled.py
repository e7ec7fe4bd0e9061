"""How far a line is settled: up to where its look cannot be changed by anything that follows."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from reenact.cli.prose.flow import BREAKABLE, WIDE

MOST: Final = 2000
"""So many characters are held back for the end of something; what has none by then is text."""
PLAIN: Final = re.compile(rf"(?:[ \t]*[^ \t\n\\`*_~\[\]<&:#{WIDE}]{{1,500}}(?=[ \t]))+")
"""Words that mean nothing but themselves, up to the blank behind the last of them."""
ADDRESS: Final = re.compile(r"://[^\s<>\[\]`\"\\|]*[^\s<>\[\]`\"\\|?!.,:;*_~'()]")
"""What follows the scheme of a URL in the middle of a text, without punctuation that belongs to the text."""
_SCHEME: Final = re.compile(r"(?i:https?)$")
_STOPS: Final = re.compile(rf"[ \t\\`*_~\[\]<:{WIDE}]")
_BLANKS: Final = re.compile(r"[ \t]*")
_TICKS: Final = re.compile(r"`+")
_OF_TAG: Final = re.compile(r"[A-Za-z/!?]")
_TAG: Final = re.compile(
    r"(?:[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*"
    r"|/?[A-Za-z][A-Za-z0-9-]*(?:\s+[A-Za-z_:][\w:.-]*(?:=(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'=<>`]+))?)*\s*/?)>"
)
"""An address or a tag of HTML, without what begins it; the rarer forms of tags are missing."""
_OF_LINK: Final = re.compile(r"[\\()\"']")
_MOST_OPEN: Final = 50
_PAIR: Final = 2
_ODD: Final = 3


def is_address(text: str, at: int) -> bool:
    """Return whether the colon there stands behind the scheme of a URL."""
    return _SCHEME.search(text, max(0, at - len("https")), at) is not None


class _Opened:
    """Marks that may begin something, as long as it has not ended."""

    __slots__ = ("left", "length", "may_close", "of")

    def __init__(self, of: str, length: int, *, may_close: bool) -> None:
        self.of = of
        self.length = length
        self.left = length
        self.may_close = may_close


class Settled:
    """Finds the pieces of a line that can be shown without regard to what follows.

    The text is that of the line from the end of the last piece, and may grow between two questions. Pieces depend on
    the text alone. This knows enough of Markdown to tell what may still be open, and nothing of what it means.
    """

    def __init__(self) -> None:
        self._restart()

    @property
    def is_fresh(self) -> bool:
        """Whether nothing of the next piece has been looked at."""
        return not self._at

    def next(self, text: str, *, is_over: bool) -> int:
        """Return how long the next piece is, 0 if there is none yet."""
        length = self._next(text, is_over=is_over)
        if length:
            self._restart()
        return length

    def _restart(self) -> None:
        self._at = 0
        self._sought = 0
        self._depth = 0
        self._quoted = ""
        self._open: list[_Opened] = []
        self._is_empty = True

    def _next(self, text: str, *, is_over: bool) -> int:
        is_all = is_over and len(text) < MOST
        while self._at < MOST:
            stop = _STOPS.search(text, self._at)
            place = len(text) if stop is None else stop.start()
            self._is_empty = self._is_empty and place == self._at
            self._at = place
            if stop is None or place >= MOST:
                break
            if not self._open and not self._is_empty and self._may_end(text):
                return place
            end = self._step(text, stop[0])
            if end is None:
                break
            self._is_empty = self._is_empty and stop[0] in " \t"
            self._at = end
        if is_all:
            return len(text)
        if len(text) < MOST:
            return 0
        return max(text.rfind(" ", 0, MOST), text.rfind("\t", 0, MOST)) if not self._is_one_word(text) else MOST

    def _is_one_word(self, text: str) -> bool:
        blanks = _BLANKS.match(text)
        begin = 0 if blanks is None else blanks.end()
        return begin >= MOST or not any(text.find(blank, begin, MOST) >= 0 for blank in " \t")

    def _may_end(self, text: str) -> bool:
        here = text[self._at]
        return here in " \t" or bool(self._at and BREAKABLE.match(here) and BREAKABLE.match(text[self._at - 1]))

    def _step(self, text: str, stop: str) -> int | None:
        """Return where to go on behind what stands here; None if more must come before that can be told."""
        match stop:
            case "\\":
                return self._behind(text, self._at + 2)
            case "`":
                return self._code(text)
            case "*" | "_" | "~":
                return self._marks(text, stop)
            case "[":
                self._push(_Opened("[", 1, may_close=False))
            case "]":
                return self._bracket(text)
            case "<":
                return self._tag(text)
            case ":":
                return self._address(text)
            case _:
                pass
        return self._at + 1

    def _behind(self, text: str, end: int) -> int | None:
        return end if end <= len(text) else None

    def _code(self, text: str) -> int | None:
        length = self._run(text, "`")
        begin = self._at + length
        if begin == len(text):
            return None
        for ticks in _TICKS.finditer(text, max(begin, self._sought)):
            if ticks.end() == len(text):
                return None
            if ticks.end() - ticks.start() == length:
                self._sought = 0
                return ticks.end()
            self._sought = ticks.end()
        return None

    def _marks(self, text: str, mark: str) -> int | None:
        length = self._run(text, mark)
        end = self._at + length
        if end == len(text):
            return None
        before = text[self._at - 1] if self._at else " "
        after = text[end]
        is_left = not _is_blank(after) and (not _is_mark(after) or _is_blank(before) or _is_mark(before))
        is_right = not _is_blank(before) and (not _is_mark(before) or _is_blank(after) or _is_mark(after))
        if mark == "_":
            is_left, is_right = (
                is_left and (not is_right or _is_mark(before)),
                is_right and (not is_left or _is_mark(after)),
            )
        if mark == "~":
            length -= length % _PAIR
        opened = _Opened(mark, length, may_close=is_right)
        if is_right:
            self._close(opened, may_open=is_left)
        if is_left and opened.left:
            self._push(opened)
        return end

    def _close(self, closing: _Opened, *, may_open: bool) -> None:
        """End what the marks can end."""
        place = len(self._open) - 1
        while closing.left and place >= 0:
            opened = self._open[place]
            if opened.of == "[":
                return
            is_odd = (
                (opened.may_close or may_open)
                and closing.of != "~"
                and (opened.length + closing.length) % _ODD == 0
                and (opened.length % _ODD or closing.length % _ODD)
            )
            if opened.of != closing.of or is_odd:
                place -= 1
                continue
            used = _PAIR if min(opened.left, closing.left) >= _PAIR else 1
            opened.left -= used
            closing.left -= used
            del self._open[place + 1 :]
            if not opened.left:
                del self._open[place]
                place -= 1

    def _bracket(self, text: str) -> int | None:
        begun = next((place for place in range(len(self._open) - 1, -1, -1) if self._open[place].of == "["), None)
        if begun is None:
            return self._at + 1
        after = self._at + 1
        if after == len(text):
            return None
        if text[after] != "(":
            del self._open[begun]
            return after
        end = self._link(text, after)
        if end is not None:
            del self._open[begun:]
        return end

    def _link(self, text: str, begin: int) -> int | None:
        """Return where the address of a link ends."""
        place = max(begin, self._sought)
        while (found := _OF_LINK.search(text, place)) is not None:
            place = found.end()
            match found[0]:
                case "\\":
                    place += 1
                case "(" if not self._quoted:
                    self._depth += 1
                case ")" if not self._quoted:
                    self._depth -= 1
                    if not self._depth:
                        self._sought = 0
                        return place
                case '"' | "'" if self._quoted == found[0]:
                    self._quoted = ""
                case '"' | "'" if not self._quoted and text[found.start() - 1] in " \t":
                    self._quoted = found[0]
                case _:
                    pass
            self._sought = place
        self._sought = max(self._sought, begin)
        return None

    def _tag(self, text: str) -> int | None:
        after = self._at + 1
        if after == len(text):
            return None
        if not _OF_TAG.match(text, after):
            return after
        whole = _TAG.match(text, after)
        return None if whole is None else whole.end()  # what else it may be is seen at the end of the line

    def _address(self, text: str) -> int | None:
        if not is_address(text, self._at):
            return self._at + 1
        address = ADDRESS.match(text, self._at)
        if address is None:
            return self._at + 1 if _has_blank(text, self._at) else None
        return address.end() if _has_blank(text, address.end()) else None

    def _run(self, text: str, mark: str) -> int:
        end = self._at
        while end < len(text) and text[end] == mark:
            end += 1
        return end - self._at

    def _push(self, opened: _Opened) -> None:
        self._open.append(opened)
        del self._open[:-_MOST_OPEN]


def _has_blank(text: str, begin: int) -> bool:
    return any(text.find(blank, begin) >= 0 for blank in " \t")


def _is_blank(character: str) -> bool:
    return character.isspace()


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"
