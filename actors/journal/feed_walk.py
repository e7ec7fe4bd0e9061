"""Walks the rows of a feed in their order, and names the first that is not as it was written."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

import msgspec

from reenact.actors.journal.chain import FEED_GENESIS, feed_digest, seal_digest
from reenact.actors.journal.ends import FeedEnd, Seals
from reenact.actors.journal.walk import CANNOT_BE, Finding, Text, text_of

Row: TypeAlias = tuple[Any, Any, Any, Any, Any, Any]
"""Topic, first cursor, count, segments, digest and, if it stands in place of others, seal.

A file can hold anything in place of them.
"""

_NO_ROW: Final = "the row holds what no row holds"


class Stretch(msgspec.Struct, frozen=True, gc=False):
    """One packed row of a feed, still encoded."""

    first_cursor: int
    count: int
    segments: bytes
    is_sealed: bool


class FeedWalk:
    """The feed of a topic on its way past, likewise."""

    def __init__(
        self,
        topic: bytes,
        rows: Iterable[Row],
        *,
        previous: bytes = FEED_GENESIS,
        expected: int = 1,
        text: type[Text] = bytes,
    ) -> None:
        """Walk over rows of the topic, which come by cursor; before the first is a row with the digest `previous`.

        `text` is what text comes as.
        """
        self._text = text
        self.name = text_of(topic)
        self.finding: Finding | None = None
        self.last = 0
        """The last cursor of what is as it was written."""
        self.count = 0
        self.end: FeedEnd | None = None
        """Where the feed ends, once all of it has passed."""
        self.rows: Iterator[Stretch] = self._walk(topic, iter(rows), previous, expected)
        """The rows up to the first that is not as it was written."""
        self._expected: FeedEnd | None = None

    def expect(self, end: FeedEnd | None) -> None:
        """Take note of how the feed once ended; rows may have been sealed since."""
        self._expected = end

    def pass_by(self) -> Finding | None:
        """Let what is left of the feed pass; return what is wrong with it."""
        deque(self.rows, maxlen=0)
        return self.finding

    def _walk(self, topic: bytes, rows: Iterator[Row], previous: bytes, expected: int) -> Iterator[Stretch]:
        text, seals, known = self._text, Seals(), self._expected
        count, problem = 0, None
        at: object = expected
        for cell, first_cursor, number, segments, digest, sealed in rows:
            count, at = count + 1, first_cursor
            try:
                if first_cursor != expected:
                    problem = f"cursor {expected} is missing"
                elif sealed is None and digest != feed_digest(previous, topic, first_cursor, number, segments):
                    problem = "the row or the one before it was changed"
                elif sealed is not None and sealed != seal_digest(
                    previous, topic, first_cursor, number, segments, digest=digest
                ):
                    problem = "the sealed row or the one before it was changed"
            except CANNOT_BE:
                problem = _NO_ROW
            if problem is None and (
                (type(cell), type(number), type(segments), type(digest)) != (text, int, bytes, bytes)
                or number < 1
                or type(sealed) not in (bytes, type(None))
            ):
                problem = _NO_ROW
            if problem is not None:
                break
            last = expected + number - 1
            if sealed is not None:
                seals.add(expected, last, sealed)
            if known is not None:
                problem = _unlike(known, expected, last, digest, seals, is_sealed=sealed is not None)
                if problem is not None:
                    break
            stretch = Stretch(expected, number, segments, sealed is not None)
            previous, expected, self.last = digest, last + 1, last
            yield stretch
        if problem is None and known is not None and known.cursor >= expected:
            problem = f"it ended at cursor {known.cursor} at the checkpoint, and now ends at {expected - 1}"
        if problem is not None:
            self.finding = Finding("feed", self.name, at if isinstance(at, int) else expected, problem)
        self.count = count + sum(1 for _ in rows)
        if count:
            self.end = FeedEnd(expected - 1, bytes(previous), *seals.end())


def check_feed(topic: bytes, rows: Iterable[Row], *, previous: bytes, expected: int) -> Finding | None:
    """Return what is wrong with rows of a feed; before the first one is a row with the digest `previous`."""
    return FeedWalk(topic, rows, previous=previous, expected=expected).pass_by()


def _unlike(known: FeedEnd, first: int, last: int, digest: bytes, seals: Seals, *, is_sealed: bool) -> str | None:
    """Return in what a row differs from what a checkpoint knows of it.

    A row that was sealed since stands in place of several: of where the feed ended inside it, nothing is left.
    """
    is_there = first <= known.cursor <= last and not (is_sealed and known.cursor < last)
    if is_there and (last, digest) != (known.cursor, known.digest):
        return "the row, or one before it, is another one than at the checkpoint"
    if last == known.sealed and seals.end() != (known.sealed, known.seals):
        return "the sealed row, or one before it, is another one than at the checkpoint"
    return None
