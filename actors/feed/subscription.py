"""A subscription to a session: its events in order, for threads and asyncio, with acknowledgements."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final, Self

from reenact.actors.feed.consumers import Consumer, log_unacknowledged, named
from reenact.actors.feed.topic import FollowerPosition, Need
from reenact.actors.feed.waking import ANY_THREAD, Alarm, EventLoops, Waiter, Waker, is_on_loop, set_result
from reenact.domain.errors import InvalidInputError, RuntimeClosedError, StorageError, shown
from reenact.domain.operations.table import RuntimeEvent
from reenact.domain.plain import seconds_of
from reenact.domain.stream.events import Envelope, SessionDeleted

GATHERED = 100
"""How many events are acknowledged together by automatic acknowledgement; fewer when there is nothing else to do."""
AT_ONCE = 256
"""About how many published events a subscription takes at a time."""
REST = 1024
"""After this many events without a pause, an awaited subscription lets other tasks of the loop run."""

_LAST = SessionDeleted.event_type


class EventIterator(ABC):
    """Events for one consumer: to iterate over with `for` or `async for`, until its `with` block is left."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether no more events will come."""

    @abstractmethod
    def next(self, timeout: float | None = None) -> RuntimeEvent | None:
        """Return the next event; None if none comes within the timeout, or no more will."""

    @abstractmethod
    async def __anext__(self) -> RuntimeEvent: ...

    @abstractmethod
    def unsubscribe(self) -> None:
        """End it, and wake a waiting consumer. Idempotent."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> RuntimeEvent:
        envelope = self.next()
        if envelope is None:
            raise StopIteration
        return envelope

    def __aiter__(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.unsubscribe()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.unsubscribe()


class Subscription(EventIterator):
    """The events of one session after a cursor, each once and in order: the past ones, then new ones.

    Iterate with `for` or `async for`, or call `next` and `take`. The subscription ends when the runtime closes and all
    events are delivered, after `session_deleted`, or by `unsubscribe`, which leaving its `with` block calls. It is for
    one consumer: two threads that read it get different events.

    If the log cannot be read, the call raises `StorageError`; nothing is lost, and it can be repeated. If there is more
    in the log when the runtime is closed, the call raises `RuntimeClosedError`.
    """

    def __init__(self, position: FollowerPosition, loops: EventLoops, *, auto_ack: bool = False) -> None:
        position.belongs_to(self)
        self.topic: Final = position.session_id
        """The session's id."""
        self.cursor = position.ahead
        """The cursor of the last delivered event; at first the one after which it begins."""
        self._position = position
        self._loops = loops
        self._lock = threading.Lock()
        self._buffer: list[RuntimeEvent] = []
        self._index = 0
        self._has_drained_topic = False
        """Whether nothing more was published when the buffer was filled."""
        self._is_over = position.is_over
        self._loading: concurrent.futures.Future[None] | None = None
        """The reading of a page on another thread, possibly begun for a call that was cancelled."""
        self._waiters: dict[Waiter, Waker] = {}
        """The waiters for the next event. Used only by single, atomic operations."""
        self._since_pause = 0
        self._auto_ack = auto_ack and position.consumer is not None
        self._begin = position.ahead

    @property
    def client_id(self) -> str | None:
        """The client id under which acknowledgements are kept."""
        consumer = self._consumer
        return None if consumer is None else consumer.client_id

    @property
    def closed(self) -> bool:
        """Whether no more events will come."""
        with self._lock:
            return self._is_over or (self._index == len(self._buffer) and self._position.look(1)[0] is Need.OVER)

    def __next__(self) -> RuntimeEvent:
        if self._auto_ack:
            self._mark_delivered_handled()
        envelope = self._pop_buffered()
        if envelope is None:
            envelope = self._wait_for_event(None)
            if envelope is None:
                raise StopIteration
        return envelope

    async def __anext__(self) -> RuntimeEvent:
        if self._auto_ack:
            self._mark_delivered_handled()
        envelope = self._pop_buffered()
        if envelope is None:
            envelope = await self._await_event()
            if envelope is None:
                raise StopAsyncIteration
        return envelope

    def next(self, timeout: float | None = None) -> RuntimeEvent | None:
        """Return the next event; None if none comes within the timeout, or no more will.

        Raises:
            StorageError: the log cannot be read; call again.
            RuntimeClosedError: the runtime is closed, and there is more in the log.
            InvalidInputError: the timeout is not a number.
        """
        seconds = seconds_of(timeout)
        deadline = None if seconds is None else time.monotonic() + seconds
        if self._auto_ack:
            self._mark_delivered_handled()
        return self._wait_for_event(deadline)

    def take(self, limit: int = 1000) -> list[RuntimeEvent]:
        """Return up to `limit` available events, without waiting for more.

        Raises:
            StorageError: the log cannot be read; call again.
            RuntimeClosedError: the runtime is closed, and there is more in the log.
            InvalidInputError: the limit is not a whole number above 0.
        """
        check_count(limit)
        if self._auto_ack:
            self._mark_delivered_handled()
        taken: list[RuntimeEvent] = []
        while True:
            try:
                with self._lock:
                    was_drained = self._index == len(self._buffer)
                    need = self._refill_locked()
                    after = self._position.ahead
                    self._take_buffered(taken, limit)
                if (
                    len(taken) == limit
                    or need is Need.NEWS
                    or need is Need.OVER
                    or (was_drained and self._has_drained_topic)
                ):
                    if not taken:
                        self._position.acknowledge()
                    return taken
                if need is Need.LOG:
                    self._load(after)
            except Exception:
                if taken:  # the next call raises it again
                    return taken
                raise

    def gather(self, limit: int, *, waits: bool) -> list[RuntimeEvent]:
        """Take events as `take` does; local events are available without waiting."""
        return self.take(limit)

    def ack(self, cursor: int | None = None) -> None:
        """Acknowledge the events up to this cursor, by default up to the last delivered one.

        It is durable when this returns: a later subscription with the client id begins after it. A cursor below an
        acknowledged one is ignored.

        Raises:
            InvalidInputError: there is no client id, or no event with this cursor was delivered.
            StorageError: the log cannot be written.
            RuntimeClosedError: the log is closed.
        """
        named(self._consumer, self.topic).ack(self.cursor if cursor is None else cursor, self.cursor)

    async def aack(self, cursor: int | None = None) -> None:
        """Acknowledge like `ack` without blocking the event loop."""
        waker = self._loops.waker(asyncio.get_running_loop())
        await named(self._consumer, self.topic).aack(self.cursor if cursor is None else cursor, self.cursor, waker)

    def when_more(self, waiter: Waiter) -> Callable[[], object]:
        """Call the waiter, on any thread, when there may be more events, or none will come; return a canceller."""
        need, after = self._refill()
        if need is not Need.NEWS:
            waiter()
            return _cancel_nothing
        if not self._begin_to_wait(waiter, ANY_THREAD, after):
            waiter()
        return partial(self._end_wait, waiter, ANY_THREAD)

    def unsubscribe(self) -> None:
        """End the subscription and wake its waiters. Idempotent.

        Automatic acknowledgements are durable when this returns. On an event loop, which must not block, they become
        durable a moment later: the end of an `async with` block awaits that. Failures are logged.
        """
        with self._end_and_leave():
            if is_on_loop():
                self._position.acknowledge()
            elif (consumer := self._consumer_to_acknowledge()) is not None:
                consumer.ack(self._position.dealt_with, self.cursor)

    async def __aexit__(self, *exc: object) -> None:
        with self._end_and_leave():
            if (consumer := self._consumer_to_acknowledge()) is not None:
                waker = self._loops.waker(asyncio.get_running_loop())
                await consumer.aack(self._position.dealt_with, self.cursor, waker)

    @contextlib.contextmanager
    def _end_and_leave(self) -> Generator[None]:
        """Deliver nothing more and wake the waiters; let the block acknowledge what is due; then leave."""
        with self._lock:
            self._is_over = True
            self._buffer, self._index = [], 0
        for waiter, waker in list(self._waiters.items()):
            waker.wake((waiter,))
        try:
            with contextlib.suppress(RuntimeClosedError):  # what was handled before it was closed has been acknowledged
                yield
        except StorageError as error:
            log_unacknowledged(error)
        finally:
            self._position.leave()

    def _consumer_to_acknowledge(self) -> Consumer | None:
        """Return the consumer if something that it has handled is not durably acknowledged yet."""
        consumer = self._consumer
        return None if consumer is None or self._position.dealt_with <= consumer.acknowledged else consumer

    @property
    def _consumer(self) -> Consumer | None:
        return self._position.consumer

    def _mark_delivered_handled(self) -> None:
        """Treat the delivered events as handled; acknowledge them when they are enough."""
        consumer = self._consumer
        if consumer is not None and self.cursor > self._begin:
            self._position.dealt_with = self.cursor
            if self.cursor - max(self._begin, consumer.said) >= GATHERED:
                self._position.acknowledge()

    def _pop_buffered(self) -> RuntimeEvent | None:
        """Return the next buffered event, if any."""
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

    def _take_buffered(self, taken: list[RuntimeEvent], limit: int) -> None:
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

    def _refill(self) -> tuple[Need, int]:
        """Buffer published events; return what is needed to continue, and after which cursor."""
        with self._lock:
            return self._refill_locked(), self._position.ahead

    def _refill_locked(self) -> Need:
        if self._index < len(self._buffer):
            return Need.NOTHING
        if self._is_over:
            return Need.OVER
        position = self._position
        need, chunks = position.look(AT_ONCE)
        if need is Need.NOTHING:
            start = position.ahead + 1 - chunks[0].first
            if len(chunks) == 1:
                self._set_buffer(chunks[0].envelopes(), start)
            else:
                self._set_buffer([envelope for chunk in chunks for envelope in chunk.envelopes()], start)
            self._has_drained_topic = len(self._buffer) < AT_ONCE
        else:
            self._set_buffer([], 0)
            if need is Need.OVER:
                self._end()
        return need

    def _set_buffer(self, envelopes: list[Envelope[Any, Any]], start: int) -> None:
        self._buffer, self._index = envelopes, start
        self._has_drained_topic = False
        if envelopes:
            self._position.ahead = envelopes[-1].cursor or 0

    def _load(self, after: int) -> None:
        """Buffer a page of the log, unless another call has moved on meanwhile."""
        page, start = self._position.pages.read(after)
        with self._lock:
            if self._position.ahead == after and not self._is_over:
                self._set_buffer(page.envelopes, start)

    def _wait_for_event(self, deadline: float | None) -> RuntimeEvent | None:
        """Wait for the next event; return None if none comes before the deadline, or none will."""
        while True:
            envelope = self._pop_buffered()
            if envelope is not None:
                return envelope
            need, after = self._refill()
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
                    self._wait_for_news(after, seconds)
                case Need.OVER:
                    self._position.acknowledge()
                    return None

    def _wait_for_news(self, after: int, seconds: float | None) -> None:
        alarm = Alarm()
        try:
            if self._begin_to_wait(alarm.ring, ANY_THREAD, after):
                alarm.wait(seconds)
        finally:
            self._end_wait(alarm.ring, ANY_THREAD)

    async def _await_event(self) -> RuntimeEvent | None:
        """Wait for the next event as `_wait_for_event` does, without blocking the event loop."""
        while True:
            envelope = self._pop_buffered()
            if envelope is not None:
                return envelope
            need, after = self._refill()
            match need:
                case Need.NOTHING:
                    self._since_pause += len(self._buffer)
                    if self._since_pause > REST:
                        self._since_pause = 0
                        await asyncio.sleep(0)
                case Need.LOG:
                    self._since_pause = 0
                    await self._load_in_thread(after)
                case Need.NEWS:
                    self._since_pause = 0
                    self._position.acknowledge()
                    await self._await_news(after)
                case Need.OVER:
                    self._position.acknowledge()
                    return None

    async def _await_news(self, after: int) -> None:
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
        """Read the page on another thread, unless that has been started; wait for it, or for the end."""
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
        """Call the waiter when there may be more events; return False if there are, or none will come."""
        self._waiters[waiter] = waker  # before reading `_is_over`: `unsubscribe` does both in the opposite order
        return not self._is_over and self._position.topic.wait(waker, waiter, after)

    def _end_wait(self, waiter: Waiter, waker: Waker) -> None:
        del self._waiters[waiter]
        self._position.topic.forget(waker, waiter)


def _cancel_nothing() -> None:
    """Do nothing: no waiter is registered."""


def check_count(limit: object) -> None:
    """Raise `InvalidInputError` unless the limit is a whole number above 0."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        message = f"take() returns up to `limit` events, 1 or more, not {shown(limit):.100}"
        raise InvalidInputError(message)
