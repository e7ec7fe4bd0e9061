"""A projection follows the log, its rows and its position as one; what one raises stops that one, the event named."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from math import inf, nan
from pathlib import Path
from typing import Any, ClassVar

import pytest
from sqlalchemy import Column, Connection, MetaData, Table, Text, insert, select, text
from sqlalchemy.exc import DatabaseError

from reenact import (
    ConfigurationError,
    InvalidInputError,
    ProjectionFailedError,
    ProjectionNotFoundError,
    Projections,
    ProjectionsLockedError,
    ProjectionStatus,
    ReadModelBehindError,
    ReadModelError,
    RuntimeClosedError,
    StorageError,
)
from reenact.projections import ProjectionFailure, Row, on
from reenact.projections.views import hosted
from reenact.testing import wait_until
from tests.journal.server import Server
from tests.projections.histories import ListLog
from tests.started.disks import mount, mounted
from tests.views.support import (
    DoubleWords,
    Forgot,
    Said,
    Sneezed,
    WatchedLog,
    Words,
    caught_up,
    counted,
    found,
    project,
    say,
)


class Squeamish(Words):
    """Counts words, but for one."""

    name = "squeamish"
    shuns: ClassVar[str | None] = "ugh"

    @on(Said)
    def count(self, write: Connection, event: Said, row: Row) -> None:
        super().count(write, event, row)
        if event.word == self.shuns:
            raise ValueError(f"{event.word} is not said")


def status_of(projections: Projections, name: str = "words") -> ProjectionStatus:
    return next(one for one in projections.status() if one.name == name)


def test_tables_hold_what_the_log_says(url: str, log: WatchedLog) -> None:
    say(log, "a", "b", "a")
    with Projections.open(url, log, [Words()]) as projections:
        log.append("talk", Sneezed(), Forgot("b"), Said("c"))

        projections.wait_for(timeout=60)

        assert found(projections, Words) == (6, {"a": 2, "c": 1})
        assert projections.status() == [ProjectionStatus(name="words", version=1, position=6, lag=0, health="running")]


def test_what_nobody_waits_for_is_projected_all_the_same(url: str, log: WatchedLog) -> None:
    with Projections.open(url, log, [Words()]) as projections:
        say(log, "a")

        wait_until(lambda: found(projections, Words) == (1, {"a": 1}))


def test_a_log_that_tells_nobody_is_looked_at(tmp_path: Path) -> None:
    log = ListLog()
    with Projections.open(tmp_path, log, [Words()]) as projections:
        say(log, "a")

        wait_until(lambda: found(projections, Words) == (1, {"a": 1}))


def test_a_log_that_may_have_told_somebody_else_is_looked_at(url: str, log: WatchedLog) -> None:
    with Projections.open(url, log, [Words()]) as projections:
        ListLog.append(log, "talk", Said("a"))
        for watcher in log.watchers:
            watcher(0)

        wait_until(lambda: found(projections, Words) == (1, {"a": 1}))
    assert log.watchers == []


def test_they_go_on_where_they_were(url: str, log: WatchedLog) -> None:
    say(log, "a", "b")
    project(url, log, Words())
    say(log, "a")

    with Projections.open(url, log, [Words()]) as projections:
        assert found(projections, Words)[0] >= 2
        projections.wait_for(timeout=60)
        assert found(projections, Words) == (3, {"a": 2, "b": 1})


def test_an_event_that_cannot_be_projected_stops_its_projection_and_no_other(url: str, log: WatchedLog) -> None:
    say(log, "a", "b", "ugh", "a")
    with Projections.open(url, log, [Words(), Squeamish()]) as projections:
        projections.wait_for(timeout=60, of=Words)

        for _ in range(2):
            with pytest.raises(
                ProjectionFailedError, match=r"Said at position 3 \(talk\) .* by 'squeamish': ValueError"
            ):
                projections.wait_for(timeout=60, of=Squeamish)
        say(log, "c")
        projections.wait_for(timeout=60, of="words")

        assert found(projections, Words) == (5, counted(log.rows))
        with projections.read(Squeamish) as connection:
            assert dict(connection.execute(select(Squeamish.words)).all()) == {"a": 1, "b": 1}
        stopped = status_of(projections, "squeamish")
        assert (stopped.position, stopped.lag, stopped.health) == (2, 3, "stopped")
        assert stopped.failure == ProjectionFailure(
            reason="ValueError: ugh is not said", position=3, stream="talk", event_type="Said"
        )
        assert status_of(projections).health == "running"


def test_one_that_has_stopped_goes_on_when_it_was_mended(
    url: str, log: WatchedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(log, "ugh")
    with Projections.open(url, log, [Squeamish()]) as projections:
        wait_until(lambda: status_of(projections, "squeamish").health == "stopped")
        monkeypatch.setattr(Squeamish, "shuns", None)

        projections.retry("squeamish")

        projections.wait_for(timeout=60)
        assert status_of(projections, "squeamish").failure is None
        assert found(projections, Squeamish) == (1, {"ugh": 1})


def test_one_that_has_stopped_goes_on_with_mended_code_when_it_is_opened_again(
    url: str, log: WatchedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(log, "a", "ugh", "b")
    with Projections.open(url, log, [Squeamish()]) as projections, pytest.raises(ProjectionFailedError):
        projections.wait_for(timeout=60)
    monkeypatch.setattr(Squeamish, "shuns", None)

    with caught_up(url, log, Squeamish()) as projections:
        assert found(projections, Squeamish) == (3, {"a": 1, "ugh": 1, "b": 1})


class Ending(Words):
    """Does something that is not its own to do."""

    name = "ending"
    how: ClassVar[Callable[[Connection], object]] = Connection.commit

    @on(Said)
    def count(self, write: Connection, event: Said, row: Row) -> None:
        super().count(write, event, row)
        if event.word == "end":
            type(self).how(write)


def speak(*words: str) -> Callable[[Connection], object]:
    """Return what says this to the database."""
    return lambda write: [write.exec_driver_sql(word) for word in words]


def speak_behind(*words: str) -> Callable[[Connection], object]:
    """Return what says this to the database, past the library."""

    def to_driver(write: Connection) -> object:
        driver: Any = write.connection.driver_connection
        return [driver.execute(word) for word in words]

    return to_driver


@pytest.mark.parametrize(
    "how",
    [
        Connection.commit,
        Connection.rollback,
        Connection.close,
        speak("UPDATE reenact_progress SET position = 700"),
        speak("DROP TABLE reenact_progress"),
        speak("DELETE FROM reenact_progress"),
    ],
)
def test_a_function_cannot_end_the_transaction_nor_say_how_far_it_is(
    how: Callable[[Connection], object], url: str, log: WatchedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ending, "how", how)
    say(log, "a", "end")
    with Projections.open(url, log, [Ending()]) as projections:
        with pytest.raises(ProjectionFailedError, match="at position 2"):
            projections.wait_for(timeout=60)

        assert found(projections, Ending) == (1, {"a": 1})


@pytest.mark.parametrize(
    "how",
    [
        speak("COMMIT"),
        speak("COMMIT", "BEGIN"),
        speak("-- really\n /* yes */ rollback; "),
        speak_behind("COMMIT"),
        speak_behind("COMMIT", "BEGIN"),
        speak_behind("ROLLBACK", "BEGIN"),
    ],
)
def test_a_function_that_ends_the_transaction_behind_our_back_is_found_out(
    how: Callable[[Connection], object], url: str, log: WatchedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ending, "how", how)
    say(log, "a", "end")
    with Projections.open(url, log, [Ending()]) as projections:
        with pytest.raises(ProjectionFailedError, match=r"at position 2 .* mend it, and rebuild"):
            projections.wait_for(timeout=60)
        monkeypatch.setattr(Ending, "how", speak())
        projections.rebuild("ending")

        assert found(projections, Ending) == (2, {"a": 1, "end": 1})


def catch_within_the_transaction(write: Connection) -> None:
    with suppress(DatabaseError):
        write.execute(text("SELECT * FROM nowhere"))


def test_a_function_that_catches_an_error_of_postgresql_is_told_what_to_do(
    server: Server, log: WatchedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ending, "how", catch_within_the_transaction)
    say(log, "a", "end")
    with Projections.open(server.new_log(), log, [Ending()]) as projections:
        with pytest.raises(ProjectionFailedError, match=r"at position 2 .* write.begin_nested\(\)"):
            projections.wait_for(timeout=60)

        assert found(projections, Ending) == (1, {"a": 1})


def catch_within_a_part(write: Connection) -> None:
    with suppress(DatabaseError), write.begin_nested():
        write.execute(text("SELECT * FROM nowhere"))


def begin_and_take_back(write: Connection) -> None:
    write.begin_nested().rollback()


@pytest.mark.parametrize("how", [Connection.begin_nested, begin_and_take_back, catch_within_a_part])
def test_a_function_may_take_back_what_it_has_written_itself(
    how: Callable[[Connection], object], url: str, log: WatchedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ending, "how", how)
    say(log, "a", "end", "b")
    with caught_up(url, log, Ending()) as projections:
        assert found(projections, Ending) == (3, counted(log.rows))


def test_two_logs_in_one_database_cannot_have_the_same_tables(server: Server, log: WatchedLog) -> None:
    url = server.new_log().partition("?")[0]

    with pytest.raises(ConfigurationError, match="'a_own' has"):
        Projections.open(f"{url}?schema=a_own", log, [Words()])


def test_a_statement_that_the_database_refuses_is_a_fault_of_the_function(url: str, log: WatchedLog) -> None:
    class Wrong(Words):
        name = "wrong"

        @on(Said)
        def count(self, write: Connection, event: Said, row: Row) -> None:
            write.execute(text("SELECT * FROM nowhere"))

    say(log, "a")
    with (
        Projections.open(url, log, [Wrong()]) as projections,
        pytest.raises(ProjectionFailedError, match="nowhere"),
    ):
        projections.wait_for(timeout=60)


def test_tables_of_the_same_name_are_no_matter(url: str, log: WatchedLog) -> None:
    class Others(Words):
        name = "others"
        per_word = 10

    say(log, "a")
    with caught_up(url, log, Words(), Others()) as projections:
        assert found(projections, Words) == (1, {"a": 1})
        assert found(projections, Others) == (1, {"a": 10})


def test_what_is_read_cannot_be_written(url: str, log: WatchedLog) -> None:
    with Projections.open(url, log, [Words()]) as projections:
        with projections.read(Words) as connection, pytest.raises(DatabaseError, match=r"read.?only"):
            connection.execute(insert(Words.words).values(word="mine", times=1))

        assert found(projections, Words) == (0, {})


def test_a_reader_sees_one_moment_however_long_it_looks(url: str, log: WatchedLog) -> None:
    say(log, "a")
    with caught_up(url, log, Words()) as projections:
        with projections.read(Words) as connection:
            before = connection.execute(select(Words.words)).all()
            say(log, "a", "b")
            projections.wait_for(timeout=60)

            assert connection.execute(select(Words.words)).all() == before
        assert found(projections, Words) == (3, {"a": 2, "b": 1})


def test_a_name_that_is_nobody_s_is_told(url: str, log: WatchedLog) -> None:
    with Projections.open(url, log, [Words()]) as projections:
        with pytest.raises(ProjectionNotFoundError, match="projection 'others' does not exist"):
            projections.wait_for(of="others")
        with pytest.raises(ProjectionNotFoundError), projections.read("others"):
            pass
        with pytest.raises(ProjectionNotFoundError, match="'reenact'"):
            projections.rebuild()


def test_waiting_for_what_never_comes_ends_with_the_time(url: str, log: WatchedLog) -> None:
    with Projections.open(url, log, [Words()]) as projections, pytest.raises(ReadModelBehindError):
        projections.wait_for(5, timeout=0.01)


@pytest.mark.parametrize("timeout", [None, inf, 1e12])
def test_one_can_wait_as_long_as_it_takes(timeout: float | None, url: str, log: WatchedLog) -> None:
    with Projections.open(url, log, [Words()]) as projections, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(projections.wait_for, 1, timeout)
        wait_until(lambda: waiting.running() or waiting.done())
        say(log, "a")

        waiting.result(60)
        assert found(projections, Words) == (1, {"a": 1})


@pytest.mark.parametrize(("position", "timeout"), [("1", 1), (1.5, 1), (1, "1"), (1, nan), (1, True)])
def test_waiting_for_what_is_no_position_or_no_time_is_refused(
    position: Any,  # noqa: ANN401 - may be wrong
    timeout: Any,  # noqa: ANN401 - likewise
    tmp_path: Path,
) -> None:
    with (
        Projections.open(tmp_path / "views", WatchedLog(), [Words()]) as projections,
        pytest.raises(InvalidInputError, match=r"`position` must be a position|a timeout must be a number"),
    ):
        projections.wait_for(position, timeout)


def test_closed_projections_say_so(url: str, log: WatchedLog) -> None:
    projections = Projections.open(url, log, [Words()])
    for _ in range(2):
        projections.close()

    with pytest.raises(RuntimeClosedError), projections.read(Words):
        pass
    with pytest.raises(RuntimeClosedError):
        projections.wait_for(1)
    with pytest.raises(RuntimeClosedError):
        projections.rebuild("words")


def test_a_directory_has_one_keeper(tmp_path: Path, log: WatchedLog) -> None:
    with Projections.open(tmp_path, log, [Words()]), pytest.raises(ProjectionsLockedError, match=tmp_path.name):
        Projections.open(tmp_path, log, [Words()])

    Projections.open(tmp_path, log, [Words()]).close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reenact.projections.runner.PAUSES", (0.01, 0.01))


@pytest.mark.usefixtures("impatient")
def test_a_log_that_cannot_be_read_for_a_while_is_read_later(tmp_path: Path, log: WatchedLog) -> None:
    with Projections.open(tmp_path, log, [Words()]) as projections:
        log.error = StorageError("the disk does not answer")
        say(log, "a")
        wait_until(lambda: status_of(projections).health == "troubled")
        failure = status_of(projections).failure
        log.error = None

        wait_until(lambda: found(projections, Words) == (1, {"a": 1}))
        wait_until(lambda: status_of(projections).health == "running")

    assert failure == ProjectionFailure(reason="the log cannot be read: the disk does not answer")


@pytest.mark.usefixtures("impatient")
def test_tables_that_somebody_has_locked_are_written_later(
    tmp_path: Path, log: WatchedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.projections.generations.BUSY_TIMEOUT", 0.01)
    with Projections.open(tmp_path, log, [Words()]) as projections:
        other = sqlite3.connect(tmp_path / "words.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        say(log, "a")
        wait_until(lambda: status_of(projections).health == "troubled")
        other.execute("ROLLBACK")
        other.close()

        wait_until(lambda: found(projections, Words) == (1, {"a": 1}))


@pytest.mark.usefixtures("impatient")
def test_tables_that_found_no_space_are_written_when_there_is_some(
    tmp_path: Path, log: WatchedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Notes(Words):
        name = "notes"
        full: ClassVar[bool] = True

        @on(Said)
        def count(self, write: Connection, event: Said, row: Row) -> None:
            pages = write.exec_driver_sql("PRAGMA page_count").scalar_one()
            write.exec_driver_sql(f"PRAGMA max_page_count={pages if self.full else 100_000}")
            super().count(write, event, row)

    with Projections.open(tmp_path, log, [Notes()]) as projections:
        say(log, "long " * 10_000)
        wait_until(lambda: status_of(projections, "notes").health == "troubled")
        failure = status_of(projections, "notes").failure
        monkeypatch.setattr(Notes, "full", False)

        wait_until(lambda: found(projections, Notes) == (1, counted(log.rows)))

    assert failure is not None
    assert "full" in failure.reason
    assert failure.position is None


@pytest.mark.usefixtures("impatient")
def test_a_connection_that_is_lost_is_made_again(server: Server, log: WatchedLog) -> None:
    with Projections.open(server.new_log(), log, [Words()]) as projections:
        say(log, "a")
        projections.wait_for(timeout=60)
        server.terminate()
        say(log, "b")

        wait_until(lambda: found(projections, Words) == (2, {"a": 1, "b": 1}))


def test_a_server_that_is_not_there_is_a_typed_error(log: WatchedLog) -> None:
    with pytest.raises(ReadModelError, match="cannot be read or written"):
        Projections.open("postgresql://nobody@127.0.0.1:1/none", log, [Words()])


@pytest.mark.parametrize("damage", ["no database", "cut off", "missing", "empty", "without position"])
def test_a_damaged_file_is_made_anew(damage: str, tmp_path: Path, log: WatchedLog) -> None:
    say(log, *"abcabc" * 50)
    project(tmp_path, log, Words())
    path = tmp_path / "words.db"
    match damage:
        case "no database":
            path.write_bytes(b"This is not the file you are looking for." * 100)
        case "cut off":
            path.write_bytes(path.read_bytes()[:5000])
        case "missing":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case _:
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("DROP TABLE reenact_progress")
            connection.close()

    with caught_up(tmp_path, log, Words()) as projections:
        assert found(projections, Words) == (300, counted(log.rows))


@pytest.mark.no_cover
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("who", ["writer", "reader"])
def test_damage_in_a_large_file_is_mended_at_the_next_opening_once_it_was_met(
    who: str, tmp_path: Path, log: WatchedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.projections.generations.SMALL", 0)
    words = [f"word {number:04d}" for number in range(1500)]
    say(log, *words)
    project(tmp_path, log, Words())
    path = tmp_path / "words.db"
    whole = bytearray(path.read_bytes())
    middle = len(whole) // 2 // 4096 * 4096
    whole[middle : middle + 4 * 4096] = b"damage" * (4 * 4096 // 6) + b"...."
    path.write_bytes(whole)

    with Projections.open(tmp_path, log, [Words()]) as projections:
        assert status_of(projections).health == "running"
        if who == "writer":
            say(log, *words)
            wait_until(lambda: "malformed" in repr(status_of(projections).failure))
        else:
            with pytest.raises(DatabaseError, match="malformed"):
                found(projections, Words)

    with caught_up(tmp_path, log, Words()) as projections:
        assert found(projections, Words) == (log.head(), counted(log.rows))
    assert not list(tmp_path.glob("*suspect"))


def test_tables_of_another_log_or_of_one_that_was_longer_are_made_anew(url: str, log: WatchedLog) -> None:
    say(log, "a", "b", "c")
    project(url, log, Words())
    other = ListLog(1)
    say(other, "x", "y", "z", "z")

    for another in (log.until(2), other):
        with caught_up(url, another, Words()) as projections:
            assert found(projections, Words) == (another.head(), counted(another.rows))


def test_two_processes_keep_the_same_tables_and_count_nothing_twice(
    server: Server, log: WatchedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted.UserTables, "batch", 3)
    url = server.new_log()
    say(log, *"abc" * 30)
    with Projections.open(url, log, [Words()]) as here, Projections.open(url, log, [Words()]) as there:
        with ThreadPoolExecutor(2) as threads:
            waiting = [threads.submit(one.wait_for, None, 30) for one in (here, there)]
            for ended in waiting:
                ended.result(timeout=60)
        say(log, "d")
        for one in (here, there):
            one.wait_for(timeout=60)

        assert found(here, Words) == found(there, Words) == (91, counted(log.rows))


def test_who_looks_for_the_event_that_cannot_be_projected_counts_nothing_that_another_process_has_counted(
    server: Server, log: WatchedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(log, "a", "b", "c", "ugh")
    with Projections.open(server.new_log(), log, [Squeamish()]) as projections:
        place = projections._hosted["squeamish"]._place
        place.create(7, Squeamish.tables, 1, "")
        here, there = (hosted.UserTables(Squeamish(), place, log, 7) for _ in range(2))
        singly = here._apply_singly

        def be_overtaken(rows: Sequence[Row]) -> None:
            there.advance(2)
            singly(rows)

        monkeypatch.setattr(hosted, "MOMENT", 3600.0)
        monkeypatch.setattr(here, "_apply_singly", be_overtaken)
        with pytest.raises(ProjectionFailedError, match="position 4"):
            here.advance()

        place.point_to(7)
        with place.reading() as connection:
            rows: dict[str, int] = dict(connection.execute(select(Squeamish.words)).all())
        assert rows == {"a": 1, "b": 1, "c": 1}


def test_what_another_process_has_put_in_place_is_gone_on_with_or_told(server: Server, log: WatchedLog) -> None:
    url = server.new_log()
    say(log, "a")
    with Projections.open(url, log, [Words()]) as here, Projections.open(url, log, [Words()]) as there:
        there.rebuild("words")
        say(log, "b")
        here.wait_for(timeout=60)
        assert found(here, Words) == (2, {"a": 1, "b": 1})

        with Projections.open(url, log, [DoubleWords()]) as newer:
            newer.wait_for(timeout=60)
            say(log, "c")
            with pytest.raises(ReadModelError, match="another process has put tables of another version"):
                here.wait_for(timeout=60)
            newer.wait_for(timeout=60)
            assert found(newer, DoubleWords) == (3, {"a": 2, "b": 2, "c": 2})
            assert status_of(here).health == "stopped"


def test_a_type_of_the_database_is_the_user_s_to_choose(server: Server, log: WatchedLog) -> None:
    class Kinds(Words):
        name = "kinds"
        tables = MetaData()
        words = Table("words", tables, Column("word", Text, primary_key=True), Column("times", Text))

        @on(Said)
        def count(self, write: Connection, event: Said, row: Row) -> None:
            write.execute(text("INSERT INTO words VALUES (:word, :times)"), {"word": event.word, "times": "many"})

    say(log, "a")
    with Projections.open(server.new_log(), log, [Kinds()]) as projections:
        projections.wait_for(timeout=60)
        with projections.read("kinds") as connection:
            rows: list[Any] = list(connection.execute(text("SELECT word, times FROM words")).all())
        assert rows == [("a", "many")]


@pytest.mark.usefixtures("impatient")
def test_a_place_that_is_full_or_cannot_be_written_is_a_typed_error_and_goes_by(
    tmp_path: Path, log: WatchedLog
) -> None:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=1m", "tmpfs") as disk:
        say(log, "a")
        with caught_up(disk / "views", log, Words()) as projections:
            filler = disk / "filler"
            with pytest.raises(OSError, match="No space"):
                filler.write_bytes(b"x" * 2_000_000)
            say(log, *(f"word {number} " * 100 for number in range(100)))

            with pytest.raises(ReadModelError):
                projections.wait_for(timeout=60)
            with pytest.raises(ReadModelError):
                projections.rebuild("words")
            filler.unlink()
            wait_until(lambda: status_of(projections).lag == 0)
            projections.rebuild("words")
            assert found(projections, Words) == (101, counted(log.rows))

        mount("-o", "remount,ro", str(disk))
        for directory in ("views", "others"):
            with pytest.raises(ReadModelError, match=f"{directory} cannot be used for projections .*Read-only"):
                Projections.open(disk / directory, log, [Words()])
        mount("-o", "remount,rw", str(disk))
        with Projections.open(disk / "views", log, [Words()]) as projections:
            assert found(projections, Words) == (101, counted(log.rows))
