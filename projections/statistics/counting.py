"""Counts the read model's rows: one query for each kind of fact.

Sums are computed by the database. Percentiles are computed here: SQLite takes three times as long to sort the
durations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final, TypeAlias, TypeVar

from reenact.domain.errors import InvalidInputError
from reenact.domain.messages import EPOCH
from reenact.projections.read_model.rows import DAY, Value
from reenact.projections.statistics.figures import (
    ApprovalFigures,
    By,
    CallFigures,
    Figures,
    Spending,
    Statistics,
    TurnFigures,
    percentiles,
)
from reenact.projections.statistics.selection import ALL, Counted, Selection, Tables
from reenact.projections.statistics.spending import CALLED, SPENT, spending_of


def statistics_of(tables: Tables, by: By | None = None, selection: Selection = ALL) -> Statistics:
    """Return the figures of the selected rows.

    Raises:
        InvalidInputError: figures cannot be grouped by that.
        ReadModelError: the tables cannot be read.
    """
    if by is not None and by not in _KEYS:
        *known, last = _KEYS
        raise InvalidInputError(f"`by` must be {', '.join(known)} or {last}, not {by!r}")
    position = tables.position()
    counting = _Counting(tables, by, selection)
    counting.count()
    return Statistics(
        position=position,
        by=by,
        since=selection.since,
        until=selection.until,
        total=counting.total.figures(None),
        groups=tuple(one.figures(_named(key), is_of_tool=by == "tool") for key, one in _in_order(counting.groups)),
    )


_Key: TypeAlias = int | str
"""The key of a group: a day, counted since 1970-01-01, or a name."""
_T = TypeVar("_T")
_OF_EVENTS: Final[tuple[Counted, ...]] = ("answers", "turn_ends", "call_ends", "decisions")
_OF_CALLS: Final[tuple[Counted, ...]] = ("call_ends", "decisions", "calls")
_KEYS: Final[Mapping[By, Mapping[Counted, str]]] = {
    "day": {**dict.fromkeys(_OF_EVENTS, "f.day"), "calls": f"f.asked_at / {DAY}"},
    "model": {"answers": "f.model", "turn_ends": "f.model", **dict.fromkeys(_OF_CALLS, "a.model")},
    "tool": dict.fromkeys(_OF_CALLS, "f.name"),
    "image": dict.fromkeys((*_OF_EVENTS, "calls"), "s.image_id"),
    "session": dict.fromkeys((*_OF_EVENTS, "calls"), "s.id"),
}
"""The column by which the rows of a table are grouped."""
_WAITS: Final = ("f.stage = 'waiting'", "f.kind <> 'child'", "s.deleted_at IS NULL")


class _Counting:
    """Counts rows, in total and by key."""

    def __init__(self, tables: Tables, by: By | None, selection: Selection) -> None:
        self._tables = tables
        self._keys = _KEYS[by] if by is not None else {}
        self._selection = selection
        self.total = _Gathered()
        self.groups = defaultdict[_Key, _Gathered](_Gathered)

    def count(self) -> None:
        """Count the rows of every table."""
        for one, (count, failed, denied, cost) in self._rows("call_ends", "", CALLED):
            one.calls.update(count=_whole(count), failed=_whole(failed), denied=_whole(denied))
            if cost is not None:
                one.cost = (one.cost or 0.0) + _amount(cost)
        for one, (count,) in self._rows("calls", "", "count(*)", *_WAITS):
            one.waiting += _whole(count)
        for one, (outcome, error, count) in self._rows("turn_ends", "f.outcome, f.error", "count(*)"):
            one.outcomes[str(outcome)] += _whole(count)
            if error is not None:
                one.errors[str(error)] += _whole(count)
        for one, sums in self._rows("answers", "", SPENT):
            one.answers += spending_of(sums)
        for one, (decision, count) in self._rows("decisions", "f.decision", "count(*)"):
            one.decisions[str(decision)] += _whole(count)
        for table, column in _TIMES:
            for one, (seconds,) in self._rows(table, f"f.{column}", "", f"f.{column} IS NOT NULL"):
                one.times[f"{table}.{column}"].append(_amount(seconds))

    def _rows(
        self, table: Counted, columns: str, sums: str, *conditions: str
    ) -> Iterator[tuple[_Gathered, Sequence[Value]]]:
        """Yield the cells of each row with each of the counters to which it belongs; empty sums are skipped."""
        key = self._keys.get(table)
        given = ", ".join(filter(None, (key, columns)))
        for row in self._selection.rows(self._tables, table, given, sums, conditions=conditions):
            if key is not None:
                yield self.total, row[1:]
                yield self.groups[_key(row[0])], row[1:]
            elif columns or row[0] != 0:
                yield self.total, row


class _Gathered:
    """The counts so far."""

    def __init__(self) -> None:
        self.outcomes = Counter[str]()
        self.errors = Counter[str]()
        self.answers = Spending()
        self.calls = Counter[str]()
        self.cost: float | None = None
        self.decisions = Counter[str]()
        self.waiting = 0
        self.times = defaultdict[str, list[float]](list)

    def figures(self, key: str | None, *, is_of_tool: bool = False) -> Figures:
        """Return the counts as figures."""
        turns = TurnFigures(
            count=self.outcomes.total(),
            outcomes=_ordered(self.outcomes),
            errors=_ordered(self.errors),
            duration=percentiles(self.times["turn_ends.duration"]),
        )
        return Figures(
            key=key,
            turns=None if is_of_tool else turns,
            answers=None if is_of_tool else self.answers,
            first_delta=None if is_of_tool else percentiles(self.times["answers.first_delta"]),
            calls=CallFigures(
                count=self.calls["count"],
                failed=self.calls["failed"],
                denied=self.calls["denied"],
                cost=self.cost,
                duration=percentiles(self.times["call_ends.duration"]),
            ),
            approvals=ApprovalFigures(
                count=self.decisions.total(),
                decisions=_ordered(self.decisions),
                waited=percentiles(self.times["decisions.waited"]),
                waiting=self.waiting,
            ),
        )


_TIMES: Final[tuple[tuple[Counted, str], ...]] = (
    ("turn_ends", "duration"),
    ("answers", "first_delta"),
    ("call_ends", "duration"),
    ("decisions", "waited"),
)


def _in_order(found: Mapping[_Key, _T]) -> list[tuple[_Key, _T]]:
    """Return the groups in the order of their days or names."""
    return sorted(found.items(), key=lambda one: (one[0], "") if isinstance(one[0], int) else (0, one[0]))


def _key(cell: Value) -> _Key:
    return cell if isinstance(cell, int) else str(cell)


def _named(key: _Key) -> str:
    return key if isinstance(key, str) else (EPOCH + timedelta(days=key)).date().isoformat()


def _ordered(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items()))


def _whole(cell: Value) -> int:
    assert isinstance(cell, int)  # a count
    return cell


def _amount(cell: Value) -> float:
    """Return a sum or a duration; an empty sum is 0."""
    assert cell is None or isinstance(cell, (int, float))
    return cell or 0.0
