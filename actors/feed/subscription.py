"""One follower of a session: a cursor, an iterator for threads and one for asyncio, acknowledgements."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from functools import partial
from typing import Final, ParamSpec, Self, TypeVar

from reenact.actors.feed.consumers import Consumer, acknowledged, check_ack
from reenact.actors.feed.place import Need, Place
from reenact.actors.feed.topics import Topics
from reenact.actors.feed.waking import THREADS, Alarm, Waiter, Waker
from reenact.actors.journal.api import Outcome
from reenact.domain.errors import InvalidInputError, RuntimeClosedError
from reenact.domain.events import Envelope, SessionDeleted
from reenact.domain.plain import seconds_of

_logger = logging.getLogger("reenact.feed")
P = ParamSpec("P")
R = TypeVar("R")
GATHERED: Final = 100
"""So many events are acknowledged together, if that is done by itself; fewer when there is nothing else to do."""
AT_ONCE: Final = 256
"""About how many events of those just published a subscription takes at a time."""
REST: Final = 1024
"""After so many events without a pause, one that is awaited lets other tasks of the loop go on."""

_LAST: Final = SessionDeleted.event_type


class Subscription:
    """The events of one session, each once and in order, from behind a cursor on: those that were, then those to come.

    Iterate over it, with `for` or `async for`; or ask with `next` and `take`. It ends when the runtime closes and all
    is handed out, after `session_deleted`, or by `unsubscribe`, which leaving its `with` block does, too. It is for one
    consumer: of two threads that ask the same one, each gets other events.

    Where the log cannot be read, asking raises `StorageError`; nothing is lost, and it can be asked again. If there is
    more in the log when the runtime is closed, asking raises `RuntimeClosedError`.
    """

    def __init__(self, place: Place, means: Topics, *, auto_ack: bool = False) -> None:
        self.topic: Final = place.session_id
        """The session's id."""
        self.cursor = place.ahead
        """The cursor of the last event that was handed out; at first the one it begins behind."""
        self._place = place
        self._means = means
        self._lock = threading.Lock()
        self._buffer: list[Envelope] = []
        self._index = 0
        self._is_all = False
        """Whether nothing more was published when the buffer was filled."""
        self._is_over = place.is_over
        self._is_loading = False
        self._error: BaseException | None = None
        self._waiters: dict[Waiter, Waker] = {}
        self._restless = 0
        self._auto_ack = auto_ack and place.consumer is not None
        self._dealt_with = self._said = place.ahead

    @property
    def client_id(self) -> str | None:
        """Under which name its acknowledgements are kept."""
        consumer = self._consumer
        return None if consumer is None else consumer.client_id

    @property
    def closed(self) -> bool:
        """Whether nothing more comes."""
        with self._lock:
            return self._is_over or (self._index == len(self._buffer) and self._place.look(1)[0] is Need.OVER)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Envelope:
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

    async def __anext__(self) -> Envelope:
        if self._auto_ack:
            self._is_asked()
        envelope = self._pop()
        if envelope is None:
            envelope = await self._arrive()
            if envelope is None:
                raise StopAsyncIteration
        return envelope

    def next(self, timeout: float | None = None) -> Envelope | None:
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

    def take(self, limit: int = 1000) -> list[Envelope]:
        """Return what there is, at most so many events, without waiting for more.

        Raises:
            StorageError: the log cannot be read; ask again.
            RuntimeClosedError: the runtime is closed, and there is more in the log.
            InvalidInputError: the limit is not a number above 0.
        """
        _must_count(limit)
        if self._auto_ack:
            self._is_asked()
        taken: list[Envelope] = []
        while True:
            try:
                with self._lock:
                    is_anew = self._index == len(self._buffer)
                    need = self._advance()
                    after = self._place.ahead
                    self._slice(taken, limit)
                if len(taken) == limit or need is Need.NEWS or need is Need.OVER or (is_anew and self._is_all):
                    if not taken:
                        self._say()
                    return taken
                if need is Need.LOG:
                    self._load(after)
            except Exception:
                if taken:  # who asks again hears of it
                    return taken
                raise

    def ack(self, cursor: int | None = None) -> None:
        """Acknowledge the events up to this cursor, by default up to the last that was handed out.

        It is durable when this returns: a later subscription under the client id begins behind it. An older cursor than
        one that is acknowledged already is ignored.

        Raises:
            InvalidInputError: there is no client id, or no event of this cursor was handed out.
            StorageError: the log cannot be written.
            RuntimeClosedError: it is closed.
        """
        consumer = self._consumer
        news = check_ack(consumer, self.topic, self.cursor if cursor is None else cursor, self.cursor)
        if news is not None and consumer is not None:
            consumer.ack(news)

    async def aack(self, cursor: int | None = None) -> None:
        """Do the same as `ack` without blocking the event loop."""
        consumer = self._consumer
        news = check_ack(consumer, self.topic, self.cursor if cursor is None else cursor, self.cursor)
        if news is not None and consumer is not None:
            await acknowledged(consumer, news, self._means.wakers.of(asyncio.get_running_loop()))

    def unsubscribe(self) -> None:
        """End it, and wake who waits for it. What is acknowledged is kept. Idempotent."""
        self._say()
        with self._lock:
            self._is_over = True
            self._buffer, self._index = [], 0
        self._wake()
        self._place.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.unsubscribe()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.unsubscribe()

    @property
    def _consumer(self) -> Consumer | None:
        return self._place.consumer

    def _is_asked(self) -> None:
        """Take what was handed out for dealt with; have it acknowledged when it is enough."""
        self._dealt_with = self.cursor
        if self._dealt_with - self._said >= GATHERED:
            self._say()

    def _say(self) -> None:
        """Have what was dealt with acknowledged, some time; what goes wrong is said again later, or by `ack`."""
        consumer, cursor = self._consumer, self._dealt_with
        if not self._auto_ack or consumer is None or cursor <= self._said:
            return
        self._said = cursor
        with contextlib.suppress(RuntimeClosedError):
            consumer.send(cursor, partial(_heard, consumer, cursor))

    def _pop(self) -> Envelope | None:
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

    def _slice(self, taken: list[Envelope], limit: int) -> None:
        start = self._index
        stop = self._index = min(len(self._buffer), start + limit - len(taken))
        if stop > start:
            taken += self._buffer[start:stop]
            self.cursor = taken[-1].cursor or 0
            if taken[-1].type == _LAST:
                self._end()

    def _end(self) -> None:
        self._is_over = True
        self._place.leave()

    def _look(self) -> tuple[Need, int]:
        """Take what was published to hand; return what is needed to go on, and from behind which cursor."""
        with self._lock:
            return self._advance(), self._place.ahead

    def _advance(self) -> Need:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self._index < len(self._buffer):
            return Need.NOTHING
        if self._is_over:
            return Need.OVER
        place = self._place
        need, chunks = place.look(AT_ONCE)
        if need is Need.NOTHING:
            start = place.ahead + 1 - chunks[0].first
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

    def _fill(self, envelopes: list[Envelope], start: int) -> None:
        self._buffer, self._index = envelopes, start
        self._is_all = False
        if envelopes:
            self._place.ahead = envelopes[-1].cursor or 0

    def _load(self, after: int) -> None:
        """Take a page of the log to hand, unless somebody else has come further meanwhile."""
        page, start = self._place.read(after)
        with self._lock:
            if self._place.ahead == after and not self._is_over:
                self._fill(page.envelopes, start)

    def _come(self, deadline: float | None) -> Envelope | None:
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
                    self._say()
                    seconds = None if deadline is None else deadline - time.monotonic()
                    if seconds is not None and seconds <= 0:
                        return None
                    self._wait(after, seconds)
                case Need.OVER:
                    self._say()
                    return None

    def _wait(self, after: int, seconds: float | None) -> None:
        alarm = Alarm()
        if not self._register(alarm.ring, THREADS):
            return
        try:
            if self._place.topic.wait(THREADS, alarm.ring, after):
                alarm.wait(seconds)
        finally:
            self._forget(alarm.ring, THREADS)

    async def _arrive(self) -> Envelope | None:
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
                case Need.LOG | Need.NEWS:
                    self._restless = 0
                    if need is Need.NEWS:
                        self._say()
                    await self._await(need, after)
                case Need.OVER:
                    self._say()
                    return None

    async def _await(self, need: Need, after: int) -> None:
        loop = asyncio.get_running_loop()
        waker = self._means.wakers.of(loop)
        future: asyncio.Future[None] = loop.create_future()

        def waiter() -> None:
            if not future.done():
                future.set_result(None)

        if not self._register(waiter, waker):
            return
        try:
            if need is Need.LOG:
                self._load_apart(after)
                await future
            elif self._place.topic.wait(waker, waiter, after):
                await future
        finally:
            self._forget(waiter, waker)

    def _load_apart(self, after: int) -> None:
        """Have the page read on another thread, unless that is under way: one who gave up may have begun it."""
        with self._lock:
            if self._is_loading:
                return
            self._is_loading = True
        try:
            self._means.apart(self._try_to_load, after)
        except BaseException:
            self._is_loading = False
            raise

    def _try_to_load(self, after: int) -> None:
        try:
            self._load(after)
        except BaseException as error:  # noqa: BLE001 - whoever asks next hears of it
            self._error = error
        with self._lock:
            self._is_loading = False
        self._wake()

    def _register(self, waiter: Waiter, waker: Waker) -> bool:
        with self._lock:
            if not self._is_over:
                self._waiters[waiter] = waker
            return not self._is_over

    def _forget(self, waiter: Waiter, waker: Waker) -> None:
        with self._lock:
            self._waiters.pop(waiter, None)
        self._place.topic.forget(waker, waiter)

    def _wake(self) -> None:
        with self._lock:
            waiters = list(self._waiters.items())
        for waiter, waker in waiters:
            waker.wake((waiter,))


def _must_count(limit: object) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        message = f"take() returns up to `limit` events, 1 or more, not {limit!r}"
        raise InvalidInputError(message)


def _heard(consumer: Consumer, cursor: int, outcome: Outcome) -> None:
    if isinstance(outcome, Exception):
        _logger.warning("what was dealt with could not be acknowledged: %s", outcome)
    else:
        consumer.reached(cursor)
