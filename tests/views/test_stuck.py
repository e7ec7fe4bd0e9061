"""A function that raises what it likes is a fault with a name; one that does not return holds up nobody but itself."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import pytest
from sqlalchemy import Connection

from reenact import Image, ProjectionFailedError, Projections, ReadModelBehindError, Runtime, RuntimeClosedError
from reenact.projections import Projection, ProjectionFailure, Row, on
from reenact.projections.events import ImageRegistered
from reenact.testing import MockEnvironmentFactory, wait_until
from tests.logs import log_at
from tests.projections.histories import Recorded
from tests.views.support import DoubleWords, Said, WatchedLog, Words, caught_up, counted, found, say
from tests.views.test_following import status_of

LONG = 60.0
"""Seconds after which a test would be over, and have failed."""


@pytest.fixture(autouse=True)
def door() -> Generator[threading.Event]:
    """What stuck functions wait for; afterwards none of them runs any more."""
    door = Stuck.door = threading.Event()
    Stuck.reached = threading.Event()
    yield door
    door.set()
    wait_until(lambda: not [one for one in threading.enumerate() if one.name.startswith("reenact-")])


class Stuck(Words):
    """Counts words, and waits at a door for one of them."""

    name = "stuck"
    door: ClassVar[threading.Event]
    reached: ClassVar[threading.Event]

    @on(Said)
    def count(self, write: Connection, event: Said, row: Row) -> None:
        super().count(write, event, row)
        if event.word == "stop":
            self.reached.set()
            self.door.wait(LONG)


class Stumbling(Words):
    """Raises something at one of the words."""

    name = "stumbling"
    over: ClassVar[BaseException] = ValueError()

    @on(Said)
    def count(self, write: Connection, event: Said, row: Row) -> None:
        super().count(write, event, row)
        if event.word == "stone":
            raise self.over


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("nobody can say this")


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """What is not Unicode cannot be sent from one process of tests to another."""
    caplog.set_level("CRITICAL", "reenact.projections")


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    ("over", "reason"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError(), "CancelledError:"),
        (KeyboardInterrupt(), "KeyboardInterrupt:"),
        (UnspeakableError(), "UnspeakableError, whose message cannot be read"),
        (ValueError("half \ud800 a\n letter"), "ValueError: half \\ud800 a letter"),
    ],
    ids=["exit", "cancelled", "interrupt", "unspeakable", "surrogate"],
)
def test_whatever_a_function_raises_stops_its_projection_and_is_told(
    over: BaseException,
    reason: str,
    url: str,
    log: WatchedLog,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Stumbling, "over", over)
    say(log, "a", "stone", "b")
    with Projections.open(url, log, [Stumbling(), Words()]) as projections:
        wait_until(lambda: status_of(projections, "stumbling").health == "stopped")

        with pytest.raises(ProjectionFailedError, match=r"Said at position 2 \(talk\)"):
            projections.wait_for(timeout=60, of=Stumbling)
        projections.wait_for(timeout=60, of=Words)

        told = status_of(projections, "stumbling")
        assert told.failure == ProjectionFailure(reason=reason, position=2, stream="talk", event_type="Said")
        assert (told.position, found(projections, Stumbling)) == (1, (1, {"a": 1}))


def test_a_program_that_is_ended_in_a_rebuilding_is_a_fault_of_the_function_too(
    tmp_path: Path, log: WatchedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(log, "a")
    with caught_up(tmp_path, log, Stumbling()) as projections:
        say(log, "stone")
        monkeypatch.setattr(Stumbling, "over", SystemExit(3))

        with pytest.raises(ProjectionFailedError, match="SystemExit: 3"):
            projections.rebuild("stumbling")

        monkeypatch.setattr(Stumbling, "over", KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            projections.rebuild("stumbling")  # on the main thread it is a person's


class OddLog(WatchedLog):
    """A log that fails in its own way for a while."""

    def head(self) -> int:
        if self.error is not None:
            raise self.error
        return super().head()


@pytest.mark.parametrize("error", [RuntimeClosedError("the log is closed"), KeyError("odd"), SystemExit()])
def test_a_log_that_fails_in_its_own_way_is_trouble_and_not_the_end(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.projections.runner.PAUSES", (0.01, 0.01))
    monkeypatch.setattr("reenact.projections.rebuilding.PAUSES", (0.01, 0.01))
    log = OddLog()
    say(log, "a")
    with caught_up(tmp_path, log, Words()) as projections:
        following = projections._hosted["words"]
        log.error = error
        say(log, "b")
        wait_until(lambda: following.status(2).health == "troubled")
        log.error = None
        wait_until(lambda: found(projections, Words) == (2, {"a": 1, "b": 1}))

    newer = Projections.open(tmp_path, FailingAtFirst(log, error), [DoubleWords()])
    with newer:
        wait_until(lambda: newer._hosted["words"].status(2).health == "running")
        assert found(newer, DoubleWords) == (2, {"a": 2, "b": 2})


class FailingAtFirst(WatchedLog):
    """A log whose first reading from the beginning fails."""

    def __init__(self, log: WatchedLog, error: BaseException) -> None:
        super().__init__()
        self.rows.extend(log.rows)
        self.errors = [error]

    def read_all(self, *, after: int, limit: int) -> Sequence[Recorded]:
        if after == 0 and self.errors:
            raise self.errors.pop()
        return super().read_all(after=after, limit=limit)


def test_who_waits_for_a_function_that_does_not_return_keeps_to_the_time(url: str, log: WatchedLog) -> None:
    with Projections.open(url, log, [Stuck(), Words()]) as projections:
        say(log, "a", "stop")
        begun = time.monotonic()
        with pytest.raises(ReadModelBehindError):
            projections.wait_for(timeout=0.05, of=Stuck)
        assert time.monotonic() - begun < LONG / 4

        projections.wait_for(timeout=60, of=Words)
        assert status_of(projections, "stuck").health == "running"
        Stuck.door.set()
        projections.wait_for(timeout=60)
        assert found(projections, Stuck) == (2, {"a": 1, "stop": 1})


def test_what_slow_functions_have_written_is_there_before_the_batch_is_over(
    tmp_path: Path, log: WatchedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.projections.views.hosted.MOMENT", 0.0)
    say(log, "a", "b", "stop", "c")
    with Projections.open(tmp_path, log, [Stuck()]) as projections:
        projections.wait_for(2, timeout=60)

        assert found(projections, Stuck) == (2, {"a": 1, "b": 1})
        Stuck.door.set()


def test_closing_leaves_a_function_that_does_not_return_to_itself(
    url: str, log: WatchedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.projections.rebuilding.GRACE", 0.05)
    say(log, "a", "stop", "b")
    projections = Projections.open(url, log, [Stuck(), Words()])
    projections.wait_for(timeout=60, of=Words)
    assert Stuck.reached.wait(60)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(projections.wait_for, None, LONG, of=Stuck)

        projections.close()

        with pytest.raises(RuntimeClosedError):
            waiting.result(timeout=60)
    assert not Stuck.door.is_set()
    assert [one for one in threading.enumerate() if one.name == "reenact-projection-stuck"]
    Stuck.door.set()
    wait_until(lambda: not [one for one in threading.enumerate() if one.name == "reenact-projection-stuck"])

    with caught_up(url, log, Stuck()) as projections:
        assert found(projections, Stuck) == (3, counted(log.rows))


def test_closing_leaves_a_rebuilding_that_does_not_return_to_itself(
    url: str, log: WatchedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.projections.rebuilding.GRACE", 0.05)
    Stuck.door.set()
    say(log, "a", "stop", "b")
    with ThreadPoolExecutor(1) as threads:
        with caught_up(url, log, Stuck()) as projections:
            Stuck.door.clear()
            Stuck.reached.clear()
            rebuilding = threads.submit(projections.rebuild, "stuck")
            assert Stuck.reached.wait(60)

        assert not rebuilding.done()
        Stuck.door.set()
        with pytest.raises(RuntimeClosedError):
            rebuilding.result(timeout=60)

    with Projections.open(url, log, [Stuck()]) as projections:
        wait_until(lambda: projections._hosted["stuck"]._finished == 1)
        assert found(projections, Stuck) == (3, counted(log.rows))


def test_a_runtime_closes_though_a_function_does_not_return(tmp_path: Path) -> None:
    class StuckAtImages(Projection):
        name = "images"
        tables = Words.tables

        @on(ImageRegistered)
        def wait(self, write: Connection, event: ImageRegistered, row: Row) -> None:
            Stuck.reached.set()
            Stuck.door.wait(LONG)

    factory = MockEnvironmentFactory(delays=False)
    runtime = Runtime.open(
        log_at(tmp_path / "a.db"), environment=factory, synchronous="OFF", projections=[StuckAtImages()]
    )
    runtime.images.register(Image(id="chat"))
    assert Stuck.reached.wait(60)

    runtime.close()

    assert not Stuck.door.is_set()
