"""Which commands could have led to what a session's log holds.

A log holds events, not commands. But whatever came from outside (what a model said, what a tool answered, what a person
decided, ids and times) stands in the events, and the rest is for `decide` to find again. So the commands that come into
question are few, and each of them is wholly known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from reenact.domain.agent import (
    AgentStarted,
    AgentStopped,
    AnswerRecorded,
    ContextCompressed,
    MessageAccepted,
    ResultsRecorded,
    SoFar,
    StepStarted,
    StopReason,
    ToolsRequested,
    Turn,
    TurnCompleted,
    TurnContinued,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.loop.events import (
    HumanApproveRequired,
    HumanResponded,
    ToolApproved,
    ToolEdited,
    ToolPending,
    ToolRejected,
    ToolResult,
    ToolStarted,
)
from reenact.domain.loop.rules import Rules
from reenact.domain.messages import Usage
from reenact.domain.session_commands import (
    Approve,
    BranchSession,
    Compress,
    CreateSession,
    Delete,
    Finish,
    Interrupt,
    Receive,
    Reject,
    Report,
    Respond,
    Resume,
    Run,
    SessionCommand,
    Stop,
)
from reenact.domain.session_state import Session, SessionBranched, SessionCreated, SessionDeleted, SessionEvent
from reenact.domain.turns import TOOL_USE

_MICROSECONDS: Final = 1_000_000
_FOR: Final = "interrupted ("
"""Behind it stands, in the answer to a call, why the call was given up."""
_STOPPING: Final[dict[str, StopReason]] = {"destroyed": "destroyed", "shutdown": "shutdown", "crash": "crash"}
"""Why an agent is stopped, but for its session being deleted."""
_T = TypeVar("_T")
_OfTurn = TypeVar("_OfTurn", AnswerRecorded, ToolsRequested, TurnFailed, TurnCompleted)


def commands_before(session: Session, events: Sequence[SessionEvent], rules: Rules) -> Iterator[SessionCommand]:
    """Yield the commands to the session that its next events may have followed from, under these rules.

    `events` are the next ones, the rules that were recorded with them left out; the first of them follow from one
    command, nobody knows how many.
    """
    known = _Known(session, events, rules)
    match known.first:
        case SessionCreated() as event:
            yield CreateSession(
                session_id=event.session_id,
                container_id=event.container_id,
                image_id=event.image_id,
                image_revision=event.image_revision,
            )
        case SessionBranched() as event:
            yield _branched(known, event)
        case AgentStarted() as event:
            yield Run(
                session_id=session.id or "",
                agent_id=event.agent_id,
                at=known.at,
                turn_id=known.next_turn_id,
                rules=rules,
                results_id=known.results_id,
            )
        case MessageAccepted() as event:
            yield Receive(
                agent_id="" if session.agent is None else session.agent.id,
                turn_id=event.turn_id,
                message_id=event.message_id,
                content=event.content,
                at=event.at,
                request_id=event.request_id,
                rules=rules,
            )
        case ContextCompressed() as event:
            yield Compress(
                turn_id=event.turn_id,
                summary=event.summary,
                kept=len(session.conversation) - event.replaced,
                usage=event.usage,
                model=event.model,
                at=event.at,
                rules=rules,
            )
        case ToolEdited() | ToolApproved() | ToolRejected() | HumanResponded() as event:
            yield from _of_people(known, event)
        case ToolResult() as event:
            yield from _of_a_result(known, event)
        case ToolStarted() | ToolPending() | HumanApproveRequired():
            yield from _resumed(known)
        case AnswerRecorded() | TurnFailed() | TurnCompleted():
            yield from _ended(known)
            yield from _finished(known)
        case TurnInterrupted() as event:
            yield from _ended(known)
            yield from _interrupted(known, event.reason)
        case AgentStopped() | SessionDeleted():
            yield from _ended(known)
        case _:
            return


class _Known:
    """What the next events tell of the command that they followed from."""

    def __init__(self, session: Session, events: Sequence[SessionEvent], rules: Rules) -> None:
        self.session = session
        self.turn = session.turn
        self.first = events[0]
        self.rules = rules
        self._events = events

    def next(self, kind: type[_T]) -> _T | None:
        """Return the next event of that kind."""
        return next((event for event in self._events if isinstance(event, kind)), None)

    def all(self, kind: type[_T]) -> list[_T]:
        """Return the next events of that kind."""
        return [event for event in self._events if isinstance(event, kind)]

    @property
    def results_id(self) -> str:
        """The message in which results went back to the model."""
        recorded = self.next(ResultsRecorded)
        return "" if recorded is None else recorded.message_id

    @property
    def next_turn_id(self) -> str:
        """The turn that began because a person had decided."""
        continued = self.next(TurnContinued)
        return "" if continued is None else continued.turn_id

    @property
    def at(self) -> int:
        """When the command was given, as the first event knows that says so."""
        for place, event in enumerate(self._events):
            match event:
                case TurnStarted() | AnswerRecorded() | ResultsRecorded() | StepStarted() | TurnContinued():
                    return event.at
                case TurnCompleted() if self.turn is not None and event.turn_id == self.turn.id:
                    return self._end_of(self.turn, event, self._events[place + 1 :])
                case _:
                    pass
        return 0

    @property
    def so_far(self) -> SoFar:
        """What had come in of the turn's answer when the turn ended, or its calls began."""
        answer, requested = self._of_turn(AnswerRecorded), self._of_turn(ToolsRequested)
        failed, completed = self._of_turn(TurnFailed), self._of_turn(TurnCompleted)
        if answer is not None and requested is not None:
            return SoFar(
                message_id=answer.message_id,
                content=answer.content,
                stop_reason=TOOL_USE,
                usage=answer.usage,
                model=answer.model,
                responding=requested.from_state == "responding",
                stop_sequence=answer.stop_sequence,
                stop_details=answer.stop_details,
            )
        if completed is None or self.turn is None:
            return SoFar() if answer is None else _all_that_is_known(answer)
        said = answer or completed.unsaid
        return SoFar(
            message_id=None if said is None else "" if answer is None else answer.message_id,
            content=() if answer is None else answer.content,
            stop_reason=completed.stop_reason if completed.outcome == "completed" else None,
            usage=_rest(completed.usage, self.turn.usage) if said is None else said.usage,
            model=None if said is None else said.model,
            responding=completed.from_state == "responding",
            failure=completed.failure,
            untold=failed is not None,
            stop_sequence=completed.stop_sequence,
            stop_details=completed.stop_details,
        )

    def _of_turn(self, kind: type[_OfTurn]) -> _OfTurn | None:
        """Return the event of that kind that is about the turn under way; others may come after it."""
        turn_id = None if self.turn is None else self.turn.id
        return next((event for event in self._events if isinstance(event, kind) and event.turn_id == turn_id), None)

    @staticmethod
    def _end_of(turn: Turn, completed: TurnCompleted, rest: Sequence[SessionEvent]) -> int:
        if completed.duration > 0:
            return turn.at + round(completed.duration * _MICROSECONDS)
        begun = next((event.at for event in rest if isinstance(event, TurnStarted)), turn.at)
        return min(begun, turn.at)  # a clock that goes back ends a turn before it has begun


