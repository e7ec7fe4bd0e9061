"""Tables are made anew beside those that are read, and swapped at once: no reader ever sees a half of anything."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import pytest
from sqlalchemy import Connection, select

from reenact import (
    ProjectionFailedError,
    ProjectionNotReadyError,
    Projections,
    ReadModelBehindError,
    ReadModelError,
    RuntimeClosedError,
    StorageError,
)
from reenact.projections import Progress, Row, on
from reenact.projections.generations import Generations
from reenact.projections.views import hosted, transactions
from reenact.projections.views.files import Files
from reenact.projections.views.hosted import OwnPlace, UserProjection
from reenact.projections.views.schemas import ProjectionSchemas
from reenact.testing import wait_until
from tests.journal.server import Server
from tests.projections.histories import ListLog, Recorded
from tests.views.support import (
    DoubleWords,
    LastWords,
    Said,
    WatchedLog,
    Words,
    caught_up,
    counted,
    expected,
    found,
    last_said,
    project,
    say,
)


class Gate:
    """Holds whoever comes to it until it is opened; closed from the start."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def pass_through(self) -> None:
        self.reached.set()
        assert self.opened.wait(60)


class GatedLog(WatchedLog):
    """A log that can be read behind a position only when a gate is open."""

    gate: Gate | None = None
    behind = 0
    is_broken = False

    def read_all(self, *, after: int, limit: int) -> Sequence[Recorded]:
        is_rebuilding = threading.current_thread().name.startswith(("rebuild", "reenact-rebuild"))
        if self.is_broken and is_rebuilding:
            raise StorageError("the disk does not answer")
        gate = self.gate
        if gate is not None and is_rebuilding:
            limit = min(limit, 4)
            if after >= self.behind:
                gate.pass_through()
            else:  # on a busy machine, less may have been taken in at a time
                limit = min(limit, self.behind - after)
        return super().read_all(after=after, limit=limit)


@pytest.fixture
def log() -> GatedLog:
    return GatedLog()


def place_of(projections: Projections, name: str = "words") -> OwnPlace:
    return projections._hosted[name]._place


def generations(projections: Projections, name: str = "words") -> list[int]:
    return place_of(projections, name).numbers()


def on_a_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, name="rebuild", daemon=True)
    thread.start()
    return thread


def test_rebuilt_tables_say_the_same_and_the_former_are_gone(url: str, log: GatedLog) -> None:
    say(log, *"abcab")
    told: list[Progress] = []
    with caught_up(url, log, Words()) as projections:
        projections.rebuild("words", progress=told.append)
        projections.rebuild(Words)

        assert found(projections, Words) == (5, counted(log.rows))
        assert generations(projections) == [3]
        say(log, "d")
        projections.wait_for(timeout=60)
        assert found(projections, Words) == (6, counted(log.rows))
    assert told[0] == Progress("words", 0, 5)
    assert told[-1] == Progress("words", 5, 5)


@pytest.mark.no_cover
def test_readers_see_whole_tables_while_they_are_rebuilt_and_written_again_and_again(
    url: str, log: GatedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted.UserTables, "batch", 7)
    say(log, *"abcde" * 10)
    done = threading.Event()
    backwards: list[tuple[int, int]] = []

    def read() -> int:
        reached = looks = 0
        while not done.is_set() or looks < 10:
            position, rows = found(projections, Words)
            assert rows == counted(log.rows[:position])
            if position < reached:
                backwards.append((reached, position))
            reached, looks = position, looks + 1
        return looks

    def write() -> None:
        for number in range(120):
            say(log, "abcdef"[number % 6])
            if number % 40 == 0:
                projections.wait_for(timeout=60)

    with Projections.open(url, log, [Words()]) as projections, ThreadPoolExecutor(4) as threads:
        readers = [threads.submit(read) for _ in range(3)]
        writer = threads.submit(write)
        try:
            for _ in range(4):
                projections.rebuild("words")
            writer.result(timeout=60)
        finally:
            done.set()
        assert all(reader.result(timeout=60) >= 10 for reader in readers)
        projections.wait_for(timeout=60)

        assert found(projections, Words) == (log.head(), counted(log.rows))
        wait_until(lambda: generations(projections) == [5])
    assert backwards == []


