"""The check of the read model finds in PostgreSQL what it finds in SQLite."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact.projections.errors import ReadModelError
from reenact.projections.generations import is_postgres
from reenact.projections.verification.read_model_check import Difference, live_tables
from tests.projections.histories import World
from tests.projections.opened import change_at, opened_at, set_version, tables_at


@pytest.fixture
def world(place: str) -> World:
    """A history whose tables are at the place."""
    world = World()
    world.create_container("c", "name\x00\x01")
    world.begin("a")
    for number in range(5):
        world.say("a", f"word {number}")
    with opened_at(place, world.log):
        pass
    return world


def found(place: str, world: World) -> list[Difference]:
    with live_tables(place) as tables:
        assert tables is not None
        assert (tables.unlike, tables.position) == (None, world.log.head())
        return list(tables.differences(world.log))


def test_tables_that_are_as_the_log_has_them_do_not_differ(place: str, world: World) -> None:
    assert found(place, world) == []


def cannot(*_: object) -> bool:
    return False


def test_tables_where_nothing_can_be_written_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, place = World(), str(tmp_path / "log.db")
    world.create_container("c", "name")
    with opened_at(place, world.log):
        pass
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr("os.access", cannot)

    with live_tables(place) as tables:
        assert tables is not None
        assert list(tables.differences(world.log)) == []
        assert sorted(tmp_path.iterdir()) == before


def test_where_there_are_no_tables_nothing_is_compared_and_none_are_made(place: str) -> None:
    for _ in range(2):
        with live_tables(place) as tables:
            assert tables is None


def test_tables_that_were_made_anew_are_those_that_are_compared(place: str, world: World) -> None:
    with tables_at(place) as tables:
        tables.make(2)
        tables.settle(2)
        tables.point_to(2)

    with live_tables(place) as live:
        assert live is not None
        assert live.position == 0


@pytest.mark.parametrize(
    ("statement", "table", "problem"),
    [
        ("UPDATE sessions SET container_id = 'z'", "sessions", "says something else than the log in container_id"),
        ("DELETE FROM messages WHERE position = (SELECT min(position) FROM messages)", "messages", "is missing"),
        ("INSERT INTO containers VALUES (99, 'z', NULL, 1)", "containers", "follows from nothing in the log"),
        ("DROP INDEX turns_of_session", "turns_of_session", "the index is missing"),
        ("ALTER TABLE images RENAME TO pictures", "pictures", "the read model has no such table"),
        ("ALTER TABLE images ADD COLUMN more TEXT", "images", "the table is"),
    ],
)
def test_what_somebody_has_changed_is_found(place: str, world: World, statement: str, table: str, problem: str) -> None:
    change_at(place, 1, statement)

    differences = found(place, world)

    assert [problem in words for name, _, words in differences if name == table][:1] == [True], differences


def test_tables_of_another_version_or_unfinished_are_not_compared(place: str, world: World) -> None:
    set_version(place, 99)
    with live_tables(place) as tables:
        assert tables is not None
        assert "version 99" in str(tables.unlike)

    change_at(place, 1, f"DELETE FROM {'reenact_progress' if is_postgres(place) else 'progress'}")  # noqa: S608 - ours
    with live_tables(place) as tables:
        assert tables is not None
        assert "finished" in str(tables.unlike)


def test_rows_that_no_table_could_hold_are_a_typed_error(url: str) -> None:
    world = World()
    world.create_container("c")
    with opened_at(url, world.log):
        pass
    change_at(url, 1, "ALTER TABLE containers DROP CONSTRAINT containers_pkey")
    change_at(url, 1, "ALTER TABLE containers DROP CONSTRAINT containers_id_key")
    change_at(url, 1, "INSERT INTO containers SELECT * FROM containers")

    with pytest.raises(ReadModelError, match="UNIQUE"), live_tables(url):
        pass


def test_a_table_that_went_since_it_was_named_is_a_typed_error(url: str, world: World) -> None:
    with opened_at(url, world.log):
        pass
    change_at(url, 1, "DROP TABLE reenact_progress")

    with pytest.raises(ReadModelError, match="reenact_progress"), live_tables(url):
        pass