def _all_that_is_known(answer: AnswerRecorded) -> SoFar:
    """Return what had come in where nothing says how the answer went on, as it would have to."""
    return SoFar(
        message_id=answer.message_id,
        content=answer.content,
        stop_reason=None if answer.partial else answer.stop_reason,
        usage=answer.usage,
        model=answer.model,
        stop_sequence=answer.stop_sequence,
        stop_details=answer.stop_details,
    )


def _branched(known: _Known, event: SessionBranched) -> BranchSession:
    accepted = known.all(MessageAccepted)
    return BranchSession(
        session_id=event.session_id,
        container_id=event.container_id,
        image_id=event.image_id,
        image_revision=event.image_revision,
        origin=event.origin,
        version=event.version,
        digest=event.digest,
        position=0,  # where the origin's event stands is told to whoever asked, and not recorded
        at=accepted[0].at if accepted else 0,
        left_at=known.at,
        edit=accepted[-1].content if accepted else None,
        ids=tuple((message.turn_id, message.message_id) for message in accepted),
        results_id=known.results_id,
    )


def _of_people(
    known: _Known, event: ToolEdited | ToolApproved | ToolRejected | HumanResponded
) -> Iterator[SessionCommand]:
    turn_id, at, rules, results_id = known.next_turn_id, known.at, known.rules, known.results_id
    match event:
        case ToolRejected():
            for resume in (True, False):
                yield Reject(
                    call_id=event.id,
                    turn_id=turn_id,
                    at=at,
                    reason=event.reason,
                    resume=resume,
                    by=event.by,
                    rules=rules,
                    results_id=results_id,
                )
        case HumanResponded():
            yield Respond(
                call_id=event.id or "",
                turn_id=turn_id,
                at=at,
                value=event.value,
                by=event.by,
                rules=rules,
                results_id=results_id,
            )
        case _:
            yield Approve(
                call_id=event.id,
                turn_id=turn_id,
                at=at,
                arguments=event.edited if isinstance(event, ToolEdited) else None,
                by=event.by,
                rules=rules,
                results_id=results_id,
            )


