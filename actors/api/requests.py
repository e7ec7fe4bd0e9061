"""Carries out requests: for a facade, or for the command protocol, which publishes requests and responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Final, TypeVar

import msgspec

from reenact.actors.api.approvals import ApprovalOperations
from reenact.actors.api.operations import RuntimeOperations
from reenact.actors.envelopes import enveloped, flat, is_response, passing_id
from reenact.actors.feed.hub import Feed
from reenact.actors.idempotency import Attempt, InFlightRequest, InFlightRequests
from reenact.actors.journal.api import Remembered, Segment
from reenact.domain.content import plain_content
from reenact.domain.errors import (
    InvalidInputError,
    LogUnusableError,
    ReenactError,
    RequestReusedError,
    RequestTimeoutError,
    UnknownCommandError,
)
from reenact.domain.idempotency import IdempotencyKey, digest_of
from reenact.domain.messages import check_text
from reenact.domain.operations import table as asked
from reenact.domain.operations.checks import checked
from reenact.domain.plain import seconds_of, with_plain_texts
from reenact.domain.stream.events import Context, Envelope

R = TypeVar("R")
_REMEMBERED: Final[Mapping[type[asked.Request[object]], object]] = {
    asked.ImageRegisterRequest: tuple[str, int],
    asked.MessageSendRequest: tuple[Context, dict[str, str]],
}
"""What is stored of a response if it is not the result: an id and a revision, or the context and the result."""


class Requests:
    """Carries out requests; those that have an id and change something, only once. Thread-safe."""

    def __init__(self, do: RuntimeOperations, feed: Feed) -> None:
        self._do = do
        approvals = ApprovalOperations(do)
        self._operations = SimpleNamespace()
        for name in asked.REQUESTS:
            operation = name.removesuffix("_request")
            setattr(self._operations, name, getattr(do, operation, None) or getattr(approvals, operation))
        self._feed = feed
        self._in_flight = InFlightRequests()

    def __call__(self, request: asked.Request[R], attempt: Attempt | None = None) -> R:
        """Carry out the request and return its result, or raise why it is not carried out. Nothing is published."""
        operation: Callable[..., R] = getattr(self._operations, request.event_type)
        return self._carry_out(request, attempt or Attempt(), operation)

    async def receive(self, request: asked.MessageSendRequest) -> asked.Sent | None:
        """Send a message without blocking the event loop; return None if that needs a thread."""
        self._do.check_open()
        sent = checked(request)
        return None if sent is None else await self._do.receive(sent)

    def request(self, type: str, data: Mapping[str, object], timeout: float | None) -> Envelope[asked.Response]:  # noqa: A002
        """Carry out the request and return its response, which is published too.

        Raises:
            UnknownCommandError: there is no such request.
            InvalidInputError: the data does not fit the request.
            RequestReusedError: the request's id was used for another request.
            SessionForgottenError: the request was carried out for a session that was forgotten since.
            RequestTimeoutError: no response within `timeout` seconds.
            ReenactError: what the facade's method raises; a response with the error is published first.
        """
        self._do.check_open()
        request, timeout = _read_request(type, data), seconds_of(timeout)
        if request.request_id is None or not request.changes:
            request_id = request.request_id or self._do.new_id("req")
            return self._respond(msgspec.structs.replace(request, request_id=request_id), Attempt(timeout))
        key = IdempotencyKey(request.request_id, digest_of(type, request))
        with self._in_flight.attempt(key, timeout) as attempt:
            remembered = self._remembered(key)
            if remembered is None:
                return self._respond(request, attempt)
            return self._respond_again(request, self._publish_request(request), remembered)

    def _carry_out(self, request: asked.Request[object], attempt: Attempt, operation: Callable[..., R]) -> R:
        if request.changes:
            self._do.check_open()
        sound = checked(request)
        if sound is None:
            absent: R = msgspec.convert(request.absent, request.result)
            return absent
        return operation(sound, attempt) if request.changes else operation(sound)

    def _respond(self, request: asked.Request[object], attempt: Attempt) -> Envelope[asked.Response]:
        """Carry the request out, and publish its response."""
        context = self._publish_request(request)
        try:
            if isinstance(request, asked.MessageSendRequest):  # the response is recorded together with the message
                sent = self._carry_out(request, attempt, self._do.answer)
                if isinstance(sent, Segment):
                    return self._response_envelope(sent)
                result: object = sent
                context = _of_turn(context, sent)
            else:
                result = self(request, attempt)
        except ReenactError as error:
            if isinstance(attempt, InFlightRequest) and not isinstance(error, RequestTimeoutError):
                # It may have been carried out all the same, for example by another process on the same log.
                remembered = self._remembered(attempt.key)
                if remembered is not None:
                    return self._respond_again(request, context, remembered)
            self._publish_response(request, context, error=asked.refusal_of(error))
            raise
        return self._publish_response(request, context, result)

    def _remembered(self, key: IdempotencyKey) -> Remembered | None:
        """Return the request if it has been carried out.

        Raises:
            RequestReusedError: its id belongs to another request.
            SessionForgottenError: it was carried out for a session that was forgotten.
        """
        remembered = self._do.remembered(key.id)
        if remembered is not None and remembered.digest != key.digest:
            raise RequestReusedError(key.id)
        return remembered

    def _respond_again(
        self, request: asked.Request[object], context: Context, remembered: Remembered
    ) -> Envelope[asked.Response]:
        """Publish the response that the request got when it was carried out."""
        try:
            kind = _REMEMBERED.get(type(request), request.result)
            result = msgspec.msgpack.decode(remembered.note, type=kind)
        except (msgspec.MsgspecError, UnicodeError) as damaged:
            msg = f"the stored answer to request {remembered.id!r} is damaged ({damaged})"
            raise LogUnusableError(f"{msg}; restore a copy of the log, or ask under another id") from damaged
        if isinstance(request, asked.ImageRegisterRequest):
            result = self._do.image_at(*result)
        elif isinstance(request, asked.MessageSendRequest):
            context, result = result
        return self._publish_response(request, context, result)

    def _publish_request(self, request: asked.Request[object]) -> Context:
        """Publish the request, and return its context."""
        context = context_of(request, request.request_id)
        self._feed.say(self._do.now(), request, flat(context))
        return context

    def _publish_response(
        self,
        request: asked.Request[object],
        context: Context,
        result: object = None,
        error: asked.CommandError | None = None,
    ) -> Envelope[asked.Response]:
        """Publish the response to the request, and return it."""
        response = asked.response_to(request.event_type)(
            request_id=request.request_id or "", result=msgspec.to_builtins(result), error=error
        )
        return self._response_envelope(self._feed.say(self._do.now(), response, flat(context)))

    def _response_envelope(self, published: Segment) -> Envelope[asked.Response]:
        (entry,) = published.entries
        response = enveloped(entry, Context(**published.context), passing_id(entry.data, self._do.new_id))
        assert is_response(response)  # only responses are published here
        return response


def context_of(data: Mapping[str, object] | asked.Request[object], request_id: str | None) -> Context:
    """Return the context of a request with this data, and of its response."""
    names = ("container_id", "image_id", "session_id", "agent_id")
    about = {name: value for name in names if isinstance(value := data.get(name), str)}
    return Context(**about, correlation_id=request_id)


def _of_turn(context: Context, sent: asked.Sent) -> Context:
    return msgspec.structs.replace(context, session_id=sent.session_id, agent_id=sent.agent_id, turn_id=sent.turn_id)


def _read_request(type_: object, given: object) -> asked.Request[object]:
    kind = asked.REQUESTS.get(type_) if isinstance(type_, str) else None
    if kind is None:
        raise UnknownCommandError(type_, asked.REQUESTS)
    try:
        named = msgspec.convert(given, dict[str, object])
    except (msgspec.ValidationError, ValueError):
        raise InvalidInputError(
            f"the data of a request must be a mapping of its fields' names to values, not {type(given).__name__}"
        ) from None
    data = {str.__str__(name): value for name, value in named.items()}
    if kind is asked.MessageSendRequest and "content" in data:
        data["content"] = plain_content(data["content"])
    unknown = next((name for name in data if name not in kind.__struct_fields__), None)
    if unknown is not None:
        raise InvalidInputError(f"{type_} has no field {unknown!r}; it has {', '.join(kind.__struct_fields__)}")
    try:
        request = with_plain_texts(msgspec.convert(data, kind, from_attributes=True))
    except (msgspec.ValidationError, TypeError, ValueError) as wrong:
        raise InvalidInputError(f"the data of {type_} is invalid: {wrong}") from None
    if request.request_id is not None:
        check_text("the request's id", request.request_id)
    return request
