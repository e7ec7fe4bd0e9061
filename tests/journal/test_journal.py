"""What the journal promises: order, atomicity, conflicts, the fence, the feed, and who hears of it."""

from __future__ import annotations

import logging
import threading
from asyncio import CancelledError
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

import msgspec
import pytest

from reenact.actors.journal.api import (
    Append,
    Committed,
    Entry,
    FeedRow,
    Journal,
    Mark,
    Outcome,
    Publication,
    Segment,
    Synchronous,
)
from reenact.actors.journal.batch import MOST_BYTES, MOST_PACKED
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.journal.stored import StoredJournal
from reenact.domain.errors import ConflictError, RuntimeClosedError, StorageError
from tests.journal.support import (
    CODEC,
    Added,
    Cleared,
    Log,
    Unregistered,
    announced,
    commit,
    commit_together,
    connection_of,
    never,
    said,
    settle,
    step,
    words_of,
)
from tests.threads import at_once


class Usage(msgspec.Struct):
    tokens: int
    raw: bytes


def test_the_class_keeps_the_protocol(journal: StoredJournal) -> None:
    kept: Journal = journal

    assert kept.head() == 0


def test_events_come_back_with_their_versions_and_positions(journal: StoredJournal) -> None:
    assert commit(journal, step("s1", 0, Added(1), Cleared())) == Committed(2, 2)
    assert commit(journal, step("s2", 0, Added(2))) == Committed(1, 3)
    assert commit(journal, step("s1", 2, Added(3))) == Committed(3, 4)

    events = [(each.version, each.position, each.recorded_at, each.event) for each in journal.read("s1")]
    assert events == [(1, 1, 2, Added(1)), (2, 2, 2, Cleared()), (3, 4, 1, Added(3))]
    assert [each.version for each in journal.read("s1", after=2)] == [3]
    assert journal.read("unknown") == []
    assert journal.head() == 4


def test_the_cause_of_a_step_comes_back_with_its_first_event(log: Log) -> None:
    with log.open() as journal:
        commit(journal, Append("s1", 0, 1, (Added(1), Cleared()), cause=b"add"), step("s1", 2, Added(2)))
        commit(journal, Append("s1", 3, 1, (Added(3),), cause=b""))

        for rows in (journal.read("s1"), journal.read_all(), journal.find(stream="s1"), journal.read_until("s1", 9)):
            assert [each.cause for each in rows] == [b"add", None, None, b""]
        cells = journal.select("SELECT version, cause FROM steps ORDER BY number", ())
    assert cells == [(1, b"add"), (3, None), (4, b"")]
    assert log.verify() == []


@pytest.mark.parametrize("cause", [b"sub", None, b""])
def test_a_cause_that_was_changed_is_found(log: Log, cause: bytes | None) -> None:
    with log.open() as journal:
        commit(journal, Append("s1", 0, 1, (Added(1), Cleared()), cause=b"add"))
    told, parameters = ("NULL", ()) if cause is None else ("?", (cause,))
    log.tamper(f"UPDATE steps SET cause = {told}", *parameters)  # noqa: S608 - ours

    assert [(found.name, found.at) for found in log.verify()] == [("s1", 1)]


def test_all_events_are_read_in_pages_by_position(journal: StoredJournal) -> None:
    commit(journal, step("s1", 0, Added(1)), step("s2", 0, Added(2)), step("s1", 1, Added(3)))

    first = journal.read_all(limit=2)
    second = journal.read_all(after=first[-1].position, limit=2)

    assert [(each.stream, each.position) for each in first] == [("s1", 1), ("s2", 2)]
    assert [(each.stream, each.position) for each in second] == [("s1", 3)]


def test_a_step_decided_on_an_old_version_is_a_conflict(journal: StoredJournal) -> None:
    commit(journal, step("s1", 0, Added(1)))

    (outcome,) = settle(journal, step("s1", 0, Added(2), kept=[said("hello")]))

    assert isinstance(outcome, ConflictError)
    assert (outcome.stream, outcome.expected, outcome.actual) == ("s1", 0, 1)
    assert [each.event for each in journal.read("s1")] == [Added(1)]
    assert journal.read_feed("s1") == []


