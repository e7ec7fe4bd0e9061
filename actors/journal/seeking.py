"""Finds events in the log: the query for the rows that hold them, and the iteration page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import index
from typing import Annotated, Any, TypeAlias

import msgspec

from reenact.domain.errors import LogUnusableError

Cells: TypeAlias = tuple[Any, ...]
"""A row of a query; in a damaged file its cells may hold anything.

For an event: stream, version, position, topic, state and cause.
"""

EVENTS = "SELECT stream, version, position, cause, events FROM steps"
"""Reads the rows that hold events, for `cells_of`."""

unpack = msgspec.msgpack.Decoder(Annotated[list[tuple[str, bytes]], msgspec.Meta(min_length=1)]).decode


def cells_of(rows: Iterable[Cells]) -> Iterator[Cells]:
    """Yield the events of rows, in order; the cause of a row's events comes with the first of them.

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
"""Returns the rows of a query in SQLite's dialect."""

PAGE = 96
"""How many rows are read at a time."""
MOST = 2**63 - 1

# `key` increases from row to row, and so does `value`: each round halves the range that can hold the last row beginning
# at or before the value. The CAST is for a damaged key, which may be text: SQLite would turn it into an infinite
# number, which can be halved for ever.
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
"""The number of the last row that begins at or before a position, the only parameter; 0 if there is none."""
_VERSION_AT = _BISECTION.format(key="version", value="cursor", of="stream = ?", order="version, cursor")
HEARD_AT = f"""(
    SELECT coalesce(max(version), 0), coalesce(max(cursor), 0) FROM steps
    WHERE stream = ? AND version = {_VERSION_AT} AND cursor <= ?
)"""  # noqa: S608 - ours
"""The version and the cursor of the stream's last row that begins at or before a cursor, or 0; see `heard_at`."""


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
    """Yield events in order, or backwards: by version within the stream, or by position if none is named.

    The bounds are `after`, exclusive, and `until`, inclusive. Rows are read lazily, `page` at a time, which must be at
    least 2.

    Raises:
        LogUnusableError: a row cannot be decoded, or rows are out of order.
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
        # If a row is missing, the first one read may end before the wanted events; the second one does not.
        left = after, until
        if backwards:
            until = min(until, cells[0][place] - 1)
        else:
            after = max(after, cells[-1][place])
        if (after, until) == left:
            what = f"the events behind {after:,} of {'the log' if stream is None else repr(stream)[:100]}"
            raise LogUnusableError(f"{what} are out of order; verify the log, and restore a copy of it")


def rows_of(
    *, after: int, until: int = MOST, stream: str | None = None, backwards: bool = False, limit: int
) -> tuple[str, Parameters]:
    """Return the query and the parameters for up to `limit` rows that may hold such events, for `cells_of`."""
    order = f"ORDER BY {'number' if stream is None else 'version'}{' DESC' if backwards else ''} LIMIT ?"
    if stream is not None:
        return f"{_OF_STREAM} {order}", (stream, stream, after + 1, until, limit)
    if until == MOST:
        return f"{_BEHIND} {order}", (after + 1, limit)
    return f"{_BEHIND} AND number <= {NUMBER_AT} {order}", (after + 1, until, limit)
