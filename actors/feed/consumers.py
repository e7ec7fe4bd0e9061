"""The clients that acknowledge events: their durable progress, and which of them are subscribed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from weakref import WeakValueDictionary

from reenact.actors.feed.waking import LoopWaker, set_result
from reenact.actors.journal.api import Done, FeedJournal, Mark, Outcome, raise_if_error
from reenact.domain.errors import InvalidInputError, RuntimeClosedError, StorageError

_logger = logging.getLogger("reenact.feed")


class Consumers:
    """The consumers of all topics. Thread-safe."""

    def __init__(self, journal: FeedJournal, now: Callable[[], int]) -> None:
        self._journal = journal
        self._now = now
        self._lock = threading.Lock()
        self._here: dict[tuple[str, str], Consumer] = {}
        self._known: WeakValueDictionary[tuple[str, str], Consumer] = WeakValueDictionary()
        """The subscribed consumers, and others for which a mark may still be pending."""

    def come(self, topic: str, client_id: str) -> Consumer:
        """Subscribe the client to the topic and return its consumer; call `part` as often as this.

        Raises:
            StorageError: the log cannot be read.
            RuntimeClosedError: the log is closed.
        """
        with self._lock:  # before anything else, so that it is not forgotten meanwhile
            consumer = self._known.get((topic, client_id))
            if consumer is None or not (consumer.times_here or consumer.said > consumer.acknowledged):
                consumer = self._known[topic, client_id] = Consumer(topic, client_id, self._journal, self._now)
            self._here[topic, client_id] = consumer
            consumer.times_here += 1
        try:
            mark = self._journal.mark(topic, client_id)
        except BaseException:
            self.part(consumer)
            raise
        if mark is not None:
            consumer.reached(mark.cursor)
        self.seen(consumer)
        return consumer

    def seen(self, consumer: Consumer) -> None:
        """Record that the client is subscribed; a failure is only logged."""
        with contextlib.suppress(RuntimeClosedError, StorageError):
            consumer.send(consumer.acknowledged, _log_failure)

    def part(self, consumer: Consumer) -> None:
        """Remove one subscription of the client. Its acknowledgements are kept."""
        with self._lock:
            consumer.times_here -= 1
            if not consumer.times_here:
                del self._here[consumer.topic, consumer.client_id]

    def here(self) -> list[tuple[str, str]]:
        """Return the topics and ids of the subscribed clients."""
        with self._lock:
            return list(self._here)

    def forget(self, *, before: int) -> int:
        """Delete the marks of consumers last seen before that time and not subscribed; return how many they were.

        Raises:
            StorageError: the log cannot be written.
            RuntimeClosedError: the log is closed.
        """
        here = self.here()
        now = self._now()
        marks = [Mark(topic, client_id, 0, now) for topic, client_id in here]
        if marks:  # a subscribed client counts as seen, even if it acknowledges nothing for days
            self._journal.acknowledge(marks, _log_failure)
        return self._journal.forget_marks(before=before, keep=here)


def _log_failure(outcome: Outcome) -> None:
    if isinstance(outcome, Exception):
        _logger.warning("the time at which a consumer was last seen could not be recorded: %s", outcome)


def log_unacknowledged(outcome: Outcome) -> None:
    """Log it if an acknowledgement could not be recorded."""
    if isinstance(outcome, Exception):
        _logger.warning("handled events could not be acknowledged: %s", outcome)


class Consumer:
    """The durable progress of one client in one topic, shared by all its subscriptions."""

    def __init__(self, topic: str, client_id: str, journal: FeedJournal, now: Callable[[], int]) -> None:
        self.topic = topic
        self.client_id = client_id
        self.acknowledged = 0
        """All events up to this cursor are durably acknowledged."""
        self.said = 0
        """The same, including pending acknowledgements: a new subscription begins after it."""
        self.times_here = 0
        self._journal = journal
        self._now = now
        self._lock = threading.Lock()

    def ack(self, cursor: object, handed_out: int) -> None:
        """Acknowledge all events up to this cursor, unless they are already; returns when that is durable.

        Raises:
            InvalidInputError: it is not a cursor, or is that of an event that was not delivered.
            StorageError: the log cannot be written.
            RuntimeClosedError: the log is closed.
        """
        checked = self._check(cursor, handed_out)
        if checked > self.acknowledged:
            outcomes: SimpleQueue[Outcome] = SimpleQueue()
            self.send(checked, outcomes.put)
            raise_if_error(outcomes.get())

    async def aack(self, cursor: object, handed_out: int, waker: LoopWaker) -> None:
        """Acknowledge like `ack` without blocking the event loop, which the waker wakes."""
        checked = self._check(cursor, handed_out)
        if checked > self.acknowledged:
            future: asyncio.Future[Outcome] = waker.loop.create_future()
            self.send(checked, lambda outcome: waker.wake((partial(set_result, future, outcome),)))
            raise_if_error(await future)

    def send(self, cursor: int, done: Done) -> None:
        """Start to record the cursor; `done` is called with the outcome, on the writing thread."""
        with self._lock:
            self.said = max(self.said, cursor)
        mark = Mark(self.topic, self.client_id, cursor, self._now())
        self._journal.acknowledge((mark,), partial(self._recorded, cursor, done))

    def reached(self, cursor: int) -> None:
        """Treat the cursor as durably recorded."""
        with self._lock:
            self.acknowledged = max(self.acknowledged, cursor)
            self.said = max(self.said, cursor)

    def _recorded(self, cursor: int, done: Done, outcome: Outcome) -> None:
        if isinstance(outcome, Exception):
            with self._lock:
                self.said = self.acknowledged  # so that it is recorded again
        else:
            self.reached(cursor)
        done(outcome)

    def _check(self, cursor: object, handed_out: int) -> int:
        checked = check_cursor("what is acknowledged", cursor)
        if checked > max(handed_out, self.acknowledged):
            session_id = self.topic.partition("/")[2]
            message = f"only delivered events can be acknowledged: those of {session_id!r} up to {handed_out}"
            raise InvalidInputError(f"{message}, not {checked}")
        return checked


def named(consumer: Consumer | None, session_id: str) -> Consumer:
    """Return the consumer, or raise `InvalidInputError` if there is none because no client id was given."""
    if consumer is None:
        message = f"nothing of {session_id!r} can be acknowledged without a client id; give one when you subscribe"
        raise InvalidInputError(message)
    return consumer


def check_cursor(what: str, cursor: object) -> int:
    """Return the cursor if it is valid, or raise `InvalidInputError`."""
    if isinstance(cursor, bool) or not isinstance(cursor, int):
        raise InvalidInputError(f"{what} must be a cursor, a whole number, not {type(cursor).__name__}")
    if cursor < 0:
        raise InvalidInputError(f"{what} must be a cursor, 0 or more, not {cursor}")
    return cursor