def test_nothing_overtakes_a_refused_step_until_recovery(journal: StoredJournal) -> None:
    commit(journal, step("s1", 0, Added(1)))

    conflict, behind, delta, other = settle(
        journal,
        step("s1", 7, Added(2)),
        step("s1", 1, Added(3)),
        step("s1", None, kept=[said("hello")]),
        step("s2", 0, Added(4)),
    )

    assert isinstance(conflict, ConflictError)
    assert isinstance(behind, ConflictError)
    assert isinstance(delta, ConflictError)
    assert isinstance(other, Committed)
    assert [each.event for each in journal.recover("s1")] == [Added(1)]
    assert commit(journal, step("s1", 1, Added(5))) == Committed(2, 3)


def test_recovery_waits_for_what_is_under_way(journal: StoredJournal) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    for version in range(500):
        journal.append(step("s1", version, Added(version)), outcomes.put)

    assert len(journal.recover("s1")) == 500


def test_a_step_that_cannot_be_encoded_harms_only_its_own_stream(journal: StoredJournal, log: Log) -> None:
    steps = [step(f"s{number}", 0, Added(number)) for number in range(100)]
    steps[30] = step("s30", 0, Added(30, "\ud800"))
    steps[60] = step("s60", 0, Added(60), kept=[said("\ud800")])
    steps[61] = step("s60", 0, Added(61))
    steps[90] = step("s90", 0, Added(90), Unregistered())

    outcomes = settle(journal, *steps)

    failed = {number for number, outcome in enumerate(outcomes) if isinstance(outcome, Exception)}
    assert failed == {30, 60, 61, 90}
    assert all(isinstance(outcomes[number], StorageError) for number in failed)
    assert journal.read("s60") == []
    assert journal.head() == 96
    assert log.verify() == []


@pytest.mark.parametrize("stream", ["", "ü" * 500, "'; DROP TABLE feed; --", "%s ? {0} $1"])
def test_any_text_names_a_stream(journal: StoredJournal, stream: str) -> None:
    commit(journal, step(stream, 0, Added(1), kept=[said("hello")]))

    assert [each.stream for each in journal.read(stream)] == [stream]
    assert words_of(journal, stream) == {1: "hello"}


def test_a_stream_that_is_no_unicode_is_refused(journal: StoredJournal) -> None:
    (outcome,) = settle(journal, step("\ud800", 0, Added(1)))

    assert isinstance(outcome, StorageError)
    assert journal.head() == 0


def test_fifty_megabytes_are_an_event_like_any_other(sqlite_journal: SqliteJournal) -> None:
    note = "x" * 50_000_000

    commit(sqlite_journal, step("s1", 0, Added(1, note)))

    (recorded,) = sqlite_journal.read("s1")
    assert recorded.event == Added(1, note)


@pytest.mark.parametrize("stream", ["a\x00b", "ü" * 10_000])
def test_a_file_takes_names_that_a_server_does_not(sqlite_journal: SqliteJournal, stream: str) -> None:
    commit(sqlite_journal, step(stream, 0, Added(1), kept=[said("hello")]))

    assert [each.stream for each in sqlite_journal.read(stream)] == [stream]
    assert words_of(sqlite_journal, stream) == {1: "hello"}


def test_events_without_a_version_are_a_mistake(journal: StoredJournal) -> None:
    with pytest.raises(ValueError, match="after which version"):
        journal.append(step("s1", None, Added(1)), never)


def test_cursors_of_a_topic_have_no_holes(journal: StoredJournal) -> None:
    commit(journal, step("s1", 0, Added(1), kept=[said("a", "b"), said("c", agent="a2")]))
    commit(journal, step("s2", None, kept=[said("x")]))
    commit(journal, step("s1", None, kept=[said(), said("d")]), step("s1", None, kept=[said("e")]))

    assert words_of(journal, "s1") == {1: "a", 2: "b", 3: "c", 4: "d", 5: "e"}
    assert words_of(journal, "s2") == {1: "x"}


