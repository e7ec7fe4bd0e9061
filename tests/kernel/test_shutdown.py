"""Closing: what was accepted is done or told to its sender, everybody stops, and no thread is left."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pykka
import pytest

from reenact.actors.kernel import ActorContext, ActorSystem, EventSourcedActor, PooledFuture, Supervision
from reenact.domain.errors import InvalidInputError, ReenactError, RuntimeClosedError, StorageError
from reenact.testing.clock import wait_until
from tests.kernel.account import Account, Audit, Deposit, Deposited
from tests.kernel.memory import MemoryJournal
from tests.kernel.nursery import RESTART, Add, Added, Do, Look, Nursery, Obedient, Person
from tests.threads import at_once

MANY = 5_000


class Listening(pykka.ThreadingActor):
    """Does what it is told on a thread of its own, and says when it has stopped."""

    stopped: list[str]

    def __init__(self, stopped: list[str]) -> None:
        super().__init__()
        self.stopped = stopped

    def on_receive(self, message: Do) -> object:
        return message.what(self)

    def on_stop(self) -> None:
        self.stopped.append(self.actor_urn)


def threads_of_ours() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(("reenact", "Listening"))]


# Who is stopped.


def test_closing_stops_everybody_and_leaves_no_thread(tmp_path: Path) -> None:
    before = threads_of_ours()
    stopped: list[str] = []
    system = ActorSystem.open(tmp_path / "log.db")
    plain = [system.start(Obedient) for _ in range(20)]
    threaded = [system.start(Listening, stopped) for _ in range(5)]
    for ref in threaded:
        ref.ask(Do(lambda _: None))
    assert len(threads_of_ours()) > len(before)

    system.close()

    assert not any(ref.is_alive() for ref in plain)
    assert not any(ref.is_alive() for ref in threaded)
    assert sorted(stopped) == sorted(ref.actor_urn for ref in threaded)
    assert threads_of_ours() == before
    assert pykka.ActorRegistry.get_all() == []


def test_actors_that_ran_on_the_threads_of_their_senders_stop_when_no_thread_can_be_started(
    journal: MemoryJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:  # as Python 3.12 does once the main thread has ended
        raise RuntimeError("can't create new thread at interpreter shutdown")

    system = ActorSystem(journal)
    at_once(lambda _: system.actor(Account, "a").ask(Audit()), 1)
    monkeypatch.setattr(threading.Thread, "start", refuse)

    system.close(timeout=60)

    assert system.live() == 0


@pytest.mark.no_cover
def test_thousands_stop_at_once(journal: MemoryJournal) -> None:
    system = ActorSystem(journal)
    plain = [system.start(Obedient) for _ in range(MANY)]
    replies = [system.actor(Account, str(number)).ask_future(Deposit(1)) for number in range(MANY)]
    for reply in replies:
        reply.get(timeout=60)
    assert system.live() == 2 * MANY

    system.close()

    assert system.live() == 0
    assert not any(ref.is_alive() for ref in plain)
    assert journal.head() == MANY
    assert system._cells == {}


@pytest.mark.no_cover
def test_thousands_stop_at_once_by_themselves(journal: MemoryJournal) -> None:
    with ActorSystem(journal) as system:
        accounts = [system.actor(Account, str(number)) for number in range(MANY)]
        for account in accounts:
            account.tell(Deposit(1))
        stops = [system._ask_to_stop((Account, account.id)) for account in accounts]
        for stop in stops:
            stop.get(timeout=60)

        wait_until(lambda: not system._cells)
        assert system.live() == 0
        assert [account.ask(Audit()) for account in accounts[::500]] == [1] * 10


def test_thousands_that_fail_at_once_are_all_started_again(home: Nursery) -> None:
    kind = home.person_class(supervision=Supervision(min_backoff=0.5, max_backoff=1.0))
    people = [home.system.actor(kind, str(number)) for number in range(500)]
    home.journal.disk_full()
    lost = [person.ask_future(Add(1)) for person in people]
    for reply in lost:
        with pytest.raises(StorageError):
            reply.get(timeout=60)
    home.journal.space_again()
    waiting = [person.ask_future(Add(1)) for person in people]

    def are_back() -> bool:
        home.clock.advance(1)
        return all(reply.done() for reply in waiting)

    wait_until(are_back)
    assert [reply.get() for reply in waiting] == [1] * 500
    assert len(home.diary.told("made")) == 1000


# From inside.


def test_an_actor_may_stop_itself(home: Nursery) -> None:
    person = home.person()
    person.ask(Add(1))

    person.tell(Do(lambda actor: actor.stop()))
    home.wait_for("stopped")

    assert person.ask(Look(), timeout=60) == 1


def test_what_an_actor_was_sent_before_it_stops_itself_is_handled(home: Nursery) -> None:
    held = threading.Event()
    person = home.person()

    def stop(actor: Person) -> None:
        assert held.wait(60)
        actor.stop()

    person.tell(Do(stop))
    replies = [person.ask_future(Add(1)) for _ in range(10)]
    held.set()

    assert [reply.get(timeout=60) for reply in replies] == list(range(1, 11))
    home.wait_for("stopped")


def test_an_actor_may_stop_others(home: Nursery) -> None:
    kind = home.person_class()
    others = [home.system.actor(kind, str(number)) for number in range(10)]
    for other in others:
        other.ask(Look())

    def stop_them(_: object) -> None:
        for other in others:
            other.stop()

    home.system.start(Obedient).ask(Do(stop_them), timeout=60)

    assert len(home.diary.told("stopped")) == 10
    assert home.system.live() == 1


def test_a_plain_actor_may_stop_itself_while_the_system_closes(home: Nursery) -> None:
    refs = [home.system.start(Obedient) for _ in range(50)]
    for ref in refs:
        ref.tell(Do(lambda actor: actor.stop()))

    home.system.close()

    assert not any(ref.is_alive() for ref in refs)


# Twice, at the same time, from the wrong place.


def test_closing_twice_and_from_many_threads_is_closing_once(home: Nursery) -> None:
    person = home.person()
    replies = [person.ask_future(Add(1)) for _ in range(200)]
    returned: list[bool] = []

    def close(_: int) -> None:
        home.system.close()
        returned.append(all(reply.done() for reply in replies))

    at_once(close, threads=6)
    home.system.close()

    assert returned == [True] * 6
    assert [reply.get(timeout=0) for reply in replies] == list(range(1, 201))
    assert home.diary.told("stopped") == [("stopped", "a")]


@pytest.mark.parametrize("sourced", [True, False])
def test_an_actor_cannot_close_the_system_and_the_system_goes_on(home: Nursery, sourced: bool) -> None:  # noqa: FBT001
    person = home.person()

    def close(_: object) -> None:
        home.system.close()

    with pytest.raises(RuntimeError, match="cannot close"):
        person.ask(Do(close)) if sourced else home.system.start(Obedient).ask(Do(close))

    assert person.ask(Add(1)) == 1


@pytest.mark.parametrize("timeout", ["1", float("nan"), True, []])
def test_what_is_no_timeout_closes_nothing(timeout: Any, home: Nursery) -> None:  # noqa: ANN401 - the mistake
    with pytest.raises(InvalidInputError, match="a timeout must be a number of seconds"):
        home.system.close(timeout)

    assert home.person().ask(Add(1)) == 1


@pytest.mark.parametrize("timeout", [float("inf"), 1e30])
def test_a_timeout_may_be_as_long_as_one_likes(timeout: float, home: Nursery) -> None:
    home.person().ask(Add(1))

    home.system.close(timeout)

    assert home.system.live() == 0


def test_nothing_is_started_after_closing(home: Nursery) -> None:
    stopped: list[str] = []
    person = home.person()
    home.system.close()
    before = threads_of_ours()

    for start in (lambda: home.system.start(Obedient), lambda: home.system.start(Listening, stopped)):
        with pytest.raises(RuntimeClosedError):
            start()
    for send in (person.ask, person.ask_future, person.tell):
        with pytest.raises(RuntimeClosedError):
            send(Look())
    person.stop()
    assert home.system.live() == 0
    assert threads_of_ours() == before


def test_a_thread_that_is_started_when_the_system_has_just_closed_does_not_stay(home: Nursery) -> None:
    """Its constructor may take as long as closing does."""
    stopped: list[str] = []

    class Slow(Listening):
        def __init__(self) -> None:
            super().__init__(stopped)
            home.system.close()

    class SlowPooled(Obedient):
        def __init__(self) -> None:
            super().__init__()
            home.system.close()

    with pytest.raises(RuntimeClosedError):
        home.system.start(Slow)
    home.system._closing = False
    with pytest.raises(RuntimeClosedError):
        home.system.start(SlowPooled)

    assert len(stopped) == 1
    assert home.system.live() == 0


# What was accepted.


def test_what_was_accepted_is_done_and_what_comes_later_is_refused_and_nothing_lies_between(
    journal: MemoryJournal,
) -> None:
    system = ActorSystem(journal)
    accepted: list[list[PooledFuture[int]]] = [[] for _ in range(4)]
    refused = threading.Barrier(5)

    def send(mine: list[PooledFuture[int]]) -> None:
        try:
            while True:
                mine.append(system.actor(Account, str(len(mine) % 20)).ask_future(Deposit(1)))
        except RuntimeClosedError:
            refused.wait(60)

    threads = [threading.Thread(target=send, args=(mine,)) for mine in accepted]
    for thread in threads:
        thread.start()
    wait_until(lambda: all(len(mine) > 50 for mine in accepted))
    system.close()
    refused.wait(60)
    for thread in threads:
        thread.join()

    futures = [future for mine in accepted for future in mine]
    outcomes = {future: future.get(timeout=0) for future in futures if not future.failed()}
    assert len(outcomes) == journal.head()
    assert all(isinstance(_error(future), RuntimeClosedError) for future in futures if future.failed())


def _error(future: PooledFuture[Any]) -> BaseException | None:
    try:
        future.get(timeout=0)
    except ReenactError as error:
        return error
    return None


def test_actors_that_send_each_other_messages_are_heard_out(home: Nursery) -> None:
    """Each adds one and hands on to the next, once round and one further."""

    class Passing(Person):
        def on_committed(self, command: object, events: object) -> None:
            if self.state < 2:
                neighbour = str((int(self.context.id) + 1) % 7)
                self.context.system.actor(type(self), neighbour).tell(Add(1))

    kind = home.person_class(base=Passing)
    home.system.actor(kind, "0").tell(Add(1))

    home.system.close()

    assert [home.recorded(f"person/{number}") for number in range(7)] == [[Added(1)] * 2] + [[Added(1)]] * 6


def test_an_actor_may_ask_others_while_the_system_closes(home: Nursery) -> None:
    held = threading.Event()
    kind = home.person_class()
    person, other = home.system.actor(kind, "a"), home.system.actor(kind, "b")
    other.ask(Add(41))

    def ask(_: object) -> object:
        assert held.wait(60)
        other.stop(timeout=60)
        return other.ask(Add(1), timeout=60)

    reply = person.ask_future(Do(ask))
    closing = threading.Thread(target=home.system.close)
    closing.start()
    wait_until(lambda: not home.system._may_restart())
    held.set()
    closing.join(60)

    assert reply.get(timeout=0) == 42


def test_what_cannot_be_recorded_any_more_is_told_to_its_sender() -> None:
    with Nursery(stepwise=True) as home:
        person = home.person()
        replies = [person.ask_future(Add(1)) for _ in range(5)]
        home.memory.wait_for_appends()
        home.memory.fail_next(StorageError("gone"))
        closing = threading.Thread(target=home.system.close)
        closing.start()
        while closing.is_alive():
            home.memory.commit()
            closing.join(0.001)

        with pytest.raises(StorageError, match="gone"):
            replies[0].get(timeout=0)
        assert [reply.get(timeout=0) for reply in replies[1:]] == [1, 2, 3, 4]


def test_scheduled_commands_are_dropped_and_hold_nothing_up(home: Nursery) -> None:
    person = home.person()
    person.ask(Do(lambda actor: actor.context.schedule(5.0, Add(1))))

    home.system.close()
    home.clock.advance(10)

    assert home.recorded("person/a") == []


def test_many_kinds_of_trouble_at_once_do_not_keep_the_system_from_closing(home: Nursery) -> None:
    """Actors that fail, wait to be started again, have children, wait for the journal or cannot start."""
    failing, broken = home.person_class("failing", RESTART), home.person_class("broken", RESTART)
    broken.trips["on_start"] = ZeroDivisionError
    parent, child = home.person_class("parent", RESTART), home.person_class("child", RESTART)
    replies: list[PooledFuture[Any]] = []
    for number in range(20):
        name = str(number)
        home.system.actor(failing, name).tell(Do(lambda _: 1 // 0))
        replies.append(home.system.actor(failing, name).ask_future(Add(1)))
        replies.append(home.system.actor(broken, name).ask_future(Add(1)))
        replies.append(
            home.system.actor(parent, name).ask_future(
                Do(lambda actor: actor.context.child(child, "c").tell(Do(lambda _: 1 // 0)))
            )
        )
        home.journal.fail_next(StorageError("for once"))
        replies.append(home.system.actor(parent, name).ask_future(Add(1)))

    home.system.close()

    assert all(reply.done() for reply in replies)
    assert home.system.live() == 0
    assert home.system._cells == {}
    family = home.system._family
    assert (family._children, family._parents, family._care) == ({}, {}, {})


def test_an_actor_made_while_the_system_closes_is_ended_with_it(journal: MemoryJournal) -> None:
    """Whoever is woken up by the last message of somebody else is stopped as well."""

    class Parting(EventSourcedActor[int, Deposit, Deposited]):
        category = "parting"
        initial = 0

        @staticmethod
        def decide(state: int, command: Deposit) -> tuple[Deposited]:
            return (Deposited(command.amount),)

        @staticmethod
        def evolve(state: int, event: Deposited) -> int:
            return state + event.amount

        def __init__(self, context: ActorContext) -> None:
            super().__init__(context)
            self.made = context.system

        def on_stop(self) -> None:
            if self.state < 3:
                self.made.actor(Parting, f"{self.context.id}.").tell(Deposit(self.state + 1))

    system = ActorSystem(journal)
    system.actor(Parting, "a").ask(Deposit(1))

    system.close()

    assert [(entry.stream, entry.event) for entry in journal.read_all()] == [
        ("parting/a", Deposited(1)),
        ("parting/a.", Deposited(2)),
        ("parting/a..", Deposited(3)),
    ]
    assert system.live() == 0
