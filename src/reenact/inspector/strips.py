"""Strips that show when sessions were at work and when they waited, on one axis, as SVG paths of 200 units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

import msgspec

from reenact.domain.messages import instant
from reenact.projections.read_model.session_list import Turn

WIDTH: Final = 200
_TICK: Final = 3
_FEW: Final = 40
"""The most turns that are all drawn as bars; with more, turns that took little time are lines."""
_LABELS: Final = 4
_SECOND: Final = 1_000_000
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_STEPS: Final = (
    *(1, 5, 15, 30, _MINUTE, 5 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE),
    *(_HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY, 30 * _DAY, 90 * _DAY, 365 * _DAY),
)


class Label(msgspec.Struct, frozen=True):
    """A time at an axis; `at` is its place in percent of the width."""

    at: float
    text: str
    anchor: str


class Axis(msgspec.Struct, frozen=True):
    """A span of time, in microseconds, and its labels."""

    begin: int
    end: int
    labels: tuple[Label, ...]

    def place(self, time: int, width: float = WIDTH) -> float:
        """Return the place of the time, limited to the width."""
        share = (time - self.begin) / max(1, self.end - self.begin)
        return min(max(share, 0.0), 1.0) * width


class Strip(msgspec.Struct, frozen=True):
    """The paths of a session: its turns, its failed turns, its past waits for people, and its present one."""

    turns: str
    failed: str
    waited: str
    waits: str
    label: str


def axis_of(begin: int, end: int) -> Axis:
    """Return the axis between two times, with labels at round local times."""
    seconds = max(1.0, (end - begin) / _SECOND)
    step = next((one for one in _STEPS if seconds / one <= _LABELS), _STEPS[-1])
    whole = Axis(begin, end, ())
    labels = [
        Label(place, _label_text(time, step), "start" if place < 3 else "end" if place > 97 else "middle")  # noqa: PLR2004 - near the edges
        for time in _even_times(instant(begin).astimezone(), end, step)
        for place in [whole.place(_micros(time), 100)]
    ]
    return Axis(begin, end, tuple(labels[: _LABELS + 1]))


def axis_around(turns: Iterable[Sequence[Turn]], now: int, *, is_open: bool) -> Axis | None:
    """Return the axis that includes all of these turns; up to now if it is open, which means that work goes on."""
    every = [turn for some in turns for turn in some]
    if not every:
        return None
    begin = min(turn.started_at for turn in every)
    end = max(turn.ended_at or turn.started_at for turn in every)
    return axis_of(begin, max(now if is_open else end, begin + _SECOND))


def strip_of(turns: Sequence[Turn], axis: Axis, until: int, *, waits_until: int | None) -> Strip:
    """Return the strip of a session, with an open turn drawn up to `until`, and a present wait up to `waits_until`."""
    failed = [turn for turn in turns if turn.outcome == "failed"]
    gaps = pairwise(turns)
    waited = [
        (axis.place(before.ended_at), axis.place(after.started_at))
        for before, after in gaps
        if before.outcome == "waiting" and before.ended_at is not None
    ]
    since = turns[-1].ended_at if turns and waits_until is not None else None
    least = _TICK if len(turns) <= _FEW else 0
    return Strip(
        turns=_bars((_span(turn, axis, until) for turn in turns if turn.outcome != "failed"), 4, 12, least),
        failed=_bars((_span(turn, axis, until) for turn in failed), 4, 12, _TICK),
        waited=_bars(((begin, end) for begin, end in waited if end - begin >= 1), 8, 4, 1),
        waits=""
        if since is None or waits_until is None
        else f"M{axis.place(since):.0f} 10H{axis.place(waits_until):.0f}",
        label=_summary(turns),
    )


def _span(turn: Turn, axis: Axis, until: int) -> tuple[float, float]:
    return axis.place(turn.started_at), axis.place(turn.ended_at or until)


def _bars(spans: Iterable[tuple[float, float]], top: int, height: int, least: int) -> str:
    return "".join(
        f"M{begin} {top}h{end - begin}v{height}h-{end - begin}z" if end > begin else f"M{begin} {top}v{height}"
        for begin, end in _joined(spans, least)
    )


def _joined(spans: Iterable[tuple[float, float]], least: int) -> list[tuple[int, int]]:
    """Return the spans rounded to whole units, each with a least width, in order; touching spans are joined."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted((round(begin), max(round(end), round(begin) + least)) for begin, end in spans):
        if joined and begin <= joined[-1][1]:
            first, last = joined.pop()
            joined.append((first, max(last, end)))
        else:
            joined.append((begin, end))
    return joined


def _summary(turns: Sequence[Turn]) -> str:
    if not turns:
        return "no turn yet"
    first, last = (f"{instant(turn.started_at).astimezone():%Y-%m-%d %H:%M:%S}" for turn in (turns[0], turns[-1]))
    return f"1 turn, at {first}" if len(turns) == 1 else f"{len(turns)} turns, the first at {first}, the last at {last}"


def _even_times(begin: datetime, end: int, step: int) -> Iterator[datetime]:
    midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0)
    seconds = (begin - midnight).total_seconds()
    time = midnight + timedelta(seconds=-(-seconds // step) * step)
    while _micros(time) <= end:
        yield time
        time += timedelta(seconds=step)


def _micros(time: datetime) -> int:
    return round(time.timestamp() * _SECOND)


_FORMS: Final[Mapping[int, str]] = {_MINUTE: "%H:%M:%S", _DAY: "%H:%M", 300 * _DAY: "%-d %b"}


def _label_text(time: datetime, step: int) -> str:
    return time.strftime(next((form for below, form in _FORMS.items() if step < below), "%Y"))
