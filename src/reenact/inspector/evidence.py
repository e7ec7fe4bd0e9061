"""The evidence for one event: its record agrees with its digest, and the present code decides its step the same."""

from __future__ import annotations

import msgspec

from reenact.actors.journal.stored import StoredJournal
from reenact.domain.chain import GENESIS
from reenact.domain.chain import Row as Record
from reenact.domain.history.decision_replay import DecisionReplay, Divergence
from reenact.inspector.states import States, full_state
from reenact.inspector.windows import AROUND, History
from reenact.projections.explain.history import event_of, steps_of
from reenact.projections.log import Row

_COLUMNS = ", ".join(Record.__struct_fields__)
_AT = f"SELECT {_COLUMNS} FROM steps WHERE stream = ? AND count > 0 AND version <= ? ORDER BY version DESC LIMIT 1"  # noqa: S608 - ours
_ALL = f"SELECT {_COLUMNS} FROM steps WHERE stream = ? ORDER BY version, cursor"  # noqa: S608 - ours
_BEFORE = """
    SELECT digest FROM steps WHERE stream = ? AND (version, cursor) < (?, ?) ORDER BY version DESC, cursor DESC LIMIT 1
"""


class Link(msgspec.Struct, frozen=True):
    """An event's record in the chain: the previous digest and its own, and whether they agree."""

    before: str
    digest: str
    agrees: bool
    is_first: bool


def link_of(log: StoredJournal, stream: str, version: int) -> Link | None:
    """Return the link of the event, or None if its record cannot be read."""
    found = log.select(_AT, (stream, version))
    if not found:
        return None
    record = Record(*found[0])
    earlier = log.select(_BEFORE, (stream, record.version, record.cursor))
    before: object = earlier[0][0] if earlier else GENESIS
    if type(before) is not bytes or type(record.digest) is not bytes:
        return None  # a manipulated file can hold any type
    return Link(before.hex(), record.digest.hex(), record.follows(before), not earlier)


def broken_at(log: StoredJournal, history: History) -> int | None:
    """Return the position of the first changed record of the history, or None if all are unchanged.

    It reads all of them.
    """
    for part in history.parts:
        digest = GENESIS
        for cells in log.select(_ALL, (part.stream,)):
            record = Record(*cells)
            if record.version > part.last:
                break
            if not record.follows(digest):
                return record.position
            digest = record.digest
    return None


def decided_anew(states: States, history: History, number: int) -> Divergence | None:
    """Decide the step of the event again; return where the present code decides differently, or None.

    Raises:
        LogUnusableError: the log holds events that cannot have happened.
    """
    first, rows = _with_whole_step(history, number)
    place = first
    for step in steps_of(rows):
        if place <= number < place + len(step):
            events = [event_of(row) for row in step]
            before = states.at(history, place - 1) if place > 1 else full_state(history, 0)
            divergence = DecisionReplay(before).follow(step[0].cause, events)
            if divergence is None or place == 1:
                return divergence
            return DecisionReplay(full_state(history, place - 1)).follow(step[0].cause, events)
        place += len(step)
    return None


def _with_whole_step(history: History, number: int) -> tuple[int, list[Row]]:
    """Return events that include the whole step of this one, and the number of the first of them."""
    reach = AROUND
    while True:
        first, last = max(1, number - reach), min(history.count, number + reach)
        rows = history.rows(first, last)
        here = number - first + 1
        begins = first == 1 or any(row.cause is not None for row in rows[:here])
        if begins and (last == history.count or any(row.cause is not None for row in rows[here:])):
            return first, rows
        reach *= 10
