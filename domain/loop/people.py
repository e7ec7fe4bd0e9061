"""What a person's word does to a conversation: approving, rejecting, answering, interrupting, resuming."""

from __future__ import annotations

from dataclasses import dataclass

from reenact.domain.errors import InvalidAnswerError, InvalidInputError
from reenact.domain.loop import rounds
from reenact.domain.loop.asking import chosen
from reenact.domain.loop.calls import ToolCall, with_arguments
from reenact.domain.loop.events import HumanResponded, LoopEvent, ToolEdited, ToolResult
from reenact.domain.loop.faults import (
    InvalidToolCallError,
    NotResumableError,
    StillInterruptedError,
    WaitingForHumanError,
)
from reenact.domain.loop.progress import Interrupted, Resumed
from reenact.domain.loop.rounds import Call, Round
from reenact.domain.loop.rules import Rules
from reenact.domain.loop.state import AgentState
from reenact.domain.loop.values import frozen


@dataclass(frozen=True)
class Approval:
    """A call that a person has approved: what is recorded of that, and the call to run, unless it is denied."""

    events: tuple[LoopEvent, ...]
    call: ToolCall | None
    was_pending: bool


def approval(state: AgentState, call: ToolCall, rules: Rules) -> Approval:
    """Return what follows from a person's approval of the call.

    Raises:
        ReenactError: the state is interrupted, waits for something else, or the call is not the one that is pending.
    """
    _not_interrupted(state)
    if state.pending_prompt or state.pending_select:
        msg = "a question waits for its answer; answer it with `respond`"
        raise WaitingForHumanError(msg)
    if not state.pending_tool_calls and call.id not in state.decided:
        return _unasked(call, rules)
    now, denied = rounds.under(state.round, rules.policies, judging=rules.judging)
    pending = next((each for each in state.pending_tool_calls if each.id == call.id), None)
    if pending is not None and pending.name != call.name:
        msg = f"call {call.id!r} is one of {pending.name}; an edit keeps the tool, and changes the arguments only"
        raise InvalidToolCallError(msg)
    refused = next((event for event in denied if event.id == call.id), None)
    if refused is not None:
        return Approval((refused,), None, was_pending=True)
    events = rounds.approved(now, call.id, rules.policies, arguments=call.input, judging=rules.judging)
    told = tuple(event for event in events if isinstance(event, ToolEdited | ToolResult))
    if any(isinstance(event, ToolResult) for event in told) or pending is None:
        return Approval(told, None, was_pending=True)
    return Approval(told, with_arguments(pending, call.input) if told else pending, was_pending=True)


def rejection(state: AgentState, call_id: str, reason: str, *, resume: bool) -> tuple[LoopEvent, ...]:
    """Return what follows from a person's rejection of a pending call.

    Raises:
        ReenactError: the state is interrupted, or no such call is pending.
    """
    _not_interrupted(state)
    events = rounds.rejected(state.round, call_id, check_reason(reason))
    return events if resume else (*events, Interrupted(reason=reason or "a call was rejected"))


def response(state: AgentState, value: object) -> tuple[LoopEvent, ...]:
    """Return what follows from a person's answer to the question that waits for one.

    Raises:
        ReenactError: the state is interrupted, no question waits, or it does not take this answer.
    """
    _not_interrupted(state)
    asked = state.pending_prompt or state.pending_select
    if asked is None:
        msg = "no question waits for an answer"
        raise InvalidAnswerError(msg)
    answer = chosen(asked.question, frozen(value, what="an answer"))
    if isinstance(answer, InvalidAnswerError):
        raise answer
    return (HumanResponded(value=answer),)


def interruption(state: AgentState, reason: str, *, can_resume: bool) -> tuple[LoopEvent, ...]:
    """Return what follows when the conversation is interrupted: nothing, if it is done."""
    told = check_reason(reason)
    return () if state.status == "done" else (Interrupted(reason=told, can_resume=bool(can_resume)),)


def resumption(state: AgentState, reason: str) -> tuple[LoopEvent, ...]:
    """Return what follows when the conversation is resumed.

    Raises:
        NotResumableError: it is not interrupted, or was interrupted for good.
    """
    if state.status != "interrupted":
        msg = f"only an interrupted conversation can be resumed; this one is {state.status}"
        raise NotResumableError(msg)
    if state.interruption is not None and not state.interruption.can_resume:
        msg = f"the conversation was interrupted for good: {state.interruption.reason}"
        raise NotResumableError(msg)
    return (Resumed(reason=check_reason(reason), resumed_from=state.step_count),)


def check_reason(reason: object) -> str:
    """Return the reason that somebody gives, or raise `InvalidInputError` if it is no text."""
    if not isinstance(reason, str):
        msg = f"a reason is text, not {reason!r}"
        raise InvalidInputError(msg)
    return str(frozen(reason, what="a reason"))


def check_free(state: AgentState) -> None:
    """Raise a `ReenactError` if the next step is not the runner's, but a person's."""
    _not_interrupted(state)
    if state.status == "waiting_for_human_input":
        msg = "the conversation waits for a person: approve or reject the pending calls, or answer the question"
        raise WaitingForHumanError(msg)


def _unasked(call: ToolCall, rules: Rules) -> Approval:
    """Return the approval of a call that nobody has asked about; what is denied stays denied."""
    told = Call(call.id, call.name, call.input)
    events = rounds.judged(
        Round((told,)), rules.policies, (), session_id="", questions=None, ask_always=True, judging=rules.judging
    )
    denied = tuple(event for event in events if isinstance(event, ToolResult))
    return Approval(denied, None if denied else call, was_pending=False)


def _not_interrupted(state: AgentState) -> None:
    if state.status == "interrupted":
        msg = "the conversation is interrupted; resume it first"
        raise StillInterruptedError(msg)
