"""Actors of anybody's own: their events, snapshots and timers are what their classes make of them."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact import ActorSystem, EventSourcedActor
from reenact.actors.kernel import Timer
from reenact.actors.kernel.profile import StoredNames
from reenact.audit import verify_log
from reenact.testing import ManualClock
from tests.examples import examples
from tests.verification.tampering import (
    Tampering,
    change_a_cell,
    duplicate_a_row,
    exchange_two_rows,
    remove_a_row,
    tampered,
)

LATER = 4_000_000_000_000_000


class Added(msgspec.Struct, frozen=True, array_like=True):
    amount: int


class Add(msgspec.Struct, frozen=True):
    amount: int


class Total(msgspec.Struct, frozen=True):
    amount: int = 0
    events: int = 0


class Sum(EventSourcedActor[Total, Add, Added]):
    """A sum that is looked after once a year."""

    category = "sum"
    events: ClassVar[StoredNames] = {"added": Added}
    initial = Total()
    snapshot_every = 2

    @staticmethod
    def decide(state: Total, command: Add) -> tuple[Added, ...]:
        return (Added(command.amount),)

    @staticmethod
    def evolve(state: Total, event: Added) -> Total:
        return Total(state.amount + event.amount, state.events + 1)

    @staticmethod
    def timers(state: Total) -> tuple[Timer[Add], ...]:
        return (Timer(LATER + state.events, Add(0)),) if state.events else ()


class Muted(msgspec.Struct, frozen=True, array_like=True):
    pass


class Mute(EventSourcedActor[int, Add, Muted]):
    """One that takes no snapshots and waits for nothing."""

    category = "mute"
    events: ClassVar[StoredNames] = {"muted": Muted}
    initial = 0

    @staticmethod
    def decide(state: int, command: Add) -> tuple[Muted, ...]:
        return (Muted(),)

    @staticmethod
    def evolve(state: int, event: Muted) -> int:
        return state + 1


@pytest.fixture(scope="module")
def log() -> Generator[Path]:
    """A log of both that every test copies."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "log.db")
        with ActorSystem.open(path, synchronous="OFF", clock=ManualClock()) as system:
            system.register(Sum)
            for name, times in (("one", 3), ("two", 5)):
                for amount in range(1, times + 1):
                    system.actor(Sum, name).ask(Add(amount))
            system.actor(Mute, "one").ask(Add(1))
        yield path


def test_what_classes_say_is_what_the_log_says(log: Path) -> None:
    verdict = verify_log(log, actors=[Sum, Mute])

    assert (verdict.findings, verdict.meaning, verdict.streams, verdict.events) == ((), "actors", 3, 9)


def test_of_the_actors_of_others_only_the_chain_is_looked_at(log: Path) -> None:
    assert (verify_log(log).findings, verify_log(log).meaning) == ((), "unknown")
    assert verify_log(log, actors=[Mute]).findings == ()


@pytest.mark.parametrize("table", ["stored_snapshots", "timers"])
@pytest.mark.parametrize("tampering", [change_a_cell, exchange_two_rows, duplicate_a_row])
@given(data=st.data())
@settings(max_examples=examples(20))
def test_snapshots_and_timers_that_were_changed_are_found(
    log: Path, tampering: Tampering, table: str, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(shutil.copy(log, Path(directory, "copy.db")))
        names = tampered(copy, tampering, data, table)

        findings = verify_log(copy, actors=[Sum, Mute]).findings

    assert any(finding.kind == "file" or finding.name in names for finding in findings)


@given(data=st.data())
@settings(max_examples=10)
def test_a_timer_that_was_removed_is_found(log: Path, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(shutil.copy(log, Path(directory, "copy.db")))
        (name,) = tampered(copy, remove_a_row, data, "timers")

        findings = verify_log(copy, actors=[Sum]).findings

    assert [(finding.kind, finding.name) for finding in findings] == [("timer", name)]


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("UPDATE stored_snapshots SET state = x'c1'", "snapshot"),
        ("UPDATE stored_snapshots SET topic = 'sum:2'", "snapshot"),
        ("UPDATE timers SET due = due + 1", "timer"),
        ("INSERT INTO timers VALUES ('mute/one', 1)", "timer"),
    ],
)
def test_the_kind_of_what_is_wrong_is_named(log: Path, tmp_path: Path, statement: str, kind: str) -> None:
    copy = Path(shutil.copy(log, tmp_path / "copy.db"))
    with closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute(statement)

    assert {finding.kind for finding in verify_log(copy, actors=[Sum, Mute]).findings} == {kind}


def test_snapshots_can_be_deleted_and_earlier_forms_are_nobodys(log: Path, tmp_path: Path) -> None:
    class Later(Sum):
        snapshot_version = 2

    copy = Path(shutil.copy(log, tmp_path / "copy.db"))
    earlier = verify_log(copy, actors=[Later])
    with closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute("DELETE FROM stored_snapshots")

    assert earlier.findings == ()
    assert verify_log(copy, actors=[Sum]).findings == ()


def test_a_timer_that_has_come_may_have_had_its_turn(log: Path, tmp_path: Path) -> None:
    class Once(Sum):
        @staticmethod
        def timers(state: Total) -> tuple[Timer[Add], ...]:
            return (Timer(1, Add(0)), Timer(LATER + state.events, Add(0))) if state.events else ()

    copy = Path(shutil.copy(log, tmp_path / "copy.db"))
    had = verify_log(copy, actors=[Once])
    with closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute("UPDATE timers SET due = 1")
    to_come = verify_log(copy, actors=[Once])
    with closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute("DELETE FROM timers WHERE stream = 'sum/two'")
    gone = verify_log(copy, actors=[Once])

    assert (had.findings, to_come.findings) == ((), ())
    assert [finding.name for finding in gone.findings] == ["sum/two"]


def test_events_that_a_class_cannot_have_are_named(log: Path) -> None:
    class Strict(Sum):
        @staticmethod
        def evolve(state: Total, event: Added) -> Total:
            if event.amount == 3:
                raise ValueError(event)
            return Sum.evolve(state, event)

    class Other(Sum):
        events: ClassVar[StoredNames] = {"other": Added}

    cannot, foreign = verify_log(log, actors=[Strict]).findings, verify_log(log, actors=[Other]).findings

    assert {(finding.name, finding.at) for finding in cannot} == {("sum/one", 3), ("sum/two", 3)}
    assert all("cannot be replayed" in finding.problem for finding in cannot)
    assert {(finding.name, finding.at) for finding in foreign} == {("sum/one", 1), ("sum/two", 1)}
    assert all("unknown type" in finding.problem for finding in foreign)
