"""Actors without a log: pooled ones against `pykka.ThreadingActor`."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Final

from bench.account import Latch
from bench.measure import Line, Sample, Side, Workload, at_least, at_most, must, ratio_of_at_least, versus
from bench.plain import WAVE, Actors, AnyRef, OpenActors, pooled, threading_actors

PEER: Final = "ThreadingActor"

LIVE: Final = 100_000
FEW: Final = 2_000
"""The number of actors on the other side, scaled up: with a thread each, about 20,000 are the limit."""

WAVES: Final = 100
"""The number of waves of messages that wait for the flooded actor."""


def workloads(*, quick: bool) -> list[Workload]:
    """Return what is measured."""
    scale = 10 if quick else 1
    return [
        _rate("ask, actor to actor", "asks/s", 10, lambda actors: asks_inside(actors, 50_000 // scale)),
        _rate("ask, from outside", "asks/s", None, lambda actors: asks_from_outside(actors, 20_000 // scale)),
        _rate("tell", "messages/s", 2.5, lambda actors: tells(actors, 1, 200_000 // scale)),
        _rate("tell, 1,000 actors", "messages/s", 50, lambda actors: tells(actors, 1_000, 200_000 // scale)),
        _live("pooled", LIVE // scale),
        _live("event-sourced", LIVE // scale),
        _flood(500 // scale),
    ]


def _rate(name: str, unit: str, bound: float | None, side: Callable[[Actors], float]) -> Workload:
    goal = None if bound is None else ratio_of_at_least(bound)
    return Workload((Line(name, unit, PEER, goal),), versus(_on(pooled, side), _on(threading_actors, side)))


def _on(open_actors: OpenActors, side: Callable[[Actors], float]) -> Side:
    def play(directory: Path) -> float:
        with open_actors(directory) as actors:
            return side(actors)

    return play


def asks_inside(actors: Actors, times: int) -> float:
    """Return the asks per second from one actor to another."""
    echo, asker = actors.echo(), actors.asker()
    asker.ask((echo, 100))
    begun = time.perf_counter()
    must(asker.ask((echo, times)) == times, "every ask was answered")
    return times / (time.perf_counter() - begun)


def asks_from_outside(actors: Actors, times: int) -> float:
    """Return the asks per second from a thread outside of the system."""
    echo = actors.echo()
    begun = time.perf_counter()
    must(sum(echo.ask(1, block=True) for _ in range(times)) == times, "every ask was answered")
    return times / (time.perf_counter() - begun)


def tells(actors: Actors, count: int, messages: int) -> float:
    """Return the messages per second from one thread to all actors, until all are handled."""
    each = messages // count
    latch = Latch(count)
    references = [actors.counter(each, latch) for _ in range(count)]
    begun = time.perf_counter()
    for number in range(each):
        for reference in references:
            reference.tell(number)
    latch.wait()
    return count * each / (time.perf_counter() - begun)


def _live(kind: str, count: int) -> Workload:
    name = f"{count:,} live {kind} actors"
    lines = (
        Line(f"{name}: memory", "MB", PEER, at_most(200 * count / LIVE)),
        Line(f"{name}: threads", "threads", PEER, at_most(4)),
        Line(f"{name}: starts", "starts/s", PEER, at_least(100_000)),
    )

    def measure(directory: Path, _number: int) -> Sequence[Sample]:
        peer = _in_a_process("threading", FEW, directory)
        ours = _in_a_process(kind, count, directory)
        share = count / FEW
        return (
            Sample(ours["bytes"] / 1e6, peer["bytes"] / 1e6 * share),
            Sample(ours["threads"], peer["threads"] * share),
            Sample(ours["rate"], peer["rate"]),
        )

    return Workload(lines, measure)


def _in_a_process(kind: str, count: int, directory: Path) -> dict[str, float]:
    child = [sys.executable, "-m", "bench.live", kind, str(count), str(directory / "live.db")]
    ran = subprocess.run(child, check=True, capture_output=True, text=True)  # noqa: S603 - ours
    said: dict[str, float] = json.loads(ran.stdout)
    return said


def _flood(asks: int) -> Workload:
    lines = (
        Line("delay from actor to actor beside a flooded one, p50", "ms", PEER, at_most(1)),
        Line("delay from actor to actor beside a flooded one, p99", "ms", PEER, at_most(1)),
        Line("delay of an ask from outside beside a flooded actor, p50", "ms", PEER, at_most(1)),
        Line("delay of an ask from outside beside a flooded actor, p99", "ms", PEER),
    )

    def measure(directory: Path, _number: int) -> Sequence[Sample]:
        with pooled(directory) as actors:
            ours = delays(actors, asks)
        with threading_actors(directory) as actors:
            peers = delays(actors, asks)
        return tuple(Sample(*delay) for delay in zip(ours, peers, strict=True))

    return Workload(lines, measure)


def delays(actors: Actors, times: int) -> tuple[float, ...]:
    """Return by how many milliseconds a flood delays messages, then asks: median and 99th percentile."""
    echo = actors.echo()
    calm = (*_messages(actors, times), *_asks(echo, times))
    with _flooding(actors):
        beside = (*_messages(actors, times), *_asks(echo, times))
    return tuple(late - soon for soon, late in zip(calm, beside, strict=True))


def _messages(actors: Actors, times: int) -> tuple[float, float]:
    """Return the percentiles of the time from sending a message to handling it."""
    took: list[float] = []
    arrived = threading.Semaphore(0)

    def note(seconds: float) -> None:
        took.append(seconds)
        arrived.release()

    sender, receiver = actors.passer(note), actors.passer(note)
    for _ in range(times):
        time.sleep(0.001)  # else most would fall into the moments in which the others wait
        sender.tell(receiver)
        arrived.acquire()
    return _percentiles(took)


def _asks(echo: AnyRef, times: int) -> tuple[float, float]:
    took: list[float] = []
    for number in range(times):
        time.sleep(0.001)  # likewise
        begun = time.perf_counter()
        must(echo.ask(number) == number, "every answer is the right one")
        took.append(time.perf_counter() - begun)
    return _percentiles(took)


def _percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile, in milliseconds."""
    hundredths = quantiles(seconds, n=100)
    return hundredths[49] * 1000, hundredths[98] * 1000


@contextmanager
def _flooding(actors: Actors) -> Generator[None]:
    """Keep an actor busy meanwhile; the flooding thread waits while the actor works."""
    handled = threading.Semaphore(WAVES)
    over = threading.Event()
    flooded = actors.flooded(handled)

    def flood() -> None:
        while not over.is_set():
            handled.acquire()
            for number in range(WAVE):
                flooded.tell(number)

    flooder = threading.Thread(target=flood)
    flooder.start()
    try:
        yield
    finally:
        over.set()
        handled.release()
        flooder.join()
