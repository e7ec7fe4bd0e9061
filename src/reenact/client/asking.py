"""A request in flight, sent again until it is answered; and the decoding of server frames, as late as possible."""

from __future__ import annotations

import time
from concurrent.futures import Future
from functools import cache
from types import GenericAlias
from typing import Any, Final, TypeAlias, TypeVar, get_args

import msgspec

from reenact.client.thread import reject, resolve
from reenact.domain.errors import (
    InvalidInputError,
    ProtocolError,
    ReenactError,
    RequestReusedError,
    RuntimeClosedError,
    from_wire,
)
from reenact.domain.operations.table import CATALOGUE, CommandError
from reenact.domain.stream.events import Envelope
from reenact.domain.stream.frames import Acked, Ended, Frame, Refused, ServerFrame, Subscribed, Welcome
from reenact.domain.structs import Frozen, FrozenByName

T = TypeVar("T")
DELETED = "session_deleted"
COMPACTED = "deltas_compacted"
"""The event that ends a session, and the event that replaces compacted deltas."""


class Answered(ServerFrame, tag="response"):
    """`frames.Answered`, with the envelope not decoded."""

    id: str
    response: msgspec.Raw


class Batch(FrozenByName):
    """`frames.Batch`, with the events not decoded."""

    id: str
    events: tuple[msgspec.Raw, ...]


class Events(ServerFrame, tag="events"):
    """`frames.Events`, with the events not decoded."""

    batches: tuple[Batch, ...]


FromServer: TypeAlias = Welcome | Answered | Subscribed | Events | Acked | Ended | Refused


class _Context(Frozen):
    session_id: str | None = None


class Head(FrozenByName):
    """The fields of an event that are needed before it is decoded."""

    id: str
    type: str
    context: _Context
    cursor: int | None = None


class _Type(Frozen):
    type: str


class _Data(Frozen):
    first_cursor: int | None = None  # of an event that replaces compacted deltas
    forgotten_by: str | None = None  # of one that ends a session


class _Body(Frozen):
    data: _Data


class Outcome(Frozen):
    """The outcome of a request, with the result not decoded."""

    result: msgspec.Raw = msgspec.Raw(b"null")
    error: CommandError | None = None


class Response(Frozen):
    """The envelope of a response, without its head."""

    data: Outcome


_FRAMES: Final[msgspec.json.Decoder[FromServer]] = msgspec.json.Decoder(FromServer)
_FRAME_TYPES = frozenset(frame.__struct_config__.tag for frame in get_args(FromServer))
_TYPES = msgspec.json.Decoder(_Type)
_HEADS = msgspec.json.Decoder(Head)
_BODIES = msgspec.json.Decoder(_Body)
_RESPONSES = msgspec.json.Decoder(Response)
_NO_EVENT = "a malformed event"
_NO_FRAME = "what is not a frame of its own"


def read_frame(message: str | bytes) -> FromServer | None:
    """Return the frame, None for one of a type that only newer servers send, or raise `ProtocolError`."""
    try:
        return _read(_FRAMES, message, _NO_FRAME)
    except ProtocolError:
        if _read(_TYPES, message, _NO_FRAME).type in _FRAME_TYPES:
            raise
        return None


def read_head(event: msgspec.Raw) -> Head:
    """Return the head of an event, or raise `ProtocolError`."""
    return _read(_HEADS, event, _NO_EVENT)


def read_envelope(event: bytes | msgspec.Raw, type_: str | None = None) -> Envelope[Any, Any]:
    """Return the event; data of an unknown type stays plain JSON values. Raise `ProtocolError` if it is malformed."""
    return _read(_envelopes(type_ or _read(_TYPES, event, _NO_EVENT).type), event, _NO_EVENT)


@cache
def _envelopes(type_: str) -> msgspec.json.Decoder[Envelope[Any, Any]]:
    return msgspec.json.Decoder(GenericAlias(Envelope, (CATALOGUE.get(type_, object), str)))


