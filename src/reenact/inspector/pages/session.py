"""The page of a session: its conversation, and beside it the timeline, around a position or at its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from reenact.domain.errors import StorageError
from reenact.domain.session.agent import (
    AgentStarted,
    AgentStopped,
    HandoverRequested,
    ImageChanged,
    MessageAccepted,
    MessageScheduled,
    ResultsRecorded,
    RulesRecorded,
    ScheduleCancelled,
    ScheduleFired,
    TurnCompleted,
)
from reenact.domain.session.state import SessionBranched, SessionCreated, SessionDeleted, SessionInfo
from reenact.domain.session.told import UsageInfo
from reenact.inspector.conversation import Speech, conversation_of
from reenact.inspector.fitting import Contents, Record, Where, entries_of
from reenact.inspector.lanes import Lanes
from reenact.inspector.relations import Relations
from reenact.inspector.rendering import Address, Page
from reenact.inspector.source import Source
from reenact.inspector.timeline import Line, lines_by_call, lines_by_event
from reenact.inspector.values import Value, room_of, value_of
from reenact.inspector.windows import SIZE, History, Window
from reenact.projections.explain.entries import fields_of, place_of, session_of
from reenact.projections.log import Row

State: TypeAlias = Literal["answers", "cut off", "waits", "failed", "idle", "new", "deleted"]

CHILDREN = 50
"""The most child sessions of each session that are listed."""
RECORDS = 50
"""The most records that a page shows as JSON."""
_WHERE: Final[tuple[Where, ...]] = ("until", "from", "at")
_CURSOR = """
    SELECT cursor + heard - 1 FROM steps WHERE stream = ? AND count > 0 AND version <= ? ORDER BY version DESC LIMIT 1
"""
_NOT_WORK = (
    *(SessionCreated, SessionBranched, AgentStarted, AgentStopped, MessageAccepted, RulesRecorded),
    *(HandoverRequested, ImageChanged, MessageScheduled, ScheduleCancelled, ScheduleFired),
)
"""Events that do not tell whether the session is at work."""


def session(source: Source, address: Address) -> Page:
    """Return the page of a session: its last events, or those around, from, or up to a position."""
    session_id = address.required("id")
    history = History(source.log, session_id)
    if address.choice("part", ("page", "news"), "page") == "news":
        return Page("session_news.html", {"count": max(0, history.count - (address.number("last") or 0))})
    show = address.choice("show", ("calls", "events", "json"), "calls")
    talk_json = address.choice("talk", ("text", "json"), "text") == "json"
    number, where = _requested(history, address)
    size = RECORDS if show == "json" or talk_json else SIZE
    window = history.until(number + {"from": size - 1, "at": size // 2, "until": 0}[where], size=size)
    relations = Relations(window.rows)
    said = conversation_of(relations, window)
    spoken: Sequence[Speech | Record] = [_record(one.row) for one in said] if talk_json else said
    lines: Sequence[Line | Record]
    match show:
        case "json":
            lines = [_record(row) for row in window.own]
        case "events":
            lines = lines_by_event(relations, window)
        case _:
            lines = lines_by_call(relations, window)
    return Page(
        "session.html",
        {
            "id": session_id,
            "begun": history.begun.event,
            "began": history.begun.recorded_at,
            "state": state_now(source, history, window),
            "spent": _spent(source, session_id),
            "children": _children(source, session_id),
            "cursor": _last_cursor(source, window.own[-1]),
            "first": history.row(1).position if window.first > 1 else window.own[0].position,
            "last": history.row(history.count).position,
            "contents": Contents(relations, window, entries_of(window, lines, spoken), number, where),
            "drawing_label": drawing_label,
            "talk_json": talk_json,
            "show": show,
            "room": room_of([*values_of(spoken), *values_of(lines)]),
            "waits_since": waits_since(relations, window),
        },
    )


class _Child(msgspec.Struct, frozen=True):
    """A child session, with its own children."""

    session: SessionInfo
    children: tuple[_Child, ...]


def _children(source: Source, session_id: str) -> tuple[_Child, ...]:
    """Return the newest children of a session, in the order in which they began; none while there are no tables."""
    tables = source.tables_now
    try:
        found = [] if tables is None else tables.model.sessions(CHILDREN, parent=session_id)
    except StorageError:
        return ()
    return tuple(_Child(one, _children(source, one.id)) for one in reversed(found))


def _requested(history: History, address: Address) -> tuple[int, Where]:
    """Return the number of the event that the address names, by default the last one."""
    for where in _WHERE:
        position = address.number(where)
        if position is not None:
            return history.number_at(position), where
    return history.count, "until"


def _record(row: Row) -> Record:
    return record_of(row), row


def record_of(row: Row) -> Value:
    """Return the record of an event, as JSON."""
    record = {**place_of(row), "session_id": session_of(row.stream), "data": fields_of(row.event)}
    return value_of(row.position, "", msgspec.json.format(msgspec.json.encode(record), indent=1).decode())


def values_of(shown: Iterable[Line | Speech | Record]) -> Iterator[Value]:
    """Yield the values in a timeline or a conversation."""
    for one in shown:
        match one:
            case (value, _):
                yield value
            case Speech(parts=parts):
                yield from (part.value for part in parts if part.kind != "call")
            case Line(kind="call" | "ask", calls=calls):
                yield from (value for call in calls for value in (call.value, call.result_value) if value is not None)
            case _:
                pass


def state_now(source: Source, history: History, window: Window | None = None) -> State:
    """Return the present state of the session; without a writer of the log, an open turn counts as cut off."""
    end = window if window is not None and window.is_end else history.until(history.count, size=SIZE // 4)
    state = state_of(end.own)
    return "cut off" if state == "answers" and not source.location.has_writer() else state


def state_of(rows: Iterable[Row]) -> State:
    """Return the state of the session, as its last events say."""
    for row in reversed(list(rows)):
        match row.event:
            case SessionDeleted():
                return "deleted"
            case TurnCompleted(outcome=outcome):
                return "waits" if outcome == "waiting" else "failed" if outcome == "failed" else "idle"
            case ResultsRecorded(turn_id=None):
                return "idle"
            case event if not isinstance(event, _NOT_WORK):
                return "answers"
            case _:
                pass
    return "new"


def _spent(source: Source, session_id: str) -> UsageInfo | None:
    """Return the usage of the session, or None while there are no tables."""
    tables = source.tables_now
    try:
        return None if tables is None else tables.model.usage(session_id)
    except StorageError:
        return None


def _last_cursor(source: Source, row: Row) -> int:
    """Return the last cursor of the events that became durable together with this one."""
    found = source.log.select(_CURSOR, (row.stream, row.version))
    return max(0, int(found[0][0])) if found else 0


def waits_since(relations: Relations, window: Window) -> int | None:
    """Return since when a person is waited for at the end of the history, or None."""
    waits = [call.waits.recorded_at for call in relations.open.values() if call.is_waiting and call.waits is not None]
    return min(waits) if waits and window.is_end and not relations.busy[-1] else None


def drawing_label(drawing: Lanes) -> str:
    """Return a description of the drawing."""
    answers = sum(bar.mark == "m-turn" for bar in drawing.bars)
    calls = sum(bar.mark in ("m-tool", "m-fail") for bar in drawing.bars)
    waits = sum(fold.waits for fold in drawing.folds)
    return (
        f"Where the time went: answers of the model: {answers}, calls: {calls}, waits for a person: {waits}; "
        "idle time is folded"
    )
