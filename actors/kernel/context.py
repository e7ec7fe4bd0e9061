"""Actor identities, parents, references and contexts: what actors see of each other and of their system."""

# Modules of the kernel call each other's private methods: the public names of an actor belong to the user.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, NoReturn, ParamSpec, Protocol, Self, TypeAlias

import pykka

from reenact.actors.journal.api import Append, Done, Journal
from reenact.actors.kernel.alarms import Alarms
from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.letters import DeadLetters
from reenact.actors.kernel.mailbox import SIGNALS, Drop, Due, Envelope, Mailbox
from reenact.actors.kernel.pool import WorkerPool, here, refuse_on_loop
from reenact.actors.kernel.profile import AnyProfile
from reenact.actors.kernel.residents import Residents
from reenact.actors.kernel.supervision import Supervision, shown
from reenact.actors.kernel.timetable import Clock, Timetable
from reenact.domain.errors import (
    DeadlockError,
    MailboxFullError,
    RequestTimeoutError,
    ShardMovedError,
    StorageError,
)
from reenact.domain.plain import seconds_of

if TYPE_CHECKING:
    from typing import Never

    from typing_extensions import TypeVar

    Reply_co = TypeVar("Reply_co", covariant=True, default=object)
else:  # `typing.TypeVar` has no defaults before Python 3.13
    from typing import TypeVar

    Reply_co = TypeVar("Reply_co", covariant=True)

P = ParamSpec("P")
Command = TypeVar("Command")
Command_contra = TypeVar("Command_contra", contravariant=True)
Reply = TypeVar("Reply")
PlainActor = TypeVar("PlainActor", bound=pykka.Actor)

Key: TypeAlias = tuple[type, str]
"""An actor's identity: its class and its id."""

_CHILDREN_CHECKED = 2
"""How many older children are checked for being dead when another one is added."""

_log = logging.getLogger("reenact.kernel")


class Answering(Protocol[Command, Reply_co]):
    """A class of event-sourced actors, whose command and reply types are those of these methods."""

    def prepare(self, command: Command) -> Command: ...
    def reply(self, command: Command, events: tuple[Never, ...]) -> Reply_co: ...


class PlainReference(Protocol):
    """A reference to an actor without a log, of any class."""

    @property
    def actor_class(self) -> type: ...
    def is_alive(self) -> bool: ...
    def ask(self, message: object) -> object: ...
    def stop(self, *, block: bool = True) -> object: ...


Child: TypeAlias = Key | PlainReference


class Family:
    """The parents and the supervision of actors; kept in memory only, while the parents live."""

    def __init__(self) -> None:
        # Protects the three dictionaries together. A single lookup in one of them needs no lock.
        self._lock = threading.Lock()
        self._children: dict[Key, OrderedDict[Child, None]] = {}
        self._parents: dict[Child, Key] = {}
        self._care: dict[Child, Supervision] = {}

    def add(self, parent: Key, child: Child, supervision: Supervision | None) -> None:
        """Add a child. Idempotent; the last supervision given applies when the child is next started."""
        with self._lock:
            children = self._children.setdefault(parent, OrderedDict())
            if child not in children:
                self._forget_dead(children)
            children[child] = None
            self._parents[child] = parent
            if supervision is not None:
                self._care[child] = supervision

    def part(self, parent: Key) -> list[Child]:
        """Remove the children of the parent and return them."""
        if parent not in self._children:
            return []
        with self._lock:
            # A child that another parent has taken over since belongs to that parent.
            children = [child for child in self._children.pop(parent, ()) if self._parents.get(child) == parent]
            for child in children:
                self._parents.pop(child, None)
                self._care.pop(child, None)
            return children

    def children(self, parent: Key) -> list[Child]:
        """Return the children of the parent."""
        if parent not in self._children:
            return []
        with self._lock:
            return list(self._children.get(parent, ()))

    def parent(self, child: Child) -> Key | None:
        """Return the parent, if there is one; a dead actor without a log may be forgotten at any time."""
        return self._parents.get(child)

    def supervision(self, child: Child) -> Supervision | None:
        """Return the supervision that the parent has set for the child, if any."""
        return self._care.get(child)

    def _forget_dead(self, children: OrderedDict[Child, None]) -> None:
        # Actors without a log do not return. A parent that keeps spawning them must not keep entries for the dead ones.
        for _ in range(min(_CHILDREN_CHECKED, len(children))):
            child, _ = children.popitem(last=False)
            if isinstance(child, tuple) or child.is_alive():
                children[child] = None
            else:
                self._parents.pop(child, None)