def _of_a_result(known: _Known, event: ToolResult) -> Iterator[SessionCommand]:
    """Yield what answers calls: their tools, and whatever gives them up."""
    if known.turn is not None:
        yield Report(
            turn_id=known.turn.id,
            call_id=event.id,
            result=event.result,
            is_error=event.is_error,
            at=known.at,
            rules=known.rules,
            results_id=known.results_id,
        )
    yield from _ended(known)
    yield from _finished(known)
    yield from _resumed(known)
    yield from _interrupted(known, str(event.result).rpartition(_FOR)[2].removesuffix(")"))


def _finished(known: _Known) -> Iterator[SessionCommand]:
    if known.turn is not None:
        yield Finish(
            turn_id=known.turn.id,
            so_far=known.so_far,
            at=known.at,
            rules=known.rules,
            results_id=known.results_id,
        )


def _resumed(known: _Known) -> Iterator[SessionCommand]:
    if known.turn is not None:
        yield Resume(turn_id=known.turn.id, at=known.at, rules=known.rules, results_id=known.results_id)


def _interrupted(known: _Known, reason: str) -> Iterator[SessionCommand]:
    if known.session.agent is not None:
        yield Interrupt(
            agent_id=known.session.agent.id,
            reason=reason,
            at=known.at,
            so_far=known.so_far,
            rules=known.rules,
            results_id=known.results_id,
        )


def _ended(known: _Known) -> Iterator[SessionCommand]:
    """Yield what ends the session, or the agent."""
    stopped, deleted = known.next(AgentStopped), known.next(SessionDeleted)
    if deleted is not None:
        yield Delete(
            session_id=deleted.session_id,
            at=known.at,
            so_far=known.so_far,
            rules=known.rules,
            results_id=known.results_id,
        )
    if stopped is not None and stopped.reason in _STOPPING:
        yield Stop(
            agent_id=stopped.agent_id,
            reason=_STOPPING[stopped.reason],
            at=known.at,
            so_far=known.so_far,
            rules=known.rules,
            results_id=known.results_id,
        )


def _rest(usage: Usage, before: Usage) -> Usage:
    """Return what has to be added to the usage before."""
    if not before:
        return usage
    return {name: count - before.get(name, 0) for name, count in usage.items() if count != before.get(name, 0)}
