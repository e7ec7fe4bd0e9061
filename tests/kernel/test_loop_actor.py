"""Actors on an event loop behave as pooled ones do, and wait without a thread."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pykka
import pytest

from reenact import Event
from reenact.actors.journal.api import Append, Committed, Entry, Outcome, Publication, Segment
from reenact.actors.kernel import ActorSystem, EventLoopActor, EventSourcedActor, PooledActor, Supervision
from reenact.actors.kernel.event_loop import default_place
from reenact.domain.errors import DeadlockError, RuntimeClosedError
from tests.environment.support import PATIENCE

Message = Callable[["Obedient"], Any]
EVERYBODY = 1_000


class Obedient(EventLoopActor):
    """Does what the message says: at once, or as a coroutine."""

    def __init__(self, heard: list[object] | None = None) -> None:
        super().__init__()
        self.heard: list[object] = [] if heard is None else heard

    def on_receive(self, message: Message) -> Any:  # noqa: ANN401
        return message(self)

    async def doubled(self, number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    def on_stop(self) -> None:
        self.heard.append("stop")

    def on_failure(self, exception_type: object, exception_value: object, traceback: object) -> None:
        self.heard.append(exception_type)


class Added(Event, frozen=True):
    amount: int


def added(_sum: int, amount: int) -> list[Added]:
    return [Added(amount)]


def plus(sum_: int, event: Added) -> int:
    return sum_ + event.amount


class Counting(EventSourcedActor[int, int, Added]):
    """Adds what it is told, and replies with the sum."""

    category = "counting"
    events = {"added": Added}  # noqa: RUF012 - as users write it
    initial = 0
    decide = staticmethod(added)
    evolve = staticmethod(plus)

    def reply(self, command: int, events: tuple[Added, ...]) -> int:
        return self.state


class Cared(Obedient):
    supervision = Supervision(min_backoff=0.001)


class Asker(PooledActor):
    def on_receive(self, message: pykka.ActorRef[Any]) -> Any:  # noqa: ANN401
        return message.ask(thread_of)


class Gate:
    """Lets coroutines wait until it is opened, from any thread."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: asyncio.Event | None = None

    async def __call__(self, _actor: object) -> str:
        self._loop, self._open = asyncio.get_running_loop(), asyncio.Event()
        self.reached.set()
        await self._open.wait()
        return "through"

    def open(self) -> None:
        assert self._loop is not None
        assert self._open is not None
        self._loop.call_soon_threadsafe(self._open.set)


def thread_of(_actor: object) -> str:
    return threading.current_thread().name


def doubling(number: int) -> Message:
    return lambda actor: actor.doubled(number)


def writing(what: object) -> Message:
    return lambda actor: actor.heard.append(what)


def failing(error: BaseException) -> Callable[[object], Awaitable[None]]:
    async def fail(_actor: object) -> None:
        await asyncio.sleep(0)
        raise error

    return fail


@pytest.fixture
def system() -> Iterator[ActorSystem]:
    with ActorSystem.in_memory() as system:
        yield system


@pytest.fixture
def heard() -> list[object]:
    return []


def test_a_coroutine_replies_with_what_it_returns(system: ActorSystem) -> None:
    assert system.start(Obedient).ask(doubling(21), timeout=PATIENCE) == 42


def test_a_plain_method_replies_from_the_same_thread(system: ActorSystem) -> None:
    async def thread(_actor: object) -> str:
        return threading.current_thread().name

    ref = system.start(Obedient)

    assert ref.ask(thread_of) == ref.ask(thread) == "reenact-loop"


def test_a_pooled_actor_that_asks_does_not_run_it_on_a_worker(system: ActorSystem) -> None:
    assert system.start(Asker).ask(system.start(Obedient), timeout=PATIENCE) == "reenact-loop"


@pytest.mark.parametrize("ask", ["actor", "entity", "future"])
def test_a_blocking_ask_on_the_loop_is_refused_before_anything_is_sent(system: ActorSystem, ask: str) -> None:
    other, entity = system.start(Obedient), system.actor(Counting, "c")

    async def asks(_actor: object) -> object:
        match ask:
            case "actor":
                return other.ask(doubling(21))
            case "entity":
                return entity.ask(1)
            case _:
                return other.ask(doubling(21), block=False).get()

    with pytest.raises(DeadlockError, match="await ask_async"):
        system.start(Obedient).ask(asks, timeout=PATIENCE)
    assert entity.ask(1, timeout=PATIENCE) == 1


