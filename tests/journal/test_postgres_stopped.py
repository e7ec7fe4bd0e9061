"""Whoever is stopped, wherever in an append that is, keeps nobody waiting; whoever is cut off there loses nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

import msgspec
import pytest
from psycopg.conninfo import conninfo_to_dict

from reenact.actors.journal.api import Append, Committed, Done, Mark, Outcome, Remembered, Snapshot
from reenact.actors.journal.postgres.address import Address
from reenact.actors.journal.postgres.connecting import Connection, connect
from reenact.actors.journal.records import open_records
from reenact.actors.journal.requests import (
    Deletion,
    Encoded,
    Foreign,
    Purge,
    Recovery,
    Replacement,
    RowImport,
)
from reenact.actors.journal.stored import StoredJournal
from reenact.domain.chain import Row, Timer
from reenact.domain.errors import StorageError
from tests.examples import some
from tests.journal.server import Server
from tests.journal.support import CODEC, Added, Log, acknowledge, commit, said, step, words_of
from tests.journal.valve import Direction, Valve, places_in, valve_before

Submit = Callable[[StoredJournal, int, Done], None]


def _append(journal: StoredJournal, nth: int, done: Done) -> None:
    journal.append(step("s1", nth, Added(nth), kept=[said(str(nth))]), done)


def _append_much(journal: StoredJournal, nth: int, done: Done) -> None:
    journal.append(step("s1", nth, Added(nth, "x" * 20_000), kept=[said(str(nth))]), done)


def _append_all(journal: StoredJournal, nth: int, done: Done) -> None:
    remembered = Remembered(f"r{nth}", b"digest", b"note", 1)
    snapshot = Snapshot("s1", nth + 1, "sum:1", b"state")
    kept = (said(str(nth)),)
    journal.append(
        Append("s1", nth, 1, (Added(nth),), kept, snapshot=snapshot, due=nth + 1, remembered=remembered), done
    )


def _acknowledge(journal: StoredJournal, nth: int, done: Done) -> None:
    journal.acknowledge((Mark("s1", "phone", nth, nth), Mark("s1", "desk", nth, nth)), done)


def _replace(journal: StoredJournal, _nth: int, done: Done) -> None:
    less = msgspec.Raw(msgspec.msgpack.encode([said("less")]))
    journal.writer.submit(Replacement("heard", 1, 2, less, done))


def _take_in(journal: StoredJournal, nth: int, done: Done) -> None:
    journal.writer.submit(RowImport(done, (_rows()[nth],), (Timer("taken", nth + 1),)))


def _add_foreign(journal: StoredJournal, nth: int, done: Done) -> None:
    event = Encoded("foreign", nth + 1, *CODEC.encode(Added(nth), 0))
    journal.writer.submit(Foreign(done, (event,), tracking=("reader", nth + 1)))


def _forget_marks(journal: StoredJournal, nth: int, done: Done) -> None:
    journal.writer.submit(Deletion("consumers", [("s1", "phone"), ("s1", "desk")], nth, done))


def _forget_requests(journal: StoredJournal, nth: int, done: Done) -> None:
    journal.writer.submit(Deletion("requests", [(f"r{number}",) for number in range(2000)], nth, done))


def _purge(journal: StoredJournal, _nth: int, done: Done) -> None:
    journal.writer.submit(Purge(done))


def _recover(journal: StoredJournal, _nth: int, done: Done) -> None:
    journal.writer.submit(Recovery("s1", done))


REQUESTS: Final[tuple[Submit, ...]] = (
    _append,
    _append_much,
    _append_all,
    _acknowledge,
    _replace,
    _take_in,
    _add_foreign,
    _forget_marks,
    _forget_requests,
    _purge,
    _recover,
)
_TAKEN: list[Row] = []


def _rows() -> list[Row]:
    """Return rows of a stream of another log."""
    if not _TAKEN:
        raise AssertionError("they are made by a fixture")
    return _TAKEN


@pytest.fixture(scope="module", autouse=True)
def _rows_of_another_log(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    other = Log(str(tmp_path_factory.mktemp("other") / "log.db"))
    with other.open() as journal:
        commit(journal, *(step("taken", nth, Added(nth), kept=[said(str(nth))]) for nth in range(400)))
    with other.open() as journal, open_records(other.url) as records:
        assert journal.head() == 400
        rows = list(records.rows())
    _TAKEN[:] = rows
    yield
    _TAKEN.clear()


@pytest.fixture
def log(server: Server) -> Log:
    return Log(server.new_log())


@pytest.fixture
def valve(server: Server) -> Generator[Valve]:
    with valve_before(str(conninfo_to_dict(server.url)["host"])) as valve:
        yield valve


@pytest.fixture
def other(log: Log, server: Server) -> Generator[StoredJournal]:
    """The journal of another process, which gives up when it is kept waiting."""
    assert server.url
    with log.open() as journal:
        yield journal


@pytest.fixture
def stopped(log: Log, valve: Valve, other: StoredJournal, monkeypatch: pytest.MonkeyPatch) -> Generator[StoredJournal]:
    """A journal whose connection for writing leads through the valve, unlike that of the other one, which is open."""
    assert other.head() == 0

    def connect_through(address: Address) -> Connection:
        conninfo = address.conninfo.replace(str(conninfo_to_dict(address.conninfo)["host"]), str(valve.directory))
        return connect(Address(address.name, address.schema, conninfo))

    with monkeypatch.context() as patch:
        patch.setattr("reenact.actors.journal.postgres.store.connect", connect_through)
        journal = log.open()
        commit(journal, Append("warm", None, 0))
        with journal:
            yield journal
            valve.open()


def _go_on(other: StoredJournal, turn: int) -> None:
    """Append as another process: to a stream of its own, and to that of the one that is stopped."""
    commit(
        other,
        step("other", turn, Added(turn)),
        step("s1", None, kept=[said("other")]),
        step("heard", None, kept=[said("a"), said("b")]),
    )
    acknowledge(other, Mark("s1", "phone", 1, 1))


@pytest.mark.parametrize("submit", REQUESTS, ids=lambda submit: submit.__name__.strip("_"))
@pytest.mark.parametrize("is_cut", [False, True], ids=["goes on", "is killed"])
def test_whoever_is_stopped_at_any_point_keeps_nobody_waiting(
    submit: Submit, log: Log, valve: Valve, stopped: StoredJournal, other: StoredJournal, *, is_cut: bool
) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    acknowledged, turn = 0, 0

    streams: dict[Submit, str] = {_take_in: "taken", _add_foreign: "foreign"}
    stream = streams.get(submit, "s1")

    def nth() -> int:
        """Return how many have taken effect."""
        return len(other.read(stream))

    _go_on(other, turn)
    for _ in range(6):  # until the driver has prepared what it sends
        valve.watch()
        submit(stopped, nth(), outcomes.put)
        outcomes.get(timeout=60)
        _go_on(other, turn := turn + 1)
    valve.watch()
    submit(stopped, nth(), outcomes.put)
    outcomes.get(timeout=60)
    there = nth()
    asked, answered = valve.passed("to_server"), valve.passed("to_client")
    places: list[tuple[Direction, int]] = [("to_server", place) for place in some(places_in(asked))]
    places.extend(("to_client", place) for place in {0, 1, len(answered) // 2, len(answered) - 1})
    for direction, place in places:
        stopped.recover("s1")
        commit(stopped, Append("warm", None, 0))
        valve.watch(direction, place)
        submit(stopped, there, outcomes.put)
        valve.wait(direction, place, lambda: not outcomes.empty())

        _go_on(other, turn := turn + 1)

        if is_cut:
            valve.cut()
        else:
            valve.open()
        outcome = outcomes.get(timeout=60)
        if isinstance(outcome, Committed):
            acknowledged = nth()
        else:
            assert isinstance(outcome, StorageError | ValueError), outcome
            assert is_cut or submit is _replace, outcome
        assert nth() - there in {0, 1}
        assert nth() >= acknowledged
        there = nth()

    assert [each.version for each in other.read("s1")] == list(range(1, len(other.read("s1")) + 1))
    assert len(set(words_of(other, "s1").values()) - {"other"}) == len(other.read("s1"))
    assert log.verify() == []
    with pytest.raises(Empty):
        outcomes.get_nowait()


_WRITER = """
import sys
from tests.journal.killed_writer import write_on

