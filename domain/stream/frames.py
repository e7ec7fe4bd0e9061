"""What travels over a WebSocket: one JSON object a message, told apart by its `type`. `docs/protocol.md` explains them.

The client's frames ask, the server's frames tell. What is about a subscription bears the id that the client gave it.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from reenact.domain.plain import Encodable, JsonObject
from reenact.domain.structs import FrozenByName

PROTOCOL = 1
"""The version of the protocol; both sides say theirs first, and do not go on if they differ."""

SUBPROTOCOL = "reenact.v1"
"""What the handshake calls it, `Sec-WebSocket-Protocol`. Whoever asks for none gets it all the same."""

BAD_FRAME = 4400
NOT_ALLOWED = 4401
NO_HELLO = 4408
TOO_SLOW = 4429
"""Codes with which the server closes a connection, besides those of RFC 6455: 1001 when it ends, 1009 for too much."""


class Frame(FrozenByName, tag_field="type", forbid_unknown_fields=True):
    """One message."""


class ServerFrame(Frame, forbid_unknown_fields=False):
    """One message of the server. A newer server may say more than a client knows."""


class Hello(Frame, tag="hello"):
    """The first frame of a client. `token` is for browsers and others that cannot set the header `Authorization`."""

    protocol: int = PROTOCOL
    token: str | None = None


class Ask(Frame, tag="request"):
    """Carry out a request of the command protocol: the type `request`, with this data.

    `id` is unique for all time and all clients, such as a UUID, and the request's own: sent again, also over another
    connection, the request is not carried out a second time and has the same answer. `timeout` is in seconds.
    """

    id: str
    request: str
    data: JsonObject = {}
    timeout: float | None = 30.0


class Subscribe(Frame, tag="subscribe"):
    """Send the events of the session `topic`, from behind the cursor `after` on, and go on with what comes.

    With a `client_id` the server keeps what is acknowledged: without `after` it goes on from there, or else from the
    first event. `id` is the subscription's, unique among those of the connection.
    """

    id: str
    topic: str
    client_id: str | None = None
    after: int | None = None


class Listen(Frame, tag="listen"):
    """Send the events of these types, or all, of these sessions, or of all and of none, from now on.

    Not those of the command protocol. `after` names, by session, the last cursors that were received of such a
    subscription before its connection was lost: what those sessions have had since comes first.
    """

    id: str
    types: tuple[str, ...] | None = None
    after: dict[str, int] = {}
    sessions: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


class Ack(Frame, tag="ack"):
    """Everything up to this cursor has been dealt with; told `acked` once that is durable. An older one is ignored."""

    id: str
    cursor: int


class Unsubscribe(Frame, tag="unsubscribe"):
    """Send no more to this subscription."""

    id: str


class Welcome(ServerFrame, tag="welcome", kw_only=True):
    """The server's first frame. Sizes are in bytes, of a whole message."""

    protocol: int = PROTOCOL
    server: str
    max_message_size: int
    max_subscriptions: int


class Answered(ServerFrame, tag="response"):
    """What came of the request `id`: the envelope of its response, with a result or an error."""

    id: str
    response: Encodable


class Subscribed(ServerFrame, tag="subscribed"):
    """The subscription stands; its first event is the one behind the cursor `after` (None if it only listens).

    `end` is the cursor of the last event that the session has had: at least up to there events come at once.
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
    """Nothing more comes for this subscription.

    It was `unsubscribed`, `deleted` with its session, or `closed` with the runtime; or what only listens is `lagging`:
    it has taken so little for so long that something is lost which no session's feed keeps.
    """

    id: str
    reason: str


class Refused(ServerFrame, tag="error", kw_only=True):
    """A frame could not be accepted; `id` is what it was about, if that could be read. `code` is stable."""

    id: str | None = None
    code: str
    message: str


FromClient: TypeAlias = Hello | Ask | Subscribe | Listen | Ack | Unsubscribe
FromServer: TypeAlias = Welcome | Answered | Subscribed | Events | Acked | Ended | Refused
