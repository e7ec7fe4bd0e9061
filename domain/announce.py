"""What subscribers hear of a decision: each event of a session's log, told as events of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias, assert_never

from reenact.domain import events as heard
from reenact.domain.agent import (
    AgentStarted,
    AgentStopped,
    AnswerRecorded,
    ContextCompressed,
    MessageAccepted,
    ResultsRecorded,
    RulesRecorded,
    StepStarted,
    ToolsRequested,
    Turn,
    TurnCompleted,
    TurnContinued,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.loop import events as loop
from reenact.domain.messages import Message, Said, instant
from reenact.domain.session_state import (
    LoopFact,
    Session,
    SessionBranched,
    SessionCreated,
    SessionDeleted,
    SessionEvent,
    evolve,
)

AboutPeople: TypeAlias = (
    loop.HumanApproveRequired
    | loop.HumanPromptRequired
    | loop.HumanSelectRequired
    | loop.ToolPending
    | loop.ToolApproved
    | loop.ToolEdited
    | loop.ToolRejected
    | loop.HumanResponded
    | loop.Warning
)


def announce(session: Session, events: Sequence[SessionEvent]) -> Iterator[tuple[heard.Context, heard.EventData]]:
    """Yield what is heard of the events, in order, each with what it is about; `session` is as it was before them.

    How a turn that a branch has inherited ends there is not heard of: nobody who follows the branch heard it begin.
    """
    for event in events:
        after = evolve(session, event)
        yield from told(session, after, event)
        session = after


def told(before: Session, after: Session, event: SessionEvent) -> Iterator[tuple[heard.Context, heard.EventData]]:
    """Yield what is heard of one event that has led from the one state to the other, as `announce` does."""
    if not _is_inherited(before) or isinstance(event, SessionBranched):
        yield from _tell(before, after, event)


def _is_inherited(session: Session) -> bool:
    """Return whether the turn under way is that of the session that this one branches off from."""
    return session.origin is not None and session.turn is not None and session.agent is None


def _tell(before: Session, after: Session, event: SessionEvent) -> Iterator[tuple[heard.Context, heard.EventData]]:
    match event:
        case SessionCreated():
            created = heard.SessionCreated(
                session_id=event.session_id, container_id=event.container_id, image_id=event.image_id
            )
            yield about(after), created
        case SessionBranched():
            branched = heard.SessionCreated(
                session_id=event.session_id,
                container_id=event.container_id,
                image_id=event.image_id,
                origin=after.origin,
            )
            yield about(after), branched
        case AgentStarted():
            yield about(after), heard.AgentStarted(agent_id=event.agent_id)
            if after.agent is not None and after.agent.state(None, after.round) == "waiting_for_human_input":
                yield about(after), heard.AgentStateChanged(previous="idle", current="waiting_for_human_input")
        case MessageAccepted():
            yield _of_question(before, event), heard.UserMessage(message=question(event))
        case TurnStarted():
            yield from _started(before, after, event)
        case TurnInterrupted():
            yield of_turn(before), heard.Interrupted(reason=event.reason)
        case TurnFailed():
            failure = event.failure
            told = heard.StreamError(type=failure.type, message=failure.message, retryable=failure.retryable)
            yield of_turn(before), told
        case AnswerRecorded():
            yield of_turn(before), heard.AssistantMessage(message=answer(event))
        case TurnCompleted():
            yield from _completed(before, after, event)
        case AgentStopped():
            yield from _stopped(before, event)
        case SessionDeleted():
            yield about(before), heard.SessionDeleted(session_id=event.session_id)
        case _:
            yield from _tell_loop(before, after, event)


def _tell_loop(before: Session, after: Session, event: LoopFact) -> Iterator[tuple[heard.Context, heard.EventData]]:
    context = of_turn(after)
    match event:
        case ToolsRequested() | RulesRecorded():
            pass  # the answer has been told of, and what becomes of its calls will be, also by which rules
        case TurnContinued():
            yield context, heard.TurnStarted(turn_id=event.turn_id, message_id=after.question[0])
        case StepStarted():
            yield from _changed(context, before, after)
            yield context, heard.StepStarted(turn_id=event.turn_id, step=event.step)
        case loop.ToolStarted():
            yield from _changed(context, before, after)
            call = None if after.round is None else after.round.call(event.id)
            arguments = {} if call is None else call.arguments
            yield context, heard.ToolStarted(id=event.id, name=event.name, input=arguments, attempt=event.attempt)
        case loop.ToolResult():
            told = heard.ToolResult(id=event.id, name=event.name, result=event.result, is_error=event.is_error)
            yield context, told
        case ResultsRecorded():
            yield context, heard.ToolResultMessage(message=results(event))
            if after.turn is None:
                yield from _changed(context, before, after)
        case ContextCompressed():
            kept = len(after.conversation) - event.replaced
            summary = heard.ContextCompressed(summary=event.summary, kept=kept, usage=event.usage, model=event.model)
            yield context, summary
        case _:
            yield context, _of_people(event)


def _of_people(event: AboutPeople) -> heard.EventData:
    match event:
        case loop.HumanApproveRequired():
            return heard.HumanApproveRequired(calls=event.calls)
        case loop.HumanPromptRequired():
            return heard.HumanPromptRequired(id=event.id, prompt=event.prompt, metadata=event.metadata)
        case loop.HumanSelectRequired():
            return heard.HumanSelectRequired(id=event.id, prompt=event.prompt, options=event.options, multi=event.multi)
        case loop.ToolPending():
            return heard.ToolPending(ids=event.ids)
        case loop.ToolApproved():
            return heard.ToolApproved(id=event.id, digest=event.digest, by=event.by)
        case loop.ToolEdited():
            return heard.ToolEdited(id=event.id, original=event.original, edited=event.edited, by=event.by)
        case loop.ToolRejected():
            return heard.ToolRejected(id=event.id, reason=event.reason, by=event.by)
        case loop.HumanResponded():
            return heard.HumanResponded(id=event.id, value=event.value, by=event.by)
        case loop.Warning():
            return heard.Warned(reason=event.reason, message=event.message)
        case _:
            assert_never(event)


def _changed(
    context: heard.Context, before: Session, after: Session
) -> Iterator[tuple[heard.Context, heard.EventData]]:
    """Yield the change of the agent's state, if it is one."""
    if before.agent is None or after.agent is None:
        return
    previous, current = before.agent.state(before.turn, before.round), after.agent.state(after.turn, after.round)
    if previous != current:
        yield context, heard.AgentStateChanged(previous=previous, current=current)


