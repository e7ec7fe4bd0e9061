"""Queries on calls that wait for people: a page of them, and the decision about one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from reenact.domain.loop.asking import Question
from reenact.domain.loop.rounds import Kind
from reenact.domain.plain import JsonDict, made
from reenact.domain.session.told import Decision
from reenact.projections.read_model.reader_tables import ReaderTables
from reenact.projections.read_model.rows import Value
from reenact.projections.read_model.session_list import questions_at
from reenact.projections.read_model.tables import BEFORE_ALL

LARGEST: Final = 1_000_000
"""The size in bytes up to which arguments are read; larger ones are not read at all."""

_question = msgspec.msgpack.Decoder(Question).decode
_string = msgspec.msgpack.Decoder(str).decode
_JSON = msgspec.msgpack.Decoder(JsonDict).decode
_T = TypeVar("_T")


class Place(msgspec.Struct, frozen=True, order=True):
    """The key of a call: the position of the answer that requests it, its number there, and the key of its session."""

    position: int = BEFORE_ALL
    number: int = 0
    session: int = 0

    def __str__(self) -> str:
        """Return the key as it is written in addresses."""
        return f"{self.position}.{self.number}.{self.session}"


class WaitingCall(msgspec.Struct):
    """A waiting call. Times are microseconds; `arguments` are None if they are too large to be read."""

    place: Place
    id: str
    kind: Kind
    name: str
    since: int
    session_id: str
    image_id: str
    size: int
    digest: str
    reason: str
    arguments: JsonDict | None
    question: Question | None
    asked: str = ""
    said: str = ""


class DecidedCall(msgspec.Struct, frozen=True):
    """A call with the decision about it. Times are microseconds."""

    id: str
    name: str
    session_id: str
    stage: str
    decision: Decision | None
    decided_by: str | None
    decided_at: int | None


_FROM = """
    FROM calls c JOIN sessions s ON s.position = c.session JOIN messages m ON m.position = c.position
    WHERE c.stage = 'waiting' AND c.kind <> 'child' AND s.deleted_at IS NULL
"""


def count(tables: ReaderTables) -> tuple[int, int, int | None]:
    """Return the number of waiting calls, of their sessions, and the time since which the first has waited."""
    ((calls, sessions, since),) = tables.query(f"SELECT count(*), count(DISTINCT c.session), min(c.asked_at) {_FROM}")
    assert isinstance(calls, int)
    assert isinstance(sessions, int)
    return calls, sessions, since if isinstance(since, int) else None


def page(tables: ReaderTables, after: Place, limit: int) -> list[WaitingCall]:
    """Return the calls after that place, oldest first."""
    rows = tables.query(
        f"""
        SELECT c.position, c.number, c.session, c.id, c.kind, c.name, c.asked_at, s.id, s.image_id,
            length(c.arguments), c.digest, c.reason,
            CASE WHEN length(c.arguments) <= {LARGEST} THEN c.arguments END, c.question, m.asked
        {_FROM} AND (c.position, c.number, c.session) > (:position, :number, :session)
        ORDER BY c.position, c.number, c.session LIMIT :limit
        """,
        **msgspec.structs.asdict(after),
        limit=limit,
    )
    asked = questions_at(tables, {row[-1] for row in rows})
    said = questions_at(tables, {row[0] for row in rows})
    return [
        made(
            WaitingCall,
            made(Place, *cells[:3]),
            *cells[3:10],
            _decoded(_string, cells[10]) or "",
            _decoded(_string, cells[11]) or "",
            _decoded(_JSON, cells[12]),
            _decoded(_question, cells[13]),
            asked=asked.get(cells[14], ""),
            said=said.get(cells[0], ""),
        )
        for cells in rows
    ]


def _decoded(decode: Callable[[bytes], _T], cell: Value) -> _T | None:
    return decode(cell) if isinstance(cell, bytes) else None


def call_at(tables: ReaderTables, place: Place) -> WaitingCall | None:
    """Return the call at the place, if it waits."""
    before = Place(place.position, place.number, place.session - 1)
    found = page(tables, before, 1)
    return found[0] if found and found[0].place == place else None


def decided_at(tables: ReaderTables, place: Place) -> DecidedCall | None:
    """Return the call at the place with its decision, None if there is no such call."""
    rows = tables.query(
        """
        SELECT c.id, c.name, s.id, c.stage, c.decision, c.decided_by, c.decided_at
        FROM calls c JOIN sessions s ON s.position = c.session
        WHERE c.position = :position AND c.number = :number AND c.session = :session
        """,
        **msgspec.structs.asdict(place),
    )
    return made(DecidedCall, *rows[0]) if rows else None
