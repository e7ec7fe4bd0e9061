"""The runtime's own tables are made anew beside those that are read, and swapped at once."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reenact.domain.errors import RuntimeClosedError
from reenact.domain.session.agent import TurnStarted
from reenact.projections import Progress
from reenact.projections.errors import ProjectionFailedError
from reenact.projections.generations import Generations, clear
from reenact.projections.read_model.opening import open_read_model
from reenact.projections.read_model.projection import ReadModelTables
from reenact.projections.read_model.queries import ReadModel, Tables
from reenact.projections.read_model.rows import Connection
from reenact.projections.views.schemas import ProjectionSchemas
from reenact.testing import wait_until
from tests.projections.applying import numbered, said, words_of
from tests.projections.histories import World
from tests.projections.opened import numbers_at, set_version, tables_at


class CrashedError(BaseException):
    """The process is gone."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db.projections"


@pytest.fixture
def world() -> World:
    return words_of(30)


class Opened:
    """The tables, open."""

    def __init__(self, place: str, world: World) -> None:
        self.kept = open_read_model(place, world.log)
        self.model, self.runner = self.kept.model, self.kept.runner
        self.tables = self.kept._tables
        self.kept.start()

    def close(self) -> None:
        self.kept.close()
        self.model.close()


@pytest.fixture
def opened(place: str, world: World) -> Iterator[Opened]:
    opened = Opened(place, world)
    yield opened
    opened.close()


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReadModelTables, "batch", 5)


@pytest.mark.usefixtures("small_batches")
def test_new_tables_take_the_place_of_those_that_are_read(opened: Opened, world: World) -> None:
    told: list[Progress] = []

    opened.kept.rebuild(told.append)

    assert [one.done for one in told[:3]] == [0, 5, 10]
    assert told[-1] == Progress("reenact", world.log.head(), world.log.head())
    assert (opened.tables.live(), opened.tables.numbers()) == (2, [2])
    assert said(opened.kept) == numbered(30)
    opened.runner.wait_for(world.say("a", "word 30"), timeout=60)
    assert said(opened.kept) == numbered(31)


def test_they_are_found_when_they_are_opened_again(place: str, world: World) -> None:
    for number in range(3):
        opened = Opened(place, world)
        opened.kept.rebuild()
        assert said(opened.kept) == numbered(30 + number)
        opened.close()
        world.say("a", f"word {30 + number}")

    assert numbers_at(place) == [4]


@pytest.mark.no_cover
@pytest.mark.usefixtures("small_batches")
def test_readers_who_read_their_own_writes_miss_none_while_the_tables_are_made_anew_again_and_again(
    opened: Opened, world: World
) -> None:
    done, journal = threading.Event(), threading.Lock()

    def read() -> int:
        count = looks = 0
        while not done.is_set() or looks < 10:
            words = said(opened.kept)
            assert words == numbered(len(words))
            assert len(words) >= count
            count, looks = len(words), looks + 1
        return looks

    def write() -> None:
        for number in range(30, 120):
            with journal:
                position = world.say("a", f"word {number}")
                opened.runner.notify(position)
            opened.runner.wait_for(position, timeout=60)
            assert said(opened.kept) == numbered(number + 1)

    with ThreadPoolExecutor(4) as threads:
        readers = [threads.submit(read) for _ in range(3)]
        writer = threads.submit(write)
        try:
            for _ in range(4):
                opened.kept.rebuild()
            writer.result(timeout=60)
        finally:
            done.set()
        assert all(reader.result(timeout=60) >= 10 for reader in readers)

    assert opened.tables.numbers() == [5]
    assert said(opened.kept) == numbered(120)


