"""Queries on usage and cost: by time and model, tool and session, and on durations.

Sums are computed by the database, most of them in the order of an index; durations are those of the newest few
thousand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from reenact.domain.plain import made
from reenact.projections.read_model.rows import DAY, Value
from reenact.projections.statistics.figures import Spending
from reenact.projections.statistics.selection import Counted, Selection, Tables

HOUR: Final = DAY // 24
NEWEST: Final = 5000
"""How many of the newest durations are read."""
SPENT: Final = """
    count(*), CAST(sum(f.tokens_in) AS bigint), CAST(sum(f.tokens_out) AS bigint),
    CAST(sum(f.tokens_cached) AS bigint), coalesce(sum(f.cost), 0.0), count(*) - count(f.cost)
"""
"""The sums over answers of which `spending_of` makes their spending."""
CALLED: Final = "count(*), CAST(sum(f.failed) AS bigint), CAST(sum(f.denied) AS bigint), sum(f.cost)"
"""The sums over the ends of calls: how many there are, how many failed and were denied, and their known cost."""


class Called(msgspec.Struct, frozen=True):
    """The calls of a tool, and their outcomes."""

    name: str
    count: int
    failed: int
    denied: int
    cost: float | None


class SessionUsed(msgspec.Struct, frozen=True):
    """The usage of a session in `turns` turns; for a period, `turns` is the number of answers."""

    id: str
    turns: int
    tokens: int
    cost: float
    unpriced: int


def spending_of(sums: Sequence[Value]) -> Spending:
    """Return the spending with these sums over answers, of which there are some."""
    return made(Spending, **dict(zip(Spending.__struct_fields__, sums, strict=True)))


def span(tables: Tables, selection: Selection) -> tuple[int, int] | None:
    """Return when the first and the last answer were recorded, in microseconds; None without answers."""
    found = [
        selection.rows(tables, "answers", "f.at", end=f"ORDER BY f.position {order} LIMIT 1")
        for order in ("ASC", "DESC")
    ]
    times = [at for rows in found for (at,) in rows if isinstance(at, int)]
    return (min(times), max(times)) if times else None


def by_time(tables: Tables, selection: Selection, step: int) -> dict[tuple[int, str], Spending]:
    """Return the usage in each interval of `step` microseconds, by the interval's number and the model."""
    slot = "f.day" if step == DAY else f"f.at / {step}"
    rows = selection.rows(tables, "answers", f"{slot}, f.model", SPENT)
    return {(at, str(model)): spending_of(sums) for at, model, *sums in rows if isinstance(at, int)}


def by_tool(tables: Tables, selection: Selection, limit: int) -> list[Called]:
    """Return the tools that were called, most often called first."""
    order = f"ORDER BY count(*) DESC, f.name LIMIT {limit}"
    return [made(Called, *cells) for cells in selection.rows(tables, "call_ends", "f.name", CALLED, end=order)]


def by_session(tables: Tables, selection: Selection, limit: int) -> list[SessionUsed]:
    """Return the sessions, without deleted ones, with the highest costs, including tools; in a period, those in it."""
    if selection.since is None:
        of_image = "" if selection.image_id is None else " AND s.image_id = :image_id"
        statement = f"""
            SELECT s.id, a.turns, a.tokens_in + a.tokens_out, a.cost, a.unpriced
            FROM activity a JOIN sessions s ON s.position = a.session
            WHERE s.deleted_at IS NULL AND a.tokens_in + a.tokens_out + a.unpriced > 0{of_image}
            ORDER BY a.cost DESC, a.session LIMIT {limit}
        """  # noqa: S608 - ours
    else:
        answers = selection.statement(
            "answers",
            "f.session",
            """
            count(*) AS answers, CAST(sum(f.tokens_in + f.tokens_out) AS bigint) AS tokens,
            coalesce(sum(f.cost), 0.0) AS cost, count(*) - count(f.cost) AS unpriced
            """,
        )
        calls = selection.statement("call_ends", "f.session", "0, 0, sum(f.cost), 0")
        statement = f"""
            SELECT s.id, CAST(sum(u.answers) AS bigint), CAST(sum(u.tokens) AS bigint), sum(u.cost),
                CAST(sum(u.unpriced) AS bigint)
            FROM ({answers} UNION ALL {calls} HAVING sum(f.cost) > 0) u JOIN sessions s ON s.position = u.session
            WHERE s.deleted_at IS NULL GROUP BY u.session, s.id ORDER BY 4 DESC, u.session LIMIT {limit}
        """  # noqa: S608 - ours
    return [made(SessionUsed, *cells) for cells in tables.query(statement, **selection.values())]


def decided(tables: Tables, selection: Selection) -> tuple[int, float]:
    """Return how many calls people decided, and the total time in seconds that these have waited."""
    ((count, waited),) = selection.rows(tables, "decisions", "", "count(*), coalesce(sum(f.waited), 0.0)")
    assert isinstance(count, int)
    assert isinstance(waited, float)
    return count, waited


def times(tables: Tables, table: Counted, column: str, selection: Selection) -> list[float]:
    """Return the newest durations of a table's column in seconds, sorted."""
    rows = selection.rows(tables, table, f"f.{column}", end=f"ORDER BY f.position DESC LIMIT {NEWEST}")
    return sorted(seconds for (seconds,) in rows if isinstance(seconds, float))


def times_of_tools(tables: Tables, selection: Selection) -> dict[str, list[float]]:
    """Return the durations of the newest calls in seconds, sorted, by tool."""
    found: dict[str, list[float]] = {}
    for name, seconds in selection.rows(
        tables, "call_ends", "f.name, f.duration", end=f"ORDER BY f.position DESC LIMIT {2 * NEWEST}"
    ):
        if isinstance(seconds, float):
            found.setdefault(str(name), []).append(seconds)
    return {name: sorted(some) for name, some in found.items()}
