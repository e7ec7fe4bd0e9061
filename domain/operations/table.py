"""The table of operations: for each method of the facades a request, its result, its route, and its response."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from types import NoneType
from typing import ClassVar, Generic, Literal, NamedTuple, TypeAlias, TypeVar, get_args

import msgspec

from reenact.domain.container import ContainerInfo
from reenact.domain.errors import ReenactError, UnknownCommandError, details_of
from reenact.domain.image import ImageInfo
from reenact.domain.loop.ledger import CostLimit
from reenact.domain.loop.rules import MAX_REPEATS, MAX_STEPS
from reenact.domain.messages import Message
from reenact.domain.output import OutputSpec
from reenact.domain.plain import Encodable, Json, JsonObject
from reenact.domain.session.agent import AgentInfo
from reenact.domain.session.people import PendingCall
from reenact.domain.session.schedules import Schedule
from reenact.domain.session.state import SessionInfo
from reenact.domain.session.told import ToolCallInfo, TurnInfo, TurnLocation, UsageInfo
from reenact.domain.stream import events
from reenact.domain.stream.events import NOTIFICATIONS, Context, Envelope, EventData
from reenact.domain.structs import FrozenByName
from reenact.domain.tools import History, MCPServer

R_co = TypeVar("R_co", covariant=True)
_IN_PATH = re.compile(r"{(\w+)}")


class CommandError(FrozenByName, omit_defaults=True):
    """Why a request was refused; `code` is that of the error that the facade raises.

    `details` are the values that the error carries, such as the `id` of the missing entity.
    """

    code: str
    message: str
    details: dict[str, Encodable] = {}


def refusal_of(error: ReenactError) -> CommandError:
    """Return the error as part of a response; `from_wire` turns it into an error again."""
    return CommandError(code=error.code, message=str(error), details=details_of(error))


class Route(NamedTuple):
    """The route of a request in the JSON API: some fields are in the path, the others in the query or the body."""

    method: str
    path: str
    status: int = 200
    body: str | None = None
    """The field that is the whole body; None if the body is an object of the fields."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields in the path."""
        return tuple(_IN_PATH.findall(self.path))


REQUESTS: dict[str, type[Request[object]]] = {}
"""The table: the class of each request by its type."""


class Request(EventData, Generic[R_co], kw_only=True):
    """A request: the parameters of the facade's method, by their names. `R_co` is the method's return type."""

    source = "command"
    category = "command"
    intent = "request"
    route: ClassVar[Route]
    result: ClassVar[object]
    """The type `R_co`."""
    changes: ClassVar[bool]
    """Whether the request changes something."""
    absent: ClassVar[object] = msgspec.UNSET
    """The method's result if nothing has this id; unset if that is an error."""
    request_id: str | None = None

    def __init_subclass__(cls) -> None:
        """Add the request to the table, and take its result type from the base class."""
        REQUESTS[cls.event_type] = cls
        (cls.result,) = get_args(vars(cls)["__orig_bases__"][0])
        cls.changes = cls.route.method != "GET"
        if not cls.changes and NoneType in get_args(cls.result):
            cls.absent = None


class Response(EventData):
    """The response to a request: the return value of the facade's method, as plain values, or an error."""

    source = "command"
    category = "command"
    intent = "result"
    request_id: str
    result: Json = None
    error: CommandError | None = None


class ContainerCreateRequest(Request[ContainerInfo], kw_only=True):
    """Create a container."""

    event_type = "container_create_request"
    route = Route("POST", "/v1/containers", 201)
    name: str | None = None
    container_id: str | None = None


class ContainerGetRequest(Request[ContainerInfo | None], kw_only=True):
    """Return a container, or nothing."""

    event_type = "container_get_request"
    route = Route("GET", "/v1/containers/{container_id}")
    container_id: str


class ContainerListRequest(Request[list[ContainerInfo]], kw_only=True):
    """Return all containers."""

    event_type = "container_list_request"
    route = Route("GET", "/v1/containers")


class ImageContent(FrozenByName, forbid_unknown_fields=True):
    """An image as it is sent.

    Functions are not sent: `tools` are names of those that the runtime was opened with, specs of others as mappings,
    mappings with an `image_id` for agents that are called as tools, and with a `type` for tools that the API runs.
    `policies` and `guards` are in their plain form.
    """

    id: str | None = None
    name: str | None = None
    model: str | None = None
    system_prompt: str | None = None
    max_tokens: int | None = None
    tools: tuple[Json, ...] = ()
    mcp_servers: tuple[MCPServer, ...] = ()
    policies: Json = None
    max_steps: int | None = MAX_STEPS
    max_repeats: int | None = MAX_REPEATS
    cost_limit: CostLimit | float | None = None
    compress_at: int | None = None
    output: OutputSpec | None = None
    guards: Json = None


