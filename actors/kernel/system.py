"""The actor system: finds actors by identity, starts them on demand, and stops them together."""

# Modules of the kernel call each other's private methods: the public names of an actor belong to the user.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Hashable
from contextlib import ExitStack, suppress
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, Final, NoReturn, ParamSpec, Self, TypeVar
from weakref import WeakSet

import pykka
from pykka.messages import ProxyGetAttr

from reenact.actors.journal.api import (
    Append,
    Done,
    FeedJournal,
    Journal,
    Listener,
    Remembered,
    SettlingJournal,
    Synchronous,
)
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.key_ring import KeyRing
from reenact.actors.journal.opening import file_of, is_postgres, open_journal, private_directory
from reenact.actors.kernel.alarms import Alarms
from reenact.actors.kernel.at_exit import AtExit
from reenact.actors.kernel.cell import Cell
from reenact.actors.kernel.classes import ActorClasses, Mismatch
from reenact.actors.kernel.context import ActorContext, Answering, Child, Family, Key, PlainReference, Reference
from reenact.actors.kernel.event_loop import EventLoopThread, LoopPlace
from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.handing_off import Countdown
from reenact.actors.kernel.letters import DeadLetters, Reader
from reenact.actors.kernel.loop_actor import EventLoopActor
from reenact.actors.kernel.mailbox import DROP, DUE, HAND_OFF, STOP, ChildFailed, Envelope, Escalated, Mailbox
from reenact.actors.kernel.persistent import EventSourcedActor
from reenact.actors.kernel.pool import Place, WorkerPool, here
from reenact.actors.kernel.pooled import Keeper, PooledActor
from reenact.actors.kernel.residents import Residents
from reenact.actors.kernel.timetable import Clock, Timetable, microseconds
from reenact.domain.errors import (
    InvalidInputError,
    MailboxFullError,
    RuntimeClosedError,
    ShardMovedError,
    opened_before_fork,
    tied_to_process,
)

ROUNDS = 16
"""How many rounds of closing wait for actors that other actors have woken again."""

_MOST_NAMED = 5
"""How many of the actors that have not ended in time are named in the warning."""
_LONGEST_ID = 1024

P = ParamSpec("P")
Command = TypeVar("Command")
Reply = TypeVar("Reply")
Plain = TypeVar("Plain", bound=pykka.Actor)
Made = TypeVar("Made")
Part = TypeVar("Part", bound=Hashable)


def opened(needs: str) -> Callable[[Callable[Concatenate[Made, P], None]], Callable[Concatenate[Made, P], None]]:
    """Make a constructor that users should not call raise a helpful error if the argument `needs` is missing."""

    def decorate(init: Callable[Concatenate[Made, P], None]) -> Callable[Concatenate[Made, P], None]:
        @wraps(init)
        def checked(self: Made, /, *args: P.args, **kwargs: P.kwargs) -> None:
            if needs not in kwargs and (not args or isinstance(args[0], str | os.PathLike)):
                name = type(self).__name__
                raise TypeError(f"{name} is opened; use {name}.open(path)")
            init(self, *args, **kwargs)

        return checked

    return decorate


def _check_function(name: str, given: object) -> None:
    if not callable(given):
        raise TypeError(f"{name}={given!r:.100} must be a function")


