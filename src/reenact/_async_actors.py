"""The asyncio twin of an actor system, with the same actors and references."""

from __future__ import annotations

from reenact._aio import ClosingTwin, Threads, awaited, opening
from reenact.actors.journal.api import Journal
from reenact.actors.kernel import ActorSystem
from reenact.actors.kernel.system import opened


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
