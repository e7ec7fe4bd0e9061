"""What happens to calls of tools, in the rows: they are asked for, wait for people, run, and are answered."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from reenact.domain.agent import ResultsRecorded, ToolsRequested
from reenact.domain.loop.asking import Question
from reenact.domain.loop.events import (
    HumanApproveRequired,
    HumanPromptRequired,
    HumanResponded,
    HumanSelectRequired,
    ToolApproved,
    ToolEdited,
    ToolPending,
    ToolRejected,
    ToolResult,
    ToolStarted,
)
from reenact.domain.session_state import plus_cost
from reenact.projections.log import Row
from reenact.projections.spending import encode, known, spend
from reenact.projections.state import CallRow, Changes, Conversing, turn_to

OfCalls: TypeAlias = (
    ToolsRequested
    | ToolStarted
    | ToolResult
    | ResultsRecorded
    | HumanApproveRequired
    | HumanPromptRequired
    | HumanSelectRequired
    | ToolPending
    | ToolApproved
    | ToolEdited
    | ToolRejected
    | HumanResponded
)


def project_calls(changes: Changes, session: Conversing, row: Row, event: OfCalls) -> None:
    """Add to the changes what follows from an event about calls."""
    match event:
        case ToolsRequested():
            _request(changes, session, event)
        case ToolStarted():
            _start(changes, session, row, event)
        case ToolResult():
            _answer(changes, session, row, event)
        case ResultsRecorded():
            _give_back(changes, session, row, event)
        case HumanApproveRequired():
            for asked in event.calls:
                call = _call(changes, session, asked.id)
                call.kind, call.digest, call.reason = "approval", asked.digest, asked.reason
        case HumanPromptRequired() | HumanSelectRequired():
            _ask(changes, session, event)
        case ToolPending():
            for id_ in event.ids:
                call = _call(changes, session, id_)
                call.stage, call.asked_at = "waiting", row.recorded_at
        case ToolApproved() | ToolEdited() | ToolRejected() | HumanResponded():
            _decide(changes, session, row, event)
        case _:
            assert_never(event)


def _call(changes: Changes, session: Conversing, id_: str) -> CallRow:
    call = session.calls[id_]
    changes.put_call(call)
    return call


def _request(changes: Changes, session: Conversing, event: ToolsRequested) -> None:
    turn = session.turns[event.turn_id]
    assert turn.answer is not None  # it is an answer that requests tools
    turn_to(session, event.from_state)
    uses, session.uses = session.uses, ()
    for number, use in enumerate(uses):
        call = CallRow(turn.answer, number, session.position, use.id, use.name, encode(use.input), asked=turn.asked)
        session.calls[use.id] = call
        changes.put_call(call)


def _start(changes: Changes, session: Conversing, row: Row, event: ToolStarted) -> None:
    call = _call(changes, session, event.id)
    call.stage, call.attempts, call.started_at = "running", event.attempt, row.recorded_at
    turn_to(session, "tool_executing")


def _answer(changes: Changes, session: Conversing, row: Row, event: ToolResult) -> None:
    call = _call(changes, session, event.id)
    call.stage, call.ended_at = "answered", row.recorded_at
    call.result, call.is_error, call.ran = encode(event.result), event.is_error, event.ran
    if not event.ran:
        return
    call.cost = known(event.cost)
    spend(changes, session, ("tool", event.name), {}, call.cost)
    turn = session.turns.get(session.agent.turn_id or "") if session.agent is not None else None
    if turn is not None:
        turn.cost = plus_cost(turn.cost, call.cost)
        changes.put_turn(turn)


def _give_back(changes: Changes, session: Conversing, row: Row, event: ResultsRecorded) -> None:
    asked = [call.asked for call in session.calls.values()]
    changes.messages.append(
        (
            row.position,
            session.position,
            asked[0],
            event.message_id,
            "user",
            encode(event.content),
            event.at,
            event.turn_id,
            None,
            0,
            None,
            None,
            None,
        )
    )
    for id_ in session.calls:
        _call(changes, session, id_).results = row.position
    session.calls = {}


def _ask(changes: Changes, session: Conversing, event: HumanPromptRequired | HumanSelectRequired) -> None:
    call = _call(changes, session, event.id or "")
    if isinstance(event, HumanPromptRequired):
        call.kind, call.question = "prompt", encode(Question(event.prompt))
    else:
        call.kind, call.question = "select", encode(Question(event.prompt, event.options, event.multi))


def _decide(
    changes: Changes, session: Conversing, row: Row, event: ToolApproved | ToolEdited | ToolRejected | HumanResponded
) -> None:
    call = _call(changes, session, event.id or "")
    call.decided_by, call.decided_at = event.by, row.recorded_at
    match event:
        case ToolApproved():
            call.stage = "ready"
            call.decision = call.decision or "approved"
        case ToolEdited():
            call.original, call.arguments = call.arguments, encode(event.edited)
            call.decision = "edited"
        case ToolRejected():
            call.decision = "rejected"
        case HumanResponded():
            call.decision = "answered"
        case _:
            assert_never(event)
