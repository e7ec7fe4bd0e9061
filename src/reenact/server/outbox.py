"""Sends the frames of a connection: first its own frames, then the events of its subscriptions.

Data is sent only as fast as the socket takes it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from reenact.actors.feed.group import Batch, Group, Span
from reenact.domain.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    ReenactError,
    RuntimeClosedError,
    StorageError,
    UnknownEventTypeError,
)
from reenact.domain.messages import check_text
from reenact.domain.operations.table import CATALOGUE
from reenact.domain.stream.frames import (
    Ack,
    Acked,
    Ended,
    FromServer,
    Listen,
    Refused,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from reenact.server.limits import Counts, Unread
from reenact.server.reading import NotAccepted

MOST_WAITING = 64
"""Frames that may wait; from this number on, no frames are read from the client, and no requests started."""
MOST_BYTES = 4 * 1024 * 1024
"""Bytes of frames that may wait; from this size on, no frames are read from the client, and no requests started."""
BATCH = 64 * 1024
"""Approximate bytes of events in one frame."""
PACE = 0.002
"""Seconds between frames of events that are less than half full, so that many events are sent in few frames."""
PAUSE = 1.0
"""Seconds until events are read again after a read has failed."""
_log = logging.getLogger("reenact.server")


class ClientSubscription:
    """A subscription of the connection: the id that the client chose, and the name that it has in the source.

    A name is used only once, so that events taken for an earlier subscription of the same id do not reach this one.
    """

    __slots__ = ("acks", "confirmed", "head", "id", "name")

    def __init__(self, id: str, name: str) -> None:  # noqa: A002
        self.id = id
        self.name = name
        self.head = b'{"id":%b,"events":[' % msgspec.json.encode(id)
        self.confirmed = asyncio.Event()
        """Set when the client has been sent the answer to its subscription."""
        self.acks: set[asyncio.Task[None]] = set()
        """Acknowledgements that are not durable yet."""


@dataclass
class Outbox:
    """Sends frames and events: one task runs `send_frames`, another `send_events`. Used on one event loop.

    Events come from the source; `_send` takes the parts of a frame.
    """

    _source: Group
    _send: Callable[[Sequence[bytes]], Awaitable[None]]
    _counts: Counts
    _unread: Unread
    _size = 0
    _closed = False

    def __post_init__(self) -> None:
        self.on_ended: Callable[[ClientSubscription], None] = lambda _: None
        """Called when a subscription has ended by itself."""
        self._frames: deque[bytes] = deque()
        self._by_name: dict[str, ClientSubscription] = {}
        self._unconfirmed: set[ClientSubscription] = set()
        self._has_frames = asyncio.Event()
        self._sending = asyncio.Lock()
        self._room = asyncio.Event()
        self._room.set()

    def follow(self, subscription: ClientSubscription) -> None:
        """Send the events of the subscription, once it is confirmed."""
        self._by_name[subscription.name] = subscription
        self._unconfirmed.add(subscription)

    def confirm(self, subscription: ClientSubscription) -> None:
        """Note that the answer to the subscription has been put into a frame."""
        self._unconfirmed.discard(subscription)
        subscription.confirmed.set()

    def forget(self, subscription: ClientSubscription) -> None:
        """Stop sending events of the subscription."""
        self._by_name.pop(subscription.name, None)
        self.confirm(subscription)

    def put(self, frame: FromServer | bytes) -> None:
        """Queue a frame; it is sent before all events that have not been taken yet. After `close` it is dropped."""
        if self._closed:
            return
        encoded = frame if isinstance(frame, bytes) else msgspec.json.encode(frame)
        self._frames.append(encoded)
        self._size += len(encoded)
        self._unread.add(len(encoded))
        if self._is_full():
            self._room.clear()
        self._has_frames.set()

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is sent."""
        return self._closed

    def close(self) -> None:
        """Drop the waiting frames, and accept no more."""
        self._closed = True
        self._unread.remove(sum(map(len, self._frames)))
        self._frames.clear()
        self._room.set()

    async def room(self) -> None:
        """Wait until the waiting frames are below both limits, or the outbox is closed."""
        await self._room.wait()

    async def send_frames(self) -> None:
        """Send the connection's own frames until cancelled, or until the connection fails."""
        while True:
            await self._has_frames.wait()
            self._has_frames.clear()
            async with self._sending:
                await self._flush()

    async def send_events(self) -> None:
        """Send events until cancelled, or until the connection or the source fails."""
        while True:
            size = await self._send_batches(await _next_batches(self._source))
            if size < BATCH // 2 and not self._source.is_behind:
                # All connections at the same moments: then they share what they send, and the loop wakes up less often.
                await asyncio.sleep(PACE - asyncio.get_running_loop().time() % PACE)

    async def _flush(self) -> None:
        while self._frames:
            frame = self._frames.popleft()
            try:
                await self._send([frame])
            finally:
                self._unread.remove(len(frame))
            self._size -= len(frame)
            if not self._is_full():
                self._room.set()

    def _is_full(self) -> bool:
        return not self._closed and (len(self._frames) >= MOST_WAITING or self._size >= MOST_BYTES)

    async def _send_batches(self, batches: Sequence[Batch]) -> int:
        """Send events, and return about how many bytes they were."""
        find = self._by_name.get
        if self._unconfirmed:
            for batch in batches:
                subscription = find(batch.id)
                if subscription is not None:
                    await subscription.confirmed.wait()
        async with self._sending:
            await self._flush()  # with the `subscribed` frames
            parts, count = _frame_parts(batches, self._by_name)
            if parts:
                await self._send(parts)
                self._counts.events += count
        for batch in batches:
            if batch.ended is not None and (subscription := find(batch.id)) is not None:
                self.forget(subscription)
                self.on_ended(subscription)
                self.put(Ended(id=subscription.id, reason=batch.ended))
        return sum(map(len, parts))


