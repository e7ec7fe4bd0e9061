"""A stream may go on with the history of another one of its class: the kernel folds that first, wherever it folds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from typing import ClassVar, TypeAlias

import msgspec
import pytest

from reenact import ActorSystem, Event, EventSourcedActor, Origin, ReenactError
from reenact.actors.journal.api import Append, Committed, Outcome
from reenact.actors.journal.stored import StoredJournal
from reenact.audit import verify_log
from reenact.domain.errors import LogUnusableError
from reenact.testing import EventSourcedTestKit
from tests.kernel.memory import MemoryJournal


class Add(msgspec.Struct, frozen=True):
    amount: int


class Fork(msgspec.Struct, frozen=True):
    """Go on with the history of another tally, and add something."""

    origin: Origin
    amount: int = 0


class Added(Event, frozen=True):
    amount: int


class Forked(Event, frozen=True):
    origin: str
    version: int
    digest: str


class TooMuchError(ReenactError):
    code = "too_much"


Command: TypeAlias = Add | Fork
Fact: TypeAlias = Added | Forked


def decide(total: int, command: Command) -> tuple[Fact, ...]:
    if total + command.amount > 1000:
        raise TooMuchError
    match command:
        case Add(amount=amount):
            return (Added(amount),)
        case Fork(origin=origin, amount=amount):
            return Forked(origin.id, origin.version, origin.digest), Added(amount)


def evolve(total: int, event: Fact) -> int:
    return total + event.amount if isinstance(event, Added) else total


def origin_of(begins: Command | Fact) -> Origin | None:
    match begins:
        case Fork():
            return begins.origin
        case Forked():
            return Origin(begins.origin, begins.version, begins.digest)
        case _:
            return None


class Tally(EventSourcedActor[int, Command, Fact]):
    category = "tally"
    events: ClassVar = {"added": Added, "forked": Forked}
    initial = 0
    decide = staticmethod(decide)
    evolve = staticmethod(evolve)
    origin = staticmethod(origin_of)

    def reply(self, command: Command, events: tuple[Fact, ...]) -> int:
        return self.state


class Remembering(Tally):
    """Takes a snapshot with every other event."""

    category = "remembering"
    events: ClassVar = {"remembered": Added, "forked-off": Forked}
    snapshot_every = 2


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tally.db"


@pytest.fixture
def system(path: Path) -> Iterator[ActorSystem]:
    with ActorSystem.open(path, synchronous="OFF") as system:
        yield system


def origin(system: ActorSystem, id_: str, version: int, category: str = "tally") -> Origin:
    """Return where a tally can be gone on with."""
    journal = system.journal
    assert isinstance(journal, StoredJournal)
    link = journal.link(f"{category}/{id_}", version)
    assert link is not None
    return Origin(id_, version, link.digest.hex())


def record(system: ActorSystem, id_: str, *events: Fact) -> None:
    """Have these events happen, whoever decided on them."""
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    system.register(Tally)
    system.journal.append(Append(f"tally/{id_}", 0, 0, events), outcomes.put)
    assert isinstance(outcomes.get(timeout=60), Committed)


def test_what_is_decided_first_is_decided_on_the_history_that_is_gone_on_with(system: ActorSystem) -> None:
    for amount in (600, 300, 50):
        system.actor(Tally, "a").ask(Add(amount))

    assert system.actor(Tally, "b").ask(Fork(origin(system, "a", 2), 7)) == 907
    with pytest.raises(TooMuchError):
        system.actor(Tally, "c").ask(Fork(origin(system, "a", 2), 200))
    assert system.actor(Tally, "a").ask(Add(1)) == 951


def test_a_history_is_gone_on_with_after_a_restart_too(system: ActorSystem) -> None:
    system.actor(Tally, "a").ask(Add(5))
    system.actor(Tally, "b").ask(Fork(origin(system, "a", 1), 2))
    system.actor(Tally, "b").stop()

    assert system.actor(Tally, "b").ask(Add(10)) == 17


def test_who_was_refused_its_history_begins_with_nothing(system: ActorSystem) -> None:
    system.actor(Tally, "a").ask(Add(999))
    with pytest.raises(TooMuchError):
        system.actor(Tally, "b").ask(Fork(origin(system, "a", 1), 2))

    assert system.actor(Tally, "b").ask(Add(2)) == 2


def test_nothing_is_copied(system: ActorSystem, path: Path) -> None:
    for _ in range(50):
        system.actor(Tally, "a").ask(Add(1))
    before = system.journal.head()

    system.actor(Tally, "b").ask(Fork(origin(system, "a", 50), 1))

    assert system.journal.head() == before + 2


def test_a_history_goes_on_with_more_others_than_functions_can_call_each_other(system: ActorSystem) -> None:
    record(system, "0", Added(1))
    for number in range(1, 1200):
        at = origin(system, str(number - 1), 1)
        record(system, str(number), Forked(at.id, at.version, at.digest))

    assert system.actor(Tally, "1199").ask(Add(1)) == 2


def test_snapshots_hold_the_history_that_is_gone_on_with(system: ActorSystem) -> None:
    for amount in (3, 4, 5):
        system.actor(Remembering, "a").ask(Add(amount))
    fork = Fork(origin(system, "a", 2, "remembering"), 10)
    assert system.actor(Remembering, "b").ask(fork) == 17
    system.actor(Remembering, "b").ask(Add(1))
    system.actor(Remembering, "b").stop()

    assert system.check_snapshots() == []
    assert system.actor(Remembering, "b").ask(Add(1)) == 19
    system.actor(Remembering, "b").stop()
    system.journal.delete_snapshots()
    assert system.actor(Remembering, "b").ask(Add(1)) == 20


def test_a_snapshot_that_the_history_does_not_lead_to_is_found(path: Path) -> None:
    with ActorSystem.open(path, synchronous="OFF") as system:
        system.actor(Remembering, "a").ask(Add(3))
        system.actor(Remembering, "b").ask(Fork(origin(system, "a", 1, "remembering"), 10))
    _execute(
        path, "UPDATE stored_snapshots SET state = ? WHERE originator_id = 'remembering/b'", msgspec.msgpack.encode(12)
    )

    with ActorSystem.open(path, synchronous="OFF") as system:
        system.register(Remembering)
        (wrong,) = system.check_snapshots()

    assert (wrong.stream, wrong.problem) == ("remembering/b", "it says 12, the events say 13")
    (found,) = verify_log(path, actors=[Remembering]).findings
    assert (found.kind, found.name) == ("snapshot", "remembering/b")


def test_who_verifies_a_log_follows_its_histories(path: Path) -> None:
    with ActorSystem.open(path, synchronous="OFF") as system:
        for amount in (3, 4, 5):
            system.actor(Remembering, "a").ask(Add(amount))
        system.actor(Remembering, "b").ask(Fork(origin(system, "a", 2, "remembering"), 10))
        system.actor(Remembering, "c").ask(Fork(origin(system, "b", 2, "remembering"), 20))

    assert verify_log(path, actors=[Remembering]).findings == ()

    _execute(path, "UPDATE steps SET digest = ? WHERE stream = 'remembering/a'", b"x" * 32)
    bad = {(found.kind, found.name) for found in verify_log(path, actors=[Remembering]).findings}
    assert {("stream", "remembering/a"), ("stream", "remembering/b")} <= bad


@pytest.mark.parametrize(
    ("at", "why"),
    [
        (Origin("a", 2, "00"), "which is not there"),
        (Origin("nobody", 1, "00"), "which is not there"),
        (Origin("a", 1, "00"), "which is not what it was when the branch began"),
    ],
)
def test_a_history_that_is_not_there_is_not_gone_on_with(system: ActorSystem, at: Origin, why: str) -> None:
    system.actor(Tally, "a").ask(Add(1))

    with pytest.raises(LogUnusableError, match=f"'tally/b' branches off from 'tally/{at.id}' at version .*{why}"):
        system.actor(Tally, "b").ask(Fork(at))

    assert system.actor(Tally, "b").ask(Add(1)) == 1


@pytest.mark.parametrize(
    ("change", "which", "why"),
    [
        ("DELETE FROM steps", "version < 9", "which is not there"),
        ("DELETE FROM steps", "version = 1", "has holes before it"),
        ("UPDATE steps SET digest = x'00'", "version = 2", "which is not what it was"),
        ("UPDATE steps SET position = 99", "version = 2", "which is not there"),
    ],
)
def test_a_history_that_was_changed_since_is_not_gone_on_with(path: Path, change: str, which: str, why: str) -> None:
    with ActorSystem.open(path, synchronous="OFF") as system:
        system.actor(Tally, "a").ask(Add(1))
        system.actor(Tally, "a").ask(Add(1))
        system.actor(Tally, "b").ask(Fork(origin(system, "a", 2)))
    _execute(path, f"{change} WHERE stream = 'tally/a' AND {which}")

    with ActorSystem.open(path, synchronous="OFF") as system, pytest.raises(LogUnusableError, match=why):
        system.actor(Tally, "b").ask(Add(1))


def test_a_journal_without_a_chain_has_no_history_to_go_on_with() -> None:
    with MemoryJournal() as journal, ActorSystem(journal) as system:
        system.actor(Tally, "a").ask(Add(1))

        with pytest.raises(TypeError, match="MemoryJournal keeps no chain"):
            system.actor(Tally, "b").ask(Fork(Origin("a", 1, "")))


def test_where_a_stream_begins_is_said_without_self() -> None:
    class Mistaken(Tally):
        origin = origin_of  # type: ignore[assignment]  # the mistake

    with pytest.raises(TypeError, match="write origin = staticmethod"):
        Mistaken.profile()


def test_the_kit_looks_at_histories_that_are_gone_on_with() -> None:
    with EventSourcedTestKit(Tally, "b") as kit:
        kit._stage.reference("a").ask(Add(3))
        journal = kit.journal.journal
        assert isinstance(journal, StoredJournal)
        link = journal.link("tally/a", 1)
        assert link is not None
        at = Origin("a", 1, link.digest.hex())

        kit.when(Fork(at, 4)).then(Forked("a", 1, at.digest), Added(4)).then_state(7)

        kit.restart().check()
        assert kit.state == 7


def _execute(path: Path, statement: str, *values: bytes) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement, values).rowcount > 0
