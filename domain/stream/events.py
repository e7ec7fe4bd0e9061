"""The events for subscribers: the envelope, and the closed catalogue of the data in it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, TypeAlias

import msgspec

from reenact.domain.children import Budget, ChildOutcome, Parent
from reenact.domain.errors import UnknownEventTypeError
from reenact.domain.guards import GuardPoint, GuardVerdict
from reenact.domain.loop.events import AskedCall, Option
from reenact.domain.messages import Message, StopDetails, Usage
from reenact.domain.plain import Json, JsonObject
from reenact.domain.structs import FrozenByName
from reenact.domain.tools import History

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    D_co = TypeVar("D_co", covariant=True, default="EventData")
    N_co = TypeVar("N_co", covariant=True, bound=str, default=str)
else:  # Before Python 3.13, type variables have no defaults.
    from typing import TypeVar

    D_co = TypeVar("D_co", covariant=True)
    N_co = TypeVar("N_co", covariant=True)

Source: TypeAlias = Literal["environment", "agent", "session", "container", "command"]
Category: TypeAlias = Literal["stream", "state", "message", "turn", "lifecycle", "command", "error"]
Intent: TypeAlias = Literal["request", "result", "notification"]
AgentState: TypeAlias = Literal[
    "idle", "thinking", "responding", "tool_executing", "waiting_for_human_input", "error", "stopped"
]
Outcome: TypeAlias = Literal["completed", "interrupted", "failed", "waiting"]


class EventData(FrozenByName):
    """The `data` of an event: its fields are attributes, and can also be read as items of a mapping.

    The class variables are copied to the envelope of each event.
    """

    event_type: ClassVar[str]
    source: ClassVar[Source]
    category: ClassVar[Category]
    intent: ClassVar[Intent] = "notification"

    def __getitem__(self, field: str) -> object:
        """Return the field, or raise `KeyError`."""
        if field in self.__struct_fields__:
            return getattr(self, field)
        raise KeyError(field)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the fields."""
        return iter(self.__struct_fields__)

    def keys(self) -> tuple[str, ...]:
        """Return the names of the fields, so that `dict(data)` works."""
        return self.__struct_fields__

    def get(self, field: str, default: object = None) -> object:
        """Return the field, or the default when there is none of that name."""
        return getattr(self, field) if field in self.__struct_fields__ else default


class StreamData(EventData):
    """An event of the environment during a turn."""

    source: ClassVar[Source] = "environment"
    category: ClassVar[Category] = "stream"


class MessageStart(StreamData):
    """The model begins a message."""

    event_type = "message_start"
    message_id: str | None = None
    model: str | None = None


class TextDelta(StreamData):
    """More text of the answer."""

    event_type = "text_delta"
    text: str


class ThinkingStart(StreamData):
    """The model begins to think."""

    event_type = "thinking_start"


class ThinkingDelta(StreamData):
    """More text of the model's thinking."""

    event_type = "thinking_delta"
    text: str


class ThinkingEnd(StreamData):
    """The thinking has ended; with the signature, if there is one, it can be sent back."""

    event_type = "thinking_end"
    signature: str | None = None


class ToolCall(StreamData, kw_only=True):
    """The model requests a tool call."""

    event_type = "tool_call"
    id: str | None = None
    name: str
    input: Json = None


class InputJsonDelta(StreamData, kw_only=True):
    """More of a call's input, as a piece of JSON text."""

    event_type = "input_json_delta"
    id: str | None = None
    partial_json: str


class ToolResult(StreamData):
    """A tool has returned a result."""

    event_type = "tool_result"
    id: str | None = None
    name: str | None = None
    result: Json = None
    is_error: bool = False


class MessageDelta(StreamData):
    """The usage so far; it replaces the one reported before."""

    event_type = "message_delta"
    usage: Usage


class MessageStop(StreamData):
    """The message is complete; `stop_sequence` is the one that ended it, `stop_details` says why the model refused."""

    event_type = "message_stop"
    stop_reason: str = "end_turn"
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None


class StreamError(StreamData, kw_only=True):
    """The environment failed; `type` is the failure's, as the API names it, such as `overloaded_error`."""

    event_type = "error"
    category = "error"
    type: str = "api_error"
    message: str
    retryable: bool = False


class ContextCompressed(StreamData):
    """The model gets this summary instead of all but the last `kept` messages; the log keeps them all."""

    event_type = "context_compressed"
    summary: str
    kept: int
    usage: Usage = {}
    model: str | None = None


class Interrupted(StreamData):
    """The turn was interrupted."""

    event_type = "interrupted"
    source = "agent"
    reason: str


StreamEvent: TypeAlias = (
    MessageStart
    | TextDelta
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ToolCall
    | InputJsonDelta
    | ToolResult
    | MessageDelta
    | MessageStop
    | StreamError
    | ContextCompressed
    | Interrupted
)


class AgentStateChanged(EventData):
    """The agent's state has changed; never repeated for the same state."""

    event_type = "agent_state_changed"
    source = "agent"
    category = "state"
    previous: AgentState
    current: AgentState


