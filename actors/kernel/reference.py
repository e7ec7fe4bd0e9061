"""References to event-sourced actors, and what these and the actors themselves ask of the system around them."""

# The parts of the kernel call each other's private methods: what is public there is the user's.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import pykka

from reenact.actors.journal.api import Append, Done, Journal
from reenact.actors.kernel.alarms import Alarms
from reenact.actors.kernel.family import Child, Family, Key
from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.letters import DeadLetters
from reenact.actors.kernel.mailbox import Envelope, Mailbox
from reenact.actors.kernel.pool import WorkerPool, here, refuse_on_loop
from reenact.actors.kernel.residents import Residents
from reenact.actors.kernel.timetable import Clock, Timetable
from reenact.domain.errors import RequestTimeoutError

if TYPE_CHECKING:
    from reenact.actors.kernel.persistent import EventSourcedActor

Command = TypeVar("Command")
Command_contra = TypeVar("Command_contra", contravariant=True)
PlainActor = TypeVar("PlainActor", bound=pykka.Actor)


class Surroundings(Protocol):
    """What the actors of a system share."""

    journal: Journal
    clock: Clock
    pool: WorkerPool
    timetable: Timetable
    residents: Residents
    alarms: Alarms
    letters: DeadLetters
    _family: Family

    def append(self, step: Append, done: Done) -> None:
        """Have the step written; `done` hears what became of it, perhaps before this returns."""
        ...

    def append_in_round(self, step: Append, done: Done) -> None:
        """Have the step written; on the event loop, together with what else is appended in this round of the loop."""
        ...

    def _deliver(self, key: Key, envelope: Envelope, *, here_and_now: bool = False) -> None:
        """Put the message into the actor's mailbox, or have it handled on the current thread if that is allowed."""
        ...

    def _dismiss(self, key: Key) -> PooledFuture[Any]:
        """Ask the actor to stop, if it is live; the future is set when it has."""
        ...

    def actor(self, actor_class: type[EventSourcedActor[Any, Command, Any]], id: str) -> Reference[Command]:  # noqa: A002
        """Return a reference to the actor."""
        ...

    def _start(
        self,
        parent: Key | None,
        actor_class: type[PlainActor],
        *args: Any,  # noqa: ANN401 - the constructor's
        **kwargs: Any,  # noqa: ANN401
    ) -> pykka.ActorRef[PlainActor]:
        """Start an actor without a log, which ends with its parent if it has one."""
        ...

    def _has_children(self, parent: Key) -> bool:
        """Return whether a child of the actor lives."""
        ...

    def _retire(self, key: Key, mailbox: Mailbox) -> bool:
        """Strike the actor's cell out if nothing waits in its mailbox, and return whether that is so."""
        ...

    def _orphan(self, key: Key) -> None:
        """Stop the children of an actor that has ended."""
        ...

    def _failed(self, child: Child, error: Exception, *, escalates: bool) -> None:
        """Tell the actor's parent, if it has one, that it has ended for good; or let the parent fail with it."""
        ...

    def _rests(self) -> bool:
        """Return whether actors may still be started again by themselves, after a while."""
        ...


class Reference(Generic[Command_contra]):
    """The way to an event-sourced actor, whether it is live at the moment or not. Equal if class and id are."""

    __slots__ = ("_key", "_system")

    def __init__(self, system: Surroundings, key: Key) -> None:
        self._system = system
        self._key = key

    @property
    def id(self) -> str:
        """The actor's id."""
        return self._key[1]

    def ask(self, command: Command_contra, timeout: float | None = None) -> Any:  # noqa: ANN401 - the actor's to say
        """Send the command, and return the reply, after its events are durable.

        Raises:
            ReenactError: the actor refused, or its events could not be recorded.
            RequestTimeoutError: no reply came within `timeout` seconds; the command may still take effect.
            MailboxFullError: as many messages wait for the actor as may.
            RuntimeClosedError: the system is closed.
            DeadlockError: this is an event loop on which actors run; await `ask_async`.
        """
        refuse_on_loop()
        future: PooledFuture[Any] = PooledFuture()
        self._system._deliver(self._key, Envelope(command, future), here_and_now=timeout is None)
        try:
            return future.get(timeout=timeout)
        except pykka.Timeout:
            if future.done():
                raise
            raise self._late(timeout) from None

    async def ask_async(self, command: Command_contra, timeout: float | None = None) -> Any:  # noqa: ANN401, ASYNC109 - as `ask`
        """Send the command, and return the reply as `ask` does; the event loop goes on meanwhile.

        Raises:
            ReenactError: the actor refused, or its events could not be recorded.
            RequestTimeoutError: no reply came within `timeout` seconds; the command may still take effect.
            MailboxFullError: as many messages wait for the actor as may.
            RuntimeClosedError: the system is closed.
        """
        import asyncio  # noqa: PLC0415 - whoever awaits has it

        future = self.ask_future(command)
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                return await future
        except TimeoutError:
            if not limit.expired():
                raise
            raise self._late(timeout) from None

    def ask_future(self, command: Command_contra) -> PooledFuture[Any]:
        """Send the command, and return the future of the reply, which may be awaited.

        Raises:
            MailboxFullError: as many messages wait for the actor as may.
            RuntimeClosedError: the system is closed.
        """
        future: PooledFuture[Any] = PooledFuture()
        self._system._deliver(self._key, Envelope(command, future))
        return future

    def tell(self, command: Command_contra, *, here_and_now: bool = False) -> None:
        """Send the command. A refusal is a dead letter.

        With `here_and_now`, an idle actor handles it on this thread if the thread runs actors; the caller must hold no
        lock that the actor takes.

        Raises:
            MailboxFullError: as many messages wait for the actor as may.
            RuntimeClosedError: the system is closed.
        """
        self._system._deliver(self._key, Envelope(command), here_and_now=here_and_now and here.pool is not None)

    def stop(self, timeout: float | None = None) -> None:
        """Have the actor leave memory once it has handled what was sent before; the next command brings it back.

        Raises:
            RequestTimeoutError: it had not ended within `timeout` seconds; it still will.
        """
        try:
            self._system._dismiss(self._key).get(timeout=timeout)
        except pykka.Timeout:
            raise RequestTimeoutError(f"{self} has not stopped within {timeout} seconds") from None

    def _late(self, timeout: float | None) -> RequestTimeoutError:
        return RequestTimeoutError(f"{self} has not replied within {timeout} seconds")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reference):
            return NotImplemented
        return self._system is other._system and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"<{self._key[0].__name__} {self.id!r}>"