class ImageRegisterRequest(Request[ImageInfo], kw_only=True):
    """Register an image."""

    event_type = "image_register_request"
    route = Route("POST", "/v1/images", body="image")
    image: ImageContent


class ImageGetRequest(Request[ImageInfo | None], kw_only=True):
    """Return an image, or nothing."""

    event_type = "image_get_request"
    route = Route("GET", "/v1/images/{image_id}")
    image_id: str


class ImageListRequest(Request[list[ImageInfo]], kw_only=True):
    """Return all images."""

    event_type = "image_list_request"
    route = Route("GET", "/v1/images")


class SessionCreateRequest(Request[SessionInfo], kw_only=True):
    """Create a session, on the newest revision of the image unless another is given."""

    event_type = "session_create_request"
    route = Route("POST", "/v1/containers/{container_id}/sessions", 201)
    container_id: str
    image_id: str
    session_id: str | None = None
    image_revision: int | None = None


class SessionBranchRequest(Request[SessionInfo], kw_only=True):
    """Create a session that continues the history of another one, up to a position of the log.

    `edit` is text, or content blocks as in the Messages API, that replaces the last message accepted up to there.
    `image_id` excludes `model` and `system_prompt`.
    """

    event_type = "session_branch_request"
    route = Route("POST", "/v1/sessions/{session_id}/branches", 201)
    session_id: str
    at: int | None = None
    edit: str | tuple[JsonObject, ...] | None = None
    model: str | None = None
    system_prompt: str | None = None
    image_id: str | None = None
    new_session_id: str | None = None


class SessionSwitchRequest(Request[bool], kw_only=True):
    """Hand a session over to another image, at the end of the turn under way if there is one."""

    event_type = "session_switch_request"
    route = Route("POST", "/v1/sessions/{session_id}/switch")
    session_id: str
    image: str
    history: History = "all"


class SessionGetRequest(Request[SessionInfo | None], kw_only=True):
    """Return a session, or nothing."""

    event_type = "session_get_request"
    route = Route("GET", "/v1/sessions/{session_id}")
    session_id: str


class SessionListRequest(Request[list[SessionInfo]], kw_only=True):
    """Return the sessions of a container."""

    event_type = "session_list_request"
    route = Route("GET", "/v1/containers/{container_id}/sessions")
    container_id: str


class SessionPageRequest(Request[list[SessionInfo]], kw_only=True):
    """Return sessions, newest first, beginning after the session `after`: at most `limit`, which may be up to 1000.

    They are those of one container, the children of the session `parent`, or all; with `waiting`, those with a call
    that waits for a person, or those without one.
    """

    event_type = "session_page_request"
    route = Route("GET", "/v1/sessions")
    container_id: str | None = None
    waiting: bool | None = None
    after: str | None = None
    limit: int = 100
    parent: str | None = None


class SessionDeleteRequest(Request[bool], kw_only=True):
    """Delete a session."""

    event_type = "session_delete_request"
    route = Route("DELETE", "/v1/sessions/{session_id}")
    absent = False
    session_id: str


class SessionForgetRequest(Request[list[SessionInfo]], kw_only=True):
    """Destroy the keys of a session, or of its whole family, so that nobody can read them any more."""

    event_type = "session_forget_request"
    route = Route("POST", "/v1/sessions/{session_id}/forget")
    session_id: str
    by: str
    why: str = ""
    family: bool = False


class SessionRunRequest(Request[str], kw_only=True):
    """Run a session."""

    event_type = "session_run_request"
    route = Route("POST", "/v1/sessions/{session_id}/run")
    session_id: str


class SessionMessagesRequest(Request[list[Message]], kw_only=True):
    """Return the messages of a session."""

    event_type = "session_messages_request"
    route = Route("GET", "/v1/sessions/{session_id}/messages")
    session_id: str


class SessionTurnsRequest(Request[list[TurnInfo]], kw_only=True):
    """Return the turns of a session."""

    event_type = "session_turns_request"
    route = Route("GET", "/v1/sessions/{session_id}/turns")
    session_id: str


class SessionToolCallsRequest(Request[list[ToolCallInfo]], kw_only=True):
    """Return the calls of tools in a session."""

    event_type = "session_tool_calls_request"
    route = Route("GET", "/v1/sessions/{session_id}/tool_calls")
    session_id: str


