"""The events of the agent loop: those about tool calls, which sessions record too, and those of a conversation."""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

import msgspec

from reenact.domain.loop.calls import ToolCall
from reenact.domain.loop.faults import ErrorInfo
from reenact.domain.loop.values import Fields
from reenact.domain.plain import Encodable, Json, JsonObject, is_sequence
from reenact.domain.structs import Frozen, FrozenByName


class LoopEvent(FrozenByName, gc=True, kw_only=True, tag_field="type", omit_defaults=True):
    """An event of the loop in its `step`, which counts from 1 (0: outside of any step).

    `changes` are further changes of the `AgentState`, by field, made by a custom executor.
    """

    step: int = 0
    timestamp: datetime | None = None
    changes: JsonObject | None = None

    @property
    def type(self) -> str:
        """The event's name."""
        return str(self.__struct_config__.tag)


class AskedCall(Frozen, omit_defaults=True):
    """A call that a person is asked about. `digest` is that of the exact call and of the revision of the policies.

    `original` is the call as it was written, if that is to be kept.
    """

    id: str
    name: str
    arguments: JsonObject
    digest: str = ""
    reason: str = ""
    original: JsonObject | None = None

    @property
    def tool_call(self) -> ToolCall:
        """The call as it was written."""
        return ToolCall(self.original, id=self.id, name=self.name, arguments=self.arguments)


class HumanApproveRequired(LoopEvent, kw_only=True, tag="human_approve_required"):
    """These calls run only after a person has approved each of them; `revision` is that of the policies."""

    session_id: str
    calls: tuple[AskedCall, ...]
    revision: str = ""

    @property
    def pending_tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls as they were written."""
        return tuple(call.tool_call for call in self.calls)


class ToolPending(LoopEvent, kw_only=True, tag="tool_pending"):
    """These calls wait for a person."""

    ids: tuple[str, ...]


class Option(Fields):
    """An option to select: the label that people read, and the value of the answer."""

    label: str
    value: Json


class Options(tuple[Option, ...]):
    """The options of a selection; it also equals a list of the same options."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return super().__eq__(tuple(other) if is_sequence(other) else other)

    def __hash__(self) -> int:
        return super().__hash__()


class HumanPromptRequired(LoopEvent, kw_only=True, tag="human_prompt_required"):
    """A person is asked for text; `id` is the call that asked, if one did."""

    session_id: str
    prompt: str
    metadata: JsonObject | None = None
    id: str | None = None


class HumanSelectRequired(LoopEvent, kw_only=True, tag="human_select_required"):
    """A person is asked to select one of the options, or any number of them if `multi`."""

    session_id: str
    prompt: str
    options: tuple[Option, ...]
    multi: bool = False
    id: str | None = None
    metadata: JsonObject | None = None

    def __post_init__(self) -> None:
        """Convert the options so that they equal a list."""
        msgspec.structs.force_setattr(self, "options", Options(self.options))


class ToolApproved(LoopEvent, kw_only=True, tag="tool_approved"):
    """A person approved the call with this digest."""

    id: str
    digest: str
    by: str | None = None


class ToolEdited(LoopEvent, kw_only=True, tag="tool_edited"):
    """A person changed the arguments of the call."""

    id: str
    original: JsonObject
    edited: JsonObject
    by: str | None = None


class ToolRejected(LoopEvent, kw_only=True, tag="tool_rejected"):
    """A person rejected the call."""

    id: str
    reason: str
    by: str | None = None


class HumanResponded(LoopEvent, kw_only=True, tag="human_responded"):
    """A person answered a question."""

    value: Json
    id: str | None = None
    by: str | None = None


class ToolStarted(LoopEvent, kw_only=True, tag="tool_started"):
    """The call is about to run; this is recorded before it does. `attempt` counts from 1."""

    id: str
    name: str
    attempt: int = 1


class ToolResult(LoopEvent, kw_only=True, tag="tool_result"):
    """The result of a call, from the tool or from whatever prevented the call from running.

    `result` is text, a sequence of content blocks as mappings, or any other JSON value; `cost` is None if unknown, or
    if nothing ran (`ran` is then false). `batch` is true if the call is one of several that were made together,
    `denied` if the policies denied it.
    """

    id: str
    name: str = ""
    result: Json = None
    is_error: bool = False
    cost: float | None = None
    ran: bool = True
    batch: bool = False
    denied: bool = False


class Warning(LoopEvent, kw_only=True, tag="warning"):  # noqa: A001 - the word of the specification
    """A limit that only warns is exceeded."""

    reason: str
    message: str


class LLMStart(LoopEvent, kw_only=True, tag="llm_start"):
    """The model is called with this payload."""

    payload: Json = None


class LLMStream(LoopEvent, kw_only=True, tag="llm_stream"):
    """The model has yielded this chunk."""

    chunk: JsonObject


class LLMResult(LoopEvent, kw_only=True, tag="llm_result"):
    """The model has answered: `result` holds `content` and `tool_calls`.

    `usage` are the reported token counts, None if there are none; `cost` is None if they or the price are unknown. The
    answer is a message of the conversation if it was `appended`.
    """

    result: JsonObject
    model: str = ""
    usage: JsonObject | None = None
    cost: float | None = None
    appended: bool = False


class MessageAdded(LoopEvent, kw_only=True, tag="message_added"):
    """The caller has added a message to the conversation."""

    message: JsonObject


class Done(LoopEvent, kw_only=True, tag="done"):
    """The conversation has ended. `final_state` is its last state, without its history.

    `counted` is false for a step that does not count against `max_steps`.
    """

    reason: str
    reason_detail: str | None = None
    final_state: Encodable = None
    counted: bool = True


class Failed(LoopEvent, kw_only=True, tag="error"):
    """The step has failed; or, if `refused`, the request is not possible now, and the state is unchanged.

    `call_id` is the call that a person had approved and that failed. `model` or `tool` is what was used before the
    failure, with this `usage` and `cost`.
    """

    error: ErrorInfo
    refused: bool = False
    call_id: str | None = None
    model: str | None = None
    tool: str | None = None
    usage: JsonObject | None = None
    cost: float | None = None


class Interrupted(LoopEvent, kw_only=True, tag="interrupted"):
    """The conversation is interrupted, and continues only with `resume`, if it `can_resume` at all."""

    reason: str
    can_resume: bool = True


class Resumed(LoopEvent, kw_only=True, tag="resumed"):
    """The conversation continues where it was interrupted, after the step `resumed_from`."""

    reason: str
    resumed_from: int = 0


class CompressionComplete(LoopEvent, kw_only=True, tag="compression_complete"):
    """The `summary` replaces the messages in `replaced`, which came after the first `kept`.

    `model`, `usage` and `cost` are those of the model that wrote the summary, if one did.
    """

    summary: JsonObject | None
    replaced: tuple[JsonObject, ...] = ()
    kept: int = 0
    model: str | None = None
    usage: JsonObject | None = None
    cost: float | None = None


class StepCompleted(LoopEvent, kw_only=True, tag="step_completed"):
    """The step has ended without any other event."""


class Custom(LoopEvent, kw_only=True, tag="custom"):
    """An event of a custom executor: its `data` are also attributes of the event."""

    name: str
    data: JsonObject = {}

    @property
    def type(self) -> str:
        return self.name

    def __getattr__(self, name: str) -> object:
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
