"""The page of an event: its causes, its effects, the evidence for its record; and the page of a long value in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from reenact.actors.journal.stored import StoredJournal
from reenact.domain.chain import GENESIS
from reenact.domain.chain import Row as Record
from reenact.domain.loop.events import HumanApproveRequired, ToolResult, ToolStarted
from reenact.domain.session.agent import AnswerRecorded
from reenact.inspector.pages.session import record_of
from reenact.inspector.phrases import with_short_ids
from reenact.inspector.relations import Call, Relations
from reenact.inspector.rendering import Address, File, Page
from reenact.inspector.source import Source
from reenact.inspector.text import within
from reenact.inspector.timeline import Line, line_of
from reenact.inspector.values import ROOM, Value, room_of, value_at, value_of
from reenact.inspector.windows import History
from reenact.projections.explain.entries import Filter, entries_of, fields_of, row_at, says, session_of
from reenact.projections.log import Row, name_of
from reenact.projections.read_model.families import branches_with

REACH = 400
"""The number of events on each side among which causes and effects are looked for."""
NEAREST = 40
"""The most causes and effects that are shown, the nearest first."""
BRANCHES = 4
"""The number of newest branches in which effects are looked for."""
FEW = 8
"""The most effects in a branch that are shown."""
PART = 64 * 1024
"""Bytes of a page for a part of a value."""
_RECORD = f"""
    SELECT {", ".join(Record.__struct_fields__)} FROM steps
    WHERE stream = ? AND count > 0 AND version <= ? ORDER BY version DESC LIMIT 1
"""  # noqa: S608 - ours
_BEFORE = """
    SELECT digest FROM steps WHERE stream = ? AND (version, cursor) < (?, ?) ORDER BY version DESC, cursor DESC LIMIT 1
"""


Decided: TypeAlias = Literal["never", "unknown", "same", "otherwise"]
"""Whether today's code decides the event as it was recorded, as far as that is known."""


class Link(msgspec.Struct, frozen=True):
    """An event's record in the chain: the previous digest and its own, and whether they agree."""

    before: str
    digest: str
    agrees: bool
    is_first: bool


class InBranch(NamedTuple):
    """Effects of an event in a session that branches off after it; `more` is the number of further ones."""

    id: str
    lines: Sequence[Line]
    more: int


