"""A system and its log: opened together, closed in order, and nothing left behind."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from reenact.actors.journal.api import Append
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.kernel import ActorSystem, PooledActor
from reenact.domain.errors import (
    InvalidInputError,
    LogLockedError,
    RuntimeClosedError,
)
from reenact.testing.clock import ManualClock
from tests.kernel.ledger import NOON, Book, Ledger, Look, Post, Posted, Remind


class Doubler(PooledActor):
    def on_receive(self, message: int) -> int:
        return message * 2


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory that the directories of systems in memory are made in."""
    place = tmp_path / "memory"
    place.mkdir()
    make = tempfile.mkdtemp

    def make_there(*, prefix: str, dir: Path | None) -> str:  # noqa: A002 - its own name
        return make(prefix=prefix, dir=place)

    monkeypatch.setattr(tempfile, "mkdtemp", make_there)
    return place


# Opening.


def test_what_is_recorded_is_there_when_the_log_is_opened_again(path: Path) -> None:
    with ActorSystem.open(path) as system:
        system.actor(Ledger, "a").ask(Post(5))

    with ActorSystem.open(path) as system:
        assert system.actor(Ledger, "a").ask(Look()).balance == 5


@pytest.mark.parametrize(
    "wrong",
    [
        {"workers": 0},
        {"workers": -1},
        {"passivate_after": 0},
        {"passivate_after": -1.0},
        {"passivate_after": float("nan")},
        {"max_live": 0},
        {"max_live": -5},
        {"synchronous": "SOMETIMES"},
    ],
)
def test_a_system_that_cannot_work_is_refused_and_leaves_nothing_behind(wrong: dict[str, Any], path: Path) -> None:
    clock = ManualClock(NOON)
    with pytest.raises(ValueError, match=r"must be above zero|at least one worker|synchronous must be"):
        ActorSystem.open(path, clock=clock, **wrong)

    assert clock._watchers == ()
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("reenact")] == []
    with ActorSystem.open(path) as system:  # the lock is free
        assert system.actor(Ledger, "a").ask(Post(5)).balance == 5


def test_a_log_has_one_system_at_a_time(path: Path) -> None:
    with ActorSystem.open(path) as first:
        with pytest.raises(LogLockedError):
            ActorSystem.open(path)
        assert first.actor(Ledger, "a").ask(Post(5)).balance == 5

    with ActorSystem.open(path) as second:
        assert second.actor(Ledger, "a").ask(Look()).balance == 5


# In memory.


def test_a_system_in_memory_leaves_no_file(memory: Path) -> None:
    with ActorSystem.in_memory() as system:
        system.actor(Ledger, "a").ask(Post(5))
        assert [file.name for file in memory.glob("reenact-*/log.db")] == ["log.db"]

    assert list(memory.iterdir()) == []


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"max_live": 0}, {"passivate_after": 0}])
def test_a_system_in_memory_that_cannot_work_leaves_no_file(wrong: dict[str, Any], memory: Path) -> None:
    with pytest.raises(ValueError, match=r"must be above zero|at least one worker"):
        ActorSystem.in_memory(**wrong)

    assert list(memory.iterdir()) == []


def test_systems_in_memory_know_nothing_of_each_other() -> None:
    with ActorSystem.in_memory() as one, ActorSystem.in_memory() as other:
        one.actor(Ledger, "a").ask(Post(5))

        assert other.actor(Ledger, "a").ask(Look()) == Book()


# Closing.


def test_what_was_accepted_is_recorded_before_the_log_is_closed(path: Path) -> None:
    system = ActorSystem.open(path)
    for number in range(200):
        system.actor(Ledger, str(number % 20)).tell(Post(1))

    system.close()

    with ActorSystem.open(path) as system:
        assert system.journal.head() == 200


def test_actors_can_use_the_log_and_each_other_until_the_last_has_ended(path: Path) -> None:
    last_words: list[object] = []

    class Chatty(Ledger):
        def on_stop(self) -> None:
            journal = self.context.journal
            last_words.append((self.context.id, len(journal.read(self.context.stream)), helper.ask(21)))

    with ActorSystem.open(path) as system:
        helper = system.start(Doubler)
        for name in "ab":
            system.actor(Chatty, name).ask(Post(1, entries=3))

    assert sorted(map(str, last_words)) == ["('a', 3, 42)", "('b', 3, 42)"]


def test_closing_lets_go_of_everything(path: Path) -> None:
    clock = ManualClock(NOON)
    system = ActorSystem.open(path, clock=clock)
    system.actor(Ledger, "a").ask(Remind("tea", NOON + 1))
    assert clock._watchers != ()

    system.close()
    system.close()

    assert system.live() == 0
    assert clock._watchers == ()
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("reenact")] == []
    with pytest.raises(RuntimeClosedError):
        system.journal.append(Append("ledger/a", 1, NOON, (Posted(1),)), print)
    SqliteJournal.open(path, EventCodec(())).close()  # the lock is free


def test_an_exception_inside_closes_the_system(path: Path) -> None:
    def fall_over() -> None:
        with ActorSystem.open(path) as system:
            system.actor(Ledger, "a").tell(Post(1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fall_over()

    with ActorSystem.open(path) as system:
        assert system.journal.head() == 1


def test_an_actor_that_fails_at_its_end_keeps_nobody_from_ending(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Clumsy(Ledger):
        def on_stop(self) -> None:
            raise ZeroDivisionError

    with ActorSystem.open(path) as system:
        for name in "abc":
            system.actor(Clumsy, name).ask(Post(1))

    with ActorSystem.open(path) as system:
        assert system.journal.head() == 3
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ZeroDivisionError] * 3


def test_a_journal_of_ones_own_stays_open(path: Path) -> None:
    codec = EventCodec(())
    with SqliteJournal.open(path, codec) as journal:
        with ActorSystem(journal, codec=codec) as system:
            system.actor(Ledger, "a").ask(Post(5))

        assert journal.head() == 1
        with ActorSystem(journal, codec=codec) as system:
            assert system.actor(Ledger, "a").ask(Look()).balance == 5


# Ids.


@pytest.mark.parametrize("name", ["", "x" * 1025, "a\n", "\x00", "\ud800", "\u2028", 5, None, b"a", ("a",)])
def test_what_cannot_be_an_id_is_refused(name: Any) -> None:  # noqa: ANN401 - the mistake
    with ActorSystem.in_memory() as system, pytest.raises(InvalidInputError, match="printable text of 1 to 1024"):
        system.actor(Ledger, name)


@pytest.mark.parametrize("name", ["a", "x" * 1024, "a b", "a/b/c", "/", "Zürich 💶", "%00", "'; --"])
def test_any_printable_text_is_an_id(name: str, path: Path) -> None:
    with ActorSystem.open(path) as system:
        system.actor(Ledger, name).ask(Post(5))

    with ActorSystem.open(path) as system:
        assert system.actor(Ledger, name).ask(Look()).balance == 5
        assert [entry.stream for entry in system.journal.read_all()] == [f"ledger/{name}"]