class SessionUsageRequest(Request[UsageInfo], kw_only=True):
    """Return what a session has used and what it cost."""

    event_type = "session_usage_request"
    route = Route("GET", "/v1/sessions/{session_id}/usage")
    session_id: str


class TurnLocateRequest(Request[TurnLocation | None], kw_only=True):
    """Return the session of a turn, and the cursor of the turn's first event, or nothing."""

    event_type = "turn_locate_request"
    route = Route("GET", "/v1/turns/{turn_id}")
    turn_id: str


class AgentGetRequest(Request[AgentInfo | None], kw_only=True):
    """Return a live agent, or nothing."""

    event_type = "agent_get_request"
    route = Route("GET", "/v1/agents/{agent_id}")
    agent_id: str


class AgentListRequest(Request[list[AgentInfo]], kw_only=True):
    """Return all live agents."""

    event_type = "agent_list_request"
    route = Route("GET", "/v1/agents")


class AgentInterruptRequest(Request[None], kw_only=True):
    """Interrupt an agent's turn."""

    event_type = "agent_interrupt_request"
    route = Route("POST", "/v1/agents/{agent_id}/interrupt")
    absent = None
    agent_id: str


class AgentDestroyRequest(Request[None], kw_only=True):
    """Destroy an agent."""

    event_type = "agent_destroy_request"
    route = Route("DELETE", "/v1/agents/{agent_id}")
    absent = None
    agent_id: str


class AgentPendingRequest(Request[list[PendingCall]], kw_only=True):
    """Return the calls that wait for a person: all, or those of one session, also by its agent, and its descendants."""

    event_type = "agent_pending_request"
    route = Route("GET", "/v1/pending")
    agent_id: str | None = None
    session_id: str | None = None


class AgentApproveRequest(Request[str | None], kw_only=True):
    """Approve a waiting call, with other arguments if some are given."""

    event_type = "agent_approve_request"
    route = Route("POST", "/v1/pending/{call_id}/approve")
    call_id: str
    session_id: str | None = None
    agent_id: str | None = None
    arguments: JsonObject | None = None
    digest: str | None = None
    by: str | None = None


class AgentRejectRequest(Request[str | None], kw_only=True):
    """Reject a waiting call; unless `resume`, this ends the turn."""

    event_type = "agent_reject_request"
    route = Route("POST", "/v1/pending/{call_id}/reject")
    call_id: str
    reason: str = ""
    resume: bool = True
    session_id: str | None = None
    agent_id: str | None = None
    by: str | None = None


class AgentRespondRequest(Request[str | None], kw_only=True):
    """Answer the question that a call asks."""

    event_type = "agent_respond_request"
    route = Route("POST", "/v1/pending/{call_id}/respond")
    call_id: str
    value: Json
    session_id: str | None = None
    agent_id: str | None = None
    by: str | None = None


class AgentScheduleRequest(Request[Schedule], kw_only=True):
    """Schedule a message for a session: once, `at` a time, or `every` number of seconds, optionally `until` a time.

    `content` is text, or content blocks as in the Messages API.
    """

    event_type = "agent_schedule_request"
    route = Route("POST", "/v1/sessions/{session_id}/schedules", 201)
    session_id: str
    content: str | tuple[JsonObject, ...]
    at: datetime | None = None
    every: float | None = None
    until: datetime | None = None


class AgentSchedulesRequest(Request[list[Schedule]], kw_only=True):
    """Return the scheduled messages of all sessions, or of one."""

    event_type = "agent_schedules_request"
    route = Route("GET", "/v1/schedules")
    session_id: str | None = None


class AgentCancelScheduleRequest(Request[bool], kw_only=True):
    """Cancel a schedule."""

    event_type = "agent_cancel_schedule_request"
    route = Route("DELETE", "/v1/schedules/{schedule_id}")
    absent = False
    schedule_id: str


class Sent(FrozenByName):
    """The session and agent that received a message, and the turn that answers it."""

    agent_id: str
    session_id: str
    turn_id: str


class MessageSendRequest(Request[Sent], kw_only=True):
    """Send a message to an agent, to a session, or to an image's default session in a container.

    Exactly one of `agent_id`, `session_id` and `image_id` is given; `container_id` goes with `image_id`. `content` is
    text, or content blocks as in the Messages API. `output` is the required form of the answer, if it differs from the
    image's.
    """

    event_type = "message_send_request"
    route = Route("POST", "/v1/messages")
    content: str | tuple[JsonObject, ...]
    agent_id: str | None = None
    session_id: str | None = None
    image_id: str | None = None
    container_id: str | None = None
    output: OutputSpec | None = None


