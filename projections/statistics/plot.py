"""Draws figures as SVG: stacked bars, and durations as ranges from the median to the 99th percentile.

For screen readers, each chart and each bar has a title.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from typing import Final
from xml.sax.saxutils import escape

import msgspec

from reenact.domain.legible import display_safe
from reenact.projections.statistics.figures import CallFigures, Figures, Percentiles, Spending, Statistics

WIDTH: Final = 720
HEIGHT: Final = 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 10, 34, 30
_LABELS: Final = 8
"""The greatest number of names under the bars."""
_LONGEST: Final = 12
"""The greatest length of such a name, in characters."""
_TICKS: Final = 4
_UNIT: Final = "s: p50, p90, p99"
_SHARE: Final = 0.7
"""The part of its slot that a bar fills."""
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STYLE: Final = """
text { font: 11px sans-serif; fill: #333 }
.title { font-weight: bold; font-size: 13px }
.grid { stroke: #ddd } .axis { stroke: #888 }
.part-1 { fill: #4269d0 } .part-2 { fill: #efb118 } .part-3 { fill: #c4444c }
.range { fill: #a9bdec } .p50 { stroke: #1d3a8a; stroke-width: 2 } .p90 { stroke: #4269d0; stroke-width: 2 }
"""


class Bar(msgspec.Struct, frozen=True):
    """A bar: its name, and its parts from the bottom up. `unknown` is a note on a value that is unknown, and not 0.

    `title` is what the bar is of in full, if its name is only the beginning.
    """

    name: str
    parts: tuple[float, ...]
    unknown: str = ""
    title: str = ""


def bar_chart(title: str, parts: Sequence[str], bars: Sequence[Bar]) -> str:
    """Return a bar chart; `parts` are the names of the bars' parts."""
    frame = _Frame(title, max((sum(bar.parts) for bar in bars), default=0.0), [bar.name for bar in bars])
    return frame.drawn(parts if len(parts) > 1 else (), _bars(frame, parts, bars))


def range_chart(title: str, ranges: Sequence[tuple[str, Percentiles]]) -> str:
    """Return a chart of durations: each range goes from p50 to p99 seconds, with a line at p50 and one at p90."""
    most = max((times.p99 for _, times in ranges if times.p99 is not None), default=0.0)
    frame = _Frame(title, most, [name for name, _ in ranges])
    return frame.drawn((), _ranges(frame, ranges))


def drawing(charts: Sequence[str], *, title: str) -> str:
    """Return an SVG file with the charts below each other, in colours for white paper."""
    placed = "".join(
        f'<g transform="translate(0 {number * HEIGHT})">{chart}</g>' for number, chart in enumerate(charts)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT * len(charts)}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT * len(charts)}"><title>{_text(title)}</title><style>{_STYLE}</style>'
        f'<rect width="100%" height="100%" fill="white"/>{placed}</svg>\n'
    )


def plot(statistics: Statistics) -> str:
    """Return an SVG file with charts of the groups: costs, tokens and durations, or the calls of tools."""
    by = statistics.by or "all"
    charts = _of_tools(statistics.groups) if by == "tool" else _of_others(statistics.groups, _names(statistics))
    return drawing(list(charts), title=f"Statistics by {by}")


def _of_tools(groups: Sequence[Figures]) -> Iterator[str]:
    yield bar_chart("Calls", ("done", "denied", "failed"), [_calls(_name(one), one.calls) for one in groups])
    yield range_chart(f"Time of a call, {_UNIT}", [(_name(one), one.calls.duration) for one in groups])
    yield range_chart(f"Time until a person decided, {_UNIT}", [(_name(one), one.approvals.waited) for one in groups])


def _calls(name: str, calls: CallFigures) -> Bar:
    return Bar(name, (calls.count - calls.denied - calls.failed, calls.denied, calls.failed))


def _of_others(groups: Sequence[Figures], names: Sequence[str]) -> Iterator[str]:
    by_name = {_name(one): one for one in groups}
    found = [(name, by_name.get(name, Figures())) for name in names]
    mark = ", ?: with answers of unknown price" if any(_unpriced(one) for _, one in found) else ""
    yield bar_chart(f"Cost{mark}", ("cost",), [Bar(name, (one.cost,), _unpriced(one)) for name, one in found])
    answers = [(name, one.answers or Spending()) for name, one in found]
    tokens = [
        Bar(name, (one.tokens_in - one.tokens_cached, one.tokens_cached, one.tokens_out)) for name, one in answers
    ]
    yield bar_chart("Tokens", ("in", "cached", "out"), tokens)
    yield range_chart(f"Time of a turn, {_UNIT}", [(name, one.turns.duration) for name, one in found if one.turns])
    yield range_chart(
        f"Time to the first delta, {_UNIT}", [(name, one.first_delta or Percentiles()) for name, one in found]
    )


def _names(statistics: Statistics) -> list[str]:
    """Return the names of the groups; if they are days, including those without events."""
    names = [_name(one) for one in statistics.groups]
    if statistics.by != "day" or not names:
        return names
    first, last = date.fromisoformat(names[0]), date.fromisoformat(names[-1])
    return [(first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1)]


def _name(figures: Figures) -> str:
    return figures.key or "(none)"


def _unpriced(figures: Figures) -> str:
    unpriced = 0 if figures.answers is None else figures.answers.unpriced
    return f"{unpriced:,} answers of unknown cost" if unpriced else ""


class _Frame:
    """A chart without its content: title, axes, and the scales of both."""

    def __init__(self, title: str, most: float, names: Sequence[str]) -> None:
        self.title = title
        self._names = names
        self._step = _nice(most / _TICKS)
        self._top = self._step * max(1, math.ceil(most / self._step - 1e-9))
        self.slot = (WIDTH - _LEFT - _RIGHT) / max(1, len(names))

    def x(self, number: int) -> float:
        """Return the left edge of a bar's slot."""
        return _LEFT + number * self.slot

    def y(self, value: float) -> float:
        """Return the vertical coordinate of the value."""
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / self._top

    def drawn(self, parts: Sequence[str], shapes: Iterable[str]) -> str:
        """Return the chart with these shapes, and with a legend if there are parts."""
        inside = "".join(shapes) if self._names else _label(WIDTH / 2, HEIGHT / 2, "nothing to show", "middle")
        return (
            f'<svg class="chart" role="img" width="{WIDTH}" height="{HEIGHT}" '
            f'viewBox="0 0 {WIDTH} {HEIGHT}"><title>{_text(self.title)}</title>'
            f'<text class="title" x="{_LEFT}" y="18">{_text(self.title)}</text>'
            f"{''.join(self._legend(parts))}{''.join(self._axes())}{inside}</svg>"
        )

    def _axes(self) -> Iterator[str]:
        for tick in range(round(self._top / self._step) + 1):
            value = tick * self._step
            y = self.y(value)
            kind = "grid" if tick else "axis"
            yield f'<line class="{kind}" x1="{_LEFT}" y1="{y:.1f}" x2="{WIDTH - _RIGHT}" y2="{y:.1f}"/>'
            yield _label(_LEFT - 6, y + 4, _short(value), "end")
        every = math.ceil(len(self._names) / _LABELS) or 1
        for number, name in enumerate(self._names):
            if number % every == 0:
                shown = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
                yield _label(self.x(number) + self.slot / 2, HEIGHT - 12, shown, "middle")

    def _legend(self, parts: Sequence[str]) -> Iterator[str]:
        for number, part in enumerate(parts, 1):
            x = WIDTH - _RIGHT - 80 * (len(parts) - number + 1)
            yield f'<rect class="part-{number}" x="{x}" y="9" width="10" height="10"/>'
            yield _label(x + 14, 18, part, "start")


def _bars(frame: _Frame, parts: Sequence[str], bars: Sequence[Bar]) -> Iterator[str]:
    width = frame.slot * _SHARE
    for number, bar in enumerate(bars):
        x, below = frame.x(number) + (frame.slot - width) / 2, 0.0
        said = [
            f"{part} {_exact(value)}" if len(parts) > 1 else _exact(value)
            for part, value in zip(parts, bar.parts, strict=True)
        ]
        yield f"<g><title>{_text(f'{bar.title or bar.name}: ' + ', '.join(filter(None, (*said, bar.unknown))))}</title>"
        for place, value in enumerate(bar.parts, 1):
            yield _box(f"part-{place}", x, frame.y(below + value), width, frame.y(below))
            below += value
        if bar.unknown:
            yield _label(x + width / 2, frame.y(below) - 3, "?", "middle")
        yield "</g>"


def _ranges(frame: _Frame, ranges: Sequence[tuple[str, Percentiles]]) -> Iterator[str]:
    width = frame.slot * _SHARE
    for number, (name, times) in enumerate(ranges):
        if times.p50 is None or times.p90 is None or times.p99 is None:
            continue
        x = frame.x(number) + (frame.slot - width) / 2
        said = f"{name}: {_exact(times.p50)} s (p50), {_exact(times.p90)} s (p90), {_exact(times.p99)} s (p99)"
        yield f"<g><title>{_text(said)}</title>"
        yield _box("range", x, frame.y(times.p99), width, frame.y(times.p50))
        for kind, value in (("p50", times.p50), ("p90", times.p90)):
            y = frame.y(value)
            yield f'<line class="{kind}" x1="{x:.1f}" y1="{y:.1f}" x2="{x + width:.1f}" y2="{y:.1f}"/>'
        yield "</g>"


def _nice(least: float) -> float:
    """Return the smallest of 1, 2, 5, 10, 20, … and their decimal fractions that is not less."""
    if least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 5, 10, 20) if power * factor >= least * (1 - 1e-9))


def _short(value: float) -> str:
    """Return the value abbreviated to few characters."""
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:g}{letter}"
    return f"{value:g}"


def _exact(value: float) -> str:
    return f"{value:,.6g}" if value < 1e6 else f"{value:,.0f}"  # noqa: PLR2004 - no powers of ten


def _box(kind: str, x: float, top: float, width: float, bottom: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{bottom - top:.1f}"/>'


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_text(text)}</text>'


def _text(text: str) -> str:
    """Return the text escaped for XML, with invisible and invalid characters replaced."""
    return escape(_NO_XML.sub("\ufffd", display_safe(text)))