def test_an_awaited_ask_on_the_loop_is_answered(system: ActorSystem) -> None:
    entity = system.actor(Counting, "c")

    async def asks(_actor: object) -> object:
        return await entity.ask_async(2)

    assert system.start(Obedient).ask(asks, timeout=PATIENCE) == 2


def test_later_messages_wait_until_the_coroutine_has_ended(system: ActorSystem, heard: list[object]) -> None:
    gate, ref = Gate(), system.start(Obedient, heard)
    through = ref.ask(gate, block=False)
    for number in range(200):
        ref.tell(writing(number))
    assert gate.reached.wait(PATIENCE)
    assert heard == []

    gate.open()

    assert through.get(timeout=PATIENCE) == "through"
    ref.ask(thread_of, timeout=PATIENCE)
    assert heard == list(range(200))


def test_others_go_on_while_many_wait_and_no_thread_is_started_for_them(system: ActorSystem) -> None:
    before = set(threading.enumerate())
    gates = [Gate() for _ in range(EVERYBODY)]
    waiting = [system.start(Obedient).ask(gate, block=False) for gate in gates]
    assert all(gate.reached.wait(PATIENCE) for gate in gates)

    assert system.start(Obedient).ask(doubling(1), timeout=PATIENCE) == 2
    assert len(set(threading.enumerate()) - before) < 10
    for gate in gates:
        gate.open()
    assert {future.get(timeout=PATIENCE) for future in waiting} == {"through"}


def test_an_exception_in_a_coroutine_is_the_askers(system: ActorSystem, heard: list[object]) -> None:
    ref = system.start(Obedient, heard)

    with pytest.raises(ZeroDivisionError):
        ref.ask(failing(ZeroDivisionError()), timeout=PATIENCE)

    assert ref.ask(doubling(2), timeout=PATIENCE) == 4


def test_an_exception_after_tell_ends_the_actor_and_refuses_the_rest(system: ActorSystem, heard: list[object]) -> None:
    gate, ref = Gate(), system.start(Obedient, heard)
    ref.tell(gate)
    ref.tell(failing(ZeroDivisionError()))
    late = ref.ask(thread_of, block=False)
    assert gate.reached.wait(PATIENCE)

    gate.open()

    with pytest.raises(pykka.ActorDeadError):
        late.get(timeout=PATIENCE)
    assert heard == [ZeroDivisionError]
    assert not ref.is_alive()


def test_a_supervised_one_is_started_again_and_takes_up_what_waits(system: ActorSystem) -> None:
    ref = system.start(Cared)
    ref.tell(failing(ZeroDivisionError()))

    assert ref.ask(doubling(3), timeout=PATIENCE) == 6


def test_stop_comes_after_what_was_sent_before(system: ActorSystem, heard: list[object]) -> None:
    gate, ref = Gate(), system.start(Obedient, heard)
    ref.tell(gate)
    ref.tell(writing("last"))
    stopped: pykka.Future[bool] = ref.stop(block=False)
    assert gate.reached.wait(PATIENCE)

    gate.open()

    assert stopped.get(timeout=PATIENCE)
    assert heard == ["last", "stop"]


def test_whoever_quits_in_a_coroutine_ends_alone(system: ActorSystem) -> None:
    ref, other = system.start(Obedient), system.start(Obedient)

    with pytest.raises(pykka.ActorDeadError):
        ref.ask(failing(SystemExit()), timeout=PATIENCE)

    assert not ref.is_alive()
    assert other.ask(doubling(1), timeout=PATIENCE) == 2


def test_a_loop_that_closes_cancels_what_an_actor_awaits_and_workers_end_it(
    system: ActorSystem, heard: list[object]
) -> None:
    gate, ref, other = Gate(), system.start(Obedient, heard), system.start(Obedient)
    through = ref.ask(gate, block=False)
    assert gate.reached.wait(PATIENCE)

    system.event_loop.close()

    with pytest.raises(pykka.ActorDeadError):
        through.get(timeout=PATIENCE)
    assert heard == ["stop"]
    assert other.ask(thread_of, timeout=PATIENCE) != "reenact-loop"
    with pytest.raises(RuntimeClosedError):
        other.ask(doubling(1), timeout=PATIENCE)


def test_an_actor_outside_of_any_system_runs_on_a_loop_of_the_process() -> None:
    ref = Obedient.start()
    try:
        assert ref.ask(doubling(4), timeout=PATIENCE) == 8
        assert ref.proxy().doubled(5).get(timeout=PATIENCE) == 10
        assert ref in pykka.ActorRegistry.get_all()
    finally:
        ref.stop()
        default_place().loop.close()
        default_place.cache_clear()
    assert ref not in pykka.ActorRegistry.get_all()


