"""What somebody can do to a log who knows how its digests are made: cut it, rewrite it, leave streams out."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec

from reenact.domain.chain import GENESIS, Row, header_of, part_digest, row_digest

_COLUMNS = ", ".join(Row.__struct_fields__)


def cut(connection: sqlite3.Connection, number: int) -> set[str]:
    """Take the log back to a row; return the streams that have lost something."""
    lost = {name for (name,) in connection.execute("SELECT DISTINCT stream FROM steps WHERE number > ?", (number,))}
    connection.execute("DELETE FROM steps WHERE number > ?", (number,))
    return lost


def leave_out(connection: sqlite3.Connection, stream: str) -> set[str]:
    """Remove a stream, and close the gaps among the numbers and the positions."""
    connection.execute("DELETE FROM steps WHERE stream = ?", (stream,))
    position = 1
    left = connection.execute("SELECT number, position, count FROM steps ORDER BY number").fetchall()
    for new, (old, at, count) in enumerate(left, 1):
        place = None if at is None else position
        connection.execute("UPDATE steps SET number = ?, position = ? WHERE number = ?", (new, place, old))
        position += count
    return {stream}


def rewrite(connection: sqlite3.Connection, stream: str, number: int) -> set[str]:
    """Let a row say something else, and give all from there on the digests, or the seals, that they would have."""

    def say(row: Row) -> Row:
        if row.number != number:
            return row
        if row.events is not None:
            return msgspec.structs.replace(row, events=row.events + b"\x00")
        return msgspec.structs.replace(row, feed=(row.feed or b"") + b"\x00")

    _rewrite(connection, stream, say)
    return {stream}


def rewrite_feed(connection: sqlite3.Connection, stream: str, number: int) -> None:
    """Let the feed of a row end otherwise, and give all from there on the digests that they would have."""

    def say(row: Row) -> Row:
        if row.number != number or row.feed is None:
            return row
        return msgspec.structs.replace(row, feed=row.feed[:-1] + bytes([row.feed[-1] ^ 1]))

    _rewrite(connection, stream, say)


def say_otherwise(connection: sqlite3.Connection, topic: str, kind: str, field: str, said: object) -> set[str]:
    """Let the feed's entries of a type say something else, in rows sealed as those that stand in place of others."""

    def say(row: Row) -> Row:
        decoded: list[Any] = [[]] if row.feed is None else msgspec.msgpack.decode(row.feed)
        of_kind: list[Any] = [entry[2] for _, entries in decoded[0] for entry in entries if entry[0] == kind]
        for data in of_kind:
            if isinstance(data, list):  # a run of texts
                data[:] = [said] * len(data)  # pyright: ignore[reportUnknownArgumentType]  # of anything
            else:
                data[field] = said
        return msgspec.structs.replace(row, feed=msgspec.msgpack.encode(decoded)) if of_kind else row

    _rewrite(connection, topic, say, seals=True)
    return {topic}


def _rewrite(connection: sqlite3.Connection, stream: str, say: Callable[[Row], Row], *, seals: bool = False) -> None:
    """Let the rows of a stream say this: sealed anew if they are, or are to be, or else written as if always so."""
    previous = old = GENESIS
    query = f"SELECT {_COLUMNS} FROM steps WHERE stream = ? ORDER BY number"  # noqa: S608 - ours
    for cells in connection.execute(query, (stream,)).fetchall():
        row = Row(*cells)
        said = say(row)
        if row.seal is not None or (seals and said is not row):
            written = row.replaced(
                old,
                behind=previous,
                cause=said.cause,
                events=said.events,
                feed=said.feed,
                cursor=said.cursor,
                heard=said.heard,
            )
        else:
            written = msgspec.structs.replace(said, digest=_digest(previous, said))
        values = msgspec.structs.astuple(written)
        places = ", ".join("?" * len(values))
        connection.execute(f"REPLACE INTO steps ({_COLUMNS}) VALUES ({places})", values)  # noqa: S608 - ours
        old, previous = row.digest, written.digest


def _digest(previous: bytes, row: Row) -> bytes:
    header = header_of(
        row.stream.encode(),
        row.recorded_at,
        version=row.version,
        count=row.count,
        cursor=row.cursor,
        heard=row.heard,
        key=b"" if row.key is None else row.key.encode(),
    )
    return row_digest(previous, (part_digest(row.cause), part_digest(row.events), part_digest(row.feed)), header)
