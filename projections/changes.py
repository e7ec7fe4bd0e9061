"""Reading the open ends of conversations from the tables, and writing back what a batch changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import astuple
from sqlalchemy import BindParameter, Connection, Select, bindparam, func, insert, literal_column, select, update
from sqlalchemy.dialects import sqlite

from reenact.domain.loop.ledger import Spent
from reenact.domain.messages import Block
from reenact.projections.projectors import asked_for
from reenact.projections.state import AgentRow, CallRow, Changes, Conversing, TurnRow
from reenact.projections.statements import Statement, Values
from reenact.projections.tables import AGENTS, CALLS, CONTAINERS, IMAGES, MESSAGES, REVISIONS, SESSIONS, TURNS, USAGE

_AT: Final[BindParameter[int]] = bindparam("at_position")
_OF: Final[BindParameter[int]] = bindparam("of_session")

_ADD_CONTAINERS: Final = Statement(insert(CONTAINERS))
_ADD_REVISIONS: Final = Statement(insert(REVISIONS))
_ADD_SESSIONS: Final = Statement(insert(SESSIONS))
_ADD_MESSAGES: Final = Statement(insert(MESSAGES))
_ADD_TURNS: Final = Statement(insert(TURNS))
_ADD_AGENTS: Final = Statement(insert(AGENTS))
_ADD_CALLS: Final = Statement(insert(CALLS))

_new_image = sqlite.insert(IMAGES)
_PUT_IMAGES: Final = Statement(
    _new_image.on_conflict_do_update(index_elements=["id"], set_={"revision": _new_image.excluded.revision})
)
_new_usage = sqlite.insert(USAGE)
_PUT_USAGE: Final = Statement(
    _new_usage.on_conflict_do_update(
        index_elements=["session", "kind", "name"],
        set_={name: _new_usage.excluded[name] for name in ("calls", "usage", "cost", "unpriced")},
    )
)
_DELETE_SESSIONS: Final = Statement(
    update(SESSIONS).where(SESSIONS.c.position == _AT).values(deleted_at=bindparam("new_deleted_at"))
)
_TURN_COLUMNS: Final = (
    "started_at",
    "ended_at",
    "ended",
    "outcome",
    "stop_reason",
    "duration",
    "steps",
    "answer",
    "model",
    "usage",
    "cost",
    "failure",
    "stop_sequence",
    "stop_details",
)
_MOVE_TURNS: Final = Statement(
    update(TURNS)
    .where(TURNS.c.position == _AT, TURNS.c.session == _OF)
    .values({name: bindparam(f"new_{name}") for name in _TURN_COLUMNS})
)
_AGENT_COLUMNS: Final = ("stopped_at", "turn_id", "activity", "failed", "waits", "queued")
_MOVE_AGENTS: Final = Statement(
    update(AGENTS).where(AGENTS.c.position == _AT).values({name: bindparam(f"new_{name}") for name in _AGENT_COLUMNS})
)
_FIXED_OF_CALL: Final = 5
_CALL_COLUMNS: Final = CALLS.c.keys()[_FIXED_OF_CALL:]
_MOVE_CALLS: Final = Statement(
    update(CALLS)
    .where(CALLS.c.position == _AT, CALLS.c.number == bindparam("at_number"), CALLS.c.session == _OF)
    .values({name: bindparam(f"new_{name}") for name in _CALL_COLUMNS})
)

_json: Final = msgspec.json.Encoder().encode
_pack: Final = msgspec.msgpack.Encoder().encode
_content: Final = msgspec.msgpack.Decoder(tuple[Block, ...]).decode
_counts: Final = msgspec.msgpack.Decoder(dict[str, int]).decode
# All keys in one parameter: the text stays the same however many there are, and SQLite prepares it once.
_keys: Final[Select[tuple[Any]]] = select(func.json_each(bindparam("keys")).table_valued("value").c.value)
_taken_up = (
    select(func.max(TURNS.c.asked))
    .where(TURNS.c.session == SESSIONS.c.position, TURNS.c.started_at.is_not(None))
    .scalar_subquery()
)
_SESSIONS: Final = Statement(
    select(
        SESSIONS.c.stream,
        SESSIONS.c.position,
        SESSIONS.c.id,
        SESSIONS.c.container_id,
        SESSIONS.c.image_id,
        func.coalesce(_taken_up, SESSIONS.c.shared_asked, literal_column("0")),
    ).where(SESSIONS.c.stream.in_(_keys))
)
_LIVE_AGENTS: Final = Statement(
    select(
        AGENTS.c.session,
        AGENTS.c.position,
        AGENTS.c.id,
        AGENTS.c.started_at,
        AGENTS.c.turn_id,
        AGENTS.c.activity,
        AGENTS.c.failed,
    ).where(AGENTS.c.stopped_at.is_(None), AGENTS.c.session.in_(_keys))
)
_OPEN_TURNS: Final = Statement(
    select(
        TURNS.c.position,
        TURNS.c.id,
        TURNS.c.session,
        TURNS.c.asked,
        TURNS.c.accepted_at,
        TURNS.c.started_at,
        TURNS.c.steps,
        TURNS.c.answer,
        TURNS.c.model,
        TURNS.c.usage,
        TURNS.c.cost,
        MESSAGES.c.content,
    )
    .join_from(TURNS, MESSAGES, MESSAGES.c.position == TURNS.c.answer, isouter=True)
    .where(TURNS.c.ended_at.is_(None), TURNS.c.session.in_(_keys))
    .order_by(TURNS.c.session, TURNS.c.position)
)
_OPEN_CALLS: Final = Statement(
    select(CALLS, MESSAGES.c.asked)
    .join_from(CALLS, MESSAGES, MESSAGES.c.position == CALLS.c.position)
    .where(CALLS.c.results.is_(None), CALLS.c.session.in_(_keys))
    .order_by(CALLS.c.session, CALLS.c.position, CALLS.c.number)
)
_USAGE: Final = Statement(select(USAGE).where(USAGE.c.session.in_(_keys)))


def load(connection: Connection, streams: Collection[str]) -> dict[str, Conversing]:
    """Return the conversations of these streams, as far as there are rows of them."""
    conversations: dict[str, Conversing] = {}
    by_key: dict[int, Conversing] = {}
    for stream, position, session_id, container_id, image_id, asked in _ask(connection, _SESSIONS, streams):
        session = Conversing(position, session_id, container_id, image_id, asked=asked)
        conversations[stream] = by_key[position] = session
    for key, position, agent_id, started_at, turn_id, activity, failed in _ask(connection, _LIVE_AGENTS, by_key):
        by_key[key].agent = AgentRow(
            position, agent_id, started_at, turn_id=turn_id, activity=activity, failed=bool(failed), stored=True
        )
    for row in _ask(connection, _OPEN_TURNS, by_key):
        _add_turn(by_key, row)
    for row in _ask(connection, _OPEN_CALLS, by_key):
        call = CallRow(*row[:-1])
        call.asked, call.stored = row[-1], True
        by_key[call.session].calls[call.id] = call
    for key, kind, name, calls, usage, cost, unpriced in _ask(connection, _USAGE, by_key):
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


def _ask(connection: Connection, question: Statement, keys: Collection[str | int]) -> Sequence[Sequence[Any]]:
    return connection.exec_driver_sql(question.sql, (_json(list(keys)).decode(),)).all() if keys else ()


def write(connection: Connection, changes: Changes) -> None:
    """Write the rows, each kind in one statement."""
    new_turns: list[Values] = [astuple(turn)[:-2] for turn in changes.turns.values() if not turn.stored]
    moved_turns: list[Values] = [
        (*astuple(turn)[5:-2], turn.position, turn.session) for turn in changes.turns.values() if turn.stored
    ]
    new_calls: list[Values] = [astuple(call)[:-2] for call in changes.calls.values() if not call.stored]
    moved_calls: list[Values] = [
        (*astuple(call)[_FIXED_OF_CALL:-2], call.position, call.number, call.session)
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
    _run(connection, _ADD_CONTAINERS, changes.containers)
    _run(connection, _PUT_IMAGES, changes.images)
    _run(connection, _ADD_REVISIONS, changes.revisions)
    _run(connection, _ADD_SESSIONS, changes.sessions)
    _run(connection, _DELETE_SESSIONS, changes.deleted)
    _run(connection, _ADD_AGENTS, new_agents)
    _run(connection, _MOVE_AGENTS, moved_agents)
    _run(connection, _ADD_TURNS, new_turns)
    _run(connection, _MOVE_TURNS, moved_turns)
    _run(connection, _ADD_MESSAGES, changes.messages)
    _run(connection, _ADD_CALLS, new_calls)
    _run(connection, _MOVE_CALLS, moved_calls)
    _run(connection, _PUT_USAGE, usage)
    for turn in changes.turns.values():
        turn.stored = True
    for call in changes.calls.values():
        call.stored = True
    for agent, _ in changes.agents.values():
        agent.stored = True


def _run(connection: Connection, statement: Statement, rows: list[Values]) -> None:
    if rows:
        connection.exec_driver_sql(statement.sql, rows)


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
