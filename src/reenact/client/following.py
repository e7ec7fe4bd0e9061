"""A subscription on the link's thread: its state at the server, and the next frame to send for it."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial

from reenact.client.asking import DELETED, Batch, encoded, next_cursor, read_head
from reenact.client.link import Follower, FollowerFrame, Link
from reenact.client.thread import Buffer, closed, reject, resolve
from reenact.domain.errors import (
    NotFoundError,
    ProtocolError,
    ReenactError,
    RuntimeClosedError,
    StorageError,
    from_wire,
)
from reenact.domain.stream.frames import Ack, Acked, Refused, Subscribe, Subscribed, Unsubscribe, Welcome

_DELETED = "deleted"
"""The reason of an end after which the subscription is not resumed; after any other it is, on the next connection."""


class SessionFollower(Follower):
    """A subscription. Events for which the buffer has no room are dropped, and requested again when it has.

    On each connection it has an id of its own, and a new one after it was ended for a lack of room. Used on the link's
    thread.
    """

    reaches = 0
    """The cursor of the session's last event at the time of the subscription, as the server reported it."""
    _id: str | None = None
    _is_established = False
    _is_over = False  # the last event has arrived
    _is_detached = False

    def __init__(
        self, link: Link, topic: str, client_id: str | None, after: int | None, buffer: Buffer[tuple[int, str, bytes]]
    ) -> None:
        super().__init__(link)
        self.standing: Future[int] = Future()
        """Done with the cursor after which the subscription begins, or with the error for which it was refused."""
        self._topic = topic
        self._client_id = client_id
        self._received = after
        self._buffer = buffer
        buffer.on_room = partial(link.call, self.resume)
        self._wanted = self._sent = self._durable = 0
        self._acks: list[tuple[int, Future[None]]] = []
        self._leavers: list[Future[None]] = []

    def fail(self, error: ReenactError) -> None:
        """End the subscription because of an error."""
        self._is_over = True
        self._buffer.end(error)
        reject(self.standing, error)
        self._settle_acks(error)
        self._drop()
        self._detach()

    def leave(self, done: Future[None] | None = None) -> None:
        """Send the pending acknowledgements, and end the subscription.

        `done` is settled when these are durable, or when there is no connection on which they could be sent at present.
        """
        self._wanted = max(self._wanted, self._buffer.dealt_with)
        self._has_left = True
        if done is not None:
            self._leavers.append(done)
        self._settle_leavers()
        self._link.queue_sender(self)

    def has_unconfirmed(self) -> bool:
        """Return whether an acknowledgement on this connection is not durable yet."""
        return self._id is not None and self._wanted > self._durable

    def acknowledge_handled(self) -> None:
        """Acknowledge the events that the consumer has processed, without waiting for it."""
        if not self._has_left:
            self.ack(self._buffer.dealt_with, None)

    def ack(self, cursor: int, done: Future[None] | None) -> None:
        """Acknowledge everything up to the cursor; `done` is settled when that is durable."""
        if cursor <= self._durable:
            if done is not None:
                resolve(done, None)
            return
        self._wanted = max(self._wanted, cursor)
        if done is not None:
            self._acks.append((cursor, done))
        if self._is_detached:
            self._is_detached = False
            self._link.add(self)  # to send this
        self._link.queue_sender(self)

    def next_frame(self, welcome: Welcome) -> bytes | None:
        """Return the next frame; see `Follower.next_frame`."""
        if self._id is None:
            return self._subscribe_frame()
        if self._is_established and self._wanted > self._sent:
            self._sent = self._wanted
            return encoded(Ack(id=self._id, cursor=self._wanted))
        is_ending = not self.has_unconfirmed() if self._has_left else self._drops_events
        if is_ending and not self._acks:
            frame = encoded(Unsubscribe(id=self._id))
            self._drop()
            if self._has_left:
                self._detach()
            return frame
        return None

    def handle(self, frame: FollowerFrame) -> None:
        """Handle a frame, or one of its batches; see `Follower.handle`."""
        match frame:
            case Subscribed():
                self._establish(frame)
            case Batch():
                self._deliver(frame)
            case Acked():
                self._durable = max(self._durable, frame.cursor)
                self._settle_acks(None)
                self._link.queue_sender(self)
            case Refused():
                self._refused(frame)
            case _ if frame.reason == _DELETED:  # the server still takes acknowledgements under this id
                self._is_over = True
                self._buffer.end(None)
            case _:
                self._postpone()
        self._settle_leavers()

    def _subscribe_frame(self) -> bytes | None:
        unsaid = self._wanted > self._durable
        if self._has_left and not unsaid:
            self._detach()
            return None
        wants_nothing = self._is_over or (self._is_full and not self._acks and not self._has_left)
        if self._is_postponed or (wants_nothing and not unsaid):
            return None
        self._id = self._link.take_id(self)
        return encoded(Subscribe(id=self._id, topic=self._topic, client_id=self._client_id, after=self._received))

    def _establish(self, subscribed: Subscribed) -> None:
        after = subscribed.after
        if after is None:
            raise ProtocolError(f"the server did not say where the subscription to {self._topic!r} begins")
        if self._received is None:
            self._received = self._durable = after
        elif after > self._received:
            self._give_up(ProtocolError(f"the server left out events of {self._topic!r}: it goes on behind {after}"))
        self._is_established = True
        self.reaches = max(self.reaches, subscribed.end or 0)
        resolve(self.standing, self._received)
        self._link.queue_sender(self)

    def _deliver(self, batch: Batch) -> None:
        if not self._is_established or self._received is None:
            raise ProtocolError(f"the server sent events of {self._topic!r} before it said where they begin")
        for event in batch.events:
            if self._drops_events or self._is_over or self._has_left:
                return
            head = read_head(event)
            try:
                cursor = next_cursor(self._received, head, event)
            except ProtocolError as error:
                self._give_up(error)
                return
            if cursor is None:
                continue
            if not self._buffer.offer((cursor, head.type, bytes(event)), len(bytes(event))):
                self._drops_events = self._is_full = True
                self._link.queue_sender(self)
                return
            self._received = cursor
            if head.type == DELETED:
                self._is_over = True
                self._buffer.end(None)

    def _refused(self, refused: Refused) -> None:
        error = from_wire(refused.code, refused.message)
        if isinstance(error, RuntimeClosedError):
            self._postpone()
        elif self._is_established:  # a refusal for an existing subscription is about its acknowledgements
            self._wanted = self._sent = self._durable
            self._settle_acks(error)
            self._link.queue_sender(self)  # a consumer that has left waits for nothing more
        elif isinstance(error, StorageError) and self.standing.done():
            self.retry_later()
        else:
            if isinstance(error, NotFoundError):
                error.id = self._topic
            self.fail(error)

    def _give_up(self, error: ReenactError) -> None:
        """End because the server sent an invalid sequence, and unsubscribe."""
        self._is_over = self._has_left = True
        self._settle_acks(error)
        self._wanted = self._sent = self._durable
        self._buffer.end(error)
        self._link.queue_sender(self)

    def _settle_acks(self, error: ReenactError | None) -> None:
        """Settle the acknowledgements that are durable; all of them after an error."""
        waiting, self._acks = self._acks, []
        for cursor, done in waiting:
            if cursor <= self._durable:
                resolve(done, None)
            elif error is not None:
                reject(done, error)
            else:
                self._acks.append((cursor, done))

    def _settle_leavers(self) -> None:
        """Settle the futures of consumers that have left, if no acknowledgement is pending."""
        if not self.has_unconfirmed():
            leavers, self._leavers = self._leavers, []
            for done in leavers:
                resolve(done, None)

    def _detach(self) -> None:
        self._is_detached = True
        reject(self.standing, closed())  # for a caller that subscribes meanwhile
        self._link.remove(self)
        self._buffer.end(None)

    def _postpone(self) -> None:
        self._drop()
        self._is_postponed = True

    def _drop(self) -> None:
        """Release the id on this connection, if there is one."""
        if self._id is not None:
            self._link.drop_id(self._id)
        self._id, self._is_established, self._drops_events = None, False, False
        self._sent = self._durable
        self._settle_leavers()
