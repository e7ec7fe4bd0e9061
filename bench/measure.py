"""Measurements: lines with goals, and a measure that returns a sample for each line and round."""

from __future__ import annotations

import gc
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias


class Sample(NamedTuple):
    """The result of a round, in the line's unit; `peer` is None if there is nothing to compare with."""

    ours: float
    peer: float | None = None


@dataclass(frozen=True)
class Goal:
    """A bound on our own figure, or on its ratio to the peer's."""

    of: Literal["ours", "ratio"]
    sense: Literal["≥", "≤"]
    bound: float

    def met(self, ours: float, ratio: float | None) -> bool:
        """Return whether the figure meets the bound."""
        figure = ours if self.of == "ours" else ratio
        if figure is None:
            return False
        return figure >= self.bound if self.sense == "≥" else figure <= self.bound

    def __str__(self) -> str:
        return f"{self.sense} {self.bound:,g}" + (" times" if self.of == "ratio" else "")


def ratio_of_at_least(bound: float) -> Goal:
    """Return the goal that our figure is at least this multiple of the peer's."""
    return Goal("ratio", "≥", bound)


def at_least(bound: float) -> Goal:
    """Return the goal that our own figure is no less."""
    return Goal("ours", "≥", bound)


def at_most(bound: float) -> Goal:
    """Return the goal that our own figure is no more."""
    return Goal("ours", "≤", bound)


@dataclass(frozen=True)
class Line:
    """One line of the table: the name, the unit, the peer, and the goal."""

    name: str
    unit: str
    peer: str = ""
    goal: Goal | None = None


Measure: TypeAlias = Callable[[Path, int], Sequence[Sample]]
"""Runs both sides once, in an empty directory; is given the number of the round, and returns a sample for each line."""

Side: TypeAlias = Callable[[Path], float]
"""Runs one side once, in an empty directory, and returns its figure."""


@dataclass(frozen=True)
class Workload:
    """One measure, and its lines."""

    lines: tuple[Line, ...]
    measure: Measure


@dataclass(frozen=True)
class Result:
    """The medians over the rounds; the ratio is the median of those within a round."""

    line: Line
    ours: float
    peer: float | None
    ratio: float | None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met, if there is one."""
        return None if self.line.goal is None else self.line.goal.met(self.ours, self.ratio)


def versus(ours: Side, peer: Side) -> Measure:
    """Return a measure of one line that runs both sides, the peer first in every other round."""

    def measure(directory: Path, number: int) -> Sequence[Sample]:
        if number % 2:
            first = alone(ours, directory)
            return (Sample(first, alone(peer, directory)),)
        first = alone(peer, directory)
        return (Sample(alone(ours, directory), first),)

    return measure


def alone(side: Side, directory: Path) -> float:
    """Run one side in a directory of its own, after collecting the other side's garbage."""
    gc.collect()
    with tempfile.TemporaryDirectory(dir=directory) as own:
        return side(Path(own))


def run(workload: Workload, rounds: int, directory: str | None) -> list[Result]:
    """Run the rounds, and return the medians of each line."""
    samples: list[Sequence[Sample]] = []
    for number in range(rounds):
        with tempfile.TemporaryDirectory(dir=directory) as own:
            samples.append(workload.measure(Path(own), number))
    by_line = zip(workload.lines, zip(*samples, strict=True), strict=True)
    return [_medians(line, of_line) for line, of_line in by_line]


def must(holds: bool, what: str) -> None:  # noqa: FBT001 - the condition itself
    """Check a condition without which a figure means nothing.

    Raises:
        AssertionError: it does not hold.
    """
    if not holds:
        raise AssertionError(f"not so: {what}")


def _medians(line: Line, samples: Sequence[Sample]) -> Result:
    ours = statistics.median(sample.ours for sample in samples)
    pairs = [(sample.ours, sample.peer) for sample in samples if sample.peer is not None]
    if not pairs:
        return Result(line, ours, None, None)
    peer = statistics.median(peer for _, peer in pairs)
    ratios = [own / other for own, other in pairs if other]
    return Result(line, ours, peer, statistics.median(ratios) if ratios else None)
