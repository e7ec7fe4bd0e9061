"""Which thread runs an actor: the worker that leads, another one if that is held up, or the event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pykka
import pytest

from reenact.actors.journal.codec import Event, EventCodec
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.kernel import ActorSystem, EventSourcedActor
from reenact.actors.kernel import pool as pools
from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.pool import WorkerPool, waiting
from reenact.actors.kernel.pooled import PooledActor
from reenact.testing.clock import wait_until
from tests.kernel.nursery import wait_until_idle


class Saved(Event, frozen=True):
    amount: int


class Savings(EventSourcedActor[int, int, Saved]):
    """A balance; a command is an amount to add, the reply the balance after it."""

    initial = 0
    events = {"saved": Saved}  # noqa: RUF012 - as users write it

    def decide(self, state: int, command: int) -> tuple[Saved, ...]:
        return (Saved(command),)

    def evolve(self, state: int, event: Saved) -> int:
        return state + event.amount

    def reply(self, command: int, events: tuple[Saved, ...]) -> object:
        return self.state


class Obedient(PooledActor):
    def on_receive(self, message: Callable[[], object]) -> object:
        return message()


@pytest.fixture
def long_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round of work ends only when no work is queued."""
    monkeypatch.setattr(pools, "_ROUND", 600.0)


def test_as_many_actors_may_block_at_once_as_there_are_workers() -> None:
    pool = WorkerPool(4)
    meeting = threading.Barrier(4)

    refs = [Obedient.start_on(pool) for _ in range(4)]
    places = {ref.ask(lambda: meeting.wait(60), block=False) for ref in refs}

    assert {place.get(timeout=60) for place in places} == {0, 1, 2, 3}
    for ref in refs:
        ref.stop()
    pool.close()


def test_work_that_often_blocks_for_a_short_time_blocks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_CHECK", 0.05)
    monkeypatch.setattr(pools, "_LONGEST_TURN", 600.0)
    pool = WorkerPool()
    blocking: list[object] = []
    two_at_once = threading.Event()

    class Blocking:
        def run(self) -> None:
            blocking.append(self)
            if len(blocking) > 1:
                two_at_once.set()
            if not two_at_once.wait(0.02):  # so some work is taken between any two checks
                pool.submit(self)
            blocking.pop()

    for _ in range(3):
        pool.submit(Blocking())

    came = two_at_once.wait(60)
    pool.close()
    assert came


def test_one_that_blocks_again_and_again_is_stood_in_for_each_time() -> None:
    pool = WorkerPool()
    blocking, other = Obedient.start_on(pool), Obedient.start_on(pool)

    for _ in range(5):
        gate = threading.Event()
        held = blocking.ask(lambda gate=gate: gate.wait(60), block=False)
        assert other.ask(lambda: "here", timeout=60) == "here"
        gate.set()
        assert held.get(timeout=60)

    blocking.stop()
    other.stop()
    pool.close()


def test_a_long_computation_does_not_keep_others_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = WorkerPool()
    busy, other = Obedient.start_on(pool), Obedient.start_on(pool)
    over = threading.Event()

    def compute() -> int:
        count = 0
        while not over.is_set():
            count += 1
        return count

    watches: list[object] = []
    watch = WorkerPool._watch

    def counted(pool: WorkerPool) -> bool:
        watches.append(pool)
        return watch(pool)

    monkeypatch.setattr(WorkerPool, "_watch", counted)
    computing = busy.ask(compute, block=False)
    for _ in range(20):
        assert other.ask(lambda: "here", timeout=60) == "here"
    over.set()

    assert computing.get(timeout=60)
    assert len(watches) < 10  # who has joined stays as long as the other one computes
    busy.stop()
    other.stop()
    pool.close()


def test_one_that_says_that_it_blocks_is_stood_in_for_though_all_others_are_held_up() -> None:
    pool = WorkerPool()
    first, second, third = (Obedient.start_on(pool) for _ in range(3))
    both_held, gate = threading.Barrier(3), threading.Event()
    goes_on = threading.Event()

    def hold() -> bool:
        both_held.wait(60)
        return gate.wait(60)

    def hold_and_then_wait() -> bool:
        both_held.wait(60)
        goes_on.wait(60)
        with waiting():
            return gate.wait(60)

    held = [first.ask(hold_and_then_wait, block=False), second.ask(hold, block=False)]
    both_held.wait(60)
    reply = third.ask(lambda: "here", block=False)  # no worker is left
    goes_on.set()

    assert reply.get(timeout=60) == "here"
    gate.set()
    assert all(place.get(timeout=60) for place in held)
    for ref in (first, second, third):
        ref.stop()
    pool.close()


def test_the_end_of_a_round_is_not_lost_when_the_pool_closes() -> None:
    pool = WorkerPool()
    ref = Obedient.start_on(pool)
    begun, ends = threading.Event(), Future[None]()

    def work() -> None:
        begun.set()
        while not pool.has_work:  # until the pool is closed
            pass
        pool.after_round(lambda: ends.set_result(None))

    closing = threading.Thread(target=pool.close)
    ref.tell(work)
    assert begun.wait(60)
    closing.start()
    closing.join()

    assert ends.done()


