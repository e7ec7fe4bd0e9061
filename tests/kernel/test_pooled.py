"""Pooled actors behave as pykka's do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pykka
import pytest

from reenact.actors.kernel.pool import WorkerPool
from reenact.actors.kernel.pooled import SLICE, PooledActor
from tests.threads import at_once

Message = Callable[["Obedient"], Any]


class Obedient(PooledActor):
    """Does what the message says, and writes down what happens to it."""

    def __init__(self, heard: list[object] | None = None) -> None:
        super().__init__()
        self.heard: list[object] = [] if heard is None else heard
        self.count = 0

    def on_receive(self, message: Message) -> Any:  # noqa: ANN401
        return message(self)

    def add(self, amount: int) -> int:
        self.count += amount
        return self.count

    def on_start(self) -> None:
        self.heard.append("start")

    def on_stop(self) -> None:
        self.heard.append("stop")

    def on_failure(self, exception_type: object, exception_value: object, traceback: object) -> None:
        self.heard.append(exception_type)


def ask(ref: pykka.ActorRef[Any], message: Message, timeout: float | None = None) -> Any:  # noqa: ANN401
    return ref.ask(message, block=True, timeout=timeout)


def later(ref: pykka.ActorRef[Any], message: Message) -> pykka.Future[Any]:
    return ref.ask(message, block=False)


def tell(ref: pykka.ActorRef[Any], message: Message) -> None:
    ref.tell(message)


def writing(what: object) -> Message:
    return lambda actor: actor.heard.append(what)


def fall_over(_: object) -> None:
    raise ZeroDivisionError


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    pool = WorkerPool()
    yield pool
    for actor in pool.live():
        assert isinstance(actor, PooledActor)
        actor.actor_ref.stop(block=True)
    pool.close()


@pytest.fixture
def heard() -> list[object]:
    return []


@pytest.fixture
def ref(pool: WorkerPool, heard: list[object]) -> pykka.ActorRef[Obedient]:
    return Obedient.start_on(pool, heard)


def test_an_actor_starts_before_its_first_message_and_stops_after_its_last(
    ref: pykka.ActorRef[Obedient], heard: list[object]
) -> None:
    tell(ref, lambda actor: actor.heard.append("message"))

    ref.stop()

    assert heard == ["start", "message", "stop"]


def test_messages_of_one_sender_are_handled_in_order(ref: pykka.ActorRef[Obedient], heard: list[object]) -> None:
    expected = list(range(5 * SLICE))

    for number in expected:
        tell(ref, writing(number))
    ask(ref, lambda _: None)

    assert heard == ["start", *expected]


def test_an_actor_does_not_keep_others_waiting_for_more_than_a_slice(heard: list[object]) -> None:
    pool = WorkerPool(workers=1)
    entered, gate = threading.Event(), threading.Event()
    first, second = Obedient.start_on(pool, heard), Obedient.start_on(pool, heard)

    def enter(_: object) -> None:
        entered.set()
        gate.wait(60)

    tell(first, enter)
    assert entered.wait(60)
    for _ in range(3 * SLICE):
        tell(first, lambda actor: actor.heard.append("first"))
    tell(second, lambda actor: actor.heard.append("second"))

    gate.set()
    first.stop()
    second.stop()
    pool.close()

    assert heard.index("second") - heard.index("first") <= SLICE


def test_an_exception_goes_to_the_asker_and_the_actor_lives(ref: pykka.ActorRef[Obedient], heard: list[object]) -> None:
    with pytest.raises(ZeroDivisionError):
        ask(ref, fall_over)

    assert ref.is_alive()
    assert heard == ["start"]


def test_an_exception_that_nobody_waits_for_kills_the_actor(ref: pykka.ActorRef[Obedient], heard: list[object]) -> None:
    tell(ref, fall_over)
    behind = later(ref, lambda _: 1)

    with pytest.raises(pykka.ActorDeadError):
        behind.get(timeout=60)
    assert not ref.is_alive()
    assert heard == ["start", ZeroDivisionError]


def test_what_is_no_exception_stops_this_actor_and_no_other(
    ref: pykka.ActorRef[Obedient], pool: WorkerPool, heard: list[object]
) -> None:
    def leave(_: object) -> None:
        raise SystemExit

    other = Obedient.start_on(pool)

    with pytest.raises(pykka.ActorDeadError, match="SystemExit"):
        ask(ref, leave)

    assert not ref.is_alive()
    assert heard == ["start", "stop"]
    assert ask(other, lambda _: 1) == 1


def test_messages_behind_a_stop_are_answered_with_actor_dead_error(ref: pykka.ActorRef[Obedient]) -> None:
    gate = threading.Event()
    tell(ref, lambda _: gate.wait(60))
    stop, again = ref.stop(block=False), ref.stop(block=False)
    behind = later(ref, lambda _: 1)

    gate.set()

    assert stop.get(timeout=60)
    assert again.get(timeout=60)
    with pytest.raises(pykka.ActorDeadError):
        behind.get(timeout=60)


def test_a_stopped_actor_takes_nothing(ref: pykka.ActorRef[Obedient]) -> None:
    assert ref.stop()

    with pytest.raises(pykka.ActorDeadError):
        tell(ref, fall_over)
    with pytest.raises(pykka.ActorDeadError):
        ask(ref, fall_over)
    with pytest.raises(pykka.ActorDeadError):
        ref.actor_inbox.put(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert not ref.stop()


def test_who_fails_to_start_answers_nobody(pool: WorkerPool) -> None:
    class StillBorn(Obedient):
        def on_start(self) -> None:
            raise ZeroDivisionError

    ref = StillBorn.start_on(pool)

    with pytest.raises(pykka.ActorDeadError):
        ask(ref, lambda _: 1)


def test_a_proxy_calls_reads_and_writes(ref: pykka.ActorRef[Obedient]) -> None:
    proxy = ref.proxy()

    assert proxy.add(2).get() == 2
    proxy.count = 40
    assert proxy.add(2).get() == 42
    assert ask(ref, lambda actor: actor.count) == 42
    assert proxy.heard.get() == ["start"]


def test_an_actor_may_tell_itself_while_it_is_made(pool: WorkerPool) -> None:
    class Eager(Obedient):
        def __init__(self) -> None:
            super().__init__()
            tell(self.actor_ref, lambda actor: actor.add(1))

    assert ask(Eager.start_on(pool), lambda actor: actor.count) == 1


def test_one_actor_never_runs_on_two_threads_at_once(pool: WorkerPool) -> None:
    ref = Obedient.start_on(pool)
    other = [Obedient.start_on(pool) for _ in range(4)]

    def bump(actor: Obedient) -> None:
        seen = actor.count
        for _ in range(50):
            seen += 1
        actor.count = seen

    def send(_: int) -> None:
        for number in range(500):
            tell(ref, bump)
            tell(other[number % 4], lambda _: ask(ref, bump))

    at_once(send, threads=4)
    for asker in other:
        asker.stop()

    assert ask(ref, lambda actor: actor.count) == 4 * 500 * 2 * 50


def test_an_idle_actor_answers_another_on_the_same_thread(pool: WorkerPool) -> None:
    asker, asked = Obedient.start_on(pool), Obedient.start_on(pool)
    ask(asked, lambda _: None)

    def here(_: object) -> int:
        return threading.get_ident()

    mine, other = ask(asker, lambda _: (threading.get_ident(), ask(asked, here)))

    assert mine == other
    assert ask(asked, here) != threading.get_ident()


def test_an_answer_on_the_same_thread_overtakes_nothing(pool: WorkerPool, heard: list[object]) -> None:
    asker, asked = Obedient.start_on(pool), Obedient.start_on(pool, heard)

    def tell_then_ask(_: object) -> None:
        for number in range(20):
            tell(asked, writing(number))
        ask(asked, lambda actor: actor.heard.append("asked"))

    ask(asker, tell_then_ask)

    assert heard[-1] == "asked"
    assert len(heard) == 22


def test_an_exception_is_the_askers_also_on_the_same_thread(pool: WorkerPool) -> None:
    asker, asked = Obedient.start_on(pool), Obedient.start_on(pool)

    with pytest.raises(ZeroDivisionError):
        ask(asker, lambda _: ask(asked, fall_over))

    assert asked.is_alive()
    assert asker.is_alive()


def test_actors_that_ask_each_other_in_a_long_chain_all_answer() -> None:
    pool = WorkerPool(workers=1)
    chain = [Obedient.start_on(pool) for _ in range(60)]

    def ask_on(position: int) -> Message:
        if position == len(chain):
            return lambda _: 0
        return lambda _: 1 + ask(chain[position], ask_on(position + 1))

    assert ask(chain[0], ask_on(1), timeout=60) == 59
    for ref in chain:
        ref.stop()
    pool.close()


def test_more_actors_may_wait_than_there_are_workers() -> None:
    pool = WorkerPool(workers=1)
    gate: pykka.Future[str] = Obedient._create_future()
    waiting = [Obedient.start_on(pool) for _ in range(5)]
    replies = [later(ref, lambda _: gate.get()) for ref in waiting]

    opener = Obedient.start_on(pool)
    ask(opener, lambda _: gate.set("open"), timeout=60)

    assert [reply.get(timeout=60) for reply in replies] == ["open"] * 5
    for ref in [*waiting, opener]:
        ref.stop()
    pool.close()


def test_pooled_actors_are_not_in_the_global_registry(ref: pykka.ActorRef[Obedient]) -> None:
    assert ref not in pykka.ActorRegistry.get_all()


def test_the_workers_end_with_the_last_actor() -> None:
    refs = [Obedient.start(), Obedient.start()]
    worker = ask(refs[0], lambda _: threading.current_thread())

    for ref in refs:
        ref.stop()
    worker.join(60)

    assert not worker.is_alive()


def test_the_workers_end_also_if_the_last_actor_asks_while_it_stops() -> None:
    class Inquisitive(Obedient):
        """Waits, when it has left already, for what another thread says."""

        asking = threading.Event()
        answer: pykka.Future[int] = Obedient._create_future()

        def on_stop(self) -> None:
            self.asking.set()
            self.heard.append(self.answer.get(timeout=60))

    ref = Inquisitive.start()
    worker = ask(ref, lambda _: threading.current_thread())

    stopping = ref.stop(block=False)
    assert Inquisitive.asking.wait(60)
    Inquisitive.answer.set(1)
    assert stopping.get(timeout=60)
    worker.join(60)

    assert not worker.is_alive()


def test_one_may_wait_for_an_actor_to_stop(ref: pykka.ActorRef[Obedient]) -> None:
    heard: list[bool] = []
    waiter = threading.Thread(target=lambda: heard.append(ref.actor_stopped.wait(60)))
    waiter.start()

    assert not ref.actor_stopped.wait(0)
    ref.stop()
    waiter.join()

    assert heard == [True]
    assert ref.actor_stopped.wait()


def test_who_first_looks_for_the_flag_of_an_actor_that_has_stopped_finds_it_set() -> None:
    actors: list[Obedient] = []

    class Remembered(Obedient):
        def on_start(self) -> None:
            actors.append(self)

    ref = Remembered.start()
    assert ref.is_alive()

    ref.stop()

    assert not ref.is_alive()
    assert ref.actor_stopped.is_set()
    assert actors[0].actor_stopped is ref.actor_stopped
    assert actors[0].actor_urn == ref.actor_urn