def test_the_live_tables_go_on_while_others_are_made(url: str, log: GatedLog) -> None:
    say(log, *"abcdefgh")
    with caught_up(url, log, Words()) as projections:
        log.gate, log.behind = Gate(), 4
        rebuilding = on_a_thread(lambda: projections.rebuild("words"))
        assert log.gate.reached.wait(60)
        say(log, "z")
        projections.wait_for(timeout=60)
        (status,) = projections.status()

        assert found(projections, Words) == (9, counted(log.rows))
        assert (status.health, status.rebuild) == ("running", Progress("words", 4, 8))
        log.gate.opened.set()
        rebuilding.join(60)
        assert found(projections, Words) == (9, counted(log.rows))
        assert projections.status()[0].rebuild is None


def test_a_reader_of_the_former_tables_keeps_them_until_it_is_done(url: str, log: GatedLog) -> None:
    say(log, "a")
    with caught_up(url, log, Words()) as projections:
        with projections.read(Words) as connection:
            before = connection.execute(select(Words.words)).all()
            projections.rebuild("words")
            say(log, "b")
            projections.wait_for(timeout=60)

            assert connection.execute(select(Words.words)).all() == before
            assert generations(projections) == [1, 2]
        assert found(projections, Words) == (2, {"a": 1, "b": 1})
    with Projections.open(url, log, [Words()]) as projections:
        assert generations(projections) == [2]


def test_who_asks_while_it_is_rebuilt_waits_for_that(url: str, log: GatedLog) -> None:
    say(log, *"abcdefgh")
    with caught_up(url, log, Words()) as projections:
        log.gate = Gate()
        first = on_a_thread(lambda: projections.rebuild("words"))
        assert log.gate.reached.wait(60)
        second = on_a_thread(lambda: projections.rebuild("words"))
        log.gate.opened.set()
        first.join(60)
        second.join(60)

        assert place_of(projections).live() == 2


def test_what_was_cut_short_by_closing_is_gone_on_with(url: str, log: GatedLog) -> None:
    say(log, *"abcdefghabcdefgh")
    with caught_up(url, log, Words()) as projections:
        log.gate, log.behind = Gate(), 4
        cut: list[BaseException] = []

        def rebuild() -> None:
            try:
                projections.rebuild("words")
            except RuntimeClosedError as error:
                cut.append(error)

        rebuilding = on_a_thread(rebuild)
        assert log.gate.reached.wait(60)
        closing = on_a_thread(projections.close)
        wait_until(projections._hosted["words"]._closing.is_set)
        log.gate.opened.set()
        closing.join(60)
        rebuilding.join(60)
    assert len(cut) == 1
    log.gate, log.behind = Gate(), 16
    log.gate.opened.set()

    with Projections.open(url, log, [Words()]) as projections:
        wait_until(lambda: place_of(projections).live() == 2)
        wait_until(lambda: generations(projections) == [2])
        assert found(projections, Words) == (16, counted(log.rows))