class ActorHost(Protocol):
    """The system's interface for its actors, references and cells, whose modules the system imports."""

    journal: Journal
    clock: Clock
    pool: WorkerPool
    timetable: Timetable
    residents: Residents
    alarms: Alarms
    letters: DeadLetters
    _family: Family

    def append(self, step: Append, done: Done) -> None:
        """Append the step; `done` is called with the outcome, perhaps before this returns."""

    def append_in_round(self, step: Append, done: Done) -> None:
        """Append the step; on the event loop, in one batch with the other steps appended in this round of the loop."""

    def append_with_next(self, step: Append, done: Done) -> None:
        """Append the step in one batch with the next one, which must follow at once."""

    def actor(self, actor_class: type[Answering[Command, Reply]], id: str) -> Reference[Command, Reply]:  # noqa: A002
        """Return a reference to the actor."""
        ...

    def _deliver(self, key: Key, envelope: Envelope, *, here_and_now: bool = False) -> None:
        """Put the message into the actor's mailbox, or handle it on the current thread if that is allowed."""

    def _ask_to_stop(self, key: Key) -> PooledFuture[None]:
        """Ask the actor to stop if it is live; the future is set when it has stopped."""
        ...

    def _start(self, parent: Key, kind: object, make: Callable[[], PlainActor]) -> pykka.ActorRef[PlainActor]:
        """Start an actor of class `kind` without a log, which is stopped when its parent ends."""
        ...

    def _make(self, key: Key, context: ActorContext) -> Callable[[], None]:
        """Create an incarnation and return the function that starts it. `ShardMovedError` is not a failure."""
        ...

    def _has_children(self, parent: Key) -> bool:
        """Return whether the actor has a live child."""
        ...

    def _remove_cell(self, key: Key, mailbox: Mailbox) -> bool:
        """Remove the actor's cell if its mailbox is empty, and return whether it was removed."""
        ...

    def _stop_children(self, key: Key) -> None:
        """Stop the children of an actor that has ended."""

    def _report_ended(self, parent: Key | None, child: Child, error: Exception, *, escalates: bool) -> None:
        """Tell the parent, if any, that its child has ended for good, or make the parent fail with it."""

    def _may_restart(self) -> bool:
        """Return whether actors may still be restarted after a backoff."""
        ...


