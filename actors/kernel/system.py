"""The directory of a system's actors: found by identity, started on demand, stopped together."""

# The parts of the kernel call each other's private methods: what is public there is the user's.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar
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
from reenact.actors.kernel.pool import WorkerPool, here
from reenact.actors.kernel.pooled import Keeper, PooledActor
from reenact.actors.kernel.residents import Residents
from reenact.actors.kernel.timetable import Clock, Timetable, microseconds
from reenact.domain.errors import InvalidInputError, MailboxFullError, RuntimeClosedError, ShardMovedError

ROUNDS = 16
"""How often, while closing, actors that others have woken up again are heard out."""

_NAMED = 5
"""How many of the actors that have not ended in time are named."""
_LONGEST_ID = 1024

P = ParamSpec("P")
Command = TypeVar("Command")
Reply = TypeVar("Reply")
Plain = TypeVar("Plain", bound=pykka.Actor)
Made = TypeVar("Made")


def opened(needs: str) -> Callable[[Callable[Concatenate[Made, P], None]], Callable[Concatenate[Made, P], None]]:
    """Have the constructor of a class that users open say so when it is not given what it `needs` first."""

    def telling(init: Callable[Concatenate[Made, P], None]) -> Callable[Concatenate[Made, P], None]:
        @wraps(init)
        def checked(self: Made, /, *args: P.args, **kwargs: P.kwargs) -> None:
            if needs not in kwargs and (not args or isinstance(args[0], str | os.PathLike)):
                name = type(self).__name__
                raise TypeError(f"{name} is opened; use {name}.open(path)")
            init(self, *args, **kwargs)

        return checked

    return telling


def _check_function(name: str, given: object) -> None:
    if not callable(given):
        raise TypeError(f"{name}={given!r:.100} must be a function")