def _response(request: type[Request[object]]) -> type[Response]:
    # A class statement in a function, so that a request and its response cannot drift apart.
    class Answer(Response):
        event_type = request.event_type.removesuffix("_request") + "_response"

    Answer.__name__ = Answer.__qualname__ = request.__name__.removesuffix("Request") + "Response"
    Answer.__doc__ = f"The result of `{request.event_type}`."
    return Answer


RESPONSES: dict[str, type[Response]] = {name: _response(kind) for name, kind in REQUESTS.items()}
"""The response of each request, by the request's type."""

NotificationType: TypeAlias = Literal[
    "message_start",
    "text_delta",
    "thinking_start",
    "thinking_delta",
    "thinking_end",
    "tool_call",
    "input_json_delta",
    "tool_result",
    "message_delta",
    "message_stop",
    "error",
    "context_compressed",
    "interrupted",
    "agent_state_changed",
    "user_message",
    "assistant_message",
    "tool_result_message",
    "error_message",
    "turn_started",
    "turn_completed",
    "step_started",
    "output_accepted",
    "output_rejected",
    "tool_started",
    "human_approve_required",
    "human_prompt_required",
    "human_select_required",
    "tool_pending",
    "tool_approved",
    "tool_edited",
    "tool_rejected",
    "human_responded",
    "guard_checked",
    "warning",
    "child_started",
    "child_ended",
    "container_created",
    "image_registered",
    "session_created",
    "image_changed",
    "message_scheduled",
    "schedule_cancelled",
    "schedule_fired",
    "session_deleted",
    "deltas_compacted",
    "agent_started",
    "agent_stopped",
]
RequestType: TypeAlias = Literal[
    "container_create_request",
    "container_get_request",
    "container_list_request",
    "image_register_request",
    "image_get_request",
    "image_list_request",
    "session_create_request",
    "session_branch_request",
    "session_switch_request",
    "session_get_request",
    "session_list_request",
    "session_page_request",
    "session_delete_request",
    "session_forget_request",
    "session_run_request",
    "session_messages_request",
    "session_turns_request",
    "session_tool_calls_request",
    "session_usage_request",
    "turn_locate_request",
    "agent_get_request",
    "agent_list_request",
    "agent_interrupt_request",
    "agent_destroy_request",
    "agent_pending_request",
    "agent_approve_request",
    "agent_reject_request",
    "agent_respond_request",
    "agent_schedule_request",
    "agent_schedules_request",
    "agent_cancel_schedule_request",
    "message_send_request",
]
ResponseType: TypeAlias = Literal[
    "container_create_response",
    "container_get_response",
    "container_list_response",
    "image_register_response",
    "image_get_response",
    "image_list_response",
    "session_create_response",
    "session_branch_response",
    "session_switch_response",
    "session_get_response",
    "session_list_response",
    "session_page_response",
    "session_delete_response",
    "session_forget_response",
    "session_run_response",
    "session_messages_response",
    "session_turns_response",
    "session_tool_calls_response",
    "session_usage_response",
    "turn_locate_response",
    "agent_get_response",
    "agent_list_response",
    "agent_interrupt_response",
    "agent_destroy_response",
    "agent_pending_response",
    "agent_approve_response",
    "agent_reject_response",
    "agent_respond_response",
    "agent_schedule_response",
    "agent_schedules_response",
    "agent_cancel_schedule_response",
    "message_send_response",
]
EventType: TypeAlias = NotificationType | RequestType | ResponseType
RuntimeEvent: TypeAlias = (
    Envelope[events.MessageStart, Literal["message_start"]]
    | Envelope[events.TextDelta, Literal["text_delta"]]
    | Envelope[events.ThinkingStart, Literal["thinking_start"]]
    | Envelope[events.ThinkingDelta, Literal["thinking_delta"]]
    | Envelope[events.ThinkingEnd, Literal["thinking_end"]]
    | Envelope[events.ToolCall, Literal["tool_call"]]
    | Envelope[events.InputJsonDelta, Literal["input_json_delta"]]
    | Envelope[events.ToolResult, Literal["tool_result"]]
    | Envelope[events.MessageDelta, Literal["message_delta"]]
    | Envelope[events.MessageStop, Literal["message_stop"]]
    | Envelope[events.StreamError, Literal["error"]]
    | Envelope[events.ContextCompressed, Literal["context_compressed"]]
    | Envelope[events.Interrupted, Literal["interrupted"]]
    | Envelope[events.AgentStateChanged, Literal["agent_state_changed"]]
    | Envelope[events.UserMessage, Literal["user_message"]]
    | Envelope[events.AssistantMessage, Literal["assistant_message"]]
    | Envelope[events.ToolResultMessage, Literal["tool_result_message"]]
    | Envelope[events.ErrorMessage, Literal["error_message"]]
    | Envelope[events.TurnStarted, Literal["turn_started"]]
    | Envelope[events.TurnCompleted, Literal["turn_completed"]]
    | Envelope[events.StepStarted, Literal["step_started"]]
    | Envelope[events.OutputAccepted, Literal["output_accepted"]]
    | Envelope[events.OutputRejected, Literal["output_rejected"]]
    | Envelope[events.ToolStarted, Literal["tool_started"]]
    | Envelope[events.HumanApproveRequired, Literal["human_approve_required"]]
    | Envelope[events.HumanPromptRequired, Literal["human_prompt_required"]]
    | Envelope[events.HumanSelectRequired, Literal["human_select_required"]]
    | Envelope[events.ToolPending, Literal["tool_pending"]]
    | Envelope[events.ToolApproved, Literal["tool_approved"]]
    | Envelope[events.ToolEdited, Literal["tool_edited"]]
    | Envelope[events.ToolRejected, Literal["tool_rejected"]]
    | Envelope[events.HumanResponded, Literal["human_responded"]]
    | Envelope[events.GuardChecked, Literal["guard_checked"]]
    | Envelope[events.Warned, Literal["warning"]]
    | Envelope[events.ChildStarted, Literal["child_started"]]
    | Envelope[events.ChildEnded, Literal["child_ended"]]
    | Envelope[events.ContainerCreated, Literal["container_created"]]
    | Envelope[events.ImageRegistered, Literal["image_registered"]]
    | Envelope[events.SessionCreated, Literal["session_created"]]
    | Envelope[events.ImageChanged, Literal["image_changed"]]
    | Envelope[events.MessageScheduled, Literal["message_scheduled"]]
    | Envelope[events.ScheduleCancelled, Literal["schedule_cancelled"]]
    | Envelope[events.ScheduleFired, Literal["schedule_fired"]]
    | Envelope[events.SessionDeleted, Literal["session_deleted"]]
    | Envelope[events.DeltasCompacted, Literal["deltas_compacted"]]
    | Envelope[events.AgentStarted, Literal["agent_started"]]
    | Envelope[events.AgentStopped, Literal["agent_stopped"]]
    | Envelope[Request[object], RequestType]
    | Envelope[Response, ResponseType]
)
"""An event of any type: a comparison of its `type` tells a type checker the type of its `data`."""

