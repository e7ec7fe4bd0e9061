"""Dead letters: what was told and came to nothing, and nothing else."""

from __future__ import annotations

import threading

import pykka
import pytest

from reenact.actors.kernel import ActorSystem, DeadLetter
from reenact.actors.kernel.letters import DeadLetters
from reenact.domain.errors import MailboxFullError, StorageFullError
from reenact.testing.clock import wait_until
from tests.kernel.nursery import (
    FALL_OVER,
    RESTART,
    Add,
    Do,
    Look,
    Nursery,
    Obedient,
    Refused,
    Stumbled,
    Trip,
    kept_busy,
)
from tests.threads import at_once


def _give_up(_: object) -> None:
    raise SystemExit


GIVE_UP = Do(_give_up)


# What is one.


def test_a_dead_letter_says_to_whom_it_was_sent_what_it_says_and_why_nothing_came_of_it(home: Nursery) -> None:
    person = home.person()

    person.tell(Add(-1))
    person.ask(Look())

    [letter] = home.letters
    assert (letter.recipient, letter.message) == ("person/a", Add(-1))
    assert isinstance(letter.reason, Refused)
    assert home.diary.told("dead letter") == [("dead letter", "a", Add(-1))]


def test_what_is_refused_fails_or_cannot_be_recorded_is_one_if_it_was_told(home: Nursery) -> None:
    person = home.person()

    person.tell(Add(-1))
    person.tell(Trip("decide"))
    person.tell(Trip("decide", SystemExit))
    assert person.ask(Look()) == 0
    home.journal.fail_next(StorageFullError("no space"))
    person.tell(Add(1))
    assert person.ask(Look()) == 0

    assert [(letter.message, type(letter.reason)) for letter in home.letters] == [
        (Add(-1), Refused),
        (Trip("decide"), Stumbled),
        (Trip("decide", SystemExit), pykka.ActorDeadError),
        (Add(1), StorageFullError),
    ]


def test_what_was_asked_is_none_whatever_becomes_of_it(home: Nursery) -> None:
    kind = home.person_class()
    person = home.system.actor(kind, "a")
    home.journal.fail_next(StorageFullError("no space"))
    for command in (Add(1), Add(-1), Trip("decide"), Trip("decide", SystemExit)):
        with pytest.raises((StorageFullError, Refused, Stumbled, pykka.ActorDeadError)):
            person.ask(command)
    person.stop()
    kind.trips["on_start"] = Stumbled
    with pytest.raises(Stumbled):
        person.ask(Look())

    assert home.letters == []


def test_what_is_handled_is_none(home: Nursery) -> None:
    person = home.person(supervision=RESTART)
    person.tell(Add(1))
    person.tell(Trip("on_committed"))
    person.tell(Add(1))
    home.pass_backoff()

    assert person.ask(Look(), timeout=60) == 3
    assert home.letters == []


def test_who_sends_too_much_knows_it_and_needs_no_dead_letter(home: Nursery) -> None:
    person = home.person(mailbox_limit=1)
    with kept_busy(person.tell):
        person.tell(Add(1))

        with pytest.raises(MailboxFullError):
            person.tell(Add(2))

    person.stop(timeout=60)
    assert person.ask(Look(), timeout=60) == 1
    assert home.letters == []


def test_a_scheduled_command_that_finds_the_mailbox_full_is_one(home: Nursery) -> None:
    person = home.person(mailbox_limit=1)
    person.ask(Do(lambda actor: actor.context.schedule(5.0, Add(1))))
    with kept_busy(person.tell):
        person.tell(Add(10))

        home.clock.advance(6)

    assert home.reasons() == [("person/a", Add(1), "MailboxFullError")]
    person.stop()
    assert person.ask(Look(), timeout=60) == 10


# Of actors without a log.


