"""Walks the records of a log in their order and names each break of a chain, wherever the records come from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Literal, TypeAlias

import msgspec

from reenact.actors.journal.chain import FEED_GENESIS, STREAM_GENESIS, event_digest, feed_digest, seal_digest

Event: TypeAlias = tuple[bytes, int, bytes, bytes, bytes, int]
"""Stream, version, topic, state, digest and position."""

Row: TypeAlias = tuple[bytes, int, int, bytes, bytes, bytes | None]
"""Topic, first cursor, count, segments, digest and, if it stands in place of others, seal."""

Kind: TypeAlias = Literal["stream", "feed", "log"]


class Finding(msgspec.Struct, frozen=True):
    """Something in the log that is not as it was written.

    `name` is the stream or the topic, `at` the version or the first cursor of the record where it shows; or it is that
    of a table.
    """

    kind: Kind
    name: str
    at: int
    problem: str


def check_streams(rows: Iterable[Event]) -> Iterator[Finding]:
    """Yield what is wrong with the streams, whose records come by stream and version."""
    for stream, events in groupby(rows, key=itemgetter(0)):
        name = stream.decode(errors="backslashreplace")
        previous, expected, last_position = STREAM_GENESIS, 1, 0
        for _, version, topic, state, digest, position in events:
            # A stream that another library has begun may start at 0.
            if version != expected and (previous is not STREAM_GENESIS or version != 0):
                yield Finding("stream", name, version, f"version {expected} is missing")
            elif digest != event_digest(previous, stream, version, topic, state):
                yield Finding("stream", name, version, "the record or the one before it was changed")
            if position < last_position:
                yield Finding("stream", name, version, "the record stands before an earlier one of its stream")
            previous, expected, last_position = digest, version + 1, position


def check_feeds(rows: Iterable[Row]) -> Iterator[Finding]:
    """Yield what is wrong with the feeds, whose rows come by topic and first cursor."""
    for topic, feed in groupby(rows, key=itemgetter(0)):
        yield from check_feed(topic, feed)


def check_feed(
    topic: bytes, rows: Iterable[Row], *, previous: bytes = FEED_GENESIS, expected: int = 1
) -> Iterator[Finding]:
    """Yield what is wrong with rows of a feed; before the first one is a row with the digest `previous`."""
    name = topic.decode(errors="backslashreplace")
    for _, first_cursor, count, segments, digest, sealed in rows:
        if first_cursor != expected:
            yield Finding("feed", name, first_cursor, f"cursor {expected} is missing")
        elif sealed is None and digest != feed_digest(previous, topic, first_cursor, count, segments):
            yield Finding("feed", name, first_cursor, "the row or the one before it was changed")
        elif sealed is not None and sealed != seal_digest(
            previous, topic, first_cursor, count, segments, digest=digest
        ):
            yield Finding("feed", name, first_cursor, "the sealed row or the one before it was changed")
        previous, expected = digest, first_cursor + count


def check_tables(names: Iterable[str], there: Collection[str]) -> Iterator[Finding]:
    """Yield the tables that a log of its format has, and this one lacks."""
    for name in names:
        if name not in there:
            yield Finding("log", name, 0, "the table is missing")


def check_counts(count: int, last: int) -> Iterator[Finding]:
    """Yield what is wrong with the number of events, of which the last one stands at position `last`."""
    # Positions are given without holes, so what was removed, even from the end of a stream, leaves one.
    if count != last:
        yield Finding("log", "", last, f"{count} of {last} records are there")
