"""Checks of requests before they are executed or sent: texts, ids and numbers, without reading the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final, TypeVar, get_args

import msgspec

from reenact.domain.content import check_content
from reenact.domain.errors import (
    AgentNotFoundError,
    CallNotPendingError,
    ContainerNotFoundError,
    ImageNotFoundError,
    InvalidInputError,
    NotFoundError,
    ReenactError,
    SessionNotFoundError,
    TurnNotFoundError,
    shown,
)
from reenact.domain.image import check_model
from reenact.domain.messages import check_text
from reenact.domain.operations.table import (
    AgentApproveRequest,
    AgentPendingRequest,
    AgentRejectRequest,
    AgentRespondRequest,
    AgentScheduleRequest,
    ContainerCreateRequest,
    MessageSendRequest,
    Request,
    SessionBranchRequest,
    SessionCreateRequest,
    SessionForgetRequest,
    SessionPageRequest,
    SessionSwitchRequest,
)
from reenact.domain.output import check_output
from reenact.domain.plain import can_be_id, check_id, check_page, with_plain_texts
from reenact.domain.session.people import check_arguments, check_json, check_reason
from reenact.domain.session.schedules import check_times
from reenact.domain.tools import History

_LAST_POSITION = (1 << 63) - 1
Q = TypeVar("Q", bound=Request[object])
_TEXT_FIELDS = {"name": "the container's name", "digest": "the digest", "by": "who decides"}
_ID_FIELDS: Final[Mapping[str, Callable[[str], ReenactError]]] = {
    "container_id": ContainerNotFoundError,
    "image_id": ImageNotFoundError,
    "session_id": SessionNotFoundError,
    "after": SessionNotFoundError,
    "parent": SessionNotFoundError,
    "turn_id": TurnNotFoundError,
    "agent_id": AgentNotFoundError,
    "call_id": CallNotPendingError,
    "schedule_id": NotFoundError,
}
"""Fields that are ids, each with the error to raise if its value cannot be an id."""


def checked(request: Q) -> Q | None:
    """Return the request with copies of its JSON values, or raise an error that says what is wrong with it.

    Return None if an id in it cannot exist and the request has a result for that case: `request.absent`.
    """
    request = _with_checked_values(with_plain_texts(request))
    for name, is_required in _common_fields(type(request)):
        value = getattr(request, name)
        if value is None and not is_required:
            continue
        if name in _TEXT_FIELDS:
            check_text(_TEXT_FIELDS[name], value)
        elif not can_be_id(value):
            check_id(name, value)
            if request.absent is msgspec.UNSET:
                raise _ID_FIELDS[name](getattr(request, name))
            return None
    return request


@cache
def _common_fields(kind: type[Request[object]]) -> tuple[tuple[str, bool], ...]:
    """Return the fields of a request that are checked by name, and whether each is required."""
    fields = msgspec.structs.fields(kind)
    return tuple(
        (field.name, field.required) for field in fields if field.name in _ID_FIELDS or field.name in _TEXT_FIELDS
    )


def _with_checked_values(request: Q) -> Q:
    match request:
        case MessageSendRequest():
            _check_receiver(request)
            check_content(request.content)
            if request.output is not None:
                return msgspec.structs.replace(request, output=check_output(request.output))
        case ContainerCreateRequest():
            _check_new_id("container", request.container_id)
        case SessionCreateRequest():
            _check_new_id("session", request.session_id)
            _check_revision(request.image_revision)
        case SessionBranchRequest():
            _check_branch(request)
        case SessionForgetRequest():
            check_reason(request.why)
            _check_family(request.family)
        case SessionSwitchRequest():
            _check_switch(request.image, request.history)
        case SessionPageRequest():
            check_page(request.waiting, request.limit)
            if request.container_id is not None and request.parent is not None:
                raise InvalidInputError("give container_id or parent, not both")
        case AgentScheduleRequest():
            check_times(request.at, request.every, request.until)
            check_content(request.content)
        case AgentPendingRequest() | AgentApproveRequest() | AgentRejectRequest() | AgentRespondRequest() if (
            request.agent_id is not None and request.session_id is not None
        ):
            raise InvalidInputError("give agent_id or session_id, not both")
        case AgentApproveRequest() if request.arguments is not None:
            return msgspec.structs.replace(request, arguments=check_arguments(request.arguments))
        case AgentRejectRequest():
            check_reason(request.reason)
        case AgentRespondRequest():
            return msgspec.structs.replace(request, value=check_json("the answer", request.value))
        case _:
            pass
    return request


def _check_new_id(kind: str, id_: object) -> None:
    if id_ is not None:
        check_text(f"the {kind}'s id", id_)


def _check_revision(revision: object) -> None:
    if revision is not None and type(revision) is not int:
        raise InvalidInputError(f"`image_revision` must be a whole number, not {shown(revision):.100}")


def _check_family(family: object) -> None:
    if not isinstance(family, bool):
        raise InvalidInputError(f"`family` must be True or False, not {shown(family):.100}")


def _check_switch(image: str, history: object) -> None:
    """Raise `ImageNotFoundError` if the value cannot be an id, and `InvalidInputError` if there is no such history."""
    if not can_be_id(image):
        check_id("image_id", image)
        raise ImageNotFoundError(image)
    if history not in get_args(History):
        raise InvalidInputError(f"`history` must be 'all', 'summary' or 'none', not {shown(history):.100}")


def _check_receiver(request: MessageSendRequest) -> None:
    given = [name for name in ("agent_id", "session_id", "image_id") if request.get(name) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        raise InvalidInputError(
            f"message_send_request needs exactly one of agent_id, session_id and image_id; it has {found}"
        )
    if request.container_id is not None and request.image_id is None:
        raise InvalidInputError("container_id goes with image_id only")


def _check_branch(asked: SessionBranchRequest) -> None:
    """Check the position, the message, the model and the image of a branch, as far as possible without the log.

    Raises:
        InvalidInputError: an id or a name is not valid, the position is not one, or both an image and a model or prompt
            are given.
        InvalidMessageError: the message is not valid.
    """
    _check_new_id("session", asked.new_session_id)
    if asked.at is not None and not (type(asked.at) is int and 0 < asked.at <= _LAST_POSITION):
        raise InvalidInputError(
            f"`at` must be a position of the log, a whole number of 1 or more, not {shown(asked.at):.100}"
        )
    if asked.edit is not None:
        check_content(asked.edit)
    check_model(asked.model, asked.system_prompt)
    if asked.image_id is not None and (asked.model is not None or asked.system_prompt is not None):
        raise InvalidInputError("give image_id, or model and system_prompt, not both")
