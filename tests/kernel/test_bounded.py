"""Bounded mailboxes: no more wait than may, whoever sends one more is told so, and nothing is lost or doubled."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import pykka
import pytest

from reenact.actors.kernel import PooledActor
from reenact.actors.kernel.mailbox import Envelope, Occupant
from reenact.domain.errors import MailboxFullError
from reenact.testing.clock import wait_until
from tests.kernel.nursery import RESTART, STOP, Add, Do, Look, Nursery, Trip, kept_busy
from tests.threads import at_once

LIMIT = 5
THREADS, EACH = 8, 300


class Counting(PooledActor):
    """Adds up numbers, and does what it is told."""

    mailbox_limit: ClassVar[int | None] = LIMIT

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def on_receive(self, message: int | Do) -> object:
        if isinstance(message, Do):
            return message.what(self)
        self.count += message
        return self.count


# An event-sourced actor.


def test_whoever_sends_one_too_many_is_told_so_at_once(home: Nursery) -> None:
    person = home.person(mailbox_limit=LIMIT)
    with kept_busy(person.tell):
        replies = [person.ask_future(Add(1)) for _ in range(LIMIT)]

        with pytest.raises(MailboxFullError, match="5 messages wait already") as caught:
            person.ask(Add(10))
        with pytest.raises(MailboxFullError):
            person.ask(Add(10), timeout=1)
        with pytest.raises(MailboxFullError):
            person.ask_future(Add(10))
        with pytest.raises(MailboxFullError):
            person.tell(Add(10))
        assert (caught.value.code, caught.value.limit) == ("mailbox_full", LIMIT)

    assert [reply.get(timeout=60) for reply in replies] == [1, 2, 3, 4, 5]
    assert person.ask(Add(1)) == 6
    assert home.letters == []


def test_while_a_step_is_recorded_as_many_wait_as_may_and_no_more() -> None:
    with Nursery(stepwise=True) as home:
        person = home.person(mailbox_limit=LIMIT)
        replies = [person.ask_future(Add(1))]
        home.memory.wait_for_appends()
        replies += [person.ask_future(Add(1)) for _ in range(LIMIT)]

        with pytest.raises(MailboxFullError):
            person.tell(Add(1))
        home.memory.commit()
        home.memory.wait_for_appends()
        replies.append(person.ask_future(Add(1)))
        with pytest.raises(MailboxFullError):
            person.tell(Add(1))

        while home.memory.under_way() or not all(reply.done() for reply in replies):
            home.memory.commit()
        assert [reply.get(timeout=0) for reply in replies] == list(range(1, LIMIT + 3))


def test_during_a_backoff_as_many_wait_as_may(home: Nursery) -> None:
    person = home.person(supervision=RESTART, mailbox_limit=LIMIT)
    person.tell(Trip("decide"))
    home.wait_for_backoff()
    replies = [person.ask_future(Add(1)) for _ in range(LIMIT)]
    with pytest.raises(MailboxFullError):
        person.tell(Add(1))

    home.pass_backoff()

    assert [reply.get(timeout=60) for reply in replies] == [1, 2, 3, 4, 5]


def test_a_full_mailbox_takes_a_stop_and_what_the_kernel_says(home: Nursery) -> None:
    person_class = home.person_class(mailbox_limit=1)
    child_class = home.person_class("child", STOP)
    person = home.system.actor(person_class, "a")
    child = person.ask(Do(lambda actor: actor.context.child(child_class, "c")))
    child.ask(Look())
    with kept_busy(person.tell):
        reply = person.ask_future(Add(1))
        with pytest.raises(MailboxFullError):
            person.tell(Add(1))

        child.tell(Trip("decide"))
        wait_until(lambda: len(home.system._cells[(person_class, "a")].mailbox) == 2)
        stopping = threading.Thread(target=person.stop, args=(5,))
        stopping.start()
        wait_until(lambda: len(home.system._cells[(person_class, "a")].mailbox) == 3)

    stopping.join()
    assert home.diary.told("stopped")
    assert reply.get(timeout=0) == 1
    assert len(home.diary.told("child failed")) == 1


def test_an_actor_that_asks_a_full_one_is_told_so_too(home: Nursery) -> None:
    kind = home.person_class(mailbox_limit=1)
    person, other = home.system.actor(kind, "a"), home.system.actor(kind, "b")
    with kept_busy(person.tell):
        person.tell(Add(1))

        with pytest.raises(MailboxFullError):
            other.ask(Do(lambda _: person.ask(Add(1))))

    person.stop(timeout=60)
    assert other.ask(Do(lambda _: person.ask(Look()))) == 1


def test_the_first_message_is_taken_by_an_actor_that_is_being_started_for_it_however_many_come_meanwhile(
    home: Nursery,
) -> None:
    """An actor that is asked by another one may be started on the same thread: its place cannot be taken by others."""
    kind = home.person_class(mailbox_limit=1)
    asker = home.person("asker", id_="x")
    refused: list[int] = []

    def flood(stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                home.system.actor(kind, "a").tell(Add(1))
            except MailboxFullError:
                refused.append(1)

    over = threading.Event()
    thread = threading.Thread(target=flood, args=(over,))
    thread.start()
    try:
        for _ in range(200):
            asker.ask(Do(lambda _: _tried(lambda: home.system.actor(kind, "a").ask(Look()))), timeout=60)
            home.system.actor(kind, "a").stop(timeout=60)
    finally:
        over.set()
        thread.join()

    home.system.actor(kind, "a").stop(timeout=60)
    assert isinstance(home.system.actor(kind, "a").ask(Look(), timeout=60), int)


def _tried(act: Callable[[], object]) -> object:
    try:
        return act()
    except MailboxFullError as error:
        return error


class Overtaken:
    """Has its turn only after another message was sent."""

    def __init__(self, occupant: Occupant, send: Callable[[], object]) -> None:
        self._occupant = occupant
        self._send = send

    def _turn(self, envelope: Envelope | None) -> None:
        self._send()
        self._occupant._turn(envelope)


def test_a_message_that_is_handled_on_the_askers_thread_needs_no_place_in_the_mailbox() -> None:
    """Between holding an idle mailbox and handling the message, others may have filled it."""
    with Nursery() as home:
        kind = home.person_class(mailbox_limit=1)
        person = home.system.actor(kind, "a")
        asker = home.person("asker", id_="x")

        def ask(_: object) -> object:
            cell = home.system._cell((kind, "a"))
            cell.mailbox._occupant = Overtaken(cell.mailbox._occupant, lambda: person.tell(Add(5)))
            return person.ask(Add(1))

        assert asker.ask(Do(ask), timeout=60) == 6


# A plain one.


def test_a_plain_actor_takes_no_more_than_may_wait(home: Nursery) -> None:
    ref = home.system.start(Counting)
    with kept_busy(ref.tell):
        replies = [ref.ask(1, block=False) for _ in range(LIMIT)]

        with pytest.raises(MailboxFullError, match="5 messages wait already"):
            ref.ask(10)
        with pytest.raises(MailboxFullError):
            ref.ask(10, block=False)
        with pytest.raises(MailboxFullError):
            ref.tell(10)

    assert [reply.get(timeout=60) for reply in replies] == [1, 2, 3, 4, 5]
    assert ref.ask(1) == 6


def test_a_plain_actor_that_is_full_can_be_stopped(home: Nursery) -> None:
    ref = home.system.start(Counting)
    with kept_busy(ref.tell):
        replies = [ref.ask(1, block=False) for _ in range(LIMIT)]
        stopped = ref.stop(block=False)

    assert stopped.get(timeout=60) is True
    assert [reply.get(timeout=0) for reply in replies] == [1, 2, 3, 4, 5]
    with pytest.raises(pykka.ActorDeadError):
        ref.tell(1)


def test_a_plain_actor_that_is_asked_by_another_answers_on_the_same_thread_whatever_its_limit(home: Nursery) -> None:
    class Narrow(Counting):
        mailbox_limit = 1

    asked, asker = home.system.start(Narrow), home.system.start(Narrow)
    replies: list[object] = []

    asker.ask(Do(lambda _: replies.extend(asked.ask(1) for _ in range(10))), timeout=60)

    assert replies == list(range(1, 11))


def test_a_system_with_full_actors_closes(home: Nursery) -> None:
    person = home.person(mailbox_limit=LIMIT)
    ref = home.system.start(Counting)
    closing = threading.Thread(target=home.system.close)
    with kept_busy(person.tell), kept_busy(ref.tell):
        replies: list[pykka.Future[Any]] = [person.ask_future(Add(1)) for _ in range(LIMIT)]
        replies += [ref.ask(1, block=False) for _ in range(LIMIT)]
        closing.start()

    closing.join(60)
    assert [reply.get(timeout=0) for reply in replies] == [1, 2, 3, 4, 5] * 2


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_that_leaves_no_room_is_refused(home: Nursery, limit: int) -> None:
    class Roomless(Counting):
        mailbox_limit = limit

    with pytest.raises(ValueError, match="room for at least one"):
        home.system.start(Roomless)


# Many threads.


def send_from_many_threads(send: Callable[[int], object]) -> Counter[str]:
    """Have each thread send its share, and return how many were taken and refused."""
    counts: Counter[str] = Counter()
    lock = threading.Lock()

    def run(_: int) -> None:
        mine: Counter[str] = Counter()
        for number in range(EACH):
            try:
                send(number)
            except MailboxFullError:
                mine["refused"] += 1
            else:
                mine["taken"] += 1
        with lock:
            counts.update(mine)

    at_once(run, THREADS)
    assert counts.total() == THREADS * EACH
    return counts


def test_of_many_threads_exactly_as_many_get_through_as_there_is_room(home: Nursery) -> None:
    person = home.person(mailbox_limit=100)
    with kept_busy(person.tell):
        counts = send_from_many_threads(lambda _: person.tell(Add(1)))

    assert counts["taken"] == 100
    person.stop(timeout=60)
    assert person.ask(Look()) == 100


def test_what_was_taken_is_handled_once_and_what_was_refused_never(home: Nursery) -> None:
    person = home.person(mailbox_limit=20)

    def send(number: int) -> None:
        if number % 3 == 0:
            person.ask(Add(1))
        elif number % 3 == 1:
            person.tell(Add(1))
        else:
            person.ask_future(Add(1))
        if number % 50 == 49:
            person.stop(timeout=60)

    counts = send_from_many_threads(send)

    person.stop(timeout=60)
    assert person.ask(Look()) == counts["taken"]
    assert len(home.recorded("person/a")) == counts["taken"]
