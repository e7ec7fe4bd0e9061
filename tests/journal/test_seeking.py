"""Events that fit conditions are found, and no others are read."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import msgspec
import pytest

from reenact.actors.journal.api import Append, Recorded
from reenact.actors.journal.stored import StoredJournal
from reenact.domain.errors import LogUnusableError
from tests.journal.support import Added, Cleared, Log, commit

NAMES: dict[type, str] = {Added: "added", Cleared: "cleared"}
LATE = 1_700_000_000_000_000
TIMES = [0, 5, 127, 128, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, LATE - 1, LATE, LATE + 1]


@pytest.fixture
def filled(log: Log) -> Generator[StoredJournal]:
    """A log of two streams that take turns, in times of every length that numbers are stored in."""
    with log.open() as journal:
        for number, at in enumerate(TIMES):
            stream, version = "ab"[number % 2], number // 2
            events = (Cleared(),) if number % 3 == 0 else (Added(number),)
            commit(journal, Append(stream, version, at, events))
        yield journal


def naive(rows: list[Recorded], wanted: dict[str, Any]) -> list[Recorded]:
    found = [
        row
        for row in rows
        if row.position > wanted.get("after", 0)
        and row.position <= wanted.get("until", row.position)
        and row.stream == wanted.get("stream", row.stream)
        and row.version > wanted.get("after_version", 0)
        and row.version <= wanted.get("until_version", row.version)
        and NAMES[type(row.event)] in (wanted.get("names") or NAMES.values())
        and row.recorded_at >= wanted.get("since", 0)
        and row.recorded_at < wanted.get("before", row.recorded_at + 1)
    ]
    return found[:: -1 if wanted.get("backwards") else 1][: wanted.get("limit", 1000)]


WANTED: list[dict[str, Any]] = [
    {},
    {"after": 3, "until": 9},
    {"stream": "a"},
    {"stream": "b", "after_version": 1, "until_version": 4, "after": 3, "until": 9, "backwards": True, "limit": 2},
    {"stream": "nobody"},
    {"names": {"added"}},
    {"names": ("cleared", "added"), "backwards": True},
    {"names": ["clear"]},
    {"limit": 4, "backwards": True},
    {"stream": "a", "names": ["cleared"], "backwards": True, "limit": 1},
]


def test_events_are_found_as_a_naive_reading_finds_them(filled: StoredJournal) -> None:
    rows = filled.read_all()
    by_time: list[dict[str, Any]] = [
        {"since": since, "before": before, "backwards": since % 2 == 1} for since in TIMES for before in TIMES
    ]

    for wanted in [*WANTED, *by_time]:
        assert filled.find(**wanted) == naive(rows, wanted), wanted


def test_events_that_do_not_fit_are_not_decoded(filled: StoredJournal, log: Log) -> None:
    damaged = msgspec.msgpack.encode([("cleared:1", b"not an event")])
    log.tamper("UPDATE steps SET events = ? WHERE position IN (1, 4, 7, 10, 13)", damaged)

    assert len(filled.find(names={"added"})) == 8
    with pytest.raises(LogUnusableError, match="cleared"):
        filled.find()