def test_what_a_plain_actor_fails_at_is_one_and_so_is_what_it_leaves_behind(home: Nursery) -> None:
    held = threading.Event()
    ref = home.system.start(Obedient)

    hold = Do(lambda _: held.wait(60))
    for message in (hold, FALL_OVER, hold, FALL_OVER):
        ref.tell(message)
    asked = ref.ask(hold, block=False)
    held.set()

    with pytest.raises(pykka.ActorDeadError):
        asked.get(timeout=60)

    wait_until(lambda: len(home.letters) == 3)
    assert [(letter.recipient, letter.message, type(letter.reason)) for letter in home.letters] == [
        (str(ref), FALL_OVER, Stumbled),
        (str(ref), hold, pykka.ActorDeadError),
        (str(ref), FALL_OVER, pykka.ActorDeadError),
    ]
    assert isinstance(home.letters[1].reason.__cause__, Stumbled | None)


def test_what_a_plain_actor_quits_at_is_one(home: Nursery) -> None:
    ref = home.system.start(Obedient)

    ref.tell(GIVE_UP)

    assert ref.actor_stopped.wait(60)
    wait_until(lambda: home.letters)
    assert home.reasons() == [(str(ref), GIVE_UP, "ActorDeadError")]


def test_a_plain_actor_that_is_stopped_leaves_none(home: Nursery) -> None:
    ref = home.system.start(Obedient)
    for _ in range(10):
        ref.tell(Do(lambda _: None))
    ref.tell(Do(lambda actor: actor.stop()))

    assert ref.actor_stopped.wait(60)
    assert home.letters == []


# Their readers.


def test_each_reader_hears_each_until_it_wants_no_more() -> None:
    letters = DeadLetters()
    first: list[DeadLetter] = []
    second: list[DeadLetter] = []
    end = letters.subscribe(first.append)
    letters.subscribe(second.append)

    letters.put("a", 1, Stumbled())
    end()
    end()
    letters.put("a", 2, Stumbled())

    assert [letter.message for letter in first] == [1]
    assert [letter.message for letter in second] == [1, 2]


def test_who_reads_twice_may_end_one_of_both() -> None:
    letters = DeadLetters()
    heard: list[DeadLetter] = []
    read = heard.append
    end = letters.subscribe(read)
    letters.subscribe(read)

    letters.put("a", 1, Stumbled())
    end()
    letters.put("a", 2, Stumbled())

    assert [letter.message for letter in heard] == [1, 1, 2]


def test_readers_that_come_and_go_on_many_threads_do_not_lose_each_other() -> None:
    letters = DeadLetters()
    heard: list[DeadLetter] = []

    def come_and_go(_: int) -> None:
        for _ in range(300):
            letters.subscribe(heard.append)
            letters.subscribe(heard.append)()

    at_once(come_and_go, threads=4)
    letters.put("a", 1, Stumbled())

    assert len(heard) == 1200


@pytest.mark.parametrize("error", [Stumbled, SystemExit])
def test_a_reader_that_raises_harms_neither_the_others_nor_the_actor(home: Nursery, error: type[BaseException]) -> None:
    def fail(_: DeadLetter) -> None:
        raise error

    heard: list[DeadLetter] = []
    home.system.on_dead_letter(fail)
    home.system.on_dead_letter(heard.append)
    person = home.person()

    person.tell(Add(-1))
    person.tell(Trip("decide"))

    assert person.ask(Add(1), timeout=60) == 1
    assert [letter.message for letter in heard] == [Add(-1), Trip("decide")]
    assert len(home.diary.told("made")) == 1


def test_a_reader_may_send_the_message_to_somebody_else(home: Nursery) -> None:
    kind = home.person_class()
    collector = home.system.actor(kind, "collector")
    home.system.on_dead_letter(lambda letter: collector.tell(Add(1)))

    for _ in range(10):
        home.system.actor(kind, "a").tell(Add(-1))
    home.system.actor(kind, "a").ask(Look())

    assert collector.ask(Look()) == 10


def test_two_systems_have_readers_of_their_own(home: Nursery) -> None:
    with ActorSystem(home.journal) as other:
        heard: list[DeadLetter] = []
        other.on_dead_letter(heard.append)
        person = home.person()

        person.tell(Add(-1))
        person.ask(Look())

        assert heard == []
        assert len(home.letters) == 1
