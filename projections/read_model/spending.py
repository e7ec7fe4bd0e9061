"""Queries on usage and cost: by time and model, tool and session, and on durations.

Sums are computed by the database, most of them in the order of an index; durations are those of the newest few
thousand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from reenact.domain.plain import made
from reenact.projections.read_model.reader_tables import ReaderTables
from reenact.projections.read_model.rows import DAY, Value

HOUR: Final = DAY // 24
NEWEST: Final = 5000
"""How many of the newest durations are read."""
Timed: TypeAlias = Literal["turn_ends.duration", "answers.first_delta", "call_ends.duration", "decisions.waited"]


class Period(msgspec.Struct, frozen=True):
    """A period, from `since` on, in microseconds, the beginning of a day in UTC; and an image. None: all."""

    since: int | None = None
    image: str | None = None

    def clause(self, at: str = "f.at >= :since") -> tuple[str, dict[str, Value]]:
        """Return the WHERE clause for a table `f`, and its values."""
        conditions = {
            at: self.since,
            "f.session IN (SELECT position FROM sessions WHERE image_id = :image)": self.image,
        }
        given = {condition: value for condition, value in conditions.items() if value is not None}
        where = f" WHERE {' AND '.join(given)}" if given else ""
        return where, {condition.partition(":")[2].rstrip(")"): value for condition, value in given.items()}

    def of_answers(self) -> tuple[str, dict[str, Value]]:
        """Return the same for the answers, which are indexed by day."""
        begin = msgspec.structs.replace(self, since=None if self.since is None else self.since // DAY)
        return begin.clause("f.day >= :day")


class Used(msgspec.Struct):
    """Usage: answers, their tokens, and their known cost."""

    answers: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    cost: float = 0.0
    unpriced: int = 0

    def add(self, other: Used) -> None:
        """Add the other usage to this one."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Called(msgspec.Struct, frozen=True):
    """The calls of a tool, and their outcomes."""

    name: str
    count: int
    failed: int
    denied: int
    cost: float


class SessionUsed(msgspec.Struct, frozen=True):
    """The usage of a session in `turns` turns; for a period, `turns` is the number of answers."""

    id: str
    turns: int
    tokens: int
    cost: float
    unpriced: int


def span(tables: ReaderTables, period: Period) -> tuple[int, int] | None:
    """Return when the first and the last answer of the period were recorded, in microseconds; None without answers."""
    clause, values = period.of_answers()
    found = [
        tables.query(f"SELECT f.at FROM answers f{clause} ORDER BY f.position {order} LIMIT 1", **values)  # noqa: S608 - ours
        for order in ("ASC", "DESC")
    ]
    times = [at for rows in found for (at,) in rows if isinstance(at, int)]
    return (min(times), max(times)) if times else None


def by_time(tables: ReaderTables, period: Period, step: int) -> dict[tuple[int, str], Used]:
    """Return the usage in each interval of `step` microseconds, by the interval's number and the model."""
    clause, values = period.of_answers()
    slot = "f.day" if step == DAY else f"f.at / {step}"
    rows = tables.query(
        f"""
        SELECT {slot}, f.model, count(*), CAST(sum(f.tokens_in) AS bigint), CAST(sum(f.tokens_out) AS bigint),
            CAST(sum(f.tokens_cached) AS bigint), coalesce(sum(f.cost), 0.0), count(*) - count(f.cost)
        FROM answers f{clause} GROUP BY {slot}, f.model
        """,  # noqa: S608 - ours
        **values,
    )
    return {(at, str(model)): made(Used, *sums) for at, model, *sums in rows if isinstance(at, int)}


def by_tool(tables: ReaderTables, period: Period, limit: int) -> list[Called]:
    """Return the tools that were called, most often called first."""
    clause, values = period.clause()
    rows = tables.query(
        f"""
        SELECT f.name, count(*), CAST(sum(f.failed) AS bigint), CAST(sum(f.denied) AS bigint),
            coalesce(sum(f.cost), 0.0)
        FROM call_ends f{clause} GROUP BY f.name ORDER BY count(*) DESC, f.name LIMIT :limit
        """,  # noqa: S608 - ours
        **values,
        limit=limit,
    )
    return [made(Called, *cells) for cells in rows]


