"""Responses of the JSON API, the HTTP status of each error code, and what the API needs of the table of operations."""

from __future__ import annotations

import math
from types import NoneType
from typing import Final, get_args

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from reenact.domain.commands import REQUESTS, CommandError, Request
from reenact.domain.history import ToolCallInfo, TurnInfo
from reenact.domain.image import ImageInfo
from reenact.domain.messages import Message
from reenact.domain.people import PendingCall
from reenact.server.limits import Unread

EVENTS: Final = "/v1/sessions/{session_id}/events"
MOST_EVENTS: Final = 1000
"""Events on a page."""
ANY_REQUEST: Final = "/v1/requests/{type}"
READS: Final = frozenset(name for name, kind in REQUESTS.items() if not kind.changes)
"""Requests that change nothing; their results may be larger than what asks for them."""
LARGE: Final = frozenset(
    name
    for name in READS
    if REQUESTS[name].result
    in (list[Message], list[TurnInfo], list[ToolCallInfo], list[ImageInfo], ImageInfo | None, list[PendingCall])
)
"""Those whose results have content of conversations or of images, and may cost much memory and time."""
PIECE: Final = 64 * 1024
"""Bytes that are sent at once; the next ones follow when the client has taken most of them."""
_JSON: Final = "application/json"
_STATUS: Final = {
    "already_exists": 409,
    "authentication": 401,
    "call_not_pending": 404,
    "conflict": 409,
    "host_not_served": 421,
    "internal_error": 500,
    "llm_error": 502,
    "mailbox_full": 503,
    "method_not_allowed": 405,
    "not_found": 404,
    "origin_not_allowed": 403,
    "request_reused": 409,
    "runtime_closed": 503,
    "session_locked": 409,
    "stale_approval": 409,
    "timeout": 504,
    "tool_unavailable": 409,
    "too_large": 413,
    "too_many_connections": 503,
    "too_many_requests": 429,
    "too_slow": 408,
    "unknown_command": 404,
    "unknown_event_type": 400,
    "unknown_scenario": 400,
    "unready": 503,
    "unstorable": 400,
}
_STARTS: Final = {"invalid_": 400, "log_": 503, "storage_": 503, "projection": 503, "read_model": 503}


def others(kind: type[Request[object]]) -> tuple[str, ...]:
    """Return the fields of a request that come from elsewhere than the path."""
    return tuple(name for name in kind.__struct_fields__ if name not in (*kind.route.fields, "request_id"))


def missing(kind: type[Request[object]]) -> str | None:
    """Return the code of the error that it is if there is no such thing; None if it may be missing."""
    return None if kind.changes or kind.absent is not None else f"{kind.route.fields[0].removesuffix('_id')}_not_found"


def result(kind: type[Request[object]]) -> object:
    """Return the type of the results."""
    if missing(kind) is None:
        return kind.result
    (found,) = (one for one in get_args(kind.result) if one is not NoneType)
    return found


def status_of(code: str) -> int:
    """Return the HTTP status of an error, by its code."""
    if code.endswith("_not_found"):
        return 404
    return _STATUS.get(code) or next((status for start, status in _STARTS.items() if code.startswith(start)), 500)


class Answer(Response):
    """A response that is sent in pieces, as the client takes them, and counted until then."""

    media_type = _JSON
    unread: Unread | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; whoever has gone is sent nothing more."""
        size = len(self.body)
        if self.unread is not None:
            self.unread.add(size)
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for start in range(0, size or 1, PIECE):
                piece, end = self.body[start : start + PIECE], start + PIECE
                await send({"type": "http.response.body", "body": piece, "more_body": end < size})
        finally:
            if self.unread is not None:
                self.unread.remove(size)


def success(content: object, status: int = 200) -> Answer:
    """Return a response with the content as JSON; bytes are JSON already."""
    return Answer(content if isinstance(content, bytes) else msgspec.json.encode(content), status)


def failure(code: str, message: str, *, retry_after: float | None = None) -> Response:
    """Return the response `{"error": {"code", "message"}}`, with the status of the code."""
    return told(CommandError(code=code, message=message), retry_after=retry_after)


def told(error: CommandError, *, retry_after: float | None = None) -> Response:
    """Return the response that tells of the error, with its details, and with the status of its code."""
    status = status_of(error.code)
    headers: dict[str, str] = {}
    if status == status_of("authentication"):
        headers["www-authenticate"] = "Bearer"
    if retry_after is not None:
        headers["retry-after"] = str(math.ceil(retry_after))
    body = msgspec.json.encode({"error": error})
    return Response(body, status, headers=headers, media_type=_JSON)
