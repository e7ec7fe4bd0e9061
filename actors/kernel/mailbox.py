"""The mailbox of an actor, for messages and the kernel's signals; one thread at a time takes messages from it.

A full mailbox still accepts signals.
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
    """A message that the kernel sends."""


class Passivate(Signal, frozen=True):
    """Leave memory if there is nothing to do."""


class HandOff(Signal, frozen=True):
    """Leave memory for good as soon as there is nothing to do; the reply means that the actor has ended."""


class Drop(Signal, frozen=True):
    """End now, because another node has the stream; messages sent before this are refused."""


class Due(Signal, frozen=True):
    """A timer of the actor is due."""


class ChildFailed(Signal, frozen=True):
    """A child has ended for good; the parent may react to it."""

    child: object
    error: Exception


class Escalated(Signal, frozen=True):
    """A child has failed, and the parent must fail with it."""

    error: Exception


PASSIVATE = Passivate()
HAND_OFF = HandOff()
DROP = Drop()
DUE = Due()
SIGNALS = frozenset({_ActorStop, Passivate, HandOff, Drop, Due, ChildFailed, Escalated})
"""The types of all signals."""

DEPTH = 16
"""How many nested asks may be handled on one thread; a deeper one waits for a worker."""
HEADROOM = 250
"""Stack frames that an actor may use on the asking thread; with fewer left, it waits for a worker."""


class Envelope(msgspec.Struct, eq=False):
    """A message, and the future of its reply if the sender asked for one."""

    # Python's collector has to see it: a refusal holds the frames of its traceback, these the envelope, and this the
    # future with the refusal.
    # A mailbox accepts whatever its actor does; references check the types, which are unknown here.
    message: Any
    reply_to: PooledFuture[Any] | None = None

    @property
    def stops(self) -> bool:
        """Whether this is the request to stop."""
        return self.message is STOP or type(self.message) is type(STOP)

    def answer(self, reply: object) -> None:
        """Set the reply, if the sender asked for one."""
        if self.reply_to is not None:
            self.reply_to.set(reply)


def has_headroom() -> bool:
    """Return whether the current thread is far enough from Python's recursion limit to run an actor."""
    try:
        sys._getframe(sys.getrecursionlimit() - HEADROOM)  # pyright: ignore[reportPrivateUsage]  # nothing else is as fast
    except ValueError:  # the stack is not that deep
        return True
    return False


class Occupant(Protocol):
    """The actor or cell that handles the messages of a mailbox."""

    def _turn(self, envelope: Envelope | None, /) -> None:
        """Handle this message, or, given None, some of the waiting ones; then release the mailbox."""


_MOST_REMOVED_IN_PLACE = 32
"""Up to this many messages, the first one is removed from the list in place; of more, all are moved at once."""

_SHARED_MUTEX = threading.RLock()
_NO_MESSAGES: Final[list[Envelope]] = []
"""Placeholder until the first message: many actors wait for theirs. Always empty."""


class _IdleCheck:
    """Makes a worker check whether the mailbox is idle and has messages."""

    __slots__ = ("_mailbox", "has_run")

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self.has_run = False

    def run(self) -> None:
        self.has_run = True
        self._mailbox.run_if_idle()


