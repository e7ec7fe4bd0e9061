"""The JSON API as a table: which method and path is which request, and where its fields come from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from reenact.domain.agent import AgentInfo
from reenact.domain.commands import REQUESTS, Request
from reenact.domain.container import ContainerInfo
from reenact.domain.history import ToolCallInfo, TurnInfo, TurnLocation, UsageInfo
from reenact.domain.image import ImageInfo
from reenact.domain.messages import Message
from reenact.domain.people import PendingCall
from reenact.domain.session import SessionInfo

_IN_PATH: Final = re.compile(r"{(\w+)}")


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message went, and the turn that answers it."""

    agent_id: str
    session_id: str
    turn_id: str


@dataclass(frozen=True)
class Resource:
    """One route. Fields that are in the path come from there; the others from the query, or from the body."""

    method: str
    path: str
    request: str
    result: Any
    status: int = 200
    whole: str | None = None
    """The field that the whole body is; None if the body has the fields."""
    missing: str | None = None
    """The code of the error that it is if there is no such thing; None if it may be missing."""

    @property
    def kind(self) -> type[Request]:
        """The request."""
        return REQUESTS[self.request]

    @property
    def in_path(self) -> tuple[str, ...]:
        """The fields that the path names."""
        return tuple(_IN_PATH.findall(self.path))

    @property
    def has_body(self) -> bool:
        """Whether fields come in the body."""
        return self.method == "POST"

    @property
    def others(self) -> tuple[str, ...]:
        """The fields that come from elsewhere than the path."""
        return tuple(name for name in self.kind.__struct_fields__ if name not in (*self.in_path, "request_id"))


CONTAINER: Final = "/v1/containers/{container_id}"
SESSION: Final = "/v1/sessions/{session_id}"
AGENT: Final = "/v1/agents/{agent_id}"
CALL: Final = "/v1/pending/{call_id}"
EVENTS: Final = f"{SESSION}/events"
MOST_EVENTS: Final = 1000
"""Events on a page."""
ANY_REQUEST: Final = "/v1/requests/{type}"

RESOURCES: Final = (
    Resource("GET", "/v1/containers", "container_list_request", list[ContainerInfo]),
    Resource("POST", "/v1/containers", "container_create_request", ContainerInfo, 201),
    Resource("GET", CONTAINER, "container_get_request", ContainerInfo, missing="container_not_found"),
    Resource("GET", f"{CONTAINER}/sessions", "session_list_request", list[SessionInfo]),
    Resource("POST", f"{CONTAINER}/sessions", "session_create_request", SessionInfo, 201),
    Resource("GET", "/v1/images", "image_list_request", list[ImageInfo]),
    Resource("POST", "/v1/images", "image_register_request", ImageInfo, whole="image"),
    Resource("GET", "/v1/images/{image_id}", "image_get_request", ImageInfo, missing="image_not_found"),
    Resource("GET", "/v1/sessions", "session_page_request", list[SessionInfo]),
    Resource("GET", SESSION, "session_get_request", SessionInfo, missing="session_not_found"),
    Resource("DELETE", SESSION, "session_delete_request", bool),
    Resource("POST", f"{SESSION}/branches", "session_branch_request", SessionInfo, 201),
    Resource("POST", f"{SESSION}/run", "session_run_request", str),
    Resource("GET", f"{SESSION}/messages", "session_messages_request", list[Message]),
    Resource("GET", f"{SESSION}/turns", "session_turns_request", list[TurnInfo]),
    Resource("GET", f"{SESSION}/tool_calls", "session_tool_calls_request", list[ToolCallInfo]),
    Resource("GET", f"{SESSION}/usage", "session_usage_request", UsageInfo),
    Resource("GET", "/v1/turns/{turn_id}", "turn_locate_request", TurnLocation, missing="turn_not_found"),
    Resource("GET", "/v1/agents", "agent_list_request", list[AgentInfo]),
    Resource("GET", AGENT, "agent_get_request", AgentInfo, missing="agent_not_found"),
    Resource("DELETE", AGENT, "agent_destroy_request", None),
    Resource("POST", f"{AGENT}/interrupt", "agent_interrupt_request", None),
    Resource("GET", "/v1/pending", "agent_pending_request", list[PendingCall]),
    Resource("POST", f"{CALL}/approve", "agent_approve_request", str | None),
    Resource("POST", f"{CALL}/reject", "agent_reject_request", str | None),
    Resource("POST", f"{CALL}/respond", "agent_respond_request", str | None),
    Resource("POST", "/v1/messages", "message_send_request", Sent),
)
RESULTS: Final[dict[str, Any]] = {resource.request: resource.result for resource in RESOURCES}
"""What each request results in."""
READS: Final = frozenset(resource.request for resource in RESOURCES if resource.method == "GET")
"""Requests that change nothing; their results may be larger than what asks for them."""
LARGE: Final = frozenset(
    resource.request for resource in RESOURCES if resource.result in (list[Message], list[TurnInfo], list[ToolCallInfo])
) | {"image_list_request", "image_get_request", "agent_pending_request"}
"""Those whose results have content of conversations or of images, and may cost much memory and time."""
