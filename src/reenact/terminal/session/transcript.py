"""The transcript: the output of a program as bytes, text and stripped text, and how far it has been matched."""

from __future__ import annotations

import codecs
import re
import threading

import msgspec

from reenact.terminal.ansi.parser import ANSIStripper
from reenact.terminal.errors import invalid, is_kit_error
from reenact.terminal.matching.options import Expression, Finder, Pattern

__tracebackhide__ = is_kit_error


class Tail:
    """The last `limit` bytes of what was added, by positions in the whole.

    Adding and reading take time in proportion to what is added or read.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self.end = 0

    @property
    def start(self) -> int:
        """The position of the first byte that is kept; everything before it was dropped."""
        return self.end - len(self._kept)

    def add(self, more: bytes) -> None:
        """Append it; drop what exceeds the limit from the beginning."""
        self._kept += more
        self.end += len(more)
        del self._kept[: -self._limit]

    def since(self, place: int) -> bytes:
        """Return what is kept from this position on."""
        return bytes(memoryview(self._kept)[max(0, place - self.start) :])


class Transcript:
    """The output, at most its last `limit` bytes. One thread adds; any thread may read."""

    def __init__(self, limit: int) -> None:
        self.lock = threading.RLock()
        self.match: re.Match[str] | None = None
        """The last match."""
        self._raw = Tail(limit)
        self._stripped = Tail(limit)
        self._matched = 0
        """Position in the stripped output up to which it was matched; the rest is new."""
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
            self._add_stripped(self._decoder.decode(data))

    def complete(self) -> None:
        """Record that no more output comes, so that an incomplete character stays incomplete."""
        with self.lock:
            if not self._complete:
                self._complete = True
                self._add_stripped(self._decoder.decode(b"", final=True))

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
            return self._stripped_since(0)

    def new_output(self) -> str:
        """Return the output that has not been matched yet."""
        with self.lock:
            return self._stripped_since(self._matched)

    def search(self, finder: Finder, *, only_new: bool) -> str | None:
        """Return the searched text from its beginning to the end of the match, or None."""
        with self.lock:
            part = self._stripped_since(self._matched if only_new else 0)
            match = finder.search(part)
            if match is None:
                return None
            self.match = match if isinstance(match, re.Match) else None
            if only_new:
                self._matched = self._stripped.end - len(part[match.end() :].encode())
            return part[: match.end()]

    def _add_stripped(self, text: str) -> None:
        self._stripped.add(self._stripper.feed(text).encode())

    def _stripped_since(self, place: int) -> str:
        return self._stripped.since(place).decode(errors="ignore")  # the first character may have been cut


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
