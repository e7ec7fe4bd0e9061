"""The asyncio twins of a runtime in this process, and of an actor system."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from reenact._aio import AsyncEvents, AsyncFacades, ClosingTwin, Opening, Threads, Twin, awaited, opening
from reenact._runtime import Runtime
from reenact.actors.journal.api import Journal
from reenact.actors.kernel import ActorSystem
from reenact.actors.kernel.system import opened
from reenact.domain.errors import StorageError
from reenact.projections.views.projections import Projections, Which

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from reenact._remote import AsyncRemoteRuntime
    from reenact.client.runtime import RemoteRuntime

P = ParamSpec("P")
R = TypeVar("R")


def _connecting(connect: Callable[P, RemoteRuntime]) -> Callable[P, Opening[AsyncRemoteRuntime]]:
    """Return a function that connects an asyncio twin, with the arguments and errors of `connect`."""

    @wraps(connect)
    def begin(*args: P.args, **kwargs: P.kwargs) -> Opening[AsyncRemoteRuntime]:
        from reenact._remote import AsyncRemoteRuntime  # noqa: PLC0415 - when it is needed
        from reenact.client.runtime import RemoteRuntime  # noqa: PLC0415 - when it is needed

        first: Future[None] = Future()
        make: Callable[..., RemoteRuntime] = RemoteRuntime.connect
        return Opening(partial(make, *args, first=first, **kwargs), AsyncRemoteRuntime, first.cancel)

    return begin


class AsyncProjections(Twin):
    """`Projections` with coroutine methods."""

    def __init__(self, of: Projections, threads: Threads) -> None:
        super().__init__(of, threads)
        self._projections = of

    wait_for = awaited(Projections.wait_for)

    async def read(self, projection: Which, ask: Callable[[Connection], R]) -> R:
        """Call the function on a thread with a connection, and return its result; see `Projections.read`."""

        def reading() -> R:
            with self._projections.read(projection) as connection:
                return ask(connection)

        return await self._threads.call(reading)

    status = awaited(Projections.status)
    rebuild = awaited(Projections.rebuild)
    retry = awaited(Projections.retry)


class AsyncRuntime(AsyncFacades):
    """A `Runtime` for asyncio callers. `async with AsyncRuntime.open(path) as runtime`, or `await` and `close` it."""

    def __init__(self, runtime: Runtime, threads: Threads | None = None) -> None:
        if threads is None:
            raise TypeError("AsyncRuntime is not called; use `async with AsyncRuntime.open(path) as runtime`")
        self.events = AsyncEvents(runtime.events, threads)
        super().__init__(runtime, threads, self.events.stream)
        self._runtime = runtime
        self.projections = AsyncProjections(runtime.projections, threads)
        self.open_log = runtime.open_log

    open = staticmethod(opening(Runtime.open, lambda: AsyncRuntime))
    in_memory = staticmethod(opening(Runtime.in_memory, lambda: AsyncRuntime))
    connect = staticmethod(_connecting(Runtime.connect))

    @property
    def failure(self) -> StorageError | None:
        """See `Runtime.failure`."""
        return self._runtime.failure

    @property
    def position(self) -> int:
        """See `Runtime.position`."""
        return self._runtime.position

    @property
    def lag(self) -> int:
        """See `Runtime.lag`."""
        return self._runtime.lag

    check_ready = awaited(Runtime.check_ready)
    recover = awaited(Runtime.recover)


class AsyncActorSystem(ClosingTwin):
    """An `ActorSystem` for asyncio: `async with AsyncActorSystem.open(url) as system`, or `await` and `close` it.

    `actor` returns the same references: `await reference.ask_async(command)` never blocks the event loop.
    """

    @opened("system")
    def __init__(self, system: ActorSystem, threads: Threads | None = None) -> None:
        """Wrap an actor system, which is closed with this one."""
        super().__init__(system, threads or Threads())
        self.journal: Journal = system.journal
        self.register = system.register
        self.actor = system.actor
        self.start = system.start
        self.on_dead_letter = system.on_dead_letter
        self.live = system.live

    open = staticmethod(opening(ActorSystem.open, lambda: AsyncActorSystem))
    in_memory = staticmethod(opening(ActorSystem.in_memory, lambda: AsyncActorSystem))

    stop = awaited(ActorSystem.stop)
    check_snapshots = awaited(ActorSystem.check_snapshots)
    remembered = awaited(ActorSystem.remembered)
    forget_requests = awaited(ActorSystem.forget_requests)
