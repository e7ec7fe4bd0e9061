"""The same actors twice: on the pool of an actor system, and as `pykka.ThreadingActor` with a thread each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import pykka

from bench.account import Latch, open_log
from reenact.actors.kernel import ActorSystem, PooledActor

AnyRef: TypeAlias = pykka.ActorRef[Any]

WAVE: Final = 200
"""How many messages a flooded actor is sent at a time, once it has handled the last ones."""


class _Echo(pykka.Actor):
    """Returns the message."""

    def on_receive(self, message: object) -> object:
        return message


class _Asker(pykka.Actor):
    """Asks another actor a number of times, one after the other."""

    def on_receive(self, message: tuple[AnyRef, int]) -> int:
        other, times = message
        return sum(other.ask(1, block=True) for _ in range(times))


class _Counter(pykka.Actor):
    """Counts down the latch with its last message."""

    def __init__(self, expected: int, latch: Latch) -> None:
        super().__init__()
        self._left = expected
        self._latch = latch

    def on_receive(self, message: object) -> None:
        self._left -= 1
        if not self._left:
            self._latch.count_down()


class _Flooded(pykka.Actor):
    """Spends some microseconds on each message, and releases the semaphore after each wave."""

    def __init__(self, handled: threading.Semaphore) -> None:
        super().__init__()
        self._handled = handled
        self._left = WAVE

    def on_receive(self, message: object) -> None:
        sum(range(600))
        self._left -= 1
        if not self._left:
            self._left = WAVE
            self._handled.release()


class _Passer(pykka.Actor):
    """Sends the time to another actor, which reports how long the message took."""

    def __init__(self, took: Callable[[float], None]) -> None:
        super().__init__()
        self._took = took

    def on_receive(self, message: AnyRef | float) -> None:
        if isinstance(message, pykka.ActorRef):
            message.tell(time.perf_counter())
        else:
            self._took(time.perf_counter() - message)


class _PooledEcho(_Echo, PooledActor):
    pass


class _PooledPasser(_Passer, PooledActor):
    pass


class _PooledAsker(_Asker, PooledActor):
    pass


class _PooledCounter(_Counter, PooledActor):
    pass


class _PooledFlooded(_Flooded, PooledActor):
    pass


class _ThreadingEcho(_Echo, pykka.ThreadingActor):
    pass


class _ThreadingPasser(_Passer, pykka.ThreadingActor):
    pass


class _ThreadingAsker(_Asker, pykka.ThreadingActor):
    pass


class _ThreadingCounter(_Counter, pykka.ThreadingActor):
    pass


class _ThreadingFlooded(_Flooded, pykka.ThreadingActor):
    pass


@dataclass(frozen=True)
class Actors:
    """Starts the actors of one side, by their role."""

    echo: Callable[[], AnyRef]
    asker: Callable[[], AnyRef]
    counter: Callable[[int, Latch], AnyRef]
    flooded: Callable[[threading.Semaphore], AnyRef]
    passer: Callable[[Callable[[float], None]], AnyRef]


@contextmanager
def pooled(directory: Path) -> Generator[Actors]:
    """Run the actors on the workers of a system."""
    with open_log(directory / "log.db") as journal, ActorSystem(journal) as system:
        yield Actors(
            echo=lambda: system.start(_PooledEcho),
            asker=lambda: system.start(_PooledAsker),
            counter=lambda expected, latch: system.start(_PooledCounter, expected, latch),
            flooded=lambda handled: system.start(_PooledFlooded, handled),
            passer=lambda took: system.start(_PooledPasser, took),
        )


@contextmanager
def threading_actors(_directory: Path) -> Generator[Actors]:
    """Run each actor on a thread of its own."""
    started: list[AnyRef] = []

    def keep(reference: AnyRef) -> AnyRef:
        started.append(reference)
        return reference

    try:
        yield Actors(
            echo=lambda: keep(_ThreadingEcho.start()),
            asker=lambda: keep(_ThreadingAsker.start()),
            counter=lambda expected, latch: keep(_ThreadingCounter.start(expected, latch)),
            flooded=lambda handled: keep(_ThreadingFlooded.start(handled)),
            passer=lambda took: keep(_ThreadingPasser.start(took)),
        )
    finally:
        for reference in started:
            reference.stop(block=False)
        for reference in started:
            reference.stop()


OpenActors: TypeAlias = Callable[[Path], AbstractContextManager[Actors]]
"""Opens the actors of a side, and stops them in the end."""
