"""The command protocol in process: a request is published, carried out by the operation it names, and answered."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from reenact.actors.asking import DEFAULT_CONTAINER
from reenact.actors.envelopes import flat, open_up
from reenact.actors.feed.hub import Feed
from reenact.actors.journal.api import Remembered, Segment
from reenact.actors.once import Attempt, UnderWay
from reenact.actors.operations import Operations
from reenact.actors.people import People
from reenact.domain import commands as asked
from reenact.domain.container import ContainerInfo
from reenact.domain.content import check_content, plain_content
from reenact.domain.errors import (
    AlreadyExistsError,
    ContainerNotFoundError,
    InvalidInputError,
    LogUnusableError,
    ReenactError,
    RequestReusedError,
    RequestTimeoutError,
    UnknownCommandError,
)
from reenact.domain.events import Context, Envelope
from reenact.domain.image_travel import image_of
from reenact.domain.messages import check_text
from reenact.domain.once import Once, digest_of
from reenact.domain.plain import seconds_of
from reenact.domain.session import SessionInfo

_ANSWERS: Final[Mapping[str, Any]] = {
    "container_create_request": ContainerInfo,
    "image_register_request": tuple[str, int],
    "session_create_request": SessionInfo,
    "session_branch_request": SessionInfo,
    "session_delete_request": bool,
    "session_run_request": str,
    "agent_interrupt_request": None,
    "agent_destroy_request": None,
    "agent_approve_request": str | None,
    "agent_reject_request": str | None,
    "agent_respond_request": str | None,
    "message_send_request": tuple[Context, dict[str, str]],
}
"""The requests that change something, and what is remembered of the answer to each.

