"""The causes and effects of an event, across branches and families, back to the causes outside of the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TypeAlias

import msgspec

from reenact.domain.children import ChildEnded, ChildStarted, Parent
from reenact.domain.errors import SessionNotFoundError, reading
from reenact.domain.history.explanation import Cause, Outside, outside_phrase
from reenact.domain.legible import shortened
from reenact.domain.session.state import SessionBranched, SessionCreated
from reenact.projections.explain.entries import place_of, row_at, says, session_of
from reenact.projections.explain.history import causes_in, history_of
from reenact.projections.log import STRETCH, AuditedLog, Row, stream_of, stretches

_WIDTH = 80
_SHOWN = 50
"""The number of events shown to people on each side; JSON has all of them."""


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """An event in a chain of causes.

    `causes` are the positions of its direct causes, and `outside` is its cause outside of the log; `says` is a sentence
    that describes it.
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
        """Return the explanation in lines of at most 80 columns; of very many events, only the nearest."""
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
    """Return the causes and effects of the event at the position, also in branches and families.

    Raises:
        InvalidInputError: there is no event at the position.
        LogUnusableError: the log holds impossible events.
    """
    row = row_at(log, position)
    with reading(f"the history around position {position}"):
        session_id = session_of(row.stream)
        if session_id is None:
            return Why(event=_link(row, Cause(outside=Outside("caller"))), causes=(), effects=())
        histories = _Histories(log)
        chain = histories.of(session_id)
        assert chain is not None
        start = chain, chain.place(row)
        effects = histories.effects(start)
        for branch in _branches(log, row):
            branched = histories.of(branch)
            assert branched is not None
            effects |= histories.effects((branched, branched.place(row)))
        del effects[row.position]
        causes = histories.causes(start)
        return Why(
            event=histories.link(start),
            causes=tuple(causes[at] for at in sorted(causes)),
            effects=tuple(effects[at] for at in sorted(effects)),
        )


class _CausalHistory:
    """A session's history with the causes of each event."""

    def __init__(self, history: Sequence[Row]) -> None:
        self.history = history
        self.causes = causes_in(history)
        self.places = {(row.stream, row.version): place for place, row in enumerate(history)}
        self.ends: dict[tuple[str, int], list[int]] = {}
        """For each event of a child's stream, the indices of the events that record it as the child's end."""
        self.parent: Parent | None = None
        """The session that called this one, if it is a child session."""
        for place, row in enumerate(history):
            if isinstance(row.event, ChildEnded):
                self.ends.setdefault((stream_of(row.event.child_id), row.event.version), []).append(place)
            if isinstance(row.event, SessionCreated | SessionBranched):
                self.parent = row.event.parent

    def place(self, row: Row) -> int:
        """Return the index of the row in the history."""
        return self.places[row.stream, row.version]

    def followed(self, place: int) -> Iterator[int]:
        """Yield the index, and the indices of all events that followed from it in this history, in order."""
        followed = {place}
        yield place
        for later in range(place + 1, len(self.causes)):
            if not followed.isdisjoint(self.causes[later].places):
                followed.add(later)
                yield later


_Node: TypeAlias = tuple[_CausalHistory, int]


class _Histories:
    """The histories of linked sessions: child sessions and the sessions that called them."""

    def __init__(self, log: AuditedLog) -> None:
        self._log = log
        self._by_session: dict[str, _CausalHistory | None] = {}

    def of(self, session_id: str) -> _CausalHistory | None:
        """Return the history of the session, None if it is not in the log."""
        if session_id not in self._by_session:
            try:
                self._by_session[session_id] = _CausalHistory(history_of(self._log, session_id))
            except SessionNotFoundError:
                self._by_session[session_id] = None
        return self._by_session[session_id]

    def link(self, node: _Node) -> Link:
        """Return the link of an event."""
        chain, place = node
        row, cause = chain.history[place], chain.causes[place]
        positions = [before.history[at].position for before, at in self._direct_causes(node)]
        if len(positions) > len(cause.places):
            cause = msgspec.structs.replace(cause, outside=None)
        return _link(row, cause, sorted(positions))

    def causes(self, node: _Node) -> dict[int, Link]:
        """Return all events that led to this one, by position."""
        found: dict[int, Link] = {}
        ahead = [node]
        while ahead:
            for before in self._direct_causes(ahead.pop()):
                chain, place = before
                position = chain.history[place].position
                if position not in found:
                    found[position] = self.link(before)
                    ahead.append(before)
        return found

    def effects(self, node: _Node) -> dict[int, Link]:
        """Return the event and all events that followed from it, by position."""
        found: dict[int, Link] = {}
        ahead = [node]
        while ahead:
            chain, place = ahead.pop()
            for later in chain.followed(place):
                row = chain.history[later]
                if row.position not in found:
                    found[row.position] = self.link((chain, later))
                    ahead.extend(self._effects_elsewhere(row))
        return found

    def _direct_causes(self, node: _Node) -> list[_Node]:
        """Return the direct causes of this event; one of them may be an event of a child or of the parent."""
        chain, place = node
        before = [(chain, one) for one in chain.causes[place].places]
        match chain.history[place].event:
            case SessionCreated(parent=parent) | SessionBranched(parent=parent) if parent is not None:
                other = self._node_at(parent.session_id, parent.version)
            case ChildEnded(child_id=child_id, version=version):
                other = self._node_at(child_id, version)
            case _:
                return before
        return before if other is None else [*before, other]

    def _effects_elsewhere(self, row: Row) -> Iterator[_Node]:
        """Yield the events of other sessions that directly follow from this one."""
        if isinstance(row.event, ChildStarted):
            begun = self._node_at(row.event.child_id, 1)
            if begun is not None:
                yield begun
            return
        chain = self.of(session_of(row.stream) or "")
        calling = None if chain is None or chain.parent is None else self.of(chain.parent.session_id)
        if calling is not None:
            yield from ((calling, place) for place in calling.ends.get((row.stream, row.version), ()))

    def _node_at(self, session_id: str, version: int) -> _Node | None:
        chain = self.of(session_id)
        place = None if chain is None else chain.places.get((stream_of(session_id), version))
        return None if chain is None or place is None else (chain, place)


def _branches(log: AuditedLog, row: Row) -> Iterator[str]:
    """Yield the sessions that share the event, except the one to which it belongs."""
    shared = {session_of(row.stream): row.version}
    for begins, ends in stretches(log, row.position, log.head()):
        for branch in log.find(after=begins, until=ends, names=("session-branched",), limit=STRETCH):
            begun = branch.event
            if isinstance(begun, SessionBranched) and begun.version >= shared.get(begun.origin, begun.version + 1):
                shared[begun.session_id] = 1  # all of its own events come after those that it shares
                yield begun.session_id


def _link(row: Row, cause: Cause, causes: Iterable[int] = ()) -> Link:
    return Link(
        **place_of(row),
        session_id=session_of(row.stream),
        says=says(row.event),
        causes=tuple(causes),
        outside=cause.outside,
    )


def _lines(links: Iterable[Link]) -> list[str]:
    """Return for each event a line with its sentence, and one with its causes."""
    lines: list[str] = []
    for link in links:
        lines.append(shortened(f"{link.position:>6}  {link.says}", _WIDTH))
        origins = [", ".join(map(str, link.causes))] if link.causes else []
        origins += [outside_phrase(link.outside)] if link.outside is not None else []
        if origins:
            lines.append(shortened(f"        from {' and '.join(origins)}", _WIDTH))
    return lines
