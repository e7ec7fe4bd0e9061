"""Reading the open ends of conversations from the tables, and writing back what a batch changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from reenact.domain.loop.ledger import Spent
from reenact.domain.messages import Block
from reenact.projections import compiled
from reenact.projections.projectors import asked_for
from reenact.projections.state import FIXED_OF_CALL, AgentRow, CallRow, Changes, Conversing, TurnRow
from reenact.projections.statements import Values

_json: Final = msgspec.json.Encoder().encode
_pack: Final = msgspec.msgpack.Encoder().encode
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
    for key, position, agent_id, started_at, turn_id, activity, failed in _ask(
        connection, compiled.LIVE_AGENTS_OF, by_key
    ):
        by_key[key].agent = AgentRow(
            position, agent_id, started_at, turn_id=turn_id, activity=activity, failed=bool(failed), stored=True
        )
    for row in _ask(connection, compiled.OPEN_TURNS_OF, by_key):
        _add_turn(by_key, row)
    for row in _ask(connection, compiled.OPEN_CALLS_OF, by_key):
        call = CallRow(*row[:-1])
        call.asked, call.stored = row[-1], True
        by_key[call.session].calls[call.id] = call
    for key, kind, name, calls, usage, cost, unpriced in _ask(connection, compiled.USAGE_OF, by_key):
        by_key[key].spent[kind, name] = Spent(calls, {} if usage is None else _counts(usage), cost, unpriced)
    return conversations


def _add_turn(by_key: Mapping[int, Conversing], row: Sequence[Any]) -> None:
    position, turn_id, session, asked, accepted_at, started_at, steps, answer, model, usage, cost, content = row
    conversation = by_key[session]
    turn = conversation.turns[turn_id] = TurnRow(
        position, session, turn_id, asked, accepted_at, started_at, stored=True
    )
    turn.steps, turn.answer, turn.model, turn.usage, turn.cost = steps, answer, model, usage, cost
    if usage is not None:
        turn.counted = _counts(usage)
    if content is not None:
        conversation.uses = asked_for(_content(content))
    conversation.waiting += started_at is None


def _ask(connection: sqlite3.Connection, question: str, keys: Collection[str | int]) -> Sequence[Sequence[Any]]:
    return connection.execute(question, (_json(list(keys)).decode(),)).fetchall() if keys else ()


def write(connection: sqlite3.Connection, changes: Changes) -> None:
    """Write the rows, each kind in one statement."""
    new_turns: list[Values] = [astuple(turn)[:-2] for turn in changes.turns.values() if not turn.stored]
    moved_turns: list[Values] = [
        (*astuple(turn)[5:-2], turn.position, turn.session) for turn in changes.turns.values() if turn.stored
    ]
    new_calls: list[Values] = [astuple(call)[:-2] for call in changes.calls.values() if not call.stored]
    moved_calls: list[Values] = [
        (*astuple(call)[FIXED_OF_CALL:-2], call.position, call.number, call.session)
        for call in changes.calls.values()
        if call.stored
    ]
    new_agents = [_agent(agent, session) for agent, session in changes.agents.values() if not agent.stored]
    moved_agents = [
        (*_agent(agent, session)[7:], agent.position) for agent, session in changes.agents.values() if agent.stored
    ]
    usage: list[Values] = [
        (session, *by, spent.calls, _pack(spent.usage) if spent.usage else None, spent.cost, spent.unpriced)
        for (session, by), spent in changes.spent.items()
    ]
    _run(connection, compiled.ADD_CONTAINERS, changes.containers)
    _run(connection, compiled.PUT_IMAGES, changes.images)
    _run(connection, compiled.ADD_REVISIONS, changes.revisions)
    _run(connection, compiled.ADD_SESSIONS, changes.sessions)
    _run(connection, compiled.DELETE_SESSIONS, changes.deleted)
    _run(connection, compiled.ADD_AGENTS, new_agents)
    _run(connection, compiled.MOVE_AGENTS, moved_agents)
    _run(connection, compiled.ADD_TURNS, new_turns)
    _run(connection, compiled.MOVE_TURNS, moved_turns)
    _run(connection, compiled.ADD_MESSAGES, changes.messages)
    _run(connection, compiled.ADD_CALLS, new_calls)
    _run(connection, compiled.MOVE_CALLS, moved_calls)
    _run(connection, compiled.PUT_USAGE, usage)
    for turn in changes.turns.values():
        turn.stored = True
    for call in changes.calls.values():
        call.stored = True
    for agent, _ in changes.agents.values():
        agent.stored = True


def _run(connection: sqlite3.Connection, statement: str, rows: list[Values]) -> None:
    if rows:
        connection.executemany(statement, rows)


def _agent(agent: AgentRow, session: Conversing) -> Values:
    return (
        agent.position,
        agent.id,
        session.position,
        session.id,
        session.container_id,
        session.image_id,
        agent.started_at,
        agent.stopped_at,
        agent.turn_id,
        agent.activity,
        int(agent.failed),
        int(agent.stopped_at is None and any(call.stage == "waiting" for call in session.calls.values())),
        session.waiting if agent.stopped_at is None else 0,
    )
