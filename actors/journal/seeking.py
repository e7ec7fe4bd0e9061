"""The query for events that fit conditions, so that no others need be read, let alone decoded."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypeAlias

Parameters: TypeAlias = tuple[str | int | bytes, ...]
_EVENTS: Final = "SELECT originator_id, originator_version, rowid, topic, state, cause FROM stored_events WHERE "


def seek(
    *,
    after: int,
    until: int | None,
    stream: str | None,
    after_version: int,
    until_version: int | None,
    names: Collection[str],
    since: bytes | None,
    before: bytes | None,
    backwards: bool,
    limit: int,
) -> tuple[str, Parameters]:
    """Return the query, in SQLite's words, and its parameters.

    `since` and `before` are what the bytes of events begin with that were recorded then: such beginnings are in order.
    """
    # The plus keeps the database from looking for a stream's few events by their positions.
    position = "rowid" if stream is None else "+rowid"
    conditions: list[tuple[str, str | int | bytes | None]] = [
        (f"{position} > ?", after),
        (f"{position} <= ?", until),
        ("originator_id = ?", stream),
        ("originator_version > ?", after_version if stream is not None else after_version or None),
        ("originator_version <= ?", until_version),
        ("state >= ?", since),
        ("state < ?", before),
    ]
    told = [condition for condition, value in conditions if value is not None]
    values = tuple(value for _, value in conditions if value is not None)
    if names:  # a topic is a name with a version
        prefixes = [f"{name}:" for name in sorted(names)]
        told.append(f"({' OR '.join(f'substr(topic, 1, {len(prefix)}) = ?' for prefix in prefixes)})")
        values = (*values, *prefixes)
    place = "rowid" if stream is None else "originator_version"
    order = f" ORDER BY {place}{' DESC' if backwards else ''} LIMIT ?"
    return f"{_EVENTS}{' AND '.join(told)}{order}", (*values, limit)
