"""The announcements to subscribers: derived from the events of one step, and from its `Needs`.

The log does not store announcements, but the version of `announce` and the needs of each step. A version in `VERSIONS`
therefore never changes: to announce something differently, add a new version, with a golden log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import ne
from typing import Final, NamedTuple, TypeAlias, assert_never

import msgspec

from reenact.domain.children import ChildEnded, ChildrenInterrupted, ChildStarted
from reenact.domain.errors import InvalidInputError, LogTooNewError
from reenact.domain.guards import GuardChecked
from reenact.domain.loop import events as loop
from reenact.domain.loop.rounds import RoundEvent
from reenact.domain.messages import Block, Message, Said, ToolUseBlock, instant
from reenact.domain.output import read_output
from reenact.domain.plain import Json, JsonObject
from reenact.domain.session.agent import (
    AgentStarted,
    AgentStopped,
    AnswerRecorded,
    ContextCompressed,
    HandoverRequested,
    ImageChanged,
    MessageAccepted,
    MessageScheduled,
    OutputAccepted,
    OutputRejected,
    ResultsRecorded,
    RulesRecorded,
    ScheduleCancelled,
    ScheduleFired,
    StepStarted,
    ToolsRequested,
    Turn,
    TurnCompleted,
    TurnContinued,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.session.state import (
    Session,
    SessionBranched,
    SessionCreated,
    SessionDeleted,
    SessionEvent,
    SessionForgotten,
)
from reenact.domain.stream import events as heard
from reenact.domain.structs import Frozen

Announced: TypeAlias = tuple[heard.Context, heard.EventData]
"""An announced event with its context."""
_SAME_FIELDS: Final[Mapping[type, type[heard.EventData]]] = {
    TurnInterrupted: heard.Interrupted,
    loop.HumanApproveRequired: heard.HumanApproveRequired,
    loop.HumanPromptRequired: heard.HumanPromptRequired,
    loop.HumanSelectRequired: heard.HumanSelectRequired,
    loop.ToolPending: heard.ToolPending,
    loop.ToolApproved: heard.ToolApproved,
    loop.ToolEdited: heard.ToolEdited,
    loop.ToolRejected: heard.ToolRejected,
    loop.HumanResponded: heard.HumanResponded,
    loop.Warning: heard.Warned,
    ChildStarted: heard.ChildStarted,
    ChildEnded: heard.ChildEnded,
}
"""Events that are announced with their own fields."""
_OF_TURN = (
    *(AnswerRecorded, ToolsRequested, ResultsRecorded, StepStarted),
    *(ContextCompressed, TurnInterrupted, TurnFailed, TurnCompleted),
)
"""Events that name the turn under way."""


class Call(Frozen, array_like=True):
    """A call that starts with these arguments."""

    id: str
    arguments: JsonObject


class Needs(Frozen, array_like=True):
    """The data for the announcements of a step that its events do not hold, from the session's state before them.

    `message_id` is that of the turn under way, "" if there is none; `turn_id` is "" if an event names it. `activity` is
    the agent's state in the turn, `in_round` whether calls are open, and `failed` whether the agent has failed. `begun`
    are the messages of turns that begin, unless they are accepted in the step; `calls` those that start, if no event
    has their arguments; `kept` is the number of messages that a summary keeps.
    """

    agent_id: str = ""
    container_id: str = ""
    image_id: str = ""
    message_id: str = ""
    turn_id: str = ""
    in_round: bool = False
    activity: heard.AgentState = "thinking"
    failed: bool = False
    begun: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    kept: int = 0

    def stored(self) -> bytes:
        """Return its encoding for the log, without default values at its end."""
        values = msgspec.structs.astuple(self)
        return _encode(values[: bytes(map(ne, values, _NOTHING)).rfind(1) + 1])


def needed(session: Session, events: Sequence[SessionEvent]) -> Needs:
    """Return the data of the session, as it was before the events, that their announcements need."""
    agent, turn, round_ = session.agent, session.turn, session.round
    accepted: set[str] = set()
    said: set[str] = set()
    begun: list[str] = []
    calls: list[Call] = []
    asked, kept = session.question[0], 0
    for event in events:
        match event:
            case MessageAccepted():
                accepted.add(event.turn_id)
            case TurnStarted():
                if event.turn_id not in accepted:
                    asked = next((one.message_id for one in session.queue if one.turn_id == event.turn_id), "")
                    begun.append(asked)
            case AnswerRecorded():
                said.update(call.id for call in event.content if isinstance(call, ToolUseBlock))
            case TurnCompleted() | loop.ToolResult() | ToolsRequested() | ResultsRecorded() | StepStarted():
                pass
            case TurnContinued():
                begun.append(asked)
            case loop.ToolEdited():
                said.add(event.id)
            case loop.ToolStarted() if event.id not in said and round_ is not None:
                call = round_.call(event.id)
                calls += () if call is None else (Call(call.id, call.arguments),)
            case ContextCompressed():
                kept = len(session.conversation) - event.replaced
            case _:
                pass
    is_new = bool(events) and isinstance(events[0], SessionCreated | SessionBranched)
    return Needs(
        "" if agent is None or is_new else agent.id,
        "" if is_new else session.container_id,
        "" if is_new else session.image_id,
        "" if turn is None else turn.message_id,
        "" if turn is None or turn.id == _turn_of(events) else turn.id,
        round_ is not None,
        "thinking" if turn is None else turn.activity,
        agent is not None and agent.failed and turn is None,
        tuple(begun),
        tuple(calls),
        kept,
    )


def announce(session_id: str, needs: Needs, events: Sequence[SessionEvent]) -> list[Announced]:
    """Return the announcements of the events of a step, in order, each with its context.

    The end of a turn that a branch has inherited is not announced: subscribers of the branch never saw it begin.
    """
    step = _Step(session_id, needs, events)
    announced: list[Announced] = []
    for event in events:
        is_inherited = step.is_inherited
        told = [*step.tell(event)]
        if not is_inherited:
            announced += told
    return announced


class Version(NamedTuple):
    """A version of `announce`: how its needs are decoded, how they are taken from a session, and how it announces.

    Its functions take the events as the log holds them.
    """

    read: Callable[[bytes | msgspec.Raw], Needs]
    needed: Callable[..., Needs]
    announce: Callable[..., Sequence[Announced]]


_encode = msgspec.msgpack.Encoder().encode
_NOTHING = msgspec.structs.astuple(Needs())
TODAY = 1
"""The version for new steps."""
VERSIONS: Final[Mapping[int, Version]] = {
    1: Version(msgspec.msgpack.Decoder(Needs).decode, needed, announce),
}
"""The versions of `announce` that a log can name."""


def version_of(number: int, row: str) -> Version:
    """Return the version by which a row was announced.

    Raises:
        LogTooNewError: there is no version of this number; the message names the row.
    """
    version = VERSIONS.get(number)
    if version is None:
        message = f"{row} was announced by version {number}, newer than {TODAY}"
        raise LogTooNewError(f"{message}; upgrade to read it")
    return version


class _Step:
    """The state needed for announcements, updated with each event of a step."""

    def __init__(self, session_id: str, needs: Needs, events: Sequence[SessionEvent]) -> None:
        self.is_inherited = False
        """Whether the turn under way belongs to the session from which this one branches off."""
        self._session_context = heard.Context(
            container_id=needs.container_id or None,
            image_id=needs.image_id or None,
            session_id=session_id,
            agent_id=needs.agent_id or None,
        )
        self._turn: str | None = None
        self._context = self._session_context
        self._activity: heard.AgentState = needs.activity
        self._in_round = needs.in_round
        self._failed = needs.failed
        self._begun_message_ids = iter(needs.begun)
        self._kept = needs.kept
        self._messages: dict[str, str] = {}
        self._answer: tuple[Block, ...] = ()
        self._arguments = {call.id: call.arguments for call in needs.calls}
        if needs.message_id:
            self._enter_turn(needs.turn_id or _turn_of(events), needs.message_id)

    def tell(self, event: SessionEvent) -> Iterator[Announced]:  # noqa: C901, PLR0912, PLR0915 - one case for each event
        """Yield the announcements of the next event."""
        match event:
            case MessageAccepted():
                self._messages[event.turn_id] = event.message_id
                context = _in_turn(self._session_context, event.turn_id, event.request_id)
                yield context, heard.UserMessage(message=question(event))
            case TurnStarted():
                yield from self._announce_turn_start(event)
            case AnswerRecorded():
                self._arguments.update((one.id, one.input) for one in event.content if isinstance(one, ToolUseBlock))
                self._answer = event.content
                yield self._context, heard.AssistantMessage(message=answer(event))
            case TurnCompleted():
                yield from self._announce_turn_end(event)
            case loop.ToolResult():
                yield self._context, _converted(event, heard.ToolResult)
            case loop.ToolStarted():
                if self._in_round:
                    yield from self._set_activity("tool_executing")
                arguments = self._arguments.get(event.id, {})
                started = heard.ToolStarted(id=event.id, name=event.name, input=arguments, attempt=event.attempt)
                yield self._context, started
            case ToolsRequested():  # the answer was announced before, and its calls will be
                self._in_round, self._activity = True, event.from_state
            case ResultsRecorded():
                yield self._context, heard.ToolResultMessage(message=question(event))
                previous, self._in_round = self._state, False
                if self._turn is None:
                    yield from self._announce_state_change(previous)
            case StepStarted():
                yield from self._set_activity("thinking")
                yield self._context, heard.StepStarted(turn_id=event.turn_id, step=event.step)
            case SessionCreated():
                yield from self._announce_created(event, None)
            case SessionBranched():
                yield from self._announce_created(event, heard.Origin(session_id=event.origin, version=event.version))
                self.is_inherited = self._turn is not None
            case AgentStarted():
                self._failed = self.is_inherited = False
                self._change_context(agent_id=event.agent_id)
                yield self._session_context, heard.AgentStarted(agent_id=event.agent_id)
                if self._in_round:
                    yield (
                        self._session_context,
                        heard.AgentStateChanged(previous="idle", current="waiting_for_human_input"),
                    )
            case TurnContinued():
                message_id = next(self._begun_message_ids, "")
                self._activity = "waiting_for_human_input"
                self._enter_turn(event.turn_id, message_id)
                yield self._context, heard.TurnStarted(turn_id=event.turn_id, message_id=message_id)
            case TurnFailed():
                yield self._context, _converted(event.failure, heard.StreamError)
            case AgentStopped():
                yield from self._announce_stop(event)
            case SessionForgotten():
                self._change_context(container_id=event.container_id, image_id=event.image_id)
                yield (
                    self._session_context,
                    heard.SessionDeleted(session_id=event.session_id, forgotten_by=event.by, why=event.why),
                )
            case SessionDeleted():
                self._in_round = False
                yield self._session_context, heard.SessionDeleted(session_id=event.session_id)
            case RulesRecorded() | ChildrenInterrupted() | HandoverRequested():
                pass
            case ImageChanged():
                yield self._change_image(event)
            case MessageScheduled() | ScheduleCancelled() | ScheduleFired():
                yield self._session_context, _schedule_event(event)
            case OutputAccepted():
                accepted = heard.OutputAccepted(
                    turn_id=event.turn_id, message_id=event.message_id, output=_output(self._answer)
                )
                yield self._context, accepted
            case OutputRejected():
                self._activity = event.from_state
                yield self._context, _converted(event, heard.OutputRejected)
            case GuardChecked():
                of_message = event.point == "message" and event.turn_id is not None
                context = _in_turn(self._session_context, event.turn_id or "", None) if of_message else self._context
                yield context, _converted(event, heard.GuardChecked)
            case ContextCompressed():
                summary = heard.ContextCompressed(
                    summary=event.summary, kept=self._kept, usage=event.usage, model=event.model
                )
                yield self._context, summary
            case loop.ToolEdited():
                self._arguments[event.id] = event.edited
                yield self._context, _with_same_fields(event)
            case _:
                yield self._context, _with_same_fields(event)

    def _change_image(self, event: ImageChanged) -> Announced:
        previous = self._session_context.image_id or ""  # this event comes between two turns
        self._change_context(image_id=event.image_id)
        changed = heard.ImageChanged(
            image_id=event.image_id, image_revision=event.image_revision, previous=previous, history=event.history
        )
        return self._session_context, changed

    @property
    def _state(self) -> heard.AgentState:
        if self._turn is not None:
            return self._activity
        if self._in_round:  # the remaining calls wait for people
            return "waiting_for_human_input"
        if self._failed:
            return "error"
        return "idle"

    def _set_activity(self, activity: heard.AgentState) -> Iterator[Announced]:
        previous, self._activity = self._state, activity
        return self._announce_state_change(previous)

    def _announce_state_change(self, previous: heard.AgentState) -> Iterator[Announced]:
        """Yield the change of the agent's state, if it has changed."""
        current = self._state
        if self._session_context.agent_id is not None and previous != current:
            yield self._context, heard.AgentStateChanged(previous=previous, current=current)

    def _enter_turn(self, turn_id: str, message_id: str) -> None:
        self._turn = turn_id
        self._context = _in_turn(self._session_context, turn_id, message_id)

    def _change_context(self, **changes: str | None) -> None:
        """Change the context of the session; no turn is under way."""
        self._session_context = self._context = msgspec.structs.replace(self._session_context, **changes)

    def _announce_created(
        self, event: SessionCreated | SessionBranched, origin: heard.Origin | None
    ) -> Iterator[Announced]:
        self._change_context(container_id=event.container_id, image_id=event.image_id)
        created = heard.SessionCreated(
            session_id=event.session_id,
            container_id=event.container_id,
            image_id=event.image_id,
            origin=origin,
            parent=event.parent,
        )
        yield self._session_context, created

    def _announce_turn_start(self, event: TurnStarted) -> Iterator[Announced]:
        previous, message_id = self._state, self._messages.get(event.turn_id) or next(self._begun_message_ids, "")
        self._activity, self._failed = "thinking", False
        self._enter_turn(event.turn_id, message_id)
        yield self._context, heard.TurnStarted(turn_id=event.turn_id, message_id=message_id)
        if self._session_context.agent_id is not None:
            yield self._context, heard.AgentStateChanged(previous=previous, current="thinking")

    def _announce_turn_end(self, event: TurnCompleted) -> Iterator[Announced]:
        begun = self._turn == event.turn_id
        context = self._context if begun else _in_turn(self._session_context, event.turn_id, None)
        if event.failure is not None:
            yield context, _converted(event.failure, heard.ErrorMessage)
        if begun:
            self._failed = event.outcome == "failed"
            self._turn, self.is_inherited = None, False
            yield from self._announce_state_change(event.from_state)
            self._context = self._session_context
        yield context, _converted(event, heard.TurnCompleted)

    def _announce_stop(self, event: AgentStopped) -> Iterator[Announced]:
        context = self._session_context
        if context.agent_id is not None:
            yield context, heard.AgentStateChanged(previous=self._state, current="stopped")
        yield context, heard.AgentStopped(agent_id=event.agent_id, reason=event.reason)
        self._change_context(agent_id=None)
        self._failed = False


