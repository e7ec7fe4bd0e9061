"""Questions share a few connections, and give them back whatever becomes of the question."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import pytest

from reenact.domain.errors import RuntimeClosedError
from reenact.projections.errors import ReadModelError
from reenact.projections.read_model import compiled
from reenact.projections.read_model.projection import AT_ONCE, Readers
from reenact.projections.read_model.queries import ReadModel
from reenact.projections.read_model.rows import Value
from reenact.projections.read_model.sqlite_store import SqliteStore
from tests.projections.opened import open_store

Opened: TypeAlias = list[sqlite3.Connection]


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return open_store(tmp_path / "read.db")


@pytest.fixture
def opened(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Give a list to which each connection is added that is opened from now on."""
    connections: list[sqlite3.Connection] = []
    connect = store.connect

    def note() -> sqlite3.Connection:
        connections.append(connect())
        return connections[-1]

    monkeypatch.setattr(store, "connect", note)
    return connections


def test_one_question_after_the_other_takes_one_connection(store: SqliteStore, opened: Opened) -> None:
    with ReadModel(store) as model:
        for _ in range(20):
            assert model.session("a") is None
            assert model.containers() == []

    assert len(opened) == 1


def test_questions_at_once_take_a_connection_each_up_to_a_bound(store: SqliteStore, opened: Opened) -> None:
    together = threading.Barrier(AT_ONCE)

    class Slow(dict[str, Value]):
        def __getitem__(self, name: str) -> Value:
            together.wait(timeout=60)
            return "a"

    readers = Readers(store)
    with ThreadPoolExecutor(3 * AT_ONCE) as threads:
        asked = [threads.submit(readers.ask, compiled.SESSION, Slow()) for _ in range(3 * AT_ONCE)]
        answers = [one.result(timeout=60) for one in asked]
    kept = len(readers._free)
    readers.close()

    assert [rows for _, rows in answers] == [[]] * (3 * AT_ONCE)
    assert (len(opened), kept, len(readers._free)) == (AT_ONCE, AT_ONCE, 0)


def test_a_question_that_fails_gives_its_connection_back(store: SqliteStore, opened: Opened, tmp_path: Path) -> None:
    readers = Readers(store)
    readers.ask(compiled.SESSION, {"id": "a"})
    failed_before = readers.failed
    other = sqlite3.connect(tmp_path / "read.db")
    other.execute("ALTER TABLE sessions RENAME TO gone")
    other.close()

    with pytest.raises(ReadModelError, match="no such table: sessions"):
        readers.ask(compiled.SESSION, {"id": "a"})
    readers.ask(compiled.CONTAINER, {"id": "a"})
    readers.close()

    assert (failed_before, readers.failed) == (False, True)
    assert len(opened) == 1


def test_what_cannot_be_opened_is_a_typed_error(store: SqliteStore, tmp_path: Path) -> None:
    for name in tmp_path.glob("read.db*"):
        name.unlink()
    (tmp_path / "read.db").mkdir()

    with ReadModel(store) as model, pytest.raises(ReadModelError, match="unable to open"):
        model.session("a")


def test_closed_readers_answer_no_more(store: SqliteStore) -> None:
    readers = Readers(store)
    for _ in range(2):
        readers.close()

    with pytest.raises(RuntimeClosedError):
        readers.ask(compiled.SESSION, {"id": "a"})