class Reference(Generic[Command_contra, Reply_co]):
    """The address of an event-sourced actor, whether it is in memory or not. Equal if class and id are equal."""

    __slots__ = ("_key", "_system")

    if not TYPE_CHECKING:

        def __class_getitem__(cls, _: object) -> type[Reference]:
            """Accept one type argument or two."""
            return cls

    def __init__(self, system: ActorHost, key: Key) -> None:
        self._system = system
        self._key = key

    @property
    def id(self) -> str:
        """The actor's id."""
        return self._key[1]

    def ask(self, command: Command_contra, timeout: float | None = None) -> Reply_co:
        """Send the command and return the reply, after the actor's events are durable.

        Raises:
            ReenactError: the actor refused the command, or its events could not be recorded.
            RequestTimeoutError: no reply came within `timeout` seconds; the command may still take effect.
            MailboxFullError: the actor's mailbox is full.
            RuntimeClosedError: the system is closed.
            DeadlockError: the current thread is that of an event loop on which actors run; await `ask_async`.
            InvalidInputError: the timeout is not a number; nothing was sent.
        """
        refuse_on_loop()
        seconds = seconds_of(timeout)
        future: PooledFuture[Reply_co] = PooledFuture()
        self._system._deliver(self._key, Envelope(command, future), here_and_now=seconds is None)
        try:
            return future.get(timeout=seconds)
        except pykka.Timeout:
            if future.done():  # the reply came at this very moment, or the timeout is what the actor raised
                return future.get()
            raise self._timeout_error(timeout) from None

    async def ask_async(self, command: Command_contra, timeout: float | None = None) -> Reply_co:  # noqa: ASYNC109 - as `ask`
        """Send the command and return the reply as `ask` does, without blocking the event loop.

        Raises:
            ReenactError: the actor refused the command, or its events could not be recorded.
            RequestTimeoutError: no reply came within `timeout` seconds; the command may still take effect.
            MailboxFullError: the actor's mailbox is full.
            RuntimeClosedError: the system is closed.
            InvalidInputError: the timeout is not a number; nothing was sent.
        """
        import asyncio  # noqa: PLC0415 - a caller that awaits has imported it already

        limit = asyncio.timeout(seconds_of(timeout))
        future = self.ask_future(command)
        try:
            async with limit:
                return await future
        except TimeoutError:
            if not limit.expired():
                raise
            raise self._timeout_error(timeout) from None

    def ask_future(self, command: Command_contra) -> PooledFuture[Reply_co]:
        """Send the command and return the future of the reply, which can be awaited.

        An actor that waits in `get` for its own reply, without a timeout, gets a `DeadlockError`.

        Raises:
            MailboxFullError: the actor's mailbox is full.
            RuntimeClosedError: the system is closed.
        """
        future: PooledFuture[Reply_co] = PooledFuture()
        future.asked = self._running_here()
        self._system._deliver(self._key, Envelope(command, future))
        return future

    def tell(self, command: Command_contra, *, here_and_now: bool = False) -> None:
        """Send the command without waiting for a reply. A refused command becomes a dead letter.

        With `here_and_now`, an idle actor handles it on this thread if the thread runs actors; the caller must hold no
        lock that the actor takes.

        Raises:
            MailboxFullError: the actor's mailbox is full.
            RuntimeClosedError: the system is closed.
        """
        self._system._deliver(self._key, Envelope(command), here_and_now=here_and_now and here.pool is not None)

    def stop(self, timeout: float | None = None) -> None:
        """Remove the actor from memory once it has handled all earlier messages; the next command starts it again.

        Raises:
            RequestTimeoutError: the actor had not ended within `timeout` seconds; it still will.
            DeadlockError: the caller is this actor, or one that this actor is waiting for; in an actor, call
                `self.stop()`.
        """
        if timeout is None and self._running_here() is not None:
            raise DeadlockError("an actor that waits for its own end waits for ever; let it call self.stop()")
        try:
            self._system._ask_to_stop(self._key).get(timeout=timeout)
        except pykka.Timeout:
            raise RequestTimeoutError(f"{self} has not stopped within {timeout} seconds") from None

    def _running_here(self) -> object:
        """Return the actor's mailbox if the actor is running further up the current thread's stack; else None."""
        for mailbox in here.running:
            context = _context_of(mailbox)
            if context is not None and context._key == self._key and context.system is self._system:
                return mailbox
        return None

    def _timeout_error(self, timeout: float | None) -> RequestTimeoutError:
        return RequestTimeoutError(f"{self} has not replied within {timeout} seconds")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self} belongs to its system and cannot be pickled; send its id, which is {self.id!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reference):
            return NotImplemented
        return self._system is other._system and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"<{self._key[0].__name__} {self.id!r}>"


def _context_of(mailbox: object) -> ActorContext | None:
    """Return the context of the event-sourced actor that owns the mailbox, or None if another kind of actor does."""
    occupant = mailbox._occupant if isinstance(mailbox, Mailbox) else None
    context: object = getattr(occupant, "context", None)
    return context if isinstance(context, ActorContext) else None


class IncarnationOwner(Protocol):
    """Owns the successive incarnations of an actor."""

    def ended(self, failure: Exception | None, never_began: bool) -> None:  # noqa: FBT001 - a fact, not a switch
        """Continue after the incarnation has ended; `never_began` is true if it handled no message from outside."""


