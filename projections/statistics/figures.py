"""The figures of a log: the numbers of its turns, answers, calls and approvals, their costs and their durations."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Literal, TypeAlias

from reenact.domain.structs import FrozenByName

By: TypeAlias = Literal["day", "model", "image", "tool", "session"]
"""The criterion for grouping figures. A day is a day in UTC."""


class Percentiles(FrozenByName):
    """Percentiles of durations in seconds; None without a case."""

    count: int = 0
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None


def percentiles(seconds: Collection[float]) -> Percentiles:
    """Return the percentiles of these durations; each is one of them."""
    ordered = sorted(seconds)
    p50, p90, p99 = (percentile(ordered, percent) for percent in (50, 90, 99))
    return Percentiles(count=len(ordered), p50=p50, p90=p90, p99=p99)


def percentile(ordered: Sequence[float], percent: int) -> float | None:
    """Return the given percentile of the sorted durations, None if there are none."""
    return ordered[-(-len(ordered) * percent // 100) - 1] if ordered else None


class TurnFigures(FrozenByName):
    """The turns that ended: their outcomes, the types of their errors, and the durations of those that had begun."""

    count: int = 0
    outcomes: Mapping[str, int] = {}
    errors: Mapping[str, int] = {}
    duration: Percentiles = Percentiles()


class Spending(FrozenByName):
    """The use of models: the number of answers and summaries, their tokens, and their cost.

    `tokens_in` counts all input tokens, `tokens_cached` those of them that were read from a cache. `cost` is in the
    currency of the prices, and covers the answers whose cost is known; `unpriced` counts the others.
    """

    count: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    cost: float = 0.0
    unpriced: int = 0

    def __add__(self, other: Spending) -> Spending:
        """Return the sums of both."""
        return Spending(**{name: getattr(self, name) + getattr(other, name) for name in Spending.__struct_fields__})


class CallFigures(FrozenByName):
    """The tool calls that ran or that the policies denied: how many failed, their cost, and their durations.

    `cost` is that of the calls whose cost is known, None if there are none.
    """

    count: int = 0
    failed: int = 0
    denied: int = 0
    cost: float | None = None
    duration: Percentiles = Percentiles()


class ApprovalFigures(FrozenByName):
    """The decisions of people: how many calls they decided, and how; how long these waited, and how many still wait."""

    count: int = 0
    decisions: Mapping[str, int] = {}
    waited: Percentiles = Percentiles()
    waiting: int = 0


class Figures(FrozenByName):
    """The figures of one day, model, image, tool or session, which is the `key`, or of all: None.

    A tool has no turns and no answers. The turns of a model are those whose last answer it gave, its calls and
    approvals those that its answers requested; the empty key is for an unknown model.
    """

    key: str | None = None
    turns: TurnFigures | None = TurnFigures()
    answers: Spending | None = Spending()
    first_delta: Percentiles | None = Percentiles()
    calls: CallFigures = CallFigures()
    approvals: ApprovalFigures = ApprovalFigures()

    @property
    def cost(self) -> float:
        """The total of the known costs of answers and calls."""
        return (self.calls.cost or 0.0) + (0.0 if self.answers is None else self.answers.cost)


class Statistics(FrozenByName):
    """The figures of a log, or of a part of it: in total, and in `groups` by the requested criterion.

    `position` is the position of the last event that is counted. `since` is inclusive, `until` is exclusive.
    """

    position: int
    by: By | None
    since: datetime | None
    until: datetime | None
    total: Figures
    groups: tuple[Figures, ...]