def _output(answer: tuple[Block, ...]) -> Json:
    """Return the value of the answer; None if it was redacted."""
    try:
        return read_output(answer)
    except InvalidInputError:
        return None


def _turn_of(events: Sequence[SessionEvent]) -> str:
    """Return the first turn that an event names as the one under way."""
    return next((event.turn_id or "" for event in events if isinstance(event, _OF_TURN)), "")


def _converted(said: msgspec.Struct, kind: type[heard.EventData]) -> heard.EventData:
    return msgspec.convert(said, kind, from_attributes=True)


def _with_same_fields(
    event: TurnInterrupted | RoundEvent | loop.Warning | ChildStarted | ChildEnded,
) -> heard.EventData:
    return _converted(event, _SAME_FIELDS[type(event)])


def _schedule_event(event: MessageScheduled | ScheduleCancelled | ScheduleFired) -> heard.EventData:
    match event:
        case MessageScheduled(schedule_id=id_, every=every, until=until):
            return heard.MessageScheduled(
                schedule_id=id_,
                at=instant(event.due),
                every=None if every is None else every / 1_000_000,
                until=None if until is None else instant(until),
            )
        case ScheduleCancelled(schedule_id=id_):
            return heard.ScheduleCancelled(schedule_id=id_)
        case ScheduleFired(schedule_id=id_, then=then):
            return heard.ScheduleFired(
                schedule_id=id_,
                turn_id=event.turn_id,
                at=instant(event.due),
                late=event.late,
                then=None if then is None else instant(then),
            )
        case _:
            assert_never(event)


