"""The events of one session of a remote runtime: an iterator for threads, one for asyncio, acknowledgements."""

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
from reenact.client.following import Following
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
"""Events, and bytes of JSON, that a subscription holds until they are asked for."""
GATHERED = 100
GATHERED_FOR = 1.0
"""So many events, or so many seconds, are acknowledged together, unless the consumer waits for more."""


class RemoteSubscription:
    """The events of one session, each once and in order, from behind a cursor on: those that were, then those to come.

    Iterate over it, with `for` or `async for`; or ask with `next` and `take`. It goes on by itself where it was when
    the connection was lost. It ends when the runtime closes and what has come is handed out, after `session_deleted`,
    or by `unsubscribe`, which leaving its `with` block does, too, and, within seconds, letting go of it. It is for one
    consumer.

    If it acknowledges by itself, it does so with what was handed out before the event that is asked for.

    Asking raises `ProtocolError` if the server has left out events, and `AuthenticationError` if it does not know the
    token any more.
    """

    _unsaid = 0
    _restless = 0

    def __init__(
        self, link: Link, topic: str, client_id: str | None, after: int | None, *, auto_ack: bool, timeout: float | None
    ) -> None:
        self.topic: Final = topic
        """The session's id."""
        self.client_id: Final = client_id
        """Under which name its acknowledgements are kept."""
        self.cursor = 0 if after is None else after
        """The cursor of the last event that was handed out; at first the one it begins behind."""
        self._link = link
        self._auto_ack = auto_ack and client_id is not None
        self._timeout = timeout
        self._late = f"no answer came within {timeout} s; it may be acknowledged all the same"
        self._buffer: Buffer[tuple[int, str, bytes]] = Buffer(MOST, MOST_BYTES)
        self._said_at = time.monotonic()
        self._following = Following(link, topic, client_id, after, self._buffer)
        self.standing: Final = self._following.standing
        """Done when it stands, with the cursor that it begins behind."""
        weakref.finalize(self, link.abandoned.append, self._following).atexit = False

    def open(self) -> None:
        """Begin."""
        self._link.call(self._link.join, self._following)

    @property
    def closed(self) -> bool:
        """Whether nothing more comes."""
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
        self._is_asked()
        self._restless += 1
        if self._restless > REST:
            self._restless = 0
            await asyncio.sleep(0)
        while (event := self._buffer.look()) is None:
            if self._ended():
                raise StopAsyncIteration
            self._restless = 0
            await self._buffer.arrive()
        return self._hand_out(event)

    def next(self, timeout: float | None = None) -> RuntimeEvent | None:
        """Return the next event; None if none has come within so many seconds, or none will.

        Raises:
            ProtocolError: the server has left out events; subscribe again.
            AuthenticationError: the server does not know the token any more.
            InvalidInputError: the timeout is not a number.
        """
        seconds = seconds_of(timeout)
        deadline = None if seconds is None else time.monotonic() + seconds
        self._is_asked()
        while (event := self._buffer.look()) is None:
            if self._ended() or not self._buffer.come(_left(deadline)):
                return None
        return self._hand_out(event)

    def take(self, limit: int = 1000) -> list[RuntimeEvent]:
        """Return what there is, at most so many events, without waiting for more.

        What the session had when it was subscribed to is waited for, also on an event loop, for it is there: if it has
        not come in time, what has come is returned.

        Raises:
            ProtocolError: the server has left out events; subscribe again.
            AuthenticationError: the server does not know the token any more.
            InvalidInputError: the limit is not a number above 0.
            RequestTimeoutError: nothing of it has come in time.
        """
        return self.gather(limit, waits=True)

    def gather(self, limit: int, *, waits: bool) -> list[RuntimeEvent]:
        """Do as `take`; if it is not to wait, return what has come."""
        check_count(limit)
        self._is_asked()
        until = None if self._timeout is None else time.monotonic() + self._timeout
        taken: list[RuntimeEvent] = []
        while len(taken) < limit:
            event = self._buffer.look()
            if event is not None:
                taken.append(self._hand_out(event))
            elif not waits or self._buffer.is_done or not self._is_behind(until):
                break
            elif not self._buffer.come(_left(until)):
                if taken:  # who asks again hears of it
                    break
                raise RequestTimeoutError(f"events of {self.topic!r} have not come within {self._timeout} s")
        if not taken:
            self._ended()
        return taken

    def _is_behind(self, until: float | None) -> bool:
        """Return whether the session had more when it was subscribed to; wait for the server to say so."""
        with contextlib.suppress(TimeoutError, ReenactError):
            self.standing.result(_left(until))
        return not self.standing.done() or self.cursor < self._following.reaches

    def ack(self, cursor: int | None = None) -> None:
        """Acknowledge the events up to this cursor, by default up to the last that was handed out.

        It is durable when this returns: a later subscription under the client id begins behind it. An older cursor than
        one that is acknowledged already is ignored.

        Raises:
            InvalidInputError: there is no client id, or no event of this cursor was handed out.
            RequestTimeoutError: the server did not say so in time; it may be durable all the same.
            StorageError: the log cannot be written.
            RuntimeClosedError: the runtime is closed.
        """
        self._link.result(self._acknowledge(cursor), self._timeout, self._late)

    async def aack(self, cursor: int | None = None) -> None:
        """Do the same as `ack` without blocking the event loop."""
        await self._link.result_async(self._acknowledge(cursor), self._timeout, self._late)

    def when_more(self, waiter: Callable[[], object]) -> Callable[[], object]:
        """Have the waiter called, on any thread, when there may be more, or nothing more comes; return what forgets it.

        It must return at once, and is called at once if there is more.
        """
        return self._buffer.watch(waiter)

    def unsubscribe(self) -> None:
        """End it, and wake who waits for it. Idempotent.

        What it acknowledges by itself is durable when this returns. On an event loop, where nothing may wait, it
        becomes so a moment later: the end of an `async with` block awaits it. If there is no connection, or no answer
        in time, it is said on the next one.
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
        """Begin to end it; return what is done when what was dealt with is acknowledged."""
        self._buffer.close()
        left: Future[None] = Future()
        self._link.call(self._following.leave, left)
        return left

    def _is_asked(self) -> None:
        """Take what was handed out for dealt with, and have it acknowledged when it is enough."""
        if self._auto_ack:
            self._buffer.dealt_with = self.cursor
        if self._unsaid >= GATHERED or (self._unsaid and time.monotonic() - self._said_at >= GATHERED_FOR):
            self._say()

    def _say(self) -> None:
        """Have what was dealt with acknowledged, some time."""
        self._said_at = time.monotonic()
        if self._auto_ack and self._unsaid:
            with contextlib.suppress(RuntimeClosedError):
                self._link.call(self._following.ack, self._buffer.dealt_with, None)
        self._unsaid = 0

    def _ended(self) -> bool:
        """Return whether nothing more comes, or raise why. The consumer has nothing to do but to wait."""
        self._say()
        error = self._buffer.error
        if error is not None:
            raise type(error)(*error.args)
        return self._buffer.is_done

    def _hand_out(self, event: tuple[int, str, bytes]) -> RuntimeEvent:
        try:
            envelope = read_envelope(event[2], event[1])
        except ProtocolError as error:
            self.unsubscribe()
            self._buffer.error = error
            raise
        self.cursor = event[0]
        self._unsaid += 1
        return envelope

    def _acknowledge(self, cursor: int | None) -> Future[None]:
        checked = self._check(self.cursor if cursor is None else cursor)
        done: Future[None] = Future()
        if checked == self.cursor:
            self._unsaid = 0
        self._link.call(self._following.ack, checked, done)
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


def _left(until: float | None) -> float | None:
    """Return the seconds that are left; None is without limit."""
    return None if until is None else until - time.monotonic()
