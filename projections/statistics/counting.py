"""Counts the read model's rows: one query for each kind of fact, in SQL that SQLite and PostgreSQL both accept.

Sums are computed by the database. Percentiles are computed here: SQLite takes three times as long to sort the
durations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from reenact.domain.errors import ContainerNotFoundError, ImageNotFoundError, InvalidInputError, SessionNotFoundError
from reenact.domain.messages import EPOCH
from reenact.projections.log import AuditedLog, has_stream
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

_Table: TypeAlias = Literal["answers", "turn_ends", "call_ends", "decisions", "calls"]


class Tables(Protocol):
    """The read model's tables, open for reading."""

    def query(self, statement: str, /, **values: Value) -> list[tuple[Value, ...]]:
        """Return the rows of a statement."""
        ...

    def position(self) -> int:
        """Return the position of the last event in the tables."""
        ...


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The rows to count: from a time on, up to a time, and of one container, image or session."""

    since: datetime | None = None
    until: datetime | None = None
    container_id: str | None = None
    image_id: str | None = None
    session_id: str | None = None

    def __post_init__(self) -> None:
        """Raise `InvalidInputError` if a time has no time zone."""
        for name, time in (("since", self.since), ("until", self.until)):
            if time is not None and time.tzinfo is None:
                raise InvalidInputError(f"`{name}` needs a time zone: datetime(…, tzinfo=UTC)")

    def values(self) -> dict[str, Value]:
        """Return the given values by their names in the conditions."""
        given: dict[str, Value | datetime] = msgspec.structs.asdict(self)
        return {
            name: (one - EPOCH) // timedelta(microseconds=1) if isinstance(one, datetime) else one
            for name, one in given.items()
            if one is not None
        }


ALL: Final = Selection()


def check_selection(log: AuditedLog, selection: Selection) -> None:
    """Check that the log has what is selected; its tables may be behind.

    Raises:
        NotFoundError: it has no such container, image or session; the subclass says which.
    """
    for category, id_, missing in (
        ("container", selection.container_id, ContainerNotFoundError),
        ("image", selection.image_id, ImageNotFoundError),
        ("session", selection.session_id, SessionNotFoundError),
    ):
        if id_ is not None and not has_stream(log, f"{category}/{id_}"):
            raise missing(id_)


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
_SPENT: Final = """
    count(*), CAST(sum(f.tokens_in) AS bigint), CAST(sum(f.tokens_out) AS bigint),
    CAST(sum(f.tokens_cached) AS bigint), sum(f.cost), count(f.cost)
"""
_KEYS: Final[Mapping[By, Mapping[_Table, str]]] = {
    "day": {
        **dict.fromkeys(("answers", "turn_ends", "call_ends", "decisions"), "f.day"),
        "calls": f"f.asked_at / {DAY}",
    },
    "model": {
        **dict.fromkeys(("answers", "turn_ends"), "f.model"),
        **dict.fromkeys(("call_ends", "decisions", "calls"), "a.model"),
    },
    "tool": dict.fromkeys(("call_ends", "decisions", "calls"), "f.name"),
    "image": dict.fromkeys(("answers", "turn_ends", "call_ends", "decisions", "calls"), "s.image_id"),
    "session": dict.fromkeys(("answers", "turn_ends", "call_ends", "decisions", "calls"), "s.id"),
}
"""The column by which the rows of a table are grouped: `f` is the table, `s` the session, `a` the answer."""
_CONDITIONS: Final[Mapping[str, str]] = {
    "since": "{at} >= :since",
    "until": "{at} < :until",
    "container_id": "s.container_id = :container_id",
    "image_id": "s.image_id = :image_id",
    "session_id": "s.id = :session_id",
}


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
        self._count_calls()
        for found, (outcome, error, count) in self._rows("turn_ends", "f.outcome, f.error", "count(*)"):
            for one in found:
                one.outcomes[str(outcome)] += _whole(count)
                if error is not None:
                    one.errors[str(error)] += _whole(count)
        for found, sums in self._rows("answers", "", _SPENT):
            for one in found:
                one.answers += _spending(sums)
        for found, (decision, count) in self._rows("decisions", "f.decision", "count(*)"):
            for one in found:
                one.decisions[str(decision)] += _whole(count)
        for table, column in _TIMES:
            for found, (seconds,) in self._rows(table, f"f.{column}", "", f"f.{column} IS NOT NULL"):
                for one in found:
                    one.times[f"{table}.{column}"].append(_amount(seconds))

    def _count_calls(self) -> None:
        for found, (count, failed, denied, cost) in self._rows("call_ends", "", _CALLED):
            for one in found:
                one.calls.update(count=_whole(count), failed=_whole(failed), denied=_whole(denied))
                if cost is not None:
                    one.cost = (one.cost or 0.0) + _amount(cost)
        is_waiting = "f.stage = 'waiting'", "f.kind <> 'child'", "s.deleted_at IS NULL"
        for found, (count,) in self._rows("calls", "", "count(*)", *is_waiting):
            for one in found:
                one.waiting += _whole(count)

    def _rows(
        self, table: _Table, columns: str, sums: str, *conditions: str
    ) -> Iterator[tuple[tuple[_Gathered, ...], tuple[Value, ...]]]:
        """Yield the counters to which a row belongs, with its cells; rows of empty sums are skipped."""
        key = self._keys.get(table)
        for row in self._select(table, ", ".join(filter(None, (key, columns))), sums, conditions):
            if key is not None:
                yield (self.total, self.groups[_key(row[0])]), row[1:]
            elif columns or row[0] != 0:
                yield (self.total,), row

    def _select(self, table: _Table, columns: str, sums: str, conditions: Sequence[str]) -> list[tuple[Value, ...]]:
        """Return rows of the table, or sums over the rows with equal columns."""
        values = self._selection.values()
        at = "f.asked_at" if table == "calls" else "f.at"
        where = [*conditions, *(_CONDITIONS[name].format(at=at) for name in values)]
        said = " ".join([columns, *where])
        joins = " JOIN sessions s ON s.position = f.session" if "s." in said else ""
        if "a." in said:
            joins += f" JOIN answers a ON a.position = f.{'position' if table == 'calls' else 'answer'}"
        statement = f"SELECT {', '.join(filter(None, (columns, sums)))} FROM {table} f{joins}"  # noqa: S608 - ours
        if where:
            statement += f" WHERE {' AND '.join(where)}"
        if sums and columns:
            statement += f" GROUP BY {columns}"
        return self._tables.query(statement, **values)


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


_CALLED: Final = "count(*), CAST(sum(f.failed) AS bigint), CAST(sum(f.denied) AS bigint), sum(f.cost)"
_TIMES: Final[tuple[tuple[_Table, str], ...]] = (
    ("turn_ends", "duration"),
    ("answers", "first_delta"),
    ("call_ends", "duration"),
    ("decisions", "waited"),
)


def _spending(sums: Sequence[Value]) -> Spending:
    count, tokens_in, tokens_out, tokens_cached, cost, priced = sums
    return Spending(
        count=_whole(count),
        tokens_in=_whole(tokens_in),
        tokens_out=_whole(tokens_out),
        tokens_cached=_whole(tokens_cached),
        cost=_amount(cost),
        unpriced=_whole(count) - _whole(priced),
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
