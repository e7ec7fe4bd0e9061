"""The file beside the log is used if it fits, and made anew from the log if it does not."""

from __future__ import annotations

import logging
import resource
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reenact.domain.messages import Message
from reenact.projections.errors import ReadModelError
from reenact.projections.read_model.projection import ReadModelTables
from reenact.projections.runner import Runner
from tests.projections.histories import START, ListLog, World
from tests.projections.opened import connection_of, open_read_model, open_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "read.db"


@pytest.fixture
def world() -> World:
    world = World()
    world.create_container("c")
    world.begin("a")
    for _ in range(50):
        world.say("a", "Hello" * 20)
    return world


def read(path: Path, log: ListLog) -> list[Message]:
    """Open the read model and close it again; return the messages of session a."""
    model, runner = open_read_model(path, log)
    with model, runner:
        assert runner.position == log.head()
        return model.messages("a")


def made_anew(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_a_file_that_fits_is_used_and_goes_on(path: Path, world: World, caplog: pytest.LogCaptureFixture) -> None:
    read(path, world.log)
    inode = path.stat().st_ino
    world.say("a")

    assert len(read(path, world.log)) == 51
    assert path.stat().st_ino == inode
    assert made_anew(caplog) == []


def test_a_file_of_an_empty_log_is_used_when_the_log_has_grown(
    path: Path, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    read(path, ListLog())

    assert len(read(path, world.log)) == 50
    assert made_anew(caplog) == []


@pytest.mark.parametrize("damage", ["no database", "cut off", "overwritten", "empty", "without tables"])
def test_a_damaged_file_is_made_anew(path: Path, world: World, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    before = read(path, world.log)
    content = path.read_bytes()
    match damage:
        case "no database":
            path.write_bytes(b"This is not the file you are looking for." * 100)
        case "cut off":
            path.write_bytes(content[: len(content) // 2])
        case "overwritten":
            path.write_bytes(content[:8192] + b"\xa5" * (len(content) - 8192))
        case "empty":
            path.write_bytes(b"")
        case _:
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("DROP TABLE progress")
            connection.close()

    assert read(path, world.log) == before
    assert len(made_anew(caplog)) == 1


def test_damage_that_only_a_reader_finds_is_mended_at_the_next_opening(
    path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read(path, world.log)
    monkeypatch.setattr("reenact.projections.generations.SMALL", 0)
    with closing(sqlite3.connect(path)) as connection, connection:
        size: int = connection.execute("PRAGMA page_size").fetchone()[0]
        root: int = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'messages'").fetchone()[0]
    connection.close()
    content = path.read_bytes()
    path.write_bytes(content[: (root - 1) * size] + b"\xa5" * size + content[root * size :])

    with pytest.raises(ReadModelError, match="malformed"):
        read(path, world.log)

    assert read(path, world.log) == before


def test_a_file_of_another_version_is_made_anew(path: Path, world: World, caplog: pytest.LogCaptureFixture) -> None:
    before = read(path, world.log)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE progress SET version = 99")
        connection.execute("DROP TABLE messages")
    connection.close()

    assert read(path, world.log) == before
    assert "version 99" in made_anew(caplog)[0]


def test_a_file_that_is_ahead_of_its_log_is_made_anew(
    path: Path, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    read(path, world.log)

    assert len(read(path, world.log.until(21))) == 16
    assert "ahead" in made_anew(caplog)[0]


@pytest.mark.parametrize("first", [START, START + 1])
def test_a_file_of_another_log_is_made_anew(
    path: Path, world: World, first: int, caplog: pytest.LogCaptureFixture
) -> None:
    read(path, world.log)
    other = World(ListLog(first))
    other.begin("a")
    while other.log.head() < world.log.head() + 10:
        other.say("a", "Other")

    assert {message.text for message in read(path, other.log)} == {"Other"}
    assert "another log" in made_anew(caplog)[0]


def test_a_log_restored_from_a_backup_that_went_another_way_is_noticed(
    path: Path, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    read(path, world.log)
    restored = world.log.until(21)
    other = World(restored)
    for number in range(60):
        other.create_container(f"new{number}")

    assert len(read(path, restored)) == 16
    assert len(made_anew(caplog)) == 1


def test_what_is_left_of_a_file_that_is_gone_does_no_harm(path: Path, world: World) -> None:
    before = read(path, world.log)
    path.with_name("read.db-wal").write_bytes(b"left over" * 1000)
    path.unlink()

    assert read(path, world.log) == before


def test_a_copy_taken_in_mid_flight_goes_on_and_counts_nothing_twice(
    path: Path, tmp_path: Path, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(path)
    copies: list[Path] = []
    with Runner(world.log, ReadModelTables(world.log, store)) as runner:
        while runner._projection.advance(7):
            copies.append(tmp_path / f"copy{len(copies)}")
            copies[-1].mkdir()
            for name in tmp_path.glob("read.db*"):
                shutil.copy(name, copies[-1])

    for copy in copies:
        assert len(read(copy / "read.db", world.log)) == 50
    assert len(copies) > 5
    assert made_anew(caplog) == []


@pytest.mark.parametrize("where", ["a folder", "nowhere"])
def test_a_file_that_cannot_be_written_is_a_typed_error(tmp_path: Path, world: World, where: str) -> None:
    path = tmp_path / "read.db" if where == "a folder" else tmp_path / "missing" / "read.db"
    if where == "a folder":
        path.mkdir()

    with pytest.raises(ReadModelError):
        open_read_model(path, world.log)


def test_a_file_on_a_full_disk_is_an_error_that_says_so(path: Path, world: World) -> None:
    read(path, world.log)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))  # as on a full disk, no file can become larger
    try:
        with pytest.raises(ReadModelError, match="no space is left"):
            open_read_model(path, world.log)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert len(read(path, world.log)) == 50


def test_the_write_ahead_log_goes_home_when_it_has_grown(
    path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = 60
    monkeypatch.setattr("reenact.projections.generations.CHECKPOINT_PAGES", pages)
    store = open_store(path)
    with Runner(world.log, ReadModelTables(world.log, store)) as runner:
        (page,) = connection_of(runner).execute("PRAGMA page_size").fetchone()
        for _ in range(30):
            for _ in range(20):
                world.say("a", "A long story. " * 100)
            runner.catch_up()
        grown = path.with_name("read.db-wal").stat().st_size
        home = path.stat().st_size

    assert home > 2 * pages * page
    assert grown < 2 * pages * page