class MessageData(EventData):
    """An event with a complete message."""

    source: ClassVar[Source] = "agent"
    category: ClassVar[Category] = "message"
    message: Message


class UserMessage(MessageData):
    """A message was accepted and is durable; its turn begins now or after the turns of earlier messages."""

    event_type = "user_message"
    source = "session"


class AssistantMessage(MessageData):
    """The model's answer, complete or partial."""

    event_type = "assistant_message"


class ToolResultMessage(MessageData):
    """The results that go back to the model."""

    event_type = "tool_result_message"


class ErrorMessage(EventData, kw_only=True):
    """Why there is no answer, or only a partial one."""

    event_type = "error_message"
    source = "agent"
    category = "message"
    type: str = "api_error"
    message: str
    retryable: bool = False


class TurnStarted(EventData):
    """The agent begins the turn of a message."""

    event_type = "turn_started"
    source = "agent"
    category = "turn"
    turn_id: str
    message_id: str


class TurnCompleted(EventData):
    """The turn has ended; `duration` is in seconds.

    `stop_sequence` and `stop_details` are those of its last answer, also of one without content.
    """

    event_type = "turn_completed"
    source = "agent"
    category = "turn"
    turn_id: str
    outcome: Outcome
    stop_reason: str | None = None
    usage: Usage = {}
    duration: float = 0.0
    cost: float | None = None
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None


class LoopData(EventData):
    """An event about the agent loop: steps, calls, guards and outputs."""

    source = "agent"
    category = "turn"


class StepStarted(LoopData):
    """The model is asked again, with the results of its calls; `step` counts within the turn, from 1."""

    event_type = "step_started"
    intent = "request"
    turn_id: str
    step: int


class OutputAccepted(LoopData):
    """The answer has the required form: `output` is its value; None if it was redacted."""

    event_type = "output_accepted"
    turn_id: str
    message_id: str
    output: Json


class OutputRejected(LoopData):
    """The answer does not have the required form: the message and everything published of it is superseded.

    It is the turn's `attempt`-th, from 1. `errors` says where it does not fit, `again` whether the model is asked
    again.
    """

    event_type = "output_rejected"
    turn_id: str
    message_id: str
    attempt: int
    errors: tuple[str, ...]
    again: bool


class ToolStarted(LoopData):
    """A call is about to run; `attempt` is above 1 if it was running when the process ended."""

    event_type = "tool_started"
    intent = "request"
    id: str
    name: str
    input: JsonObject
    attempt: int = 1


class HumanApproveRequired(LoopData):
    """A person has to approve or reject each of these calls before it runs."""

    event_type = "human_approve_required"
    intent = "request"
    calls: tuple[AskedCall, ...]


class HumanPromptRequired(LoopData, kw_only=True):
    """A person is asked for text; `id` is that of the call that asks."""

    event_type = "human_prompt_required"
    intent = "request"
    id: str | None = None
    prompt: str
    metadata: JsonObject | None = None


class HumanSelectRequired(LoopData, kw_only=True):
    """A person is asked to select one of the options, or any number of them if `multi`."""

    event_type = "human_select_required"
    intent = "request"
    id: str | None = None
    prompt: str
    options: tuple[Option, ...]
    multi: bool = False


class ToolPending(LoopData):
    """These calls wait for a person."""

    event_type = "tool_pending"
    ids: tuple[str, ...]


class ToolApproved(LoopData):
    """A person approved the call; `by` is that person, if known."""

    event_type = "tool_approved"
    id: str
    digest: str
    by: str | None = None


class ToolEdited(LoopData):
    """A person changed the arguments of the call."""

    event_type = "tool_edited"
    id: str
    original: JsonObject
    edited: JsonObject
    by: str | None = None


class ToolRejected(LoopData):
    """A person rejected the call."""

    event_type = "tool_rejected"
    id: str
    reason: str
    by: str | None = None


class HumanResponded(LoopData, kw_only=True):
    """A person answered the question."""

    event_type = "human_responded"
    id: str | None = None
    value: Json
    by: str | None = None


class GuardChecked(LoopData):
    """A guard let a message, a call or an answer of the model pass, or refused it.

    A refused answer is not part of the conversation, whatever was published of it. `turn_id` is the turn that the
    message begins, or to which the call or the answer belongs; `message_id` is that of the message or the answer.
    """

    event_type = "guard_checked"
    point: GuardPoint
    name: str
    verdict: GuardVerdict
    reason: str = ""
    turn_id: str | None = None
    message_id: str | None = None
    call_id: str | None = None


class Warned(LoopData):
    """A limit that only warns is exceeded."""

    event_type = "warning"
    reason: str
    message: str


class ChildStarted(LoopData):
    """The call has started a child session of this image, with a reserved budget; `depth` is its depth in the family.

    A `detached` call is answered at once: the child's answer comes as a message.
    """

    event_type = "child_started"
    call_id: str
    child_id: str
    image_id: str
    image_revision: int
    depth: int
    budget: Budget
    detached: bool


