"""Where messages and the kernel's own signals wait, and the rule that one thread at a time takes them out.

A full mailbox still takes signals.
"""

from __future__ import annotations

import sys
import threading
from typing import Any, Final, Protocol

import msgspec
import pykka
from pykka.messages import _ActorStop  # pyright: ignore[reportPrivateUsage]  # pykka's stop has no public name

from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.pool import Place, here, waiting_for_itself
from reenact.domain.errors import MailboxFullError

STOP = _ActorStop()


class Signal(msgspec.Struct, frozen=True):
    """A message of the kernel."""


class Passivate(Signal, frozen=True):
    """Leave memory, if there is nothing to do."""


class HandOff(Signal, frozen=True):
    """Leave memory, and do not come back, as soon as there is nothing to do; the reply says that nobody is there."""


class Drop(Signal, frozen=True):
    """End now, for the stream is another node's; what was sent before this is refused."""


class Due(Signal, frozen=True):
    """A time has come that the actor's timers wait for."""


class ChildFailed(Signal, frozen=True):
    """A child has ended for good; its parent may do something about it."""

    child: object
    error: Exception


class Escalated(Signal, frozen=True):
    """A child has failed, and the parent is to fail with it."""

    error: Exception


PASSIVATE = Passivate()
HAND_OFF = HandOff()
DROP = Drop()
DUE = Due()
SIGNALS = frozenset({_ActorStop, Passivate, HandOff, Drop, Due, ChildFailed, Escalated})
"""The types of all of them."""

DEPTH = 16
"""Asks that may be answered inside each other on one thread; a deeper one waits for a worker."""
HEADROOM = 250
"""Calls that an actor may make inside each other on the thread of who asks; with less room it waits for a worker."""


class Envelope(msgspec.Struct, eq=False, gc=False):
    """A message, and the future that waits for the reply, if anybody asked."""

    # A mailbox takes what its actor does, and the references see to the types: here they are not known.
    message: Any
    reply_to: PooledFuture[Any] | None = None

    @property
    def stops(self) -> bool:
        """Whether this is the request to stop."""
        return self.message is STOP or type(self.message) is type(STOP)

    def answer(self, reply: object) -> None:
        """Give whoever asked the reply."""
        if self.reply_to is not None:
            self.reply_to.set(reply)


def has_headroom() -> bool:
    """Return whether the current thread is so far from Python's recursion limit that it can run an actor."""
    try:
        sys._getframe(sys.getrecursionlimit() - HEADROOM)  # pyright: ignore[reportPrivateUsage]  # nothing else is as fast
    except ValueError:  # there are not as many calls
        return True
    return False


class Occupant(Protocol):
    """Whose mailbox it is."""

    def _turn(self, envelope: Envelope | None, /) -> None:
        """Handle the one message, or, given none, some of those that wait; then let go."""


_FEW = 32
"""Messages out of which the first is taken while the others move up; of more, many are taken at once."""

_RARE = threading.Lock()
_NONE: Final[list[Envelope]] = []
"""Stands where there was no message yet: many actors wait for their first. Always empty."""


class _Kick:
    """Has a worker look whether the mailbox is idle and has messages."""

    __slots__ = ("_mailbox", "has_run")

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self.has_run = False

    def run(self) -> None:
        self.has_run = True
        self._mailbox.run_if_idle()


