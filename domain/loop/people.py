"""Inputs of people and runners to a conversation: approvals, answers, interruptions, and requested calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from reenact.domain.errors import InvalidAnswerError, InvalidInputError
from reenact.domain.loop import rounds
from reenact.domain.loop.asking import checked_answer
from reenact.domain.loop.calls import ToolCall, call_of, looks_like_a_call, with_arguments
from reenact.domain.loop.events import (
    HumanApproveRequired,
    HumanResponded,
    Interrupted,
    LoopEvent,
    MessageAdded,
    Resumed,
    ToolEdited,
    ToolResult,
)
from reenact.domain.loop.faults import (
    InvalidToolCallError,
    NotResumableError,
    StillInterruptedError,
    WaitingForHumanError,
)
from reenact.domain.loop.folding import context_given
from reenact.domain.loop.rounds import Call, Round
from reenact.domain.loop.rules import Rules
from reenact.domain.loop.state import AgentContext, AgentState, context_of, message_of
from reenact.domain.loop.values import Frozen, frozen, is_mapping


@dataclass(frozen=True)
class Approval:
    """The approval of a call by a person: the events to record, and the call to run, None if it is denied."""

    events: tuple[LoopEvent, ...]
    call: ToolCall | None
    was_pending: bool


def approval(state: AgentState, call: ToolCall, rules: Rules) -> Approval:
    """Return what follows from a person's approval of the call.

    Raises:
        ReenactError: the state is interrupted or waits for something else, or the call is not the pending one.
    """
    _check_not_interrupted(state)
    if state.pending_prompt or state.pending_select:
        raise WaitingForHumanError("a question waits for its answer; answer it with `respond`")
    if not state.pending_tool_calls and call.id not in state.decided:
        events, _ = plan(state, (call,), rules, ask_always=True)
        denied = tuple(event for event in events if isinstance(event, ToolResult))
        return Approval(denied, None if denied else call, was_pending=False)
    pending = next((each for each in state.pending_tool_calls if each.id == call.id), None)
    if pending is not None and pending.name != call.name:
        raise InvalidToolCallError(
            f"call {call.id!r} is one of {pending.name}; an edit keeps the tool, and changes the arguments only"
        )
    told = _denial_by_current_rules(state.round, call.id, rules)
    if not told:
        now = rounds.under(state.round, rules.policies)
        events = rounds.approved(now, call.id, rules, arguments=call.input)
        told = tuple(event for event in events if isinstance(event, ToolEdited | ToolResult))
    if any(isinstance(event, ToolResult) for event in told) or pending is None:
        return Approval(told, None, was_pending=True)
    return Approval(told, with_arguments(pending, call.input) if told else pending, was_pending=True)


def rejection(state: AgentState, call_id: str, reason: str, *, resume: bool) -> tuple[LoopEvent, ...]:
    """Return the events that follow from a person's rejection of a pending call.

    Raises:
        ReenactError: the state is interrupted, or no such call is pending.
    """
    _check_not_interrupted(state)
    events = rounds.rejected(state.round, call_id, check_reason(reason))
    return events if resume else (*events, Interrupted(reason=reason or "a call was rejected"))


def response(state: AgentState, value: object) -> tuple[LoopEvent, ...]:
    """Return the events that follow from a person's answer to the pending question.

    Raises:
        ReenactError: the state is interrupted, no question is pending, or the answer does not fit it.
    """
    _check_not_interrupted(state)
    asked = state.pending_prompt or state.pending_select
    if asked is None:
        raise InvalidAnswerError("no question waits for an answer")
    return (HumanResponded(value=checked_answer(asked.question, frozen(value, what="an answer"))),)


def interruption(state: AgentState, reason: str, *, can_resume: bool) -> tuple[LoopEvent, ...]:
    """Return the events of an interruption of the conversation; none if it has ended."""
    told = check_reason(reason)
    return () if state.status == "done" else (Interrupted(reason=told, can_resume=bool(can_resume)),)


def resumption(state: AgentState, reason: str) -> tuple[LoopEvent, ...]:
    """Return the events of a resumption of the conversation.

    Raises:
        NotResumableError: it is not interrupted, or was interrupted permanently.
    """
    if state.status != "interrupted":
        raise NotResumableError(f"only an interrupted conversation can be resumed; this one is {state.status}")
    if state.interruption is not None and not state.interruption.can_resume:
        raise NotResumableError(f"the conversation was interrupted for good: {state.interruption.reason}")
    return (Resumed(reason=check_reason(reason), resumed_from=state.step_count),)


def check_reason(reason: object) -> str:
    """Return the given reason, or raise `InvalidInputError` if it is not text."""
    if not isinstance(reason, str):
        raise InvalidInputError(f"a reason must be text, not {reason!r}")
    return str(frozen(reason, what="a reason"))


def check_free(state: AgentState) -> None:
    """Raise a `ReenactError` if the conversation is interrupted or waits for a person, so that no step may run."""
    _check_not_interrupted(state)
    if state.status == "waiting_for_human_input":
        raise WaitingForHumanError(
            "the conversation waits for a person: approve or reject the pending calls, or answer the question"
        )


@dataclass(frozen=True)
class AskRunner:
    """The runner is to be asked, with this context, after these events."""

    context: AgentContext
    events: tuple[LoopEvent, ...] = ()


StepInput: TypeAlias = Approval | AskRunner


def step_input_of(state: AgentState, given: object, rules: Rules) -> StepInput:
    """Return the meaning of a step's input: nothing, a call, a context, a message, or a text from the user.

    Raises:
        ReenactError: the input has no meaning, or is not possible now.
    """
    if looks_like_a_call(given):
        return approval(state, call_of(given), rules)
    if given is None:
        check_free(state)
        return AskRunner(context_of(state))
    if isinstance(given, AgentContext) or (is_mapping(given) and "phase" in given):
        check_free(state)
        told = context_given(given)
        return AskRunner(AgentContext(told.phase, told.payload, told.session or state.session))
    if isinstance(given, str) or (is_mapping(given) and "role" in given):
        check_free(state)
        message = message_of({"role": "user", "content": given} if isinstance(given, str) else given)
        session = Frozen({**state.session, "message_count": len(state.messages) + 1})
        return AskRunner(AgentContext("user_input", Frozen(message=message), session), (MessageAdded(message=message),))
    raise InvalidInputError(f"a step is given a call of a tool, a context, a message or nothing; not {given!r}")


def plan(
    state: AgentState, calls: Sequence[ToolCall], rules: Rules, *, ask_always: bool = False
) -> tuple[tuple[LoopEvent, ...], tuple[ToolCall, ...]]:
    """Return the results of denied calls with the questions to people about others, and the calls to run.

    With `ask_always`, people are asked about all calls that are not denied.
    """
    wanted = Round(tuple(Call(call.id, call.name, call.input) for call in calls))
    events = rounds.judged(
        wanted, rules, state.approvals, session_id=state.session_id, questions=None, ask_always=ask_always
    )
    originals = {call.id: call for call in calls}
    to_run = {call.id for call in rounds.fold(wanted, events).at("ready")}
    told = tuple(_with_originals(event, originals) for event in events)
    return told, tuple(call for call in calls if call.id in to_run)


def in_order(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> tuple[ToolResult, ...]:
    """Return the results in the order of their calls, each marked as one of a batch."""
    by_id = {result.id: msgspec.structs.replace(result, batch=True) for result in results}
    return tuple(by_id[call.id] for call in calls if call.id in by_id)


def _denial_by_current_rules(round_: Round, call_id: str, rules: Rules) -> tuple[LoopEvent, ...]:
    """Return the result of a pending call that changed policies now deny; empty if they do not."""
    call = round_.call(call_id)
    if call is None or round_.revision == rules.policies.revision:
        return ()
    events = rounds.judged_anew(Round((call,)), rules, session_id="")
    return tuple(event for event in events if isinstance(event, ToolResult))


def _check_not_interrupted(state: AgentState) -> None:
    if state.status == "interrupted":
        raise StillInterruptedError("the conversation is interrupted; resume it first")


def _with_originals(event: LoopEvent, originals: dict[str, ToolCall]) -> LoopEvent:
    if not isinstance(event, HumanApproveRequired):
        return event
    calls = tuple(msgspec.structs.replace(call, original=originals[call.id]) for call in event.calls)
    return msgspec.structs.replace(event, calls=calls)
