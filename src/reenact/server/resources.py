"""What the JSON API makes of the table of operations: results, what is not there, and what is costly."""

from __future__ import annotations

from types import NoneType
from typing import Any, Final, get_args

from reenact.domain.commands import REQUESTS, Request
from reenact.domain.history import ToolCallInfo, TurnInfo
from reenact.domain.image import ImageInfo
from reenact.domain.messages import Message
from reenact.domain.people import PendingCall

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


def others(kind: type[Request[Any]]) -> tuple[str, ...]:
    """Return the fields of a request that come from elsewhere than the path."""
    return tuple(name for name in kind.__struct_fields__ if name not in (*kind.route.fields, "request_id"))


def missing(kind: type[Request[Any]]) -> str | None:
    """Return the code of the error that it is if there is no such thing; None if it may be missing."""
    return None if kind.changes or kind.absent is not None else f"{kind.route.fields[0].removesuffix('_id')}_not_found"


def result(kind: type[Request[Any]]) -> Any:  # noqa: ANN401 - a type
    """Return the type of the results."""
    if missing(kind) is None:
        return kind.result
    (found,) = (one for one in get_args(kind.result) if one is not NoneType)
    return found