class Mailbox:
    """The messages of one actor, in the order in which they were sent.

    A mailbox is either idle or held. The thread that finds it idle holds it, and no other runs the actor until it is
    released: a worker holds it for a slice, an asking thread for one message, and a step that waits for the journal for
    as long as that takes.
    """

    # Sending never waits for a lock of the actor. Where two threads could miss each other's step, each first writes
    # what the other reads: the sender appends the message before it reads `_closed` and `_held`; the other side sets
    # those before it looks for messages. So at least one of them sees the other.
    #
    # Sent messages are appended to `_waiting`. The holder of the mailbox takes them from there, or, if there are many,
    # first moves all of them to `_taken`, in reverse order: an empty list takes a tenth of the memory of a deque. Only
    # the holder takes messages out, except for `_withdraw`.
    #
    # A signal handler may interrupt the main thread between any two steps. So the main thread never holds a mailbox: it
    # makes a worker check it.

    __slots__ = ("_closed", "_held", "_idle_check", "_limit", "_mutex", "_occupant", "_taken", "_waiting", "pool")

    pool: Place
    """The worker pool or event loop that runs the actor; unset before `open`."""

    _occupant: Occupant

    def __init__(self, limit: int | None = None) -> None:
        """Accept at most `limit` waiting messages; None means no limit.

        Raises:
            ValueError: the limit is not above zero.
        """
        if limit is not None and limit < 1:
            raise ValueError(f"a mailbox needs room for at least one message, not {limit}")
        self._limit = limit
        self._waiting = _NO_MESSAGES
        self._taken = _NO_MESSAGES
        self._held = threading.Lock()  # used as a flag with test-and-set
        self._held.acquire()  # held until `open` has set the occupant
        # For closing, and for senders that find the mailbox closed: too rare for a lock per mailbox. Re-entrant, since
        # the handler of a signal may send while the main thread does.
        self._mutex = _SHARED_MUTEX if limit is None else threading.RLock()
        self._idle_check: _IdleCheck | None = None
        self._closed = False

    def open(self, pool: Place, occupant: Occupant) -> None:
        """Set the occupant, which handles messages from now on; called with the mailbox held."""
        self.pool = pool
        self._occupant = occupant

    def run(self) -> None:
        """Let the occupant handle some messages; called by a worker, with the mailbox held on its behalf."""
        running = here.running
        running.append(self)
        try:
            self._occupant._turn(None)  # pyright: ignore[reportPrivateUsage]  # a plain name could be one of the user's, in an actor
        finally:
            running.pop()

    def handled_here(self, envelope: Envelope) -> bool:
        """Handle the message on the current thread if that thread runs actors and the mailbox is idle.

        An idle mailbox is empty, so the message does not overtake another.

        Raises:
            DeadlockError: the actor is running further up the current thread's stack, and would wait for itself.
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

    def offer(self, envelope: Envelope, place: Place | None = None) -> bool:
        """Add the message and return True, or return False if the mailbox is closed.

        `place` handles it if the mailbox is idle and the caller is the main thread; by default the pool does.

        Raises:
            MailboxFullError: the mailbox is full; the kernel's signals are accepted nevertheless.
        """
        waiting = self._waiting
        if waiting is _NO_MESSAGES:
            waiting = self._ensure_list()
        if self._limit is None or type(envelope.message) in SIGNALS:
            waiting.append(envelope)
        else:
            with self._mutex:  # so that two threads do not take the last place
                if len(waiting) + len(self._taken) >= self._limit:
                    raise MailboxFullError(self._limit)
                waiting.append(envelope)
        if self._closed and self._withdraw(envelope):
            return False
        if here.is_main:
            if not self._held.locked() and (self._idle_check is None or self._idle_check.has_run):
                check = _IdleCheck(self)
                (place or self.pool).submit(check)
                self._idle_check = check
        elif self._held.acquire(blocking=False):
            try:
                self.pool.submit(self)
            except BaseException:
                self._held.release()
                raise
        return True

    def is_occupied_by(self, occupant: Occupant) -> bool:
        """Return whether the messages are handled by this actor or cell."""
        return self._occupant is occupant

    def put(self, envelope: Envelope, /) -> None:
        """Add the message.

        Raises:
            ActorDeadError: the mailbox is closed.
        """
        if not self.offer(envelope):
            raise pykka.ActorDeadError("the actor has stopped")

    def admit(self, envelope: Envelope) -> None:
        """Add the message regardless of the limit; the mailbox is held."""
        self._ensure_list().append(envelope)

    def run_if_idle(self) -> None:
        """Let the occupant handle some messages if the mailbox is idle; called by a worker."""
        if self._held.acquire(blocking=False):
            self.run()

    def hold(self) -> bool:
        """Hold the mailbox if it is idle, and return whether it is held; it is empty then."""
        if not self._held.acquire(blocking=False):
            return False
        if self._waiting:  # its sender was about to hold the mailbox, too
            self.pool.submit(self)
            return False
        return True

    def next(self) -> Envelope | None:
        """Take the next message from the queue; if there is none, release the mailbox."""
        while True:
            if self._taken or self._waiting:
                try:
                    return self.get()
                except IndexError:
                    pass  # the sender has taken it back
            self._held.release()
            if not self._waiting or not self._held.acquire(blocking=False):
                return None

    def let_go(self) -> None:
        """Release the mailbox, or pass it on to a worker if there are messages."""
        if not (self._taken or self._waiting):
            self._held.release()
            if not self._waiting or not self._held.acquire(blocking=False):
                return
        self.pool.submit(self)

    def again(self) -> None:
        """Pass the mailbox, still held, to a worker."""
        self.pool.submit(self)

    def shut(self) -> None:
        """Close the mailbox: accept no more messages. Waiting messages stay for `drain`."""
        with self._mutex:
            self._closed = True

    def drain(self) -> list[Envelope]:
        """Remove and return all messages of a closed mailbox, and drop its reference to the actor."""
        self._occupant = _ENDED
        with self._mutex:
            rest = [*reversed(self._taken), *self._waiting]
            self._taken.clear()
            self._waiting.clear()
            return rest

    def shut_if_empty(self) -> bool:
        """Close the mailbox if no message waits, and return whether it is closed."""
        with self._mutex:
            self._closed = True
            if self._taken or self._waiting:
                self._closed = False
            return self._closed

    def get(self) -> Envelope:
        """Take the next message from the queue; the mailbox is held.

        Raises:
            IndexError: no message waits.
        """
        if self._taken:
            return self._taken.pop()
        waiting = self._waiting
        return waiting.pop(0) if len(waiting) <= _MOST_REMOVED_IN_PLACE else self._move_to_taken(waiting).pop()

    def first(self) -> Envelope | None:
        """Return the next message, or None, without removing it."""
        if self._taken:
            return self._taken[-1]
        return self._waiting[0] if self._waiting else None

    def awaits_stop(self) -> bool:
        """Return whether a request to stop is among the waiting messages."""
        # In this order, a message that is being moved meanwhile is seen twice rather than missed.
        return any(envelope.stops for envelope in [*self._waiting, *self._taken])

    def empty(self) -> bool:
        """Return whether no message waits."""
        return not (self._waiting or self._taken)

    def __len__(self) -> int:
        with self._mutex:
            return len(self._waiting) + len(self._taken)

    def _ensure_list(self) -> list[Envelope]:
        with self._mutex:
            if self._waiting is _NO_MESSAGES:
                self._waiting = []
            return self._waiting

    def _move_to_taken(self, waiting: list[Envelope]) -> list[Envelope]:
        with self._mutex:
            count = len(waiting)  # other threads may append meanwhile
            taken = waiting[:count]
            taken.reverse()
            self._taken = taken
            del waiting[:count]
        return taken

    def _withdraw(self, envelope: Envelope) -> bool:
        with self._mutex:
            if not self._closed:
                return False
            try:
                self._waiting.remove(envelope)
            except ValueError:
                return False  # `drain` has already taken it
            return True


class _EndedOccupant:
    """Replaces an actor that has ended, so that the remaining references keep only the mailbox in memory."""

    def _turn(self, envelope: Envelope | None) -> None:
        pass


_ENDED = _EndedOccupant()