class ChildEnded(LoopData):
    """The child's turn has ended; a child that waits for a person continues later.

    `steps`, `usage` and `cost` are what the child and its own children have used since the last report. `version` and
    `cursor` are those of the child's last event, and `digest` is that of its row.
    """

    event_type = "child_ended"
    call_id: str
    child_id: str
    outcome: ChildOutcome
    stop_reason: str
    steps: int
    usage: Usage
    cost: float | None
    version: int
    cursor: int
    digest: str


class LifecycleData(EventData):
    """The start or end of something."""

    category = "lifecycle"


class ContainerCreated(LifecycleData):
    """A container was created."""

    event_type = "container_created"
    source = "container"
    container_id: str
    name: str | None = None


class ImageRegistered(LifecycleData):
    """An image was registered, or got a new revision."""

    event_type = "image_registered"
    source = "container"
    image_id: str
    revision: int


class Origin(FrozenByName):
    """The history with which a branch begins: that of the other session, up to its event of this version."""

    session_id: str
    version: int


class SessionCreated(LifecycleData):
    """A session was created.

    `origin` is the history it begins with, if it is a branch of another session; `parent` is set if it is a child.
    """

    event_type = "session_created"
    source = "session"
    session_id: str
    container_id: str
    image_id: str
    origin: Origin | None = None
    parent: Parent | None = None


class ImageChanged(LifecycleData):
    """The session was handed over from the image `previous` to another; `history` says what its agent sees of it."""

    event_type = "image_changed"
    source = "session"
    image_id: str
    image_revision: int
    previous: str
    history: History


class MessageScheduled(LifecycleData):
    """A message was scheduled: first at the time `at`, and then every `every` seconds until the time `until`."""

    event_type = "message_scheduled"
    source = "session"
    schedule_id: str
    at: datetime
    every: float | None = None
    until: datetime | None = None


class ScheduleCancelled(LifecycleData):
    """A schedule was cancelled."""

    event_type = "schedule_cancelled"
    source = "session"
    schedule_id: str


class ScheduleFired(LifecycleData):
    """The message scheduled for the time `at` is sent now; it is `late` if that time was missed.

    `then` is when the next one is due, None if that was the last.
    """

    event_type = "schedule_fired"
    source = "session"
    schedule_id: str
    turn_id: str
    at: datetime
    late: bool
    then: datetime | None = None


class SessionDeleted(LifecycleData, omit_defaults=True):
    """A session was deleted; `forgotten_by` and `why` are set if it was also forgotten."""

    event_type = "session_deleted"
    source = "session"
    session_id: str
    forgotten_by: str | None = None
    why: str | None = None


class DeltasCompacted(EventData):
    """Replaces the deltas of a finished turn that were dropped, under the cursor of the last of them."""

    event_type = "deltas_compacted"
    source = "session"
    category = "stream"
    first_cursor: int
    last_cursor: int


class AgentStarted(LifecycleData):
    """A session has an agent that runs it."""

    event_type = "agent_started"
    source = "agent"
    agent_id: str


class AgentStopped(LifecycleData):
    """The agent of a session has stopped; `reason` is `destroyed`, `deleted`, `shutdown`, `crash` or `finished`.

    `finished` is that of a child session, which has nothing more to do.
    """

    event_type = "agent_stopped"
    source = "agent"
    agent_id: str
    reason: str


class Context(FrozenByName, omit_defaults=True):
    """What an event belongs to, and what caused it.

    Within a turn `correlation_id` is the turn's id and `causation_id` the id of the message that it answers; for events
    caused by a request of the command protocol, `correlation_id` is the request's id.
    """

    container_id: str | None = None
    image_id: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    turn_id: str | None = None
    correlation_id: str | None = None
    causation_id: str | None = None


class Envelope(msgspec.Struct, Generic[D_co, N_co], frozen=True, kw_only=True, gc=False):
    """An event as subscribers get it. `cursor` counts the events of its session from 1, without gaps.

    For type checkers, `Envelope[TextDelta]` is one with this data, and `RuntimeEvent` is one of any type.
    """

    id: str
    type: N_co
    timestamp: datetime
    source: Source
    category: Category
    intent: Intent
    context: Context
    cursor: int | None = None
    data: D_co


NOTIFICATIONS: tuple[type[EventData], ...] = tuple(
    kind
    for kind in [*vars().values()]
    if isinstance(kind, type) and issubclass(kind, EventData) and "event_type" in vars(kind)
)
"""The kinds of event that subscribers get, in the order of this module."""
STREAM: dict[str, type[StreamData]] = {kind.event_type: kind for kind in NOTIFICATIONS if issubclass(kind, StreamData)}


def stream_event(type: str, data: object) -> StreamData:  # noqa: A002 - the word users know it by
    """Return the stream event of that type, or raise `UnknownEventTypeError` or `msgspec.ValidationError`."""
    kind = STREAM.get(type)
    if kind is None:
        raise UnknownEventTypeError(type, STREAM)
    return msgspec.convert(data or {}, kind)
