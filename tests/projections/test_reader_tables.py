"""Those who read a log find its tables, or make private ones, and never write anything of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from reenact.domain.errors import RuntimeClosedError
from reenact.projections.errors import QueryTooLongError, ReadModelError
from reenact.projections.generations import is_postgres
from reenact.projections.read_model.opening import open_read_model, tables_beside
from reenact.projections.read_model.queries import ReadModelProjection
from reenact.projections.read_model.reader_tables import ReaderTables
from reenact.projections.views.schemas import Schemas
from tests.projections.applying import words_of
from tests.projections.histories import ListLog, Recorded, World
from tests.projections.opened import set_version

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000) SELECT count(*) FROM n"


@pytest.fixture
def world() -> World:
    return words_of(10)


@pytest.fixture
def opened(place: str, world: World) -> Generator[Callable[..., ReaderTables]]:
    """Open the tables to read them, and close them in the end."""
    with ExitStack() as undo:

        def open_one(*, is_written: bool = False, log: ListLog | None = None, seconds: float = 60.0) -> ReaderTables:
            tables = ReaderTables(place, log or world.log, lambda: is_written, seconds=seconds)
            return undo.enter_context(tables)

        yield open_one


@contextmanager
def left(place: str, log: ListLog) -> Generator[ReadModelProjection]:
    """Have a runtime keep the tables, and close it."""
    kept = open_read_model(place, log)
    try:
        yield kept
    finally:
        kept.close()
        kept.model.close()


@pytest.fixture
def kept(place: str, world: World) -> Generator[ReadModelProjection]:
    """The tables as a runtime keeps them, up to date."""
    with left(place, world.log) as kept:
        yield kept


def questions(tables: ReaderTables) -> int:
    ((count,),) = tables.query("SELECT count(*) FROM messages WHERE role = :role", role="user")
    assert isinstance(count, int)
    return count


def test_what_a_writer_keeps_is_read_as_far_as_it_is(
    kept: ReadModelProjection, world: World, opened: Callable[..., ReaderTables]
) -> None:
    tables = opened(is_written=True)
    before = questions(tables), tables.position(), tables.lag()
    kept.runner._applying.acquire()  # it is slow
    world.say("a", "more")
    kept.runner.notify(world.log.head())
    meanwhile = questions(tables), tables.lag()
    kept.runner._applying.release()
    kept.runner.catch_up()

    tables.refresh()

    head = world.log.head()
    assert before == (10, head - 1, 0)
    assert meanwhile == (10, 1)
    assert (questions(tables), tables.position(), tables.lag()) == (11, head, 0)
    assert not tables.is_private
    assert len(tables.model.messages("a")) == 11


def test_without_tables_private_ones_are_made_that_go_on_and_are_gone_in_the_end(
    place: str, world: World, opened: Callable[..., ReaderTables], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tables = opened()
    world.say("a", "more")
    before = questions(tables), tables.lag()

    tables.refresh()

    assert before == (10, 1)
    assert (questions(tables), tables.position(), tables.lag()) == (11, world.log.head(), 0)
    assert tables.is_private
    assert len([*tmp_path.iterdir()]) == 1
    tables.close()
    assert [*tmp_path.iterdir()] == []
    assert not tables_beside(place).exists()
    with pytest.raises(RuntimeClosedError):
        questions(tables)


def test_tables_of_another_version_are_left_to_those_who_write(
    place: str, world: World, opened: Callable[..., ReaderTables]
) -> None:
    with left(place, world.log):
        pass
    set_version(place, 1)

    tables = opened(is_written=True)

    assert tables.is_private
    assert questions(tables) == 10


def test_tables_of_another_log_are_not_read(place: str, opened: Callable[..., ReaderTables]) -> None:
    with left(place, words_of(2).log):
        pass

    tables = opened(is_written=True, log=words_of(3, ListLog(first=1)).log)

    assert tables.is_private
    assert questions(tables) == 3


class OnlyLater(ListLog):
    """A log whose first events nobody reads again."""

    known = 0

    def read_all(self, *, after: int, limit: int) -> Sequence[Recorded]:
        assert after >= self.known, "these are in the tables already"
        return super().read_all(after=after, limit=limit)


def test_tables_that_nobody_moves_on_are_gone_on_with_in_a_copy(
    place: str, opened: Callable[..., ReaderTables]
) -> None:
    world = words_of(10, OnlyLater())
    with left(place, world.log) as kept:
        reached = kept.runner.position
    world.say("a", "more")
    assert isinstance(world.log, OnlyLater)
    world.log.known = reached - 1  # that the last one is there is looked at

    tables = opened(log=world.log)

    assert tables.is_private
    assert (questions(tables), tables.lag()) == (11, 0)
    with left(place, world.log) as kept:
        assert kept.runner.position == world.log.head()


def test_readers_notice_when_nobody_writes_any_more(
    place: str, world: World, opened: Callable[..., ReaderTables]
) -> None:
    writers = ["one"]
    with left(place, world.log), ReaderTables(place, world.log, lambda: bool(writers)) as tables:
        was_private = tables.is_private
        world.say("a", "more")  # the runtime has not been told, and is gone
        writers.clear()
        tables.refresh()

        assert (was_private, tables.is_private) == (False, True)
        assert (questions(tables), len(tables.model.messages("a"))) == (11, 11)


def test_nothing_can_be_written(kept: ReadModelProjection, opened: Callable[..., ReaderTables]) -> None:
    tables = opened(is_written=True)

    for statement in ("DELETE FROM turns", "CREATE TABLE more (a integer)"):
        with pytest.raises(ReadModelError):
            tables.query(statement)

    assert kept.model.messages("a") == tables.model.messages("a") != []


def test_a_question_that_takes_too_long_is_ended(
    kept: ReadModelProjection, opened: Callable[..., ReaderTables]
) -> None:
    tables = opened(is_written=True, seconds=0.05)

    with pytest.raises(QueryTooLongError, match=r"0\.05 seconds"):
        tables.query(ENDLESS)

    assert questions(opened(is_written=True)) == len(kept.model.messages("a"))


def test_a_mistake_in_a_question_is_no_matter_of_time(opened: Callable[..., ReaderTables]) -> None:
    with pytest.raises(ReadModelError, match="nothing") as failed:
        opened().query("SELECT 1 FROM nothing")

    assert not isinstance(failed.value, QueryTooLongError)


def test_tables_that_take_the_place_of_others_are_read(
    kept: ReadModelProjection, world: World, opened: Callable[..., ReaderTables]
) -> None:
    tables = opened(is_written=True)
    questions(tables)
    kept.rebuild()
    world.say("a", "more")
    kept.runner.catch_up()

    tables.refresh()

    assert not tables.is_private
    assert (questions(tables), tables.lag()) == (11, 0)


def test_tables_that_are_deleted_are_made_anew_for_the_reader(
    place: str, world: World, opened: Callable[..., ReaderTables]
) -> None:
    with left(place, world.log):
        pass
    tables = opened()
    was_private = tables.is_private
    if is_postgres(place):
        schemas = Schemas(place)
        with schemas.transaction() as connection:
            for name in (f"{schemas.base}_reenact_1", schemas.base):
                connection.exec_driver_sql(f"DROP SCHEMA {name} CASCADE")
        schemas.close()
    else:
        tables_beside(place).unlink()

    tables.refresh()

    assert (was_private, tables.is_private) == (False, True)
    assert questions(tables) == 10


def test_damaged_tables_are_not_read(tmp_path: Path, world: World) -> None:
    place = str(tmp_path / "log.db")
    tables_beside(place).write_bytes(b"nothing that SQLite knows" * 1000)

    with ReaderTables(place, world.log, lambda: True) as tables:
        assert tables.is_private
        assert questions(tables) == 10


def test_a_copy_of_damaged_tables_is_not_gone_on_with(tmp_path: Path, world: World) -> None:
    place = str(tmp_path / "log.db")
    with left(place, world.log):
        pass
    world.say("a", "more")
    with closing(sqlite3.connect(tables_beside(place))) as connection, connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute("UPDATE sqlite_master SET rootpage = 3 WHERE name = 'messages'")
    connection.close()

    with ReaderTables(place, world.log, lambda: False) as tables:
        assert questions(tables) == 11


def test_many_may_ask_while_the_tables_move(world: World, opened: Callable[..., ReaderTables]) -> None:
    tables = opened()

    def ask(_number: int) -> int:
        tables.refresh()
        return questions(tables)

    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(ask, range(40))
        for _ in range(10):
            world.say("a", "more")
        assert all(10 <= answer <= 20 for answer in answers)
    assert ask(0) == 20