def results(event: ResultsRecorded) -> Message:
    """Return the message in which the results go back to the model."""
    return Message(
        id=event.message_id, role="user", content=event.content, created_at=instant(event.at), turn_id=event.turn_id
    )


def question(event: MessageAccepted) -> Message:
    """Return the user's message that was accepted."""
    return Message(
        id=event.message_id, role="user", content=event.content, created_at=instant(event.at), turn_id=event.turn_id
    )


def question_of(turn: Turn, said: Said) -> Message:
    """Return the user's message that the turn is about, as it was said in the conversation."""
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
    """Return the context of what concerns the session and its live agent, but no turn."""
    return heard.Context(
        container_id=session.container_id,
        image_id=session.image_id,
        session_id=session.id,
        agent_id=None if session.agent is None else session.agent.id,
    )


def of_turn(session: Session) -> heard.Context:
    """Return the context of what concerns the turn under way."""
    turn = session.turn
    if turn is None:
        return about(session)
    return heard.Context(
        container_id=session.container_id,
        image_id=session.image_id,
        session_id=session.id,
        agent_id=None if session.agent is None else session.agent.id,
        turn_id=turn.id,
        correlation_id=turn.id,
        causation_id=turn.message_id,
    )


def _of_question(session: Session, event: MessageAccepted) -> heard.Context:
    return heard.Context(
        container_id=session.container_id,
        image_id=session.image_id,
        session_id=session.id,
        agent_id=None if session.agent is None else session.agent.id,
        turn_id=event.turn_id,
        correlation_id=event.turn_id,
        causation_id=event.request_id,
    )


def _started(before: Session, after: Session, event: TurnStarted) -> Iterator[tuple[heard.Context, heard.EventData]]:
    context = of_turn(after)
    message_id = after.turn.message_id if after.turn is not None else ""
    yield context, heard.TurnStarted(turn_id=event.turn_id, message_id=message_id)
    if before.agent is not None:
        previous = before.agent.state(before.turn, before.round)
        yield context, heard.AgentStateChanged(previous=previous, current="thinking")


def _completed(
    before: Session, after: Session, event: TurnCompleted
) -> Iterator[tuple[heard.Context, heard.EventData]]:
    begun = before.turn is not None and before.turn.id == event.turn_id
    context = (
        of_turn(before)
        if begun
        else heard.Context(
            container_id=before.container_id,
            image_id=before.image_id,
            session_id=before.id,
            agent_id=None if before.agent is None else before.agent.id,
            turn_id=event.turn_id,
            correlation_id=event.turn_id,
        )
    )
    if event.failure is not None:
        failure = event.failure
        told = heard.ErrorMessage(type=failure.type, message=failure.message, retryable=failure.retryable)
        yield context, told
    if begun and after.agent is not None:
        current = after.agent.state(None, after.round)
        if current != event.from_state:
            yield context, heard.AgentStateChanged(previous=event.from_state, current=current)
    yield (
        context,
        heard.TurnCompleted(
            turn_id=event.turn_id,
            outcome=event.outcome,
            stop_reason=event.stop_reason,
            usage=event.usage,
            duration=event.duration,
            cost=event.cost,
            stop_sequence=event.stop_sequence,
            stop_details=event.stop_details,
        ),
    )


def _stopped(before: Session, event: AgentStopped) -> Iterator[tuple[heard.Context, heard.EventData]]:
    context = about(before)
    if before.agent is not None:
        previous = before.agent.state(before.turn, before.round)
        yield context, heard.AgentStateChanged(previous=previous, current="stopped")
    yield context, heard.AgentStopped(agent_id=event.agent_id, reason=event.reason)