Of an image it is the id and the revision; with the answer to a message there is its context.
"""


class Requests:
    """Carries out requests, those that bear an id and change something once. Thread-safe."""

    def __init__(self, do: Operations, feed: Feed, *, now: Callable[[], int], new_id: Callable[[str], str]) -> None:
        self._do = do
        self._people = People(do)
        self._feed = feed
        self._under_way = UnderWay()
        self._now = now
        self._new_id = new_id

    def request(self, type: str, data: Mapping[str, Any], timeout: float | None) -> Envelope:  # noqa: A002
        """Carry out the request and return its response, which is published too.

        Raises:
            UnknownCommandError: there is no such request.
            InvalidInputError: the data does not fit it.
            RequestReusedError: the request's id was used for another request.
            RequestTimeoutError: no answer within `timeout` seconds.
            ReenactError: what the facade's method raises; a response that says so is published first.
        """
        self._do.check_open()
        request, timeout = self._read(type, data), seconds_of(timeout)
        if request.request_id is None or type not in _ANSWERS:
            return self._respond(request, request.request_id or self._new_id("req"), timeout, None)
        once = Once(request.request_id, digest_of(type, request))
        with self._under_way.attempt(once, timeout) as attempt:
            remembered = self._remembered(once)
            if remembered is None:
                return self._respond(request, once.id, attempt.timeout, attempt)
            return self._respond_again(request, self._say(request, once.id), remembered)

    def _respond(
        self, request: asked.Request, request_id: str, timeout: float | None, attempt: Attempt | None
    ) -> Envelope:
        """Carry the request out, and answer it."""
        context = self._say(request, request_id)
        answered = asked.response_to(request.event_type)
        try:
            if isinstance(request, asked.MessageSendRequest):  # answered together with what it brings about
                return self._open(self._send(request, request_id, timeout, attempt))
            result = self._carry_out(request, timeout, attempt)
        except ReenactError as error:
            if attempt is not None and not isinstance(error, RequestTimeoutError):
                # It may have been carried out all the same, such as by another process on the same log.
                remembered = self._remembered(attempt.once)
                if remembered is not None:
                    return self._respond_again(request, context, remembered)
            refused = asked.refusal_of(error)
            self._answer(answered(request_id=request_id, error=refused), context)
            raise
        return self._open(self._answer(answered(request_id=request_id, result=msgspec.to_builtins(result)), context))

    def _remembered(self, once: Once) -> Remembered | None:
        """Return the request if it has been carried out, or raise `RequestReusedError` if its id was used already."""
        remembered = self._do.remembered(once.id)
        if remembered is not None and remembered.digest != once.digest:
            raise RequestReusedError(once.id)
        return remembered

    def _respond_again(self, request: asked.Request, context: Context, remembered: Remembered) -> Envelope:
        """Answer the request as it was answered when it was carried out."""
        try:
            result = msgspec.msgpack.decode(remembered.note, type=_ANSWERS[request.event_type])
        except (msgspec.MsgspecError, UnicodeError) as damaged:
            msg = f"what is remembered of the answer to request {remembered.id!r} is damaged ({damaged})"
            raise LogUnusableError(f"{msg}; restore a copy of the log, or ask under another id") from damaged
        if isinstance(request, asked.ImageRegisterRequest):
            result = self._do.image_at(*result)
        elif isinstance(request, asked.MessageSendRequest):
            context, result = result
        response = asked.response_to(request.event_type)(request_id=remembered.id, result=msgspec.to_builtins(result))
        return self._open(self._answer(response, context))

    def _say(self, request: asked.Request, request_id: str) -> Context:
        """Publish the request, and return its context."""
        context = _context(request, request_id)
        self._feed.say(self._now(), msgspec.structs.replace(request, request_id=request_id), flat(context))
        return context

    def _read(self, type_: object, given: object) -> asked.Request:
        kind = asked.REQUESTS.get(type_) if isinstance(type_, str) else None
        if kind is None:
            raise UnknownCommandError(type_, asked.REQUESTS)
        data = _by_name(given)
        if kind is asked.MessageSendRequest and "content" in data:
            data["content"] = plain_content(data["content"])
        unknown = next((name for name in data if name not in kind.__struct_fields__), None)
        if unknown is not None:
            msg = f"{type_} has no field {unknown!r}; it has {', '.join(kind.__struct_fields__)}"
            raise InvalidInputError(msg)
        try:
            request = msgspec.convert(data, kind, from_attributes=True)
        except (msgspec.ValidationError, TypeError, ValueError) as wrong:
            msg = f"the data of {type_} does not fit: {wrong}"
            raise InvalidInputError(msg) from None
        if request.request_id is not None:
            check_text("the request's id", request.request_id)
        return request

    def _carry_out(self, request: asked.Request, timeout: float | None, attempt: Attempt | None) -> object:  # noqa: C901, PLR0912 - a table of contents
        do = self._do
        match request:
            case asked.ContainerCreateRequest():
                return do.create_container(request.name, request.container_id, timeout=timeout, attempt=attempt)
            case asked.ContainerGetRequest():
                return do.container(request.container_id)
            case asked.ContainerListRequest():
                return do.containers()
            case asked.ImageRegisterRequest():
                return do.register_image(image_of(request.image), timeout=timeout, attempt=attempt)
            case asked.ImageGetRequest():
                return do.image(request.image_id)
            case asked.ImageListRequest():
                return do.images()
            case asked.SessionCreateRequest():
                return do.create_session(
                    request.container_id, request.image_id, request.session_id, timeout=timeout, attempt=attempt
                )
            case asked.SessionBranchRequest():
                return do.branch_session(
                    request.session_id,
                    at=request.at,
                    edit=request.edit,
                    model=request.model,
                    system_prompt=request.system_prompt,
                    image_id=request.image_id,
                    new_session_id=request.new_session_id,
                    timeout=timeout,
                    attempt=attempt,
                )
            case asked.SessionGetRequest():
                return do.session(request.session_id)
            case asked.SessionListRequest():
                return do.sessions_of(request.container_id)
            case asked.SessionPageRequest():
                return do.list_sessions(
                    request.container_id, waiting=request.waiting, after=request.after, limit=request.limit
                )
            case asked.SessionDeleteRequest():
                return do.delete_session(request.session_id, timeout=timeout, attempt=attempt)
            case asked.SessionRunRequest():
                return do.run_session(request.session_id, timeout=timeout, attempt=attempt)
            case asked.SessionMessagesRequest():
                return do.messages(request.session_id)
            case asked.SessionTurnsRequest():
                return do.turns(request.session_id)
            case asked.SessionToolCallsRequest():
                return do.tool_calls(request.session_id)
            case asked.SessionUsageRequest():
                return do.usage(request.session_id)
            case asked.TurnLocateRequest():
                return do.locate_turn(request.turn_id)
            case asked.AgentGetRequest():
                return do.agent(request.agent_id)
            case asked.AgentListRequest():
                return do.agents()
            case asked.AgentInterruptRequest():
                do.interrupt(request.agent_id, timeout=timeout, attempt=attempt)
                return None
            case asked.AgentDestroyRequest():
                do.destroy(request.agent_id, timeout=timeout, attempt=attempt)
                return None
            case _:
                return self._of_people(request, timeout, attempt)

    def _of_people(self, request: asked.Request, timeout: float | None, attempt: Attempt | None) -> object:
        people = self._people
        match request:
            case asked.AgentPendingRequest():
                return people.pending(request.agent_id, request.session_id)
            case asked.AgentApproveRequest():
                return people.approve(
                    request.call_id,
                    session_id=request.session_id,
                    agent_id=request.agent_id,
                    arguments=request.arguments,
                    digest=request.digest,
                    by=request.by,
                    timeout=timeout,
                    attempt=attempt,
                )
            case asked.AgentRejectRequest():
                return people.reject(
                    request.call_id,
                    request.reason,
                    resume=request.resume,
                    session_id=request.session_id,
                    agent_id=request.agent_id,
                    by=request.by,
                    timeout=timeout,
                    attempt=attempt,
                )
            case asked.AgentRespondRequest():
                return people.respond(
                    request.call_id,
                    request.value,
                    session_id=request.session_id,
                    agent_id=request.agent_id,
                    by=request.by,
                    timeout=timeout,
                    attempt=attempt,
                )
            case _:
                raise UnknownCommandError(request.event_type)

    def _send(
        self, request: asked.MessageSendRequest, request_id: str, timeout: float | None, attempt: Attempt | None
    ) -> Segment:
        given = [name for name in ("agent_id", "session_id", "image_id") if request.get(name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            msg = f"message_send_request needs exactly one of agent_id, session_id and image_id; it has {found}"
            raise InvalidInputError(msg)
        if request.container_id is not None and request.image_id is None:
            msg = "container_id goes with image_id only"
            raise InvalidInputError(msg)
        check_content(request.content)  # before anything is created for it
        agent_id = self._agent_for(request, timeout)
        return self._do.receive_and_answer(agent_id, request.content, request_id, timeout=timeout, attempt=attempt)

    def _agent_for(self, request: asked.MessageSendRequest, timeout: float | None) -> str:
        if request.agent_id is not None:
            return request.agent_id
        session_id = request.session_id
        if session_id is None:
            session_id = self._default_session(request.image_id or "", request.container_id, timeout)
        return self._do.run_session(session_id, timeout=timeout)

    def _default_session(self, image_id: str, container_id: str | None, timeout: float | None) -> str:
        self._do.check_image(image_id)
        if container_id is None:
            container_id = DEFAULT_CONTAINER
            if self._do.container(container_id) is None:
                with contextlib.suppress(AlreadyExistsError):  # somebody else was as quick
                    self._do.create_container(None, container_id, timeout=timeout)
        elif self._do.container(container_id) is None:
            raise ContainerNotFoundError(container_id)
        for number in itertools.count(1):
            session_id = _default_id(container_id, image_id, number)
            with contextlib.suppress(AlreadyExistsError):  # created a moment ago by somebody else, or deleted once
                if self._do.session(session_id) is None:
                    self._do.create_session(container_id, image_id, session_id, timeout=timeout)
            found = self._do.session(session_id)
            if found is not None and (found.container_id, found.image_id) == (container_id, image_id):
                return session_id
        raise AssertionError  # there is always a next number

    def _answer(self, response: asked.Response, context: Context) -> Segment:
        return self._feed.say(self._now(), response, flat(context))

    def _open(self, published: Segment) -> Envelope:
        (envelope,) = open_up(published, self._new_id)
        return envelope


def _default_id(container_id: str, image_id: str, number: int) -> str:
    """Return the id of the `number`-th default session of the image in the container; a deleted one has a successor."""
    both = f"{len(container_id)} {container_id} {image_id}"
    return f"ses_default_{hashlib.blake2b(both.encode(), digest_size=10).hexdigest()}_{number}"


def _by_name(given: object) -> dict[str, Any]:
    try:
        return msgspec.convert(given, dict[str, Any])
    except (msgspec.ValidationError, ValueError):
        msg = f"the data of a request is a mapping by the names of its fields, not {type(given).__name__}"
        raise InvalidInputError(msg) from None


def _context(request: asked.Request, request_id: str) -> Context:
    about = {name: request.get(name) for name in ("container_id", "image_id", "session_id", "agent_id")}
    return Context(**about, correlation_id=request_id)