class Reporter:
    def say(self, *words):
        print(*words, flush=True)

write_on(Reporter(), sys.argv[1])
"""


def test_a_process_that_is_stopped_again_and_again_keeps_nobody_waiting(log: Log) -> None:
    with log.open() as journal:
        commit(journal, step("mine", 0, Added(0)))
        with subprocess.Popen(
            [sys.executable, "-c", _WRITER, log.url],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [*sys.path, str(Path.cwd())]))},
        ) as process:
            assert process.stdout is not None
            said_so_far: list[str] = []
            try:
                for version in range(1, 31):
                    # What it says goes through a pipe, so that it is stopped anywhere in what it does next.
                    said_so_far += [process.stdout.readline() for _ in range(version)]
                    process.send_signal(signal.SIGSTOP)
                    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
                    commit(journal, step("mine", version, Added(version)))
                    process.send_signal(signal.SIGCONT)
            finally:
                process.kill()
            said_so_far += process.stdout.readlines()
        promised = {
            (stream, int(version)) for stream, version in (line.split() for line in said_so_far if line[-1:] == "\n")
        }
        for stream in {stream for stream, _ in promised}:
            there = [each.version for each in journal.read(stream)]
            assert there == list(range(1, len(there) + 1))
            assert {version for name, version in promised if name == stream} <= set(there)
    assert log.verify() == []
