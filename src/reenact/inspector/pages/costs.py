"""The page of costs: usage and costs by time, by model, by tool and by session, and durations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

import msgspec
from markupsafe import Markup

from reenact.actors.kernel.timetable import microseconds
from reenact.domain.messages import EPOCH, instant
from reenact.inspector.rendering import Address, File, Page
from reenact.inspector.source import Source
from reenact.projections.read_model.rows import DAY
from reenact.projections.read_model.session_list import images
from reenact.projections.statistics.figures import Spending, percentile
from reenact.projections.statistics.plot import Bar, bar_chart
from reenact.projections.statistics.report import cell_of
from reenact.projections.statistics.selection import Counted, Selection
from reenact.projections.statistics.spending import (
    HOUR,
    NEWEST,
    by_session,
    by_time,
    by_tool,
    decided,
    span,
    times,
    times_of_tools,
)

PERIODS: Final = {"": ("All", 0), "7d": ("7 days", 7), "30d": ("30 days", 30), "90d": ("90 days", 90)}
BARS: Final = 60
"""The most bars of a chart."""
TOOLS, SESSIONS, MODELS = 12, 12, 12
_COLUMNS = ("answers", *Spending.__struct_fields__[1:])
"""The columns of the saved figures, whose names stay."""


class Slot(msgspec.Struct):
    """A span of time, and the usage in it."""

    title: str
    label: str
    total: Spending = Spending()


def costs(source: Source, address: Address) -> Page | File:
    """Return the page of costs, or its days as CSV."""
    source.tables.refresh()
    name = address.choice("period", tuple(PERIODS), "")
    days = PERIODS[name][1]
    since = instant((microseconds() // DAY - days + 1) * DAY) if days else None
    image = "".join(filter(str.isprintable, address.query.get("image", ""))) or None
    period = Selection(since=since, image_id=image)
    known = span(source.tables, period)
    step = HOUR if known is not None and known[1] - known[0] <= 2 * DAY else DAY
    used = by_time(source.tables, period, step) if known is not None else {}
    slots = _slots(used, step)
    if address.query.get("csv"):
        return File("costs.csv", _csv(used, step))
    models = _by_model(used)
    is_empty = known is None
    tool_times = {} if is_empty else times_of_tools(source.tables, period)
    called = [] if is_empty else by_tool(source.tables, period, TOOLS + 1)
    return Page(
        "costs.html",
        {
            "periods": {key: title for key, (title, _) in PERIODS.items()},
            "period": name,
            "image": image,
            "images": images(source.tables, image),
            "known": known,
            "total": sum(used.values(), Spending()),
            "turns": _times(source, "turn_ends", "duration", period),
            "first": _times(source, "answers", "first_delta", period),
            "waited": _times(source, "decisions", "waited", period),
            "decided": decided(source.tables, period),
            "called": called[:TOOLS],
            "more_tools": len(called) > TOOLS,
            "tool_times": {name: _percentiles(some) for name, some in tool_times.items()},
            "models": models[:MODELS],
            "more_models": len(models) - MODELS,
            "sessions": [] if is_empty else by_session(source.tables, period, SESSIONS),
            "slots": slots,
            "per": "hour" if step == HOUR else "day",
            "charts": {"What it cost": _cost_chart(slots), "Tokens": _token_chart(slots)},
            "newest": NEWEST,
        },
    )


def _times(source: Source, table: Counted, column: str, period: Selection) -> dict[str, float | None]:
    return _percentiles(times(source.tables, table, column, period))


def _percentiles(ordered: Sequence[float]) -> dict[str, float | None]:
    return {
        "p50": percentile(ordered, 50),
        "p90": percentile(ordered, 90),
        "longest": ordered[-1] if ordered else None,
    }


def _by_model(used: Mapping[tuple[int, str], Spending]) -> list[tuple[str, Spending]]:
    found = defaultdict[str, Spending](Spending)
    for (_, model), one in used.items():
        found[model] += one
    return sorted(found.items(), key=lambda pair: (-pair[1].cost, -pair[1].tokens_in, pair[0]))


def _slots(used: Mapping[tuple[int, str], Spending], step: int) -> list[Slot]:
    """Return the slots from the first to the last; each joins enough steps that there are not too many."""
    if not used:
        return []
    first, last = min(at for at, _ in used), max(at for at, _ in used)
    together = -(-(last - first + 1) // BARS)
    slots = [_slot(at, step, together) for at in range(first, last + 1, together)]
    for (at, _), one in used.items():
        slots[(at - first) // together].total += one
    return slots


def _slot(at: int, step: int, together: int) -> Slot:
    if step == HOUR:
        time = instant(at * HOUR).astimezone()
        return Slot(f"{time:%-d %B, %H:%M}", f"{time:%H:%M}")
    day = EPOCH + timedelta(days=at)
    title = f"{day:%-d %B %Y}"
    if together > 1:
        title += f" to {day + timedelta(days=together - 1):%-d %B}"
    return Slot(title, f"{day:%-d %b}")


def _cost_chart(slots: Sequence[Slot]) -> Markup:
    bars = [Bar(slot.label, (slot.total.cost,), _unpriced(slot.total), slot.title) for slot in slots]
    return Markup(bar_chart("Cost", ("cost",), bars))  # noqa: S704 - names in it are escaped


def _unpriced(used: Spending) -> str:
    return f"{used.unpriced:,} answers of unknown cost" if used.unpriced else ""


def _token_chart(slots: Sequence[Slot]) -> Markup:
    bars = [Bar(slot.label, _tokens(slot.total), title=slot.title) for slot in slots]
    return Markup(bar_chart("Tokens", ("in", "cached", "out"), bars))  # noqa: S704 - names in it are escaped


def _tokens(used: Spending) -> tuple[float, ...]:
    """Return the tokens of each kind, which do not overlap."""
    return max(0, used.tokens_in - used.tokens_cached), used.tokens_cached, used.tokens_out


def _csv(used: Mapping[tuple[int, str], Spending], step: int) -> str:
    rows = [["from", "model", *_COLUMNS]]
    for (at, model), one in sorted(used.items()):
        rows.append([instant(at * step).isoformat(), cell_of(model), *map(str, msgspec.structs.astuple(one))])
    return "".join(f"{','.join(row)}\n" for row in rows)
