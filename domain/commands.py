"""The command protocol: one request and one response for every method of the facades."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from reenact.domain.errors import ReenactError, UnknownCommandError, details_of
from reenact.domain.events import NOTIFICATIONS, Category, Context, EventData, Intent, Source
from reenact.domain.loop.ledger import CostLimit
from reenact.domain.loop.rules import MAX_REPEATS, MAX_STEPS
from reenact.domain.tools import MCPServer


class CommandError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a request was refused; `code` is that of the error that the facade raises.

    `details` are the values that the error carries, such as the `id` of what does not exist.
    """

    code: str
    message: str
    details: dict[str, Any] = {}


def refusal_of(error: ReenactError) -> CommandError:
    """Return the error as it stands in a response; `from_wire` makes it an error again."""
    return CommandError(code=error.code, message=str(error), details=details_of(error))


class Request(EventData, frozen=True, kw_only=True, gc=False):
    """What is asked for: the parameters of the facade's method, under their names."""

    source: ClassVar[Source] = "command"
    category: ClassVar[Category] = "command"
    intent: ClassVar[Intent] = "request"
    request_id: str | None = None


class Response(EventData, frozen=True, kw_only=True, gc=False):
    """What came of a request: what the facade's method returns, as plain values, or an error."""

    source: ClassVar[Source] = "command"
    category: ClassVar[Category] = "command"
    intent: ClassVar[Intent] = "result"
    request_id: str
    result: Any = None
    error: CommandError | None = None


class ContainerCreateRequest(Request, frozen=True, kw_only=True, gc=False):
    """Create a container."""

    event_type: ClassVar[str] = "container_create_request"
    name: str | None = None
    container_id: str | None = None


class ContainerGetRequest(Request, frozen=True, kw_only=True, gc=False):
    """Return a container, or nothing."""

    event_type: ClassVar[str] = "container_get_request"
    container_id: str


class ContainerListRequest(Request, frozen=True, kw_only=True, gc=False):
    """Return all containers."""

    event_type: ClassVar[str] = "container_list_request"


class ImageContent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An image as it travels.

    No function does: `tools` are names of those that the runtime was opened with, specs of others as mappings, and
    mappings with a `type` for tools that the API runs. `policies` are in their plain form.
    """

    id: str | None = None
    name: str | None = None
    model: str | None = None
    system_prompt: str | None = None
    max_tokens: int | None = None
    tools: tuple[Any, ...] = ()
    mcp_servers: tuple[MCPServer, ...] = ()
    policies: Any = None
    max_steps: int | None = MAX_STEPS
    max_repeats: int | None = MAX_REPEATS
    cost_limit: CostLimit | float | None = None
    compress_at: int | None = None


class ImageRegisterRequest(Request, frozen=True, kw_only=True, gc=False):
    """Register an image."""

    event_type: ClassVar[str] = "image_register_request"
    image: ImageContent


class ImageGetRequest(Request, frozen=True, kw_only=True, gc=False):
    """Return an image, or nothing."""

    event_type: ClassVar[str] = "image_get_request"
    image_id: str


class ImageListRequest(Request, frozen=True, kw_only=True, gc=False):
    """Return all images."""

    event_type: ClassVar[str] = "image_list_request"


class SessionCreateRequest(Request, frozen=True, kw_only=True, gc=False):
    """Create a session."""

    event_type: ClassVar[str] = "session_create_request"
    container_id: str
    image_id: str
    session_id: str | None = None


class SessionBranchRequest(Request, frozen=True, kw_only=True, gc=False):
    """Create a session that goes on with the history of another one, up to a position of the log.

    `edit` is text, or content blocks as in the Messages API, in place of the last message that was accepted up to
    there. `image_id` goes with neither `model` nor `system_prompt`.
    """

    event_type: ClassVar[str] = "session_branch_request"
    session_id: str
    at: int | None = None
    edit: str | tuple[dict[str, Any], ...] | None = None
    model: str | None = None
    system_prompt: str | None = None
    image_id: str | None = None
    new_session_id: str | None = None


class SessionGetRequest(Request, frozen=True, kw_only=True, gc=False):
    """Return a session, or nothing."""

    event_type: ClassVar[str] = "session_get_request"
    session_id: str


class SessionListRequest(Request, frozen=True, kw_only=True, gc=False):
    """Return the sessions of a container."""

    event_type: ClassVar[str] = "session_list_request"
    container_id: str


class SessionPageRequest(Request, frozen=True, kw_only=True, gc=False):
    """Return sessions, the newest first, from behind the session `after` on: `limit` at the most, up to 1000.

    Those of one container, or of all; with `waiting` those with a call that waits for a person, or those without one.
    """

    event_type: ClassVar[str] = "session_page_request"
    container_id: str | None = None
    waiting: bool | None = None
    after: str | None = None
    limit: int = 100


class SessionDeleteRequest(Request, frozen=True, kw_only=True, gc=False):
    """Delete a session."""

    event_type: ClassVar[str] = "session_delete_request"
    session_id: str


class SessionRunRequest(Request, frozen=True, kw_only=True, gc=False):
    """Run a session."""

    event_type: ClassVar[str] = "session_run_request"
    session_id: str


class SessionMessagesRequest(Request, frozen=True, kw_only=True, gc=False):
    """Return the messages of a session."""

    event_type: ClassVar[str] = "session_messages_request"
    session_id: str


class SessionTurnsRequest(Request, frozen=True, kw_only=True, gc=False):
    """Return the turns of a session."""

    event_type: ClassVar[str] = "session_turns_request"
    session_id: str


class SessionToolCallsRequest(Request, frozen=True, kw_only=True, gc=False):
    """Return the calls of tools in a session."""

    event_type: ClassVar[str] = "session_tool_calls_request"
    session_id: str


class SessionUsageRequest(Request, frozen=True, kw_only=True, gc=False):
    """Return what a session has used and what it cost."""

    event_type: ClassVar[str] = "session_usage_request"
    session_id: str


class TurnLocateRequest(Request, frozen=True, kw_only=True, gc=False):
    """Return which session a turn is of, and the cursor of its first event, or nothing."""

    event_type: ClassVar[str] = "turn_locate_request"
    turn_id: str


class AgentGetRequest(Request, frozen=True, kw_only=True, gc=False):
    """Return a live agent, or nothing."""

    event_type: ClassVar[str] = "agent_get_request"
    agent_id: str


class AgentListRequest(Request, frozen=True, kw_only=True, gc=False):
    """Return all live agents."""

    event_type: ClassVar[str] = "agent_list_request"


class AgentInterruptRequest(Request, frozen=True, kw_only=True, gc=False):
    """Interrupt an agent's turn."""

    event_type: ClassVar[str] = "agent_interrupt_request"
    agent_id: str


