"""A drawing of where the time went: lanes for the model, tools and people, to scale while the model or tools work."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

import msgspec

from reenact.domain.loop.events import HumanResponded, ToolApproved, ToolEdited, ToolRejected, ToolResult
from reenact.domain.session.agent import AnswerRecorded, MessageAccepted
from reenact.inspector.relations import Relations
from reenact.inspector.timeline import idle_before
from reenact.inspector.windows import Window
from reenact.projections.log import Row

Mark: TypeAlias = Literal["m-turn", "m-tool", "m-fail", "m-person"]

FOLD = 7.8
"""The width of a fold, in percent, unless there are many."""
FOLDED = 60.0
"""The most width of all folds together, in percent."""
LEGIBLE = 5.0
"""The width that a label needs, in percent."""
LEAST = 0.35
"""The least width of a bar, in percent."""
_MICRO = 1_000_000


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """Something that took time, or an action of a person at one time; in percent of the width."""

    mark: Mark
    x: float
    width: float
    position: int
    name: str
    seconds: float | None
    row: int = 0
    """1: the upper half of the lane, 2: the lower half, 0: the whole lane."""


class Fold(msgspec.Struct, frozen=True):
    """A fold in the time axis, and whether a person was waited for in it; without a length it is still going on."""

    x: float
    width: float
    seconds: float | None
    waits: bool

    @property
    def has_room(self) -> bool:
        """Whether its length fits beneath it."""
        return self.width >= LEGIBLE


class Lanes(msgspec.Struct, frozen=True):
    """The bars and folds of a drawing."""

    bars: list[Bar]
    folds: list[Fold]


class _Scale:
    """Converts times to percent of the width."""

    def __init__(self, relations: Relations, window: Window) -> None:
        self.folds: list[Fold] = []
        self._times = [relations.rows[at].recorded_at for at in window.shown]
        idle = [idle_before(relations, window, at) for at in window.shown[1:]]
        steps = list(zip(window.shown, pairwise(self._times), idle, strict=False))
        last = window.shown[-1]
        is_waiting = window.is_end and relations.waiting[last] and not relations.busy[last]
        number = sum(seconds is not None for seconds in idle) + is_waiting
        width = min(FOLD, FOLDED / max(1, number))
        scaled = sum(ended - began for _, (began, ended), seconds in steps if seconds is None)
        scale = (100 - width * number) / scaled if scaled else 0.0
        self._places = [0.0]
        for at, (began, ended), seconds in steps:
            if seconds is None:
                self._places.append(self._places[-1] + (ended - began) * scale)
            else:
                self.folds.append(Fold(self._places[-1], width, seconds, relations.waiting[at]))
                self._places.append(self._places[-1] + width)
        if is_waiting:
            self.folds.append(Fold(self._places[-1], width, None, True))  # noqa: FBT003 - it waits

    def at(self, time: int) -> float:
        """Return the place of the time; times before the first are at 0."""
        number = bisect_right(self._times, time) - 1
        if number < 0:
            return 0.0
        if number == len(self._times) - 1:
            return self._places[-1]
        began, ended = self._times[number], self._times[number + 1]
        share = (time - began) / (ended - began)
        return self._places[number] + share * (self._places[number + 1] - self._places[number])


def lanes_of(relations: Relations, window: Window) -> Lanes:
    """Return the drawing of the window."""
    scale = _Scale(relations, window)
    return Lanes(list(_halved(list(_bars(relations, window, scale)))), scale.folds)


def _bars(relations: Relations, window: Window, scale: _Scale) -> Iterator[Bar]:
    for place in window.shown:
        row, since = relations.rows[place], relations.since[place]
        match row.event:
            case AnswerRecorded() if since is not None:
                yield _bar(scale, "m-turn", "answer", since, row)
            case ToolResult(ran=True) if since is not None:
                mark: Mark = "m-fail" if row.event.is_error else "m-tool"
                yield _bar(scale, mark, row.event.name, since, row)
            case MessageAccepted() | ToolApproved() | ToolEdited() | ToolRejected() | HumanResponded():
                x = scale.at(row.recorded_at)
                name = "message" if isinstance(row.event, MessageAccepted) else "decision"
                yield Bar(mark="m-person", x=x, width=0, position=row.position, name=name, seconds=None)
            case _:
                pass


def _bar(scale: _Scale, mark: Mark, name: str, began: int, row: Row) -> Bar:
    x = scale.at(began)
    width = max(scale.at(row.recorded_at) - x, LEAST)
    seconds = (row.recorded_at - began) / _MICRO
    return Bar(mark=mark, x=x, width=width, position=row.position, name=name, seconds=seconds)


def _halved(bars: Sequence[Bar]) -> Iterator[Bar]:
    """Yield the bars; those of tools that ran at the same time alternate between the lane's upper and lower half."""
    tools = [bar for bar in bars if bar.mark in ("m-tool", "m-fail")]
    crowded = {id(bar) for one, other in pairwise(tools) if other.x < one.x + one.width for bar in (one, other)}
    number = 0
    for bar in bars:
        if id(bar) in crowded:
            number += 1
            yield msgspec.structs.replace(bar, row=2 - number % 2)
        else:
            yield bar