def by_session(tables: ReaderTables, period: Period, limit: int) -> list[SessionUsed]:
    """Return the sessions, without deleted ones, with the highest costs, including tools; in a period, those in it."""
    if period.since is None:
        where = "" if period.image is None else " AND s.image_id = :image"
        of_image: dict[str, Value] = {} if period.image is None else {"image": period.image}
        rows = tables.query(
            f"""
            SELECT s.id, a.turns, a.tokens_in + a.tokens_out, a.cost, a.unpriced
            FROM activity a JOIN sessions s ON s.position = a.session
            WHERE s.deleted_at IS NULL AND a.tokens_in + a.tokens_out + a.unpriced > 0{where}
            ORDER BY a.cost DESC, a.session LIMIT :limit
            """,  # noqa: S608 - ours
            **of_image,
            limit=limit,
        )
        return [made(SessionUsed, *cells) for cells in rows]
    answers, values = period.of_answers()
    calls, more = period.clause()
    rows = tables.query(
        f"""
        SELECT s.id, CAST(sum(u.answers) AS bigint), CAST(sum(u.tokens) AS bigint), sum(u.cost),
            CAST(sum(u.unpriced) AS bigint)
        FROM (
            SELECT f.session AS session, count(*) AS answers, CAST(sum(f.tokens_in + f.tokens_out) AS bigint) AS tokens,
                coalesce(sum(f.cost), 0.0) AS cost, count(*) - count(f.cost) AS unpriced
            FROM answers f{answers} GROUP BY f.session
            UNION ALL
            SELECT f.session, 0, 0, sum(f.cost), 0 FROM call_ends f{calls} GROUP BY f.session HAVING sum(f.cost) > 0
        ) u JOIN sessions s ON s.position = u.session
        WHERE s.deleted_at IS NULL GROUP BY u.session, s.id ORDER BY 4 DESC, u.session LIMIT :limit
        """,  # noqa: S608 - ours
        **(values | more),
        limit=limit,
    )
    return [made(SessionUsed, *cells) for cells in rows]


def decided(tables: ReaderTables, period: Period) -> tuple[int, float]:
    """Return how many calls people decided, and the total time in seconds that these have waited."""
    clause, values = period.clause()
    sums = "count(*), coalesce(sum(f.waited), 0.0)"
    ((count, waited),) = tables.query(f"SELECT {sums} FROM decisions f{clause}", **values)  # noqa: S608 - ours
    assert isinstance(count, int)
    assert isinstance(waited, float)
    return count, waited


def times(tables: ReaderTables, what: Timed, period: Period) -> list[float]:
    """Return the newest durations in seconds, sorted."""
    table, _, column = what.partition(".")
    clause, values = period.of_answers() if table == "answers" else period.clause()
    rows = tables.query(
        f"SELECT f.{column} FROM {table} f{clause} ORDER BY f.position DESC LIMIT {NEWEST}",  # noqa: S608 - ours
        **values,
    )
    return sorted(seconds for (seconds,) in rows if isinstance(seconds, float))


def times_of_tools(tables: ReaderTables, period: Period) -> dict[str, list[float]]:
    """Return the durations of the newest calls in seconds, sorted, by tool."""
    clause, values = period.clause()
    rows = tables.query(
        f"SELECT f.name, f.duration FROM call_ends f{clause} ORDER BY f.position DESC LIMIT {2 * NEWEST}",  # noqa: S608 - ours
        **values,
    )
    found: dict[str, list[float]] = {}
    for name, seconds in rows:
        if isinstance(seconds, float):
            found.setdefault(str(name), []).append(seconds)
    return {name: sorted(some) for name, some in found.items()}


def percentile(ordered: Sequence[float], percent: int) -> float | None:
    """Return the given percentile of the sorted times, None if there are none."""
    return ordered[-(-len(ordered) * percent // 100) - 1] if ordered else None
