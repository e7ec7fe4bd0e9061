"""Is the log what was once written? Every stream and every feed is walked, and each break of its chain is named."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from typing import Literal, TypeAlias

import msgspec

from reenact.actors.journal.chain import FEED_GENESIS, STREAM_GENESIS, event_digest, feed_digest
from reenact.actors.journal.faults import translated
from reenact.actors.journal.pool import connect_to_read

_Event: TypeAlias = tuple[bytes, int, bytes, bytes, bytes, int]
_Row: TypeAlias = tuple[bytes, int, int, bytes, bytes]

Kind: TypeAlias = Literal["stream", "feed", "log"]

# Read as what they should be: damaged text need not be text any more, and what is missing is not what was digested.
_EVENTS = """
    SELECT CAST(coalesce(originator_id, '') AS BLOB), CAST(coalesce(originator_version, -1) AS INTEGER),
        CAST(coalesce(topic, '') AS BLOB), CAST(coalesce(state, '') AS BLOB), CAST(coalesce(digest, '') AS BLOB), rowid
    FROM stored_events ORDER BY originator_id, originator_version
"""
_FEED = """
    SELECT CAST(coalesce(topic, '') AS BLOB), CAST(coalesce(first_cursor, -1) AS INTEGER),
        CAST(coalesce(count, -1) AS INTEGER), CAST(coalesce(segments, '') AS BLOB), CAST(coalesce(digest, '') AS BLOB)
    FROM feed ORDER BY topic, first_cursor
"""
_COUNTS = """
    SELECT (SELECT count(*) FROM stored_events NOT INDEXED), coalesce(max(seq), 0)
    FROM sqlite_sequence WHERE name = 'stored_events'
"""


class Finding(msgspec.Struct, frozen=True):
    """Something in the log that is not as it was written.

    `name` is the stream or the topic, `at` the version or the first cursor of the record where it shows.
    """

    kind: Kind
    name: str
    at: int
    problem: str


def verify(log: sqlite3.Connection | str | os.PathLike[str]) -> list[Finding]:
    """Return what is wrong with the log, which is read in one pass and in bounded memory; nothing is repaired.

    Raises:
        StorageError: the log cannot be read to its end.
    """
    if isinstance(log, sqlite3.Connection):
        return _verify(log)
    path = os.path.realpath(log)
    with translated(path), closing(connect_to_read(path)) as connection:
        return _verify(connection)


def _verify(connection: sqlite3.Connection) -> list[Finding]:
    connection.execute("BEGIN")
    try:
        return [*_check_streams(connection), *_check_feeds(connection), *_check_counts(connection)]
    finally:
        connection.execute("ROLLBACK")


def _check_streams(connection: sqlite3.Connection) -> Iterator[Finding]:
    rows: Iterator[_Event] = connection.execute(_EVENTS)
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


def _check_feeds(connection: sqlite3.Connection) -> Iterator[Finding]:
    feed: Iterator[_Row] = connection.execute(_FEED)
    for topic, rows in groupby(feed, key=itemgetter(0)):
        name = topic.decode(errors="backslashreplace")
        previous, expected = FEED_GENESIS, 1
        for _, first_cursor, count, segments, digest in rows:
            if first_cursor != expected:
                yield Finding("feed", name, first_cursor, f"cursor {expected} is missing")
            elif digest != feed_digest(previous, topic, first_cursor, count, segments):
                yield Finding("feed", name, first_cursor, "the row or the one before it was changed")
            previous, expected = digest, first_cursor + count


def _check_counts(connection: sqlite3.Connection) -> Iterator[Finding]:
    counts: tuple[int, int] = connection.execute(_COUNTS).fetchone()
    count, last = counts
    # Positions are given without holes, so what was removed, even from the end of a stream, leaves one.
    if count != last:
        yield Finding("log", "", last, f"{count} of {last} records are there")