class ActorContext:
    """An actor's identity and the services of its system; the system creates it and passes it to the constructor."""

    __slots__ = ("_key", "home", "id", "is_supervised", "mailbox", "profile", "stream", "system")

    def __init__(
        self,
        key: Key,
        system: ActorHost,
        profile: AnyProfile,
        mailbox: Mailbox,
        home: IncarnationOwner,
        *,
        is_supervised: bool,
    ) -> None:
        self.id = key[1]
        self.stream = profile.folding.stream(key[1])
        self.profile = profile
        self.mailbox = mailbox
        self.home = home
        self.is_supervised = is_supervised
        self._key = key
        self.system = system

    @property
    def journal(self) -> Journal:
        """The journal, which makes the actor's events durable."""
        return self.system.journal

    @property
    def clock(self) -> Clock:
        """The clock: microseconds since 1970-01-01 UTC. For `prepare` and effects, never for `decide` or `evolve`."""
        return self.system.clock

    @property
    def me(self) -> Reference[object]:
        """A reference to the actor itself, for other actors, or for its own effects to send it messages."""
        return Reference(self.system, self._key)

    @property
    def parent(self) -> Reference[object] | None:
        """A reference to the actor's parent, or None if it has none."""
        parent = self.system._family.parent(self._key)
        return None if parent is None else Reference(self.system, parent)

    @property
    def has_children(self) -> bool:
        """Whether the actor has a live child."""
        return self.system._has_children(self._key)

    def child(
        self, actor_class: type[Answering[Command, Reply]], name: str, supervision: Supervision | None = None
    ) -> Reference[Command, Reply]:
        """Return a reference to a child actor, which ends when this actor does and is supervised by `supervision`.

        The child's id is `<id of this actor>/<name>`. An actor knows its children only while it lives: a parent that is
        started again calls this again, in `on_recovered` or when it needs them. None stands for the supervision that
        the child's class declares.
        """
        child = self.system.actor(actor_class, f"{self.id}/{name}")
        self.system._family.add(self._key, child._key, supervision)
        return child

    def spawn(
        self, actor_class: Callable[P, PlainActor], *args: P.args, **kwargs: P.kwargs
    ) -> pykka.ActorRef[PlainActor]:
        """Start an actor without a log that ends when this one does; the other arguments go to its constructor.

        Raises:
            RuntimeClosedError: the system is closed.
            TypeError: the class is event-sourced: use `child` for its actors.
        """
        return self.system._start(self._key, actor_class, lambda: actor_class(*args, **kwargs))

    def schedule(self, seconds: float, command: object) -> Callable[[], bool]:
        """Send this actor the command after `seconds`; the returned function cancels that, or returns False if late."""
        me = self.me

        def remind() -> None:
            try:
                me.tell(command)
            except MailboxFullError as refusal:
                self.dead_letter(command, refusal)

        return self.system.timetable.after(seconds, remind).cancel

    def dead_letter(self, message: object, reason: BaseException) -> None:
        """Report a message told to this actor that was not handled."""
        self.system.letters.put(self.stream, message, reason)

    def _fail(self, envelope: Envelope, error: BaseException) -> None:
        """Reply to the message with the error; if no reply is expected, report a dead letter."""
        if envelope.reply_to is not None:
            envelope.reply_to.fail(error)
            return
        name = type(envelope.message).__qualname__  # only its type: the content is for the event log alone
        if isinstance(error, ShardMovedError):
            _log.info("%s, a message to %s, came too late: %s", name, self.stream, error)
        else:
            trace = None if isinstance(error, StorageError) else error  # a failure of the log needs no traceback
            told = "%s, a message to %s, has failed: %s"
            _log.error(told, name, self.stream, shown(error), exc_info=trace, extra={"failure": error})
        self.dead_letter(envelope.message, error)

    def _log_cannot(self, do: str, error: BaseException) -> None:
        """Log that no incarnation could be created or started.

        The traceback is omitted if a waiting sender gets the error, and for a `StorageError`.
        """
        first = self.mailbox.first()
        is_told = not self.is_supervised and first is not None and type(first.message) not in SIGNALS
        trace = None if is_told or isinstance(error, StorageError) else error
        _log.error("%s cannot %s: %s", self.stream, do, shown(error), exc_info=trace, extra={"failure": error})

    def _fail_all(self, error: Exception) -> None:
        """Answer all waiting messages: the kernel's signals with success, all others with the error."""
        for _ in range(len(self.mailbox)):
            self._fail_waiting(self.mailbox.get(), error)

    def _fail_until_drop(self, error: Exception) -> None:
        """Answer in the same way the messages before the `Drop` that is in the mailbox; later messages stay."""
        while True:
            envelope = self.mailbox.get()
            self._fail_waiting(envelope, error)
            if isinstance(envelope.message, Drop):
                return

    def _fail_waiting(self, envelope: Envelope, error: Exception) -> None:
        if type(envelope.message) not in SIGNALS:
            self._fail(envelope, error)
        elif isinstance(envelope.message, Due) and envelope.reply_to is not None:
            envelope.reply_to.fail(error)
        else:
            envelope.answer(None)
