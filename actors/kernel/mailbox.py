"""Where messages wait, and the rule that one thread at a time takes them out."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pykka

from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.pool import WorkerPool, here
from reenact.actors.kernel.signals import SIGNALS, STOP
from reenact.domain.errors import DeadlockError, MailboxFullError

DEPTH: Final = 16
"""Asks that may be answered inside each other on one thread; a deeper one waits for a worker."""


class Envelope(msgspec.Struct, eq=False, gc=False):
    """A message, and the future that waits for the reply, if anybody asked."""

    message: Any
    reply_to: PooledFuture[Any] | None = None

    @property
    def stops(self) -> bool:
        """Whether this is the request to stop."""
        return self.message is STOP or type(self.message) is type(STOP)


_RARE: Final = threading.Lock()
_NONE: Final = deque[Envelope](maxlen=0)
"""Stands where there was no message yet: an empty deque takes 600 bytes, and many actors wait for their first."""


class Mailbox:
    """The messages of one actor, in the order in which they were sent.

    A mailbox is either idle or held. Whoever finds it idle holds it, and nobody else runs the actor until it is let
    go: a worker for a slice, an asker for one message, a step that waits for the journal for as long as it takes.
    """

    # Sending takes no lock that it could wait for. Where two steps of two threads could miss each other, each first
    # writes what the other reads: the message before the look at `_closed` and `_held`, those before the look for
    # messages. So at least one of both sees.

    __slots__ = ("_closed", "_envelopes", "_held", "_limit", "_mutex", "_pool", "_turn")

    _pool: WorkerPool
    _turn: Callable[[Envelope | None], None]

    def __init__(self, limit: int | None = None) -> None:
        """Let at most `limit` messages wait; None: as many as come.

        Raises:
            ValueError: the limit is not above zero.
        """
        if limit is not None and limit < 1:
            raise ValueError(f"a mailbox needs room for at least one message, not {limit}")
        self._limit = limit
        self._envelopes: deque[Envelope] = _NONE
        self._held = threading.Lock()  # a flag with test-and-set
        self._held.acquire()  # until `open` has said who is to run
        # For closing, and for those who find it closed: too rare for each to have one of its own.
        self._mutex = _RARE if limit is None else threading.Lock()
        self._closed = False

    def open(self, pool: WorkerPool, turn: Callable[[Envelope | None], None]) -> None:
        """Call `turn` whenever there is something to do, with the mailbox held.

        It handles the one message it is given, or, given none, some of those that wait; then it lets go.
        """
        self._pool = pool
        self._turn = turn

    def run(self) -> None:
        """Have some messages handled; called by a worker, for whom the mailbox is held."""
        here.running.append(self)
        try:
            self._turn(None)
        finally:
            here.running.pop()

    def handled_here(self, envelope: Envelope) -> bool:
        """Have the message handled on the current thread, if that is a worker's and the mailbox is idle.

        An idle mailbox is empty, so the message overtakes none.

        Raises:
            DeadlockError: the current thread is running the actor, further up: it would wait for itself.
        """
        if here.pool is None:
            return False
        if not (len(here.running) <= DEPTH and self.hold()):
            if any(self is mailbox for mailbox in here.running):
                raise DeadlockError("an actor that waits for its own reply waits for ever; let it tell itself")
            return False
        here.running.append(self)
        try:
            self._turn(envelope)
        finally:
            here.running.pop()
        return True

    def offer(self, envelope: Envelope) -> bool:
        """Take the message in, unless the mailbox is closed.

        Raises:
            MailboxFullError: as many messages wait as may; what the kernel itself says is taken in nevertheless.
        """
        envelopes = self._envelopes
        if envelopes is _NONE:
            envelopes = self._make_room()
        if self._limit is None or type(envelope.message) in SIGNALS:
            envelopes.append(envelope)
        else:
            with self._mutex:  # so that two do not take the last place
                if len(envelopes) >= self._limit:
                    raise MailboxFullError(self._limit)
                envelopes.append(envelope)
        if self._closed and self._take_back(envelope):
            return False
        if self._held.acquire(blocking=False):
            self._pool.submit(self)
        return True

    def put(self, envelope: Envelope, /) -> None:
        """Take the message in.

        Raises:
            ActorDeadError: the mailbox is closed.
        """
        if not self.offer(envelope):
            raise pykka.ActorDeadError("the actor has stopped")

    def admit(self, envelope: Envelope) -> None:
        """Take the message in whatever the limit is; the mailbox is held."""
        self._make_room().append(envelope)

    def hold(self) -> bool:
        """Hold the mailbox if it is idle; it is empty then."""
        if not self._held.acquire(blocking=False):
            return False
        if self._envelopes:  # whoever sent it was about to do the same
            self._pool.submit(self)
            return False
        return True

    def next(self) -> Envelope | None:
        """Take the next message out; if there is none, let go."""
        while True:
            try:
                return self._envelopes.popleft()
            except IndexError:
                self._held.release()
                if not self._envelopes or not self._held.acquire(blocking=False):
                    return None

    def let_go(self) -> None:
        """Let go, or leave the mailbox to a worker if there are messages."""
        if not self._envelopes:
            self._held.release()
            if not self._envelopes or not self._held.acquire(blocking=False):
                return
        self._pool.submit(self)

    def again(self) -> None:
        """Leave the mailbox, held as it is, to a worker."""
        self._pool.submit(self)

    def shut(self) -> None:
        """Take nothing in any more. What waits goes on waiting, for `drain`."""
        with self._mutex:
            self._closed = True

    def drain(self) -> list[Envelope]:
        """Take everything out of a mailbox that is shut for good; it lets go of its actor."""
        self._turn = _nobody
        with self._mutex:
            rest = list(self._envelopes)
            self._envelopes.clear()
            return rest

    def shut_if_empty(self) -> bool:
        """Take nothing in any more, if nothing is waiting."""
        with self._mutex:
            self._closed = True
            if self._envelopes:
                self._closed = False
            return self._closed

    def get(self) -> Envelope:
        """Take the next message out.

        Raises:
            IndexError: there is none.
        """
        return self._envelopes.popleft()

    def first(self) -> Envelope | None:
        """Return the next message, if there is one, and leave it where it is."""
        return self._envelopes[0] if self._envelopes else None

    def awaits_stop(self) -> bool:
        """Tell whether a request to stop is among what waits."""
        return any(envelope.stops for envelope in list(self._envelopes))

    def empty(self) -> bool:
        """Tell whether no message is waiting."""
        return not self._envelopes

    def __len__(self) -> int:
        return len(self._envelopes)

    def _make_room(self) -> deque[Envelope]:
        with self._mutex:
            if self._envelopes is _NONE:
                self._envelopes = deque()
            return self._envelopes

    def _take_back(self, envelope: Envelope) -> bool:
        with self._mutex:
            if not self._closed:
                return False
            try:
                self._envelopes.remove(envelope)
            except ValueError:
                return False  # it was there in time to be drained
            return True


def _nobody(_: Envelope | None) -> None:
    """Take the place of an actor that is gone: who still has a reference to it keeps only the mailbox."""
