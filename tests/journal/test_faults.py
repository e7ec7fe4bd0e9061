"""Files that are not logs, full disks, and processes that die: a typed error, and nothing acknowledged is lost."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Generator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import pytest

from reenact.actors.journal.api import Append, Committed, Mark, Outcome
from reenact.actors.journal.schema import APPLICATION_ID, FORMAT_VERSION
from reenact.actors.journal.sqlite import PAGE_SIZE, SqliteJournal
from reenact.actors.journal.stored import StoredJournal
from reenact.actors.journal.verify import verify
from reenact.domain.errors import LogTooNewError, LogUnusableError, StorageError, StorageFullError
from reenact.testing import CrashTest
from tests.journal.killed_writer import write_on
from tests.journal.support import (
    CODEC,
    Added,
    Log,
    commit,
    connection_of,
    copy_files,
    repack,
    said,
    settle,
    step,
    tamper,
    words_of,
)


def _written(path: Path, events: int = 200) -> Path:
    with SqliteJournal.open(path, CODEC, synchronous="OFF") as journal:
        steps = [step(f"s{number % 7}", number // 7, Added(number, "x" * 100)) for number in range(events)]
        commit(journal, *steps)
        commit(journal, *(step(f"s{number % 7}", None, kept=[said(str(number))]) for number in range(events)))
    return path


both_ways = pytest.mark.parametrize("read_only", [False, True], ids=["to write", "to read"])


@both_ways
@pytest.mark.parametrize(
    "content", [b"hello", b"x" * 5000, b"SQLite format 3\x00", b"SQLite format 3\x00" + b"\xff" * 500]
)
def test_a_file_that_is_no_database_is_left_alone(path: Path, content: bytes, *, read_only: bool) -> None:
    path.write_bytes(content)

    with pytest.raises(LogUnusableError, match=r"choose another file|restore a copy"):
        SqliteJournal.open(path, CODEC, read_only=read_only)

    assert path.read_bytes() == content


@both_ways
@pytest.mark.parametrize("pragma", ["application_id = 7", "user_version = 7", "encoding = 'UTF-8'"])
def test_the_database_of_something_else_is_left_alone(path: Path, pragma: str, *, read_only: bool) -> None:
    tamper(path, "CREATE TABLE notes (text)")
    tamper(path, f"PRAGMA {pragma}")
    before = path.read_bytes()

    with pytest.raises(LogUnusableError, match="something else"):
        SqliteJournal.open(path, CODEC, read_only=read_only)

    assert path.read_bytes() == before


@both_ways
@pytest.mark.parametrize("version", [1, 2, 3, 4])
@pytest.mark.parametrize("application", [0x52454E41, 0x524E4354])
def test_a_log_from_before_the_first_release_is_refused(
    path: Path, application: int, version: int, *, read_only: bool
) -> None:
    tamper(path, "CREATE TABLE stored_events (rowid INTEGER PRIMARY KEY AUTOINCREMENT)")
    tamper(path, f"PRAGMA application_id = {application}")
    tamper(path, f"PRAGMA user_version = {version}")
    before = path.read_bytes()

    with pytest.raises(LogUnusableError, match="before the first release of Reenact; read it with"):
        SqliteJournal.open(path, CODEC, read_only=read_only)
    with pytest.raises(LogUnusableError, match="before the first release"):
        verify(path)

    assert path.read_bytes() == before


@both_ways
def test_a_log_of_a_newer_format_is_named_as_such(path: Path, *, read_only: bool) -> None:
    _written(path)
    tamper(path, f"PRAGMA user_version = {FORMAT_VERSION + 1}")

    with pytest.raises(LogTooNewError, match=f"format {FORMAT_VERSION + 1}"):
        SqliteJournal.open(path, CODEC, read_only=read_only)


def test_a_row_that_has_a_version_and_no_events_is_named_when_it_is_read(path: Path) -> None:
    _written(path)
    repack(path, 8, lambda events: events.clear())

    with SqliteJournal.open(path, CODEC) as journal:
        for read in (
            lambda: journal.read("s0"),
            journal.read_all,
            lambda: journal.link("s0", 2),
            lambda: journal.link_at("s0", 8),
            lambda: journal.find(stream="s0", until_version=2, backwards=True, limit=2),
        ):
            with pytest.raises(LogUnusableError, match="position 8 holds no events"):
                read()
        assert len(journal.read("s1")) > 0


def test_an_event_of_a_newer_version_is_named_when_it_is_read(path: Path) -> None:
    _written(path)
    repack(path, 8, lambda events: events.__setitem__(0, ("added:2", events[0][1])))

    with SqliteJournal.open(path, CODEC) as journal:
        with pytest.raises(LogTooNewError, match="added:2"):
            journal.read("s0")
        assert len(journal.read("s1")) > 0


def test_a_file_that_a_crash_left_in_a_change_can_be_read_once_it_was_opened_for_writing(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript("CREATE TABLE t (content); DROP TABLE t; PRAGMA cache_size = 1; BEGIN")
        before = path.read_bytes()
        connection.execute("CREATE TABLE t (content)")
        connection.executemany("INSERT INTO t VALUES (zeroblob(?))", [(10_000,)] * 100)
        journal = Path(f"{path}-journal").read_bytes()
    path.write_bytes(before)
    Path(f"{path}-journal").write_bytes(journal)

    for read in (partial(SqliteJournal.open, path, CODEC, read_only=True), partial(verify, path)):
        with pytest.raises(LogUnusableError, match=r"a change that was never completed .*; open it for writing first"):
            read()

    SqliteJournal.open(path, CODEC).close()
    SqliteJournal.open(path, CODEC, read_only=True).close()


@both_ways
@pytest.mark.parametrize("keep", [1, 99, 512, PAGE_SIZE, -1, -PAGE_SIZE])
def test_a_truncated_file_is_noticed(path: Path, keep: int, *, read_only: bool) -> None:
    content = _written(path).read_bytes()
    path.write_bytes(content[:keep])

    with pytest.raises(LogUnusableError, match=r"truncated|not a log"):
        SqliteJournal.open(path, CODEC, read_only=read_only)


def test_a_file_truncated_beside_its_write_ahead_log_is_noticed_when_it_is_read(path: Path, tmp_path: Path) -> None:
    _written(path)
    with SqliteJournal.open(path, CODEC) as journal:
        commit(journal, step("s0", len(journal.read("s0")), Added(1)))
        copy = copy_files(path, tmp_path / "copy")
    content = copy.read_bytes()
    copy.write_bytes(content[: len(content) // 2 // PAGE_SIZE * PAGE_SIZE])

    with pytest.raises(LogUnusableError), SqliteJournal.open(copy, CODEC) as journal:
        journal.read_all()
    with pytest.raises(LogUnusableError):
        verify(copy)


def test_an_empty_file_is_a_log_that_is_still_to_begin(path: Path) -> None:
    path.touch()
    with pytest.raises(LogUnusableError, match="holds no log yet"):
        SqliteJournal.open(path, CODEC, read_only=True)

    with SqliteJournal.open(path, CODEC) as journal:
        commit(journal, step("s1", 0, Added(1)))


def test_a_log_that_a_crash_left_without_tables_begins_again(path: Path) -> None:
    tamper(path, "PRAGMA journal_mode = WAL")

    with SqliteJournal.open(path, CODEC) as journal:
        commit(journal, step("s1", 0, Added(1)))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)


@both_ways
def test_a_missing_directory_is_named(tmp_path: Path, *, read_only: bool) -> None:
    path = tmp_path / "missing" / "log.db"

    with pytest.raises(LogUnusableError, match="missing"):
        SqliteJournal.open(path, CODEC, read_only=read_only)

    assert list(tmp_path.iterdir()) == []


@both_ways
def test_a_directory_is_no_log(tmp_path: Path, *, read_only: bool) -> None:
    with pytest.raises(LogUnusableError):
        SqliteJournal.open(tmp_path, CODEC, read_only=read_only)


def test_a_directory_that_cannot_be_written_holds_no_new_log() -> None:
    # Nobody makes files there, not even root.
    with pytest.raises(LogUnusableError, match="choose another place"):
        SqliteJournal.open("/proc/log.db", CODEC)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_log_in_a_directory_that_cannot_be_written_can_be_read(path: Path) -> None:
    _written(path)
    path.parent.chmod(0o500)
    try:
        with pytest.raises(LogUnusableError):
            SqliteJournal.open(path, CODEC)
        with SqliteJournal.open(path, CODEC, read_only=True) as reader:
            assert reader.head() == 200
    finally:
        path.parent.chmod(0o700)


def test_a_damaged_page_is_named_when_it_is_read(path: Path) -> None:
    content = bytearray(_written(path).read_bytes())
    content[PAGE_SIZE:] = b"\xa5" * (len(content) - PAGE_SIZE)
    path.write_bytes(content)

    with SqliteJournal.open(path, CODEC, read_only=True) as journal, pytest.raises(LogUnusableError, match="damaged"):
        journal.read_all()


@pytest.mark.parametrize(
    ("statement", "call"),
    [
        ("UPDATE steps SET events = x'c1'", "read"),
        ("UPDATE steps SET events = x'91'", "read"),
        ("UPDATE steps SET events = x'9192a6676f6e653a31c40190'", "read"),
        ("UPDATE steps SET events = 'text'", "read"),
        ("UPDATE steps SET stream = CAST(x'ff' AS TEXT) WHERE stream = 's1'", "all"),
        ("UPDATE steps SET feed = x'c1'", "feed"),
        ("UPDATE steps SET feed = 'text'", "feed"),
    ],
)
def test_a_damaged_record_is_named_when_it_is_read(path: Path, statement: str, call: str) -> None:
    _written(path)
    assert tamper(path, statement)

    with SqliteJournal.open(path, CODEC) as journal, pytest.raises(LogUnusableError):
        _ = journal.read_feed("s1") if call == "feed" else journal.read("s1") if call == "read" else journal.read_all()


def test_a_log_that_has_lost_a_table_refuses_steps_and_goes_on(journal: StoredJournal, log: Log) -> None:
    log.tamper("ALTER TABLE timers RENAME TO elsewhere")

    failed, behind, other = settle(journal, Append("s1", None, 0, due=1), step("s1", None), step("new", 0, Added(1)))

    assert isinstance(failed, StorageError)
    assert isinstance(behind, StorageError)
    assert isinstance(other, Committed)


def test_a_log_that_something_else_keeps_locked_refuses_steps(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reenact.actors.journal.sqlite.BUSY_TIMEOUT", 0.01)
    with SqliteJournal.open(path, CODEC) as journal, closing(sqlite3.connect(path, isolation_level=None)) as intruder:
        intruder.execute("BEGIN IMMEDIATE")
        outcomes = settle(journal, step("s1", 0, Added(1)), step("s1", 1, Added(1)))
        intruder.execute("ROLLBACK")

        assert all(isinstance(outcome, StorageError) and "locked" in str(outcome) for outcome in outcomes)
        assert journal.recover("s1") == []
        commit(journal, step("s1", 0, Added(1)))


def test_what_something_else_has_appended_is_a_failure_and_then_known(path: Path) -> None:
    with SqliteJournal.open(path, CODEC) as journal:
        commit(journal, step("s1", 0, Added(1)))
        tamper(
            path,
            """
            INSERT INTO steps (number, stream, recorded_at, version, position, count, cursor, heard, digest, events)
            SELECT 2, stream, recorded_at, 2, 2, count, cursor, heard, digest, events FROM steps
            """,
        )

        failed, other = settle(journal, step("s1", 1, Added(2)), step("s2", 0, Added(3)))

        assert isinstance(failed, StorageError)
        assert isinstance(other, Committed)
        assert len(journal.recover("s1")) == 2
        assert commit(journal, step("s1", 2, Added(4))) == Committed(3, 4)


def test_a_transaction_that_cannot_be_rolled_back_is_left_later(
    sqlite_journal: SqliteJournal, caplog: pytest.LogCaptureFixture
) -> None:
    journal = sqlite_journal

    def forbid_to_leave(_: int, what: str | None, *__: object) -> int:
        return sqlite3.SQLITE_DENY if what in {"COMMIT", "ROLLBACK"} else sqlite3.SQLITE_OK

    connection = connection_of(journal)
    connection.set_authorizer(forbid_to_leave)
    failed, behind = settle(journal, step("s1", 0, Added(1)), step("s2", 0, Added(1)))
    connection.set_authorizer(None)

    assert isinstance(failed, StorageError)
    assert isinstance(behind, StorageError)
    assert "could not be rolled back" in caplog.text
    assert journal.recover("s1") == []
    commit(journal, step("s1", 0, Added(1)))


def test_a_log_that_cannot_be_tidied_up_is_closed_all_the_same(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal = SqliteJournal.open(path, CODEC)
    commit(journal, step("s1", 0, Added(1)))

    def forbid_everything(*_: object) -> int:
        return sqlite3.SQLITE_DENY

    connection_of(journal).set_authorizer(forbid_everything)

    journal.close()

    (record,) = (record for record in caplog.records if "stays beside it" in record.getMessage())
    assert record.exc_info is None
    with SqliteJournal.open(path, CODEC) as again:
        assert len(again.read("s1")) == 1


def test_a_full_disk_refuses_steps_and_loses_none(path: Path) -> None:
    with SqliteJournal.open(path, CODEC) as journal:
        commit(journal, step("s1", 0, Added(1)))
        pages: int = connection_of(journal).execute("PRAGMA page_count").fetchone()[0]
        connection_of(journal).execute(f"PRAGMA max_page_count = {pages}")

        big = "x" * 100_000
        full, behind, small = settle(
            journal, step("s1", 1, Added(2, big), kept=[said(big)]), step("s1", 2, Added(3)), step("s2", 0, Added(4))
        )

        assert isinstance(full, StorageFullError)
        assert isinstance(behind, StorageFullError)
        assert isinstance(small, Committed)
        connection_of(journal).execute("PRAGMA max_page_count = 1000000")
        assert [each.event for each in journal.recover("s1")] == [Added(1)]
        commit(journal, step("s1", 1, Added(2, big), kept=[said(big)]))
    assert verify(path) == []


def test_a_full_disk_takes_no_marks_and_replaces_no_rows(path: Path) -> None:
    long_names = [Mark("s1", f"{number} {'x' * 900}", 1, 1) for number in range(200)]
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    with SqliteJournal.open(path, CODEC) as journal:
        commit(journal, step("s1", None, kept=[said("a", "b")]))
        pages: int = connection_of(journal).execute("PRAGMA page_count").fetchone()[0]
        connection_of(journal).execute(f"PRAGMA max_page_count = {pages}")

        journal.acknowledge(long_names, outcomes.put)
        journal.acknowledge([Mark("s1", "a", 1, 1)], outcomes.put)
        assert isinstance(outcomes.get(timeout=60), StorageFullError)
        assert isinstance(outcomes.get(timeout=60), Committed)
        with pytest.raises(StorageFullError):
            journal.replace_feed("s1", 1, 2, [said("x" * 100_000)])

        connection_of(journal).execute("PRAGMA max_page_count = 1000000")
        assert journal.marks("s1") == [Mark("s1", "a", 1, 1)]
        assert words_of(journal, "s1") == {1: "a", 2: "b"}
        journal.replace_feed("s1", 1, 2, [said("x" * 100_000)])
    assert verify(path) == []


def _program(name: str) -> str:
    return shutil.which(name) or pytest.skip(f"there is no program {name}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    target = tmp_path / "disk"
    target.mkdir()
    mount, umount = _program("mount"), _program("umount")
    mounted = subprocess.run([mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", target], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"mounting is not permitted: {mounted.stderr.decode().strip()}")
    try:
        yield target
    finally:
        subprocess.run([umount, target], check=True)


def test_a_really_full_disk_refuses_steps_and_loses_none(small_disk: Path) -> None:
    path = small_disk / "log.db"
    acknowledged = 0
    with SqliteJournal.open(path, CODEC) as journal:
        while True:
            (outcome,) = settle(journal, step("s1", acknowledged, Added(acknowledged, "x" * 20_000)))
            if isinstance(outcome, Exception):
                break
            acknowledged += 1
        assert isinstance(outcome, StorageFullError)
        assert len(journal.read("s1")) == acknowledged > 0

        subprocess.run([_program("mount"), "-o", "remount,size=8m", small_disk], check=True)
        assert len(journal.recover("s1")) == acknowledged
        commit(journal, step("s1", acknowledged, Added(acknowledged, "x" * 20_000)))
    with SqliteJournal.open(path, CODEC) as journal:
        assert len(journal.read("s1")) == acknowledged + 1
    assert verify(path) == []


def test_no_log_begins_on_a_full_disk(small_disk: Path) -> None:
    with pytest.raises(OSError, match="No space"):
        (small_disk / "filler").write_bytes(b"x" * 2_000_000)

    with pytest.raises(StorageFullError):
        SqliteJournal.open(small_disk / "log.db", CODEC)


def test_a_copy_taken_at_any_moment_opens_to_a_prefix(path: Path, tmp_path: Path) -> None:
    with SqliteJournal.open(path, CODEC) as journal:
        for version in range(30):
            commit(journal, step("s1", version, Added(version), kept=[said(str(version))]))
            copy = copy_files(path, tmp_path / f"copy-{version}")

            with SqliteJournal.open(copy, CODEC) as opened:
                assert [each.event for each in opened.read("s1")] == [Added(n) for n in range(version + 1)]
                assert words_of(opened, "s1") == {n + 1: str(n) for n in range(version + 1)}
                commit(opened, step("s1", version + 1, Added(-1)))
            assert verify(copy) == []


def test_a_write_ahead_log_cut_anywhere_leaves_a_prefix(path: Path, tmp_path: Path) -> None:
    with SqliteJournal.open(path, CODEC) as journal:
        for version in range(5):
            commit(journal, step("s1", version, Added(version), kept=[said(str(version))]))
        wal = Path(f"{path}-wal").read_bytes()
        for number, cut in enumerate(range(0, len(wal), 3001)):
            copy = copy_files(path, tmp_path / f"copy-{number}")
            Path(f"{copy}-wal").write_bytes(wal[:cut])
            with SqliteJournal.open(copy, CODEC) as opened:
                versions = [each.version for each in opened.read("s1")]
                assert versions == list(range(1, len(versions) + 1))
                assert len(words_of(opened, "s1")) == len(versions)
            assert verify(copy) == []


def test_a_killed_process_has_lost_nothing_that_it_acknowledged(log: Log, crashes: CrashTest) -> None:
    acknowledged: dict[str, int] = {}
    for count in (1, 300, 1000):
        report = crashes.run_until_killed(write_on, log.url, until=partial(_are_as_many, count))
        acknowledged.update(map(tuple, report.said))

        with log.open() as journal:
            for stream, version in acknowledged.items():
                events = [each.event for each in journal.recover(stream)]
                assert events == [Added(n) for n in range(len(events))]
                assert len(events) >= version > 0
                assert words_of(journal, stream) == {n: str(n) for n in range(1, len(events) + 1)}
        assert log.verify() == []


def _are_as_many(count: int, said: Sequence[object]) -> bool:
    return len(said) >= count