def question(event: MessageAccepted | ResultsRecorded) -> Message:
    """Return the message that a user has sent, or that sends results back to the model."""
    return Message(
        id=event.message_id, role="user", content=event.content, created_at=instant(event.at), turn_id=event.turn_id
    )


def question_of(turn: Turn, said: Said) -> Message:
    """Return the user's message that the turn answers, with its content from the conversation."""
    return Message(
        id=turn.message_id, role="user", content=said.content, created_at=instant(turn.asked_at), turn_id=turn.id
    )


def answer(event: AnswerRecorded) -> Message:
    """Return the model's message that was recorded."""
    return Message(
        id=event.message_id,
        role="assistant",
        content=event.content,
        created_at=instant(event.at),
        turn_id=event.turn_id,
        stop_reason=event.stop_reason,
        partial=event.partial,
        usage=event.usage or None,
        stop_sequence=event.stop_sequence,
        stop_details=event.stop_details,
    )


def about(session: Session) -> heard.Context:
    """Return the context of announcements about the session and its live agent, outside of a turn."""
    return heard.Context(
        container_id=session.container_id,
        image_id=session.image_id,
        session_id=session.id,
        agent_id=None if session.agent is None else session.agent.id,
    )


def of_turn(session: Session) -> heard.Context:
    """Return the context of announcements about the turn under way."""
    turn = session.turn
    return about(session) if turn is None else _in_turn(about(session), turn.id, turn.message_id)


def _in_turn(context: heard.Context, turn_id: str, causation_id: str | None) -> heard.Context:
    return msgspec.structs.replace(context, turn_id=turn_id, correlation_id=turn_id, causation_id=causation_id)