@pytest.mark.usefixtures("long_round")
def test_the_steps_of_a_round_are_committed_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_CHECK", 600.0)  # no other worker joins, which would end the round
    commits: list[int] = []
    with (
        SqliteJournal.open(tmp_path / "log.db", EventCodec(()), synchronous="OFF") as journal,
        ActorSystem(journal, codec=journal.codec) as system,
    ):
        accounts = [system.actor(Savings, str(number)) for number in range(50)]
        for account in accounts:
            account.ask(1)
        system.pool._call_worker()
        wait_until(lambda: (system.pool._leading, system.pool._resting) == (1, 1) and journal.writer._is_asleep)
        journal.watch(commits.append)

        def deposit() -> list[PooledFuture[object]]:
            return [account.ask_future(1) for account in accounts]

        replies: list[PooledFuture[object]] = system.start(Obedient).ask(deposit, block=True)

        assert [reply.get(timeout=60) for reply in replies] == [2] * 50
    assert len(commits) == 1


@pytest.mark.usefixtures("long_round")
@pytest.mark.parametrize(("workers", "place"), [(1, waiting), (2, waiting), (2, nullcontext)])
def test_a_step_becomes_durable_though_the_next_work_of_the_round_blocks(
    tmp_path: Path, workers: int, place: Callable[[], AbstractContextManager[None]]
) -> None:
    gate = threading.Event()

    def hold() -> bool:
        with place():
            return gate.wait(60)

    with (
        SqliteJournal.open(tmp_path / "log.db", EventCodec(()), synchronous="OFF") as journal,
        ActorSystem(journal, codec=journal.codec, workers=workers) as system,
    ):
        account, blocking = system.actor(Savings, "a"), system.start(Obedient)
        account.ask(1)

        def send() -> tuple[PooledFuture[object], pykka.Future[bool]]:
            return account.ask_future(1), blocking.ask(hold, block=False)

        reply, held = system.start(Obedient).ask(send, block=True)

        assert reply.get(timeout=60) == 2
        gate.set()
        assert held.get(timeout=60)


@pytest.mark.usefixtures("long_round")
def test_a_step_becomes_durable_though_the_next_work_blocks_and_the_other_worker_does_too(system: ActorSystem) -> None:
    account, waits, blocking = system.actor(Savings, "a"), system.start(Obedient), system.start(Obedient)
    account.ask(1)
    waits_for_others, goes_on, holds, gate, is_durable = (threading.Event() for _ in range(5))

    def wait_and_then_hold() -> bool:
        with waiting():
            waits_for_others.set()
            goes_on.wait(60)
        holds.set()
        return gate.wait(60)

    def send() -> tuple[PooledFuture[object], pykka.Future[bool]]:
        return account.ask_future(1), blocking.ask(lambda: gate.wait(60), block=False)

    waits.tell(wait_and_then_hold)
    assert waits_for_others.wait(60)
    assert account.ask(1) == 2  # now another worker leads
    goes_on.set()
    assert holds.wait(60)
    assert isinstance(system.journal, SqliteJournal)
    system.journal.watch(lambda _position: is_durable.set())
    reply, held = system.start(Obedient).ask(send, block=True)

    assert is_durable.wait(60)
    gate.set()
    assert reply.get(timeout=60) == 3
    assert held.get(timeout=60)


class Placed(Savings):
    """Replies with the name of the thread on which it decided."""

    category = "placed"
    events = {"placed": Saved}  # noqa: RUF012 - as users write it
    quick_commands = frozenset({int})
    place = ""

    def prepare(self, command: int) -> int:
        self.place = threading.current_thread().name
        return command

    def reply(self, command: int, events: tuple[Saved, ...]) -> str:
        return self.place


class Slow(Placed):
    category = "slow"
    events = {"slow": Saved}  # noqa: RUF012 - likewise
    quick_commands = frozenset()


@pytest.fixture
def system(tmp_path: Path) -> Iterator[ActorSystem]:
    with (
        SqliteJournal.open(tmp_path / "log.db", EventCodec(()), synchronous="OFF") as journal,
        ActorSystem(journal, codec=journal.codec) as system,
    ):
        yield system


def test_the_event_loop_handles_a_quick_command_of_the_main_thread_if_the_actor_is_live(system: ActorSystem) -> None:
    actor = system.actor(Placed, "a")

    assert actor.ask(1).startswith("reenact-worker")  # it reads the log first
    wait_until_idle(system._cells[Placed, "a"].mailbox)
    assert actor.ask(1) == "reenact-loop"


def test_a_worker_handles_other_commands_of_the_main_thread(system: ActorSystem) -> None:
    actor = system.actor(Slow, "a")
    actor.ask(1)

    assert actor.ask(1).startswith("reenact-worker")


def test_a_worker_handles_a_quick_command_while_the_event_loop_has_other_work(system: ActorSystem) -> None:
    actor = system.actor(Placed, "a")
    actor.ask(1)
    begun, over = threading.Event(), Future[None]()

    async def work() -> None:
        await asyncio.wrap_future(over)

    def begin() -> None:
        system.event_loop.run(work())
        begun.set()

    system.event_loop.call(begin)
    assert begun.wait(60)

    assert actor.ask(1).startswith("reenact-worker")
    over.set_result(None)


def test_a_worker_yields_the_interpreter_to_the_thread_it_has_woken_after_longer_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    yielded: list[float] = []
    monkeypatch.setattr(pools, "sleep", yielded.append)
    pool = WorkerPool(1)  # so that no other worker takes the longer work
    first, second = Obedient.start_on(pool), Obedient.start_on(pool)
    reply = PooledFuture[int]()
    asking = threading.Thread(target=reply.get)
    asking.start()
    wait_until(lambda: reply._callbacks)

    def compute() -> None:
        until = time.perf_counter() + 0.001
        while time.perf_counter() < until:
            pass

    def answer() -> None:
        second.tell(compute)
        reply.set(1)

    first.tell(answer)
    asking.join()
    wait_until(lambda: yielded)

    assert yielded == [0]
    for ref in (first, second):
        ref.stop()
    pool.close()