def _frame_parts(batches: Sequence[Batch], wanted: Mapping[str, ClientSubscription]) -> tuple[list[bytes], int]:
    """Return a frame of the wanted batches in parts, and the number of its events; without events, there are no parts.

    Large events are not copied, because other connections send them too.
    """
    parts: list[bytes] = []
    count, begin = 0, b'{"type":"events","batches":['
    for batch in batches:
        events, subscription = batch.events, wanted.get(batch.id)
        if subscription is None or not events:
            continue
        parts += (begin, subscription.head)
        count += len(events)
        begin = b"]},"
        if len(events) == 1:
            parts.append(events[0])
        elif sum(map(len, events)) <= 2 * BATCH:
            parts.append(b",".join(events))
        else:
            for event in events:
                parts += (event, b",")
            parts.pop()
    return [*parts, b"]}]}"] if parts else [], count


async def _next_batches(source: Group) -> Sequence[Batch]:
    """Return the next events; while the log cannot be read, try again at intervals."""
    while True:
        try:
            return await source.take(BATCH)
        except RuntimeClosedError:
            await asyncio.Event().wait()  # there will be none
        except StorageError as error:
            _log.warning("events cannot be read at present: %s", error)
            await asyncio.sleep(PAUSE)


LAST_ACKS = 1.0
"""Seconds in which acknowledgements of a client that has left may still become durable."""


class SubscriptionNotFoundError(NotFoundError):
    """The connection has no subscription of this id."""

    code = "subscription_not_found"
    kind = "subscription"


