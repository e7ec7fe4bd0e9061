"""A subscription to a session: its events one after the other, for threads and for asyncio, and acknowledgements."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final, Self

from reenact.actors.feed.consumers import Consumer, log_unacknowledged, named
from reenact.actors.feed.topic import FollowerPosition, Need
from reenact.actors.feed.waking import ANY_THREAD, Alarm, EventLoops, Waiter, Waker, is_on_loop, set_result
from reenact.domain.errors import InvalidInputError, RuntimeClosedError, StorageError
from reenact.domain.operations.table import RuntimeEvent
from reenact.domain.plain import seconds_of
from reenact.domain.stream.events import Envelope, SessionDeleted

GATHERED = 100
"""So many events are acknowledged together, if that is done by itself; fewer when there is nothing else to do."""
AT_ONCE = 256
"""About how many events of those just published a subscription takes at a time."""
REST = 1024
"""After so many events without a pause, one that is awaited lets other tasks of the loop go on."""

_LAST = SessionDeleted.event_type


class Subscription:
    """The events of one session, each once and in order, from behind a cursor on: those that were, then those to come.

    Iterate over it, with `for` or `async for`; or ask with `next` and `take`. It ends when the runtime closes and all
    is handed out, after `session_deleted`, or by `unsubscribe`, which leaving its `with` block does, too. It is for one
    consumer: of two threads that ask the same one, each gets other events.

    Where the log cannot be read, asking raises `StorageError`; nothing is lost, and it can be asked again. If there is
    more in the log when the runtime is closed, asking raises `RuntimeClosedError`.
    """

    def __init__(self, position: FollowerPosition, loops: EventLoops, *, auto_ack: bool = False) -> None:
        position.belongs_to(self)
        self.topic: Final = position.session_id
        """The session's id."""
        self.cursor = position.ahead
        """The cursor of the last event that was handed out; at first the one it begins behind."""
        self._position = position
        self._loops = loops
        self._lock = threading.Lock()
        self._buffer: list[RuntimeEvent] = []
        self._index = 0
        self._is_all = False
        """Whether nothing more was published when the buffer was filled."""
        self._is_over = position.is_over
        self._loading: concurrent.futures.Future[None] | None = None
        """The reading of a page on another thread; one who gave up may have begun it."""
        self._waiters: dict[Waiter, Waker] = {}
        """Who waits for the next event. Only single operations on it, which are atomic."""
        self._restless = 0
        self._auto_ack = auto_ack and position.consumer is not None
        self._begin = position.ahead

    @property
    def client_id(self) -> str | None:
        """Under which name its acknowledgements are kept."""
        consumer = self._consumer
        return None if consumer is None else consumer.client_id

    @property
    def closed(self) -> bool:
        """Whether nothing more comes."""
        with self._lock:
            return self._is_over or (self._index == len(self._buffer) and self._position.look(1)[0] is Need.OVER)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> RuntimeEvent:
        if self._auto_ack:
            self._is_asked()
        envelope = self._pop()
        if envelope is None:
            envelope = self._come(None)
            if envelope is None:
                raise StopIteration
        return envelope

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RuntimeEvent:
        if self._auto_ack:
            self._is_asked()
        envelope = self._pop()
        if envelope is None:
            envelope = await self._arrive()
            if envelope is None:
                raise StopAsyncIteration
        return envelope

    def next(self, timeout: float | None = None) -> RuntimeEvent | None:
        """Return the next event; None if none has come within so many seconds, or none will.

        Raises:
            StorageError: the log cannot be read; ask again.
            RuntimeClosedError: the runtime is closed, and there is more in the log.
            InvalidInputError: the timeout is not a number.
        """
        seconds = seconds_of(timeout)
        deadline = None if seconds is None else time.monotonic() + seconds
        if self._auto_ack:
            self._is_asked()
        return self._come(deadline)

    def take(self, limit: int = 1000) -> list[RuntimeEvent]:
        """Return what there is, at most so many events, without waiting for more.

        Raises:
            StorageError: the log cannot be read; ask again.
            RuntimeClosedError: the runtime is closed, and there is more in the log.
            InvalidInputError: the limit is not a number above 0.
        """
        check_count(limit)
        if self._auto_ack:
            self._is_asked()
        taken: list[RuntimeEvent] = []
        while True:
            try:
                with self._lock:
                    is_anew = self._index == len(self._buffer)
                    need = self._advance()
                    after = self._position.ahead
                    self._slice(taken, limit)
                if len(taken) == limit or need is Need.NEWS or need is Need.OVER or (is_anew and self._is_all):
                    if not taken:
                        self._position.acknowledge()
                    return taken
                if need is Need.LOG:
                    self._load(after)
            except Exception:
                if taken:  # who asks again hears of it
                    return taken
                raise

    def gather(self, limit: int, *, waits: bool) -> list[RuntimeEvent]:
        """Do as `take`: what there is is here, and need not be waited for."""
        return self.take(limit)

    def ack(self, cursor: int | None = None) -> None:
        """Acknowledge the events up to this cursor, by default up to the last that was handed out.

        It is durable when this returns: a later subscription under the client id begins behind it. An older cursor than
        one that is acknowledged already is ignored.

        Raises:
            InvalidInputError: there is no client id, or no event of this cursor was handed out.
            StorageError: the log cannot be written.
            RuntimeClosedError: it is closed.
        """
        named(self._consumer, self.topic).ack(self.cursor if cursor is None else cursor, self.cursor)

    async def aack(self, cursor: int | None = None) -> None:
        """Do the same as `ack` without blocking the event loop."""
        waker = self._loops.waker(asyncio.get_running_loop())
        await named(self._consumer, self.topic).aack(self.cursor if cursor is None else cursor, self.cursor, waker)

    def when_more(self, waiter: Waiter) -> Callable[[], object]:
        """Have the waiter called, on any thread, when there may be more, or nothing more comes; return what forgets it.

        It must return at once, and is called at once if there is more.
        """
        need, after = self._look()
        if need is not Need.NEWS:
            waiter()
            return _nothing
        if not self._begin_to_wait(waiter, ANY_THREAD, after):
            waiter()
        return partial(self._end_wait, waiter, ANY_THREAD)

    def unsubscribe(self) -> None:
        """End it, and wake who waits for it. Idempotent.

        What it acknowledges by itself is durable when this returns. On an event loop, where nothing may wait, it
        becomes so a moment later: the end of an `async with` block awaits it. What fails is logged.
        """
        with self._leaving():
            if is_on_loop():
                self._position.acknowledge()
            elif (owing := self._owing()) is not None:
                owing.ack(self._position.dealt_with, self.cursor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.unsubscribe()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        with self._leaving():
            if (owing := self._owing()) is not None:
                waker = self._loops.waker(asyncio.get_running_loop())
                await owing.aack(self._position.dealt_with, self.cursor, waker)

    @contextlib.contextmanager
    def _leaving(self) -> Generator[None]:
        """Hand out nothing more, and wake who waits; then, in the block, have acknowledged what is owed; and leave."""
        with self._lock:
            self._is_over = True
            self._buffer, self._index = [], 0
        for waiter, waker in list(self._waiters.items()):
            waker.wake((waiter,))
        try:
            with contextlib.suppress(RuntimeClosedError):  # what was dealt with before it closed is acknowledged
                yield
        except StorageError as error:
            log_unacknowledged(error)
        finally:
            self._position.leave()

    def _owing(self) -> Consumer | None:
        """Return the consumer if not all that it has dealt with is acknowledged, durably."""
        consumer = self._consumer
        return None if consumer is None or self._position.dealt_with <= consumer.acknowledged else consumer

    @property
    def _consumer(self) -> Consumer | None:
        return self._position.consumer

    def _is_asked(self) -> None:
        """Take what was handed out for dealt with; have it acknowledged when it is enough."""
        consumer = self._consumer
        if consumer is not None and self.cursor > self._begin:
            self._position.dealt_with = self.cursor
            if self.cursor - max(self._begin, consumer.said) >= GATHERED:
                self._position.acknowledge()

    def _pop(self) -> RuntimeEvent | None:
        """Hand out the next event that is at hand."""
        with self._lock:
            index = self._index
            if index == len(self._buffer):
                return None
            envelope = self._buffer[index]
            self._index = index + 1
            self.cursor = envelope.cursor or 0
            if envelope.type == _LAST:
                self._end()
            return envelope

    def _slice(self, taken: list[RuntimeEvent], limit: int) -> None:
        start = self._index
        stop = self._index = min(len(self._buffer), start + limit - len(taken))
        if stop > start:
            taken += self._buffer[start:stop]
            self.cursor = taken[-1].cursor or 0
            if taken[-1].type == _LAST:
                self._end()

    def _end(self) -> None:
        self._is_over = True
        self._position.leave()

    def _look(self) -> tuple[Need, int]:
        """Take what was published to hand; return what is needed to go on, and from behind which cursor."""
        with self._lock:
            return self._advance(), self._position.ahead

    def _advance(self) -> Need:
        if self._index < len(self._buffer):
            return Need.NOTHING
        if self._is_over:
            return Need.OVER
        position = self._position
        need, chunks = position.look(AT_ONCE)
        if need is Need.NOTHING:
            start = position.ahead + 1 - chunks[0].first
            if len(chunks) == 1:
                self._fill(chunks[0].envelopes(), start)
            else:
                self._fill([envelope for chunk in chunks for envelope in chunk.envelopes()], start)
            self._is_all = len(self._buffer) < AT_ONCE
        else:
            self._fill([], 0)
            if need is Need.OVER:
                self._end()
        return need

    def _fill(self, envelopes: list[Envelope[Any, Any]], start: int) -> None:
        self._buffer, self._index = envelopes, start
        self._is_all = False
        if envelopes:
            self._position.ahead = envelopes[-1].cursor or 0

    def _load(self, after: int) -> None:
        """Take a page of the log to hand, unless somebody else has come further meanwhile."""
        page, start = self._position.pages.read(after)
        with self._lock:
            if self._position.ahead == after and not self._is_over:
                self._fill(page.envelopes, start)

    def _come(self, deadline: float | None) -> RuntimeEvent | None:
        """Wait for the next event; None if none comes until the deadline, or none will."""
        while True:
            envelope = self._pop()
            if envelope is not None:
                return envelope
            need, after = self._look()
            match need:
                case Need.NOTHING:
                    pass
                case Need.LOG:
                    self._load(after)
                case Need.NEWS:
                    self._position.acknowledge()
                    seconds = None if deadline is None else deadline - time.monotonic()
                    if seconds is not None and seconds <= 0:
                        return None
                    self._wait(after, seconds)
                case Need.OVER:
                    self._position.acknowledge()
                    return None

    def _wait(self, after: int, seconds: float | None) -> None:
        alarm = Alarm()
        try:
            if self._begin_to_wait(alarm.ring, ANY_THREAD, after):
                alarm.wait(seconds)
        finally:
            self._end_wait(alarm.ring, ANY_THREAD)

    async def _arrive(self) -> RuntimeEvent | None:
        """Do what `_come` does, and leave the loop to others meanwhile."""
        while True:
            envelope = self._pop()
            if envelope is not None:
                return envelope
            need, after = self._look()
            match need:
                case Need.NOTHING:
                    self._restless += len(self._buffer)
                    if self._restless > REST:
                        self._restless = 0
                        await asyncio.sleep(0)
                case Need.LOG:
                    self._restless = 0
                    await self._load_in_thread(after)
                case Need.NEWS:
                    self._restless = 0
                    self._position.acknowledge()
                    await self._await(after)
                case Need.OVER:
                    self._position.acknowledge()
                    return None

    async def _await(self, after: int) -> None:
        loop = asyncio.get_running_loop()
        waker = self._loops.waker(loop)
        future: asyncio.Future[None] = loop.create_future()
        waiter = partial(set_result, future, None)
        try:
            if self._begin_to_wait(waiter, waker, after):
                await future
        finally:
            self._end_wait(waiter, waker)

    async def _load_in_thread(self, after: int) -> None:
        """Have the page read on another thread, unless that is under way; wait for it, or for the end."""
        if self._loading is None or self._loading.done():
            self._loading = self._loops.in_thread(self._load, after)
        loading, loop = self._loading, asyncio.get_running_loop()
        waker = self._loops.waker(loop)
        future: asyncio.Future[None] = loop.create_future()
        waiter = partial(set_result, future, None)
        self._waiters[waiter] = waker
        try:
            if not self._is_over:  # as in `_begin_to_wait`
                loading.add_done_callback(lambda _: waker.wake((waiter,)))
                await future
        finally:
            del self._waiters[waiter]
        if loading.done():
            loading.result()

    def _begin_to_wait(self, waiter: Waiter, waker: Waker, after: int) -> bool:
        """Have the waiter called when there may be more; False if there is, or nothing will be."""
        self._waiters[waiter] = waker  # before it is looked whether it is over: `unsubscribe` does both the other way
        return not self._is_over and self._position.topic.wait(waker, waiter, after)

    def _end_wait(self, waiter: Waiter, waker: Waker) -> None:
        del self._waiters[waiter]
        self._position.topic.forget(waker, waiter)


def _nothing() -> None:
    """Forget nothing."""


def check_count(limit: object) -> None:
    """Raise `InvalidInputError` unless so many events can be taken."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        message = f"take() returns up to `limit` events, 1 or more, not {limit!r}"
        raise InvalidInputError(message)
