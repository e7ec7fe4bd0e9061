"""Streams go to other nodes and come back: their actors leave or are dropped, and no message is lost without a word."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from reenact.actors.kernel import ActorSystem, DeadLetter, PooledFuture, Supervision
from reenact.domain.errors import ShardMovedError, StorageError
from reenact.testing.clock import ManualClock, wait_until
from tests.examples import chance_of
from tests.kernel.account import Account, Audit, Command, Deposit, Deposited, Diary, Event, WatchedAccount
from tests.kernel.ledger import NOON, SECOND, Ledger, Post, Remind, rung
from tests.kernel.memory import MemoryJournal
from tests.kernel.nursery import RESTART, Add, Nursery, Person, Stumbled, wait_until_idle
from tests.kernel.nursery import Look as LookAt
from tests.threads import at_once


class Node:
    """A system that owns the streams that stand here, and tells what has come to nothing."""

    def __init__(self, journal: MemoryJournal, *owned: str, clock: ManualClock | None = None) -> None:
        self.owned = set(owned)
        self.diary = Diary()
        self.letters: list[DeadLetter] = []
        self.system = ActorSystem(journal, clock=clock or ManualClock(NOON), may_start=self.owned.__contains__)
        self.system.register(Odd, lambda context: Odd(context, self.diary))
        self.system.on_dead_letter(self.letters.append)

    def account(self, name: str = "a") -> PooledFuture[int]:
        return self.system.actor(Odd, name).ask_future(Audit())

    def deposit(self, amount: int, name: str = "a") -> PooledFuture[int]:
        return self.system.actor(Odd, name).ask_future(Deposit(amount))

    def lose(self, *names: str) -> None:
        self.owned -= {*names}
        self.system.drop({*names}.__contains__)

    def leave(self, *names: str) -> PooledFuture[None]:
        self.owned -= {*names}
        left: PooledFuture[None] = PooledFuture()
        self.system.hand_off({*names}.__contains__, [True], lambda _: left.set(None))
        return left

    def claim(self, *names: str) -> None:
        self.owned |= {*names}
        self.system.take_up()


class Odd(WatchedAccount):
    """An account that has something to do while its balance is odd."""

    stays = False

    def can_leave(self) -> bool:
        return self.state % 2 == 0 and not self.stays


@pytest.fixture
def node(journal: MemoryJournal) -> Node:
    return Node(journal, "a", "b", "c")


def now(future: PooledFuture[int]) -> int:
    return future.get(timeout=60)


def all_leave(system: ActorSystem) -> PooledFuture[None]:
    """Ask everybody to leave, and return what tells when they have left."""
    left: PooledFuture[None] = PooledFuture()
    system.hand_off(lambda _: 0, [0], lambda _: left.set(None))
    return left


# Who is another node's.


def test_who_may_not_start_is_not_here_and_whoever_sends_hears_of_it(node: Node) -> None:
    with node.system:
        with pytest.raises(ShardMovedError) as refused:
            now(node.deposit(1, "elsewhere"))
        assert refused.value.stream == "elsewhere"
        node.system.actor(Odd, "elsewhere").tell(Deposit(2))
        wait_until(lambda: node.letters)

        assert [(letter.recipient, letter.message) for letter in node.letters] == [("elsewhere", Deposit(2))]
        assert isinstance(node.letters[0].reason, ShardMovedError)
        assert node.diary == []
        assert node.system.live() == 0


def test_a_supervised_actor_that_may_not_start_is_refused_and_not_tried_again(journal: MemoryJournal) -> None:
    class Cared(Ledger):
        supervision = RESTART

    clock = ManualClock(NOON)
    with ActorSystem(journal, clock=clock, may_start=lambda _: False) as system:
        for _ in range(10):
            with pytest.raises(ShardMovedError):
                system.actor(Cared, "a").ask(Post(1))
        wait_until(lambda: not system._cells)
        assert [entry for _, _, entry in system.timetable._entries if entry.is_to_come] == []


def test_whoever_is_claimed_again_starts_with_what_others_have_written(node: Node, journal: MemoryJournal) -> None:
    with node.system:
        assert now(node.deposit(5)) == 5
        node.lose("a")
        with pytest.raises(ShardMovedError):
            now(node.account())
        journal.write("a", Deposited(10))

        node.claim("a")

        assert now(node.account()) == 15


# Dropped.


def test_who_is_dropped_hears_that_it_is_lost_and_stops(node: Node) -> None:
    with node.system:
        now(node.deposit(3))
        node.diary.clear()

        node.lose("a")
        wait_until(lambda: node.diary.told("stopped"))

        assert [what for what, *_ in node.diary] == ["lost", "stopped"]
        assert isinstance(node.diary[0][1], ShardMovedError)
        assert node.system.live() == 0


def test_others_are_not_dropped(node: Node) -> None:
    with node.system:
        now(node.deposit(1, "a"))
        now(node.deposit(1, "b"))
        node.diary.clear()

        node.lose("a")
        wait_until(lambda: node.system.live() == 1)

        assert now(node.account("b")) == 1
        assert node.diary.told("made") == []


def test_what_is_written_when_its_actor_is_dropped_is_answered_and_not_acted_upon(held: MemoryJournal) -> None:
    node = Node(held, "a")
    first = node.deposit(1)
    held.wait_for_appends()
    second, third = node.deposit(2), node.account()
    node.system.actor(Odd, "a").tell(Deposit(4))
    node.lose("a")
    held.commit()

    assert now(first) == 1
    for refused in (second, third):
        with pytest.raises(ShardMovedError):
            now(refused)
    wait_until(lambda: node.letters)
    assert node.letters[0].message == Deposit(4)
    assert node.diary.told("committed") == []
    assert [entry.event for entry in held.read("a")] == [Deposited(1)]
    node.system.close()


def test_what_could_not_be_written_when_its_actor_is_dropped_fails_as_it_would_have(held: MemoryJournal) -> None:
    node = Node(held, "a")
    first = node.deposit(1)
    held.wait_for_appends()
    node.lose("a")
    held.fail_next(StorageError("no space"))
    held.commit()

    with pytest.raises(StorageError, match="no space"):
        now(first)
    wait_until(lambda: node.system.live() == 0)
    node.system.close()


def test_who_was_overtaken_when_it_is_dropped_does_not_decide_again(held: MemoryJournal) -> None:
    node = Node(held, "a")
    first = node.deposit(1)
    held.wait_for_appends()
    held.write("a", Deposited(10))
    node.lose("a")
    held.commit()

    with pytest.raises(ShardMovedError):
        now(first)
    wait_until(lambda: node.system.live() == 0)
    assert held.under_way() == 0
    node.system.close()


def test_who_hears_from_the_log_that_it_is_not_here_ends_and_the_next_message_tries_again(node: Node) -> None:
    journal = node.system.journal
    assert isinstance(journal, MemoryJournal)
    with node.system:
        now(node.deposit(2))
        node.diary.clear()
        journal.fail_next(ShardMovedError("a"))

        with pytest.raises(ShardMovedError):
            now(node.deposit(1))
        assert now(node.account()) == 2

        assert [what for what, *_ in node.diary] == ["announced", "lost", "stopped", "made", "recovered"]


def test_who_hears_from_the_log_that_it_is_not_here_after_it_was_dropped_ends_once(held: MemoryJournal) -> None:
    node = Node(held, "a")
    first = node.deposit(1)
    held.wait_for_appends()
    second = node.account()
    node.lose("a")
    held.fail_next(ShardMovedError("a"))
    held.commit()

    for refused in (first, second):
        with pytest.raises(ShardMovedError):
            now(refused)
    wait_until(lambda: node.system.live() == 0)
    wait_until(lambda: node.diary.told("stopped"))
    assert [what for what, *_ in node.diary][-2:] == ["lost", "stopped"]
    assert len(node.diary.told("made")) == 1
    node.system.close()


@pytest.mark.parametrize("supervision", [None, RESTART])
def test_who_cannot_even_begin_because_it_is_not_here_refuses_all_that_wait(supervision: Supervision | None) -> None:
    class Eager(Account):
        def on_recovered(self) -> Sequence[Command]:
            return (Deposit(1),)

    Eager.supervision = supervision
    with MemoryJournal(stepwise=True) as held, ActorSystem(held, clock=ManualClock(NOON)) as system:
        waiting = [system.actor(Eager, "a").ask_future(Audit()) for _ in range(3)]
        held.wait_for_appends()
        held.fail_next(ShardMovedError("a"))
        held.commit()

        for one in waiting:
            with pytest.raises(ShardMovedError):
                one.get(timeout=60)
        wait_until(lambda: not system._cells)
        assert held.under_way() == 0


def test_what_is_sent_after_a_drop_is_for_the_next_incarnation(held: MemoryJournal) -> None:
    node = Node(held, "a")
    first = node.deposit(1)
    held.wait_for_appends()
    before = node.account()
    node.lose("a")
    node.claim("a")
    after = node.account()
    held.commit()

    assert now(first) == 1
    with pytest.raises(ShardMovedError):
        now(before)
    assert now(after) == 1
    assert len(node.diary.told("made")) == 2
    node.system.close()


def test_a_hook_that_raises_when_its_actor_is_dropped_harms_nobody() -> None:
    with Nursery() as nursery:
        kind = nursery.person_class(trips={"on_lost": Stumbled, "on_stop": Stumbled})
        nursery.system.actor(kind, "a").ask(Add(1))

        nursery.system.drop(lambda stream: stream == "person/a")
        wait_until(lambda: nursery.system.live() == 0)

        assert nursery.system.actor(kind, "a").ask(LookAt()) == 1


def test_a_hook_that_quits_when_its_actor_is_dropped_harms_nobody() -> None:
    with Nursery() as nursery:
        kind = nursery.person_class(trips={"on_lost": SystemExit})
        nursery.system.actor(kind, "a").ask(Add(1))

        nursery.system.drop(lambda stream: stream == "person/a")
        wait_until(lambda: nursery.system.live() == 0)

        assert nursery.system.actor(kind, "a").ask(LookAt()) == 1
        assert len(nursery.diary.told("stopped")) == 1


def test_who_waits_to_be_started_again_is_dropped_at_once(journal: MemoryJournal) -> None:
    here = {"person/a"}

    class Moving(Person):
        category = "person"
        supervision = RESTART
        trips = {"on_recovered": Stumbled}  # noqa: RUF012 - as a user

    with ActorSystem(journal, clock=ManualClock(NOON), may_start=here.__contains__) as system:
        system.register(Moving, lambda context: Moving(context, Diary()))
        waiting = system.actor(Moving, "a").ask_future(Add(1))
        wait_until(lambda: any(entry.is_to_come for _, _, entry in system.timetable._entries))

        here.clear()
        system.drop(lambda _: True)

        with pytest.raises(ShardMovedError):
            waiting.get(timeout=60)
        wait_until(lambda: not system._cells)


# Handed off.


def test_who_has_nothing_to_do_leaves_at_once(node: Node) -> None:
    with node.system:
        now(node.deposit(2))

        node.leave("a").get(timeout=60)

        assert node.system.live() == 0
        assert [what for what, *_ in node.diary][-1] == "stopped"
        with pytest.raises(ShardMovedError):
            now(node.account())


def test_when_nobody_is_there_that_is_said_at_once(node: Node) -> None:
    with node.system:
        now(node.deposit(1, "b"))

        assert node.leave("a", "c").done()


def test_who_has_something_to_do_stays_takes_commands_and_leaves_when_that_is_done(node: Node) -> None:
    with node.system:
        now(node.deposit(1))
        left = node.leave("a")

        assert now(node.account()) == 1
        assert now(node.deposit(2)) == 3
        assert not left.done()
        assert now(node.deposit(1)) == 4
        left.get(timeout=60)

        assert node.system.live() == 0
        assert len(node.diary.told("made")) == 1


def test_all_that_waited_when_an_actor_is_to_leave_is_handled_first(held: MemoryJournal) -> None:
    node = Node(held, "a")
    first = node.deposit(2)
    held.wait_for_appends()
    second = node.account()
    left = node.leave("a")
    third = node.account()
    held.commit()

    left.get(timeout=60)
    assert [now(first), now(second), now(third)] == [2, 2, 2]
    node.system.close()


def test_the_end_is_told_once_all_have_left_and_more_can_be_asked_to(node: Node) -> None:
    with node.system:
        for name in "abc":
            now(node.deposit(1, name))
        left = node.leave("a", "b")
        more = node.leave("b", "c")

        now(node.deposit(1, "a"))
        now(node.deposit(1, "c"))
        wait_until(lambda: node.system.live() == 1)
        assert not left.done()
        assert not more.done()
        now(node.deposit(1, "b"))

        left.get(timeout=60)
        more.get(timeout=60)


def test_who_is_dropped_while_it_is_to_leave_has_left(node: Node) -> None:
    with node.system:
        now(node.deposit(1))
        left = node.leave("a")

        node.lose("a")

        left.get(timeout=60)


def test_who_is_claimed_after_it_was_to_leave_and_dropped_stays(held: MemoryJournal) -> None:
    node = Node(held, "a")
    first = node.deposit(2)
    held.wait_for_appends()
    left = node.leave("a")
    node.account()  # behind it comes another look whether it may leave
    node.lose("a")
    node.claim("a")
    second = node.deposit(2)
    held.commit()
    held.wait_for_appends()
    held.commit()

    assert [now(first), now(second)] == [2, 4]
    left.get(timeout=60)
    assert now(node.account()) == 4
    assert len(node.diary.told("made")) == 2
    node.system.close()


def test_a_look_that_an_earlier_incarnation_has_left_behind_makes_nobody_leave(held: MemoryJournal) -> None:
    node = Node(held, "a")
    first = node.deposit(1)
    held.wait_for_appends()
    between = node.account()
    left = node.leave("a")
    node.lose("a")
    node.claim("a")
    second = node.account()
    held.fail_next(StorageError("no space"))
    held.commit()  # the next incarnation is to leave, looks again behind all that waits, and is dropped before that

    with pytest.raises(StorageError):
        now(first)
    left.get(timeout=60)
    assert [now(between), now(second), now(node.account())] == [0, 0, 0]
    assert len(node.diary.told("made")) == 3
    node.system.close()


def test_what_is_about_to_be_handled_when_its_actor_is_dropped_is_refused(journal: MemoryJournal) -> None:
    class Clock(ManualClock):
        drops: Callable[[], object] | None = None

        def elapsed(self) -> int:
            drops, self.drops = self.drops, None
            if drops is not None:
                drops()
            return super().elapsed()

    clock = Clock(NOON)
    with ActorSystem(journal, clock=clock, passivate_after=1000) as system, ThreadPoolExecutor(1) as threads:
        account = system.actor(Account, "a")
        account.ask(Deposit(1))
        wait_until_idle(system._cells[Account, "a"].mailbox)
        clock.drops = lambda: system.drop(lambda _: True)

        asked = threads.submit(account.ask, Audit())  # on a thread that runs the actor itself

        with pytest.raises(ShardMovedError):
            asked.result(timeout=60)
        assert account.ask(Audit()) == 1


def test_who_is_stopped_while_it_is_to_leave_has_left(node: Node) -> None:
    now(node.deposit(1))
    left = node.leave("a")

    node.system.close()

    left.get(timeout=60)


def test_who_may_leave_by_something_else_than_a_message_asks_to_be_looked_at(node: Node) -> None:
    with node.system:
        now(node.deposit(2))
        odd = next(actor for actor in node.system.pool.live() if isinstance(actor, Odd))
        odd.stays = True
        left = node.leave("a")
        assert now(node.account()) == 2
        assert now(node.account()) == 2
        assert not left.done()

        odd.stays = False
        odd.ask_to_leave()

        left.get(timeout=60)


def test_who_cannot_say_whether_it_may_leave_has_failed_and_left(journal: MemoryJournal) -> None:
    class Confused(Account):
        def can_leave(self) -> bool:
            raise ZeroDivisionError

    with ActorSystem(journal) as system:
        system.actor(Confused, "a").ask(Deposit(1))

        left = all_leave(system)

        left.get(timeout=60)
        assert system.actor(Confused, "a").ask(Audit()) == 1


def test_children_end_with_who_leaves(journal: MemoryJournal) -> None:
    class Parent(Account):
        def on_committed(self, command: Command, events: tuple[Event, ...]) -> None:
            self.context.child(Account, "child").tell(Audit())

    with ActorSystem(journal) as system:
        system.actor(Parent, "a").ask(Deposit(1))
        wait_until(lambda: (Account, "a/child") in system._cells)

        left = all_leave(system)

        left.get(timeout=60)
        wait_until(lambda: system.live() == 0)


def test_a_part_has_gone_without_waiting_for_another_one(node: Node) -> None:
    with node.system:
        now(node.deposit(1, "a"))
        now(node.deposit(2, "b"))
        gone: PooledFuture[str] = PooledFuture()
        last: PooledFuture[str] = PooledFuture()

        node.system.hand_off(str.upper, ["A", "B"], lambda part: (last if part == "A" else gone).set(part))

        assert gone.get(timeout=60) == "B"
        assert not last.done()
        now(node.deposit(1, "a"))
        assert last.get(timeout=60) == "A"


def test_who_is_resident_is_known(journal: MemoryJournal) -> None:
    with ActorSystem(journal) as system:
        assert not system.resident("ledger/a")
        system.actor(Ledger, "a").ask(Post(1))

        assert system.resident("ledger/a")
        assert not system.resident("ledger/b")
        assert not system.resident("unknown/a")
        left = all_leave(system)
        left.get(timeout=60)
        assert not system.resident("ledger/a")


# Timers.


def test_only_the_node_that_owns_a_stream_wakes_it(journal: MemoryJournal) -> None:
    clock, owned = ManualClock(NOON), {"ledger/a"}
    with (
        ActorSystem(journal, clock=clock, may_start=lambda stream: stream in owned) as one,
        ActorSystem(journal, clock=clock, may_start=lambda stream: stream not in owned) as other,
    ):
        other.register(Ledger)
        one.actor(Ledger, "a").ask(Remind("tea", NOON + 10 * SECOND))
        other.actor(Ledger, "b").ask(Remind("tea", NOON + 10 * SECOND))

        clock.advance(10)

        wait_until(lambda: [rung(journal, f"ledger/{name}") for name in "ab"] == [["tea"], ["tea"]])
        assert not one.resident("ledger/b")
        assert not other.resident("ledger/a")


def test_what_became_due_while_nobody_had_the_stream_is_done_when_it_is_taken_up(journal: MemoryJournal) -> None:
    clock, owned = ManualClock(NOON), {"ledger/a"}
    with ActorSystem(journal, clock=clock, may_start=owned.__contains__) as system:
        system.actor(Ledger, "a").ask(Remind("tea", NOON + 10 * SECOND))
        owned.clear()
        system.drop(lambda _: True)
        wait_until(lambda: system.live() == 0)
        clock.advance(20)
        assert not system.resident("ledger/a")

        owned.add("ledger/a")
        system.take_up()

        wait_until(lambda: rung(journal) == ["tea"])


def test_who_is_to_leave_and_still_there_is_woken_by_its_timers(journal: MemoryJournal) -> None:
    class Waiting(Ledger):
        def can_leave(self) -> bool:
            return not self.state.reminders

    clock, owned = ManualClock(NOON), {"ledger/a"}
    with ActorSystem(journal, clock=clock, may_start=owned.__contains__) as system:
        system.actor(Waiting, "a").ask(Remind("tea", NOON + 10 * SECOND))
        owned.clear()
        left = all_leave(system)

        clock.advance(10)

        left.get(timeout=60)
        assert rung(journal) == ["tea"]


# All at once.


def test_each_message_is_handled_once_or_its_sender_is_told_while_shards_come_and_go(journal: MemoryJournal) -> None:
    threads, each = 4, 300
    names = [f"ledger/{number}" for number in range(6)]
    owned = set(names)
    answered: list[Counter[str]] = [Counter() for _ in range(threads)]
    told: list[Counter[str]] = [Counter() for _ in range(threads)]
    letters: list[DeadLetter] = []
    with ActorSystem(journal, may_start=owned.__contains__) as system:
        system.on_dead_letter(letters.append)
        is_over = threading.Event()

        def move() -> None:
            chance = chance_of("shards")
            while not is_over.is_set():
                some = set(chance.sample(names, 3))
                owned.difference_update(some)
                if chance.random() < 0.5:
                    system.drop(some.__contains__)
                else:
                    left: PooledFuture[bool] = PooledFuture()
                    system.hand_off(some.__contains__, [True], left.set)
                    left.get(timeout=60)
                owned.update(some)
                system.take_up()

        def post(thread: int) -> None:
            chance = chance_of(f"handing off {thread}")
            for number in range(each):
                name = chance.choice(names)
                ledger = system.actor(Ledger, name.partition("/")[2])
                if number % 3:
                    ledger.tell(Post(1))
                    told[thread][name] += 1
                    continue
                try:
                    ledger.ask(Post(1), timeout=60)
                except ShardMovedError:
                    continue
                answered[thread][name] += 1

        mover = threading.Thread(target=move)
        mover.start()
        try:
            at_once(post, threads)
        finally:
            is_over.set()
            mover.join()
    lost = Counter(letter.recipient for letter in letters)
    expected = sum([*answered, *told], Counter[str]()) - lost
    assert {name: len(journal.read(name)) for name in names} == {name: expected[name] for name in names}
    assert lost.total() + sum(count.total() for count in answered) < threads * each  # neither all nor nothing
