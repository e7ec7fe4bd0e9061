"""Snapshots: they spare an actor most of its history, and may be gone, old, wrong or unreadable at any moment."""

from __future__ import annotations

import logging
import sqlite3
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.actors.journal.api import Recorded, Snapshot
from reenact.actors.journal.codec import Event
from reenact.actors.kernel import ActorSystem, EventSourcedActor, Mismatch
from reenact.domain.errors import LogUnusableError, StorageError
from reenact.testing.clock import ManualClock
from tests.kernel.ledger import (
    NOON,
    A,
    Book,
    CountingJournal,
    Ledger,
    Look,
    Post,
    Posted,
    Remind,
    Reminded,
    SnappingLedger,
)
from tests.kernel.memory import MemoryJournal

AnyActor = EventSourcedActor[Any, Any, Any]


def post(journal: MemoryJournal, *amounts: int, kind: type[Ledger] = SnappingLedger) -> Book:
    """Post each amount, in an incarnation of its own, and return the last book."""
    book = Book()
    for amount in amounts or (0,):
        with ActorSystem(journal) as system:
            book = system.actor(kind, "a").ask(Post(amount) if amount else Look())
    return book


# When they are taken.


def test_a_snapshot_is_taken_whenever_so_many_more_events_are_there(counting: CountingJournal) -> None:
    with ActorSystem(counting) as system:
        for _ in range(10):
            system.actor(SnappingLedger, "a").ask(Post(1))

    taken = [step.snapshot for step in counting.appended]
    assert [snapshot and snapshot.version for snapshot in taken] == [None, None, 3, None, None, 6, None, None, 9, None]


def test_a_snapshot_comes_in_the_same_step_as_the_events(counting: CountingJournal) -> None:
    with ActorSystem(counting) as system:
        for amount in (1, 2, 3):
            system.actor(SnappingLedger, "a").ask(Post(amount))

    step = counting.appended[-1]
    assert step.events == (Posted(3),)
    assert step.snapshot == Snapshot(A, 3, "ledger:1", msgspec.msgpack.encode(Book(6)))
    assert counting.snapshot(A) == step.snapshot


def test_a_snapshot_stands_behind_the_last_event_of_a_step_with_several(counting: CountingJournal) -> None:
    with ActorSystem(counting) as system:
        for entries in (2, 5, 1, 1, 7):
            system.actor(SnappingLedger, "a").ask(Post(1, entries))

    assert [step.snapshot and step.snapshot.version for step in counting.appended] == [None, 7, None, None, 16]
    assert post(counting).balance == 16


def test_without_snapshot_every_none_is_taken(counting: CountingJournal) -> None:
    with ActorSystem(counting) as system:
        system.actor(Ledger, "a").ask(Post(1, 500))

    assert counting.snapshots() == []


def test_the_count_goes_on_over_incarnations(counting: CountingJournal) -> None:
    post(counting, *[1] * 7)

    assert [step.snapshot.version for step in counting.appended if step.snapshot] == [3, 6]


# What they spare.


def test_only_what_comes_behind_the_snapshot_is_read(counting: CountingJournal) -> None:
    post(counting, *[1] * 11)
    counting.recovered = 0

    assert post(counting).balance == 11

    assert counting.recovered == 3  # the event that the snapshot was taken with, and two later ones


def test_a_snapshot_alone_is_enough(counting: CountingJournal) -> None:
    post(counting, *[1] * 9)
    counting.recovered = 0

    assert post(counting).balance == 9
    assert post(counting, 1).balance == 10

    assert counting.recovered == 2


def test_a_conflict_is_settled_from_the_snapshot(counting: CountingJournal) -> None:
    with ActorSystem(counting) as system:
        ledger = system.actor(SnappingLedger, "a")
        for _ in range(30):
            ledger.ask(Post(1))
        counting.write(A, Posted(100), Posted(100))
        counting.recovered = 0

        assert ledger.ask(Post(1)).balance == 231
        assert counting.recovered == 3
        assert ledger.ask(Post(1)).balance == 232

    snapshot = counting.snapshot(A)
    assert snapshot is not None
    assert snapshot.version == 33
    assert post(counting).balance == 232


def test_a_step_that_came_too_late_leaves_no_snapshot(journal: MemoryJournal) -> None:
    with ActorSystem(journal) as system:
        ledger = system.actor(SnappingLedger, "a")
        ledger.ask(Post(1))
        ledger.ask(Post(1))
        journal.fail_next(StorageError("for once"))

        with pytest.raises(StorageError):
            ledger.ask(Post(1))
        assert journal.snapshots() == []
        assert ledger.ask(Post(1)).balance == 3

    assert [snapshot.version for snapshot in journal.snapshots()] == [3]


