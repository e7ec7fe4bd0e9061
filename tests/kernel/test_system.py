"""Identities: found on demand, one incarnation at most, nothing lost between two, all stopped together."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pykka
import pytest

from reenact.actors.kernel import ActorContext, ActorSystem, PooledActor, Reference
from reenact.domain.errors import RequestTimeoutError, RuntimeClosedError
from tests.kernel.account import Account, Audit, Command, Deposit, Diary, WatchedAccount
from tests.kernel.memory import MemoryJournal


class Doubler(PooledActor):
    def on_receive(self, message: int) -> int:
        return message * 2


def test_a_reference_alone_starts_nothing(system: ActorSystem, diary: Diary) -> None:
    system.actor(WatchedAccount, "a")

    assert diary == []
    assert system.live() == 0


def test_references_are_equal_if_class_and_id_are(system: ActorSystem) -> None:
    account = system.actor(Account, "a")

    assert account == system.actor(Account, "a")
    assert hash(account) == hash(system.actor(Account, "a"))
    assert account != system.actor(Account, "b")
    assert account != system.actor(WatchedAccount, "a")
    assert account != "a"
    assert account.id == "a"
    assert repr(account) == "<Account 'a'>"


def test_a_class_may_name_its_streams(system: ActorSystem, journal: MemoryJournal) -> None:
    class Named(Account):
        @classmethod
        def stream(cls, id: str) -> str:  # noqa: A002
            return f"account-{id}"

    system.actor(Named, "a").ask(Deposit(1))

    assert [recorded.stream for recorded in journal.read_all()] == ["account-a"]


def test_all_references_lead_to_one_incarnation(system: ActorSystem, diary: Diary) -> None:
    for _ in range(10):
        system.actor(WatchedAccount, "a").ask(Deposit(1))

    assert len(diary.told("made")) == 1
    assert system.live() == 1


def test_a_stopped_actor_comes_back_with_the_next_message(system: ActorSystem, diary: Diary) -> None:
    account = system.actor(WatchedAccount, "a")
    account.ask(Deposit(5))

    account.stop()

    assert system.live() == 0
    assert account.ask(Audit()) == 5
    assert [entry[0] for entry in diary if entry[0] != "announced"] == [
        "made",
        "recovered",
        "committed",
        "stopped",
        "made",
        "recovered",
    ]


def test_stopping_who_is_not_live_starts_nobody(system: ActorSystem, diary: Diary) -> None:
    account = system.actor(WatchedAccount, "a")

    account.stop()
    account.tell(Deposit(1))
    account.stop()
    account.stop()

    assert len(diary.told("made")) == 1


def test_messages_behind_a_stop_go_to_the_next_incarnation(held: MemoryJournal, diary: Diary) -> None:
    with ActorSystem(held) as system:
        system.register(WatchedAccount, lambda context: WatchedAccount(context, diary))
        account = system.actor(WatchedAccount, "a")
        first = account.ask_future(Deposit(1))
        held.wait_for_appends()
        stopping = [threading.Thread(target=account.stop) for _ in range(2)]
        for thread in stopping:
            thread.start()
        behind = account.ask_future(Audit())

        held.commit()

        assert first.get(timeout=60) == 1
        assert behind.get(timeout=60) == 1
        for thread in stopping:
            thread.join()
        assert len(diary.told("stopped")) in (1, 2)


def test_who_does_not_get_a_reply_in_time_is_told_so_and_the_command_takes_effect(held: MemoryJournal) -> None:
    with ActorSystem(held) as system:
        account = system.actor(Account, "a")

        with pytest.raises(RequestTimeoutError, match="'a'"):
            account.ask(Deposit(5), timeout=0.001)
        held.wait_for_appends()
        with pytest.raises(RequestTimeoutError, match="'a'"):
            account.stop(timeout=0.001)
        held.commit()

        assert account.ask(Audit(), timeout=60) == 5


def test_actors_without_a_log_live_beside_them(system: ActorSystem) -> None:
    ref = system.start(Doubler)

    assert ref.ask(21) == 42
    assert system.live() == 1
    system.stop(ref)
    assert system.live() == 0
    assert pykka.ActorRegistry.get_all() == []


def test_closing_ends_a_conversation_that_has_no_end(journal: MemoryJournal) -> None:
    class Restless(Account):
        def __init__(self, context: ActorContext, other: Callable[[], Reference[Command]]) -> None:
            super().__init__(context)
            self._other = other

        def on_committed(self, command: Command, events: object) -> None:
            try:
                self._other().tell(command)
            except RuntimeClosedError:
                assert events

    system = ActorSystem(journal)
    system.register(
        Restless,
        lambda context: Restless(context, lambda: system.actor(Restless, "b" if context.id == "a" else "a")),
    )
    system.actor(Restless, "a").ask(Deposit(1))

    system.close()

    assert system.live() == 0


def test_two_systems_know_nothing_of_each_other(journal: MemoryJournal) -> None:
    with ActorSystem(journal) as one, ActorSystem(journal) as other:
        one.actor(Account, "a").ask(Deposit(1))

        assert other.live() == 0
        assert other.actor(Account, "a").ask(Audit()) == 1
