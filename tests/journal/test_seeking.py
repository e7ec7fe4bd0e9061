"""Events that fit conditions are found, and no others are read."""

from __future__ import annotations

import random
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from reenact.actors.journal.api import Append, Recorded
from reenact.actors.journal.stored import StoredJournal
from reenact.domain.errors import LogUnusableError
from tests.journal.support import Added, Cleared, Log, commit, said, step, words_of

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


BEFORE_1970 = (-1, -(2**55))
"""Times at which nothing was recorded, but which somebody may ask for."""


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
        {"since": since, "before": before, "backwards": since % 2 == 1}
        for since in (*TIMES, *BEFORE_1970)
        for before in (*TIMES, *BEFORE_1970)
    ]

    for wanted in [*WANTED, *by_time]:
        assert filled.find(**wanted) == naive(rows, wanted), wanted


def test_events_that_do_not_fit_are_not_decoded(filled: StoredJournal, log: Log) -> None:
    damaged = msgspec.msgpack.encode([("cleared:1", b"not an event")])
    log.tamper("UPDATE steps SET events = ? WHERE position IN (1, 4, 7, 10, 13)", damaged)

    assert len(filled.find(names={"added"})) == 8
    with pytest.raises(LogUnusableError, match="cleared"):
        filled.find()


LONG = 40
"""More rows than a page, of a feed or of events, that hold nothing of the other kind."""


@pytest.fixture
def mixed(log: Log) -> Generator[StoredJournal]:
    """A log in which rows have events, announcements, or both, in runs of any length; some rows were put together."""
    chance = random.Random(17)
    versions = dict.fromkeys("abc", 0)
    with log.open() as journal:
        for number in range(12):
            stream = chance.choice("abc")
            run = chance.choice((1, 1, 2, 5, LONG))
            has_events, is_heard = chance.choice(((True, False), (False, True), (True, True)))
            for each in range(run):
                words = [f"{number}.{each}.{word}" for word in range(chance.choice((1, 3)))] if is_heard else []
                events = [Added(number)] * chance.choice((1, 2)) if has_events else []
                kept = [said(*words)] if words else []
                commit(journal, step(stream, versions[stream] if events else None, *events, kept=kept))
                versions[stream] += len(events)
        for stream in "abc":
            heard = [row for row in journal.read_feed(stream, limit=10_000) if not row.has_events]
            for first, second in zip(heard[:6:2], heard[1:6:2], strict=False):
                end = second.first_cursor + sum(len(segment.entries) for segment in second.segments) - 1
                words = [f"less {cursor}" for cursor in range(first.first_cursor, end + 1)]
                with suppress(ValueError):  # other rows are between them
                    journal.replace_feed(stream, first.first_cursor, end, [said(*words)])
        yield journal


def test_whatever_lies_between_everything_is_found_where_it_is(mixed: StoredJournal, log: Log) -> None:
    rows = mixed.read_all(limit=10_000)
    head = mixed.head()

    assert [row.position for row in rows] == list(range(1, head + 1))
    for after in range(head + 2):
        assert mixed.read_all(after=after, limit=3) == rows[after : after + 3]
        assert mixed.find(until=after, backwards=True, limit=3) == rows[:after][:-4:-1]
        assert mixed.nearest(after) == (after + 1 if after < head else None)
        assert mixed.nearest(after, backwards=True) == (min(after, head) or None)
    for stream in "abc":
        own = [row for row in rows if row.stream == stream]
        feed, end = mixed.read_feed(stream, limit=10_000), mixed.feed_end(stream)
        last = [row.first_cursor - 1 for row in feed[1:]] + [end]
        assert list(words_of(mixed, stream)) == list(range(1, end + 1))
        assert list(mixed.read_feed_backwards(stream)) == feed[::-1]
        for version in range(len(own) + 2):
            assert mixed.read(stream, after=version) == own[version:]
            link = mixed.link(stream, version)
            assert (None if link is None else link.digest) == mixed.digest_at(stream, version)
            assert (link is not None) == (0 < version <= len(own))
        for cursor in range(end + 2):
            assert (
                mixed.read_feed(stream, after=cursor, limit=2)
                == [row for row, until in zip(feed, last, strict=True) if until > cursor][:2]
            )
            assert (mixed.digest_at_cursor(stream, cursor) is not None) == (cursor in last)
    assert log.verify() == []


@pytest.mark.parametrize(("column", "kind"), [("position", "log"), ("version", "feed"), ("cursor", "stream")])
def test_where_a_row_stands_that_has_none_cannot_be_changed_unseen(log: Log, column: str, kind: str) -> None:
    with log.open() as journal:
        for each in (step("s", None, kept=[said("a")]), step("s", 0, Added(1)), step("s", None, kept=[said("b")])):
            commit(journal, each)
    lacking = "heard" if column == "cursor" else "count"
    assert log.verify() == []

    assert log.tamper(f"UPDATE steps SET {column} = 0 WHERE {lacking} = 0 AND number > 1") == 1  # noqa: S608 - ours

    assert kind in {finding.kind for finding in log.verify()}


def test_rows_that_do_not_stand_in_order_are_not_looked_through_for_ever(filled: StoredJournal, log: Log) -> None:
    log.tamper("UPDATE steps SET version = 3, cursor = number WHERE stream = 'a' AND version IN (4, 5)")

    with pytest.raises(LogUnusableError, match="the events behind 3 of 'a' are out of order"):
        filled.find(stream="a", after_version=3, limit=1)
