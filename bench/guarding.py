"""Turns with guards, against the same turns without: the cost of calling them and of recording their verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from bench.measure import Line, Workload, versus
from bench.ours import Ours
from bench.product import Sync, one_session
from reenact import GuardInput, Guards, Image, Runtime, guard
from reenact.actors.environment.guards import Guard


@guard
def plain(_: GuardInput) -> str | None:
    """Pass, on a thread of its own."""
    return None


@guard
async def waiting(_: GuardInput) -> str | None:
    """Pass, on the event loop."""
    return None


GUARDS: Sequence[Guard] = (plain, waiting)


class Guarded(Ours):
    """Guards of one kind of function that pass everything, at the points that a subclass names."""

    guards = Guards()

    def open(self, path: Path, synchronous: Literal["FULL", "NORMAL"]) -> Runtime:
        """Open a runtime with the guards."""
        return Runtime.open(path, llm_provider=self.provider(), synchronous=synchronous, guards=GUARDS)

    def image(self) -> Image:
        """Return the agents' definition."""
        return Image(id="bench", guards=self.guards)


class OnMessages(Guarded):
    """One guard of messages, a coroutine function."""

    guards = Guards(message=("waiting",))


class OnThreads(Guarded):
    """One guard of messages, a plain function."""

    guards = Guards(message=("plain",))


class OnAnswers(Guarded):
    """One guard of answers, which are held back."""

    guards = Guards(answer=("waiting",), hold=True)


def workloads(*, quick: bool) -> Sequence[Workload]:
    """Return what is measured of guards."""
    turns = 20 if quick else 200
    return [
        _workload("a guard of messages, a coroutine, NORMAL", "NORMAL", turns, OnMessages),
        _workload("a guard of messages, a plain function, NORMAL", "NORMAL", turns, OnThreads),
        _workload("a guard of answers that are held back, NORMAL", "NORMAL", turns, OnAnswers),
    ]


def _workload(name: str, sync: Sync, turns: int, guarded: type[Guarded]) -> Workload:
    figure = one_session(turns)

    def ours(directory: Path) -> float:
        return figure(guarded, directory / "bench.db", sync)

    def without(directory: Path) -> float:
        return figure(Ours, directory / "bench.db", sync)

    return Workload((Line(name, "turns/s", "no guard"),), versus(ours, without))
