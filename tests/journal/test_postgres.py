"""A log on a server: several writers, a server that goes and comes back, and what it does not take."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import msgspec
import psycopg
import pytest
from psycopg import errors

from reenact.actors.journal.api import Append, Committed, Done, Outcome, Remembered, Synchronous
from reenact.actors.journal.codec import EventCodec, StoredForm
from reenact.actors.journal.postgres.address import address_of
from reenact.actors.journal.postgres.connecting import connect, spelled
from reenact.actors.journal.postgres.faults import fault
from reenact.actors.journal.postgres.store import PostgresStore
from reenact.actors.journal.recorder import JournalApplicationRecorder
from reenact.actors.journal.records import open_records
from reenact.actors.journal.requests import Foreign, Replacement, Request, RowImport, Step
from reenact.actors.journal.schema import FORMAT_VERSION
from reenact.actors.journal.store import Changes
from reenact.actors.journal.stored import StoredJournal
from reenact.actors.journal.verify import Finding, verify
from reenact.domain.chain import End, Row
from reenact.domain.errors import (
    ConfigurationError,
    ConflictError,
    LogTooNewError,
    LogUnreachableError,
    LogUnusableError,
    ReenactError,
    RequestReusedError,
    StorageError,
    StorageFullError,
    UnstorableError,
)
from tests.journal.server import Server
from tests.journal.support import (
    Added,
    Cleared,
    Log,
    commit,
    said,
    settle,
    settle_together,
    step,
    words_of,
)
from tests.threads import at_once


@pytest.fixture
def log(server: Server) -> Log:
    return Log(server.new_log())


@pytest.fixture
def journal(log: Log) -> Generator[StoredJournal]:
    with log.open() as journal:
        yield journal


@pytest.fixture
def other(log: Log, journal: StoredJournal) -> Generator[StoredJournal]:
    """Another writer of the same log."""
    assert journal.head() == 0
    with log.open() as other:
        yield other


class WatchedCodec(EventCodec):
    """Does something each time when an event is encoded: inside the transaction, on the writer's thread."""

    def __init__(self, act: Callable[[], None]) -> None:
        super().__init__([StoredForm("added", Added), StoredForm("cleared", Cleared)])
        self._act = act

    def encode(self, event: object, recorded_at: int) -> tuple[str, bytes]:
        self._act()
        return super().encode(event, recorded_at)


def once(act: Callable[[], None]) -> Callable[[], None]:
    remaining = [act]
    return lambda: remaining.pop()() if remaining else None


def store_of(journal: StoredJournal) -> PostgresStore:
    store = journal.writer._store
    assert isinstance(store, PostgresStore)
    return store


# Several writers


def test_two_writers_continue_each_others_streams(journal: StoredJournal, other: StoredJournal, log: Log) -> None:
    for version in range(0, 10, 2):
        commit(journal, step("s1", version, Added(version), kept=[said(str(version))]))
        commit(other, step("s1", version + 1, Added(version + 1), kept=[said(str(version + 1))]))

    assert [each.event for each in journal.read("s1")] == [Added(number) for number in range(10)]
    assert words_of(other, "s1") == {number + 1: str(number) for number in range(10)}
    assert log.verify() == []


def test_whoever_comes_second_gets_a_conflict_and_nobody_else(
    journal: StoredJournal, other: StoredJournal, log: Log
) -> None:
    commit(journal, step("s1", 0, Added(1)), step("s2", 0, Added(2)))
    commit(other, step("s1", 1, Added(3)))

    late, behind, elsewhere = settle(journal, step("s1", 1, Added(4)), step("s1", 2, Added(5)), step("s2", 1, Added(6)))

    assert isinstance(late, ConflictError)
    assert (late.expected, late.actual) == (1, 2)
    assert isinstance(behind, ConflictError)
    assert elsewhere == Committed(2, 4)
    assert [each.event for each in journal.recover("s1")] == [Added(1), Added(3)]
    assert commit(journal, step("s1", 2, Added(7))) == Committed(3, 5)
    assert log.verify() == []


