"""The asyncio twin of an actor system: the same actors, behind the same references."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import Any, Self

import pykka

from reenact._aio import Opening, Threads
from reenact.actors.journal.api import Journal, Remembered
from reenact.actors.kernel import ActorSystem, Mismatch


class AsyncActorSystem:
    """An `ActorSystem` for asyncio: `async with AsyncActorSystem.open(url) as system`, or `await` and `close` it.

    `actor` returns the same references: `await reference.ask_async(command)` never blocks the event loop.
    """

    def __init__(self, system: ActorSystem, threads: Threads | None = None) -> None:
        """Stand on an actor system, which closes with this one."""
        self._of = system
        self._threads = threads or Threads()
        self.journal: Journal = system.journal
        self.register = system.register
        self.actor = system.actor
        self.start = system.start
        self.on_dead_letter = system.on_dead_letter
        self.live = system.live

    @classmethod
    def open(cls, url: str | os.PathLike[str], **settings: Any) -> Opening[AsyncActorSystem]:  # noqa: ANN401 - those of ActorSystem.open
        """Open a system with the settings, and the errors, of `ActorSystem.open`."""
        return Opening(partial(ActorSystem.open, url, **settings), cls)

    @classmethod
    def in_memory(cls, **settings: Any) -> Opening[AsyncActorSystem]:  # noqa: ANN401 - those of ActorSystem.in_memory
        """Open a system with the settings of `ActorSystem.in_memory`."""
        return Opening(partial(ActorSystem.in_memory, **settings), cls)

    async def stop(self, ref: pykka.ActorRef[Any]) -> None:
        """See `ActorSystem.stop`."""
        await self._threads.call(self._of.stop, ref)

    async def check_snapshots(self) -> list[Mismatch]:
        """See `ActorSystem.check_snapshots`."""
        return await self._threads.call(self._of.check_snapshots)

    async def remembered(self, request_id: str) -> Remembered | None:
        """See `ActorSystem.remembered`."""
        return await self._threads.call(self._of.remembered, request_id)

    async def forget_requests(self, *, before: int) -> int:
        """See `ActorSystem.forget_requests`."""
        return await self._threads.call(self._of.forget_requests, before=before)

    async def close(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as there
        """See `ActorSystem.close`. Idempotent."""
        try:
            await asyncio.to_thread(self._of.close, timeout)
        finally:
            self._threads.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
