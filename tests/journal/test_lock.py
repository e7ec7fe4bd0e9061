"""One writing process per log, and readers beside it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reenact.actors.journal.lock import WriterLock
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.domain.errors import LogLockedError, LogUnusableError, StorageError
from reenact.testing import wait_until
from tests.journal.support import CODEC, Added, Log, commit, step

WRITER = """
import os, subprocess, sys, warnings
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.opening import open_journal

warnings.simplefilter("ignore")
journal = open_journal(sys.argv[1], EventCodec(()), shared=False)
"""
WAITS = """
print("open", flush=True)
sys.stdin.read()
"""
STARTS_A_PROGRAM = """
child = subprocess.Popen(["cat"], stdin=0, close_fds=False)
print(child.pid, flush=True)
child.wait()
"""
FORKS = """
child = os.fork()
if child:
    os.waitpid(child, 0)
else:
    print(os.getpid(), flush=True)
    os.read(0, 1)
    os._exit(0)
"""


@contextmanager
def _started(log: Log, does: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """Start a process that opens the log to write; yield it with the first line that it says."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER + does, log.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@contextmanager
def another_writer(log: Log) -> Generator[subprocess.Popen[str]]:
    """Have another process write the log meanwhile."""
    with _started(log, WAITS) as (process, line):
        assert line == "open"
        yield process


def _is_free(log: Log) -> bool:
    """Return whether a writer can open the log: a server notices a moment later that one has ended."""
    try:
        log.open(shared=False).close()
    except LogLockedError:
        return False
    return True


def test_a_second_process_is_told_who_writes_the_log(path: Path) -> None:
    with another_writer(Log(str(path))) as owner:
        for _ in range(2):
            with pytest.raises(LogLockedError) as caught:
                SqliteJournal.open(path, CODEC)
            assert (caught.value.path, caught.value.pid) == (os.path.realpath(path), owner.pid)


def test_the_lock_ends_with_its_process_however_it_ends(log: Log) -> None:
    with another_writer(log) as owner:
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        wait_until(lambda: _is_free(log))

        with log.open(shared=False) as journal:
            commit(journal, step("s1", 0, Added(1)))


def test_programs_that_the_owner_has_started_do_not_hold_the_lock(path: Path) -> None:
    _assert_not_held_by_a_child(Log(str(path)), STARTS_A_PROGRAM)


def test_forked_children_of_the_owner_do_not_hold_the_lock(log: Log) -> None:
    _assert_not_held_by_a_child(log, FORKS)


def _assert_not_held_by_a_child(log: Log, does: str) -> None:
    with _started(log, does) as (owner, child):
        owner.kill()
        owner.wait()

        os.kill(int(child), 0)
        wait_until(lambda: _is_free(log))
        assert owner.stdin is not None
        owner.stdin.close()


def test_a_second_journal_of_the_same_process_is_refused(sqlite_journal: SqliteJournal, path: Path) -> None:
    with pytest.raises(LogLockedError) as caught:
        SqliteJournal.open(path, CODEC)

    assert caught.value.pid == os.getpid()
    commit(sqlite_journal, step("s1", 0, Added(1)))


def test_another_name_of_the_same_file_is_no_way_around(sqlite_journal: SqliteJournal, path: Path) -> None:
    assert sqlite_journal.head() == 0
    link = path.parent / "link.db"
    link.symlink_to(path)

    with pytest.raises(LogLockedError):
        SqliteJournal.open(link, CODEC)


def test_closing_lets_the_next_one_in(path: Path) -> None:
    SqliteJournal.open(path, CODEC).close()

    SqliteJournal.open(path, CODEC).close()


def test_a_file_that_cannot_be_opened_is_not_left_locked(path: Path) -> None:
    path.write_bytes(b"x" * 200)
    with pytest.raises(StorageError):
        SqliteJournal.open(path, CODEC)
    path.unlink()

    SqliteJournal.open(path, CODEC).close()


def test_a_contender_does_not_need_to_know_the_owner(path: Path) -> None:
    lock = WriterLock(str(path))
    Path(f"{path}.lock").write_text("nobody")

    with pytest.raises(LogLockedError, match="another process") as caught:
        WriterLock(str(path))

    assert caught.value.pid is None
    lock.release()
    lock.release()


def test_readers_are_welcome_while_the_log_is_written(log: Log) -> None:
    with log.open(shared=False) as writer, log.open(read_only=True) as first, log.open(read_only=True) as second:
        assert first.head() == 0
        commit(writer, step("s1", 0, Added(1)))

        assert [each.event for each in first.read("s1")] == [Added(1)]
        assert second.head() == 1


def test_a_reader_stays_valid_when_a_writer_comes_and_goes(path: Path) -> None:
    SqliteJournal.open(path, CODEC).close()
    with SqliteJournal.open(path, CODEC, read_only=True) as reader:
        for version in range(3):
            with SqliteJournal.open(path, CODEC) as writer:
                commit(writer, step("s1", version, Added(version)))
                assert reader.head() == version + 1
            assert reader.head() == version + 1


def test_a_reader_makes_no_log_and_takes_no_lock(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        SqliteJournal.open(tmp_path / "missing.db", CODEC, read_only=True)

    assert list(tmp_path.iterdir()) == []


def test_what_a_link_in_the_place_of_the_lock_leads_to_is_left_as_it_is(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("of somebody else")
    (tmp_path / "log.db.lock").symlink_to(other)

    with pytest.raises(LogUnusableError):
        SqliteJournal.open(tmp_path / "log.db", CODEC)

    assert other.read_text() == "of somebody else"