# When they cannot be used.


def test_they_can_be_deleted_at_any_time(counting: CountingJournal) -> None:
    with ActorSystem(counting) as system:
        ledger = system.actor(SnappingLedger, "a")
        for total in range(1, 12):
            assert ledger.ask(Post(1)).balance == total
            counting.delete_snapshots()
            if total % 2:
                ledger.stop()

    assert post(counting).balance == 11


def test_an_earlier_meaning_of_the_state_is_skipped(counting: CountingJournal) -> None:
    class NextLedger(SnappingLedger):
        snapshot_version = 2

    post(counting, *[1] * 4)
    counting.recovered = 0

    assert post(counting, kind=NextLedger).balance == 4
    assert counting.recovered == 4
    assert post(counting, 1, kind=NextLedger).balance == 5
    snapshot = counting.snapshot(A)
    assert snapshot is not None
    assert (snapshot.version, snapshot.topic) == (5, "ledger:2")

    counting.recovered = 0
    assert post(counting, kind=SnappingLedger).balance == 5
    assert counting.recovered == 5


@pytest.mark.parametrize("damage", [b"", b"\xc1", b"\x01", msgspec.msgpack.encode({"balance": "much"})])
def test_a_snapshot_that_cannot_be_read_is_skipped_with_a_warning(
    damage: bytes, counting: CountingJournal, caplog: pytest.LogCaptureFixture
) -> None:
    post(counting, *[1] * 4)
    counting._snapshots[A] = Snapshot(A, 3, "ledger:1", damage)
    counting.recovered = 0

    with caplog.at_level(logging.WARNING, logger="reenact.kernel"):
        assert post(counting).balance == 4

    assert counting.recovered == 4
    assert "the snapshot of ledger/a at version 3 is skipped" in caplog.text


def test_a_snapshot_that_is_ahead_of_its_stream_is_not_believed(
    counting: CountingJournal, caplog: pytest.LogCaptureFixture
) -> None:
    post(counting, *[1] * 6)
    counting._log = counting._log[:4]
    counting._versions[A] = 4

    with caplog.at_level(logging.ERROR, logger="reenact.kernel"):
        assert post(counting).balance == 4
    assert "the snapshot of ledger/a is at version 6, which is not in the log" in caplog.text

    assert post(counting, 1).balance == 5
    snapshot = counting.snapshot(A)
    assert snapshot is not None
    assert snapshot.version == 5
    assert post(counting).balance == 5


def test_a_snapshot_of_a_stream_that_is_gone_is_not_believed(counting: CountingJournal) -> None:
    post(counting, *[1] * 6)
    counting._log.clear()
    counting._versions.clear()

    assert post(counting) == Book()


@pytest.mark.parametrize("kind", [Ledger, SnappingLedger])
@pytest.mark.parametrize(("missing", "snapshot_at"), [(1, None), (1, 3), (3, None), (4, None), (4, 3), (5, 3), (7, 6)])
def test_a_hole_in_what_has_to_be_read_is_found(
    kind: type[Ledger], missing: int, snapshot_at: int | None, journal: MemoryJournal
) -> None:
    history = [Recorded(A, version, version, 0, Posted(1)) for version in range(1, 9) if version != missing]
    journal._log.extend(history)
    journal._versions[A] = 8
    if snapshot_at:
        journal._snapshots[A] = Snapshot(A, snapshot_at, "ledger:1", msgspec.msgpack.encode(Book(snapshot_at)))
    reads_the_hole = kind is Ledger or snapshot_at is None or missing > snapshot_at

    with ActorSystem(journal) as system:
        if reads_the_hole:
            with pytest.raises(LogUnusableError, match="ledger/a' has holes below version 8"):
                system.actor(kind, "a").ask(Look())
        else:
            assert system.actor(kind, "a").ask(Look()).balance == 8
    assert len(journal.read(A)) == 7


@pytest.mark.parametrize("kind", [Ledger, SnappingLedger])
def test_a_stream_may_begin_at_0(kind: type[Ledger], journal: MemoryJournal) -> None:
    journal._log.extend(Recorded(A, version, version + 1, 0, Posted(1)) for version in range(3))
    journal._versions[A] = 2

    assert post(journal, kind=kind).balance == 3
    assert post(journal, 1, 1, 1, 1, kind=kind).balance == 7
    assert post(journal, kind=kind).balance == 7


