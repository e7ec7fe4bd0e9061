"""What is let go of: deltas of turns long over, consumers and requests long gone; and nothing else."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from reenact import Compacted, ConfigurationError, Retention, StorageError
from reenact.actors.feed import compaction
from reenact.actors.feed.compaction import Compaction
from reenact.actors.feed.hub import Feed
from reenact.actors.feed.retention import Sweeper
from reenact.actors.journal.api import Segment
from reenact.actors.kernel.timetable import Timetable
from reenact.domain.errors import LogUnusableError, ShardMovedError
from reenact.domain.stream.events import (
    AgentStateChanged,
    EventData,
    InputJsonDelta,
    MessageStop,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
)
from reenact.testing import ManualClock, wait_until
from tests.feed.book import HOUR, Book, completed, created, deleted, deltas, started, stopped

DELTAS = ("text_delta", "thinking_delta", "input_json_delta")


def answered(book: Book, session: str, turn_id: str, count: int = 4, *, rows: int = 2) -> None:
    """Let a turn be begun, answered and over."""
    book.write(session, started(turn_id), turn_id=turn_id)
    book.write(session, *deltas(*map(str, range(count))), turn_id=turn_id, rows=rows)
    book.write(session, stopped(), completed(turn_id), turn_id=turn_id)


def compact(book: Book, before: int | None = None) -> int:
    return Compaction(book, lambda: False).compact(before=book.now + 1 if before is None else before)


def told(feed: Feed, session: str = "s") -> list[tuple[int | None, str]]:
    with feed.subscribe(session) as subscription:
        return [(envelope.cursor, envelope.type) for envelope in subscription.take(100_000)]


def test_one_event_stands_for_the_deltas_of_a_turn_and_all_else_keeps_its_cursor(book: Book, feed: Feed) -> None:
    answered(book, "s", "t1")
    before = told(feed)

    assert compact(book) == 4

    assert told(book.feed()) == [
        (1, "session_created"),
        (2, "turn_started"),
        (6, "deltas_compacted"),
        (7, "message_stop"),
        (8, "turn_completed"),
    ]
    assert [one for one in before if one[1] not in DELTAS] == [
        one for one in told(book.feed()) if one[1] != "deltas_compacted"
    ]
    with book.feed().subscribe("s") as subscription:
        gap = subscription.take()[2]
    assert gap.type == "deltas_compacted"
    assert (gap.data.first_cursor, gap.data.last_cursor) == (3, 6)
    assert (gap.source, gap.category, gap.context.turn_id) == ("session", "stream", "t1")
    assert len(book.feeds["session/s"]) == 1


def test_each_kind_of_delta_goes_and_what_is_between_stays(book: Book) -> None:
    said: tuple[EventData, ...] = (
        ThinkingStart(),
        ThinkingDelta(text="a"),
        ThinkingDelta(text="b"),
        ThinkingEnd(),
        AgentStateChanged(previous="thinking", current="responding"),
        TextDelta(text="c"),
        InputJsonDelta(id="1", partial_json="{}"),
        MessageStop(),
        completed("t"),
    )
    book.write("s", started("t"), *said, turn_id="t", rows=3)

    assert compact(book) == 4

    assert told(book.feed()) == [
        (1, "session_created"),
        (2, "turn_started"),
        (3, "thinking_start"),
        (5, "deltas_compacted"),
        (6, "thinking_end"),
        (7, "agent_state_changed"),
        (9, "deltas_compacted"),
        (10, "message_stop"),
        (11, "turn_completed"),
    ]


def test_a_consumer_that_was_forgotten_without_a_word_is_idle(book: Book, feed: Feed) -> None:
    subscription = feed.subscribe("s", "gone")
    del subscription
    gc.collect()
    book.now = 30 * HOUR
    timetable = Timetable(ManualClock(book.now))
    sweeper = Sweeper(feed, timetable, Retention(deltas=None, requests=timedelta.max), lambda: book.now)

    swept = sweeper.sweep()
    sweeper.close()
    timetable.close()

    assert swept == Compacted(consumers=1)


def test_the_deltas_of_a_turn_that_is_not_over_stay(book: Book, feed: Feed) -> None:
    answered(book, "s", "t1")
    book.write("s", started("t2"), *deltas("a", "b"), turn_id="t2")
    sweeps = Compaction(book, lambda: False, feed.replay.forget)

    assert sweeps.compact(before=book.now + 1) == 4
    assert told(feed)[-2:] == [(10, "text_delta"), (11, "text_delta")]
    assert sweeps.compact(before=book.now + 1) == 0

    book.write("s", stopped(), completed("t2"), turn_id="t2")
    assert sweeps.compact(before=book.now + 1) == 2
    assert told(feed)[-3:] == [(11, "deltas_compacted"), (12, "message_stop"), (13, "turn_completed")]


def test_what_is_not_old_enough_stays(book: Book, feed: Feed) -> None:
    answered(book, "s", "t1")
    book.now += HOUR
    answered(book, "s", "t2")
    sweeps = Compaction(book, lambda: False, feed.replay.forget)

    assert sweeps.compact(before=book.now) == 4
    assert sweeps.compact(before=book.now) == 0
    assert [type_ for _, type_ in told(feed)].count("text_delta") == 4
    assert sweeps.compact(before=book.now + 1) == 4


def test_what_is_behind_something_too_young_is_too_young_whatever_the_clock_said(book: Book, feed: Feed) -> None:
    book.now = 100 * HOUR
    answered(book, "s", "t1")
    book.now = 10 * HOUR
    answered(book, "s", "t2")
    book.write("t", created("t"))
    answered(book, "t", "t3")
    book.now = 101 * HOUR

    assert compact(book, before=50 * HOUR) == 0
    assert compact(book, before=101 * HOUR) == 12


def test_rows_become_few_and_none_too_large(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "MOST_ENTRIES", 10)
    for number in range(20):
        answered(book, "s", f"t{number}", 5, rows=5)
    rows = len(book.feeds["session/s"])

    assert compact(book) == 100

    left = book.feeds["session/s"]
    assert rows == 141
    assert len(left) <= 12
    assert max(sum(len(segment.entries) for segment in row.segments) for row in left) <= 10 + 2
    assert compact(book) == 0


def test_large_rows_are_not_made_larger(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "MOST_BYTES", 120)
    for number in range(5):
        answered(book, "s", f"t{number}")

    compact(book)

    assert len(book.feeds["session/s"]) == 5


def test_it_goes_on_where_it_was_after_a_restart(book: Book) -> None:
    answered(book, "s", "t1")
    assert compact(book) == 4
    answered(book, "s", "t2")

    assert compact(book) == 4

    assert [cursor for cursor, _ in told(book.feed())] == [1, 2, 6, 7, 8, 9, 13, 14, 15]
    assert len(book.feeds["session/s"]) == 2


def test_it_remembers_of_few_topics_how_far_they_were_looked_at(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "REMEMBERED", 2)
    sweeps = Compaction(book, lambda: False)
    sessions = [f"s{number}" for number in range(5)]
    for _ in range(2):
        for session in sessions:
            answered(book, session, f"{session}-{len(book.order)}")
        assert sweeps.compact(before=book.now + 1) == 20

    assert len(sweeps._done) == 2


def test_rows_that_are_not_as_they_were_written_stay_and_the_rest_goes_on(
    book: Book, feed: Feed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answered(book, "s", "t1")
    book.write("t", created("t"))
    answered(book, "t", "t2")
    replace = book.replace_feed

    def damaged(topic: str, first: int, last: int, segments: list[Segment]) -> None:
        if topic == "session/s":
            raise LogUnusableError("damaged")
        replace(topic, first, last, segments)

    monkeypatch.setattr(book, "replace_feed", damaged)

    assert compact(book) == 4
    assert "session/s stays as it is" in caplog.text
    assert (3, "text_delta") in told(feed)


def test_who_stands_inside_a_gap_is_told_of_it(book: Book) -> None:
    answered(book, "s", "t1")
    with book.feed().subscribe("s", "me") as subscription:
        subscription.take(4)
        subscription.ack()
    compact(book)

    with book.feed().subscribe("s", "me") as subscription:
        assert subscription.cursor == 4
        assert [(envelope.cursor, envelope.type) for envelope in subscription.take()] == [
            (6, "deltas_compacted"),
            (7, "message_stop"),
            (8, "turn_completed"),
        ]
        subscription.ack()
    assert book.told["session/s", "me"].cursor == 8


def test_a_deleted_session_that_was_compacted_has_its_end(book: Book) -> None:
    answered(book, "s", "t1")
    book.write("s", deleted("s"))
    compact(book)

    feed = book.feed()
    assert told(feed)[-1] == (9, "session_deleted")
    assert feed.subscribe("s", after=9).closed


def test_what_could_not_be_written_is_tried_again(book: Book, feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    answered(book, "s", "t1")
    sweeps = Compaction(book, lambda: False, feed.replay.forget)

    def full(topic: str, first: int, last: int, segments: list[Segment]) -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(book, "replace_feed", full)
        with pytest.raises(StorageError):
            sweeps.compact(before=book.now + 1)

    assert sweeps.compact(before=book.now + 1) == 4


# One node of several.


def test_a_node_compacts_what_is_its_own_and_the_rest_once_it_has_that(book: Book, feed: Feed) -> None:
    owned = {"session/s"}
    book.write("t", created("t"))
    for session in "st":
        answered(book, session, f"t-{session}")
    sweeps = Compaction(book, lambda: False, feed.replay.forget, owned.__contains__)

    assert sweeps.compact(before=book.now + 1) == 4
    assert "text_delta" not in [type_ for _, type_ in told(feed, "s")]
    assert "text_delta" in [type_ for _, type_ in told(feed, "t")]

    owned.add("session/t")
    sweeps.take_up()
    assert sweeps.compact(before=book.now + 1) == 4
    assert "text_delta" not in [type_ for _, type_ in told(feed, "t")]


def test_pages_of_what_is_not_its_own_hide_nothing(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "PAGE", 2)
    for number in range(5):
        answered(book, f"other{number}", "t")
    answered(book, "s", "t")

    assert Compaction(book, lambda: False, is_here="session/s".__eq__).compact(before=book.now + 1) == 4


def test_a_turn_that_ends_at_another_node_is_left_to_that(book: Book, feed: Feed) -> None:
    owned = {"session/s"}
    book.write("s", started("t"), *deltas("a", "b"), turn_id="t")
    sweeps = Compaction(book, lambda: False, feed.replay.forget, owned.__contains__)
    assert sweeps.compact(before=book.now + 1) == 0

    owned.clear()
    book.write("s", stopped(), completed("t"), turn_id="t")
    assert sweeps.compact(before=book.now + 1) == 0
    assert sweeps._unfinished == set()

    owned.add("session/s")
    sweeps.take_up()
    assert sweeps.compact(before=book.now + 1) == 2


def test_what_another_node_has_taken_meanwhile_is_left_to_that_and_the_rest_goes_on(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    for session in "st":
        answered(book, session, "t")
    sweeps = Compaction(book, lambda: False)
    replace = book.replace_feed

    def refused(topic: str, first: int, last: int, segments: list[Segment]) -> None:
        if topic == "session/s":
            raise ShardMovedError(topic)
        replace(topic, first, last, segments)

    with monkeypatch.context() as patched:
        patched.setattr(book, "replace_feed", refused)
        assert sweeps.compact(before=book.now + 1) == 4

    sweeps.take_up()
    assert sweeps.compact(before=book.now + 1) == 4


def test_a_sweeper_hears_which_streams_are_its_own(book: Book, feed: Feed) -> None:
    owned: set[str] = set()
    answered(book, "s", "t")
    book.now += HOUR
    timetable = Timetable(ManualClock(book.now))
    retention = Retention(deltas=timedelta(0), requests=None)
    sweeper = Sweeper(feed, timetable, retention, lambda: book.now, owned.__contains__)
    assert sweeper.sweep() == Compacted()

    owned.add("session/s")
    sweeper.take_up()

    assert sweeper.sweep() == Compacted(deltas=4)
    sweeper.close()
    timetable.close()


# From time to time.


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def sweeping(book: Book, feed: Feed, clock: ManualClock) -> Iterator[Callable[[Retention], Sweeper]]:
    timetable = Timetable(clock)
    made: list[Sweeper] = []

    def begin(retention: Retention) -> Sweeper:
        made.append(Sweeper(feed, timetable, retention, clock))
        return made[-1]

    yield begin
    for one in made:
        one.close()
    feed.close()
    timetable.close()


def in_order(book: Book, clock: ManualClock) -> None:
    """Let a turn be over, and a consumer gone, now."""
    book.now = clock()
    answered(book, "s", "t1")
    feed = book.feed()
    with feed.subscribe("s", "me") as subscription:
        subscription.take()
        subscription.ack()


def test_it_is_done_again_and_again_as_time_passes(
    book: Book, clock: ManualClock, sweeping: Callable[[Retention], Sweeper]
) -> None:
    in_order(book, clock)
    sweeper = sweeping(Retention(every=timedelta(hours=6)))
    begun = sweeper._next_sweep

    def look(hours: float) -> tuple[int, int]:
        nonlocal begun
        clock.advance(hours * 3600)
        wait_until(lambda: sweeper._next_sweep is not begun, what="the sweep")
        begun = sweeper._next_sweep
        return len(book.feeds["session/s"]), len(book.told)

    assert [look(6), look(19), look(6), look(18), look(6)] == [(5, 1), (5, 0), (5, 0), (2, 0), (2, 0)]


def test_what_is_kept_for_ever_is_not_looked_at(
    book: Book, clock: ManualClock, sweeping: Callable[[Retention], Sweeper]
) -> None:
    in_order(book, clock)
    sweeper = sweeping(Retention(deltas=None, consumers=None, requests=None))

    clock.advance(1000 * 24 * 3600)

    assert sweeper.sweep() == Compacted(deltas=0, consumers=0, requests=0)
    assert book.told
    assert len(book.feeds["session/s"]) > 1


def test_a_sweep_says_what_it_has_let_go_of(
    book: Book, clock: ManualClock, sweeping: Callable[[Retention], Sweeper]
) -> None:
    in_order(book, clock)
    sweeper = sweeping(Retention(deltas=timedelta(0), consumers=timedelta(hours=1), every=timedelta(days=9)))
    clock.advance(2 * 3600)

    assert sweeper.sweep() == Compacted(deltas=4, consumers=1)


def test_one_that_fails_is_logged_and_tried_again(
    book: Book,
    clock: ManualClock,
    sweeping: Callable[[Retention], Sweeper],
    caplog: pytest.LogCaptureFixture,
) -> None:
    in_order(book, clock)
    sweeper = sweeping(Retention(deltas=timedelta(0)))
    book.failing = StorageError("the disk is gone")

    clock.advance(3600)
    wait_until(lambda: "tried again later" in caplog.text)
    book.failing = None
    wait_until(lambda: sweeper._next_sweep is not None and sweeper._next_sweep.is_to_come)
    clock.advance(3600)

    wait_until(lambda: len(book.feeds["session/s"]) == 1)
    assert "Traceback" not in caplog.text


def test_one_that_is_closed_stops_soon(
    book: Book,
    feed: Feed,
    clock: ManualClock,
    sweeping: Callable[[Retention], Sweeper],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_order(book, clock)
    book.write("t", created("t"))
    answered(book, "t", "t2")
    sweeper = sweeping(Retention(deltas=timedelta(0)))
    reading, go_on = threading.Event(), threading.Event()
    read = book.read_feed

    def slow(topic: str, *, after: int = 0, limit: int = 1000) -> object:
        reading.set()
        assert go_on.wait(60)
        return read(topic, after=after, limit=limit)

    monkeypatch.setattr(book, "read_feed", slow)
    clock.advance(3600)
    assert reading.wait(60)
    sweeper.close()
    go_on.set()
    feed.close()

    assert len(book.feeds["session/t"]) > 1
    clock.advance(3600)
    assert sweeper._next_sweep is None or not sweeper._next_sweep.is_to_come


def test_a_feed_that_is_closed_is_not_swept(
    feed: Feed, clock: ManualClock, sweeping: Callable[[Retention], Sweeper]
) -> None:
    sweeping(Retention())
    feed.close()

    clock.advance(3600)

    assert feed.closed


@pytest.mark.parametrize(
    "settings",
    [
        {"deltas": 48},
        {"consumers": timedelta(hours=-1)},
        {"requests": "1h"},
        {"every": None},
        {"every": timedelta(0)},
    ],
    ids=str,
)
def test_a_retention_is_of_time_spans(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        Retention(**settings)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
