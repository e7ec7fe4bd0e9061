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

from bench.account import Finish, open_log
from reenact.actors.kernel import ActorSystem, PooledActor

AnyRef: TypeAlias = pykka.ActorRef[Any]

WAVE: Final = 200
"""So many messages a flooded actor is sent each time that it has handled as many."""


class _Echo(pykka.Actor):
    """Says the same."""

    def on_receive(self, message: object) -> object:
        return message


class _Asker(pykka.Actor):
    """Asks another actor so many times, one answer after the other."""

    def on_receive(self, message: tuple[AnyRef, int]) -> int:
        other, times = message
        return sum(other.ask(1, block=True) for _ in range(times))


class _Counter(pykka.Actor):
    """Arrives at the finish with its last message."""

    def __init__(self, expected: int, finish: Finish) -> None:
        super().__init__()
        self._left = expected
        self._finish = finish

    def on_receive(self, message: object) -> None:
        self._left -= 1
        if not self._left:
            self._finish.cross()


class _Flooded(pykka.Actor):
    """Spends some microseconds on each message, and says when it has handled a wave of them."""

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
    """Passes on when it did so, to an actor that says how long that took."""

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
class Cast:
    """One side's actors, by the part that they play."""

    echo: Callable[[], AnyRef]
    asker: Callable[[], AnyRef]
    counter: Callable[[int, Finish], AnyRef]
    flooded: Callable[[threading.Semaphore], AnyRef]
    passer: Callable[[Callable[[float], None]], AnyRef]


@contextmanager
def pooled(directory: Path) -> Generator[Cast]:
    """Have actors play on the workers of a system."""
    with open_log(directory / "log.db") as journal, ActorSystem(journal) as system:
        yield Cast(
            echo=lambda: system.start(_PooledEcho),
            asker=lambda: system.start(_PooledAsker),
            counter=lambda expected, finish: system.start(_PooledCounter, expected, finish),
            flooded=lambda handled: system.start(_PooledFlooded, handled),
            passer=lambda took: system.start(_PooledPasser, took),
        )


@contextmanager
def threading_actors(_directory: Path) -> Generator[Cast]:
    """Have actors play on a thread each."""
    started: list[AnyRef] = []

    def keep(reference: AnyRef) -> AnyRef:
        started.append(reference)
        return reference

    try:
        yield Cast(
            echo=lambda: keep(_ThreadingEcho.start()),
            asker=lambda: keep(_ThreadingAsker.start()),
            counter=lambda expected, finish: keep(_ThreadingCounter.start(expected, finish)),
            flooded=lambda handled: keep(_ThreadingFlooded.start(handled)),
            passer=lambda took: keep(_ThreadingPasser.start(took)),
        )
    finally:
        for reference in started:
            reference.stop(block=False)
        for reference in started:
            reference.stop()


Stage: TypeAlias = Callable[[Path], AbstractContextManager[Cast]]
"""Gives a side's actors, and stops them in the end."""
