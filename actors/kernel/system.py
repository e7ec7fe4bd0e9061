"""The directory of a runtime's actors: found by identity, started on demand, stopped together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

import pykka

from reenact.actors.journal.api import Journal
from reenact.actors.kernel.cell import AnyActor, Cell, Factory, Key
from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.mailbox import STOP, Envelope
from reenact.actors.kernel.persistent import ActorContext, Clock, EventSourcedActor
from reenact.actors.kernel.pool import WorkerPool, here
from reenact.actors.kernel.pooled import PooledActor
from reenact.domain.errors import RequestTimeoutError, RuntimeClosedError

ROUNDS: Final = 16
"""How often, while closing, actors that others have woken up again are heard out."""

Command = TypeVar("Command")
Plain = TypeVar("Plain", bound=PooledActor)
Sourced = TypeVar("Sourced", bound=EventSourcedActor[Any, Any, Any])


def microseconds() -> int:
    """Return the time: microseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1000


class Reference(Generic[Command]):
    """The way to an event-sourced actor, whether it is live at the moment or not. Equal if class and id are."""

    __slots__ = ("_key", "_system")

    def __init__(self, system: ActorSystem, key: Key) -> None:
        self._system = system
        self._key = key

    @property
    def id(self) -> str:
        """The actor's id."""
        return self._key[1]

    def ask(self, command: Command, timeout: float | None = None) -> Any:  # noqa: ANN401 - the actor's to say
        """Send the command, and return the reply, after its events are durable.

        Raises:
            ReenactError: the actor refused, or its events could not be recorded.
            RequestTimeoutError: no reply came within `timeout` seconds; the command may still take effect.
            RuntimeClosedError: the system is closed.
        """
        future: PooledFuture[Any] = PooledFuture()
        self._system.deliver(self._key, Envelope(command, future), here_and_now=timeout is None)
        try:
            return future.get(timeout=timeout)
        except pykka.Timeout:
            if future.done():
                raise
            raise RequestTimeoutError(f"{self} has not replied within {timeout} seconds") from None

    def ask_future(self, command: Command) -> PooledFuture[Any]:
        """Send the command, and return the future of the reply.

        Raises:
            RuntimeClosedError: the system is closed.
        """
        future: PooledFuture[Any] = PooledFuture()
        self._system.deliver(self._key, Envelope(command, future))
        return future

    def tell(self, command: Command) -> None:
        """Send the command. A refusal is a dead letter.

        Raises:
            RuntimeClosedError: the system is closed.
        """
        self._system.deliver(self._key, Envelope(command))

    def stop(self, timeout: float | None = None) -> None:
        """Have the actor leave memory once it has handled what was sent before; the next command brings it back.

        Raises:
            RequestTimeoutError: it had not ended within `timeout` seconds; it still will.
        """
        try:
            self._system.dismiss(self._key).get(timeout=timeout)
        except pykka.Timeout:
            raise RequestTimeoutError(f"{self} has not stopped within {timeout} seconds") from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reference):
            return NotImplemented
        return self._system is other._system and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"<{self._key[0].__name__} {self.id!r}>"


