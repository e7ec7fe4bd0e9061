"""Live actors of one kind, in a process of its own: prints their memory and threads, and how fast they started."""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench.account import Account, Latch, Look, open_log
from bench.measure import must
from bench.plain import AnyRef, OpenActors, pooled, threading_actors
from reenact.actors.kernel import ActorContext, ActorSystem


class Starting(Account):
    """Counts down the latch with its first message."""

    category = "starting"

    def __init__(self, context: ActorContext, latch: Latch) -> None:
        super().__init__(context)
        self._latch = latch

    def reply(self, command: object, events: object) -> int:
        self._latch.count_down()
        return self.state


def main() -> None:
    """Start them, and print the figures."""
    kind, count, path = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    with ExitStack() as undo:
        match kind:
            case "event-sourced":
                start = _sourced(count, path, undo)
            case "pooled":
                start = _plain(pooled, count, path, undo)
            case _:
                start = _plain(threading_actors, count, path, undo)
        gc.collect()
        before = resident()
        begun = time.perf_counter()
        start()
        took = time.perf_counter() - begun
        gc.collect()
        taken = resident() - before
        print(json.dumps({"bytes": taken, "threads": threading.active_count(), "rate": count / took}))


def _plain(open_actors: OpenActors, count: int, path: Path, undo: ExitStack) -> Callable[[], None]:
    cast = undo.enter_context(open_actors(path.parent))
    references: list[AnyRef] = []

    def start() -> None:
        references.extend(cast.echo() for _ in range(count))
        must(references[-1].ask(1) == 1, "they live")

    return start


def _sourced(count: int, path: Path, undo: ExitStack) -> Callable[[], None]:
    latch = Latch(count)
    system = undo.enter_context(ActorSystem(undo.enter_context(open_log(path))))
    system.register(Starting, lambda context: Starting(context, latch))

    def start() -> None:
        for number in range(count):
            system.actor(Starting, f"{number:06d}").ask_future(Look())
        latch.wait()
        must(system.live() == count, "they live")

    return start


def resident() -> int:
    """Return the resident memory of the process in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
