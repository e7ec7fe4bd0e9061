"""Figures as a table for people, and as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias, get_args

from reenact.domain.legible import columns as wide
from reenact.domain.legible import display_safe, shortened
from reenact.domain.session.told import Decision
from reenact.domain.stream.events import Outcome
from reenact.projections.statistics.figures import Figures, Percentiles, Spending, Statistics, TurnFigures

_Cell: TypeAlias = int | float | None
_WIDTH: Final = 10
_WIDEST: Final = 40
"""The greatest width of a name, in columns."""
_FORMULAS: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""The first characters of cells that spreadsheets take for formulas; the last four are the full-width forms."""


def text_of(statistics: Statistics) -> str:
    """Return the total in lines, and a table of the groups, if there are any."""
    lines = list(_lines(statistics.total))
    if statistics.by is not None:
        lines += ["", *_table(statistics)]
    return "\n".join(lines)


def csv_of(statistics: Statistics) -> str:
    """Return a header, and a line for each group, or one for the total without grouping.

    A value that is unknown, such as a cost, or that a group cannot have, such as turns of a tool, is empty. A name that
    a spreadsheet would take for a formula gets a leading apostrophe.
    """
    rows = [[statistics.by or "all", *_cells(statistics.total)]]
    for one in statistics.groups if statistics.by is not None else [statistics.total]:
        numbers = ("" if cell is None else str(cell) for cell in _cells(one).values())
        rows.append([cell_of(one.key or ""), *numbers])
    return "".join(f"{','.join(row)}\n" for row in rows)


def cell_of(name: str) -> str:
    """Return a name, which may come from a model, as a quoted cell that no spreadsheet takes for a formula."""
    shown = display_safe(name).replace('"', '""')
    mark = "'" if shown.lstrip().startswith(_FORMULAS) else ""
    return f'"{mark}{shown}"'


def _known_cost(figures: Figures) -> float | None:
    """Return the cost, None if there was something to pay and no cost is known."""
    answers = figures.answers or Spending()
    is_known = answers.count > answers.unpriced or figures.calls.cost is not None
    return figures.cost if is_known or not (answers.count or figures.calls.count) else None


def _lines(total: Figures) -> Iterator[str]:
    turns, answers = total.turns or TurnFigures(), total.answers or Spending()
    yield _line("turns", f"{turns.count:,}", _counts(turns.outcomes), _duration_text(turns.duration))
    if turns.errors:
        yield _line("errors", _counts(turns.errors))
    yield _line(
        "answers", f"{answers.count:,}", _duration_text(total.first_delta or Percentiles(), "first delta after")
    )
    yield _line("tokens", f"{answers.tokens_in:,} in", f"{answers.tokens_cached:,} of them cached")
    yield _line("", f"{answers.tokens_out:,} out")
    unpriced = f"answers without a price: {answers.unpriced:,}" if answers.unpriced else ""
    yield _line("cost", _money(_known_cost(total)), unpriced)
    calls, approvals = total.calls, total.approvals
    yield _line(
        "calls",
        f"{calls.count:,}",
        f"{calls.failed:,} failed",
        f"{calls.denied:,} denied",
        _duration_text(calls.duration),
    )
    waiting = f"{approvals.waiting:,} still waiting" if approvals.waiting else ""
    decisions, waited = _counts(approvals.decisions), _duration_text(approvals.waited, "waited")
    yield _line("approvals", f"{approvals.count:,}", decisions, waited, waiting)


def _line(name: str, *parts: str) -> str:
    return f"{name:<{_WIDTH}}  {', '.join(filter(None, parts))}".rstrip()


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {display_safe(name)}" for name, count in counts.items())


def _duration_text(times: Percentiles, how: str = "took") -> str:
    if not times.count:
        return ""
    return f"{how} {_time(times.p50)} s (p50), {_time(times.p90)} s (p90), {_time(times.p99)} s (p99)"


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:,.2f}"


def _money(cost: float | None) -> str:
    return "unknown" if cost is None else f"{cost:,.6g}" if cost < 1 else f"{cost:,.2f}"


def _table(statistics: Statistics) -> Iterator[str]:
    columns = _OF_TOOLS if statistics.by == "tool" else _OF_OTHERS
    rows = [[str(statistics.by), *columns.values()]]
    for one in statistics.groups:
        cells = _cells(one)
        rows.append([shortened(one.key or "(none)", _WIDEST), *(_shown(name, cells[name]) for name in columns)])
    widths = [max(map(wide, column)) for column in zip(*rows, strict=True)]
    for name, *rest in rows:
        padded = (f"{cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True))
        yield f"{name}{' ' * (widths[0] - wide(name))}  {'  '.join(padded)}"


_OF_OTHERS: Final[Mapping[str, str]] = {
    "turns": "turns",
    "failed_turns": "failed",
    "tokens_in": "tokens in",
    "tokens_out": "out",
    "cost": "cost",
    "unpriced": "unpriced",
    "turn_p50": "turn p50",
    "turn_p90": "p90",
    "turn_p99": "p99",
    "first_delta_p50": "delta p50",
    "first_delta_p90": "p90",
    "first_delta_p99": "p99",
    "calls": "calls",
    "failed_calls": "failed",
    "denied_calls": "denied",
    "approvals": "approvals",
}
_OF_TOOLS: Final[Mapping[str, str]] = {
    "calls": "calls",
    "failed_calls": "failed",
    "denied_calls": "denied",
    "cost": "cost",
    "call_p50": "call p50",
    "call_p90": "p90",
    "call_p99": "p99",
    "approvals": "approvals",
    "rejected": "rejected",
    "waited_p50": "waited p50",
    "waited_p90": "p90",
    "waited_p99": "p99",
    "waiting": "waiting",
}
"""The columns shown to people, with their headings; durations are in seconds."""


def _cells(figures: Figures) -> dict[str, _Cell]:
    """Return all values by name."""
    turns, answers, calls, approvals = figures.turns, figures.answers, figures.calls, figures.approvals
    outcomes = None if turns is None else turns.outcomes
    return {
        "turns": None if turns is None else turns.count,
        **{f"{name}_turns": None if outcomes is None else outcomes.get(name, 0) for name in _OUTCOMES},
        **_times("turn", None if turns is None else turns.duration),
        "answers": None if answers is None else answers.count,
        "tokens_in": None if answers is None else answers.tokens_in,
        "tokens_out": None if answers is None else answers.tokens_out,
        "tokens_cached": None if answers is None else answers.tokens_cached,
        "cost": _known_cost(figures),
        "unpriced": None if answers is None else answers.unpriced,
        **_times("first_delta", figures.first_delta),
        "calls": calls.count,
        "failed_calls": calls.failed,
        "denied_calls": calls.denied,
        **_times("call", calls.duration),
        "approvals": approvals.count,
        **{name: approvals.decisions.get(name, 0) for name in _DECISIONS},
        **_times("waited", approvals.waited),
        "waiting": approvals.waiting,
    }


_OUTCOMES: Final[tuple[str, ...]] = get_args(Outcome)
_DECISIONS: Final[tuple[str, ...]] = get_args(Decision)


def _times(name: str, times: Percentiles | None) -> dict[str, _Cell]:
    found = times or Percentiles()
    return {f"{name}_p50": found.p50, f"{name}_p90": found.p90, f"{name}_p99": found.p99}


def _shown(name: str, cell: _Cell) -> str:
    if name == "cost":
        return _money(cell if isinstance(cell, float) else None)
    return f"{cell:,}" if isinstance(cell, int) else _time(cell)