class CrashedError(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("when", ["before the pointer is moved", "after the pointer was moved"])
def test_a_crash_at_the_swap_leaves_the_one_or_the_other(
    when: str, url: str, log: GatedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(log, *"abcdefgh")
    with caught_up(url, log, Words()) as projections:
        place = place_of(projections)
        move = place.point_to

        def crash(number: int) -> None:
            if when.startswith("after"):
                move(number)
            raise CrashedError

        monkeypatch.setattr(place, "point_to", crash)
        with pytest.raises(CrashedError):
            projections.rebuild("words")
        assert found(projections, Words) == (8, counted(log.rows))

    with Projections.open(url, log, [Words()]) as projections:
        wait_until(lambda: generations(projections) == [2])
        assert found(projections, Words) == (8, counted(log.rows))


def test_a_raised_version_makes_new_tables_and_the_former_serve_meanwhile(url: str, log: GatedLog) -> None:
    say(log, *"abab")
    project(url, log, Words())
    log.gate = Gate()

    with Projections.open(url, log, [DoubleWords()]) as projections:
        assert log.gate.reached.wait(60)
        say(log, "c")
        (meanwhile,) = projections.status()
        assert found(projections, DoubleWords) == (4, {"a": 2, "b": 2})
        assert (meanwhile.version, meanwhile.position, meanwhile.lag) == (1, 4, 1)
        assert (meanwhile.health, meanwhile.rebuild) == ("rebuilding", Progress("words", 0, 4))
        with pytest.raises(ReadModelBehindError):
            projections.wait_for(timeout=0.01)
        log.gate.opened.set()
        projections.wait_for(timeout=60)

        assert found(projections, DoubleWords) == (5, {"a": 4, "b": 4, "c": 2})
        assert projections.status()[0].version == 2


def test_tables_of_another_form_are_not_served_as_if_they_were_this_version_s(url: str, log: GatedLog) -> None:
    say(log, *"abab")
    project(url, log, Words())
    log.gate = Gate()

    with Projections.open(url, log, [LastWords()]) as projections:
        assert log.gate.reached.wait(60)
        with (
            pytest.raises(ProjectionNotReadyError, match="of version 1, and of another form than those of version 3"),
            projections.read(LastWords),
        ):
            pass
        log.gate.opened.set()
        projections.wait_for(timeout=60)

        assert found(projections, LastWords) == (4, last_said(log.rows))


def test_a_version_that_was_begun_and_is_not_wanted_any_more_is_let_go(url: str, log: GatedLog) -> None:
    say(log, *"abcdefghabcdefgh")
    project(url, log, Words())
    log.gate, log.behind = Gate(), 4
    with Projections.open(url, log, [DoubleWords()]) as projections:
        assert log.gate.reached.wait(60)
        projections._hosted["words"]._closing.set()  # as closing does, which waits for it
        log.gate.opened.set()
    log.gate = None

    with caught_up(url, log, LastWords()) as projections:
        assert found(projections, LastWords) == (16, expected(LastWords, log.rows))
        wait_until(lambda: len(generations(projections)) == 1)


class Picky(Words):
    """Counts words, but for those that it shuns."""

    shuns: ClassVar[frozenset[str]] = frozenset()

    @on(Said)
    def count(self, write: Connection, event: Said, row: Row) -> None:
        if event.word in self.shuns:
            raise ValueError(f"{event.word} is not said")
        super().count(write, event, row)


def test_a_rebuilding_that_fails_names_the_event_and_leaves_the_live_tables_alone(
    url: str, log: GatedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(log, *"abc")
    with caught_up(url, log, Picky()) as projections:
        monkeypatch.setattr(Picky, "shuns", frozenset("b"))

        with pytest.raises(ProjectionFailedError, match="Said at position 2"):
            projections.rebuild("words")
        assert generations(projections) == [1]
        say(log, "d")
        projections.wait_for(timeout=60)
        assert found(projections, Picky) == (4, counted(log.rows))


def test_a_new_version_that_fails_is_stopped_and_mended_by_another(
    url: str, log: GatedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PickyAgain(Picky):
        version = 2

    say(log, *"abc")
    project(url, log, Picky())
    monkeypatch.setattr(Picky, "shuns", frozenset("b"))

    with Projections.open(url, log, [PickyAgain()]) as projections:
        with pytest.raises(ProjectionFailedError, match="Said at position 2"):
            projections.wait_for(timeout=60)
        (stopped,) = projections.status()
        assert (stopped.health, stopped.version, stopped.position) == ("stopped", 1, 3)
        assert stopped.failure is not None
        assert stopped.failure.position == 2
        assert found(projections, PickyAgain) == (3, counted(log.rows))
        monkeypatch.setattr(Picky, "shuns", frozenset[str]())
        projections.retry("words")
        projections.wait_for(timeout=60)
        assert projections.status()[0].version == 2


def test_one_that_has_stopped_is_started_again_by_a_rebuilding_with_mended_code(
    url: str, log: GatedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Picky, "shuns", frozenset("b"))
    say(log, *"abc")
    with Projections.open(url, log, [Picky()]) as projections:
        with pytest.raises(ProjectionFailedError):
            projections.wait_for(timeout=60)
        monkeypatch.setattr(Picky, "shuns", frozenset[str]())

        projections.rebuild("words")
        say(log, "d")
        projections.wait_for(timeout=60)

        assert found(projections, Picky) == (4, counted(log.rows))
        assert projections.status()[0].health == "running"


def test_a_pointer_that_cannot_be_moved_changes_nothing_and_the_next_try_goes_on(
    tmp_path: Path, log: GatedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(log, *"abcdefgh")
    told: list[Progress] = []
    with caught_up(tmp_path / "views", log, Words()) as projections:
        with monkeypatch.context() as patch:
            patch.setattr("reenact.projections.generations.os.fsync", _no_space)
            with pytest.raises(ReadModelError, match="no space"):
                projections.rebuild("words")
        assert found(projections, Words) == (8, counted(log.rows))

        projections.rebuild("words", progress=told.append)

        assert told[0] == Progress("words", 8, 8)
        assert generations(projections) == [2]


def _no_space(_: int) -> None:
    raise OSError(28, "no space left on device")


@pytest.mark.parametrize("progress", [ZeroDivisionError])
def test_who_cannot_bear_the_progress_is_told_what_it_raised(
    progress: type[Exception], url: str, log: GatedLog
) -> None:
    def hear(_: Progress) -> None:
        raise progress

    say(log, "a")
    with caught_up(url, log, Words()) as projections:
        with pytest.raises(progress):
            projections.rebuild("words", progress=hear)

        projections.rebuild("words")
        assert found(projections, Words) == (1, {"a": 1})


def test_a_log_that_grows_while_its_tables_are_made_is_caught_up_with(
    url: str, log: GatedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.projections.rebuilding.NEAR", 2)
    monkeypatch.setattr(hosted.UserTables, "batch", 5)
    say(log, *"abcdefgh")

    def grow(_: Progress) -> None:
        with suppress(IndexError):
            say(log, *more.pop())

    more = ["abc" * 4, "abcd" * 2]
    with Projections.open(url, log, [Words()]) as projections:
        projections.rebuild("words", progress=grow)
        projections.wait_for(timeout=60)

        assert found(projections, Words) == (28, counted(log.rows))


def test_an_empty_log_is_rebuilt_too(url: str) -> None:
    with Projections.open(url, ListLog(), [Words()]) as projections:
        projections.rebuild("words")

        assert found(projections, Words) == (0, {})


def test_tables_of_a_new_version_are_not_read_before_they_have_come_as_far_as_the_former(
    tmp_path: Path, log: GatedLog
) -> None:
    say(log, *"abcdefgh")
    project(tmp_path, log, Words())
    place = Files(tmp_path)
    hosted = UserProjection(DoubleWords(), place.of("words"), log)

    hosted._make_live(hosted._begin_or_resume())

    with hosted.read() as connection:
        assert transactions.read_progress(connection).position == 8
    hosted.close()
    place.close()


def test_new_tables_that_cannot_be_made_for_a_while_are_made_later(
    url: str, log: GatedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.projections.rebuilding.PAUSES", (0.01, 0.01))
    say(log, *"abab")
    project(url, log, Words())
    log.is_broken = True

    with Projections.open(url, log, [DoubleWords()]) as projections:
        wait_until(lambda: projections.status()[0].health == "troubled")
        (troubled,) = projections.status()
        assert found(projections, DoubleWords) == (4, {"a": 2, "b": 2})
        log.is_broken = False
        projections.wait_for(timeout=60)

        assert found(projections, DoubleWords) == (4, {"a": 4, "b": 4})
        wait_until(lambda: projections.status()[0].failure is None)
    assert troubled.failure is not None
    assert "the disk does not answer" in troubled.failure.reason


def test_who_waits_for_a_new_version_while_it_is_closed_is_told(tmp_path: Path, log: GatedLog) -> None:
    say(log, *"abab")
    project(tmp_path, log, Words())
    log.gate = Gate()

    with Projections.open(tmp_path, log, [DoubleWords()]) as projections, ThreadPoolExecutor(1) as threads:
        assert log.gate.reached.wait(60)
        waiting = threads.submit(projections.wait_for, None, 20)
        closing = on_a_thread(projections.close)
        with pytest.raises(RuntimeClosedError):
            waiting.result(timeout=60)
        log.gate.opened.set()
        closing.join(60)


def test_a_generation_that_goes_while_a_reader_comes_to_it_is_no_matter(
    server: Server, log: GatedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(log, "a")
    with Projections.open(server.new_log(), log, [Words()]) as projections:
        projections.rebuild("words")
        projections.wait_for(timeout=60)
        place = place_of(projections)
        assert isinstance(place, ProjectionSchemas)
        find, seen = place.find_live, [1, 1]

        def see_the_former_first(connection: Connection) -> int | None:
            return seen.pop() if seen else find(connection)

        monkeypatch.setattr(place, "find_live", see_the_former_first)

        assert found(projections, Words) == (1, {"a": 1})
        assert seen == []


def test_tables_that_cannot_be_read_are_a_typed_error(tmp_path: Path, log: GatedLog) -> None:
    with Projections.open(tmp_path, log, [Words()]) as projections:
        (tmp_path / "words.db").rename(tmp_path / "gone")
        with pytest.raises(ReadModelError, match="cannot be read or written"), projections.read(Words):
            pass
        (tmp_path / "gone").rename(tmp_path / "words.db")


def test_tables_that_cannot_be_put_in_place_at_first_leave_nothing_open(
    tmp_path: Path, log: GatedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_files: Generations, _number: int) -> None:
        raise ReadModelError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Generations, "point_to", fail)
        with pytest.raises(ReadModelError, match="no space"):
            Projections.open(tmp_path, log, [Words()])

    say(log, "a")
    with caught_up(tmp_path, log, Words()) as projections:
        assert found(projections, Words) == (1, {"a": 1})