# What is stored.


class Sealed:
    """A state that msgspec knows nothing of."""

    def __init__(self, total: int = 0) -> None:
        self.total = total

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sealed) and self.total == other.total

    def __hash__(self) -> int:
        return hash(self.total)


class Summed(Event, frozen=True):
    amount: int


def add(_: object, command: int) -> tuple[Summed, ...]:
    return (Summed(command),) if command else ()


def seal(state: Sealed, event: Summed) -> Sealed:
    return Sealed(state.total + event.amount)


def total(state: int, event: Summed) -> int:
    return state + event.amount


class SealedActor(EventSourcedActor[Sealed, int, Summed]):
    category = "sealed"
    initial = Sealed()
    events: ClassVar = {"summed": Summed}
    decide = staticmethod(add)
    evolve = staticmethod(seal)
    snapshot_every = 1

    def reply(self, command: int, events: tuple[Summed, ...]) -> int:
        return self.state.total


def test_a_state_that_cannot_be_stored_is_noticed_when_the_class_becomes_known(journal: MemoryJournal) -> None:
    with (
        ActorSystem(journal) as system,
        pytest.raises(TypeError, match=r"'sealed:1'.*Sealed is unsupported.*declare snapshot_type, to_snapshot and"),
    ):
        system.register(SealedActor)


def test_a_class_may_say_how_its_states_are_stored(journal: MemoryJournal) -> None:
    class Open(SealedActor):
        snapshot_type = dict[str, int]

        @staticmethod
        def to_snapshot(state: Sealed) -> dict[str, int]:
            return {"total": state.total}

        @staticmethod
        def from_snapshot(stored: dict[str, int]) -> Sealed:
            return Sealed(stored["total"] + 1000)  # to be seen

    with ActorSystem(journal) as system:
        assert system.actor(Open, "a").ask(5) == 5
        system.actor(Open, "a").stop()
        assert system.actor(Open, "a").ask(0) == 1005
    assert [snapshot.state for snapshot in journal.snapshots()] == [msgspec.msgpack.encode({"total": 5})]


def test_a_class_that_cannot_restore_what_it_stores_is_refused(journal: MemoryJournal) -> None:
    class Forgotten(SealedActor):
        snapshot_type = int

        @staticmethod
        def to_snapshot(state: Sealed) -> str:
            return str(state.total)

    with ActorSystem(journal) as system, pytest.raises(TypeError, match="Expected `int`, got `str`"):
        system.register(Forgotten)


def test_a_snapshot_that_the_class_refuses_to_restore_is_skipped(
    journal: MemoryJournal, caplog: pytest.LogCaptureFixture
) -> None:
    class Picky(SealedActor):
        snapshot_type = int

        @staticmethod
        def to_snapshot(state: Sealed) -> int:
            return state.total

        @staticmethod
        def from_snapshot(stored: int) -> Sealed:
            if stored:
                raise ZeroDivisionError
            return Sealed(stored)

    with ActorSystem(journal) as system, caplog.at_level(logging.WARNING, logger="reenact.kernel"):
        system.actor(Picky, "a").ask(5)
        system.actor(Picky, "a").stop()

        assert system.actor(Picky, "a").ask(0) == 5
    assert "is skipped" in caplog.text


def test_a_state_that_no_snapshot_can_hold_keeps_nobody_from_recording(
    journal: MemoryJournal, caplog: pytest.LogCaptureFixture
) -> None:
    class Counter(EventSourcedActor[int, int, Summed]):
        category = "counter"
        initial = 0
        decide = staticmethod(add)
        evolve = staticmethod(total)
        snapshot_every = 2

        @staticmethod
        def to_snapshot(state: int) -> object:
            return object() if state else state

        def reply(self, command: int, events: tuple[Summed, ...]) -> int:
            return self.state

    with caplog.at_level(logging.WARNING, "reenact.kernel"), ActorSystem(journal) as system:
        counter = system.actor(Counter, "a")
        assert [counter.ask(1) for _ in range(5)] == [1, 2, 3, 4, 5]

    with ActorSystem(journal) as system:
        assert system.actor(Counter, "a").ask(0) == 5
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "no snapshot of counter/a is taken at version 2",
        "no snapshot of counter/a is taken at version 4",
    ]


