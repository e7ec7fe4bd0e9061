"""A log whose file is gone says so: nobody is told that something was recorded which nobody would find."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from reenact.actors.journal.api import Committed
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.domain.errors import LogUnusableError
from tests.journal.support import Added, commit, settle, step


@pytest.fixture(autouse=True)
def _is_looked_at_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reenact.actors.journal.sqlite_store._FILE_CHECK_SECONDS", 0.0)


@pytest.mark.parametrize("is_replaced", [False, True], ids=["deleted", "replaced"])
def test_what_is_written_to_a_file_that_is_not_there_any_more_is_refused_by_its_name(
    sqlite_journal: SqliteJournal, path: Path, *, is_replaced: bool
) -> None:
    commit(sqlite_journal, step("s1", 0, Added(1)))
    kept = path.with_name("kept")
    path.rename(kept)
    if is_replaced:
        shutil.copy(kept, path)

    (outcome,) = settle(sqlite_journal, step("s1", 1, Added(2)))

    assert isinstance(outcome, LogUnusableError)
    assert str(path) in str(outcome)


def test_a_file_that_is_put_back_is_written_again(sqlite_journal: SqliteJournal, path: Path) -> None:
    commit(sqlite_journal, step("s1", 0, Added(1)))
    kept = path.rename(path.with_name("kept"))
    settle(sqlite_journal, step("s1", 1, Added(2)))

    kept.rename(path)
    sqlite_journal.recover("s1")

    assert settle(sqlite_journal, step("s1", 1, Added(2))) == [Committed(2, 2)]


def test_it_is_not_looked_at_each_time(
    sqlite_journal: SqliteJournal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.actors.journal.sqlite_store._FILE_CHECK_SECONDS", 3600.0)
    commit(sqlite_journal, step("s1", 0, Added(1)))
    path.rename(path.with_name("kept"))

    assert settle(sqlite_journal, step("s1", 1, Added(2))) == [Committed(2, 2)]
