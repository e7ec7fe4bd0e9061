"""Reading the open ends of conversations from the tables, and writing back what a batch changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from reenact.domain.loop.ledger import Spent
from reenact.domain.messages import Block
from reenact.projections import compiled
from reenact.projections.projectors import asked_for
from reenact.projections.spending import packed
from reenact.projections.state import AgentRow, CallRow, Changes, Conversing, TurnRow, Values

_json: Final = msgspec.json.Encoder().encode
_content: Final = msgspec.msgpack.Decoder(tuple[Block, ...]).decode
_counts: Final = msgspec.msgpack.Decoder(dict[str, int]).decode


def load(connection: sqlite3.Connection, streams: Collection[str]) -> dict[str, Conversing]:
    """Return the conversations of these streams, as far as there are rows of them."""
    conversations: dict[str, Conversing] = {}
    by_key: dict[int, Conversing] = {}
    for stream, position, session_id, container_id, image_id, asked in _ask(
        connection, compiled.SESSIONS_OF_STREAMS, streams
    ):
        session = Conversing(position, session_id, container_id, image_id, asked=asked)
        conversations[stream] = by_key[position] = session
    for row in _ask(connection, compiled.LIVE_AGENTS_OF, by_key):
        agent = AgentRow(*row)
        by_key[agent.session].agent = agent
    for *row, content in _ask(connection, compiled.OPEN_TURNS_OF, by_key):
        turn = TurnRow(*row)
        session = by_key[turn.session]
        session.turns[turn.id] = turn
        session.waiting += turn.started_at is None
        if turn.usage is not None:
            turn.counted = _counts(turn.usage)
        if content is not None:
            session.uses = asked_for(_content(content))
    for row in _ask(connection, compiled.OPEN_CALLS_OF, by_key):
        call = CallRow(*row)
        by_key[call.session].calls[call.id] = call
    for key, kind, name, calls, usage, cost, unpriced in _ask(connection, compiled.USAGE_OF, by_key):
        by_key[key].spent[kind, name] = Spent(calls, {} if usage is None else _counts(usage), cost, unpriced)
    return conversations


def _ask(connection: sqlite3.Connection, question: str, keys: Collection[str | int]) -> Sequence[Sequence[Any]]:
    return connection.execute(question, (_json(list(keys)).decode(),)).fetchall() if keys else ()


def write(connection: sqlite3.Connection, changes: Changes) -> None:
    """Write the rows, each kind in one statement."""
    turns: list[Values] = [astuple(turn)[:-1] for turn in changes.turns.values()]
    calls: list[Values] = [astuple(call)[:-1] for call in changes.calls.values()]
    for agent, session in changes.agents.values():
        is_live = agent.stopped_at is None
        agent.waits = is_live and any(call.stage == "waiting" for call in session.calls.values())
        agent.queued = session.waiting if is_live else 0
    agents: list[Values] = [astuple(agent) for agent, _ in changes.agents.values()]
    usage: list[Values] = [
        (session, *by, spent.calls, packed(spent.usage or None), spent.cost, spent.unpriced)
        for (session, by), spent in changes.spent.items()
    ]
    for statement, rows in (
        (compiled.ADD_CONTAINERS, changes.containers),
        (compiled.PUT_IMAGES, changes.images),
        (compiled.ADD_REVISIONS, changes.revisions),
        (compiled.ADD_SESSIONS, changes.sessions),
        (compiled.DELETE_SESSIONS, changes.deleted),
        (compiled.PUT_AGENTS, agents),
        (compiled.PUT_TURNS, turns),
        (compiled.ADD_MESSAGES, changes.messages),
        (compiled.PUT_CALLS, calls),
        (compiled.PUT_USAGE, usage),
    ):
        if rows:
            connection.executemany(statement, rows)