class Pairs(EventSourcedActor[tuple, int, Summed]):  # type: ignore[type-arg]  # pyright: ignore[reportMissingTypeArgument]
    """Does not say of what its tuple consists, as a user may; msgspec would read that as lists."""

    category = "pairs"
    initial = ()
    decide = staticmethod(add)
    snapshot_every = 2

    @staticmethod
    def evolve(state: tuple[tuple[int], ...], event: Summed) -> tuple[tuple[int], ...]:
        return (*state, (event.amount,))

    def reply(self, command: int, events: tuple[Summed, ...]) -> object:
        return self.state  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def test_a_state_that_a_snapshot_would_change_gives_none(
    journal: MemoryJournal, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "reenact.kernel"), ActorSystem(journal) as system:
        live = [system.actor(Pairs, "a").ask(number) for number in (1, 2)][-1]

    with ActorSystem(journal) as system:
        assert system.actor(Pairs, "a").ask(0) == live == ((1,), (2,))
    assert "no snapshot of pairs/a is taken at version 2" in caplog.text
    assert "name its full type" in caplog.text


class Empty(msgspec.Struct, frozen=True, tag=True):
    pass


class Full(msgspec.Struct, frozen=True, tag=True):
    items: tuple[int, ...]


class Plain(msgspec.Struct, frozen=True):
    total: int = 0


class Other(msgspec.Struct, frozen=True):
    total: int = 0


@dataclass(frozen=True)
class Tally:
    of: dict[str, frozenset[int]]


def shelve(state: tuple[Plain, ...], event: Summed) -> tuple[Plain, ...]:
    return (*state, Plain(event.amount))


def enter(state: dict[int, Plain], event: Summed) -> dict[int, Plain]:
    return {**state, event.amount: Plain()}


def replace(_: object, event: Summed) -> Plain:
    return Plain(event.amount)


def fill(_: object, event: Summed) -> Full:
    return Full((event.amount,))


def tally(_: object, event: Summed) -> Tally:
    return Tally({"x": frozenset({event.amount})})


def confuse(_: object, event: Summed) -> Other:
    return Other(event.amount)


def believe(self: AnyActor, _command: int, _events: tuple[Summed, ...]) -> object:
    return self.state


def actor_of(state: object, initial: object, evolve: Callable[[Any, Summed], object]) -> type[AnyActor]:
    """Return a class whose states are of that type."""

    def declare(room: dict[str, Any]) -> None:
        room.update(category="made", initial=initial, reply=believe, snapshot_every=1)
        room.update(decide=staticmethod(add), evolve=staticmethod(evolve))

    return types.new_class("Made", (EventSourcedActor[state, int, Summed],), exec_body=declare)  # type: ignore[valid-type]  # a type is a value here


@pytest.mark.parametrize(
    ("state", "initial", "evolve", "expected"),
    [
        (tuple[Plain, ...], (), shelve, (Plain(1), Plain(2))),
        (dict[int, Plain], {}, enter, {1: Plain(), 2: Plain()}),
        (Plain | None, None, replace, Plain(2)),
        (Empty | Full, Empty(), fill, Full((2,))),
        (Tally, Tally({}), tally, Tally({"x": frozenset({2})})),
        (Any, Plain(), replace, Plain(2)),
    ],
)
def test_a_state_comes_back_as_what_the_class_says_that_it_is(
    state: object,
    initial: object,
    evolve: Callable[[Any, Summed], object],
    expected: object,
    journal: MemoryJournal,
) -> None:
    made = actor_of(state, initial, evolve)

    with ActorSystem(journal) as system:
        system.actor(made, "a").ask(1)
        system.actor(made, "a").ask(2)
        system.actor(made, "a").stop()

        assert system.actor(made, "a").ask(0) == expected
        assert system.check_snapshots() == []
        journal.delete_snapshots()
        system.actor(made, "a").stop()
        assert system.actor(made, "a").ask(0) == expected


def test_states_that_cannot_be_told_apart_are_refused(journal: MemoryJournal) -> None:
    made = actor_of(Plain | Other, Plain(), confuse)

    with ActorSystem(journal) as system, pytest.raises(TypeError, match="must be tagged"):
        system.register(made)


# Are they right?


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.db"
    with ActorSystem.open(path) as system:
        for name in "abc":
            for amount in range(1, 6):
                system.actor(SnappingLedger, name).ask(Post(amount))
    return path


def tamper(log: Path, statement: str, *parameters: object) -> None:
    connection = sqlite3.connect(log)
    with connection:
        assert connection.execute(statement, parameters).rowcount
    connection.close()


def checked(log: Path, kind: type[Ledger] = SnappingLedger) -> list[Mismatch]:
    with ActorSystem.open(log) as system:
        system.register(kind)
        return system.check_snapshots()


