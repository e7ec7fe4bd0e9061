"""What an environment has said, if these were the answers that came of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reenact.domain.loop.events import Warning as LimitWarning
from reenact.domain.messages import TextBlock, ThinkingBlock, ToolUseBlock
from reenact.domain.session.agent import (
    AnswerRecorded,
    ContextCompressed,
    HandoverRequested,
    MessageAccepted,
    MessageScheduled,
    RulesRecorded,
    ScheduleCancelled,
    ScheduleFired,
    StepStarted,
    TurnCompleted,
    TurnStarted,
    UnrecordedUsage,
)
from reenact.domain.stream.events import (
    AgentStateChanged,
    EventData,
    MessageDelta,
    MessageStart,
    MessageStop,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCall,
)

SCHEDULING = (MessageScheduled, ScheduleCancelled, ScheduleFired)
GOES_ON = (
    TurnStarted,
    StepStarted,
    MessageAccepted,
    ContextCompressed,
    RulesRecorded,
    LimitWarning,
    HandoverRequested,
    *SCHEDULING,
)
"""Events behind which an answer begins to come in, or goes on doing so."""


def said_in(events: Sequence[object]) -> Iterator[EventData]:
    """Yield what the environment says, if these events follow: their first answer."""
    for event in events:
        match event:
            case AnswerRecorded():
                yield from child_result_text(event)
                return
            case TurnCompleted(unsaid=None) | StepStarted() | TurnStarted():
                return
            case TurnCompleted(unsaid=UnrecordedUsage() as unsaid):
                yield MessageStart(message_id="m", model=unsaid.model)
                yield MessageDelta(usage=unsaid.usage)
                return
            case _:
                pass


def child_result_text(answer: AnswerRecorded) -> Iterator[EventData]:
    """Yield what the environment has said of an answer, behind an attempt at another one."""
    yield MessageStart(message_id="cut short", model="another")
    yield TextDelta(text="anything")
    yield MessageStart(message_id=answer.message_id, model=answer.model)
    responds = False
    for block in answer.content:
        match block:
            case ThinkingBlock():
                yield ThinkingStart()
                yield ThinkingDelta(text=block.thinking)
                yield ThinkingEnd(signature=block.signature)
            case TextBlock():
                if not responds:
                    yield AgentStateChanged(previous="thinking", current="responding")
                    responds = True
                yield TextDelta(text=block.text[:1])
                yield TextDelta(text=block.text[1:])
            case ToolUseBlock():
                yield ToolCall(id=block.id, name=block.name, input=block.input)
            case _:
                pass
    yield MessageDelta(usage=answer.usage)
    if not answer.partial:
        yield MessageStop(
            stop_reason=answer.stop_reason, stop_sequence=answer.stop_sequence, stop_details=answer.stop_details
        )
