"""The causes and effects of an event, also across branches, back to what came from outside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TypeGuard

import msgspec

from reenact.domain.causes import AnyCommand, read_cause
from reenact.domain.errors import reading
from reenact.domain.explanation import AnyEvent, Cause, Outside, causes_of, sentence, told
from reenact.domain.legible import shortened
from reenact.domain.session import SessionBranched
from reenact.domain.stored import STORED
from reenact.projections.explain.entries import place_of, row_at, session_of
from reenact.projections.explain.history import event_of, history_of, steps_of
from reenact.projections.log import STRETCH, AuditedLog, Row, name_of, stretches

_WIDTH = 80
_SHOWN = 50
"""So many events are told on each side for people; JSON has them all."""
_KNOWN = tuple(STORED.values())


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """An event in a chain of causes.

    `causes` are the positions of those that it directly follows from, and `outside` is what came from outside of the
    log; `says` is one plain sentence.
    """

    position: int
    time: datetime
    type: str
    stream: str
    version: int
    session_id: str | None
    says: str
    causes: tuple[int, ...] = ()
    outside: Outside | None = None


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """An event, all events that led to it, and all that followed from it, each in the order of the log."""

    event: Link
    causes: tuple[Link, ...]
    effects: tuple[Link, ...]

    def text(self) -> str:
        """Return it as lines of at most 80 columns; of very many events the nearest."""
        when = self.event.time.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        lines = [shortened(f"{when}  {self.event.stream}  {self.event.type}", _WIDTH), *_lines([self.event])]
        for title, links, nearest in (
            ("Because", self.causes, self.causes[-_SHOWN:]),
            ("Therefore", self.effects, self.effects[:_SHOWN]),
        ):
            more = len(links) - len(nearest)
            lines += ["", f"{title}:", *(_lines(nearest) or ["     nothing in the log"])]
            if more:
                lines.append(f"     … and {more} more, farther away; --output-format json has them all")
        return "\n".join(lines)


def why(log: AuditedLog, position: int) -> Why:
    """Return why the event at the position happened, and what followed from it, in branches, too.

    Raises:
        InvalidInputError: there is no event at the position.
        LogUnusableError: the log holds what cannot have happened.
    """
    row = row_at(log, position)
    with reading(f"the history around position {position}"):
        session_id = session_of(row.stream)
        if session_id is None:
            return Why(event=_link(row, Cause(outside=Outside("caller"))), causes=(), effects=())
        chain = _Chain(history_of(log, session_id))
        place = chain.place(row)
        effects = {link.position: link for link in chain.effects(place)}
        for branch in _branches(log, row):
            branched = _Chain(history_of(log, branch))
            effects |= {link.position: link for link in branched.effects(branched.place(row))}
        return Why(
            event=chain.link(place),
            causes=tuple(chain.causes(place)),
            effects=tuple(effects[at] for at in sorted(effects)),
        )


class _Chain:
    """A session's history with what each of its events follows from."""

    def __init__(self, history: Sequence[Row]) -> None:
        self._history = history
        self._causes = causes_of((_kind(step[0]), [event_of(row) for row in step]) for step in steps_of(history))

    def place(self, row: Row) -> int:
        """Return the place of the row in the history."""
        return next(place for place, one in enumerate(self._history) if one.position == row.position)

    def link(self, place: int) -> Link:
        """Return the event at the place."""
        cause = self._causes[place]
        return _link(self._history[place], cause, [self._history[one].position for one in cause.places])

    def causes(self, place: int) -> Iterator[Link]:
        """Yield everything that led to the event at the place, in order."""
        found: set[int] = set()
        ahead = list(self._causes[place].places)
        while ahead:
            one = ahead.pop()
            if one not in found:
                found.add(one)
                ahead.extend(self._causes[one].places)
        return (self.link(one) for one in sorted(found))

    def effects(self, place: int) -> Iterator[Link]:
        """Yield everything that followed from the event at the place, in order."""
        followed = {place}
        for later in range(place + 1, len(self._causes)):
            if not followed.isdisjoint(self._causes[later].places):
                followed.add(later)
                yield self.link(later)


def _branches(log: AuditedLog, row: Row) -> Iterator[str]:
    """Yield the sessions that share the event, but for the one that it is of."""
    shared = {session_of(row.stream): row.version}
    for begins, ends in stretches(log, row.position, log.head()):
        for branch in log.find(after=begins, until=ends, names=("session-branched",), limit=STRETCH):
            begun = branch.event
            if isinstance(begun, SessionBranched) and begun.version >= shared.get(begun.origin, begun.version + 1):
                shared[begun.session_id] = 1  # all of its own events come later than those that it shares
                yield begun.session_id


def _kind(row: Row) -> type[AnyCommand] | None:
    return None if row.cause is None else read_cause(row.cause).kind


def _link(row: Row, cause: Cause, causes: Iterable[int] = ()) -> Link:
    return Link(
        **place_of(row),
        session_id=session_of(row.stream),
        says=sentence(row.event) if _is_known(row.event) else f"Something happened: {name_of(row.event)}.",
        causes=tuple(causes),
        outside=cause.outside,
    )


def _lines(links: Iterable[Link]) -> list[str]:
    """Return for each event its sentence, and behind it what it follows from."""
    lines: list[str] = []
    for link in links:
        lines.append(shortened(f"{link.position:>6}  {link.says}", _WIDTH))
        origins = [", ".join(map(str, link.causes))] if link.causes else []
        origins += [told(link.outside)] if link.outside is not None else []
        if origins:
            lines.append(shortened(f"        from {' and '.join(origins)}", _WIDTH))
    return lines


def _is_known(event: object) -> TypeGuard[AnyEvent]:
    return isinstance(event, _KNOWN)