def event(source: Source, address: Address) -> Page:
    """Return the page of the event at a position."""
    at = address.number("at") or 0
    row = row_at(source.log, at)
    session_id = session_of(row.stream)
    record = record_of(row)
    head = source.log.head()
    frame: dict[str, object] = {
        "id": session_id,
        "row": row,
        "name": name_of(row.event),
        "says": with_short_ids(says(row.event)),
        "agent": None,
        "record": record,
        "link": link_of(source.log, row.stream, row.version),
        "back": source.log.nearest(at - 1, backwards=True) if at > 1 else None,
        "on": source.log.nearest(at) if at < head else None,
        "line": None,
        "causes": [],
        "effects": [],
        "values": [],
        "room": room_of([record], ROOM // 2),
        "all": (0, 0),
        "branches": [],
        "decided": "never",
        "problem": "",
        "colour": "",
    }
    if session_id is None:
        return Page("event.html", frame)
    history = History(source.log, session_id)
    number = history.parts[-1].before + row.version
    window = history.between(max(1, number - REACH), min(history.count, number + REACH))
    relations = Relations(window.rows)
    place = next(place for place, one in enumerate(window.rows) if one.position == at)
    causes, effects = _causes(relations, place), _effects(relations, place)
    line = _line(relations, place)
    values = list(_values(row, line.call))
    (entry,) = entries_of(source.log, Filter(after=at - 1, before=at + 1))
    decided, problem = _decided(source, session_id, at)
    frame |= {
        "line": line,
        "causes": _lines(relations, place, causes[-NEAREST:]),
        "effects": _lines(relations, place, effects[:NEAREST]),
        "all": (len(causes), len(effects)),
        "branches": list(_in_branches(source, session_id, number, row)),
        "values": values,
        "room": room_of([record, *(value for _, value in values)]),
        "agent": entry.agent_id,
        "decided": decided,
        "problem": problem,
        "colour": line.colour,
    }
    return Page("event.html", frame)


def value(source: Source, address: Address) -> Page | File:
    """Return the page of a value of the event at a position, or of the whole record if no value is named."""
    at, path, start = address.number("at") or 0, address.text("of"), address.number("start") or 0
    row = row_at(source.log, at)
    found = value_of(at, path, value_at(fields_of(row.event), path)) if path else record_of(row)
    text = found.text
    part, length = within(text[start : start + PART], PART)
    if address.choice("as", ("page", "file"), "page") == "file":
        return File(f"position-{at}.{'txt' if path else 'json'}", text)
    return Page(
        "value.html",
        {
            "row": row,
            "name": name_of(row.event),
            "id": session_of(row.stream),
            "path": path,
            "part": part,
            "size": len(text.encode()),
            "start": start,
            "end": min(start, len(text)) + length,
            "length": len(text),
            "cut": PART,
        },
    )


def _causes(relations: Relations, place: int) -> list[int]:
    """Return the indexes of all causes of the event, direct or not, in order."""
    found: set[int] = set()
    ahead = list(relations.causes[place].places)
    while ahead:
        one = ahead.pop()
        if one not in found:
            found.add(one)
            ahead.extend(relations.causes[one].places)
    return sorted(found)


def _effects(relations: Relations, place: int) -> list[int]:
    """Return the indexes of all effects of the event, direct or not, in order."""
    followed = {place}
    for later in range(place + 1, len(relations.causes)):
        if not followed.isdisjoint(relations.causes[later].places):
            followed.add(later)
    return sorted(followed - {place})


def _lines(relations: Relations, place: int, shown: Iterable[int]) -> list[Line]:
    """Return the lines of causes or effects of the event at the index `place`."""
    direct = {*relations.causes[place].places}
    return [
        _line(relations, one, is_direct=one in direct or (one > place and place in relations.causes[one].places))
        for one in shown
    ]


def _in_branches(source: Source, session_id: str, number: int, row: Row) -> Iterator[InBranch]:
    """Yield the effects of the event in sessions that branch off after it, if the tables are there."""
    tables = source.tables_now
    for branch in [] if tables is None else branches_with(tables, session_id, row.version, BRANCHES):
        history = History(source.log, branch)
        own = history.parts[-1].before
        if own < number + REACH:
            window = history.between(number, min(history.count, number + REACH))
            relations = Relations(window.rows)
            place = window.shown.start
            effects = [one for one in _effects(relations, place) if one - place > own - number]
            if effects:
                yield InBranch(branch, _lines(relations, place, effects[:FEW]), max(0, len(effects) - FEW))


def _line(relations: Relations, place: int, *, is_direct: bool = False) -> Line:
    line, since = line_of(relations, place), relations.since[place]
    line.is_direct = is_direct
    if line.rows:
        line.kind = "small"
    if isinstance(line.row.event, AnswerRecorded | ToolResult) and since is not None:
        line.seconds = (line.row.recorded_at - since) / 1_000_000
    return line


def _values(row: Row, call: Call | None) -> Iterator[tuple[str, Value]]:
    """Yield the values of the event, with a label for each."""
    match row.event:
        case ToolResult(is_error=is_error):
            yield from _input(call)
            if call is not None and call.result_value is not None:
                yield "error" if is_error else "out", call.result_value
        case ToolStarted() | HumanApproveRequired():
            yield from _input(call)
        case _:
            fields = fields_of(row.event)
            for name in _TOLD:
                if fields.get(name) not in (None, "", (), []):
                    yield _SHORT.get(name, name), value_of(row.position, name, fields[name])


_TOLD = ("content", "prompt", "options", "original", "edited", "reason", "value", "summary", "failure", "rules")
_SHORT = {"content": "said", "original": "was", "edited": "is"}


def _input(call: Call | None) -> Iterable[tuple[str, Value]]:
    return [] if call is None or call.value is None else [("in", call.value)]


def link_of(log: StoredJournal, stream: str, version: int) -> Link | None:
    """Return the link of the event, or None if its record cannot be read."""
    found = log.select(_RECORD, (stream, version))
    if not found:
        return None
    record = Record(*found[0])
    earlier = log.select(_BEFORE, (stream, record.version, record.cursor))
    before: object = earlier[0][0] if earlier else GENESIS
    if type(before) is not bytes or type(record.digest) is not bytes:
        return None  # a manipulated file can hold any type
    return Link(before.hex(), record.digest.hex(), record.follows(before), not earlier)


def _decided(source: Source, session_id: str, at: int) -> tuple[Decided, str]:
    """Return what the background check has found about the event: how today's code differs, or why nothing is known."""
    mark = source.marks.session(session_id)
    if mark is None:
        return "unknown", "so far"
    parting = mark.parting
    end = mark.position if parting is None or parting.position is None else parting.position - 1
    if parting is not None and parting.position == at:
        return "otherwise", parting.problem
    if parting is not None and at > end:
        return "unknown", "after what today's code decides otherwise, or cannot read"
    if mark.undecided:
        return "unknown", "because something was taken out of its session"
    return ("same", "") if at <= end else ("unknown", "so far")