def test_right_snapshots_pass_the_check(log: Path) -> None:
    assert checked(log) == []


def test_the_check_finds_a_snapshot_that_the_events_contradict(log: Path) -> None:
    wrong = msgspec.msgpack.encode(Book(7))
    tamper(log, "UPDATE stored_snapshots SET state = ? WHERE originator_id = 'ledger/b'", wrong)

    (mismatch,) = checked(log)

    assert (mismatch.stream, mismatch.version) == ("ledger/b", 3)
    assert "it says Book(balance=7" in mismatch.problem
    assert "the events say Book(balance=6" in mismatch.problem


def test_the_check_finds_a_snapshot_that_cannot_be_decoded(log: Path) -> None:
    tamper(log, "UPDATE stored_snapshots SET state = x'c1' WHERE originator_id = 'ledger/a'")

    assert checked(log) == [Mismatch("ledger/a", 3, "it cannot be decoded")]


def test_the_check_finds_a_snapshot_ahead_of_its_stream(log: Path) -> None:
    tamper(log, "DELETE FROM steps WHERE stream = 'ledger/c' AND version > 2")

    assert checked(log) == [Mismatch("ledger/c", 3, "the stream has no version 3")]


def test_the_check_passes_over_what_nobody_reads(log: Path) -> None:
    class NextLedger(SnappingLedger):
        snapshot_version = 2

    class Stranger(SnappingLedger):
        category = "stranger"

    tamper(log, "UPDATE stored_snapshots SET state = x'c1'")

    assert checked(log, NextLedger) == []
    assert checked(log, Ledger) == []
    assert checked(log, Stranger) == []
    assert len(checked(log, SnappingLedger)) == 3


def test_the_check_looks_at_more_than_a_page(journal: MemoryJournal) -> None:
    for number in range(600):
        journal.write(f"ledger/{number:03}", Posted(1))
        state = msgspec.msgpack.encode(Book(2 if number % 100 == 55 else 1))
        journal._snapshots[f"ledger/{number:03}"] = Snapshot(f"ledger/{number:03}", 1, "ledger:1", state)

    with ActorSystem(journal) as system:
        system.register(SnappingLedger)
        found = system.check_snapshots()

    assert [mismatch.stream for mismatch in found] == [f"ledger/{number}55" for number in range(6)]


def test_the_check_may_run_while_actors_work(journal: MemoryJournal) -> None:
    with ActorSystem(journal) as system:
        ledger = system.actor(SnappingLedger, "a")
        for _ in range(50):
            posting = [ledger.ask_future(Post(1)) for _ in range(5)]
            assert system.check_snapshots() == []
            for future in posting:
                future.get(timeout=60)


# At any time.

deeds = st.lists(
    st.one_of(
        st.tuples(st.just("post"), st.integers(-5, 5), st.integers(1, 4)),
        st.tuples(st.just("remind"), st.sampled_from("ab")),
        st.sampled_from(["stop", "purge", "fail", "interfere", "mangle"]),
    ),
    max_size=30,
)


@given(deeds=deeds, every=st.integers(1, 5))
def test_what_is_recovered_is_what_the_whole_history_says(deeds: list[Any], every: int) -> None:
    class Snapping(Ledger):
        snapshot_every = every

    clock = ManualClock(NOON)
    with MemoryJournal() as journal, ActorSystem(journal, clock=clock) as system:
        ledger = system.actor(Snapping, "a")
        for deed in deeds:
            match deed:
                case ("post", amount, entries):
                    ledger.ask(Post(amount, entries))
                case ("remind", name):
                    ledger.ask(Remind(name, NOON + 1))
                case "stop":
                    ledger.stop()
                case "purge":
                    journal.delete_snapshots()
                case "fail":
                    journal.fail_next(StorageError("for once"))
                    with pytest.raises(StorageError):
                        ledger.ask(Post(1))
                case "interfere":
                    journal.write(A, Posted(1), Reminded("c", NOON + 1))
                    ledger.ask(Post(1))
                case _:
                    snapshot = journal.snapshot(A)
                    if snapshot is not None:
                        journal._snapshots[A] = Snapshot(A, snapshot.version, snapshot.topic, b"\xc1")
                    ledger.stop()
            assert ledger.ask(Look()) == Ledger.replay(journal.read(A))
            if deed != "mangle":
                snapshot = journal.snapshot(A)
                mangled = snapshot is not None and snapshot.state == b"\xc1"
                assert mangled or system.check_snapshots() == []
        ledger.stop()
        assert ledger.ask(Look()) == Ledger.replay(journal.read(A))
