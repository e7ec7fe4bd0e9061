"""Sends requests of the command protocol to a server, and raises its errors as the facades do."""

from __future__ import annotations

import uuid
from typing import TypeVar

import msgspec

from reenact.client.asking import Answer, Asked
from reenact.client.incoming import read_envelope
from reenact.client.link import Link
from reenact.domain.commands import REQUESTS, ImageContent, Request
from reenact.domain.content import plain_content
from reenact.domain.errors import InvalidInputError, ProtocolError, UnknownCommandError, from_wire
from reenact.domain.events import Envelope
from reenact.domain.idempotency import given_fields
from reenact.domain.image_travel import travelling
from reenact.domain.messages import check_text
from reenact.domain.plain import is_mapping, seconds_of
from reenact.domain.request_checks import checked

R = TypeVar("R")


class Caller:
    """Asks, and waits for the answer, over as many connections as it takes. Thread-safe.

    `timeout`, in seconds, is that of what says nothing else; None waits as long as it takes.
    """

    def __init__(self, link: Link, timeout: float | None) -> None:
        self._link = link
        self._timeout = timeout

    def __call__(self, request: Request[R]) -> R:
        """Return the result of the request, or raise the error that it was answered with.

        What can be refused without the server is refused as it is there.
        """
        if request.changes:
            self._link.check_open()
        sound = checked(request)
        if sound is None:
            absent: R = request.absent
            return absent
        given = given_fields(sound)
        image = sound.get("image")
        if isinstance(image, ImageContent):
            given["image"] = travelling(image)
        return _read(sound, self._ask(sound.event_type, given, self._timeout, None).outcome.result)

    def request(self, type_: object, data: object, timeout: object) -> Envelope:
        """Return the response to a request. See `LocalRuntime.request`, also for what is raised."""
        if not isinstance(type_, str) or type_ not in REQUESTS:
            raise UnknownCommandError(type_, REQUESTS)
        if not is_mapping(data):
            raise InvalidInputError(
                f"the data of a request is a mapping by the names of its fields, not {type(data).__name__}"
            )
        given = {**data}
        request_id = given.pop("request_id", None)
        if request_id is not None:
            check_text("the request's id", request_id)
        if "content" in given:
            given["content"] = plain_content(given["content"])
        answer = self._ask(type_, given, seconds_of(timeout), request_id)
        return read_envelope(answer.response)

    def _ask(self, request: str, data: object, timeout: float | None, request_id: object) -> Answer:
        id_ = request_id if isinstance(request_id, str) else str(uuid.uuid4())
        asked = Asked(id_, request, _json(request, data), timeout)
        self._link.ask(asked)
        try:
            late = f"{request} was not answered within {timeout} s; it may have happened all the same"
            answer = self._link.result(asked.answer, timeout, late)
        finally:
            self._link.forget(asked)
        refusal = answer.outcome.error
        if refusal is not None:
            raise from_wire(refusal.code, refusal.message, refusal.details)
        return answer


def _read(request: Request[R], result: msgspec.Raw) -> R:
    try:
        read: R = msgspec.json.decode(result, type=request.result)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ProtocolError(
            f"the server answered a {request.event_type} with what is no answer to it: {error}"
        ) from None
    return read


def _json(request: str, data: object) -> bytes:
    try:
        return msgspec.json.encode(data)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInputError(f"the data of {request} cannot be sent as JSON: {error}") from None