CATALOGUE: dict[str, type[EventData]] = {
    kind.event_type: kind for kind in (*NOTIFICATIONS, *REQUESTS.values(), *RESPONSES.values())
}
"""Every type of event, and the shape of its data."""


def response_to(request_type: str) -> type[Response]:
    """Return the response type of that request, or raise `UnknownCommandError`."""
    kind = RESPONSES.get(request_type)
    if kind is None:
        raise UnknownCommandError(request_type, RESPONSES)
    return kind


def json_schema() -> dict[str, object]:
    """Return one JSON Schema (2020-12) that describes every envelope of the catalogue."""
    kinds = tuple(CATALOGUE.items())
    data, definitions = msgspec.json.schema_components([kind for _, kind in kinds], ref_template="#/$defs/{name}")
    (context,), more = msgspec.json.schema_components([Context], ref_template="#/$defs/{name}")
    envelopes = [
        {
            "type": "object",
            "title": name,
            "required": ["id", "type", "timestamp", "source", "category", "intent", "context", "data"],
            "properties": {
                "id": {"type": "string"},
                "type": {"const": name},
                "timestamp": {"type": "string", "format": "date-time"},
                "source": {"const": kind.source},
                "category": {"const": kind.category},
                "intent": {"const": kind.intent},
                "context": context,
                "cursor": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
                "data": shape,
            },
        }
        for (name, kind), shape in zip(kinds, data, strict=True)
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Reenact event",
        "oneOf": envelopes,
        "$defs": tidied({**definitions, **more}),
    }


def tidied(definitions: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """Return the definitions with descriptions that do not depend on the source's indentation or the Python version."""
    return {
        name: {
            key: " ".join(str(value).split()) if key == "description" else value for key, value in definition.items()
        }
        for name, definition in definitions.items()
    }
