"""Asking a server: a request of the command protocol, its answer, and its error as the facade's own."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from reenact.client.asking import Answer, Asked
from reenact.client.incoming import read_envelope
from reenact.client.link import Link
from reenact.domain.commands import REQUESTS
from reenact.domain.content import plain_content
from reenact.domain.errors import (
    InvalidInputError,
    ProtocolError,
    ReenactError,
    RequestTimeoutError,
    UnknownCommandError,
    from_wire,
)
from reenact.domain.events import Envelope
from reenact.domain.messages import check_text
from reenact.domain.plain import is_mapping

T = TypeVar("T")


class Caller:
    """Asks, and waits for the answer, over as many connections as it takes. Thread-safe.

    `timeout`, in seconds, is that of what says nothing else; None waits as long as it takes.
    """

    def __init__(self, link: Link, timeout: float | None) -> None:
        self._link = link
        self._timeout = timeout

    def check_open(self) -> None:
        """Raise `RuntimeClosedError` once the runtime has begun to close."""
        self._link.check_open()

    def result(self, request: str, kind: type[T], **data: object) -> T:
        """Return the result of a request, or raise the error that it was answered with."""
        return _read(request, self._result(request, data), kind)

    def optional(self, request: str, kind: type[T], **data: object) -> T | None:
        """Do the same for a result that may be None."""
        result = self._result(request, data)
        return None if bytes(result) == b"null" else _read(request, result, kind)

    def done(self, request: str, **data: object) -> None:
        """Do the same for a request that has no result."""
        self._result(request, data)

    def request(self, type_: object, data: object, timeout: object) -> Envelope:
        """Return the response to a request. See `LocalRuntime.request`, also for what is raised."""
        if not isinstance(type_, str) or type_ not in REQUESTS:
            raise UnknownCommandError(type_, REQUESTS)
        if not is_mapping(data):
            msg = f"the data of a request is a mapping by the names of its fields, not {type(data).__name__}"
            raise InvalidInputError(msg)
        given = {**data}
        request_id = given.pop("request_id", None)
        if request_id is not None:
            check_text("the request's id", request_id)
        if "content" in given:
            given["content"] = plain_content(given["content"])
        answer = self._ask(type_, given, check_timeout(timeout), request_id)
        return read_envelope(answer.response)

    def _result(self, request: str, data: Mapping[str, object]) -> msgspec.Raw:
        return self._ask(request, data, self._timeout, None).outcome.result

    def _ask(self, request: str, data: Mapping[Any, Any], timeout: float | None, request_id: object) -> Answer:
        id_ = request_id if isinstance(request_id, str) else str(uuid.uuid4())
        asked = Asked(id_, request, _json(request, data), timeout)
        self._link.ask(asked)
        try:
            answer = asked.answer.result(timeout)
        except TimeoutError as error:
            if isinstance(error, ReenactError):  # the server did not have it done in time
                raise
            raise self._late(request, timeout) from None
        finally:
            self._link.forget(asked)
        refusal = answer.outcome.error
        if refusal is not None:
            raise from_wire(refusal.code, refusal.message, refusal.details)
        return answer

    def _late(self, request: str, timeout: float | None) -> RequestTimeoutError:
        failure = self._link.failure
        why = "" if failure is None else f": {failure}"
        return RequestTimeoutError(
            f"{request} was not answered within {timeout} s; it may have happened all the same{why}"
        )


def check_timeout(timeout: object) -> float | None:
    """Return a number of seconds, or None, or raise `InvalidInputError`."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or math.isnan(timeout):
        msg = f"a timeout is a number of seconds, not {type(timeout).__name__}"
        raise InvalidInputError(msg)
    return timeout


def _read(request: str, result: msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(result, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ProtocolError(f"the server answered a {request} with what is no answer to it: {error}") from None


def _json(request: str, data: Mapping[Any, Any]) -> bytes:
    try:
        return msgspec.json.encode(data)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        msg = f"the data of {request} cannot be sent as JSON: {error}"
        raise InvalidInputError(msg) from None
