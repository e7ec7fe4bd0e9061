"""Which of the calls that are to be made run, which are denied, and which a person is asked about first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from reenact.domain.loop import rounds
from reenact.domain.loop.calls import ToolCall
from reenact.domain.loop.events import HumanApproveRequired, LoopEvent, ToolResult
from reenact.domain.loop.rounds import Call, Round
from reenact.domain.loop.rules import Rules
from reenact.domain.loop.state import AgentState


@dataclass(frozen=True)
class Plan:
    """What becomes of calls: the answers to those that are denied, what people are asked, and the calls to run."""

    denied: tuple[ToolResult, ...]
    asking: tuple[LoopEvent, ...]
    to_run: tuple[ToolCall, ...]


def plan(state: AgentState, calls: Sequence[ToolCall], rules: Rules, *, ask_always: bool = False) -> Plan:
    """Return what becomes of the calls; with `ask_always`, people are asked about all that are not denied."""
    wanted = Round(tuple(Call(call.id, call.name, call.input) for call in calls))
    events = rounds.judged(
        wanted,
        rules.policies,
        state.approvals,
        session_id=state.session_id,
        questions=None,
        ask_always=ask_always,
        judging=rules.judging,
    )
    denied = tuple(event for event in events if isinstance(event, ToolResult))
    originals = {call.id: call for call in calls}
    asking = tuple(_with_originals(event, originals) for event in events if not isinstance(event, ToolResult))
    held = {event.id for event in denied} | {call.id for call in rounds.fold(wanted, events).at("waiting")}
    return Plan(denied, asking, tuple(call for call in calls if call.id not in held))


def in_order(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> tuple[ToolResult, ...]:
    """Return the results in the order of their calls, each marked as one of a batch."""
    by_id = {result.id: msgspec.structs.replace(result, batch=True) for result in results}
    return tuple(by_id[call.id] for call in calls if call.id in by_id)


def _with_originals(event: LoopEvent, originals: dict[str, ToolCall]) -> LoopEvent:
    if not isinstance(event, HumanApproveRequired):
        return event
    calls = tuple(msgspec.structs.replace(call, original=originals[call.id]) for call in event.calls)
    return msgspec.structs.replace(event, calls=calls)