def test_a_feed_that_another_writer_has_continued_goes_on_behind_it(
    journal: StoredJournal, other: StoredJournal, log: Log
) -> None:
    # Rows of the feed alone, so that the log's position does not tell of the other writer.
    commit(journal, step("s1", None, kept=[said("a")]))
    commit(other, step("s1", None, kept=[said("b", "c")]))
    commit(journal, step("s1", None, kept=[said("d")]))

    assert words_of(journal, "s1") == {1: "a", 2: "b", 3: "c", 4: "d"}
    assert log.verify() == []


def test_many_writers_at_once_leave_one_order_that_readers_follow_without_gaps(log: Log) -> None:
    followed: list[int] = []
    ended = threading.Event()

    def follow() -> None:
        with log.open(read_only=True) as reader:
            while not (ended.is_set() and len(followed) == reader.head()):
                followed.extend(each.position for each in reader.read_all(after=len(followed), limit=50))

    def write(name: str) -> None:
        with log.open() as writer:
            for version in range(25):
                commit(writer, step(name, version, Added(version), kept=[said("w")]))
                shared = len(writer.recover("shared"))
                settle(writer, step("shared", shared, Added(version), kept=[said(name)]))

    log.open().close()
    follower = threading.Thread(target=follow)
    writers = [threading.Thread(target=write, args=(f"s{number}",)) for number in range(4)]
    for thread in (follower, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    ended.set()
    follower.join()

    with log.open(read_only=True) as reader:
        assert followed == list(range(1, reader.head() + 1))
        assert len(followed) > 100
        shared = reader.read("shared")
        assert [each.version for each in shared] == list(range(1, len(shared) + 1))
        assert len(words_of(reader, "shared")) == len(shared)
    assert log.verify() == []


def test_a_log_can_be_begun_by_several_at_once(log: Log) -> None:
    barrier = threading.Barrier(4)

    def begin(number: int) -> None:
        barrier.wait()
        with log.open() as journal:
            commit(journal, step(f"s{number}", 0, Added(1)))

    at_once(begin, threads=4)

    assert log.verify() == []


def test_a_writer_that_is_kept_waiting_gives_up_and_loses_nothing(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reenact.actors.journal.postgres.store.LOCK_TIMEOUT", 0.05)
    address = address_of(log.url)
    with log.open() as journal:
        with connect(address) as intruder, intruder.transaction():
            intruder.execute(spelled("SELECT * FROM log FOR UPDATE", address.schema))
            (outcome,) = settle(journal, step("s1", 0, Added(1)))

        assert isinstance(outcome, StorageError)
        assert "locked" in str(outcome)
        assert journal.recover("s1") == []
        commit(journal, step("s1", 0, Added(1)))


def test_whoever_has_written_alone_for_long_notices_the_other_one_too(
    journal: StoredJournal, other: StoredJournal, log: Log
) -> None:
    for version in range(20):
        commit(journal, step("s1", version, Added(version), kept=[said("mine")]))
    commit(other, step("s1", 20, Added(20), kept=[said("other")]))

    commit(journal, step("s1", None, kept=[said("mine")]))
    (late,) = settle(journal, step("s1", 20, Added(21)))

    assert isinstance(late, ConflictError)
    assert (late.expected, late.actual) == (20, 21)
    assert list(words_of(journal, "s1").values()) == ["mine"] * 20 + ["other", "mine"]
    assert log.verify() == []


def test_whoever_is_always_overtaken_gives_up_in_the_end(
    journal: StoredJournal, other: StoredJournal, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else continues the stream between each look at its end and the append behind it."""
    monkeypatch.setattr("reenact.actors.journal.postgres.store._TRIES", 5)
    ends = PostgresStore.stream_ends
    overtaking = [1]

    def stream_ends(store: PostgresStore, streams: Sequence[str]) -> list[tuple[str, End]]:
        found = ends(store, streams)
        if overtaking and store is store_of(journal):
            commit(other, step("s1", None, kept=[said("other")]))
        return found

    monkeypatch.setattr(PostgresStore, "stream_ends", stream_ends)

    (refused,) = settle(journal, step("s1", None, kept=[said("mine")]))
    overtaking.clear()

    assert isinstance(refused, StorageError)
    assert "again and again" in str(refused)
    journal.recover("s1")
    commit(journal, step("s1", None, kept=[said("mine")]))
    assert [word for word in words_of(journal, "s1").values() if word == "mine"] == ["mine"]
    assert log.verify() == []


def test_rows_that_are_replaced_twice_at_once_are_replaced_one_by_one(journal: StoredJournal, log: Log) -> None:
    commit(journal, step("s1", None, kept=[said("a")]), step("s2", None, kept=[said("b", "c")]))
    commit(journal, step("s1", None, kept=[said("d")]))

    def less(topic: str, last_cursor: int, word: str) -> Callable[[Done], Request]:
        segments = msgspec.Raw(msgspec.msgpack.encode([said(word)]))
        return partial(Replacement, topic, 1, last_cursor, segments)

    outcomes = settle_together(journal, less("s1", 2, "x"), less("s2", 2, "y"), less("s1", 2, "z"))

    assert [type(outcome) for outcome in outcomes] == [Committed] * 3
    assert (words_of(journal, "s1"), words_of(journal, "s2")) == ({1: "z"}, {1: "y"})
    assert log.verify() == []


def test_a_row_that_another_writer_replaces_meanwhile_is_read_again(
    journal: StoredJournal, other: StoredJournal, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(journal, step("s1", None, kept=[said("a")]))
    commit(journal, step("s1", None, kept=[said("b")]))
    rows, replaced = PostgresStore.rows, [1]

    def overtaken(store: PostgresStore, stream: str, first_cursor: int, last_cursor: int) -> list[Row]:
        found = rows(store, stream, first_cursor, last_cursor)
        if replaced and store is store_of(journal):
            replaced.clear()
            other.replace_feed("s1", 1, 2, [said("other")])
        return found

    monkeypatch.setattr(PostgresStore, "rows", overtaken)
    journal.replace_feed("s1", 1, 2, [said("mine")])

    assert words_of(journal, "s1") == {1: "mine"}
    assert log.verify() == []


def test_steps_and_rows_of_another_log_are_numbered_in_their_order(
    journal: StoredJournal, log: Log, path: Path
) -> None:
    with Log(str(path)).open() as source:
        commit(source, step("theirs", 0, Added(1), kept=[said("a")]))
    with open_records(str(path)) as records:
        rows = tuple(records.rows())

    outcomes = settle_together(
        journal,
        partial(Step, step("s1", 0, Added(1))),
        lambda done: RowImport(done, rows),
        partial(Step, step("s1", 1, Added(2))),
    )

    assert [outcome.position for outcome in outcomes if isinstance(outcome, Committed)] == [1, 2, 3]
    assert [each.stream for each in journal.read_all()] == ["s1", "theirs", "s1"]
    assert log.verify() == []


def test_a_reader_that_another_writer_moves_meanwhile_is_looked_at_again(
    journal: StoredJournal, other: StoredJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked, moved = PostgresStore.tracked, [1]

    def overtaken(store: PostgresStore, name: str) -> int | None:
        found = tracked(store, name)
        if moved and store is store_of(journal):
            moved.clear()
            assert isinstance(_wait(other, partial(Foreign, tracking=("reader", 5))), Committed)
        return found

    monkeypatch.setattr(PostgresStore, "tracked", overtaken)

    assert isinstance(_wait(journal, lambda done: Foreign(done, tracking=("reader", 5))), ConflictError)
    assert isinstance(_wait(journal, lambda done: Foreign(done, tracking=("reader", 6))), Committed)


def _wait(journal: StoredJournal, make: Callable[[Done], Request]) -> Outcome:
    return journal.writer.wait(make)


@pytest.mark.parametrize("isolation", ["serializable", "repeatable read"])
def test_what_the_user_is_set_to_changes_nothing_about_an_append(log: Log, server: Server, isolation: str) -> None:
    server.execute(f"ALTER ROLE postgres SET default_transaction_isolation TO '{isolation}'")
    try:
        with log.open() as journal, log.open() as other:
            for version in range(0, 10, 2):
                commit(journal, step("s1", version, Added(version)))
                commit(other, step("s1", version + 1, Added(version)))
    finally:
        server.execute("ALTER ROLE postgres RESET default_transaction_isolation")


def test_what_something_else_has_written_is_noticed(journal: StoredJournal, log: Log) -> None:
    commit(journal, step("s1", 0, Added(1)))
    log.tamper(
        """
        INSERT INTO steps (number, stream, recorded_at, version, position, count, cursor, heard, digest, events)
        SELECT 2, stream, recorded_at, 2, 2, count, cursor, heard, digest, events FROM steps
        """
    )

    late, elsewhere = settle(journal, step("s1", 1, Added(2)), step("s2", 0, Added(3)))

    assert isinstance(late, ConflictError)
    assert elsewhere == Committed(1, 3)
    assert len(journal.recover("s1")) == 2
    commit(journal, step("s1", 2, Added(4)))


def test_positions_are_never_given_twice(log: Log) -> None:
    with log.open() as journal:
        commit(journal, *(step("s1", version, Added(version)) for version in range(10)))
    assert log.tamper("DELETE FROM steps WHERE position > 5") == 5

    with log.open() as journal:
        assert commit(journal, step("new", 0, Added(1))) == Committed(1, 11)


def test_a_subscription_hears_of_what_others_write(journal: StoredJournal, other: StoredJournal) -> None:
    recorder = JournalApplicationRecorder(journal, id_type="text")
    with recorder.subscribe(gt=0) as subscription:
        for version in range(5):
            commit(other, step("s1", version, Added(version)))
            assert next(subscription).originator_version == version + 1


# A server that goes and comes back


def test_a_connection_that_is_lost_in_between_is_made_again(journal: StoredJournal, server: Server) -> None:
    commit(journal, step("s1", 0, Added(1), kept=[said("a")]))
    assert len(journal.read("s1")) == 1

    server.terminate()

    assert len(journal.read("s1")) == 1
    commit(journal, step("s1", 1, Added(2), kept=[said("b")]))
    assert words_of(journal, "s1") == {1: "a", 2: "b"}


def test_a_connection_that_is_lost_while_nothing_is_sent_takes_nothing_with_it(log: Log, server: Server) -> None:
    with log.open(WatchedCodec(once(server.terminate))) as journal:
        commit(journal, step("s0", None, kept=[said("a")]))
        commit(journal, step("s1", 0, Added(1), kept=[said("a")]), step("s1", 1, Added(2)))
    assert log.verify() == []


def test_what_is_under_way_when_the_connection_is_lost_is_refused(log: Log, server: Server) -> None:
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%append_%'"
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    address = address_of(log.url)
    with log.open() as journal:
        commit(journal, step("s0", None, kept=[said("a")]))
        with connect(address) as intruder, intruder.transaction():
            intruder.execute(spelled("SELECT * FROM log FOR UPDATE", address.schema))
            journal.append(step("s1", 0, Added(1), kept=[said("a")]), outcomes.put)
            server.wait_for_none(f"SELECT 1 WHERE NOT EXISTS ({waiting})")
            journal.append(step("s1", 1, Added(2)), outcomes.put)
            server.execute(waiting.replace("SELECT 1", "SELECT pg_terminate_backend(pid, 10000)"))
        lost, behind = outcomes.get(timeout=60), outcomes.get(timeout=60)

        assert isinstance(lost, StorageError)
        assert "cannot be reached" in str(lost)
        assert isinstance(behind, StorageError)
        assert journal.recover("s1") == []
        commit(journal, step("s1", 0, Added(3), kept=[said("b")]))
        assert words_of(journal, "s1") == {1: "b"}
    assert log.verify() == []


def test_a_commit_of_which_nobody_heard_is_found_by_recovery(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = PostgresStore.commit

    def commit_and_lose(store: PostgresStore, changes: Changes, meanwhile: Callable[[], None]) -> None:
        monkeypatch.setattr(PostgresStore, "commit", commits)
        commits(store, changes, meanwhile)
        store.connection.close()
        raise psycopg.OperationalError("the connection is lost")

    with log.open() as journal:
        commit(journal, step("s1", 0, Added(1), kept=[said("a")]))
        monkeypatch.setattr(PostgresStore, "commit", commit_and_lose)

        (outcome,) = settle(journal, step("s1", 1, Added(2), kept=[said("b")]))

        assert isinstance(outcome, StorageError)
        assert [each.event for each in journal.recover("s1")] == [Added(1), Added(2)]
        commit(journal, step("s1", 2, Added(3), kept=[said("c")]))
        assert words_of(journal, "s1") == {1: "a", 2: "b", 3: "c"}
    assert log.verify() == []


def test_a_server_that_is_gone_refuses_and_one_that_is_back_goes_on(log: Log, server: Server) -> None:
    with log.open() as journal:
        commit(journal, step("s1", 0, Added(1)))
        assert len(journal.read("s1")) == 1

        server.stop()
        try:
            refused, behind = settle(journal, step("s1", 1, Added(2)), step("s2", 0, Added(3)))
            with pytest.raises(StorageError, match="check the URL and the server"):
                journal.read("s1")
            with pytest.raises(StorageError):
                journal.recover("s1")
        finally:
            server.start()

        assert isinstance(refused, StorageError)
        assert isinstance(behind, StorageError)
        assert [each.event for each in journal.recover("s1")] == [Added(1)]
        commit(journal, step("s1", 1, Added(4)))
    assert log.verify() == []


def test_a_subscription_outlives_its_connections(journal: StoredJournal, other: StoredJournal, server: Server) -> None:
    recorder = JournalApplicationRecorder(journal, id_type="text")
    with recorder.subscribe(gt=0) as subscription:
        for version in range(3):
            commit(other, step("s1", version, Added(version)))
            assert next(subscription).originator_version == version + 1
            server.terminate()


def test_a_closed_journal_leaves_no_connection_and_no_thread(server: Server, log: Log) -> None:
    count = "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'reenact%'"
    before = set(threading.enumerate())
    with log.open() as journal:
        journal.watch(lambda _: None)
        commit(journal, step("s1", 0, Added(1)))
        assert len(journal.read("s1")) == 1
        assert server.execute(count) > 0

    server.wait_for_none(count)
    assert set(threading.enumerate()) <= before


# What a server does not take


@pytest.mark.parametrize("stream", ["a\x00b", "\ud800", "ü" * 10_000], ids=["NUL", "no Unicode", "long"])
def test_a_name_that_a_server_does_not_take_is_refused_and_nothing_else(
    journal: StoredJournal, log: Log, stream: str
) -> None:
    # Nothing compresses this; what repeats itself may be any length.
    name = stream if len(stream) < 100 else "".join(chr(0x4E00 + number * 7 % 20_000) for number in range(10_000))

    steps = [step(f"s{number}", 0, Added(number), kept=[said("a")]) for number in range(20)]
    steps[7] = step(name, 0, Added(7), kept=[said("a")])
    outcomes = settle(journal, *steps)

    assert [number for number, outcome in enumerate(outcomes) if isinstance(outcome, StorageError)] == [7]
    assert "cannot be stored" in str(outcomes[7])
    assert journal.head() == 19
    assert log.verify() == []


def test_what_is_larger_than_a_server_takes_is_refused_and_nothing_else(
    journal: StoredJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.actors.journal.postgres.append.VALUE_LIMIT", 1_000_000)

    outcomes = settle(
        journal,
        step("s1", 0, Added(1, "x" * 900_000)),
        step("s2", 0, Added(2, "x" * 1_100_000)),
        step("s3", 0, Added(3, "x" * 900_000)),
    )

    assert [type(outcome) for outcome in outcomes] == [Committed, UnstorableError, Committed]
    assert "1000000 bytes" in str(outcomes[1])


def test_ten_megabytes_are_an_event_like_any_other(journal: StoredJournal) -> None:
    note = "x" * 10_000_000

    commit(journal, step("s1", 0, Added(1, note)))

    (recorded,) = journal.read("s1")
    assert recorded.event == Added(1, note)


def test_text_of_any_kind_is_kept_in_events(journal: StoredJournal) -> None:
    events = (Added(1, "a\x00b"), Added(2, "'; DROP TABLE steps; --"), Added(3, "%s ? \\ 二"))

    commit(journal, step("s1", 0, *events))

    assert [each.event for each in journal.read("s1")] == list(events)


def test_a_full_disk_is_named_as_such() -> None:
    assert isinstance(fault(errors.DiskFull("could not extend file"), "postgresql:///db"), StorageFullError)


@pytest.mark.parametrize(("synchronous", "setting"), [("FULL", "on"), ("NORMAL", "off"), ("OFF", "off")])
def test_the_writer_is_as_durable_as_it_was_asked_to_be(log: Log, synchronous: Synchronous, setting: str) -> None:
    seen: list[object] = []

    def look() -> None:
        seen.append(store_of(opened).connection.execute("SHOW synchronous_commit").fetchone())

    with log.open(WatchedCodec(look), synchronous=synchronous) as opened:
        commit(opened, step("s1", 0, Added(1)))

    assert seen == [(setting,)]


# What is not a log


def test_the_schema_of_something_else_is_left_alone(server: Server, log: Log) -> None:
    schema = address_of(log.url).schema
    server.execute(f"CREATE SCHEMA {schema} CREATE TABLE notes (text text)")

    with pytest.raises(LogUnusableError, match="something else"):
        log.open()
    with pytest.raises(LogUnusableError, match="something else"):
        log.open(read_only=True)
    server.execute(f"CREATE TABLE {schema}.log (text text)")
    with pytest.raises(LogUnusableError):
        log.open()


@pytest.mark.parametrize("version", [1, 3, 4])
@pytest.mark.parametrize("application", ["reenact", "reenact log"])
def test_a_log_from_before_the_first_release_is_refused(log: Log, application: str, version: int) -> None:
    log.open().close()
    log.tamper("UPDATE log SET application = ?, format = ?", application, version)

    with pytest.raises(LogUnusableError, match="before the first release"):
        log.open()
    with pytest.raises(LogUnusableError, match="before the first release"):
        log.open(read_only=True)
    with pytest.raises(LogUnusableError, match="before the first release"):
        log.verify()


def test_a_log_of_a_newer_format_is_named_as_such(log: Log) -> None:
    log.open().close()
    log.tamper("UPDATE log SET format = ?", FORMAT_VERSION + 1)

    with pytest.raises(LogTooNewError, match=f"format {FORMAT_VERSION + 1}"):
        log.open()
    with pytest.raises(LogTooNewError, match=f"format {FORMAT_VERSION + 1}"):
        log.verify()


def test_a_reader_begins_no_log(log: Log, server: Server) -> None:
    with pytest.raises(LogUnusableError, match="holds no log yet"):
        log.open(read_only=True)
    with pytest.raises(LogUnusableError, match="holds no log yet"):
        log.verify()

    # It would say so if it were there.
    server.execute(f"CREATE SCHEMA {address_of(log.url).schema}")


def test_a_log_begins_in_an_empty_schema_too(log: Log, server: Server) -> None:
    server.execute(f"CREATE SCHEMA {address_of(log.url).schema}")

    with log.open() as journal:
        commit(journal, step("s1", 0, Added(1)))


def test_whoever_lacks_rights_is_told_so(log: Log, server: Server) -> None:
    server.execute("DROP ROLE IF EXISTS nobody")
    server.execute("CREATE ROLE nobody LOGIN")
    theirs = Log(log.url.replace("postgres:@", "nobody@"))

    with pytest.raises(LogUnusableError, match="rights"):
        theirs.open()
    log.open().close()
    with pytest.raises(LogUnusableError, match="rights"):
        theirs.open()


SECRETS = ("hush", "quiet")


def _opened(url: str) -> StoredJournal:
    return Log(url).open()


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("postgresql://u:hush@127.0.0.1:1/db", LogUnreachableError),
        ("postgresql://u@127.0.0.1:1/db?password=hush", LogUnreachableError),
        ("postgresql://u:hush@/db?host=/nowhere", LogUnreachableError),
        ("postgresql://u:hu%2Fsh%40quiet@127.0.0.1:1/db?connect_timeout=1", LogUnreachableError),
        ("postgresql://u:hush@quiet@127.0.0.1:1/db", ConfigurationError),
        ("postgresql://u:hush/quiet@127.0.0.1:1/db", ConfigurationError),
        ("postgresql://u:hush?quiet@127.0.0.1:1/db", LogUnreachableError),
        ("postgresql://u:hush?schema=quiet@127.0.0.1:1/db", LogUnreachableError),
        ("postgresql://u:hush", ConfigurationError),
        ("postgresql://u:hush@127.0.0.1:quiet/db", ConfigurationError),
        ("postgresql://u:hush%zz@127.0.0.1:1/db", ConfigurationError),
        ("postgresql://u:hush@127.0.0.1:1/db?quiet=1", ConfigurationError),
        ("postgresql://u:hush@[::1/db", ConfigurationError),
        ("postgresql://u:hush@127.0.0.1:1/db?schema=No-Name", ConfigurationError),
        ("postgresql://u:hush@127.0.0.1:1/db?schema=pg_mine", ConfigurationError),
        ("postgresql://u:hush@127.0.0.1:1/db?schema=", ConfigurationError),
        ("postgresql://u:hush/db?schema=quiet@127.0.0.1:1/db", ConfigurationError),
    ],
)
@pytest.mark.parametrize("use", [_opened, verify], ids=["open", "verify"])
def test_whatever_is_wrong_with_a_url_no_secret_is_told(
    url: str, kind: type[ReenactError], use: Callable[[str], object]
) -> None:
    with pytest.raises(kind) as caught:
        use(url)

    assert type(caught.value) is kind
    told = "".join(traceback.format_exception(caught.value, chain=True)) + repr(caught.value)
    context = caught.value.__context__
    while context is not None:
        told += repr(context)
        context = context.__context__
    assert not [secret for secret in SECRETS if secret in told.replace(url, "")]


def test_a_journal_tells_where_it_is_and_no_secret(log: Log) -> None:
    with Log(log.url.replace("postgres:@", "postgres:hush@")).open() as journal:
        assert journal.name.startswith("postgresql://postgres@/")
        assert journal.name.endswith(f"?schema={address_of(log.url).schema}")
        assert "hush" not in repr(address_of(log.url.replace("postgres:@", "postgres:hush@")))


def test_a_database_that_is_not_there_is_named(server: Server) -> None:
    with pytest.raises(StorageError, match='database "nowhere" does not exist'):
        Log(server.url.replace("/postgres?", "/nowhere?")).open()


# Reading it otherwise


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        (
            "UPDATE steps SET events = 'x' WHERE stream = 's2' AND version = 2",
            Finding("stream", "s2", 2, "the row or the one before it was changed", 5),
        ),
        (
            "DELETE FROM steps WHERE stream = 's2' AND version = 2",
            Finding("stream", "s2", 3, "version 2 is missing", 8),
        ),
        (
            "DELETE FROM steps WHERE stream = 's2' AND version = 4",
            Finding("log", "", 11, "position 11 is missing: 11 of 12 events are there"),
        ),
        (
            "DELETE FROM steps WHERE number = 12",
            Finding("log", "", 12, "the log says that it ends at position 12, but its last event has position 11"),
        ),
        (
            "UPDATE steps SET position = 100 WHERE stream = 's2' AND version = 2",
            Finding("stream", "s2", 3, "the row precedes an earlier one of its stream", 8),
        ),
        (
            "UPDATE steps SET feed = 'x' WHERE stream = 's3' AND cursor = 3",
            Finding("stream", "s3", 2, "the row or the one before it was changed", 6),
        ),
    ],
)
def test_what_is_wrong_is_named(log: Log, statement: str, finding: Finding) -> None:
    with log.open() as journal:
        for version in range(4):
            for stream in ("s1", "s2", "s3"):
                commit(journal, step(stream, version, Added(version), kept=[said("a", "b")]))
    assert log.verify() == []

    assert log.tamper(statement) == 1

    assert finding in log.verify()


def test_a_damaged_record_is_named_when_it_is_read(journal: StoredJournal, log: Log) -> None:
    commit(journal, step("s1", 0, Added(1), kept=[said("a")]))
    log.tamper("UPDATE steps SET events = 'x', feed = 'x'")

    with pytest.raises(LogUnusableError, match="position 1 holds no events"):
        journal.read("s1")
    with pytest.raises(LogUnusableError, match="feed"):
        journal.read_feed("s1")


def test_many_readers_at_once_each_have_a_connection(journal: StoredJournal) -> None:
    commit(journal, *(step("s1", version, Added(version)) for version in range(50)))
    found: list[int] = []

    at_once(lambda _: found.extend(len(journal.read("s1")) for _ in range(10)), threads=12)

    assert found == [50] * 120


def test_what_another_writer_has_carried_out_is_refused(journal: StoredJournal, other: StoredJournal) -> None:
    request = Remembered("r1", b"digest", b"note", 1)
    commit(journal, Append("s1", None, 0, remembered=Remembered("r0", b"", b"", 1)))
    commit(other, Append("s2", None, 0, remembered=request))

    (outcome,) = settle(journal, Append("s1", None, 0, kept=(said("a"),), remembered=request))

    assert isinstance(outcome, RequestReusedError)
    assert words_of(other, "s1") == {}


def test_rows_that_another_writer_has_replaced_still_end_where_they_ended(
    journal: StoredJournal, other: StoredJournal, log: Log
) -> None:
    commit(journal, step("s1", None, kept=[said("a")]))
    commit(journal, step("s1", None, kept=[said("b", "c")]))

    other.replace_feed("s1", 1, 3, [said("less")])
    commit(journal, step("s1", None, kept=[said("d")]))

    assert words_of(other, "s1") == {1: "less", 4: "d"}
    assert log.verify() == []


def test_segments_that_are_too_long_replace_nothing(journal: StoredJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reenact.actors.journal.postgres.append.VALUE_LIMIT", 100)
    commit(journal, step("s1", None, kept=[said("a")]))

    with pytest.raises(UnstorableError, match="more than 100 bytes"):
        journal.replace_feed("s1", 1, 1, [said("x" * 100)])

    assert words_of(journal, "s1") == {1: "a"}


def test_ids_that_the_server_does_not_take_are_refused(journal: StoredJournal) -> None:
    outcomes = settle(journal, Append("s1", None, 0, remembered=Remembered("a\x00b", b"", b"", 1)))

    assert isinstance(outcomes[0], UnstorableError)
    with pytest.raises(UnstorableError):
        journal.remembered("a\x00b")
    journal.recover("s1")
    commit(journal, Append("s1", None, 0, remembered=Remembered("ab", b"", b"", 1)))