def _read(decoder: msgspec.json.Decoder[T], given: str | bytes | msgspec.Raw, what: str) -> T:
    try:
        return decoder.decode(given)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ProtocolError(f"the server sent {what}: {error}") from None


def next_cursor(received: int, head: Head, event: msgspec.Raw) -> int | None:
    """Return the cursor to which the event leads from the last one received; None if it was received before.

    Raises:
        ProtocolError: events between the two are missing.
    """
    cursor = head.cursor
    if cursor is None:
        raise ProtocolError(f"the server sent an event without a cursor to a subscription: {head.type} {head.id}")
    if cursor <= received:
        return None
    first = cursor
    if head.type in (COMPACTED, DELETED):
        data = _read(_BODIES, event, _NO_EVENT).data
        if data.forgotten_by is not None:
            return cursor  # no other events of the session exist any more
        first = data.first_cursor or cursor
    if first > received + 1:
        raise ProtocolError(f"the server left out events: {first} came behind {received}; subscribe again")
    return cursor


def encoded(value: object) -> bytes:
    """Return the value as JSON.

    Raises:
        TypeError, ValueError, OverflowError, RecursionError: a part of it is not a JSON value.
    """
    return msgspec.json.encode(value, enc_hook=of_builtin_type)


def of_builtin_type(value: object) -> object:
    """Return a text or a number of a subclass, such as Markup, as a plain one; msgspec encodes only those."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


MOST_BREAKS = 3
"""How many connections a server may close over a frame before it is not sent again."""


class _Ask(Frame, tag="request"):
    """`frames.Ask`, with the data as JSON."""

    id: str
    request: str
    data: msgspec.Raw
    timeout: float | None


class Answer(Frozen):
    """The answer: the whole envelope of the response, as JSON, and its outcome."""

    response: msgspec.Raw
    outcome: Outcome


class PendingRequest:
    """A request. `data` is JSON; `timeout` is in seconds from now on, None means no limit."""

    queued = False
    _sent = False
    _breaks = 0

    def __init__(self, id: str, request: str, data: bytes, timeout: float | None) -> None:  # noqa: A002 - the frame's word
        self.id = id
        self.request = request
        self.data = data
        self.answer: Future[Answer] = Future()
        self._deadline = None if timeout is None else time.monotonic() + timeout

    def begin(self) -> None:
        """Note that there is a new connection."""
        self._sent = False

    def next_frame(self, welcome: Welcome) -> bytes | None:
        """Return the request's frame, unless it was sent on this connection."""
        if self._sent or self.answer.done():
            return None
        self._sent = True
        left = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        frame = encoded(_Ask(id=self.id, request=self.request, data=msgspec.Raw(self.data), timeout=left))
        if len(frame) > welcome.max_message_size:
            msg = f"the request has {len(frame)} bytes; the server takes at most {welcome.max_message_size}"
            self.fail(InvalidInputError(msg))
            return None
        return frame

    def note_loss(self, *, blamed: bool) -> None:
        """Note that the connection is lost; `blamed` is whether the server closed it over a frame that it was sent."""
        self._breaks += blamed and self._sent
        if self._breaks >= MOST_BREAKS:
            self.fail(
                ProtocolError(
                    f"the server ended {self._breaks} connections over what was sent, perhaps because of this request"
                )
            )

    def handle(self, response: msgspec.Raw) -> None:
        """Settle the answer with the response, unless the server is closing."""
        try:
            outcome = _read(_RESPONSES, response, "a malformed response").data
        except ProtocolError as error:
            self.fail(error)
            return
        if outcome.error is None or outcome.error.code != RuntimeClosedError.code:
            resolve(self.answer, Answer(response, outcome))

    def refuse(self, refused: Refused) -> None:
        """Settle the answer with the refusal, unless the server is closing: its successor will answer the request."""
        if refused.code != RuntimeClosedError.code:
            details: dict[str, object] = {"request_id": self.id} if refused.code == RequestReusedError.code else {}
            self.fail(from_wire(refused.code, refused.message, details))

    def fail(self, error: ReenactError) -> None:
        """Settle the answer with this error."""
        reject(self.answer, error)
