"""What somebody can do to a log who knows how its digests are made: cut it, rewrite it, leave streams out."""

from __future__ import annotations

import sqlite3

import msgspec

from reenact.actors.journal.chain import FEED_GENESIS, STREAM_GENESIS, event_digest, feed_digest, seal_digest


def cut(connection: sqlite3.Connection, position: int) -> set[str]:
    """Take the log back to a position; return the streams that have lost something."""
    rows = connection.execute("SELECT DISTINCT originator_id FROM stored_events WHERE rowid > ?", (position,))
    lost = {name for (name,) in rows}
    connection.execute("DELETE FROM stored_events WHERE rowid > ?", (position,))
    connection.execute("UPDATE sqlite_sequence SET seq = ?", (position,))
    return lost


def leave_out(connection: sqlite3.Connection, stream: str) -> set[str]:
    """Remove a stream and its feed, and close the gaps among the positions."""
    connection.execute("DELETE FROM stored_events WHERE originator_id = ?", (stream,))
    connection.execute("DELETE FROM feed WHERE topic = ?", (stream,))
    left = connection.execute("SELECT rowid FROM stored_events ORDER BY rowid").fetchall()
    for new, (old,) in enumerate(left, 1):
        connection.execute("UPDATE stored_events SET rowid = ? WHERE rowid = ?", (new, old))
    connection.execute("UPDATE sqlite_sequence SET seq = ?", (len(left),))
    return {stream}


def rewrite(connection: sqlite3.Connection, stream: str, version: int) -> set[str]:
    """Let an event say something else, and give all from there on the digests that they would have."""
    events = "SELECT originator_version, topic, state, cause FROM stored_events WHERE originator_id = ? ORDER BY 1"
    digest = STREAM_GENESIS
    for each, topic, state, cause in connection.execute(events, (stream,)).fetchall():
        said = state + b"\x00" if each == version else state
        digest = event_digest(digest, stream.encode(), each, topic.encode(), said, cause=cause)
        connection.execute(
            "UPDATE stored_events SET state = ?, digest = ? WHERE originator_id = ? AND originator_version = ?",
            (said, digest, stream, each),
        )
    return {stream}


def rewrite_feed(connection: sqlite3.Connection, topic: str, cursor: int) -> set[str]:
    """Do so with a row of a feed, which may be sealed."""
    rows = "SELECT first_cursor, count, segments, digest, sealed FROM feed WHERE topic = ? ORDER BY 1"
    previous, name = FEED_GENESIS, topic.encode()
    for first, count, segments, digest, sealed in connection.execute(rows, (topic,)).fetchall():
        said = segments + b"\x00" if first == cursor else segments
        if sealed is None:
            digest = feed_digest(previous, name, first, count, said)  # noqa: PLW2901 - the new one
        else:
            sealed = seal_digest(previous, name, first, count, said, digest=digest)  # noqa: PLW2901 - likewise
        connection.execute(
            "UPDATE feed SET segments = ?, digest = ?, sealed = ? WHERE topic = ? AND first_cursor = ?",
            (said, digest, sealed, topic, first),
        )
        previous = digest
    return {topic}


def say_otherwise(connection: sqlite3.Connection, topic: str, kind: str, field: str, said: object) -> set[str]:
    """Let the feed's entries of a type say something else, in rows sealed as those that stand in place of others."""
    rows = "SELECT first_cursor, count, segments, digest FROM feed WHERE topic = ? ORDER BY 1"
    previous, name = FEED_GENESIS, topic.encode()
    for first, count, segments, digest in connection.execute(rows, (topic,)).fetchall():
        decoded = msgspec.msgpack.decode(segments)
        of_kind = [entry[2] for _, entries in decoded for entry in entries if entry[0] == kind]
        for data in of_kind:
            data[field] = said
        if of_kind:
            encoded = msgspec.msgpack.encode(decoded)
            seal = seal_digest(previous, name, first, count, encoded, digest=digest)
            connection.execute(
                "UPDATE feed SET segments = ?, sealed = ? WHERE topic = ? AND first_cursor = ?",
                (encoded, seal, topic, first),
            )
        previous = digest
    return {topic}
