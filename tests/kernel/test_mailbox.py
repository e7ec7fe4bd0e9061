"""No message is forgotten, however closely sending and letting go coincide."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from reenact.actors.kernel.mailbox import Envelope, Mailbox
from reenact.actors.kernel.pool import Runnable, WorkerPool


class CountingPool(WorkerPool):
    """A pool without workers that knows who was submitted."""

    def __init__(self) -> None:
        super().__init__()
        self.submitted: list[Runnable] = []

    def submit(self, work: Runnable) -> None:
        self.submitted.append(work)


class Interrupted:
    """The mailbox's flag; between the look for messages and the release, another thread sends one."""

    def __init__(self, send: Callable[[], object]) -> None:
        self._held = True
        self._sends = iter([send])

    def acquire(self, *, blocking: bool) -> bool:
        assert not blocking
        held, self._held = self._held, True
        return not held

    def release(self) -> None:
        for send in self._sends:
            send()
        self._held = False


class Idle:
    """Takes nothing out when it is its turn."""

    def _turn(self, envelope: Envelope | None) -> None:
        pass


@pytest.fixture
def pool() -> Iterator[CountingPool]:
    pool = CountingPool()
    yield pool
    pool.close()


@pytest.fixture
def mailbox(pool: CountingPool) -> Mailbox:
    mailbox = Mailbox()
    mailbox.open(pool, Idle())
    return mailbox


def test_a_message_that_comes_while_the_last_one_is_looked_for_is_the_next(
    mailbox: Mailbox, pool: CountingPool
) -> None:
    late = Envelope("late")
    mailbox._held = Interrupted(lambda: mailbox.offer(late))  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]

    assert mailbox.next() is late
    assert mailbox.next() is None
    assert pool.submitted == []


def test_a_message_that_comes_while_the_mailbox_is_let_go_gets_a_worker(mailbox: Mailbox, pool: CountingPool) -> None:
    mailbox._held = Interrupted(lambda: mailbox.offer(Envelope("late")))  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]

    mailbox.let_go()

    assert pool.submitted == [mailbox]


def test_who_would_hold_the_mailbox_does_not_overtake_a_message_that_is_just_being_sent(
    mailbox: Mailbox, pool: CountingPool
) -> None:
    mailbox.let_go()
    mailbox._make_room().append(Envelope("being sent"))

    assert not mailbox.hold()
    assert pool.submitted == [mailbox]


def test_a_message_to_a_mailbox_that_is_shut_is_returned_or_drained_but_never_both(mailbox: Mailbox) -> None:
    early, late = Envelope("early"), Envelope("late")
    mailbox.offer(early)
    mailbox.shut()

    assert not mailbox.offer(late)
    assert mailbox.drain() == [early]
    assert mailbox.empty()
    assert not mailbox._take_back(early)


def test_a_mailbox_with_messages_is_not_shut_for_being_empty(mailbox: Mailbox) -> None:
    mailbox.offer(Envelope("here"))

    assert not mailbox.shut_if_empty()
    assert mailbox.get().message == "here"
    assert mailbox.shut_if_empty()
    assert not mailbox.offer(Envelope("too late"))
