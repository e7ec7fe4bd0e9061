"""A subscription on the link's thread: its state at the server, and the next frame to send for it."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial

import msgspec

from reenact.client.asking import DELETED, Batch, read_head, step_to
from reenact.client.link import Follower, Link, Told
from reenact.client.thread import Buffer, closed, reject, resolve
from reenact.domain.errors import NotFoundError, ProtocolError, ReenactError, RuntimeClosedError, from_wire
from reenact.domain.stream.frames import Ack, Acked, Refused, Subscribe, Subscribed, Unsubscribe, Welcome

_DELETED = "deleted"
"""The reason of an end after which the subscription is not resumed; after any other it is, on the next connection."""


class Following(Follower):
    """A subscription. Events for which the buffer has no room are dropped, and requested again when it has.

    On each connection it has an id of its own, and a new one after it was ended for a lack of room. Used on the link's
    thread.
    """

    reaches = 0
    """The cursor of the session's last event at the time of the subscription, as the server reported it."""
    _id: str | None = None
    _stands = False
    _over = False  # the last event has arrived
    _has_parted = False

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
        buffer.on_room = partial(link.call, self.go_on)
        self._wanted = self._sent = self._durable = 0
        self._acks: list[tuple[int, Future[None]]] = []
        self._leavers: list[Future[None]] = []

    def fail(self, error: ReenactError) -> None:
        """End the subscription because of an error."""
        self._over = True
        self._buffer.end(error)
        reject(self.standing, error)
        self._settle_acks(error)
        self._drop()
        self._part()

    def leave(self, done: Future[None] | None = None) -> None:
        """Send the pending acknowledgements, and end the subscription.

        `done` is settled when these are durable, or when there is no connection on which they could be sent at present.
        """
        self._wanted = max(self._wanted, self._buffer.dealt_with)
        self._left = True
        if done is not None:
            self._leavers.append(done)
        self._let_go()
        self._link.speak(self)

    def owes(self) -> bool:
        """Return whether an acknowledgement on this connection is not durable yet."""
        return self._id is not None and self._wanted > self._durable

    def acknowledge_handled(self) -> None:
        """Acknowledge the events that the consumer has processed, without waiting for it."""
        if not self._left:
            self.ack(self._buffer.dealt_with, None)

    def ack(self, cursor: int, done: Future[None] | None) -> None:
        """Acknowledge everything up to the cursor; `done` is settled when that is durable."""
        if cursor <= self._durable or self._is_gone():
            if done is not None:
                resolve(done, None)
            return
        self._wanted = max(self._wanted, cursor)
        if done is not None:
            self._acks.append((cursor, done))
        if self._has_parted:
            self._has_parted = False
            self._link.join(self)  # to send this
        self._link.speak(self)

    def say(self, welcome: Welcome) -> bytes | None:
        """Return the next frame; see `Follower.say`."""
        if self._id is None:
            return self._say_anew()
        if self._stands and self._wanted > self._sent:
            self._sent = self._wanted
            return msgspec.json.encode(Ack(id=self._id, cursor=self._wanted))
        if not self._acks and (self._left or self._deaf) and not (self._left and self.owes()):
            frame = msgspec.json.encode(Unsubscribe(id=self._id))
            self._drop()
            if self._left:
                self._part()
            return frame
        return None

    def hear(self, told: Told) -> None:
        """Handle a frame, or one of its batches; see `Follower.hear`."""
        match told:
            case Subscribed():
                self._stand(told)
            case Batch():
                self._take(told)
            case Acked():
                self._durable = max(self._durable, told.cursor)
                self._settle_acks(None)
                self._link.speak(self)
            case Refused():
                self._refused(told)
            case _:
                self._over = self._over or told.reason == _DELETED
                self._put_off()
                if self._over:
                    self._buffer.end(None)
        self._let_go()

    def _say_anew(self) -> bytes | None:
        unsaid = self._wanted > self._durable and not self._over
        if self._left and not unsaid:
            self._part()
            return None
        if self._over or self._later or (self._full and not self._acks and not self._left):
            return None
        self._id = self._link.take_id(self)
        return msgspec.json.encode(
            Subscribe(id=self._id, topic=self._topic, client_id=self._client_id, after=self._received)
        )

    def _stand(self, subscribed: Subscribed) -> None:
        after = subscribed.after
        if after is None:
            raise ProtocolError(f"the server did not say where the subscription to {self._topic!r} begins")
        if self._received is None:
            self._received = self._durable = after
        elif after > self._received:
            self._give_up(ProtocolError(f"the server left out events of {self._topic!r}: it goes on behind {after}"))
        self._stands = True
        self.reaches = max(self.reaches, subscribed.end or 0)
        resolve(self.standing, self._received)
        self._link.speak(self)

    def _take(self, batch: Batch) -> None:
        if not self._stands or self._received is None:
            raise ProtocolError(f"the server sent events of {self._topic!r} before it said where they begin")
        for event in batch.events:
            if self._deaf or self._over or self._left:
                return
            head = read_head(event)
            try:
                cursor = step_to(self._received, head, event)
            except ProtocolError as error:
                self._give_up(error)
                return
            if cursor is None:
                continue
            if not self._buffer.offer((cursor, head.type, bytes(event)), len(bytes(event))):
                self._deaf = self._full = True
                self._link.speak(self)
                return
            self._received = cursor
            if head.type == DELETED:
                self._over = True
                self._buffer.end(None)

    def _refused(self, refused: Refused) -> None:
        error = from_wire(refused.code, refused.message)
        if isinstance(error, RuntimeClosedError):
            self._put_off()
        elif self._stands:  # a refusal for an existing subscription is about its acknowledgements
            self._wanted = self._sent = self._durable
            if self._over:
                self._drop()
            else:
                self._settle_acks(error)
                self._link.speak(self)  # a consumer that has left waits for nothing more
        else:
            if isinstance(error, NotFoundError):
                error.id = self._topic
            self.fail(error)

    def _give_up(self, error: ReenactError) -> None:
        """End because the server sent an invalid sequence, and unsubscribe."""
        self._over = self._left = True
        self._settle_acks(error)
        self._wanted = self._sent = self._durable
        self._buffer.end(error)
        self._link.speak(self)

    def _settle_acks(self, error: ReenactError | None) -> None:
        """Settle the acknowledgements that are durable; all of them after an error, or if the session is gone."""
        waiting, self._acks = self._acks, []
        for cursor, done in waiting:
            if cursor <= self._durable or (error is None and self._over and self._id is None):
                resolve(done, None)
            elif error is not None:
                reject(done, error)
            else:
                self._acks.append((cursor, done))

    def _let_go(self) -> None:
        """Settle the futures of consumers that have left, if no acknowledgement is pending."""
        if not self.owes():
            leavers, self._leavers = self._leavers, []
            for done in leavers:
                resolve(done, None)

    def _part(self) -> None:
        self._has_parted = True
        reject(self.standing, closed())  # for a caller that subscribes meanwhile
        self._link.part(self)
        self._buffer.end(None)

    def _put_off(self) -> None:
        self._drop()
        self._later = True

    def _drop(self) -> None:
        """Release the id on this connection, if there is one."""
        if self._id is not None:
            self._link.drop_id(self._id)
        self._id, self._stands, self._deaf = None, False, False
        self._sent = self._durable
        self._let_go()
        if self._is_gone():
            self._settle_acks(None)
            self._part()

    def _is_gone(self) -> bool:
        """Return whether nothing can be acknowledged any more, because the session is deleted."""
        return self._over and self._id is None