def test_tables_of_another_version_are_there_until_those_of_this_one_are(
    place: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    Opened(place, world).close()
    set_version(place, 1)

    def crash(_tables: Tables, _number: int) -> None:
        raise CrashedError

    with monkeypatch.context() as patch:
        for kind in (Generations, ProjectionSchemas):
            patch.setattr(kind, "point_to", crash)
        with pytest.raises(CrashedError):
            open_read_model(place, world.log)
    assert numbers_at(place) == [1, 2]
    with tables_at(place) as tables, ReadModel(tables.store(1)) as model:
        assert [message.text for message in model.messages("a")] == numbered(30)

    opened = Opened(place, world)
    assert said(opened.kept) == numbered(30)
    assert opened.tables.numbers() == [2]
    opened.close()


def test_closing_ends_a_rebuilding_which_the_next_opening_goes_on_with(place: str, world: World) -> None:
    opened = Opened(place, world)
    reached = threading.Event()

    def close_meanwhile(_progress: Progress) -> None:
        reached.set()
        assert opened.kept._closing.wait(60)

    def rebuild() -> str:
        try:
            opened.kept.rebuild(close_meanwhile)
        except RuntimeClosedError:
            return "told"
        return "done"

    with ThreadPoolExecutor(1) as threads:
        rebuilding = threads.submit(rebuild)
        assert reached.wait(60)
        opened.close()

        assert rebuilding.result(timeout=60) == "told"
    assert numbers_at(place) == [1, 2]

    opened = Opened(place, world)
    wait_until(lambda: opened.tables.numbers() == [2])
    assert said(opened.kept) == numbered(30)
    opened.close()


def test_an_event_that_cannot_be_projected_leaves_the_tables_as_they_were(opened: Opened, world: World) -> None:
    bad = world.log.append("session-a", TurnStarted("no such turn", 1))

    with pytest.raises(ProjectionFailedError, match=f"TurnStarted at position {bad}"):
        opened.kept.rebuild()

    assert opened.tables.numbers() == [1]
    assert len(opened.model.messages("a")) == 30


def test_a_question_that_is_being_answered_keeps_its_tables(
    path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Opened(str(path.with_suffix("")), world)
    monkeypatch.setattr("reenact.projections.read_model.queries._PATIENCE", 0.0)
    readers = opened.model._readers
    lent = readers._borrow()
    cursor = lent[0].execute("SELECT count(*) FROM messages UNION ALL SELECT count(*) FROM sessions")
    assert cursor.fetchone() == (30,)

    opened.kept.rebuild()

    assert Generations(path).numbers() == [1, 2]
    assert cursor.fetchone() == (1,)
    readers._give_connection_back(lent)
    assert Generations(path).drop(1)
    assert Generations(path).numbers() == [2]
    opened.close()


def test_a_question_whose_tables_are_deleted_before_it_opens_them_is_asked_of_the_new_ones(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = opened.model._readers
    store = readers._store
    connect = store.connect

    def rebuild_first() -> Connection:
        opened.kept.rebuild()
        return connect()

    readers._close_free()
    monkeypatch.setattr(store, "connect", rebuild_first)

    assert len(opened.model.messages("a")) == 30
    assert opened.tables.numbers() == [2]


def test_a_model_that_turns_to_other_tables_keeps_no_connection_to_the_former(opened: Opened, world: World) -> None:
    opened.model.containers()
    model: ReadModel = opened.model

    opened.kept.rebuild()
    model.containers()

    assert [lent[1] for lent in model._readers._free] == [model._store]


def test_a_pointer_that_says_nothing_means_the_first_file(path: Path, world: World) -> None:
    Opened(str(path.with_suffix("")), world).close()
    path.with_name(f"{path.name}.live").write_bytes(b"what?")

    assert Generations(path).current() == path


def test_a_file_that_somebody_reads_is_not_cleared_away(path: Path, world: World) -> None:
    Opened(str(path.with_suffix("")), world).close()
    other = sqlite3.connect(path)
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM messages").fetchone()

    assert not clear(path)
    other.close()
    assert clear(path)
    assert clear(path)


def test_other_files_beside_the_tables_are_none_of_theirs(path: Path, world: World) -> None:
    Opened(str(path.with_suffix("")), world).close()
    for name in ("log.db.projections.backup", "log.db.projections.2.old", "log.db.projections.02", "unread.db.3"):
        path.with_name(name).write_bytes(b"")

    assert Generations(path).numbers() == [1]
