"""How far clients have come, durably; and who of them is there at present."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

from reenact.actors.feed.waking import LoopWaker
from reenact.actors.journal.api import Done, FeedJournal, Mark, Outcome
from reenact.domain.errors import InvalidInputError, RuntimeClosedError, StorageError

_logger = logging.getLogger("reenact.feed")


class Consumers:
    """The consumers of all topics. Thread-safe."""

    def __init__(self, journal: FeedJournal, now: Callable[[], int]) -> None:
        self._journal = journal
        self._now = now
        self._lock = threading.Lock()
        self._here: dict[tuple[str, str], Consumer] = {}

    def come(self, topic: str, client_id: str) -> Consumer:
        """Return the client's place in the topic, and remember that it is there until it leaves, as often as it came.

        Raises:
            StorageError: the log cannot be read.
            RuntimeClosedError: it is closed.
        """
        with self._lock:  # first of all, so that it is not forgotten meanwhile
            consumer = self._here.get((topic, client_id))
            if consumer is None:
                consumer = self._here[topic, client_id] = Consumer(topic, client_id, self.record)
            consumer.times_here += 1
        try:
            mark = self._journal.mark(topic, client_id)
        except BaseException:
            self.part(consumer)
            raise
        if mark is not None:
            consumer.reached(mark.cursor)
        self._say(consumer)
        return consumer

    def leave(self, consumer: Consumer) -> None:
        """Take note that the client is gone, once. What it has acknowledged is kept."""
        self._say(consumer)
        self.part(consumer)

    def part(self, consumer: Consumer) -> None:
        """Take note that the client is gone, once, and was not heard of since it came or acknowledged something."""
        with self._lock:
            consumer.times_here -= 1
            if not consumer.times_here:
                del self._here[consumer.topic, consumer.client_id]

    def here(self) -> list[tuple[str, str]]:
        """Return the topics and ids of those who are there."""
        with self._lock:
            return list(self._here)

    def forget(self, *, before: int) -> int:
        """Forget the consumers that were last heard of before that time and are not here; return how many they were.

        Raises:
            StorageError: the log cannot be written.
            RuntimeClosedError: it is closed.
        """
        here = self.here()
        now = self._now()
        marks = [Mark(topic, client_id, 0, now) for topic, client_id in here]
        if marks:  # who is here is heard of, even if it says nothing for days
            self._journal.acknowledge(marks, _said)
        return self._journal.forget_marks(before=before, keep=here)

    def record(self, topic: str, client_id: str, cursor: int, done: Done) -> None:
        """Begin to record how far the client has come."""
        self._journal.acknowledge((Mark(topic, client_id, cursor, self._now()),), done)

    def _say(self, consumer: Consumer) -> None:
        """Record that the client is heard of; it is no harm if that does not work."""
        with contextlib.suppress(RuntimeClosedError, StorageError):
            consumer.send(consumer.acknowledged, _said)


def _said(outcome: Outcome) -> None:
    if isinstance(outcome, Exception):
        _logger.warning("it could not be recorded when a consumer was last there: %s", outcome)


class Consumer:
    """One client's place in one topic, as it is remembered: the same for all its subscriptions."""

    def __init__(self, topic: str, client_id: str, record: Callable[[str, str, int, Done], None]) -> None:
        self.topic = topic
        self.client_id = client_id
        self.acknowledged = 0
        """What is up to this cursor is acknowledged, durably."""
        self.times_here = 0
        self._record = record
        self._lock = threading.Lock()

    def ack(self, cursor: int) -> None:
        """Record that all up to this cursor is dealt with; returns when that is durable.

        Raises:
            StorageError: the log cannot be written.
            RuntimeClosedError: it is closed.
        """
        outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self.send(cursor, outcomes.put)
        self.settle(cursor, outcomes.get())

    def send(self, cursor: int, done: Done) -> None:
        """Begin to record it; `done` is called with the outcome, on the thread that writes, and has to be settled."""
        self._record(self.topic, self.client_id, cursor, done)

    def settle(self, cursor: int, outcome: Outcome) -> None:
        """Believe that it is recorded, or raise what went wrong."""
        if isinstance(outcome, Exception):
            raise outcome
        self.reached(cursor)

    def reached(self, cursor: int) -> None:
        """Believe that it is recorded."""
        with self._lock:
            self.acknowledged = max(self.acknowledged, cursor)


def check_ack(consumer: Consumer | None, topic: str, cursor: object, handed_out: int) -> int | None:
    """Return the cursor if it is news; None if it is older than what is acknowledged.

    Raises:
        InvalidInputError: the subscription has no client id; or the cursor is none, or of an event that was not handed
            out.
    """
    if consumer is None:
        message = f"nothing of {topic!r} can be acknowledged without a client id; give one when you subscribe"
        raise InvalidInputError(message)
    checked = check_cursor("what is acknowledged", cursor)
    if checked <= consumer.acknowledged:
        return None
    if checked > handed_out:
        message = f"only what was handed out can be acknowledged: of {topic!r} up to {handed_out}, not {checked}"
        raise InvalidInputError(message)
    return checked


def check_cursor(what: str, cursor: object) -> int:
    """Return the cursor, or raise `InvalidInputError`."""
    if isinstance(cursor, bool) or not isinstance(cursor, int):
        raise InvalidInputError(f"{what} is a cursor, a whole number, not {type(cursor).__name__}")
    if cursor < 0:
        raise InvalidInputError(f"{what} is a cursor, 0 or more, not {cursor}")
    return cursor


async def acknowledged(consumer: Consumer, cursor: int, waker: LoopWaker) -> None:
    """Record that all up to this cursor is dealt with, as `Consumer.ack` does, without blocking the event loop."""
    future: asyncio.Future[Outcome] = waker.loop.create_future()

    def done(outcome: Outcome) -> None:
        waker.wake((lambda: None if future.done() else future.set_result(outcome),))

    consumer.send(cursor, done)
    consumer.settle(cursor, await future)