class ActorSystem:
    """Actors that share a journal and a few worker threads.

    What an actor needs besides its identity is given once for its class: `register(Cls, factory)`, where the factory
    makes it from its `ActorContext`; without one, `Cls(context)` does.
    """

    def __init__(self, journal: Journal, *, workers: int = 2, clock: Clock = microseconds) -> None:
        self._journal = journal
        self._clock = clock
        self._pool = WorkerPool(workers)
        self._factories: dict[type[AnyActor], Factory] = {}
        self._cells: dict[Key, Cell] = {}
        self._lock = threading.Lock()
        self._closes = threading.Lock()
        self._closing = False
        self._closed = False

    def register(self, actor_class: type[Sourced], factory: Callable[[ActorContext], Sourced]) -> None:
        """Have the actors of this class made by the factory, on a worker, whenever one is needed."""
        self._factories[actor_class] = factory

    def actor(
        self,
        actor_class: type[EventSourcedActor[Any, Command, Any]],
        id: str,  # noqa: A002 - the word users know it by
    ) -> Reference[Command]:
        """Return a reference to the actor; the first message starts it."""
        return Reference(self, (actor_class, id))

    def start(self, actor_class: type[Plain], *args: Any, **kwargs: Any) -> pykka.ActorRef[Plain]:  # noqa: ANN401
        """Start an actor without a log; the other arguments are the constructor's.

        Raises:
            RuntimeClosedError: the system is closed.
        """
        if self._closing:
            raise _closed()
        return actor_class.start_on(self._pool, *args, **kwargs)

    def stop(self, ref: pykka.ActorRef[Any]) -> None:
        """Stop an actor that `start` has started, once it has handled what was sent before."""
        ref.stop()

    def live(self) -> int:
        """Return the number of actors in memory."""
        return len(self._pool)

    def close(self) -> None:
        """Let every actor handle what it was sent, and end them and the workers. Idempotent.

        From its beginning nothing is accepted any more, except what actors send each other while they finish.
        """
        if here.pool is self._pool:
            raise RuntimeError("an actor cannot close the system that it lives in")
        with self._closes:
            self._closing = True
            for _ in range(ROUNDS):
                if not self._stop_everyone():
                    break
            with self._lock:
                self._closed = True
            while self._stop_everyone():
                pass
            self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # For references.

    def deliver(self, key: Key, envelope: Envelope, *, here_and_now: bool = False) -> None:
        """Put the message into the actor's mailbox, or have it handled on the current thread if that is allowed."""
        if self._closing and (self._closed or here.pool is not self._pool):
            raise _closed()
        cell = self._cells.get(key)
        if cell is not None and (
            (here_and_now and cell.mailbox.handled_here(envelope)) or cell.mailbox.offer(envelope)
        ):
            return
        with self._lock:
            # Cells leave the directory under the lock, with their mailbox closed: this one is open.
            self._cell(key).mailbox.offer(envelope)

    def dismiss(self, key: Key) -> PooledFuture[Any]:
        """Ask the actor to stop, if it is live; the future is set when it has."""
        future: PooledFuture[Any] = PooledFuture()
        cell = self._cells.get(key)
        if cell is None or not cell.mailbox.offer(Envelope(STOP, future)):
            future.set(None)
        return future

    # For cells.

    def make(self, key: Key, context: ActorContext) -> AnyActor:
        """Return a new incarnation.

        Raises:
            RuntimeClosedError: the system is closed.
        """
        if self._closed:
            raise _closed()
        actor_class = key[0]
        return self._factories.get(actor_class, actor_class)(context)

    def retire(self, key: Key, cell: Cell) -> bool:
        """Strike the cell out if nothing waits in it, and return whether that is so."""
        with self._lock:
            retired = cell.mailbox.shut_if_empty()
            if retired:
                del self._cells[key]
            return retired

    def _cell(self, key: Key) -> Cell:
        cell = self._cells.get(key)
        if cell is None:
            if self._closed:
                raise _closed()
            cell = self._cells[key] = Cell(key, self, journal=self._journal, clock=self._clock, pool=self._pool)
        return cell

    def _stop_everyone(self) -> bool:
        """Stop who is live, those with a log first, since they may need the others; tell whether there was anybody."""
        stopping = [self.dismiss(key) for key in list(self._cells)]
        for future in stopping:
            future.get()
        plain = [actor for actor in self._pool.live() if not isinstance(actor, EventSourcedActor)]
        for actor in plain:
            if isinstance(actor, PooledActor):
                actor.actor_ref.stop()
        return bool(stopping or plain or self._cells)


def _closed() -> RuntimeClosedError:
    return RuntimeClosedError("the actor system is closed")
