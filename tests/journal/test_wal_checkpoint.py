"""The write-ahead log is copied into the log's file while the log is written."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Never

import pytest

from reenact.actors.journal import wal_checkpoint
from reenact.actors.journal.sqlite import PAGE_SIZE, SqliteJournal
from tests.journal.support import CODEC, Added, settle, step

COMMITS = 200
FEW_PAGES = 20


def write(journal: SqliteJournal, *, until: int, since: int = 0) -> None:
    """Commit event after event; a thread that copies meanwhile is waited for."""
    for version in range(since, until):
        settle(journal, step("s", version, Added(version)))
        for thread in threading.enumerate():
            if thread.name == "reenact-checkpoint":
                thread.join()


def size_of_wal(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size // PAGE_SIZE


@pytest.fixture
def few_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal_checkpoint, "PAGES", FEW_PAGES)


@pytest.mark.usefixtures("few_pages")
def test_the_write_ahead_log_begins_anew_when_it_is_in_the_file(path: Path) -> None:
    with SqliteJournal.open(path, CODEC) as journal:
        write(journal, until=COMMITS)

        assert size_of_wal(path) < 3 * FEW_PAGES


def test_it_grows_until_it_has_so_many_pages(path: Path) -> None:
    with SqliteJournal.open(path, CODEC) as journal:
        write(journal, until=COMMITS)

        assert size_of_wal(path) >= COMMITS


@pytest.mark.usefixtures("few_pages")
def test_without_a_thread_commits_copy_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_thread: threading.Thread) -> Never:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(wal_checkpoint, "MOST_PAGES", 2 * FEW_PAGES)
    with SqliteJournal.open(path, CODEC) as journal:
        monkeypatch.setattr(threading.Thread, "start", start)
        write(journal, until=COMMITS)

        assert size_of_wal(path) < 4 * FEW_PAGES
        assert len(journal.read("s")) == COMMITS


@pytest.mark.usefixtures("few_pages")
def test_a_log_that_is_closed_while_it_is_copied_waits_for_the_copy(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copying, may_copy, copied = threading.Event(), threading.Event(), threading.Event()
    copy, join = wal_checkpoint._copy, threading.Thread.join

    def copy_late(connection: sqlite3.Connection) -> None:
        copying.set()
        if may_copy.wait(60):
            copy(connection)
            copied.set()

    def join_and_allow(thread: threading.Thread, timeout: float | None = None) -> None:
        if thread.name == "reenact-checkpoint":
            may_copy.set()
        join(thread, timeout)

    monkeypatch.setattr(wal_checkpoint, "_copy", copy_late)
    monkeypatch.setattr(threading.Thread, "join", join_and_allow)
    version = 0
    with SqliteJournal.open(path, CODEC) as journal:
        while not copying.is_set():
            settle(journal, step("s", version, Added(version)))
            version += 1

    assert copied.is_set()
    with SqliteJournal.open(path, CODEC, read_only=True) as journal:
        assert len(journal.read("s")) == version
