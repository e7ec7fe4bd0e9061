"""What a server sends, read as late as possible: events and results stay JSON until somebody wants them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, TypeAlias

import msgspec

from reenact.domain.commands import CATALOGUE, CommandError
from reenact.domain.errors import ProtocolError
from reenact.domain.events import Category, Context, Envelope, Intent, Source
from reenact.domain.frames import Acked, Ended, Frame, Refused, Subscribed, Welcome
from reenact.domain.structs import Frozen, FrozenByName

DELETED: Final = "session_deleted"
COMPACTED: Final = "deltas_compacted"
"""Events that end a session, and that stand for what is kept no more."""


class Answered(Frame, tag="response"):
    """`frames.Answered`, the envelope unread."""

    id: str
    response: msgspec.Raw


class Batch(FrozenByName):
    """`frames.Batch`, the events unread."""

    id: str
    events: tuple[msgspec.Raw, ...]


class Events(Frame, tag="events"):
    """`frames.Events`, the events unread."""

    batches: tuple[Batch, ...]


FromServer: TypeAlias = Welcome | Answered | Subscribed | Events | Acked | Ended | Refused


class _About(Frozen):
    session_id: str | None = None


class Head(FrozenByName):
    """What must be known of an event before it is read."""

    id: str
    type: str
    context: _About
    cursor: int | None = None


class _Range(Frozen):
    first_cursor: int


class _Gap(Frozen):
    data: _Range


class Outcome(Frozen):
    """What came of a request, the result unread."""

    result: msgspec.Raw = msgspec.Raw(b"null")
    error: CommandError | None = None


class Response(Frozen):
    """The envelope of a response, but for its head."""

    data: Outcome


class _Unread(FrozenByName, kw_only=True):
    id: str
    type: str
    timestamp: datetime
    source: Source
    category: Category
    intent: Intent
    context: Context
    cursor: int | None = None
    data: msgspec.Raw


_FRAMES: Final[msgspec.json.Decoder[FromServer]] = msgspec.json.Decoder(FromServer)
_HEADS: Final = msgspec.json.Decoder(Head)
_GAPS: Final = msgspec.json.Decoder(_Gap)
_RESPONSES: Final = msgspec.json.Decoder(Response)
_ENVELOPES: Final = msgspec.json.Decoder(_Unread)
_DATA: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    name: msgspec.json.Decoder(kind) for name, kind in CATALOGUE.items()
}
_ANY: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()
_BROKEN: Final = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


def read_frame(message: str | bytes) -> FromServer:
    """Return the frame, or raise `ProtocolError`."""
    try:
        return _FRAMES.decode(message)
    except _BROKEN as error:
        raise ProtocolError(f"the server sent what is no frame of its own: {error}") from None


def read_head(event: msgspec.Raw) -> Head:
    """Return what stands in the head of an event, or raise `ProtocolError`."""
    try:
        return _HEADS.decode(event)
    except _BROKEN as error:
        raise ProtocolError(f"the server sent an event that is none: {error}") from None


def read_outcome(response: msgspec.Raw) -> Outcome:
    """Return what came of a request, or raise `ProtocolError`."""
    try:
        return _RESPONSES.decode(response).data
    except _BROKEN as error:
        raise ProtocolError(f"the server sent a response that is none: {error}") from None


def read_envelope(event: bytes | msgspec.Raw) -> Envelope:
    """Return the event, its data in its own type, or as JSON has it if that is not known; or raise `ProtocolError`."""
    try:
        unread = _ENVELOPES.decode(event)
        data: Any = _DATA.get(unread.type, _ANY).decode(unread.data)
    except _BROKEN as error:
        raise ProtocolError(f"the server sent an event that is none: {error}") from None
    return Envelope(
        id=unread.id,
        type=unread.type,
        timestamp=unread.timestamp,
        source=unread.source,
        category=unread.category,
        intent=unread.intent,
        context=unread.context,
        cursor=unread.cursor,
        data=data,
    )


def step_to(received: int, head: Head, event: msgspec.Raw) -> int | None:
    """Return the cursor that the event leads to from the last one received; None if it was received before.

    Raises:
        ProtocolError: events between the two are missing.
    """
    cursor = head.cursor
    if cursor is None:
        raise ProtocolError(f"the server sent an event without a cursor to a subscription: {head.type} {head.id}")
    if cursor <= received:
        return None
    first = cursor
    if head.type == COMPACTED:
        try:
            first = _GAPS.decode(event).data.first_cursor
        except _BROKEN as error:
            raise ProtocolError(f"the server sent an event that is none: {error}") from None
    if first > received + 1:
        raise ProtocolError(f"the server left out events: {first} came behind {received}; subscribe again")
    return cursor
