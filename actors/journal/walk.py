"""Walks the records of a log in their order and names each break of a chain, wherever the records come from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Literal, TypeAlias

import msgspec

from reenact.actors.journal.chain import (
    FEED_GENESIS,
    STREAM_GENESIS,
    event_digest,
    feed_digest,
    record_seal,
    request_proof,
    seal_digest,
)

Event: TypeAlias = tuple[bytes, int, bytes, bytes, bytes, int, bytes | None]
"""Stream, version, topic, state, digest, position and, if it was redacted, seal."""

Row: TypeAlias = tuple[bytes, int, int, bytes, bytes, bytes | None]
"""Topic, first cursor, count, segments, digest and, if it stands in place of others, seal."""

Request: TypeAlias = tuple[bytes, bytes, bytes, int, bytes]
"""Id, digest of what was asked, note, time and proof."""

Kind: TypeAlias = Literal["stream", "feed", "request", "log"]


class Finding(msgspec.Struct, frozen=True):
    """Something in the log that is not as it was written.

    `name` is the stream or the topic, `at` the version or the first cursor of the record where it shows; or it is that
    of a table, or of a request, and 0.
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
        for _, version, topic, state, digest, position, seal in events:
            # A stream that another library has begun may start at 0.
            if version != expected and (previous is not STREAM_GENESIS or version != 0):
                yield Finding("stream", name, version, f"version {expected} is missing")
            elif seal is None and digest != event_digest(previous, stream, version, topic, state):
                yield Finding("stream", name, version, "the record or the one before it was changed")
            elif seal is not None and seal != record_seal(previous, stream, version, topic, state, digest=digest):
                yield Finding("stream", name, version, "the redacted record or the one before it was changed")
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


def check_seals(keys: Iterable[tuple[bytes, int]]) -> Iterator[Finding]:
    """Yield the seals, given by stream and version, whose records are not there."""
    for stream, version in keys:
        name = stream.decode(errors="backslashreplace")
        yield Finding("stream", name, version, "the redacted record is missing, and only its seal is there")


def check_requests(rows: Iterable[Request]) -> Iterator[Finding]:
    """Yield what is wrong with the requests that are remembered."""
    for request_id, digest, note, at, proof in rows:
        if proof != request_proof(request_id, digest, note, at):
            name = request_id.decode(errors="backslashreplace")
            yield Finding("request", name, 0, "what is remembered of the request was changed")


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
