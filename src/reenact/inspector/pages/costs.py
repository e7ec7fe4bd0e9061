"""The page of costs: usage and costs by time, by model, by tool and by session, and durations."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final

import msgspec

from reenact.actors.kernel.timetable import microseconds
from reenact.domain.messages import EPOCH, instant
from reenact.inspector.rendering import Address, File, Page
from reenact.inspector.source import Source
from reenact.inspector.text import brief_count
from reenact.inspector.text import cost as as_cost
from reenact.inspector.text import count as as_count
from reenact.projections.read_model.rows import DAY
from reenact.projections.read_model.session_list import images
from reenact.projections.statistics.figures import Spending, percentile
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
COLOURS: Final = 4
"""The number of models with a colour of their own; the others share one."""
HEIGHT: Final = 140
_LINES = 3
_COLUMNS = ("answers", *Spending.__struct_fields__[1:])
"""The columns of the saved figures, whose names stay."""
_LABELS = 6


class Bar(msgspec.Struct, frozen=True):
    """A bar of a chart: its place, in percent of the width, and its parts from the bottom up: class, top and height."""

    x: float
    width: float
    parts: tuple[tuple[str, float, float], ...]
    title: str


class Chart(msgspec.Struct, frozen=True):
    """Bars, the lines behind them with their values, and the labels below."""

    bars: tuple[Bar, ...]
    lines: tuple[tuple[float, str], ...]
    labels: tuple[tuple[float, str], ...]


class Slot(msgspec.Struct):
    """A span of time, and the usage in it by model."""

    title: str
    label: str
    models: defaultdict[str, Spending] = msgspec.field(default_factory=lambda: defaultdict(Spending))
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
    colours = {model: f"s{min(number, COLOURS)}" for number, (model, _) in enumerate(models)}
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
            "colours": colours,
            "sessions": [] if is_empty else by_session(source.tables, period, SESSIONS),
            "slots": slots,
            "per": "hour" if step == HOUR else "day",
            "spent": _chart(slots, {model: colours[model] for model, _ in models}),
            "tokens": _tokens(slots),
            "height": HEIGHT,
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
    for (at, model), one in used.items():
        slot = slots[(at - first) // together]
        slot.models[model] += one
        slot.total += one
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


def _chart(slots: Sequence[Slot], colours: Mapping[str, str]) -> Chart:
    def parts(slot: Slot) -> list[tuple[str, float]]:
        return [(colours[model], slot.models[model].cost) for model in colours if model in slot.models]

    return _drawn(slots, [parts(slot) for slot in slots], lambda slot: as_cost(slot.total.cost), _short)


def _tokens(slots: Sequence[Slot]) -> Chart:
    def parts(slot: Slot) -> list[tuple[str, float]]:
        used = slot.total
        fresh = max(0, used.tokens_in - used.tokens_cached)
        return [("cached", used.tokens_cached), ("fresh", fresh), ("out", used.tokens_out)]

    return _drawn(
        slots,
        [parts(slot) for slot in slots],
        lambda slot: f"{as_count(slot.total.tokens_in)} in, {as_count(slot.total.tokens_out)} out",
        lambda number: str(brief_count(number).striptags()),
    )


def _drawn(
    slots: Sequence[Slot],
    parts: Sequence[Sequence[tuple[str, float]]],
    say: Callable[[Slot], str],
    write: Callable[[float], str],
) -> Chart:
    top = _even(max((sum(part for _, part in some) for some in parts), default=0.0))
    width = 100 / max(len(slots), 4)
    bars: list[Bar] = []
    for number, (slot, some) in enumerate(zip(slots, parts, strict=True)):
        below, drawn = 0.0, list[tuple[str, float, float]]()
        for colour, part in some:
            height = HEIGHT * part / top
            if height > 0:
                drawn.append((colour, HEIGHT - below - height, height))
            below += height
        bars.append(Bar(number * width + width * 0.15, width * 0.7, tuple(drawn), f"{slot.title}: {say(slot)}"))
    every = -(-len(slots) // _LABELS)
    return Chart(
        tuple(bars),
        tuple((HEIGHT * (1 - line / _LINES), write(top * line / _LINES)) for line in range(_LINES + 1)),
        tuple(((number + 0.5) * width, slots[number].label) for number in range(0, len(slots), max(1, every))),
    )


def _short(amount: float) -> str:
    return f"{amount:.4f}".rstrip("0").rstrip(".")


def _even(largest: float) -> float:
    """Return a number that is not smaller, and whose thirds have few digits."""
    if largest <= 0:
        return 3.0
    size = 10.0 ** math.floor(math.log10(largest))
    return next(size * step for step in (1.2, 1.5, 3, 6, 9, 12, 15) if size * step >= largest)


def _csv(used: Mapping[tuple[int, str], Spending], step: int) -> str:
    rows = [["from", "model", *_COLUMNS]]
    for (at, model), one in sorted(used.items()):
        rows.append([instant(at * step).isoformat(), cell_of(model), *map(str, msgspec.structs.astuple(one))])
    return "".join(f"{','.join(row)}\n" for row in rows)
