"""The decisions of a session: a conversation in a container, on an image, with the agent that runs it.

One stream holds both session and agent, so that one decision covers both: whether a message is accepted, whose turn it
is, and what becomes of a turn when the agent is destroyed or the session deleted. How a turn continues, with tool calls
and people's decisions about them, is in `turns`; how a session branches off from another one, in `branching`.
"""

from __future__ import annotations

from typing import assert_never

from reenact.domain.errors import AgentNotFoundError, AlreadyExistsError, SessionForgottenError, SessionNotFoundError
from reenact.domain.guards import refusal_in
from reenact.domain.loop.rounds import RoundEvent
from reenact.domain.session import branching, child_turns, schedules, turns
from reenact.domain.session.agent import (
    AgentStopped,
    MessageAccepted,
    RulesRecorded,
    StopReason,
    ToolsRequested,
    TurnCompleted,
)
from reenact.domain.session.commands import (
    Approve,
    BeginChild,
    BranchSession,
    CancelSchedule,
    Compress,
    CreateSession,
    Delete,
    Finish,
    FireSchedule,
    GiveUpChildren,
    Interrupt,
    PassAnswer,
    Receive,
    Reject,
    Report,
    ReportChild,
    Respond,
    Resume,
    Run,
    ScheduleMessage,
    SessionCommand,
    Stop,
    Switch,
)
from reenact.domain.session.state import (
    Session,
    SessionCreated,
    SessionDeleted,
    SessionEvent,
)
from reenact.domain.session.turns import DecisionDraft

_NONE_RECORDED = RulesRecorded()


def decide(session: Session, command: SessionCommand) -> tuple[SessionEvent, ...]:  # noqa: C901, PLR0912 - one case for each command
    """Return the events that follow from the command, or refuse it.

    For a session that is to begin as a branch, `session` is the one that it branches off from, at that point.

    Raises:
        AlreadyExistsError: the session's id has been used.
        SessionForgottenError: the session was forgotten.
        SessionNotFoundError: the session, or the one to branch off from, was never created, or is deleted.
        AgentNotFoundError: the named agent is not the live one, or there is none to continue a call.
        CallNotPendingError: no such call waits for a person.
        StaleApprovalError: the call is not the one that was approved.
        InvalidAnswerError: the answer does not fit the question.
    """
    draft = DecisionDraft(session)
    match command:
        case Receive():
            _receive(draft, command)
        case Finish() | PassAnswer():
            turns.finish(draft, command)
        case Report():
            turns.report(draft, command)
        case CreateSession():
            _create(draft, command)
        case Run():
            _run(draft, command)
        case Compress():
            turns.compress(draft, command)
        case Approve() | Reject() | Respond():
            if session.agent is None:
                raise AgentNotFoundError(session.id or "")
            turns.person_decides(draft, command)
        case Resume():
            turns.resume(draft, command)
        case Interrupt():
            _interrupt(draft, command)
        case Stop():
            _stop(draft, command)
        case Delete():
            _delete(draft, command)
        case BranchSession():
            branching.branch(draft, command)
        case Switch():
            _check_exists(session, command.session_id)
            turns.switch(draft, command)
        case ScheduleMessage():
            _check_exists(session, command.session_id)
            schedules.schedule(draft, command)
        case CancelSchedule():
            schedules.cancel(draft, command)
        case FireSchedule():
            schedules.fire(draft, command)
        case BeginChild():
            child_turns.begin(draft, command)
        case ReportChild():
            child_turns.report(draft, command)
        case GiveUpChildren():
            child_turns.give_up(draft, command)
        case _:
            assert_never(command)
    if draft.session.parent is not None:
        child_turns.rest(draft)
    turns.hand_over(draft)  # checked after every command, whatever ended the turn and whether a next one begins
    return _with_rules(session, command, draft.events)


def _with_rules(
    session: Session, command: SessionCommand, events: tuple[SessionEvent, ...]
) -> tuple[SessionEvent, ...]:
    """Return the events, preceded by the rules under which they were decided if those recorded last differ."""
    match command:
        case Receive() | Finish() | Report():
            rules = command.rules
        case CreateSession() | BranchSession() | BeginChild() | PassAnswer():
            return events
        case Switch() | ScheduleMessage() | CancelSchedule():
            return events
        case Interrupt() | Stop() | Delete() if session.turn is None and session.round is None:
            return events  # nothing ended to which rules apply
        case _:
            rules = command.rules
    last = session.rules or _NONE_RECORDED
    same = rules.stored is last.rules or rules.stored == last.rules
    if not events or (
        same and ((rules.cwd, rules.home) == (last.cwd, last.home) or not _may_judge_calls(command, events))
    ):
        return events
    return (RulesRecorded(rules.stored, rules.cwd, rules.home), *events)


def _may_judge_calls(command: SessionCommand, events: tuple[SessionEvent, ...]) -> bool:
    """Return whether policies may have judged a call, so that the working directory for paths matters."""
    match command:
        case Receive() | Report():
            return False
        case Finish():
            asks = command.so_far.stop_reason == turns.TOOL_USE
            return asks and any(isinstance(event, ToolsRequested) for event in events)
        case Run() | FireSchedule():
            return any(isinstance(event, RoundEvent) for event in events)
        case Approve() | Resume():
            return True
        case _:
            return False


def _create(draft: DecisionDraft, command: CreateSession) -> None:
    if draft.session.id is not None:
        raise AlreadyExistsError("session", draft.session.id)
    draft.add(SessionCreated(command.session_id, command.container_id, command.image_id, command.image_revision))


def _run(draft: DecisionDraft, command: Run) -> None:
    _check_exists(draft.session, command.session_id)
    if draft.session.agent is None:
        turns.start_agent(draft, command.agent_id, command)
        turns.take_up_next(draft, command)


def _receive(draft: DecisionDraft, command: Receive) -> None:
    session = draft.session
    if session.agent is None or session.agent.id != command.agent_id:
        raise AgentNotFoundError(command.agent_id)
    draft.add(*command.checked)
    if refusal_in(command.checked) is not None:
        return
    draft.add(
        MessageAccepted(
            command.turn_id, command.message_id, command.content, command.at, command.request_id, command.output
        )
    )
    if not session.queue:
        turns.take_up_next(draft, command)


def _interrupt(draft: DecisionDraft, command: Interrupt) -> None:
    agent = draft.session.agent
    if command.agent_id is not None and (agent is None or agent.id != command.agent_id):
        return
    if draft.session.turn is not None or draft.session.round is not None:
        turns.interrupt(draft, command)


def _stop(draft: DecisionDraft, command: Stop) -> None:
    agent = draft.session.agent
    if agent is None or (command.agent_id is not None and agent.id != command.agent_id):
        return
    turns.cut_short(draft, command, command.reason)
    draft.add(AgentStopped(agent.id, command.reason))


def _delete(draft: DecisionDraft, command: Delete) -> None:
    _check_exists(draft.session, command.session_id)
    reason: StopReason = "deleted"
    turns.cut_short(draft, command, reason)
    for queued in draft.session.queue:  # their turns will never begin
        draft.add(TurnCompleted(queued.turn_id, "interrupted", "interrupted", {}, 0.0, "idle"))
    if draft.session.agent is not None:
        draft.add(AgentStopped(draft.session.agent.id, reason))
    draft.add(SessionDeleted(command.session_id))


def _check_exists(session: Session, session_id: str) -> None:
    if session.forgotten:
        raise SessionForgottenError(session_id)
    if session.id is None or session.deleted:
        raise SessionNotFoundError(session_id)
