"""The runner keeps up with the log, serves who waits at once, and says so when it cannot."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reenact.domain.errors import RuntimeClosedError, StorageError
from reenact.domain.session.agent import ReceivedAnswer, TurnStarted
from reenact.projections.errors import ProjectionFailedError, ReadModelBehindError, ReadModelError
from reenact.projections.read_model.projection import ReadModelTables
from reenact.projections.read_model.queries import ReadModel
from reenact.projections.runner import PACE, Pace, Runner
from reenact.testing import wait_until
from tests.projections.histories import FaultyLog, ListLog, Recorded, World
from tests.projections.opened import connection_of, open_read_model, open_store, opened_at, tables_of

FOR_EVER = 3600.0


@pytest.fixture
def world() -> World:
    world = World()
    world.create_container("c")
    world.begin("a")
    return world


@pytest.fixture
def opened(place: str, world: World) -> Iterator[tuple[ReadModel, Runner]]:
    with opened_at(place, world.log) as opened:
        yield opened


@pytest.fixture
def still(tmp_path: Path, world: World) -> Iterator[Runner]:
    """Give a runner whose thread does nothing that it is not pressed to do."""
    store = open_store(tmp_path / "read.db")
    with Runner(world.log, ReadModelTables(world.log, store), pace=Pace(idle=FOR_EVER, seconds=FOR_EVER)) as runner:
        runner.catch_up()
        runner.start()
        yield runner


def test_it_is_up_to_date_once_it_is_open(opened: tuple[ReadModel, Runner], world: World) -> None:
    model, runner = opened

    assert runner.position == world.log.head()
    assert [agent.session_id for agent in model.agents()] == ["a"]


def test_who_waits_reads_what_was_written_though_nobody_notified(
    opened: tuple[ReadModel, Runner], world: World
) -> None:
    model, runner = opened

    runner.wait_for(world.say("a", "Read me"), timeout=60)

    assert [message.text for message in model.messages("a")] == ["Read me"]


def test_what_nobody_asks_for_is_projected_all_the_same(opened: tuple[ReadModel, Runner], world: World) -> None:
    _, runner = opened
    position = world.say("a")

    runner.notify(position)

    wait_until(lambda: runner.position == position)


def test_a_few_events_wait_for_more_and_many_do_not(still: Runner, world: World) -> None:
    before = still.position
    still.notify(world.say("a"))
    lagging = still.lag
    while world.log.head() < before + PACE.events:
        still.notify(world.say("a"))

    assert lagging == world.log.rows[before + 1].position - before
    wait_until(lambda: still.position == world.log.head())
    assert still.lag == 0


def test_a_log_that_goes_on_all_the_time_is_projected_within_the_bound(tmp_path: Path, world: World) -> None:
    engine = open_store(tmp_path / "read.db")
    pace = Pace(idle=FOR_EVER, seconds=0.05)
    with Runner(world.log, ReadModelTables(world.log, engine), pace=pace) as runner:
        runner.catch_up()
        runner.start()
        position = world.say("a")

        def goes_on() -> bool:
            runner.notify(world.say("a"))
            return runner.position >= position

        wait_until(goes_on)


def test_closing_leaves_nothing_to_be_projected(still: Runner, world: World) -> None:
    still.notify(world.say("a"))

    still.close()

    assert (still.lag, still.position) == (0, world.log.head())


def test_closing_projects_what_nobody_has_notified_it_of(still: Runner, world: World) -> None:
    position = world.say("a")

    still.close()

    assert still.position == position


def test_many_threads_read_their_own_writes(opened: tuple[ReadModel, Runner], world: World) -> None:
    model, runner = opened
    journal = threading.Lock()

    def write_and_read(number: int) -> bool:
        with journal:
            position = world.create(f"s{number}")
            runner.notify(position)
        runner.wait_for(position, timeout=60)
        return model.session(f"s{number}") is not None

    with ThreadPoolExecutor(16) as threads:
        assert all(threads.map(write_and_read, range(400)))


def test_waiting_for_an_event_that_comes_later_ends_when_it_comes(
    opened: tuple[ReadModel, Runner], world: World
) -> None:
    _, runner = opened
    position = world.log.head() + 2

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(runner.wait_for, position, 20)
        runner.notify(world.say("a"))

        assert waiting.result(timeout=60) is None
        assert runner.position == position


def test_waiting_for_an_event_that_never_comes_ends_with_the_time(
    opened: tuple[ReadModel, Runner], world: World
) -> None:
    _, runner = opened

    with pytest.raises(ReadModelBehindError) as behind:
        runner.wait_for(1000, timeout=0.01)

    assert (behind.value.position, behind.value.reached) == (1000, world.log.head())


def test_an_event_that_cannot_be_projected_stops_the_runner_and_is_named(
    opened: tuple[ReadModel, Runner], world: World
) -> None:
    model, runner = opened
    good = world.say("a")
    bad = world.log.append("session/a", TurnStarted("no such turn", 1))
    behind = world.create("b")

    for _ in range(2):
        with pytest.raises(ProjectionFailedError, match=f"TurnStarted at position {bad}") as failed:
            runner.wait_for(behind, timeout=60)
        assert failed.value.position == bad

    assert (runner.position, runner.health) == (good, "stopped")
    assert len(model.messages("a")) == 1
    assert model.session("b") is None


def test_the_thread_says_why_it_stops(
    opened: tuple[ReadModel, Runner], world: World, caplog: pytest.LogCaptureFixture
) -> None:
    _, runner = opened

    runner.notify(world.log.append("session/a", TurnStarted("no such turn", 1)))

    wait_until(lambda: any(said.startswith("a projection has stopped: the TurnStarted at") for said in caplog.messages))


def test_a_log_that_holds_what_cannot_be_projected_is_not_opened_and_nothing_is_left_open(place: str) -> None:
    log = ListLog()
    log.append("session/a", TurnStarted("no such turn", 1))

    with pytest.raises(ProjectionFailedError), opened_at(place, log):
        pass


def test_a_log_that_cannot_be_read_for_a_while_is_read_later(place: str) -> None:
    log = FaultyLog()
    world = World(log)
    with opened_at(place, log) as (model, runner):
        position = world.create("a")
        log.error = StorageError("the disk does not answer")

        with pytest.raises(ReadModelError, match="the disk does not answer"):
            runner.wait_for(position, timeout=60)
        health = runner.health
        log.error = None
        runner.wait_for(position, timeout=60)

        assert (health, runner.health) == ("troubled", "running")
        assert model.session("a") is not None


def test_tables_that_another_program_has_locked_are_written_later(tmp_path: Path, world: World) -> None:
    model, runner = open_read_model(tmp_path / "read.db", world.log)
    with model, runner:
        other = sqlite3.connect(tmp_path / "read.db", isolation_level=None)
        connection_of(runner).execute("PRAGMA busy_timeout=1")
        position = world.say("a")
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(ReadModelError, match="locked"):
            runner.wait_for(position, timeout=60)
        other.execute("ROLLBACK")
        other.close()
        runner.wait_for(position, timeout=60)

        assert len(model.messages("a")) == 1


def test_tables_that_found_no_space_are_written_when_there_is_some(tmp_path: Path, world: World) -> None:
    model, runner = open_read_model(tmp_path / "read.db", world.log)
    with model, runner:
        tables = connection_of(runner)
        (pages,) = tables.execute("PRAGMA page_count").fetchone()
        tables.execute(f"PRAGMA max_page_count={pages}")
        position = world.say("a", "A long story. " * 10_000)

        with pytest.raises(ReadModelError, match="full"):
            runner.wait_for(position, timeout=60)
        tables.execute("PRAGMA max_page_count=100000")
        runner.wait_for(position, timeout=60)

        assert len(model.messages("a")) == 1


def test_two_writers_of_the_same_tables_count_nothing_twice(tmp_path: Path, world: World) -> None:
    model, runner = open_read_model(tmp_path / "read.db", world.log)
    other = Runner(world.log, ReadModelTables(world.log, open_store(tmp_path / "read.db")))
    with model, runner, other:
        position = world.say("a")
        other.catch_up()

        runner.wait_for(position, timeout=60)
        assert len(model.messages("a")) == 1

        runner.wait_for(world.answer("a", ReceivedAnswer(stop_reason="end_turn")), timeout=60)
        other.wait_for(world.say("a", "Again"), timeout=60)
        assert [message.text for message in model.messages("a")] == ["Hello", "Again"]


def test_who_waits_for_one_who_projects_for_too_long_is_told(still: Runner, world: World) -> None:
    with still._applying, pytest.raises(ReadModelBehindError):
        still.wait_for(world.say("a"), timeout=0.01)


def test_who_waits_while_it_closes_is_told(opened: tuple[ReadModel, Runner]) -> None:
    _, runner = opened

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(runner.wait_for, 1000, 20)
        wait_until(lambda: runner._waiter_count == 1)
        runner.close()

        with pytest.raises(RuntimeClosedError):
            waiting.result(timeout=60)
    assert runner.health == "closed"


def test_a_closed_model_answers_no_more(opened: tuple[ReadModel, Runner]) -> None:
    model, runner = opened

    for _ in range(2):
        runner.close()
        model.close()

    with pytest.raises(RuntimeClosedError):
        model.containers()


def test_readers_and_a_close_in_the_midst_of_them_get_along(tmp_path: Path, world: World) -> None:
    world.say("a")
    world.answer("a", ReceivedAnswer(stop_reason="end_turn"))
    model, runner = open_read_model(tmp_path / "read.db", world.log)
    reading = threading.Barrier(17)

    def read(_: int) -> str:
        reading.wait()
        try:
            while model.messages("a"):
                pass
        except RuntimeClosedError:
            return "told"
        return "lost a message"

    with ThreadPoolExecutor(16) as threads:
        answers = [threads.submit(read, number) for number in range(16)]
        reading.wait()
        runner.close()
        model.close()

        assert {answer.result(timeout=60) for answer in answers} == {"told"}
    assert not model._readers._free


class SilentLog(ListLog):
    """A log that does not answer before it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.was_asked = threading.Event()

    def read_all(self, *, after: int, limit: int) -> Sequence[Recorded]:
        self.was_asked.set()
        self.may_answer.wait(60)
        return super().read_all(after=after, limit=limit)


def test_a_log_that_does_not_answer_holds_up_neither_who_waits_nor_the_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.projections.runner.GRACE", 0.05)
    log = SilentLog()
    world = World(log)
    model, runner = open_read_model(tmp_path / "read.db", log)
    log.was_asked.clear()
    log.may_answer.clear()
    position = world.create("a")

    with model:
        with pytest.raises(ReadModelBehindError):
            runner.wait_for(position, timeout=0.05)
        assert log.was_asked.wait(60)
        runner.close()
        assert not log.may_answer.is_set()

        log.may_answer.set()
        wait_until(lambda: not runner._thread.is_alive() and tables_of(runner).is_closed)


def test_a_batch_that_takes_long_is_ended_before_its_last_event(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.projections.read_model.projection.MOMENT", 0.0)
    store = open_store(tmp_path / "read.db")
    with Runner(world.log, ReadModelTables(world.log, store)) as runner:
        positions = [runner.position]
        while runner._projection.advance():
            positions.append(runner.position)

    assert positions == [0, *(row.position for row in world.log.rows)]
    model, runner = open_read_model(tmp_path / "read.db", world.log)
    with model, runner:
        assert [agent.session_id for agent in model.agents()] == ["a"]
