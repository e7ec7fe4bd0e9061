"""Applies events to a state, and converts what custom executors return into events.

Folding the history of a conversation gives its final state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TypedDict, get_args

import msgspec

from reenact.domain.errors import InvalidInputError
from reenact.domain.loop import ledger, rounds
from reenact.domain.loop.assembling import shortened
from reenact.domain.loop.calls import ToolCall
from reenact.domain.loop.events import (
    AgentEvent,
    CompressionComplete,
    Custom,
    Done,
    Failed,
    HumanApproveRequired,
    HumanPromptRequired,
    HumanResponded,
    HumanSelectRequired,
    Interrupted,
    LLMResult,
    LoopEvent,
    MessageAdded,
    Resumed,
    StepCompleted,
    ToolApproved,
    ToolEdited,
    ToolPending,
    ToolRejected,
    ToolResult,
    ToolStarted,
    Warning,  # noqa: A004 - the word of the specification
)
from reenact.domain.loop.faults import ErrorInfo, InvalidOutcomeError, info_of
from reenact.domain.loop.instructions import snake
from reenact.domain.loop.ledger import Ledger
from reenact.domain.loop.rounds import Call, Round, RoundEvent
from reenact.domain.loop.state import (
    AgentContext,
    AgentState,
    Interruption,
    PendingPrompt,
    PendingSelect,
    Phase,
    Status,
    applied,
    built_in,
    difference,
    event_from,
    sealed,
)
from reenact.domain.loop.values import (
    AppendOnlyList,
    Frozen,
    FrozenList,
    compact,
    converted,
    frozen,
    frozen_object,
    is_mapping,
)
from reenact.domain.plain import Json, JsonObject, is_sequence, made
from reenact.domain.tools import is_amount


class _Draft(TypedDict):
    """The fields of a state that events change, while they are applied."""

    session_id: str
    status: Status
    messages: AppendOnlyList[Frozen]
    step_count: int
    pending_tool_calls: FrozenList[ToolCall]
    pending_prompt: PendingPrompt | None
    pending_select: PendingSelect | None
    interruption: Interruption | None
    usage: Frozen
    cost: float
    error: ErrorInfo | None
    last_modified: datetime
    ledger: Ledger
    phase: Phase
    payload: Json
    round: Round
    approvals: tuple[str, ...]
    decided: tuple[str, ...]
    free_steps: int
    warned: bool


def fold(events: Iterable[LoopEvent], initial: AgentState) -> AgentState:
    """Return the state that results from applying all the events to the initial one."""
    happened = list(events)
    return recorded(after(initial, happened), initial, happened)


def evolve(state: AgentState, event: LoopEvent) -> AgentState:
    """Return the state after the event."""
    return fold((event,), state)


def after(state: AgentState, events: Iterable[LoopEvent]) -> AgentState:
    """Return the state after the events, with its previous history."""
    draft = made(_Draft, **vars(state))
    for event in events:
        _apply(draft, event)
    return AgentState(**draft)


def recorded(state: AgentState, before: AgentState, events: Sequence[LoopEvent]) -> AgentState:
    """Return the state with the history of the one before, and the events appended to it."""
    return state.replace(events=before.events.plus(events))


def _apply(draft: _Draft, event: LoopEvent) -> None:
    if isinstance(event, Failed) and event.refused:
        return
    if event.step > draft["step_count"]:
        draft.update({"step_count": event.step, "status": "running", "error": None, "interruption": None})
    _apply_by_type(draft, event)
    if draft["status"] in ("running", "waiting_for_human_input"):
        waits = draft["pending_tool_calls"] or draft["pending_prompt"] or draft["pending_select"]
        draft["status"] = "waiting_for_human_input" if waits else "running"
    if event.changes:
        made(draft.update, **applied(draft["messages"], draft["round"], event.changes))
    draft["last_modified"] = event.timestamp or draft["last_modified"]


def _apply_by_type(draft: _Draft, event: LoopEvent) -> None:
    match event:
        case LLMResult():
            _apply_model_answer(draft, event)
        case ToolResult():
            _apply_tool_result(draft, event)
        case HumanApproveRequired():
            _apply_approval_request(draft, event)
        case ToolPending() | ToolApproved() | ToolEdited() | ToolRejected() | ToolStarted():
            _evolve_round(draft, event)
        case HumanPromptRequired() | HumanSelectRequired():
            _apply_question(draft, event)
        case HumanResponded():
            _apply_response(draft, event)
        case MessageAdded():
            _append_message(draft, event.message)
            draft.update({"phase": "user_input", "payload": Frozen(message=event.message)})
        case CompressionComplete():
            draft["messages"] = shortened(draft["messages"], event)
            if event.model is not None:
                _add_model_cost(draft, event.model, event)
        case Failed():
            _apply_failure(draft, event)
        case Interrupted():
            since = Interruption(event.reason, event.can_resume, event.timestamp, draft["step_count"])
            draft.update({"status": "interrupted", "interruption": since})
        case Resumed():
            draft.update({"status": "running", "interruption": None})
        case Done():
            draft.update(
                {"status": "done", "phase": "init", "payload": None, "pending_prompt": None, "pending_select": None}
            )
            draft["free_steps"] += not event.counted
        case Warning():
            draft["warned"] = True
        case _:
            pass  # the payload for the model, its chunks, and custom events change nothing by themselves


def _apply_model_answer(draft: _Draft, event: LLMResult) -> None:
    _add_model_cost(draft, event.model, event)
    told = event.result.get("tool_calls")
    calls = told if isinstance(told, list) else []
    ids = {call.get("id") for call in calls if is_mapping(call)}
    if not ids.isdisjoint(draft["decided"]):  # some models number the calls of each answer from 0
        draft["decided"] = tuple(id_ for id_ in draft["decided"] if id_ not in ids)
    draft["phase"] = "llm_result"
    draft["payload"] = frozen({"result": event.result, "has_tool_calls": bool(calls), "tool_calls": calls})
    if event.appended:
        content = event.result.get("content", "")
        _append_message(draft, {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})})


def _apply_tool_result(draft: _Draft, event: ToolResult) -> None:
    _record_decision(draft, event.id, approved=event.ran)
    _evolve_round(draft, event)
    if event.ran:
        _add_tool_cost(draft, event.name, event.cost)
    _append_message(draft, {"role": "tool", "tool_call_id": event.id, "content": compact(event.result)})
    outcome = Frozen(id=event.id, name=event.name, result=event.result, is_error=event.is_error)
    if not event.batch:
        draft.update({"phase": "tool_result", "payload": outcome})
        return
    match draft["payload"]:
        case {"step": event.step, "results": [*before]} if draft["phase"] == "tools_batch_result":
            results = FrozenList([*before, outcome])
        case _:
            results = FrozenList([outcome])
    draft.update({"phase": "tools_batch_result", "payload": Frozen(results=results, step=event.step)})


def _apply_approval_request(draft: _Draft, event: HumanApproveRequired) -> None:
    ids = {asked.id for asked in event.calls}
    waiting = tuple(call for call in draft["round"].at("waiting") if call.id not in ids)
    calls = (*waiting, *(Call(asked.id, asked.name, asked.arguments) for asked in event.calls))
    asked = rounds.fold(Round(calls), (event, ToolPending(ids=tuple(call.id for call in calls))))
    draft.update({"round": asked, "decided": tuple(id_ for id_ in draft["decided"] if id_ not in ids)})
    _set_pending_calls(
        draft, (*(call for call in draft["pending_tool_calls"] if call.id not in ids), *event.pending_tool_calls)
    )


def _apply_question(draft: _Draft, event: HumanPromptRequired | HumanSelectRequired) -> None:
    if draft["status"] == "done":
        return  # the step that ends a conversation asks no one
    if isinstance(event, HumanPromptRequired):
        draft["pending_prompt"] = PendingPrompt(event.prompt, event.metadata)
    else:
        draft["pending_select"] = PendingSelect(event.prompt, event.options, event.multi, event.metadata)


def _apply_response(draft: _Draft, event: HumanResponded) -> None:
    draft.update(
        {
            "pending_prompt": None,
            "pending_select": None,
            "phase": "human_response",
            "payload": Frozen(value=event.value),
        }
    )
    _append_message(
        draft, {"role": "user", "content": event.value if isinstance(event.value, str) else compact(event.value)}
    )


def _apply_failure(draft: _Draft, event: Failed) -> None:
    told = Frozen(type=event.error.type, message=event.error.message)
    draft.update({"status": "error", "error": event.error, "phase": "error", "payload": Frozen(error=told)})
    if event.call_id is not None:
        _record_decision(draft, event.call_id, approved=True)
        _evolve_round(draft, ToolResult(id=event.call_id, result=event.error.message, is_error=True))
    if event.model is not None:
        _add_model_cost(draft, event.model, event)
    if event.tool is not None:
        _add_tool_cost(draft, event.tool, event.cost)


def _record_decision(draft: _Draft, call_id: str, *, approved: bool) -> None:
    """Record that a call is decided, and its digest if it was waiting and was approved."""
    call = draft["round"].call(call_id)
    if call is not None and call.stage == "answered":
        return
    draft["decided"] = (*draft["decided"], call_id)
    if call is not None and approved:
        draft["approvals"] = tuple(sorted({*draft["approvals"], call.digest_under("")}))


def _evolve_round(draft: _Draft, event: RoundEvent) -> None:
    draft["round"] = rounds.evolve(draft["round"], event)
    _set_pending_calls(draft, draft["pending_tool_calls"])


def _set_pending_calls(draft: _Draft, calls: Iterable[ToolCall]) -> None:
    waiting = {call.id for call in draft["round"].at("waiting")}
    draft["pending_tool_calls"] = FrozenList(call for call in calls if call.id in waiting)


def _append_message(draft: _Draft, message: JsonObject) -> None:
    draft["messages"] = draft["messages"].plus((frozen_object(message, what="a message"),))


def _add_model_cost(draft: _Draft, model: str, used: LLMResult | Failed | CompressionComplete) -> None:
    draft["ledger"] = draft["ledger"].with_model(model, used.usage or {}, used.cost)
    draft["usage"] = Frozen(ledger.sum_of(draft["usage"], used.usage or {}))
    draft["cost"] += used.cost or 0.0


def _add_tool_cost(draft: _Draft, name: str, cost: float | None) -> None:
    draft["ledger"] = draft["ledger"].with_tool(name, cost)
    draft["cost"] += cost or 0.0


KNOWN = frozenset(str(kind.__struct_config__.tag) for kind in get_args(AgentEvent)) - {"custom"}
"""The types of the events that have a meaning in the loop; all others are custom."""


def with_step_and_time(event: LoopEvent, step: int, now: datetime) -> LoopEvent:
    """Return the event as it is recorded: with its step and time, and immutable."""
    told = sealed(event)
    return msgspec.structs.replace(told, step=step, timestamp=told.timestamp or now)


def events_of_result(
    before: AgentState, returned: object, step: int, now: datetime, *, shown: AgentState | None = None
) -> list[LoopEvent]:
    """Return the events for what an executor returned: `(events, new_state)`, or these and the next context.

    Differences of the new state that the events do not cause are recorded in the last event's `changes`. An executor
    that returns the state it was `shown`, or None, leaves all changes to the events.

    Raises:
        InvalidOutcomeError: the value has another form, or holds values that cannot be recorded.
    """
    try:
        told, new_state, context = _outcome_fields(returned)
        events = [_checked(with_step_and_time(_as_event(each, before), step, now)) for each in told]
        if context is not None:
            new_state = (new_state or after(before, events)).replace(phase=context.phase, payload=context.payload)
        if new_state is None or new_state is shown:
            return events
        changes = difference(after(before, events), new_state)
    except InvalidInputError as broken:
        raise InvalidOutcomeError(str(broken)) from None
    if changes is None:
        return events
    last = events.pop() if events else StepCompleted(step=step, timestamp=now)
    return [*events, msgspec.structs.replace(last, changes=changes)]


def context_given(value: object) -> AgentContext:
    """Return the context, which may be given as a mapping with a `phase`, or raise `InvalidInputError`."""
    if isinstance(value, AgentContext):
        return value
    return converted(frozen_object(value, what="a context"), AgentContext, "this is not a context")


def with_final_state(events: list[LoopEvent], state: AgentState) -> list[LoopEvent]:
    """Return the events, with the final state of the conversation in the one that ends it."""
    final = state.snapshot()
    return [
        msgspec.structs.replace(event, final_state=final)
        if isinstance(event, Done) and event.final_state is None
        else event
        for event in events
    ]


def _outcome_fields(returned: object) -> tuple[list[object], AgentState | None, AgentContext | None]:
    names = ("events", "new_state", "next_context")
    told, new_state, context = (
        (*returned, None)[: len(names)]
        if is_sequence(returned) and len(returned) in (len(names) - 1, len(names))
        else (_field(returned, name) for name in names)
    )
    if not is_sequence(told) or not isinstance(new_state, AgentState | None):
        raise InvalidOutcomeError(f"an executor returns `(events, new_state)`, events and a state, not {returned!r}")
    return list(told), new_state, None if context is None else context_given(context)


def _field(returned: object, name: str) -> object:
    if is_mapping(returned):
        return {snake(str(key)): each for key, each in returned.items()}.get(name)
    return getattr(returned, name, None)


def _as_event(value: object, state: AgentState) -> LoopEvent:
    if isinstance(value, LoopEvent):
        return value
    kind = value.get("type") if is_mapping(value) else None
    if not is_mapping(value) or not isinstance(kind, str) or not kind:
        raise InvalidOutcomeError(
            f"an event must be a mapping with a `type`, or an event of `reenact.loop`, not {value!r}"
        )
    told = {snake(str(name)): _as_recordable(each) for name, each in value.items()}
    if kind in KNOWN:
        try:
            return event_from({"session_id": state.session_id, **told})
        except InvalidInputError:
            pass  # it has the type of a known event, but other fields
    data = {name: each for name, each in told.items() if name not in ("type", "step", "timestamp")}
    return Custom(name=kind, data=frozen_object(data, what=f"event {kind!r}"))


def _checked(event: LoopEvent) -> LoopEvent:
    """Return the event, or raise `InvalidInputError` if a field has an invalid value or the cost is not an amount."""
    event_from(built_in(event))
    cost = None if isinstance(event, Custom) else getattr(event, "cost", None)
    if cost is not None and not is_amount(cost):
        raise InvalidInputError(f"the cost of an event must be an amount of 0 or more, not {cost!r:.80}")
    return event


def _as_recordable(value: object) -> object:
    match value:
        case BaseException():
            return info_of(value)
        case AgentState():
            return value.snapshot()
        case _:
            return value
