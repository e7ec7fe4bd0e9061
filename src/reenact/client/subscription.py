"""The events of one session of a remote runtime, with iterators for threads and asyncio, and acknowledgements."""

from __future__ import annotations

import asyncio
import contextlib
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, Self

from reenact.actors.feed.consumers import check_cursor
from reenact.actors.feed.subscription import REST, check_count
from reenact.actors.feed.waking import is_on_loop
from reenact.client.asking import read_envelope
from reenact.client.following import SessionFollower
from reenact.client.link import Link
from reenact.client.thread import Buffer
from reenact.domain.errors import (
    InvalidInputError,
    ProtocolError,
    ReenactError,
    RequestTimeoutError,
    RuntimeClosedError,
)
from reenact.domain.operations.table import RuntimeEvent
from reenact.domain.plain import seconds_of

MOST = 5000
MOST_BYTES = 4 * 1024 * 1024
"""Events, and bytes of JSON, that a subscription buffers until they are requested."""


class RemoteSubscription:
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

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> RuntimeEvent:
        envelope = self.next()
        if envelope is None:
            raise StopIteration
        return envelope

    def __aiter__(self) -> Self:
        return self

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.unsubscribe()

    async def __aenter__(self) -> Self:
        return self

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