def test_a_feed_is_read_from_any_cursor(journal: StoredJournal) -> None:
    for words in (["a", "b", "c"], ["d"], ["e", "f"]):
        commit(journal, step("s1", None, kept=[said(*words)]))

    assert [[row.first_cursor for row in journal.read_feed("s1", after=after)] for after in range(7)] == [
        [1, 4, 5],
        [1, 4, 5],
        [1, 4, 5],
        [4, 5],
        [5],
        [5],
        [],
    ]
    assert [row.first_cursor for row in journal.read_feed("s1", after=1, limit=2)] == [1, 4]


def test_a_feed_is_read_backwards_as_far_as_one_goes(journal: StoredJournal) -> None:
    for number in range(40):
        commit(journal, step("s1", None, kept=[said(str(number))]))
    commit(journal, step("s2", None, kept=[said("other")]))

    backwards = journal.read_feed_backwards("s1")

    assert next(backwards).first_cursor == 40
    assert [row.first_cursor for row in backwards] == list(range(39, 0, -1))
    assert list(journal.read_feed_backwards("unknown")) == []


def test_a_row_of_a_feed_holds_no_more_than_one_may_have_to_read_at_once(journal: StoredJournal, log: Log) -> None:
    words = [f"{number}" for number in range(3 * MOST_PACKED)]
    parts = [said(*words[begin : begin + 70]) for begin in range(0, len(words), 70)]

    commit(journal, step("s1", None, kept=parts[:-2]), step("s1", None, kept=parts[-2:]))

    rows = journal.read_feed("s1")
    assert all(sum(len(segment.entries) for segment in row.segments) < MOST_PACKED + 70 for row in rows)
    assert len(rows) <= 4
    assert list(words_of(journal, "s1").items()) == list(enumerate(words, start=1))
    assert journal.feed_end("s1") == len(words)
    assert log.verify() == []


def test_what_arrives_together_is_packed_into_one_row(journal: StoredJournal) -> None:
    commit_together(journal, *(step("s1", None, kept=[each]) for each in (said("a"), said("b"), said("c", agent="a2"))))

    (row,) = journal.read_feed("s1")
    assert [segment.context for segment in row.segments] == [{"agent": "a1"}, {"agent": "a2"}]
    assert [len(segment.entries) for segment in row.segments] == [2, 1]


def test_structs_in_an_entry_come_back_as_builtins(journal: StoredJournal) -> None:
    commit(journal, step("s1", None, kept=[Segment({}, (Entry("used", 1, Usage(5, b"\x00")),))]))

    (row,) = journal.read_feed("s1")
    assert row.segments[0].entries[0].data == {"tokens": 5, "raw": b"\x00"}


def test_the_listener_hears_after_the_commit_and_before_done(log: Log) -> None:
    story: SimpleQueue[str] = SimpleQueue()

    def listener(publications: object) -> None:
        assert isinstance(publications, list)
        with log.open(read_only=True) as reader:
            story.put(f"heard with {reader.head()} events durable")

    with log.open(listener=listener) as journal:
        journal.append(step("s1", 0, Added(1), kept=[said("a")]), lambda _: story.put("done"))

        assert story.get(timeout=60) == "heard with 1 events durable"
        assert story.get(timeout=60) == "done"


def test_the_listener_hears_everything_in_order(journal: StoredJournal, heard: list[Publication]) -> None:
    passing = said("passing")

    commit(
        journal,
        Append("s1", None, 0, (), (said("a", "b"), said("c")), (passing,)),
        step("s2", 0, Added(1)),
        step("s2", None, kept=[said("x")]),
        step("s1", None, kept=[said("d")]),
    )

    assert heard == [
        Publication("s1", 1, said("a", "b")),
        Publication("s1", 3, said("c")),
        Publication(None, None, passing),
        Publication("s2", 1, said("x")),
        Publication("s1", 4, said("d")),
    ]