class Mailbox:
    """The messages of one actor, in the order in which they were sent.

    A mailbox is either idle or held. Whoever finds it idle holds it, and nobody else runs the actor until it is let
    go: a worker for a slice, an asker for one message, a step that waits for the journal for as long as it takes.
    """

    # Sending takes no lock that it could wait for. Where two steps of two threads could miss each other, each first
    # writes what the other reads: the message before the look at `_closed` and `_held`, those before the look for
    # messages. So at least one of both sees.
    #
    # What is sent goes to the end of `_waiting`. Whoever holds the mailbox takes it from there, or first moves all of
    # it to `_taken`, in reverse, if it is much: an empty list takes a tenth of the memory of a deque. The holder alone
    # takes messages out, but for `_take_back`.
    #
    # A signal may interrupt the main thread between any two steps. So that never holds a mailbox: it has a worker look.

    __slots__ = ("_closed", "_held", "_kick", "_limit", "_mutex", "_occupant", "_taken", "_waiting", "pool")

    pool: Place
    """Where the actor runs; there is none before `open`."""

    _occupant: Occupant

    def __init__(self, limit: int | None = None) -> None:
        """Let at most `limit` messages wait; None: as many as come.

        Raises:
            ValueError: the limit is not above zero.
        """
        if limit is not None and limit < 1:
            raise ValueError(f"a mailbox needs room for at least one message, not {limit}")
        self._limit = limit
        self._waiting = _NONE
        self._taken = _NONE
        self._held = threading.Lock()  # a flag with test-and-set
        self._held.acquire()  # until `open` has said who is to run
        # For closing, and for those who find it closed: too rare for each to have one of its own.
        self._mutex = _RARE if limit is None else threading.Lock()
        self._kick: _Kick | None = None
        self._closed = False

    def open(self, pool: Place, occupant: Occupant) -> None:
        """Let it be the occupant's turn whenever there is something to do, with the mailbox held."""
        self.pool = pool
        self._occupant = occupant

    def run(self) -> None:
        """Have some messages handled; called by a worker, for whom the mailbox is held."""
        running = here.running
        running.append(self)
        try:
            self._occupant._turn(None)  # pyright: ignore[reportPrivateUsage]  # a plain name could be one of the user's, in an actor
        finally:
            running.pop()

    def handled_here(self, envelope: Envelope) -> bool:
        """Have the message handled on the current thread, if it runs actors and the mailbox is idle.

        An idle mailbox is empty, so the message overtakes none.

        Raises:
            DeadlockError: the current thread is running the actor, further up: it would wait for itself.
        """
        if not here.runs_actors:
            return False
        running = here.running
        if not (len(running) <= DEPTH and has_headroom() and self.hold()):
            if envelope.reply_to is not None and any(self is mailbox for mailbox in running):
                raise waiting_for_itself()
            return False
        running.append(self)
        try:
            self._occupant._turn(envelope)  # pyright: ignore[reportPrivateUsage]  # as above
        finally:
            running.pop()
        return True

    def offer(self, envelope: Envelope) -> bool:
        """Take the message in, unless the mailbox is closed.

        Raises:
            MailboxFullError: as many messages wait as may; what the kernel itself says is taken in nevertheless.
        """
        waiting = self._waiting
        if waiting is _NONE:
            waiting = self._make_room()
        if self._limit is None or type(envelope.message) in SIGNALS:
            waiting.append(envelope)
        else:
            with self._mutex:  # so that two do not take the last place
                if len(waiting) + len(self._taken) >= self._limit:
                    raise MailboxFullError(self._limit)
                waiting.append(envelope)
        if self._closed and self._take_back(envelope):
            return False
        if here.is_main:
            if not self._held.locked() and (self._kick is None or self._kick.has_run):
                kick = _Kick(self)
                self.pool.submit(kick)
                self._kick = kick
        elif self._held.acquire(blocking=False):
            try:
                self.pool.submit(self)
            except BaseException:
                self._held.release()
                raise
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

    def run_if_idle(self) -> None:
        """Have some messages handled, if nobody does; called by a worker."""
        if self._held.acquire(blocking=False):
            self.run()

    def hold(self) -> bool:
        """Hold the mailbox if it is idle; it is empty then."""
        if not self._held.acquire(blocking=False):
            return False
        if self._waiting:  # whoever sent it was about to do the same
            self.pool.submit(self)
            return False
        return True

    def next(self) -> Envelope | None:
        """Take the next message out; if there is none, let go."""
        while True:
            if self._taken or self._waiting:
                try:
                    return self.get()
                except IndexError:
                    pass  # it was taken back
            self._held.release()
            if not self._waiting or not self._held.acquire(blocking=False):
                return None

    def let_go(self) -> None:
        """Let go, or leave the mailbox to a worker if there are messages."""
        if not (self._taken or self._waiting):
            self._held.release()
            if not self._waiting or not self._held.acquire(blocking=False):
                return
        self.pool.submit(self)

    def again(self) -> None:
        """Leave the mailbox, held as it is, to a worker."""
        self.pool.submit(self)

    def shut(self) -> None:
        """Take nothing in any more. What waits goes on waiting, for `drain`."""
        with self._mutex:
            self._closed = True

    def drain(self) -> list[Envelope]:
        """Take everything out of a mailbox that is shut for good; it lets go of its actor."""
        self._occupant = _NOBODY
        with self._mutex:
            rest = [*reversed(self._taken), *self._waiting]
            self._taken.clear()
            self._waiting.clear()
            return rest

    def shut_if_empty(self) -> bool:
        """Take nothing in any more, if nothing is waiting."""
        with self._mutex:
            self._closed = True
            if self._taken or self._waiting:
                self._closed = False
            return self._closed

    def get(self) -> Envelope:
        """Take the next message out; the mailbox is held.

        Raises:
            IndexError: there is none.
        """
        if self._taken:
            return self._taken.pop()
        waiting = self._waiting
        return waiting.pop(0) if len(waiting) <= _FEW else self._take_many(waiting).pop()

    def first(self) -> Envelope | None:
        """Return the next message, if there is one, and leave it where it is."""
        if self._taken:
            return self._taken[-1]
        return self._waiting[0] if self._waiting else None

    def awaits_stop(self) -> bool:
        """Tell whether a request to stop is among what waits."""
        # In this order: what is being taken meanwhile is seen twice, and not missed.
        return any(envelope.stops for envelope in [*self._waiting, *self._taken])

    def empty(self) -> bool:
        """Tell whether no message is waiting."""
        return not (self._waiting or self._taken)

    def __len__(self) -> int:
        with self._mutex:
            return len(self._waiting) + len(self._taken)

    def _make_room(self) -> list[Envelope]:
        with self._mutex:
            if self._waiting is _NONE:
                self._waiting = []
            return self._waiting

    def _take_many(self, waiting: list[Envelope]) -> list[Envelope]:
        with self._mutex:
            count = len(waiting)  # others go on sending
            taken = waiting[:count]
            taken.reverse()
            self._taken = taken
            del waiting[:count]
        return taken

    def _take_back(self, envelope: Envelope) -> bool:
        with self._mutex:
            if not self._closed:
                return False
            try:
                self._waiting.remove(envelope)
            except ValueError:
                return False  # it was there in time to be drained
            return True


class _Nobody:
    """Takes the place of an actor that is gone: who still has a reference to it keeps only the mailbox."""

    def _turn(self, envelope: Envelope | None) -> None:
        pass


_NOBODY = _Nobody()