@dataclass
class Subscriptions:
    """The subscriptions of one client. Used on one event loop; frames are handled one after the other."""

    _group: Group
    _outbox: Outbox
    _most: int
    _counts: Counts

    def __post_init__(self) -> None:
        self._names = itertools.count(1)
        self._active: dict[str, ClientSubscription] = {}
        self._ended: dict[str, ClientSubscription] = {}
        """Subscriptions that have ended by themselves: their delivered events can still be acknowledged."""

    async def begin(self, frame: Subscribe | Listen) -> None:
        """Subscribe, and send `subscribed` before the first event.

        Raises:
            NotAccepted: the id is in use, there are too many subscriptions, or there is nothing to subscribe to.
        """
        if frame.id in self._active:
            raise NotAccepted(frame.id, AlreadyExistsError.code, f"there is a subscription {frame.id!r} already")
        if len(self._active) >= self._most:
            raise NotAccepted(
                frame.id, "too_many_subscriptions", f"a connection has at most {self._most} subscriptions"
            )
        subscription = ClientSubscription(frame.id, str(next(self._names)))
        self._outbox.follow(subscription)
        try:
            check_text("the subscription's id", frame.id)
            span = await self._add(subscription.name, frame)
        except ReenactError as error:
            self._outbox.forget(subscription)
            raise NotAccepted.because(frame.id, error) from None
        self._forget(self._ended.pop(frame.id, None))
        self._active[frame.id] = subscription
        self._counts.subscriptions += 1
        after, end = (None, None) if span is None else span
        self._outbox.put(Subscribed(id=frame.id, after=after, end=end))
        self._outbox.confirm(subscription)

    def named(self, frame: Ack | Unsubscribe) -> ClientSubscription:
        """Return the subscription that the frame names.

        Raises:
            NotAccepted: there is none of this id.
        """
        subscription = self._active.get(frame.id) or self._ended.get(frame.id)
        if subscription is None:
            raise NotAccepted.because(frame.id, SubscriptionNotFoundError(frame.id))
        return subscription

    async def acknowledge(self, frame: Ack, subscription: ClientSubscription) -> None:
        """Acknowledge events, and send `acked` when that is durable."""
        try:
            await self._group.ack(subscription.name, frame.cursor)
        except ReenactError as error:
            self._counts.refused[error.code] += 1
            self._outbox.put(Refused(id=frame.id, code=error.code, message=str(error)))
        else:
            self._outbox.put(Acked(id=frame.id, cursor=frame.cursor))

    async def end(self, frame: Unsubscribe) -> None:
        """End a subscription, after its pending acknowledgements are durable.

        Raises:
            NotAccepted: there is none of this id.
        """
        subscription = self.named(frame)
        if subscription.acks:
            await asyncio.wait(subscription.acks)
        over = self._ended.pop(frame.id, None)
        if self._active.pop(frame.id, None) is not None:
            self._counts.subscriptions -= 1
            self._outbox.forget(subscription)
            self._outbox.put(Ended(id=frame.id, reason="unsubscribed"))
        elif over is None:
            return
        self._forget(subscription)

    def ended(self, subscription: ClientSubscription) -> None:
        """Note that a subscription has ended by itself."""
        if self._active.pop(subscription.id, None) is not None:
            self._counts.subscriptions -= 1
            self._ended[subscription.id] = subscription
            if len(self._ended) > self._most:
                self._forget(self._ended.pop(next(iter(self._ended))))

    async def settle(self) -> None:
        """Wait until pending acknowledgements are durable."""
        every = (*self._active.values(), *self._ended.values())
        if acks := [task for subscription in every for task in subscription.acks]:
            await asyncio.wait(acks, timeout=LAST_ACKS)

    def close(self) -> None:
        """End all subscriptions."""
        self._counts.subscriptions -= len(self._active)
        self._active.clear()
        self._ended.clear()
        self._group.close()

    async def _add(self, name: str, frame: Subscribe | Listen) -> Span | None:
        if isinstance(frame, Subscribe):
            return await self._group.add(name, frame.topic, frame.client_id, frame.after)
        _check_types(frame.types)
        sessions = None if frame.sessions is msgspec.UNSET else frame.sessions
        if sessions == ():
            raise InvalidInputError("`sessions` names no session; leave it out to listen to all")
        await self._group.add_listener(name, frame.types, frame.after, sessions)
        return None

    def _forget(self, subscription: ClientSubscription | None) -> None:
        if subscription is not None:
            self._group.remove(subscription.name)


def _check_types(types: tuple[str, ...] | None) -> None:
    if types is not None and not types:
        raise InvalidInputError("`types` names no type; leave it out to listen to all")
    for type_ in types or ():
        kind = CATALOGUE.get(type_)
        if kind is None:
            raise UnknownEventTypeError(type_, CATALOGUE)
        if kind.source == "command":
            raise InvalidInputError(
                f"{type_!r} cannot be listened to: requests and responses are between a client and the server"
            )
