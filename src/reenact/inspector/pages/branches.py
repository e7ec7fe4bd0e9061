"""The page of branches: each session that has branches, with everything that has branched off from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from reenact.actors.kernel.timetable import microseconds
from reenact.domain.errors import SessionNotFoundError
from reenact.inspector.rendering import Address, Page
from reenact.inspector.source import Source
from reenact.projections.read_model.families import Member, counts, family, root_of, roots
from reenact.projections.read_model.session_list import SessionLine, lines_of

FAMILIES: Final = 20
ROWS: Final = 60
"""The most sessions of a page; at least one family, or this many of its sessions."""
_ROW = 50
"""The height of a row."""
_LEFT, _WIDTH = 3, 94
_APART = 6
"""The least distance of two numbers, in percent of the width."""


class Row(msgspec.Struct, frozen=True):
    """A session as it is drawn; places are in percent of the width. `joint` is where it branches off."""

    line: SessionLine
    depth: int
    begin: float
    end: float
    joint: float | None
    up: int
    numbers: Sequence[tuple[float, int]]


class Family(msgspec.Struct, frozen=True):
    """A session and its branches, or a part of them."""

    root: SessionLine
    rows: Sequence[Row]
    size: int
    first: int


def branches(source: Source, address: Address) -> Page:
    """Return the page of all families, or of one."""
    source.tables.refresh()
    of, before, first = address.text("id"), address.number("before"), address.number("from") or 0
    shown: list[Family] = []
    older: int | None = None
    if of:
        root = root_of(source.tables, of)
        if root is None:
            raise SessionNotFoundError(of)
        members = family(source.tables, root)
        first = first if "from" in address.query else _place_of(source, members, of)
        shown.append(_drawn(source, members, first))
    else:
        keys = roots(source.tables, before, FAMILIES + 1)
        room = ROWS
        for key in keys[:FAMILIES]:
            members = family(source.tables, key)
            if shown and len(members) > room:
                break
            shown.append(_drawn(source, members, 0))
            room -= len(members)
        older = shown[-1].root.key if len(shown) < len(keys) else None
    origins, count = counts(source.tables)
    return Page(
        "branches.html",
        {
            "families": shown,
            "origins": origins,
            "branches": count,
            "older": older,
            "of": of,
            "rows": ROWS,
            "is_first": before is None,
            "is_run": source.location.has_writer(),
            "micros": microseconds(),
        },
    )


def _place_of(source: Source, members: Sequence[Member], id_: str) -> int:
    """Return the index at which the page with the session begins."""
    if len(members) <= ROWS:
        return 0
    ((key,),) = source.tables.query("SELECT position FROM sessions WHERE id = :id", id=id_)
    place = next((place for place, member in enumerate(members) if member.key == key), 0)
    return place // ROWS * ROWS


def _drawn(source: Source, members: Sequence[Member], first: int) -> Family:
    part = members[first : first + ROWS]
    lines = {line.key: line for line in lines_of(source.tables, {members[0].key, *(one.key for one in part)})}
    shown = [lines[member.key] for member in part]
    begin = min((min(line.key, line.shared_until or line.key) for line in shown), default=0)
    end = max((line.position for line in shown), default=1)

    def place(position: int) -> float:
        return _LEFT + _WIDTH * (position - begin) / max(1, end - begin)

    rows = [
        Row(
            line,
            member.depth,
            place(line.key),
            place(line.position),
            None if line.shared_until is None else place(line.shared_until),
            0 if member.parent is None or member.parent < first else (first + number - member.parent) * _ROW,
            _numbers(line, place),
        )
        for number, (member, line) in enumerate(zip(part, shown, strict=True))
    ]
    return Family(lines[members[0].key], rows, len(members), first)


def _numbers(line: SessionLine, place: Callable[[int], float]) -> list[tuple[float, int]]:
    """Return the position of the session's end, and that of its beginning if there is room for both."""
    begin, end = ((place(at), at) for at in (line.shared_until or line.key, line.position))
    return [end, begin] if end[0] - begin[0] >= _APART else [end]