async def _await_cancelled(_: Obedient) -> None:
    other = asyncio.ensure_future(asyncio.sleep(PATIENCE))
    other.cancel()
    await other


def test_what_an_actor_awaits_may_be_cancelled_and_the_actor_goes_on(tmp_path: Path) -> None:
    with ActorSystem.open(tmp_path / "log.db") as system:
        ref = system.start(Obedient)

        with pytest.raises(RuntimeError, match="awaited was cancelled"):
            ref.ask(_await_cancelled, timeout=PATIENCE)

        assert ref.ask(doubling(4), timeout=PATIENCE) == 8


def test_a_supervised_actor_is_started_again_if_what_it_awaits_is_cancelled(tmp_path: Path) -> None:
    class Supervised(Obedient):
        supervision = Supervision(min_backoff=0.0, max_backoff=0.0)

    with ActorSystem.open(tmp_path / "log.db") as system:
        ref = system.start(Supervised)

        ref.tell(_await_cancelled)

        assert ref.ask(doubling(4), timeout=PATIENCE) == 8


FORKING = """
import os, sys, warnings
from reenact import EventLoopActor, PooledActor

warnings.simplefilter("ignore")

class Pooled(PooledActor):
    def on_receive(self, message):
        return message

class Waiting(EventLoopActor):
    async def on_receive(self, message):
        return message

kinds = [Pooled, Waiting]
begun = [kind.start() for kind in kinds for _ in range(4)]
assert [ref.ask(1, timeout=60) for ref in begun] == [1] * 8
child = os.fork()
if child == 0:
    print([kind.start().ask(2, timeout=20) for kind in kinds], flush=True)
    os._exit(0)
os.waitpid(child, 0)
print([ref.ask(3, timeout=60) for ref in begun])
for ref in begun:
    ref.stop()
"""


def test_actors_outside_of_any_system_can_be_started_in_a_forked_child() -> None:
    said = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=PATIENCE, check=True)

    assert said.stdout.splitlines() == ["[2, 2]", "[3, 3, 3, 3, 3, 3, 3, 3]"]


def test_what_is_appended_in_a_round_of_the_loop_is_one_transaction(tmp_path: Path) -> None:
    commits: SimpleQueue[list[str | None]] = SimpleQueue()
    outcomes: SimpleQueue[Outcome] = SimpleQueue()

    class Appending(EventLoopActor):
        def on_receive(self, message: ActorSystem) -> None:
            for stream in ("a", "b", "a"):
                kept = (Segment({}, (Entry("said", 1, {"word": "x"}),)),)
                message.append_in_round(Append(stream, None, 1, kept=kept), outcomes.put)

    def hear(publications: Iterable[Publication]) -> None:
        commits.put([one.topic for one in publications])

    with ActorSystem.open(tmp_path / "log.db", listener=hear) as system:
        system.start(Appending).tell(system)

        assert all(isinstance(outcomes.get(timeout=PATIENCE), Committed) for _ in range(3))
        assert commits.get(timeout=PATIENCE) == ["a", "b", "a"]
        assert commits.empty()


def test_what_another_thread_appends_is_written_without_waiting_for_a_round(tmp_path: Path) -> None:
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    with ActorSystem.open(tmp_path / "log.db") as system:
        kept = (Segment({}, (Entry("said", 1, {"word": "x"}),)),)
        system.append_in_round(Append("a", None, 1, kept=kept), outcomes.put)

        assert isinstance(outcomes.get(timeout=PATIENCE), Committed)


def test_what_is_appended_with_the_next_step_shares_its_transaction(tmp_path: Path) -> None:
    commits: SimpleQueue[list[str | None]] = SimpleQueue()
    outcomes: SimpleQueue[Outcome] = SimpleQueue()

    def hear(publications: Iterable[Publication]) -> None:
        commits.put([one.topic for one in publications])

    with ActorSystem.open(tmp_path / "log.db", listener=hear) as system:
        kept = (Segment({}, (Entry("said", 1, {"word": "x"}),)),)
        system.append_with_next(Append("a", None, 1, kept=kept), outcomes.put)
        assert outcomes.empty()
        system.append(Append("b", None, 1, kept=kept), outcomes.put)

        assert all(isinstance(outcomes.get(timeout=PATIENCE), Committed) for _ in range(2))
        assert commits.get(timeout=PATIENCE) == ["a", "b"]
