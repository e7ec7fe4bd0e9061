"""Limits the size of pages: list items are drawn one after the other until the page is full."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
from markupsafe import Markup

from reenact.inspector.conversation import Speech
from reenact.inspector.lanes import Lanes, lanes_of
from reenact.inspector.relations import Relations
from reenact.inspector.timeline import Line, work_of
from reenact.inspector.values import Value
from reenact.inspector.windows import Window
from reenact.projections.log import Row

MOST: Final = 150_000
"""Bytes of a page."""
LISTED: Final = 128_000
"""Bytes of a page for its list; the rest is for everything around it."""
ITEM: Final = 24_000
"""The most bytes of one item of a list; a larger item has a page of its own."""
_BAR = 260
"""Bytes of a line's bar in the drawing of where the time went."""

T = TypeVar("T")
Where: TypeAlias = Literal["at", "from", "until"]
"""Whether the page has the event in its middle, begins with it, or ends with it."""
Record: TypeAlias = tuple[Value, Row]
Draw: TypeAlias = Callable[[T], Markup]


def fitted(items: Iterable[object], room: int, draw: Callable[..., Markup], *more: object) -> list[Markup]:
    """Return the first items as HTML, as many as fit into `room` bytes, but at least one; `draw` gets `more`."""
    drawn: list[Markup] = []
    for item in items:
        html = draw(item, *more)
        room -= _size(html)
        if drawn and room < 0:
            break
        drawn.append(html)
    return drawn


class Entry(NamedTuple):
    """The content for the events with the numbers `first` to `last`: in the timeline, and in the conversation."""

    first: int
    last: int
    lines: Sequence[Line | Record]
    said: Sequence[Speech | Record]


class Fit(msgspec.Struct, frozen=True):
    """The content that fits. `work` is how long the model and tools worked in it, `span` its length; in seconds."""

    window: Window
    rail: list[Markup]
    talk: list[Markup]
    drawing: Lanes
    work: float
    span: float

    @property
    def before(self) -> int | None:
        """The position of the event before the first one, or None."""
        return self._position(self.window.shown.start - 1)

    @property
    def after(self) -> int | None:
        """The position of the event after the last one, or None."""
        return self._position(self.window.shown.stop)

    def _position(self, place: int) -> int | None:
        return self.window.rows[place].position if 0 <= place < len(self.window.rows) else None


class Contents(msgspec.Struct, frozen=True):
    """The content of a page for a window: as much as fits around the event with this number.

    `where` is the place of that event on the page.
    """

    relations: Relations
    window: Window
    entries: Sequence[Entry]
    number: int
    where: Where

    def fit(
        self,
        line: Draw[Line | Record],
        speech: Draw[Speech | Record],
        brief_line: Draw[Line | Record],
        brief_speech: Draw[Speech | Record],
    ) -> Fit:
        """Return the content that fits, drawn with these functions."""
        wanted = next(place for place, entry in enumerate(self.entries) if self.number <= entry.last)
        room = LISTED
        drawn: dict[int, tuple[list[Markup], list[Markup]]] = {}
        full: set[bool] = set()
        for place in self._by_priority(wanted):
            is_later = place > wanted
            if is_later in full:
                continue
            entry = self.entries[place]
            lines = [_drawn(one, line, brief_line) for one in entry.lines]
            said = [_drawn(one, speech, brief_speech) for one in entry.said]
            size = sum(map(_size, (*lines, *said))) + _BAR * len(lines)
            if drawn and size > room:
                full |= {is_later} if self.where == "at" else {True, False}
                continue
            room -= size
            drawn[place] = lines, said
        places = sorted(drawn)
        window = self.window.part(self.entries[places[0]].first, self.entries[places[-1]].last)
        work, span = work_of(self.relations, window)
        return Fit(
            window,
            [html for place in places for html in drawn[place][0]],
            [html for place in places for html in drawn[place][1]],
            lanes_of(self.relations, window),
            work,
            span,
        )

    def _by_priority(self, wanted: int) -> Iterator[int]:
        """Yield the indexes of the entries, those that are wanted most first."""
        earlier, later = range(wanted - 1, -1, -1), range(wanted + 1, len(self.entries))
        yield wanted
        match self.where:
            case "from":
                yield from chain(later, earlier)
            case "until":
                yield from chain(earlier, later)
            case _:
                for pair in zip_longest(earlier, later):
                    yield from (place for place in pair if place is not None)


def entries_of(window: Window, lines: Sequence[Line | Record], said: Sequence[Speech | Record]) -> list[Entry]:
    """Return the possible content of the window; each of its events belongs to one entry."""
    numbers = {row.position: number for number, row in enumerate(window.own, window.first)}
    messages = {numbers[_last(one).position]: one for one in said}
    entries: list[Entry] = []
    some: list[Line | Record] = []
    first = window.first
    for line in lines:
        some.append(line)
        if isinstance(line, Line) and line.kind == "idle":  # it belongs to the event that ends it
            continue
        last = numbers[_last(line).position]
        entries.append(Entry(first, last, some, [messages[at] for at in range(first, last + 1) if at in messages]))
        first, some = last + 1, []
    return entries


def _last(one: Line | Speech | Record) -> Row:
    match one:
        case (_, row):
            return row
        case Line(kind="small", rows=rows):
            return rows[-1]
        case _:
            return one.row


def _drawn(one: T, draw: Draw[T], brief: Draw[T]) -> Markup:
    html = draw(one)
    return html if _size(html) <= ITEM else brief(one)


def _size(html: Markup) -> int:
    return len(html.encode())
