"""No message is forgotten, however closely sending and letting go coincide."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.actors.kernel.mailbox import STOP, Envelope, Mailbox
from reenact.actors.kernel.pool import Runnable, WorkerPool
from reenact.domain.errors import MailboxFullError


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

    def locked(self) -> bool:
        return self._held

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


@given(st.lists(st.one_of(st.integers(1, 100), st.sampled_from(["take", "look"])), max_size=40))
def test_messages_come_out_in_the_order_in_which_they_were_sent_however_many_wait(doings: list[int | str]) -> None:
    mailbox = Mailbox(1000)
    mailbox.open(CountingPool(), Idle())
    waiting: deque[Envelope] = deque()

    for doing in doings:
        if isinstance(doing, int):
            for number in range(min(doing, 1000 - len(waiting))):
                waiting.append(Envelope(number))
                mailbox.offer(waiting[-1])
        elif doing == "take":
            assert mailbox.next() is (waiting.popleft() if waiting else None)
            mailbox.hold()
        else:
            assert mailbox.first() is (waiting[0] if waiting else None)
        assert len(mailbox) == len(waiting)
        assert mailbox.empty() == (not waiting)

    assert mailbox.drain() == list(waiting)


def test_a_full_mailbox_is_full_while_its_messages_are_taken_out_many_at_a_time() -> None:
    bounded = Mailbox(100)
    bounded.open(CountingPool(), Idle())
    for number in range(100):
        bounded.offer(Envelope(number))

    assert bounded.next() is not None
    bounded.offer(Envelope("one more"))

    with pytest.raises(MailboxFullError):
        bounded.offer(Envelope("too many"))
    assert not bounded.awaits_stop()
    bounded.offer(Envelope(STOP))
    assert bounded.awaits_stop()


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
    mailbox._ensure_list().append(Envelope("being sent"))

    assert not mailbox.hold()
    assert pool.submitted == [mailbox]


def test_a_message_to_a_mailbox_that_is_shut_is_returned_or_drained_but_never_both(mailbox: Mailbox) -> None:
    early, late = Envelope("early"), Envelope("late")
    mailbox.offer(early)
    mailbox.shut()

    assert not mailbox.offer(late)
    assert mailbox.drain() == [early]
    assert mailbox.empty()
    assert not mailbox._withdraw(early)


def test_a_mailbox_with_messages_is_not_shut_for_being_empty(mailbox: Mailbox) -> None:
    mailbox.offer(Envelope("here"))

    assert not mailbox.shut_if_empty()
    assert mailbox.get().message == "here"
    assert mailbox.shut_if_empty()
    assert not mailbox.offer(Envelope("too late"))
