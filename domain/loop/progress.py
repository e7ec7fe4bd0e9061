"""How a conversation proceeds: the events that only the history of an `AgentState` has, and the union of all."""

from __future__ import annotations

from typing import Any, TypeAlias

from reenact.domain.loop.events import (
    HumanApproveRequired,
    HumanPromptRequired,
    HumanResponded,
    HumanSelectRequired,
    LoopEvent,
    ToolApproved,
    ToolEdited,
    ToolPending,
    ToolRejected,
    ToolResult,
    ToolStarted,
    Warning,  # noqa: A004 - the word of the specification
)
from reenact.domain.loop.faults import ErrorInfo


class LLMStart(LoopEvent, frozen=True, kw_only=True, tag="llm_start"):
    """The model is called with this."""

    payload: Any = None


class LLMStream(LoopEvent, frozen=True, kw_only=True, tag="llm_stream"):
    """The model has yielded this."""

    chunk: dict[str, Any]


class LLMResult(LoopEvent, frozen=True, kw_only=True, tag="llm_result"):
    """The model has answered: `result` holds `content` and `tool_calls`.

    `usage` are the token counts it reported, if it did; `cost` is None if they or the price are not known. The answer
    is a message of the conversation if it was `appended`.
    """

    result: dict[str, Any]
    model: str = ""
    usage: dict[str, Any] | None = None
    cost: float | None = None
    appended: bool = False


class MessageAdded(LoopEvent, frozen=True, kw_only=True, tag="message_added"):
    """Whoever runs the conversation has added a message to it."""

    message: dict[str, Any]


class Done(LoopEvent, frozen=True, kw_only=True, tag="done"):
    """The conversation is done. `final_state` is the state it ends with, without its history.

    `counted` is false for a step that does not count against `max_steps`.
    """

    reason: str
    reason_detail: str | None = None
    final_state: Any = None
    counted: bool = True


class Failed(LoopEvent, frozen=True, kw_only=True, tag="error"):
    """The step has failed; or, if it was `refused`, what was asked for is not possible now, and all is as it was.

    `call_id` is the call that a person had approved and that failed. `model` or `tool` is what was used before the
    failure, at this `usage` and `cost`.
    """

    error: ErrorInfo
    refused: bool = False
    call_id: str | None = None
    model: str | None = None
    tool: str | None = None
    usage: dict[str, Any] | None = None
    cost: float | None = None


class Interrupted(LoopEvent, frozen=True, kw_only=True, tag="interrupted"):
    """The conversation is interrupted, and goes on only with `resume`, if it `can_resume` at all."""

    reason: str
    can_resume: bool = True


class Resumed(LoopEvent, frozen=True, kw_only=True, tag="resumed"):
    """The conversation goes on where it was interrupted, after the step `resumed_from`."""

    reason: str
    resumed_from: int = 0


class CompressionComplete(LoopEvent, frozen=True, kw_only=True, tag="compression_complete"):
    """The `summary` stands in the place of the messages that were `replaced`, which came after the first `kept`.

    `model`, `usage` and `cost` are those of the model that wrote it, if one did.
    """

    summary: dict[str, Any] | None
    replaced: tuple[dict[str, Any], ...] = ()
    kept: int = 0
    model: str | None = None
    usage: dict[str, Any] | None = None
    cost: float | None = None


class StepCompleted(LoopEvent, frozen=True, kw_only=True, tag="step_completed"):
    """The step is over, and nothing else happened in it."""


class Custom(LoopEvent, frozen=True, kw_only=True, tag="custom"):
    """An executor of somebody's own tells something: its `data` are also attributes of the event."""

    name: str
    data: dict[str, Any] = {}  # noqa: RUF012 - each gets its own

    @property
    def type(self) -> str:
        return self.name

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError(name) from None


AgentEvent: TypeAlias = (
    LLMStart
    | LLMStream
    | LLMResult
    | MessageAdded
    | ToolPending
    | ToolApproved
    | ToolEdited
    | ToolRejected
    | ToolStarted
    | ToolResult
    | HumanApproveRequired
    | HumanPromptRequired
    | HumanSelectRequired
    | HumanResponded
    | Done
    | Failed
    | Interrupted
    | Resumed
    | Warning
    | CompressionComplete
    | StepCompleted
    | Custom
)
