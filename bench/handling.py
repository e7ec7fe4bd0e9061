"""Turns with handlers that are coroutine functions on an event loop, against the same with plain functions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from bench.measure import Line, Workload, versus
from bench.ours import Ours
from bench.product import one_session
from reenact.events import Envelope


class OnLoop(Ours):
    """Coroutine functions handle every delta, and the end of the turn."""

    def __init__(self, path: Path, synchronous: Literal["FULL", "NORMAL"]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        super().__init__(path, synchronous)

    def hear(self) -> None:
        """Subscribe the handlers."""
        events = self._runtime.events
        events.register("text_delta", self._hear_on_loop, None, self._loop)
        events.register("turn_completed", self._end_on_loop, None, self._loop)

    def close(self) -> None:
        """Close the runtime, and the loop."""
        super().close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _hear_on_loop(self, event: Envelope) -> None:
        self._hear(event)

    async def _end_on_loop(self, event: Envelope) -> None:
        self._end(event)


def workloads(*, quick: bool) -> Sequence[Workload]:
    """Return what is measured of handlers."""
    figure = one_session(20 if quick else 200)

    def ours(directory: Path) -> float:
        return figure(OnLoop, directory / "bench.db", "NORMAL")

    def plain(directory: Path) -> float:
        return figure(Ours, directory / "bench.db", "NORMAL")

    return [Workload((Line("one session, 200 turns, NORMAL", "turns/s", "plain functions"),), versus(ours, plain))]