def test_nobody_hears_of_a_refused_step(journal: StoredJournal, heard: list[Publication]) -> None:
    settle(journal, step("s1", 5, Added(1), kept=[said("a")]), step("s2", None, kept=[said("\ud800")]))

    assert heard == []


@pytest.mark.parametrize("raised", [ValueError("no"), CancelledError(), SystemExit(1)], ids=repr)
def test_a_listener_that_raises_is_logged_and_harms_nothing(
    log: Log, raised: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def listener(_: object) -> None:
        raise raised

    with (
        caplog.at_level(logging.ERROR, "reenact.journal"),
        log.open(listener=listener) as journal,
    ):
        commit(journal, step("s1", 0, Added(1), kept=[said("a")]))
        commit(journal, step("s1", 1, Added(2)))

    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is raised


@pytest.mark.parametrize("raised", [ValueError("no"), CancelledError(), SystemExit(1)], ids=repr)
def test_a_done_that_raises_is_logged_and_harms_nothing(
    journal: StoredJournal, raised: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def done(_: Outcome) -> None:
        raise raised

    with caplog.at_level(logging.ERROR, "reenact.journal"):
        journal.append(step("s1", 0, Added(1)), done)
        commit(journal, step("s1", 1, Added(2)))

    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is raised


def test_outcomes_are_reported_in_the_order_of_the_steps(journal: StoredJournal) -> None:
    order: SimpleQueue[int] = SimpleQueue()

    def report(number: int) -> Callable[[Outcome], None]:
        return lambda _: order.put(number)

    for number in range(200):
        expected = 99 if number == 50 else 0
        journal.append(step(f"s{number}", expected, Added(number)), report(number))

    assert [order.get(timeout=60) for _ in range(200)] == list(range(200))


def test_a_done_may_append_the_next_step(journal: StoredJournal) -> None:
    finished = threading.Event()

    def go_on(outcome: Outcome) -> None:
        assert isinstance(outcome, Committed)
        if outcome.version == 100:
            finished.set()
        else:
            journal.append(step("s1", outcome.version, Added(1)), go_on)

    journal.append(step("s1", 0, Added(1)), go_on)

    assert finished.wait(60)
    assert len(journal.read("s1")) == 100


@pytest.mark.parametrize("call", ["recover", "close"])
def test_a_done_that_would_wait_for_the_journal_is_told_so(journal: StoredJournal, call: str) -> None:
    raised: SimpleQueue[RuntimeError | None] = SimpleQueue()

    def done(_: Outcome) -> None:
        try:
            if call == "recover":
                journal.recover("s1")
            else:
                journal.close()
        except RuntimeError as error:
            raised.put(error)
        else:
            raised.put(None)

    journal.append(step("s1", 0, Added(1)), done)

    assert "must return at once" in str(raised.get(timeout=60))


def test_closing_makes_durable_what_was_handed_over(log: Log) -> None:
    outcomes: list[Outcome] = []
    journal = log.open()
    for version in range(1000):
        journal.append(step("s1", version, Added(version)), outcomes.append)

    journal.close()

    assert len(outcomes) == 1000
    with log.open() as again:
        assert len(again.read("s1")) == 1000


WRITES: dict[str, Callable[[StoredJournal], object]] = {
    "append": lambda journal: journal.append(step("s1", 0, Added(1)), never),
    "recover": lambda journal: journal.recover("s1"),
    "acknowledge": lambda journal: journal.acknowledge([Mark("s1", "a", 1, 1)], never),
    "forget marks": lambda journal: journal.forget_marks(before=9),
    "forget requests": lambda journal: journal.forget_requests(before=9),
    "replace a feed": lambda journal: journal.replace_feed("s1", 1, 1, []),
    "delete snapshots": lambda journal: journal.delete_snapshots(),
}
READS: dict[str, Callable[[StoredJournal], object]] = {
    "read": lambda journal: journal.read("s1"),
    "remembered": lambda journal: journal.remembered("r1"),
}


@pytest.mark.parametrize("use", [*WRITES, *READS])
def test_a_closed_journal_takes_and_gives_nothing(log: Log, use: str) -> None:
    journal = log.open()
    journal.close()
    journal.close()

    with pytest.raises(RuntimeClosedError):
        (WRITES | READS)[use](journal)


@pytest.mark.parametrize("write", WRITES)
def test_a_reader_writes_nothing(log: Log, write: str) -> None:
    log.open().close()

    with log.open(read_only=True) as reader, pytest.raises(StorageError, match="reading only"):
        WRITES[write](reader)


def test_closing_leaves_one_file_and_the_lock_file(path: Path) -> None:
    with SqliteJournal.open(path, CODEC) as journal:
        commit(journal, step("s1", 0, Added(1)))

    assert sorted(each.name for each in path.parent.iterdir()) == ["log.db", "log.db.lock"]


def test_every_thread_ends_with_its_journal(log: Log) -> None:
    before = set(threading.enumerate())

    with log.open() as journal:
        assert set(threading.enumerate()) - before
        commit(journal, step("s1", 0, Added(1)))

    assert set(threading.enumerate()) <= before


def test_many_threads_write_and_read_at_once(journal: StoredJournal, log: Log) -> None:
    def work(number: int) -> None:
        stream = f"s{number}"
        for version in range(30):
            commit(journal, step(stream, version, Added(version), kept=[said(str(version))]))
            assert [each.version for each in journal.read(stream)] == list(range(1, version + 2))
            assert words_of(journal, stream)[version + 1] == str(version)

    at_once(work, threads=12)

    assert [each.position for each in journal.read_all(limit=1000)] == list(range(1, 361))
    assert log.verify() == []


def test_more_streams_than_are_remembered_keep_their_ends(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reenact.actors.journal.writer.HEADS_LIMIT", 3)
    with log.open() as journal:
        for version in range(5):
            for number in range(7):
                commit(journal, step(f"s{number}", version, Added(version), kept=[said("w")]))

        assert all(len(journal.read(f"s{number}")) == 5 for number in range(7))
        assert all(len(words_of(journal, f"s{number}")) == 5 for number in range(7))
    assert log.verify() == []


@pytest.mark.parametrize(("synchronous", "level"), [("FULL", 2), ("NORMAL", 1), ("OFF", 0)])
def test_the_writer_is_as_durable_as_it_was_asked_to_be(path: Path, synchronous: Synchronous, level: int) -> None:
    with SqliteJournal.open(path, CODEC, synchronous=synchronous) as journal:
        assert connection_of(journal).execute("PRAGMA synchronous").fetchone() == (level,)


def test_deltas_that_are_too_long_stand_before_the_row_that_announces_its_events(
    journal: StoredJournal, log: Log
) -> None:
    heard = announced("s1", 1, Added(1))

    commit_together(journal, step("s1", None, kept=[said("x" * MOST_BYTES)]), Append("s1", 0, 1, (Added(1),), heard))

    deltas, row = journal.read_feed("s1")
    assert (deltas.first_cursor, deltas.has_events, deltas.derived) == (1, False, 0)
    assert row == FeedRow("s1", 2, heard.segments, has_events=True, derived=1)
    assert log.verify() == []


def test_deltas_stand_in_the_row_of_their_step_before_what_is_derived(journal: StoredJournal, log: Log) -> None:
    heard = announced("s1", 1, Added(1), Cleared())

    commit_together(journal, step("s1", None, kept=[said("a", "b")]), Append("s1", 0, 1, (Added(1), Cleared()), heard))

    (row,) = journal.read_feed("s1")
    assert row == FeedRow("s1", 1, (said("a", "b"), *heard.segments), has_events=True, derived=1)
    assert row.stored == (said("a", "b"),)
    journal.replace_feed("s1", 1, 4, [said("less")])
    assert journal.read_feed("s1") == [FeedRow("s1", 1, (said("less"), *heard.segments), has_events=True, derived=1)]
    assert journal.feed_end("s1") == 4
    assert log.verify() == []
