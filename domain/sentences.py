"""What happened, in one plain sentence for each event of a session, of a container or of an image."""

from __future__ import annotations

from typing import Final, TypeAlias, assert_never

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
    TurnCompleted,
    TurnContinued,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.causality import Outside
from reenact.domain.container import ContainerCreated
from reenact.domain.image import ImageRegistered
from reenact.domain.loop.answers import content_of
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
from reenact.domain.loop.events import Warning as LimitWarning
from reenact.domain.loop.rounds import RoundEvent
from reenact.domain.messages import Block, ToolUseBlock, text_of
from reenact.domain.session_state import SessionBranched, SessionCreated, SessionDeleted, SessionEvent

AnyEvent: TypeAlias = SessionEvent | ContainerCreated | ImageRegistered
_EXCERPT: Final = 60


def sentence(event: AnyEvent) -> str:
    """Return what the event says."""
    match event:
        case ContainerCreated():
            return f"Container {event.container_id} was created."
        case ImageRegistered():
            return f"Image {event.image_id} was registered, revision {event.revision}."
        case SessionCreated():
            image = f"image {event.image_id}, revision {event.image_revision}"
            return f"The session was created in container {event.container_id}, on {image}."
        case SessionBranched():
            return f"The session branched off from session {event.origin}, behind its event {event.version}."
        case SessionDeleted():
            return "The session was deleted."
        case AgentStarted():
            return f"Agent {event.agent_id} was started."
        case AgentStopped():
            return f"Agent {event.agent_id} was stopped: {event.reason}."
        case MessageAccepted():
            return f"A message came in: {_said(event.content)}."
        case AnswerRecorded():
            return f"The model answered{', in part' if event.partial else ''}: {_said(event.content)}."
        case ContextCompressed():
            return f"The first {event.replaced} messages were summarised for the model."
        case ResultsRecorded():
            return f"{_count(len(event.content), 'result')} went back to the model."
        case RulesRecorded():
            return "From here on other rules held: policies, prices, costs or limits."
        case LimitWarning():
            return f"A limit is exceeded that only warns: {event.message}."
        case (
            TurnStarted()
            | TurnContinued()
            | TurnInterrupted()
            | TurnFailed()
            | TurnCompleted()
            | StepStarted()
            | ToolsRequested()
        ):
            return _of_turn(event)
        case _:
            return _of_call(event)


def told(outside: Outside) -> str:
    """Return where something came from, as it ends a sentence that begins with "from"."""
    match outside.kind:
        case "message":
            return "outside" if outside.name is None else f"outside, by request {outside.name}"
        case "person":
            return "a person" if outside.name is None else f"a person: {outside.name}"
        case "caller":
            return "a caller" if outside.name is None else f"a caller: {outside.name}"
        case "model":
            return "the model" if outside.name is None else f"the model {outside.name}"
        case "tool":
            return f"the tool {outside.name}"
        case "environment":
            return "the environment" if outside.name is None else f"the environment: {outside.name}"
        case "crash":
            return "a crash of the process"
        case "shutdown":
            return "a shutdown"
        case _:
            assert_never(outside.kind)


def excerpt(text: str) -> str:
    """Return the beginning of a text in quotes, on one line."""
    words = " ".join(text[: 4 * _EXCERPT].split())
    is_whole = len(text) <= 4 * _EXCERPT and len(words) <= _EXCERPT
    return f'"{words}"' if is_whole else f'"{words[:_EXCERPT].rstrip()}…"'


def _of_turn(
    event: TurnStarted | TurnContinued | TurnInterrupted | TurnFailed | TurnCompleted | StepStarted | ToolsRequested,
) -> str:
    match event:
        case TurnStarted():
            return f"Turn {event.turn_id} began: the model is asked."
        case TurnContinued():
            return f"Turn {event.turn_id} began: a person has decided."
        case TurnInterrupted():
            return f"Turn {event.turn_id} was interrupted: {event.reason}."
        case TurnFailed():
            return f"Turn {event.turn_id} cannot go on: {excerpt(event.failure.message)}."
        case TurnCompleted():
            details = event.stop_details
            why = f": {excerpt(details.explanation)}" if details is not None and details.explanation else ""
            return f"Turn {event.turn_id} ended: {event.outcome} ({event.stop_reason}{why})."
        case StepStarted():
            return f"The model is asked again, step {event.step}."
        case ToolsRequested():
            return "The answer asks for tools."
        case _:
            assert_never(event)


def _of_call(event: RoundEvent) -> str:
    match event:
        case HumanApproveRequired():
            calls = ", ".join(f"{call.name} ({call.id})" for call in event.calls)
            return f"A person is to approve {calls}."
        case HumanPromptRequired() | HumanSelectRequired():
            return f"A person is asked: {excerpt(event.prompt)}."
        case ToolPending():
            return f"{_count(len(event.ids), 'call')} wait{'s' if len(event.ids) == 1 else ''} for a person."
        case ToolApproved():
            return f"{_who(event.by)} approved call {event.id}."
        case ToolEdited():
            return f"{_who(event.by)} changed the arguments of call {event.id}."
        case ToolRejected():
            return f"{_who(event.by)} rejected call {event.id}{f': {excerpt(event.reason)}' if event.reason else ''}."
        case HumanResponded():
            return f"{_who(event.by)} answered question {event.id}."
        case ToolStarted():
            again = "" if event.attempt == 1 else f", attempt {event.attempt}"
            return f"Call {event.id} of {event.name} was started{again}."
        case ToolResult():
            content = content_of(event.result)
            result = f": {excerpt(content)}" if isinstance(content, str) else ""
            return f"Call {event.id} of {event.name} {_answered(event)}{result}."
        case _:
            assert_never(event)


def _answered(event: ToolResult) -> str:
    if not event.ran:
        return "was answered without being run"
    return "failed" if event.is_error else "returned"


def _said(content: tuple[Block, ...]) -> str:
    text = text_of(content)
    calls = [block.name for block in content if isinstance(block, ToolUseBlock)]
    told_calls = f"calls of {', '.join(calls)}" if calls else ""
    if text.strip() or not calls:
        return f"{excerpt(text)}, and {told_calls}" if calls else excerpt(text)
    return told_calls


def _who(by: str | None) -> str:
    return "A person" if by is None else f"A person ({by})"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