class ActorSystem:
    """Actors that share a journal and a few worker threads.

    What an actor needs besides its identity is given once for its class: `register(Cls, factory)`, where the factory
    makes it from its `ActorContext`; without one, `Cls(context)` does. Use it as a context manager, or `close` it; one
    that is open when the program ends is closed then, which takes 5 seconds at most.
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
        """Stand on a journal that somebody else closes afterwards.

        Args:
            journal: makes events durable.
            codec: what the journal encodes events with; it learns those that the classes of actors name. None: it
                knows them already.
            workers: how many threads run actors.
            clock: tells the time in microseconds since 1970-01-01 UTC.
            passivate_after: seconds after which an idle event-sourced actor leaves memory. None: never.
            max_live: how many event-sourced actors may be in memory before idle ones have to leave. None: any number.
            event_loop: where actors run that wait, instead of an event loop of their own; somebody else closes it.
            may_start: tells, given the name of its stream, whether an actor that is not in memory may come there, for
                the log has other nodes. If not, whoever sends to it gets a `ShardMovedError`. None: all may.
            wakes: whether a timer that is due brings its actor into memory. If not, it waits until somebody else does.

        Raises:
            TypeError: an argument has another type.
            ValueError: a number is out of range.
        """
        _check_function("clock", clock)
        self.journal = journal
        self._settling = journal if isinstance(journal, SettlingJournal) else None
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
        # Protects the cells (of which `_deliver` reads one without it: a dict does that in one go), the classes and the
        # threads. Of what is a user's, only the functions of snapshots are tried under it, when a class is registered.
        # The family's lock may be taken under it.
        self._lock = threading.RLock()
        self._closes = threading.Lock()  # one thread closes; the others wait for it
        self._closing = False
        self._closed = False
        self._forked = False
        self._let_go = ExitStack()
        if event_loop is None:
            self._let_go.callback(self.event_loop.close)
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
        """Open a log, or begin one, and a system on it; closing the system closes the log.

        Args:
            url: a file, or a URL: `sqlite:///relative.db`, `sqlite:////absolute.db`, or `postgresql://…` with the extra
                `reenact[postgresql]`.
            synchronous: FULL: what was acknowledged survives a loss of power. NORMAL: it survives a crash of the
                process. OFF: neither file nor order is safe from a loss of power.
            listener: hears what actors announce, once it is durable.
            workers: how many threads run actors.
            clock: tells the time in microseconds since 1970-01-01 UTC.
            passivate_after: seconds after which an idle event-sourced actor leaves memory. None: never.
            max_live: how many event-sourced actors may be in memory before idle ones have to leave. None: any number.
            keys: encrypts what is written from now on, and decrypts what is encrypted: all with one key of the log.

        Raises:
            ConfigurationError: there is no such kind of log, or no such setting.
            StorageError: the log cannot be opened; the subclass says why.
            TypeError: an argument has another type.
            ValueError: a number is out of range.
        """
        if listener is not None:
            _check_function("listener", listener)
        codec = EventCodec(())
        with ExitStack() as undo:
            journal = open_journal(url, codec, listener=listener, synchronous=synchronous, keys=keys)
            undo.callback(journal.close)
            system = cls(
                journal,
                codec=codec,
                workers=workers,
                clock=clock,
                passivate_after=passivate_after,
                max_live=max_live,
            )
            system._keep(undo)
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
        """Open a system whose log is gone when it is closed: for tests and trials; the rest is as in `open`."""
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
            system._keep(undo)
        system._at_exit.name = "the actor system in memory"
        return system

    def register(
        self,
        actor_class: type[Answering[Command, Reply]],
        factory: Callable[[ActorContext], Answering[Command, Reply]] | None = None,
    ) -> None:
        """Make the class known: from now on timers of its actors wake them, and the factory makes them.

        Without a factory, the class is called with the context. A class that is not registered is made known by the
        first reference to one of its actors.

        Raises:
            TypeError: something that the class declares cannot work.
            ValueError: another class has the category, or a stored name, or an event type is not fit to be stored.
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
            InvalidInputError: the id cannot be one.
            TypeError, ValueError: as `register` does.
        """
        if actor_class not in self._classes.profiles:
            self.register(actor_class)
        return Reference(self, (actor_class, _checked(id)))

    def start(self, actor_class: Callable[P, Plain], /, *args: P.args, **kwargs: P.kwargs) -> pykka.ActorRef[Plain]:
        """Start an actor without a log, pooled or with a thread of its own; the other arguments are the constructor's.

        It is stopped when the system closes. A pooled one whose class declares a `supervision` is cared for.

        Raises:
            RuntimeClosedError: the system is closed.
            TypeError: the class is event-sourced: `actor` starts its actors.
        """
        return self._start(None, actor_class, lambda: actor_class(*args, **kwargs))

    def stop(self, ref: pykka.ActorRef[Plain]) -> None:
        """Stop an actor that `start` has started, once it has handled what was sent before."""
        ref.stop()

    def on_dead_letter(self, reader: Reader) -> Callable[[], None]:
        """Call the reader with each message that was told and came to nothing; what is returned ends that.

        It is called on the thread where that happens, and must return soon; what it raises is logged.
        """
        return self.letters.subscribe(reader)

    def live(self) -> int:
        """Return the number of actors in memory."""
        return len(self.pool)

    def check_snapshots(self) -> list[Mismatch]:
        """Return the snapshots that are not what the events say, having replayed the streams of all that there are.

        Those of classes that are not known to this system are skipped, and so are those of earlier forms, which
        nobody reads any more.

        Raises:
            StorageError: the log cannot be read.
        """
        return self._classes.mismatches(self.journal)

    def remembered(self, request_id: str) -> Remembered | None:
        """Return the request if an actor has carried it out, as its `remember` said, and it has not been forgotten.

        Raises:
            StorageError: the log cannot be read.
            TypeError: the system stands on a journal of your own, which remembers no requests.
        """
        return self._remembering().remembered(request_id)

    def forget_requests(self, *, before: int) -> int:
        """Forget the requests that were carried out before that time, in microseconds since 1970-01-01 UTC.

        Returns how many they were, once that is durable.

        Raises:
            StorageError: the log cannot be written.
            TypeError: as `remembered` does.
        """
        return self._remembering().forget_requests(before=before)

    # For a node among others: see `nodes.protocol.Tenant`. In all three `may_start` has changed before they are called.

    def resident(self, stream: str) -> bool:
        """Return whether the actor of the stream is in memory, or on its way in or out."""
        key = self._key_of(stream)
        return key is not None and key in self._cells

    def take_up(self) -> None:
        """Hear that streams may start that could not before: what has become due in them meanwhile is done."""
        if self._classes.have_timers:
            self.alarms.begin()

    def hand_off(self, leaves: Callable[[str], bool], then: Callable[[], None]) -> None:
        """Have the actors of these streams leave memory, each as soon as it `can_leave` and nothing waits for it.

        Those that are still there go on taking messages. `then` is called once all have gone, perhaps before this
        returns, whatever they have ended of.
        """
        pending = Countdown(then)
        for cell in self._cells_of(leaves):
            future: PooledFuture[None] = PooledFuture()
            if cell.mailbox.offer(Envelope(HAND_OFF, future)):
                pending.wait_for(future)
                cell.hurry()
        pending.begin()

    def drop(self, is_gone: Callable[[str], bool]) -> None:
        """End the actors of these streams as they are: other nodes have them already, and accept nothing of theirs.

        What waits for them is refused with a `ShardMovedError`. What is being written is believed if it turns out to be
        durable, but not acted upon. Each hears `on_lost` and `on_stop`; this does not wait for that.
        """
        # First who lives, then the cells: so the cell of each who goes on living is among them. Who begins meanwhile
        # finds the signal among what is sent, when its turn comes, and has then read the log later than it was asked.
        living: list[EventSourcedActor[Any, Any, Any]] = [
            actor for actor in self.pool.live() if isinstance(actor, EventSourcedActor)
        ]
        contexts: set[ActorContext] = set()
        for cell in self._cells_of(is_gone):
            if cell.mailbox.offer(Envelope(DROP)):
                contexts.add(cell.context)
                cell.hurry()
        for actor in living:
            if actor.context in contexts:
                actor._give_up()

    def _cells_of(self, concerns: Callable[[str], bool]) -> list[Cell]:
        # Whoever is made after this look asks `may_start` after it, too.
        with self._lock:
            cells = list(self._cells.values())
        return [cell for cell in cells if concerns(cell.context.stream)]

    def _key_of(self, stream: str) -> Key | None:
        actor_class = self._classes.of_stream(stream)
        return None if actor_class is None else (actor_class, stream.partition("/")[2])

    def _remembering(self) -> FeedJournal:
        if isinstance(self.journal, FeedJournal):
            return self.journal
        raise TypeError(f"{type(self.journal).__name__} remembers no requests; see FeedJournal")

    def close(self, timeout: float | None = None) -> None:
        """Let every actor handle what it was sent, and end them and the workers. Idempotent.

        From its beginning nothing is accepted any more, except what actors send each other while they finish. What
        was accepted is handled, or its sender is told that it was not; timers stay in the log. After `timeout` seconds
        it returns in any case, and logs a warning that names what has not ended and is left behind.
        """
        if here.runs_on(self.pool, self._on_loop):
            raise RuntimeError("an actor cannot close the system that it lives in")
        if self._forked:
            return  # it is the parent's, and so is what it holds
        if timeout is not None:
            self._at_exit.close_within(timeout)
            return
        with self._closes:
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
            self._let_go.close()
        self._at_exit.closed()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _keep(self, parts: ExitStack) -> None:
        """Let go of the parts when the system is closed, after what it lets go of already."""
        parts.push(self._let_go.pop_all())
        self._let_go = parts.pop_all()

    def _leave_to_the_parent(self) -> None:
        """Accept nothing any more, in a forked child: the threads, and the log, are the parent's."""
        self._closing = self._closed = self._forked = True
        self._lock = threading.RLock()  # whoever held it is not here

    # For references.

    def append(self, step: Append, done: Done) -> None:
        """Have the step written, by the current thread if it may wait for the disk: actors hold no locks."""
        place = here.pool
        if self._settling is None or not (place is None or place.may_write):
            self.journal.append(step, done)
        else:
            self._settling.append_with_next(step, done)
            self._settle(self._settling)

    def append_in_round(self, step: Append, done: Done) -> None:
        """Have the step written; on the event loop, together with what else is appended in this round of the loop."""
        if self._settling is None or here.pool is not self._on_loop:
            self.journal.append(step, done)
        else:
            self._settling.append_with_next(step, done)
            self.event_loop.after_round(self._write_round)

    def append_with_next(self, step: Append, done: Done) -> None:
        """Have the step written together with the next one that is appended, which is to come at once."""
        if self._settling is None:
            self.journal.append(step, done)
        else:
            self._settling.append_with_next(step, done)

    def _write_round(self) -> None:
        if self._settling is not None and self._on_loop.may_write:
            self._settle(self._settling)
        elif self._settling is not None:
            self.event_loop.commit_begins()
            self._settling.flush(self.event_loop.commit_is_over)

    def _settle(self, journal: SettlingJournal) -> None:
        runs_actors, here.runs_actors = here.runs_actors, False  # what hears of a commit must not wait for the next one
        try:
            journal.settle()
        finally:
            here.runs_actors = runs_actors

    def _deliver(self, key: Key, envelope: Envelope, *, here_and_now: bool = False) -> None:
        """Put the message into the actor's mailbox, or have it handled on the current thread if that is allowed.

        Raises:
            MailboxFullError: no more messages may wait.
            RuntimeClosedError: the system is closed.
        """
        if self._closing and (self._closed or not here.runs_on(self.pool, self._on_loop)):
            raise _closed()
        while True:
            cell = self._cells.get(key)
            if cell is None:
                with self._lock:
                    cell = self._cell(key)
                # It has to read the log first, for which an event loop has no time.
                here_and_now = here_and_now and here.pool is not self._on_loop
            if (here_and_now and cell.mailbox.handled_here(envelope)) or cell.mailbox.offer(envelope):
                return
            # It has left the directory in the meantime, with its mailbox closed: the next one is open.

    def _dismiss(self, key: Key) -> PooledFuture[None]:
        """Ask the actor to stop, if it is live; the future is set when it has."""
        future: PooledFuture[None] = PooledFuture()
        cell = None if self._forked else self._cells.get(key)
        if cell is None or not cell.mailbox.offer(Envelope(STOP, future)):
            future.set(None)
        else:
            cell.hurry()
        return future

    # For actors.

    def _has_children(self, parent: Key) -> bool:
        """Return whether a child of the actor lives."""
        return any(
            child in self._cells if isinstance(child, tuple) else child.is_alive()
            for child in self._family.children(parent)
        )

    # For cells and keepers.

    def _make(self, key: Key, context: ActorContext) -> Callable[[], None]:
        """Make a new incarnation, and return what begins it.

        Raises:
            ShardMovedError: its stream is another node's.
            RuntimeClosedError: the system is closed.
        """
        if self._closed:
            raise _closed()
        if self._may_start is not None and not self._may_start(context.stream):
            raise ShardMovedError(context.stream)
        return self._classes.make(key[0], context)

    def _retire(self, key: Key, mailbox: Mailbox) -> bool:
        """Strike the actor's cell out if nothing waits in its mailbox, and return whether that is so."""
        with self._lock:
            retired = mailbox.shut_if_empty()
            if retired:
                del self._cells[key]
            return retired

    def _orphan(self, key: Key) -> None:
        """Stop the children of an actor that has ended."""
        for child in self._family.part(key):
            if isinstance(child, tuple):
                self._dismiss(child)
            else:
                child.stop(block=False)

    def _rests(self) -> bool:
        """Return whether actors may still be started again by themselves, after a while."""
        return not self._closing

    def _failed(self, child: Child, error: Exception, *, escalates: bool) -> None:
        """Tell the actor's parent, if it has one, that it has ended for good; or let the parent fail with it."""
        parent = self._family.parent(child)
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
            raise _closed()
        actor = make()
        ref: pykka.ActorRef[Plain] = actor.actor_ref
        if isinstance(actor, PooledActor):
            keeper = None if actor.supervision is None else Keeper(self, actor, make)
            with self._lock:
                if self._closed:
                    raise _closed()
                if parent is not None:  # before it can fail
                    self._family.add(parent, ref, None)
                place = self._on_loop if isinstance(actor, EventLoopActor) else self.pool
                actor.go(place, keeper, self.letters)
            return ref
        if isinstance(actor, pykka.ThreadingActor):
            # The system ends it, at exit too, which would wait for any thread but a daemon first.
            vars(actor)["use_daemon_thread"] = True
        pykka.ActorRegistry.register(ref)
        actor._start_actor_loop()  # which is what pykka's own `start` calls
        with self._lock:
            too_late = self._closed
            self._threads = [*(thread for thread in self._threads if thread.is_alive()), ref]
            if parent is not None:
                self._family.add(parent, ref, None)
        if too_late:  # whoever closes the system does not look for threads any more
            ref.stop()
            raise _closed()
        return ref

    def _wake(self, stream: str) -> PooledFuture[None] | None:
        key = self._key_of(stream)
        if key is None:
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
                raise _closed()
            profile = self._classes.profiles[key[0]]
            supervision = self._family.supervision(key) or profile.supervision
            cell = self._cells[key] = Cell(key, self, profile, supervision, self.pool)
        return cell

    def _stop_everyone(self) -> bool:
        """Stop who is live, those with a log first, since they may need the others; tell whether there was anybody."""
        sourced = self._stop_sourced()
        for actor in self.pool.live():
            if isinstance(actor, PooledActor):
                actor.hurry()
        for _ in range(ROUNDS):
            # What the others are doing now may wake those with a log up again, who may need the others.
            for ref in self._plain():
                _hear_out(ref)
            if not self._stop_sourced():
                break
            sourced = True
        plain = self._plain()
        for ref in plain:
            ref.stop()
        return bool(sourced or plain or self._cells)

    def _stop_sourced(self) -> bool:
        stopping = [self._dismiss(key) for key in list(self._cells)]
        for future in stopping:
            future.get()
        return bool(stopping)

    def _unfinished(self) -> list[str]:
        """Name some of the actors that live."""
        named = [f"{kind.__name__} {id_!r}" for kind, id_ in list(self._cells)]
        named += [ref.actor_class.__name__ for ref in self._plain()]
        return named if len(named) <= _NAMED else [*named[:_NAMED], f"{len(named) - _NAMED} more actors"]

    def _plain(self) -> list[PlainReference]:
        """Return the actors without a log that live."""
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


def _closed() -> RuntimeClosedError:
    return RuntimeClosedError("the actor system is closed")


def _hear_out(ref: PlainReference) -> None:
    """Return when the actor has handled what it was sent before, if it lives so long."""
    with suppress(pykka.ActorDeadError, MailboxFullError):
        ref.ask(ProxyGetAttr(attr_path=("actor_urn",)))


def _checked(id: object) -> str:  # noqa: A002 - the word users know it by
    if isinstance(id, str) and id and len(id) <= _LONGEST_ID and id.isprintable():
        return id
    raise InvalidInputError(f"an actor's id is a printable text of 1 to {_LONGEST_ID} characters, not {id!r:.100}")