class ActorSystem:
    """Actors that share a journal and a few worker threads.

    Dependencies of an actor besides its identity are given once per class: `register(Cls, factory)`, where the factory
    creates the actor from its `ActorContext`; without a factory, `Cls(context)` does. Use the system as a context
    manager, or `close` it; a system that is still open when the program exits is closed then, within 5 seconds.
    """

    @opened("journal")
    def __init__(
        self,
        journal: Journal,
        *,
        codec: EventCodec | None = None,
        workers: int = 2,
        clock: Clock = microseconds,
        passivate_after: float | None = None,
        max_live: int | None = None,
        event_loop: EventLoopThread | None = None,
        may_start: Callable[[str], bool] | None = None,
        wakes: bool = True,
    ) -> None:
        """Use a journal that the caller closes afterwards.

        Args:
            journal: makes events durable.
            codec: encodes the journal's events; the event types of registered classes are added to it. None: the
                journal's codec knows them already.
            workers: the number of threads that run actors.
            clock: returns microseconds since 1970-01-01 UTC.
            passivate_after: seconds after which an idle event-sourced actor leaves memory. None: never.
            max_live: how many event-sourced actors may be in memory before idle ones must leave. None: any number.
            event_loop: the event loop that runs `EventLoopActor`s, instead of one of the system's own; the caller
                closes it.
            may_start: returns whether the actor of this stream may be brought into memory here, since the log has other
                nodes. If not, the sender gets a `ShardMovedError`. None: all may.
            wakes: whether a due timer brings its actor into memory. If not, the timer waits until a message does.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: a number is out of range.
        """
        _check_function("clock", clock)
        self.journal = journal
        self._settling_journal = journal if isinstance(journal, SettlingJournal) else None
        self.clock = clock
        self.pool = WorkerPool(workers, daemons=True)
        self.event_loop = EventLoopThread() if event_loop is None else event_loop
        self._on_loop = LoopPlace(self.event_loop, self.pool)
        self.timetable = Timetable(clock)
        self.residents = Residents(self.timetable, idle=passivate_after, limit=max_live)
        self.letters = DeadLetters()
        self.alarms = Alarms(journal, self.timetable, clock, self._wake)
        self._may_start = may_start
        self._wakes = wakes
        self._classes = ActorClasses(codec)
        self._cells: dict[Key, Cell] = {}
        self._family = Family()
        self._threads: list[PlainReference] = []
        # Protects the cells (`_deliver` reads one without the lock, since a dict lookup is atomic), the classes and the
        # threads. The only user functions called under it are those for snapshots, when a class is registered. The
        # family's lock may be taken under it.
        self._lock = threading.RLock()
        self._close_lock = threading.Lock()  # one thread closes the system; others wait for it
        self._closing = False
        self._closed = False
        self._forked = False
        self._closed_last = ExitStack()
        if event_loop is None:
            self._closed_last.callback(self.event_loop.close)
        self._at_exit = AtExit("an actor system", self.close, self._unfinished)
        _systems.add(self)

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str],
        *,
        synchronous: Synchronous = "FULL",
        listener: Listener | None = None,
        workers: int = 2,
        clock: Clock = microseconds,
        passivate_after: float | None = 120.0,
        max_live: int | None = 100_000,
        keys: KeyRing | None = None,
    ) -> Self:
        """Open or create a log, and a system on it; closing the system closes the log.

        Args:
            url: a file, or a URL: `sqlite:///relative.db`, `sqlite:////absolute.db`, or `postgresql://…` with the extra
                `reenact[postgresql]`.
            synchronous: FULL: acknowledged events survive a power failure. NORMAL: they survive a crash of the process.
                OFF: a power failure may corrupt the file and the order of its writes.
            listener: is called with the segments that actors announce, once they are durable.
            workers: the number of threads that run actors.
            clock: returns microseconds since 1970-01-01 UTC.
            passivate_after: seconds after which an idle event-sourced actor leaves memory. None: never.
            max_live: how many event-sourced actors may be in memory before idle ones must leave. None: any number.
            keys: encrypts everything written from now on and decrypts what is encrypted; one key for the whole log.

        Raises:
            ConfigurationError: the kind of log or a setting is unknown.
            StorageError: the log cannot be opened; the subclass says why.
            TypeError: an argument has the wrong type.
            ValueError: a number is out of range.
        """
        if listener is not None:
            _check_function("listener", listener)
        codec = EventCodec(())
        with ExitStack() as undo:
            journal = open_journal(url, codec, listener=listener, synchronous=synchronous, keys=keys)
            undo.callback(journal.close)
            journal.check_finished()
            system = cls(
                journal,
                codec=codec,
                workers=workers,
                clock=clock,
                passivate_after=passivate_after,
                max_live=max_live,
            )
            system._close_last(undo)
        system._at_exit.name = f"the actor system on {'PostgreSQL' if is_postgres(url) else file_of(url)}"
        return system

    @classmethod
    def in_memory(
        cls,
        *,
        listener: Listener | None = None,
        workers: int = 2,
        clock: Clock = microseconds,
        passivate_after: float | None = 120.0,
        max_live: int | None = 100_000,
    ) -> Self:
        """Open a system whose log is deleted when it is closed: for tests and trials. Arguments as in `open`."""
        with ExitStack() as undo:
            system = cls.open(
                private_directory(undo) / "log.db",
                synchronous="OFF",
                listener=listener,
                workers=workers,
                clock=clock,
                passivate_after=passivate_after,
                max_live=max_live,
            )
            system._close_last(undo)
        system._at_exit.name = "the actor system in memory"
        return system

    def register(
        self,
        actor_class: type[Answering[Command, Reply]],
        factory: Callable[[ActorContext], Answering[Command, Reply]] | None = None,
    ) -> None:
        """Register the class, with the factory that creates its actors; due timers wake its actors from now on.

        Without a factory, the class is called with the context. The first reference to an actor registers its class if
        that has not been done.

        Raises:
            TypeError: a declaration of the class is invalid.
            ValueError: another class has the same category or stored name, or an event type cannot be stored.
        """
        with self._lock:
            is_new = self._classes.register(actor_class, factory)
        if is_new and self._classes.profiles[actor_class].timers is not None:
            self.alarms.begin()

    def actor(
        self,
        actor_class: type[Answering[Command, Reply]],
        id: str,  # noqa: A002 - the word users know it by
    ) -> Reference[Command, Reply]:
        """Return a reference to the actor; the first message starts it.

        Raises:
            InvalidInputError: the id is invalid.
            TypeError, ValueError: as `register` raises them.
        """
        if actor_class not in self._classes.profiles:
            self.register(actor_class)
        return Reference(self, (actor_class, _check_id(id)))

    def start(self, actor_class: Callable[P, Plain], /, *args: P.args, **kwargs: P.kwargs) -> pykka.ActorRef[Plain]:
        """Start an actor without a log, pooled or with its own thread; the other arguments go to its constructor.

        It is stopped when the system closes. A pooled actor is supervised if its class declares a `supervision`.

        Raises:
            RuntimeClosedError: the system is closed.
            TypeError: the class is event-sourced: use `actor` for its actors.
        """
        return self._start(None, actor_class, lambda: actor_class(*args, **kwargs))

    def stop(self, ref: pykka.ActorRef[Plain]) -> None:
        """Stop an actor that `start` has started, once it has handled all earlier messages."""
        ref.stop()

    def on_dead_letter(self, reader: Reader) -> Callable[[], None]:
        """Call the reader with each message that was told and not handled; return a function that unsubscribes.

        The reader is called on the thread where that happens, and must return soon; its exceptions are logged.
        """
        return self.letters.subscribe(reader)

    def live(self) -> int:
        """Return the number of actors in memory."""
        return len(self.pool)

    def check_snapshots(self) -> list[Mismatch]:
        """Replay the streams that have snapshots, and return the snapshots that differ from the events.

        Snapshots of unregistered classes are skipped, and so are those of earlier forms, which are no longer read.

        Raises:
            StorageError: the log cannot be read.
        """
        return self._classes.mismatches(self.journal)

    def remembered(self, request_id: str) -> Remembered | None:
        """Return the request if an actor has carried it out, as its `remember` said, and it has not been forgotten.

        Raises:
            StorageError: the log cannot be read.
            TypeError: the system uses a custom journal that does not store requests.
        """
        return self._feed_journal().remembered(request_id)

    def forget_requests(self, *, before: int) -> int:
        """Delete the requests that were carried out before that time, in microseconds since 1970-01-01 UTC.

        Returns their number, once the deletion is durable.

        Raises:
            StorageError: the log cannot be written.
            TypeError: as `remembered` raises it.
        """
        return self._feed_journal().forget_requests(before=before)

    # For a node in a cluster: see `nodes.protocol.Tenant`. `may_start` has changed before any of these is called.

    def resident(self, stream: str) -> bool:
        """Return whether the stream's actor is in memory, or is being started or stopped."""
        key = self._key_of(stream)
        return key is not None and key in self._cells

    def take_up(self) -> None:
        """Wake the due streams after `may_start` has begun to allow more of them."""
        if self._classes.have_timers:
            self.alarms.begin()

    def hand_off(self, part_of: Callable[[str], Part], parts: Collection[Part], then: Callable[[Part], None]) -> None:
        """Remove the actors of some parts of the log from memory, each once it `can_leave` and no message waits for it.

        `part_of` returns the part that a stream belongs to. Actors still in memory go on taking messages. `then` is
        called with each part once all of its actors have ended, for whatever reason, perhaps before this returns.
        """
        pending = {part: Countdown(partial(then, part)) for part in parts}
        for cell in self._cells_of(lambda stream: part_of(stream) in pending):
            future: PooledFuture[None] = PooledFuture()
            if cell.mailbox.offer(Envelope(HAND_OFF, future)):
                pending[part_of(cell.context.stream)].wait_for(future)
                cell.restart_now()
        for countdown in pending.values():
            countdown.begin()

    def drop(self, is_gone: Callable[[str], bool]) -> None:
        """End the actors of these streams at once: other nodes own them, and the log accepts no more of their events.

        Waiting messages are refused with a `ShardMovedError`. A step that is being written changes the state if it
        proves durable, but has no effects. `on_lost` and `on_stop` are called on each actor; this does not wait for
        that.
        """
        # First the live actors, then the cells: so the cell of each actor that stays alive is included. An actor that
        # starts meanwhile finds the signal among its messages, and has then read the log after the streams were lost.
        living: list[EventSourcedActor[Any, Any, Any]] = [
            actor for actor in self.pool.live() if isinstance(actor, EventSourcedActor)
        ]
        contexts: set[ActorContext] = set()
        for cell in self._cells_of(is_gone):
            if cell.mailbox.offer(Envelope(DROP)):
                contexts.add(cell.context)
                cell.restart_now()
        for actor in living:
            if actor.context in contexts:
                actor._stop_handling_messages()

    def _cells_of(self, concerns: Callable[[str], bool]) -> list[Cell]:
        # An actor created after this look also asks `may_start` after it.
        with self._lock:
            cells = list(self._cells.values())
        return [cell for cell in cells if concerns(cell.context.stream)]

    def _key_of(self, stream: str) -> Key | None:
        actor_class = self._classes.of_stream(stream)
        return None if actor_class is None else (actor_class, stream.partition("/")[2])

    def _feed_journal(self) -> FeedJournal:
        if isinstance(self.journal, FeedJournal):
            return self.journal
        raise TypeError(f"{type(self.journal).__name__} remembers no requests; see FeedJournal")

    def close(self, timeout: float | None = None) -> None:
        """Let every actor handle its messages, then end the actors and the workers. Idempotent.

        From the start of the call no messages are accepted, except those that actors send each other while they finish.
        Every accepted message is handled, or its sender gets an error; timers stay in the log. After `timeout` seconds
        the call returns in any case, and logs a warning that names what has not ended and is abandoned.
        """
        if here.runs_on(self.pool, self._on_loop):
            raise RuntimeError("an actor cannot close the system that it lives in")
        if self._forked:
            return  # the system, and what it holds, belong to the parent process
        if timeout is not None:
            self._at_exit.close_within(timeout)
            return
        with self._close_lock:
            self._closing = True
            self.timetable.close()
            for _ in range(ROUNDS):
                if not self._stop_everyone():
                    break
            with self._lock:
                self._closed = True
            while self._stop_everyone():
                pass
            self.pool.close()
            self._closed_last.close()
        self._at_exit.closed()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise tied_to_process(self)

    def _closed_error(self) -> RuntimeClosedError:
        return opened_before_fork("actor system") if self._forked else RuntimeClosedError("the actor system is closed")

    def _close_last(self, parts: ExitStack) -> None:
        """Close the parts when the system is closed, after what it already closes then."""
        parts.push(self._closed_last.pop_all())
        self._closed_last = parts.pop_all()

    def _leave_to_the_parent(self) -> None:
        """Accept nothing in a forked child: the threads and the log belong to the parent."""
        self._closing = self._closed = self._forked = True
        self._lock = threading.RLock()  # the thread that held it does not exist in the child

    # Called by references.

    def append(self, step: Append, done: Done) -> None:
        """Append the step, on the current thread if it may wait for the disk; actors hold no locks.

        A worker commits the steps of a round of its work together, unless another actor on this thread waits for one.
        """
        place = here.pool
        if self._settling_journal is None or not (place is None or place.may_write):
            self.journal.append(step, done)
            return
        self._settling_journal.append_with_next(step, done)
        if place is self.pool and len(here.running) == 1:
            self.pool.after_round(self._commit_work)
        else:
            self._commit_here()

    def append_in_round(self, step: Append, done: Done) -> None:
        """Append the step; on the event loop, in one batch with the other steps appended in this round of the loop."""
        if self._settling_journal is None or here.pool is not self._on_loop:
            self.journal.append(step, done)
        else:
            self._settling_journal.append_with_next(step, done)
            self.event_loop.after_round(self._commit_round)

    def append_with_next(self, step: Append, done: Done) -> None:
        """Append the step in one batch with the next one, which must follow at once."""
        if self._settling_journal is None:
            self.journal.append(step, done)
        else:
            self._settling_journal.append_with_next(step, done)

    def _commit_work(self) -> None:
        if self.pool.has_work and self._settling_journal is not None:
            self._settling_journal.flush(_do_nothing)
        else:
            self._commit_here()

    def _commit_round(self) -> None:
        if self._on_loop.may_write:
            self._commit_here()
        elif self._settling_journal is not None:
            self.event_loop.commit_begins()
            self._settling_journal.flush(self.event_loop.commit_is_over)

    def _commit_here(self) -> None:
        runs_actors, here.runs_actors = here.runs_actors, False  # callbacks of a commit must not wait for another
        try:
            if self._settling_journal is not None:
                self._settling_journal.settle()
        finally:
            here.runs_actors = runs_actors

    def _deliver(self, key: Key, envelope: Envelope, *, here_and_now: bool = False) -> None:
        """Put the message into the actor's mailbox, or handle it on the current thread if that is allowed.

        Raises:
            MailboxFullError: the actor's mailbox is full.
            RuntimeClosedError: the system is closed.
        """
        if self._closing and (self._closed or not here.runs_on(self.pool, self._on_loop)):
            raise self._closed_error()
        while True:
            cell = self._cells.get(key)
            if cell is None:
                with self._lock:
                    cell = self._cell(key)
                # The actor must read the log first, which would block an event loop.
                here_and_now = here_and_now and here.pool is not self._on_loop
            if here_and_now and cell.mailbox.handled_here(envelope):
                return
            if cell.mailbox.offer(envelope, self._quick_place(cell, envelope) if here.is_main else None):
                return
            # The cell has been removed meanwhile, with its mailbox closed: the next one is open.

    def _quick_place(self, cell: Cell, envelope: Envelope) -> Place | None:
        """Return the event loop if the actor is live and the loop may handle this message; else None."""
        if type(envelope.message) not in cell.context.profile.quick_commands:
            return None
        is_live = not cell.mailbox.is_occupied_by(cell)
        return self._on_loop if is_live and self.event_loop.is_idle else None

    def _ask_to_stop(self, key: Key) -> PooledFuture[None]:
        """Ask the actor to stop if it is live; the future is set when it has stopped."""
        future: PooledFuture[None] = PooledFuture()
        cell = None if self._forked else self._cells.get(key)
        if cell is None or not cell.mailbox.offer(Envelope(STOP, future)):
            future.set(None)
        else:
            cell.restart_now()
        return future

    # Called by actors.

    def _has_children(self, parent: Key) -> bool:
        """Return whether the actor has a live child."""
        return any(
            child in self._cells if isinstance(child, tuple) else child.is_alive()
            for child in self._family.children(parent)
        )

    # Called by cells and keepers.

    def _make(self, key: Key, context: ActorContext) -> Callable[[], None]:
        """Create an incarnation and return the function that starts it.

        Raises:
            ShardMovedError: another node owns the stream.
            RuntimeClosedError: the system is closed.
        """
        if self._closed:
            raise self._closed_error()
        if self._may_start is not None and not self._may_start(context.stream):
            raise ShardMovedError(context.stream)
        return self._classes.make(key[0], context)

    def _remove_cell(self, key: Key, mailbox: Mailbox) -> bool:
        """Remove the actor's cell if its mailbox is empty, and return whether it was removed."""
        with self._lock:
            retired = mailbox.shut_if_empty()
            if retired:
                del self._cells[key]
            return retired

    def _stop_children(self, key: Key) -> None:
        """Stop the children of an actor that has ended."""
        for child in self._family.part(key):
            if isinstance(child, tuple):
                self._ask_to_stop(child)
            else:
                child.stop(block=False)

    def _may_restart(self) -> bool:
        """Return whether actors may still be restarted after a backoff."""
        return not self._closing

    def _report_ended(self, parent: Key | None, child: Child, error: Exception, *, escalates: bool) -> None:
        """Tell the parent, if any, that its child has ended for good, or make the parent fail with it."""
        cell = None if parent is None else self._cells.get(parent)
        if cell is not None:
            named = Reference[object, object](self, child) if isinstance(child, tuple) else child
            cell.mailbox.offer(Envelope(Escalated(error) if escalates else ChildFailed(named, error)))

    def _start(self, parent: Key | None, kind: object, make: Callable[[], Plain]) -> pykka.ActorRef[Plain]:
        if isinstance(kind, type) and issubclass(kind, EventSourcedActor):
            name = kind.__name__
            how = f"ActorSystem.actor({name}, id)" if parent is None else f"self.context.child({name}, name)"
            raise TypeError(f"{name} is event-sourced: {how} returns a reference, and the first message starts it")
        if self._closing and (self._closed or not here.runs_on(self.pool, self._on_loop)):
            raise self._closed_error()
        actor = make()
        ref: pykka.ActorRef[Plain] = actor.actor_ref
        if isinstance(actor, PooledActor):
            keeper = None if actor.supervision is None else Keeper(self, actor, make)
            with self._lock:
                if self._closed:
                    raise self._closed_error()
                if parent is not None:  # before the actor can fail
                    self._family.add(parent, ref, None)
                place = self._on_loop if isinstance(actor, EventLoopActor) else self.pool
                actor.go(place, keeper, self.letters)
            return ref
        if isinstance(actor, pykka.ThreadingActor):
            # The system stops it, also at exit, where Python would first wait for any non-daemon thread.
            vars(actor)["use_daemon_thread"] = True
        pykka.ActorRegistry.register(ref)
        actor._start_actor_loop()  # as pykka's own `start` does
        with self._lock:
            too_late = self._closed
            self._threads = [*(thread for thread in self._threads if thread.is_alive()), ref]
            if parent is not None:
                self._family.add(parent, ref, None)
        if too_late:  # the closing thread no longer looks for threads
            ref.stop()
            raise self._closed_error()
        return ref

    def _wake(self, stream: str) -> PooledFuture[None] | None:
        key = self._key_of(stream)
        if key is None or self._closing:
            return None
        if key not in self._cells:
            if not self._wakes:
                return None
            if self._may_start is not None and not self._may_start(stream):
                return None  # another node wakes it
        future: PooledFuture[None] = PooledFuture()
        self._deliver(key, Envelope(DUE, future))
        return future

    def _cell(self, key: Key) -> Cell:
        cell = self._cells.get(key)
        if cell is None:
            if self._closed:
                raise self._closed_error()
            profile = self._classes.profiles[key[0]]
            supervision = self._family.supervision(key) or profile.supervision
            if not self._cells:
                self.pool.prepare()
            # The handler of a signal may have interrupted this, and sent something to the same actor.
            cell = self._cells.setdefault(key, Cell(key, self, profile, supervision, self.pool))
        return cell

    def _stop_everyone(self) -> bool:
        """Stop the live actors, event-sourced ones first, as they may need the others; return whether any lived."""
        sourced = self._stop_sourced()
        for actor in self.pool.live():
            if isinstance(actor, PooledActor):
                actor.restart_now()
        for _ in range(ROUNDS):
            # The plain actors' current work may wake event-sourced actors again, which may need the plain ones.
            for ref in self._live_plain_actors():
                _wait_for_messages(ref)
            if not self._stop_sourced():
                break
            sourced = True
        plain = self._live_plain_actors()
        for ref in plain:
            ref.stop()
        return bool(sourced or plain or self._cells)

    def _stop_sourced(self) -> bool:
        stopping = [self._ask_to_stop(key) for key in list(self._cells)]
        for future in stopping:
            future.get()
        return bool(stopping)

    def _unfinished(self) -> list[str]:
        """Return the names of some of the live actors."""
        named = [f"{kind.__name__} {id_!r}" for kind, id_ in list(self._cells)]
        named += [ref.actor_class.__name__ for ref in self._live_plain_actors()]
        return named if len(named) <= _MOST_NAMED else [*named[:_MOST_NAMED], f"{len(named) - _MOST_NAMED} more actors"]

    def _live_plain_actors(self) -> list[PlainReference]:
        """Return the live actors without a log."""
        pooled = [
            actor.actor_ref
            for actor in self.pool.live()
            if isinstance(actor, PooledActor) and not isinstance(actor, EventSourcedActor)
        ]
        with self._lock:
            self._threads = [ref for ref in self._threads if ref.is_alive()]
            return [*pooled, *self._threads]


_systems: Final[WeakSet[ActorSystem]] = WeakSet()


def _leave_systems_to_the_parent() -> None:
    for system in list(_systems):
        system._leave_to_the_parent()


os.register_at_fork(after_in_child=_leave_systems_to_the_parent)


def _wait_for_messages(ref: PlainReference) -> None:
    """Wait until the actor has handled all earlier messages or has ended."""
    with suppress(pykka.ActorDeadError, MailboxFullError):
        ref.ask(ProxyGetAttr(attr_path=("actor_urn",)))


def _do_nothing() -> None: ...


def _check_id(id: object) -> str:  # noqa: A002 - the word users know it by
    if isinstance(id, str) and id and len(id) <= _LONGEST_ID and id.isprintable():
        return str.__str__(id)  # the text of a member of an Enum, whose name an f-string would give
    raise InvalidInputError(f"an actor's id must be a printable text of 1 to {_LONGEST_ID} characters, not {id!r:.100}")
