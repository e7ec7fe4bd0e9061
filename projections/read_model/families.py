"""Queries on families of sessions: which sessions have branches, and from which session each branches off."""

from __future__ import annotations

from typing import Final

import msgspec

from reenact.projections.read_model.reader_tables import ReaderTables
from reenact.projections.read_model.tables import BEHIND_ALL

MOST: Final = 10_000
"""The greatest number of sessions of a family that are read."""


class Member(msgspec.Struct, frozen=True):
    """A session of a family; `parent` is the index, within the family, of the session that it branches off from."""

    key: int
    parent: int | None
    depth: int


def counts(tables: ReaderTables) -> tuple[int, int]:
    """Return the number of sessions with branches, and the number of branches."""
    ((origins, branches),) = tables.query(
        "SELECT count(DISTINCT origin), count(*) FROM sessions WHERE origin IS NOT NULL"
    )
    assert isinstance(origins, int)
    assert isinstance(branches, int)
    return origins, branches


def branches_with(tables: ReaderTables, session_id: str, version: int, limit: int) -> list[str]:
    """Return the newest sessions that branch off from this one and share its event of that version."""
    rows = tables.query(
        """
        SELECT b.id FROM sessions s JOIN sessions b ON b.origin = s.position
        WHERE s.id = :id AND b.shared_version >= :version AND b.deleted_at IS NULL
        ORDER BY b.position DESC LIMIT :limit
        """,
        id=session_id,
        version=version,
        limit=limit,
    )
    return [str(id_) for (id_,) in rows]


def roots(tables: ReaderTables, before: int | None, limit: int) -> list[int]:
    """Return the root sessions of families, the newest first."""
    rows = tables.query(
        """
        SELECT position FROM sessions
        WHERE origin IS NULL AND position < :before
        AND position IN (SELECT origin FROM sessions WHERE origin IS NOT NULL)
        ORDER BY position DESC LIMIT :limit
        """,
        before=before or BEHIND_ALL,
        limit=limit,
    )
    return [key for (key,) in rows if isinstance(key, int)]


def root_of(tables: ReaderTables, session_id: str) -> int | None:
    """Return the root session of this session's family; None if there is no such session."""
    rows = tables.query(
        """
        WITH RECURSIVE lineage(position, origin) AS (
            SELECT position, origin FROM sessions WHERE id = :id
            UNION ALL
            SELECT s.position, s.origin FROM sessions s JOIN lineage l ON s.position = l.origin
        )
        SELECT position FROM lineage WHERE origin IS NULL
        """,
        id=session_id,
    )
    return next((key for (key,) in rows if isinstance(key, int)), None)


def family(tables: ReaderTables, root: int) -> list[Member]:
    """Return the sessions of a family in depth-first order, each before its branches."""
    rows = tables.query(
        """
        WITH RECURSIVE family(position, origin) AS (
            SELECT position, origin FROM sessions WHERE position = :root
            UNION ALL
            SELECT s.position, s.origin FROM sessions s JOIN family f ON s.origin = f.position
        )
        SELECT position, origin FROM family LIMIT :most
        """,
        root=root,
        most=MOST,
    )
    branches: dict[int, list[int]] = {}
    for key, origin in rows:
        if isinstance(key, int) and isinstance(origin, int):
            branches.setdefault(origin, []).append(key)
    members: list[Member] = []
    waiting: list[tuple[int, int | None, int]] = [(root, None, 0)]
    while waiting:
        key, parent, depth = waiting.pop()
        place = len(members)
        members.append(Member(key, parent, depth))
        waiting.extend((branch, place, depth + 1) for branch in sorted(branches.get(key, ()), reverse=True))
    return members
