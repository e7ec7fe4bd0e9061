"""The frames of the WebSocket protocol: one JSON object per message, told apart by its `type`; see `docs/protocol.md`.

Clients send requests, servers send results and events. A frame about a subscription has the id that the client gave it.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from reenact.domain.plain import Encodable, JsonObject
from reenact.domain.structs import FrozenByName

PROTOCOL = 1
"""The version of the protocol; both sides send theirs first, and disconnect if they differ."""

SUBPROTOCOL = "reenact.v1"
"""The protocol's name in the handshake, `Sec-WebSocket-Protocol`. It is also used if the client names none."""

BAD_FRAME = 4400
NOT_ALLOWED = 4401
NO_HELLO = 4408
TOO_SLOW = 4429
"""Codes with which the server closes a connection, besides those of RFC 6455: 1001 on shutdown, 1009 for size."""


class Frame(FrozenByName, tag_field="type", forbid_unknown_fields=True):
    """One message."""


class ServerFrame(Frame, forbid_unknown_fields=False):
    """One message of the server. A newer server may send fields that a client does not know."""


class Hello(Frame, tag="hello"):
    """The first frame of a client. `token` is for browsers and others that cannot set the header `Authorization`."""

    protocol: int = PROTOCOL
    token: str | None = None


class Ask(Frame, tag="request"):
    """Carry out a request of the command protocol: the type `request`, with this data.

    `id` is unique for all time and all clients, such as a UUID, and identifies the request: if it is sent again, also
    over another connection, the request is not carried out a second time and has the same answer. `timeout` is in
    seconds.
    """

    id: str
    request: str
    data: JsonObject = {}
    timeout: float | None = 30.0


class Subscribe(Frame, tag="subscribe"):
    """Send the events of the session `topic` from after the cursor `after` on, and then new ones as they come.

    With a `client_id` the server stores the acknowledged cursor: without `after` it continues from there, or else from
    the first event. `id` is the subscription's, unique among those of the connection.
    """

    id: str
    topic: str
    client_id: str | None = None
    after: int | None = None


class Listen(Frame, tag="listen"):
    """Send the events of these types, or all, of these sessions, or of all sessions and of none, from now on.

    Events of the command protocol are not sent. `after` holds, by session, the last cursors received by such a
    subscription before its connection was lost: later events of those sessions are sent first.
    """

    id: str
    types: tuple[str, ...] | None = None
    after: dict[str, int] = {}
    sessions: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


class Ack(Frame, tag="ack"):
    """Acknowledge all events up to this cursor; the server sends `acked` once durable. An older cursor is ignored."""

    id: str
    cursor: int


class Unsubscribe(Frame, tag="unsubscribe"):
    """Stop sending to this subscription."""

    id: str


class Welcome(ServerFrame, tag="welcome", kw_only=True):
    """The server's first frame. Sizes are in bytes of a whole message."""

    protocol: int = PROTOCOL
    server: str
    max_message_size: int
    max_subscriptions: int


class Answered(ServerFrame, tag="response"):
    """The response to the request `id`: its envelope, with a result or an error."""

    id: str
    response: Encodable


class Subscribed(ServerFrame, tag="subscribed"):
    """The subscription is active; its first event is the one after the cursor `after` (None if it only listens).

    `end` is the cursor of the session's last event: events up to there come at once.
    """

    id: str
    after: int | None = None
    end: int | None = None


class Batch(FrozenByName, forbid_unknown_fields=True):
    """Events of one subscription, in order."""

    id: str
    events: tuple[Encodable, ...]


class Events(ServerFrame, tag="events"):
    """Events, as envelopes."""

    batches: tuple[Batch, ...]


class Acked(ServerFrame, tag="acked"):
    """The acknowledgement is durable."""

    id: str
    cursor: int


class Ended(ServerFrame, tag="ended"):
    """The subscription has ended.

    It was `unsubscribed`, `deleted` with its session, or `closed` with the runtime; or one that only listens is
    `lagging`: it has read so slowly for so long that events were dropped that no session's feed keeps.
    """

    id: str
    reason: str


class Refused(ServerFrame, tag="error", kw_only=True):
    """A frame could not be accepted; `id` is the id in that frame, if it could be read. `code` is stable."""

    id: str | None = None
    code: str
    message: str


FromClient: TypeAlias = Hello | Ask | Subscribe | Listen | Ack | Unsubscribe
FromServer: TypeAlias = Welcome | Answered | Subscribed | Events | Acked | Ended | Refused
