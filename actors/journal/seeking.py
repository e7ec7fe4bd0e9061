"""Finds the events of rows: the query for rows that may hold them, and their way through page after page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import index
from typing import Annotated, Any, TypeAlias

import msgspec

from reenact.domain.errors import LogUnusableError

Cells: TypeAlias = tuple[Any, ...]
"""A row of a query; a file can hold anything in its cells.

Of an event: stream, version, position, topic, state, and what caused it.
"""

EVENTS = "SELECT stream, version, position, cause, events FROM steps"
"""Reads the rows that hold events, for `cells_of`."""

unpack = msgspec.msgpack.Decoder(Annotated[list[tuple[str, bytes]], msgspec.Meta(min_length=1)]).decode


def cells_of(rows: Iterable[Cells]) -> Iterator[Cells]:
    """Yield the events of rows, in their order; what caused those of a row comes with the first of them.

    Raises:
        LogUnusableError: a row cannot be decoded.
    """
    for stream, version, position, cause, events in rows:
        try:
            pairs, first, place = unpack(events), index(version), index(position)
        except (ValueError, TypeError) as error:
            message = f"the row at position {position!r} holds no events ({error}; stream {stream!r:.100})"
            raise LogUnusableError(f"{message}; verify the log, and restore a copy of it") from error
        for number, (topic, state) in enumerate(pairs):
            yield stream, first + number, place + number, topic, state, None if number else cause


Parameters: TypeAlias = tuple[str | int | bytes, ...]
Select: TypeAlias = Callable[[str, Parameters], list[Cells]]
"""Returns the rows of a query in SQLite's words."""

PAGE = 96
"""So many rows are read at a time."""
MOST = 2**63 - 1

# `key` rises from row to row, and so does `value`: each round halves where the last row can be that begins up to it.
# A key that is damaged may be text, of which SQLite would make an infinite number: that can be halved for ever.
_BISECTION = """(
    WITH RECURSIVE halves (low, size) AS (
        SELECT CAST(0 AS bigint), (SELECT CAST(max({key}) AS bigint) FROM steps WHERE {of})
        UNION ALL
        SELECT low + CASE WHEN (
            SELECT {value} FROM steps WHERE {of} AND {key} >= low + (size + 1) / 2 ORDER BY {order} LIMIT 1
        ) <= ? THEN (size + 1) / 2 ELSE 0 END, size / 2
        FROM halves WHERE size > 0
    )
    SELECT max(low) FROM halves
)"""
NUMBER_AT = _BISECTION.format(key="number", value="position", of="true", order="number")
"""The number of the last row that begins up to a position, the only parameter; 0 if none does."""
_VERSION_AT = _BISECTION.format(key="version", value="cursor", of="stream = ?", order="version, cursor")
HEARD_AT = f"""(
    SELECT coalesce(max(version), 0), coalesce(max(cursor), 0) FROM steps
    WHERE stream = ? AND version = {_VERSION_AT} AND cursor <= ?
)"""  # noqa: S608 - ours
"""The version and the cursor of the stream's last row that begins up to a cursor, 0 if none does; see `heard_at`."""


def heard_at(stream: str, cursor: int) -> Parameters:
    """Return the parameters of `HEARD_AT`."""
    return (stream, stream, stream, cursor, cursor)


_BEHIND = f"{EVENTS} WHERE count > 0 AND number >= {NUMBER_AT}"
_OF_STREAM = f"""
    {EVENTS} WHERE stream = ? AND count > 0
    AND version >= coalesce((SELECT max(version) FROM steps WHERE stream = ? AND version <= ?), 0) AND version <= ?
"""  # noqa: S608 - ours


def seek(
    select: Select,
    *,
    after: int,
    until: int = MOST,
    stream: str | None = None,
    backwards: bool = False,
    page: int = PAGE,
) -> Iterator[Cells]:
    """Yield events in their order, or backwards: with versions of the stream, or with positions if none is named.

    These are above `after`, `until` included. Rows are read as far as events are taken, so many at a time, at least 2.

    Raises:
        LogUnusableError: a row cannot be decoded, or rows do not stand in order.
    """
    place = 2 if stream is None else 1
    while after < until:
        rows = select(*rows_of(after=after, until=until, stream=stream, backwards=backwards, limit=page))
        if backwards:
            rows.reverse()
        cells = list(cells_of(rows))
        found = [each for each in cells if after < each[place] <= until]
        yield from reversed(found) if backwards else found
        if len(rows) < page:
            return
        # Where a row is missing, the first one read ends before what is looked for; the second does not.
        left = after, until
        if backwards:
            until = min(until, cells[0][place] - 1)
        else:
            after = max(after, cells[-1][place])
        if (after, until) == left:
            what = f"the events behind {after:,} of {'the log' if stream is None else repr(stream)[:100]}"
            raise LogUnusableError(f"{what} do not stand in order; verify the log, and restore a copy of it")


def rows_of(
    *, after: int, until: int = MOST, stream: str | None = None, backwards: bool = False, limit: int
) -> tuple[str, Parameters]:
    """Return the query, and its parameters, for up to `limit` rows that may hold such events, for `packed.cells_of`."""
    order = f"ORDER BY {'number' if stream is None else 'version'}{' DESC' if backwards else ''} LIMIT ?"
    if stream is not None:
        return f"{_OF_STREAM} {order}", (stream, stream, after + 1, until, limit)
    if until == MOST:
        return f"{_BEHIND} {order}", (after + 1, limit)
    return f"{_BEHIND} AND number <= {NUMBER_AT} {order}", (after + 1, until, limit)