class AgentDestroyRequest(Request, frozen=True, kw_only=True, gc=False):
    """Destroy an agent."""

    event_type: ClassVar[str] = "agent_destroy_request"
    agent_id: str


class AgentPendingRequest(Request, frozen=True, kw_only=True, gc=False):
    """Return the calls that wait for a person: all, or those of an agent's or of a session."""

    event_type: ClassVar[str] = "agent_pending_request"
    agent_id: str | None = None
    session_id: str | None = None


class AgentApproveRequest(Request, frozen=True, kw_only=True, gc=False):
    """Let a call that waits run, with other arguments if some are given."""

    event_type: ClassVar[str] = "agent_approve_request"
    call_id: str
    session_id: str | None = None
    agent_id: str | None = None
    arguments: dict[str, Any] | None = None
    digest: str | None = None
    by: str | None = None


class AgentRejectRequest(Request, frozen=True, kw_only=True, gc=False):
    """Refuse a call that waits; unless `resume`, the turn ends with that."""

    event_type: ClassVar[str] = "agent_reject_request"
    call_id: str
    reason: str = ""
    resume: bool = True
    session_id: str | None = None
    agent_id: str | None = None
    by: str | None = None


class AgentRespondRequest(Request, frozen=True, kw_only=True, gc=False):
    """Answer the question that a call asks."""

    event_type: ClassVar[str] = "agent_respond_request"
    call_id: str
    value: Any
    session_id: str | None = None
    agent_id: str | None = None
    by: str | None = None


class MessageSendRequest(Request, frozen=True, kw_only=True, gc=False):
    """Send a message to an agent, to a session, or to an image's default session in a container.

    Exactly one of `agent_id`, `session_id` and `image_id` is given; `container_id` goes with `image_id`. `content` is
    text, or content blocks as in the Messages API.
    """

    event_type: ClassVar[str] = "message_send_request"
    content: str | tuple[dict[str, Any], ...]
    agent_id: str | None = None
    session_id: str | None = None
    image_id: str | None = None
    container_id: str | None = None


_KINDS: tuple[type[Request], ...] = (
    ContainerCreateRequest,
    ContainerGetRequest,
    ContainerListRequest,
    ImageRegisterRequest,
    ImageGetRequest,
    ImageListRequest,
    SessionCreateRequest,
    SessionBranchRequest,
    SessionGetRequest,
    SessionListRequest,
    SessionPageRequest,
    SessionDeleteRequest,
    SessionRunRequest,
    SessionMessagesRequest,
    SessionTurnsRequest,
    SessionToolCallsRequest,
    SessionUsageRequest,
    TurnLocateRequest,
    AgentGetRequest,
    AgentListRequest,
    AgentInterruptRequest,
    AgentDestroyRequest,
    AgentPendingRequest,
    AgentApproveRequest,
    AgentRejectRequest,
    AgentRespondRequest,
    MessageSendRequest,
)


def _response(request: type[Request]) -> type[Response]:
    # A class statement in a function, so that a request and its response cannot drift apart.
    class Answer(Response, frozen=True, kw_only=True):
        event_type: ClassVar[str] = request.event_type.removesuffix("_request") + "_response"

    Answer.__name__ = Answer.__qualname__ = request.__name__.removesuffix("Request") + "Response"
    Answer.__doc__ = f"What came of `{request.event_type}`."
    return Answer


REQUESTS: dict[str, type[Request]] = {kind.event_type: kind for kind in _KINDS}
RESPONSES: dict[str, type[Response]] = {kind.event_type: _response(kind) for kind in _KINDS}
"""The response of each request, by the request's type."""

CATALOGUE: dict[str, type[EventData]] = {
    kind.event_type: kind for kind in (*NOTIFICATIONS, *REQUESTS.values(), *RESPONSES.values())
}
"""Every type of event that there is, and the shape of its data."""


def response_to(request_type: str) -> type[Response]:
    """Return the response of that request, or raise `UnknownCommandError`."""
    kind = RESPONSES.get(request_type)
    if kind is None:
        raise UnknownCommandError(request_type, RESPONSES)
    return kind


def json_schema() -> dict[str, Any]:
    """Return one JSON Schema (2020-12) that describes every envelope of the catalogue."""
    kinds = tuple(CATALOGUE.items())
    data, definitions = msgspec.json.schema_components([kind for _, kind in kinds], ref_template="#/$defs/{name}")
    (context,), more = msgspec.json.schema_components([Context], ref_template="#/$defs/{name}")
    # A docstring is indented as the source is, or not, by the version of Python.
    for definition in (*definitions.values(), *more.values()):
        definition |= {name: " ".join(text.split()) for name, text in definition.items() if name == "description"}
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
        "$defs": {**definitions, **more},
    }
