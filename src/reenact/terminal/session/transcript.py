"""The transcript: the output of a program as bytes, text and stripped text, and how far it has been matched."""

from __future__ import annotations

import codecs
import re
import threading
from collections import deque
from typing import AnyStr, Generic

import msgspec

from reenact.terminal.ansi.parser import ANSIStripper
from reenact.terminal.errors import invalid, is_kit_error
from reenact.terminal.matching.options import Expression, Finder, Pattern

__tracebackhide__ = is_kit_error

_PIECE = 4096


class Tail(Generic[AnyStr]):
    """The last `limit` characters or bytes of what was added, by positions in the whole.

    Adding and reading take time in proportion to what is added or read.
    """

    def __init__(self, empty: AnyStr, limit: int) -> None:
        self._empty: AnyStr = empty
        self._limit = limit
        self._pieces: deque[AnyStr] = deque()
        self._held = 0
        self.end = 0

    @property
    def start(self) -> int:
        """The position of the first element that is kept; everything before it was dropped."""
        return max(self.end - self._limit, self.end - self._held)

    def add(self, more: AnyStr) -> None:
        """Append it; drop what exceeds the limit from the beginning."""
        if not more:
            return
        # Programs write in small pieces. Joining them saves memory and time.
        if self._pieces and len(self._pieces[-1]) + len(more) <= _PIECE:
            self._pieces[-1] += more
        else:
            self._pieces.append(more)
        self.end += len(more)
        self._held += len(more)
        while self._held - len(self._pieces[0]) >= self._limit:
            self._held -= len(self._pieces.popleft())

    def since(self, place: int) -> AnyStr:
        """Return what is kept from this position on."""
        wanted = self.end - max(place, self.start)
        found: list[AnyStr] = []
        length = 0
        for piece in reversed(self._pieces):
            if length >= wanted:
                break
            found.append(piece)
            length += len(piece)
        return self._empty.join(reversed(found))[length - wanted :]


class Transcript:
    """The output, at most its last `limit` bytes. One thread adds; any thread may read."""

    def __init__(self, limit: int) -> None:
        self.lock = threading.RLock()
        self.stripped: Tail[str] = Tail("", limit)
        self.matched = 0
        """Position in `stripped` up to which output was matched; the rest is new."""
        self.match: re.Match[str] | None = None
        """The last match."""
        self._raw: Tail[bytes] = Tail(b"", limit)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stripper = ANSIStripper()
        self._complete = False

    @property
    def dropped(self) -> int:
        """Number of bytes that were dropped from the beginning."""
        return self._raw.start

    def add(self, data: bytes) -> None:
        """Add output; characters and sequences may be split anywhere."""
        with self.lock:
            self._raw.add(data)
            self.stripped.add(self._stripper.feed(self._decoder.decode(data)))

    def complete(self) -> None:
        """Record that no more output comes, so that an incomplete character stays incomplete."""
        with self.lock:
            if not self._complete:
                self._complete = True
                self.stripped.add(self._stripper.feed(self._decoder.decode(b"", final=True)))

    def output_bytes(self) -> bytes:
        """Return the output."""
        with self.lock:
            return self._raw.since(0)

    def output(self) -> str:
        """Return the output as text: invalid UTF-8 is replaced, and an incomplete character is left out."""
        with self.lock:
            return codecs.getincrementaldecoder("utf-8")("replace").decode(self._raw.since(0), final=self._complete)

    def stripped_output(self) -> str:
        """Return the output as text without escape sequences."""
        with self.lock:
            return self.stripped.since(0)

    def new_output(self) -> str:
        """Return the output that has not been matched yet."""
        with self.lock:
            return self.stripped.since(self.matched)

    def search(self, finder: Finder, *, only_new: bool) -> str | None:
        """Return the searched text from its beginning to the end of the match, or None."""
        with self.lock:
            start = max(self.stripped.start, self.matched if only_new else 0)
            part = self.stripped.since(start)
            match = finder.search(part)
            if match is None:
                return None
            self.match = match if isinstance(match, re.Match) else None
            if only_new:
                self.matched = start + match.end()
            return part[: match.end()]


def compiled_for_rows(pattern: Pattern | Finder) -> Finder:
    """Return the pattern as `compiled` does; blanks at the end of a line of a text also match the end of a row.

    The text of a screen has no blanks there.
    """
    if not isinstance(pattern, str) or not pattern.strip():
        return compiled(pattern)
    return re.compile("\n".join(_in_row(line) for line in pattern.split("\n")), re.MULTILINE)


def _in_row(line: str) -> str:
    text = line.rstrip(" ")
    blanks = len(line) - len(text)
    return re.escape(text) + (f"(?: {{{blanks}}}|$)" if text and blanks else " " * blanks)


def compiled(pattern: Pattern | Finder) -> Finder:
    r"""Return the pattern as a regular expression; `\n` of a text or an `Expression` also matches `\r\n`, `\r\r\n`.

    Raises:
        TerminalTestError: it is not a pattern, or an empty text (`INVALID_CONFIG`).
    """
    if isinstance(pattern, str) and pattern:
        return re.compile("\r{0,2}\n".join(re.escape(line) for line in pattern.split("\n")))
    if isinstance(pattern, Expression):
        return msgspec.structs.replace(pattern, any_line_end=True)
    if not isinstance(pattern, str) and isinstance(getattr(pattern, "pattern", None), str):
        return pattern
    raise invalid(
        f"pattern: expected a non-empty string or a compiled pattern of a string, got {pattern!r}",
    )
