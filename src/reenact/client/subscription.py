"""The events of one session of a remote runtime: for threads and asyncio, and the subscription on the link's thread."""

from __future__ import annotations

import asyncio
import contextlib
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Final

from reenact.actors.feed.consumers import check_cursor
from reenact.actors.feed.subscription import REST, EventIterator, check_count
from reenact.actors.feed.waking import is_on_loop
from reenact.client.asking import DELETED, Batch, encoded, next_cursor, read_envelope, read_head
from reenact.client.link import Follower, FollowerFrame, Link
from reenact.client.thread import Buffer, closed, reject, resolve
from reenact.domain.errors import (
    InvalidInputError,
    NotFoundError,
    ProtocolError,
    ReenactError,
    RequestTimeoutError,
    RuntimeClosedError,
    StorageError,
    from_wire,
)
from reenact.domain.operations.table import RuntimeEvent
from reenact.domain.plain import seconds_of
from reenact.domain.stream.frames import Ack, Acked, Refused, Subscribe, Subscribed, Unsubscribe, Welcome

MOST = 5000
MOST_BYTES = 4 * 1024 * 1024
"""Events, and bytes of JSON, that a subscription buffers until they are requested."""


class RemoteSubscription(EventIterator):
    """The events of one session after a cursor, each once and in order: first the past ones, then the new ones.

    Iterate over it, with `for` or `async for`; or call `next` and `take`. After a lost connection it continues where it
    was. It ends when the runtime closes and all received events have been handed out, after `session_deleted`, or by
    `unsubscribe`. Leaving its `with` block unsubscribes too, and so does, within seconds, dropping the last reference
    to it. It is for one consumer.

    If it acknowledges automatically, requesting an event acknowledges those that were handed out before.

    Requesting an event raises `ProtocolError` if the server has left out events, and `AuthenticationError` if it does
    not accept the token any more.
    """

    _since_pause = 0

    def __init__(
        self, link: Link, topic: str, client_id: str | None, after: int | None, *, auto_ack: bool, timeout: float | None
    ) -> None:
        self.topic: Final = topic
        """The session's id."""
        self.client_id: Final = client_id
        """The name under which its acknowledgements are stored."""
        self.cursor = 0 if after is None else after
        """The cursor of the last event that was handed out; at first the one after which it begins."""
        self._link = link
        self._auto_ack = auto_ack and client_id is not None
        self._timeout = timeout
        self._late = f"no answer came within {timeout} s; it may be acknowledged all the same"
        self._buffer: Buffer[tuple[int, str, bytes]] = Buffer(MOST, MOST_BYTES)
        self._follower = SessionFollower(link, topic, client_id, after, self._buffer)
        self.standing: Final = self._follower.standing
        """Done when the subscription is established, with the cursor after which it begins."""
        weakref.finalize(self, link.abandoned.append, self._follower).atexit = False

    def open(self) -> None:
        """Begin the subscription."""
        self._link.call(self._link.add, self._follower)

    @property
    def closed(self) -> bool:
        """Whether no more events come."""
        return self._buffer.is_done

    async def __anext__(self) -> RuntimeEvent:
        self._mark_handled()
        self._since_pause += 1
        if self._since_pause > REST:
            self._since_pause = 0
            await asyncio.sleep(0)
        while (event := self._buffer.pop()) is None:
            if self._is_finished():
                raise StopAsyncIteration
            self._since_pause = 0
            await self._buffer.wait_async()
        return self._hand_out(event)

    def next(self, timeout: float | None = None) -> RuntimeEvent | None:
        """Return the next event; None if none arrives within the given seconds, or none will.

        Raises:
            ProtocolError: the server has left out events; subscribe again.
            AuthenticationError: the server does not accept the token any more.
            InvalidInputError: the timeout is not a number.
        """
        seconds = seconds_of(timeout)
        deadline = None if seconds is None else time.monotonic() + seconds
        self._mark_handled()
        while (event := self._buffer.pop()) is None:
            if self._is_finished() or not self._buffer.wait(_seconds_left(deadline)):
                return None
        return self._hand_out(event)

    def take(self, limit: int = 1000) -> list[RuntimeEvent]:
        """Return the available events, at most `limit`, without waiting for new ones.

        Events that the session had when it was subscribed to are waited for, even on an event loop, because they exist:
        if they do not wait_async in time, the events that have arrived are returned.

        Raises:
            ProtocolError: the server has left out events; subscribe again.
            AuthenticationError: the server does not accept the token any more.
            InvalidInputError: the limit is not a number above 0.
            RequestTimeoutError: none of them arrived in time.
        """
        return self.gather(limit, waits=True)

    def gather(self, limit: int, *, waits: bool) -> list[RuntimeEvent]:
        """Do as `take`; if it is not to wait, return the events that have arrived."""
        check_count(limit)
        self._mark_handled()
        until = None if self._timeout is None else time.monotonic() + self._timeout
        taken: list[RuntimeEvent] = []
        while len(taken) < limit:
            event = self._buffer.pop()
            if event is not None:
                taken.append(self._hand_out(event))
            elif not waits or self._buffer.is_done or not self._is_behind(until):
                break
            elif not self._buffer.wait(_seconds_left(until)):
                if taken:  # the next call raises it
                    break
                raise RequestTimeoutError(f"events of {self.topic!r} have not come within {self._timeout} s")
        if not taken:
            self._is_finished()
        return taken

    def _is_behind(self, until: float | None) -> bool:
        """Return whether the session had more events when it was subscribed to; wait for the server to report that."""
        with contextlib.suppress(TimeoutError, ReenactError):
            self.standing.result(_seconds_left(until))
        return not self.standing.done() or self.cursor < self._follower.reaches

    def ack(self, cursor: int | None = None) -> None:
        """Acknowledge the events up to this cursor, by default up to the last one that was handed out.

        The acknowledgement is durable when this returns: a later subscription under the client id begins after it. A
        cursor that is older than the last acknowledged one is ignored.

        Raises:
            InvalidInputError: there is no client id, or no event of this cursor was handed out.
            RequestTimeoutError: the server did not confirm it in time; it may be durable nevertheless.
            StorageError: the log cannot be written.
            RuntimeClosedError: the runtime is closed.
        """
        self._link.result(self._acknowledge(cursor), self._timeout, self._late)

    async def aack(self, cursor: int | None = None) -> None:
        """Do the same as `ack` without blocking the event loop."""
        await self._link.result_async(self._acknowledge(cursor), self._timeout, self._late)

    def when_more(self, waiter: Callable[[], object]) -> Callable[[], object]:
        """Call the waiter, on any thread, when there may be events, or at the end; return a function that removes it.

        The waiter must return at once. It is called at once if there are events already.
        """
        return self._buffer.watch(waiter)

    def unsubscribe(self) -> None:
        """End the subscription, and wake a waiting consumer. Idempotent.

        Automatic acknowledgements are durable when this returns. On an event loop, where this must not wait, they
        become so a moment later: the end of an `async with` block awaits that. If there is no connection, or no answer
        in time, they are sent on the next connection.
        """
        with contextlib.suppress(RuntimeClosedError, RequestTimeoutError):
            left = self._leave()
            if self._auto_ack and not is_on_loop():
                self._link.result(left, self._timeout, self._late)

    async def __aexit__(self, *exc: object) -> None:
        with contextlib.suppress(RuntimeClosedError, RequestTimeoutError):
            await self._link.result_async(self._leave(), self._timeout, self._late)

    def _leave(self) -> Future[None]:
        """Begin to end the subscription; return a future that is done when its acknowledgements are durable."""
        self._buffer.close()
        left: Future[None] = Future()
        self._link.call(self._follower.leave, left)
        return left

    def _mark_handled(self) -> None:
        """Treat the events that were handed out as processed; the link's thread acknowledges them soon."""
        if self._auto_ack:
            self._buffer.dealt_with = self.cursor

    def _is_finished(self) -> bool:
        """Return whether no event is left and no more come, or raise the reason for it."""
        if not self._buffer.is_done:
            return False
        error = self._buffer.error
        if error is not None:
            raise type(error)(*error.args)
        return True

    def _hand_out(self, event: tuple[int, str, bytes]) -> RuntimeEvent:
        try:
            envelope = read_envelope(event[2], event[1])
        except ProtocolError as error:
            self.unsubscribe()
            self._buffer.error = error
            raise
        self.cursor = event[0]
        return envelope

    def _acknowledge(self, cursor: int | None) -> Future[None]:
        checked = self._check(self.cursor if cursor is None else cursor)
        done: Future[None] = Future()
        self._link.call(self._follower.ack, checked, done)
        return done

    def _check(self, cursor: object) -> int:
        if self.client_id is None:
            raise InvalidInputError(
                f"nothing of {self.topic!r} can be acknowledged without a client id; give one when you subscribe"
            )
        checked = check_cursor("what is acknowledged", cursor)
        if checked > self.cursor:
            raise InvalidInputError(
                f"only delivered events can be acknowledged: those of {self.topic!r} up to {self.cursor}, not {checked}"
            )
        return checked


def _seconds_left(until: float | None) -> float | None:
    """Return the seconds that are left; None means no limit."""
    return None if until is None else until - time.monotonic()


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
