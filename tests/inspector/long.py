"""A session of any length, in seconds: a turn that took place is written again and again, as later ones."""

from __future__ import annotations

import re
import struct
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from reenact import Image, Runtime, tool
from reenact._location import location_of
from reenact._runtime import codec
from reenact.actors.journal.records import open_records
from reenact.actors.journal.stored import StoredJournal
from reenact.domain.chain import End, Row, header_of, part_digest, row_digest
from reenact.loop import Price
from reenact.testing import ManualClock
from tests.inspector.shop import Answer, Model

SESSION: Final = "long"
STEPS: Final = 3
CALLS: Final = 8
_MODEL = "claude-sonnet-4-5"
_STREAM = f"session/{SESSION}"
_BEGIN = 1_795_219_200_000_000
_TURN_TAKES = 60_000_000
_AT_ONCE = 5000
_TIME = re.compile(rb"\xcf(\x00\x06.{6})", re.DOTALL)
"""A time as MessagePack writes it: microseconds in this century."""
_EIGHT_BYTES = struct.Struct(">Q")


@tool
async def search(query: str) -> str:
    """Search the archive."""
    return f"nothing about {query}"


def write_long(log: str, events: int = 100_000) -> None:
    """Begin a log in which one session has so many events, and some more until its last turn ends."""
    with tempfile.TemporaryDirectory() as directory:
        before, turn = _recorded(str(Path(directory, "short.db")))
    with location_of(log).open(codec(), synchronous="OFF") as journal:
        journal.import_rows(rows=before)
        written = _events_in(row for row in before if row.stream == _STREAM)
        more = -(-(events - written) // _events_in(turn))
        rows: list[Row] = []
        for row in _again(turn, journal, more):
            rows.append(row)
            if len(rows) == _AT_ONCE:
                journal.import_rows(rows=rows)
                rows = []
        journal.import_rows(rows=rows)


def _recorded(log: str) -> tuple[list[Row], list[Row]]:
    """Return the rows of a session with one turn, and those of its second turn, as a runtime writes them."""
    clock = ManualClock(_BEGIN)
    model, ids = Model(clock), _Ids()
    image = Image(id="searcher", model=_MODEL, tools=(search,))
    prices = {_MODEL: Price(3, 15)}
    with Runtime.open(
        log, llm_provider=model, default_image=image, prices=prices, synchronous="OFF", clock=clock, ids=ids
    ) as runtime:
        model.hear(runtime.events)
        runtime.containers.create(container_id="archive")
        runtime.sessions.create("archive", "searcher", session_id=SESSION)
        parts: list[list[Row]] = []
        for number in (1, 2):
            ids.turn = number
            clock.set(_at(number))
            model.will_say(*_answers(ids.token))
            runtime.ask(f"What is known of parcel {ids.token}?", session=SESSION)
            with open_records(log) as records:
                parts.append(list(records.rows()))
    first, both = parts
    return first, both[len(first) :]


def _answers(parcel: str) -> Iterator[Answer]:
    for step in range(STEPS):
        calls = [("search", {"query": f"{parcel} in box {step * CALLS + call}"}) for call in range(CALLS)]
        yield Answer("I look into the boxes.", 1.6, (1200, 80), calls=calls)
    yield Answer(f"Parcel {parcel} is in none of the boxes.", 2.4, (2400, 40))


def _again(turn: list[Row], journal: StoredJournal, times: int) -> Iterator[Row]:
    """Yield what the rows of the second turn are in so many turns, that one and those behind it."""
    end = journal.stream_end(_STREAM)
    assert end is not None
    for number in range(2, times + 2):
        for row in turn:
            later = _later(row, end, number)
            end = later.end(end)
            yield later


def _later(row: Row, end: End, number: int) -> Row:
    """Return the row as it would have been in another turn, behind that end of its stream."""
    version, cursor, previous = end
    moved = msgspec.structs.replace(
        row,
        version=version + 1,
        cursor=cursor + 1,
        recorded_at=row.recorded_at + _at(number) - _at(2),
        cause=_moved(row.cause, number),
        events=_moved(row.events, number),
        feed=_moved(row.feed, number),
    )
    header = header_of(
        moved.stream.encode(),
        moved.recorded_at,
        version=moved.version,
        count=moved.count,
        cursor=moved.cursor,
        heard=moved.heard,
        key=(moved.key or "").encode(),
    )
    parts = part_digest(moved.cause), part_digest(moved.events), part_digest(moved.feed)
    return msgspec.structs.replace(moved, digest=row_digest(previous, parts, header))


def _moved(part: bytes | None, number: int) -> bytes | None:
    if part is None:
        return None
    passed = _at(number) - _at(2)

    def later(time: re.Match[bytes]) -> bytes:
        return b"\xcf" + _EIGHT_BYTES.pack(_EIGHT_BYTES.unpack(time[1])[0] + passed)

    return _TIME.sub(later, part.replace(_token(2).encode(), _token(number).encode()))


def _events_in(rows: Iterable[Row]) -> int:
    return sum(row.count for row in rows)


def _at(turn: int) -> int:
    return _BEGIN + turn * _TURN_TAKES


def _token(turn: int) -> str:
    """Return what stands in all ids and texts of a turn; it is as long in every turn."""
    return f"t{turn:07}"


class _Ids:
    """Makes ids that say in which turn they were made."""

    def __init__(self) -> None:
        self.turn = 0
        self._made = 0
        self._lock = threading.Lock()

    @property
    def token(self) -> str:
        return _token(self.turn)

    def __call__(self, prefix: str) -> str:
        with self._lock:
            self._made += 1
            return f"{prefix}_{self.token}_{self._made:04}"
