"""Supervised actors without a log: a new one takes the place of one that failed, and nobody outside notices."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from typing import Any, ClassVar

import pykka
import pytest

from reenact.actors.kernel import ActorSystem, PooledActor, Supervision
from reenact.domain.errors import RuntimeClosedError
from reenact.testing.clock import wait_until
from tests.kernel.nursery import ESCALATE, FALL_OVER, RESTART, STOP, Do, Nursery, Stumbled


class Clerk(PooledActor):
    """Counts what it is sent, and writes down what happens to it; falls over where the class says so."""

    supervision = RESTART
    trips: ClassVar[set[str]] = set()

    def __init__(self, diary: list[tuple[Any, ...]], name: str, *, begin: int = 0) -> None:
        super().__init__()
        self.diary = diary
        self.name = name
        self.count = begin
        self._trip("__init__")
        self.write("made")

    def on_start(self) -> None:
        self._trip("on_start")
        self.write("started")

    def on_receive(self, message: Do | int) -> object:
        if isinstance(message, Do):
            return message.what(self)
        self.count += message
        return self.count

    def on_failure(self, exception_type: object, exception_value: BaseException | None, traceback: object) -> None:
        self.write("failed", type(exception_value))
        self._trip("on_failure")

    def on_stop(self) -> None:
        self.write("stopped", self.count)

    def add(self, amount: int) -> int:
        self.count += amount
        return self.count

    def write(self, what: str, *details: object) -> None:
        self.diary.append((what, self.name, *details))

    def _trip(self, hook: str) -> None:
        if hook in self.trips:
            raise Stumbled(hook)


def clerk(supervision: Supervision | None = RESTART, base: type[Clerk] = Clerk) -> type[Clerk]:
    """Return a class of clerks of its own."""
    kind = type("Clerk", (base,), {"supervision": supervision, "trips": set[str]()})
    assert issubclass(kind, Clerk)
    return kind


def begin(home: Nursery, kind: type[Clerk] | None = None) -> pykka.ActorRef[Clerk]:
    """Start a clerk called Bob, by default one that is started again."""
    return home.system.start(kind or clerk(), home.diary, "Bob")


def happened(home: Nursery) -> list[str]:
    return [entry[0] for entry in home.diary]


# A restart.


def test_one_that_fails_is_made_again_with_the_same_arguments_behind_the_same_reference(home: Nursery) -> None:
    ref = home.system.start(clerk(), home.diary, "Bob", begin=40)
    assert ref.ask(1) == 41

    ref.tell(FALL_OVER)
    home.pass_backoff()

    assert ref.ask(2, timeout=60) == 42
    assert home.diary == [
        ("made", "Bob"),
        ("started", "Bob"),
        ("failed", "Bob", Stumbled),
        ("made", "Bob"),
        ("started", "Bob"),
    ]
    assert home.system.live() == 1


def test_what_raises_under_an_ask_is_the_askers_and_no_failure(home: Nursery) -> None:
    ref = begin(home, clerk(STOP))

    with pytest.raises(Stumbled):
        ref.ask(FALL_OVER)

    assert ref.ask(1) == 1


def test_messages_wait_in_their_order_while_it_waits_and_it_is_alive_all_the_time(home: Nursery) -> None:
    ref = begin(home)
    ref.tell(FALL_OVER)
    home.wait_for_backoff()
    replies = [ref.ask(number, block=False) for number in (1, 10, 100)]
    assert ref.is_alive()

    home.clock.advance(0.99)
    assert home.is_backing_off()
    assert len(home.diary.told("made")) == 1
    home.clock.advance(0.22)

    assert [reply.get(timeout=60) for reply in replies] == [1, 11, 111]
    assert ref.is_alive()


def test_only_the_message_that_it_failed_at_is_lost(home: Nursery) -> None:
    held = threading.Event()
    ref = begin(home)
    ref.tell(Do(lambda _: held.wait(60)))
    ref.tell(1)
    ref.tell(FALL_OVER)
    ref.tell(2)
    held.set()

    home.pass_backoff()

    assert ref.ask(0, timeout=60) == 2
    assert home.reasons() == [(str(ref), FALL_OVER, "Stumbled")]


def test_proxies_from_before_and_after_lead_to_the_new_one(home: Nursery) -> None:
    ref = home.system.start(clerk(), home.diary, "Bob", begin=5)
    before = ref.proxy()
    assert before.add(1).get() == 6
    ref.tell(FALL_OVER)
    during = ref.proxy()
    reply = during.add(1)
    home.pass_backoff()
    gc.collect()
    after = ref.proxy()

    assert reply.get(timeout=60) == 6
    assert before.add(1).get(timeout=60) == 7
    assert after.add(1).get(timeout=60) == 8
    assert after.count.get(timeout=60) == 8


class Outgoing(Clerk):
    """Gives its reference to somebody else while it is made, and sends itself a message."""

    known: ClassVar[list[pykka.ActorRef[Any]]]

    def __init__(self, *arguments: Any) -> None:  # noqa: ANN401 - the clerk's
        super().__init__(*arguments)
        self._myself = self.actor_ref.proxy()
        self.known.append(self.actor_ref)
        self._myself.add(100)


def test_a_reference_handed_out_by_the_constructor_leads_to_it_in_every_life(home: Nursery) -> None:
    kind = clerk(base=Outgoing)
    assert issubclass(kind, Outgoing)
    kind.known = []
    ref = begin(home, kind)
    assert ref.ask(1) == 101
    ref.tell(FALL_OVER)
    home.pass_backoff()

    wait_until(lambda: ref.ask(0, timeout=60) == 100, what="its message to itself")
    assert kind.known == [ref, ref]
    assert kind.known[1].ask(1, timeout=60) == 101


def test_the_failed_ones_are_let_go_of_also_if_they_know_themselves(
    home: Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "pykka")  # a traceback that was caught keeps what it has come through
    kind = clerk(Supervision(max_restarts=5, within=1000.0), base=Outgoing)
    assert issubclass(kind, Outgoing)
    kind.known = []
    ref = begin(home, kind)
    lives: list[weakref.ref[Clerk]] = []
    for _ in range(5):
        ref.ask(Do(lambda actor: lives.append(weakref.ref(actor))), timeout=60)
        ref.tell(FALL_OVER)
        home.pass_backoff()
    wait_until(lambda: ref.ask(0, timeout=60) == 100, what="its message to itself")
    home.letters.clear()

    def remaining() -> list[Clerk]:
        gc.collect()
        return [actor for life in lives if (actor := life()) is not None]

    assert len(lives) == 5
    wait_until(lambda: not remaining(), what="the worker to let go of the last one")


def test_made_again_it_may_make_others_of_its_class(home: Nursery) -> None:
    class Twin(Clerk):
        supervision = RESTART

        def __init__(self, diary: list[tuple[Any, ...]], name: str, system: ActorSystem) -> None:
            super().__init__(diary, name)
            if name == "first":
                self.twin = system.start(Twin, diary, "second", system)

    ref = home.system.start(Twin, home.diary, "first", home.system)
    ref.tell(FALL_OVER)
    home.pass_backoff()

    twin: pykka.ActorRef[Twin] = ref.ask(Do(lambda actor: actor.twin), block=True, timeout=60)

    assert twin is not ref
    assert twin.ask(Do(lambda actor: actor.name), timeout=60) == "second"
    assert ref.ask(Do(lambda actor: actor.name), timeout=60) == "first"


# A start that fails.


@pytest.mark.parametrize("hook", ["on_start", "on_failure"])
def test_a_hook_that_raises_is_a_failure_like_others(home: Nursery, hook: str) -> None:
    kind = clerk()
    kind.trips.add(hook)
    ref = begin(home, kind)
    if hook == "on_failure":
        ref.tell(FALL_OVER)
    waiting = ref.ask(1, block=False)
    home.wait_for_backoff()
    kind.trips.clear()
    home.pass_backoff()

    assert waiting.get(timeout=60) == 1


def test_a_constructor_that_raises_the_first_time_is_the_starters(home: Nursery) -> None:
    kind = clerk()
    kind.trips.add("__init__")

    with pytest.raises(Stumbled, match="__init__"):
        begin(home, kind)

    assert home.system.live() == 0


def test_a_constructor_that_raises_at_a_restart_is_tried_again(home: Nursery) -> None:
    kind = clerk()
    ref = begin(home, kind)
    kind.trips.add("__init__")
    ref.tell(FALL_OVER)
    waiting = ref.ask(1, block=False)
    home.pass_backoff()
    home.wait_for_backoff()
    assert ref.is_alive()
    assert ref.proxy().actor_ref is ref

    kind.trips.clear()
    home.pass_backoff()

    assert waiting.get(timeout=60) == 1
    assert happened(home) == ["made", "started", "failed", "made", "started"]


def test_a_constructor_is_not_run_by_whoever_moves_the_time(home: Nursery) -> None:
    threads: list[threading.Thread] = []

    class Watchful(Clerk):
        def __init__(self, *arguments: Any) -> None:  # noqa: ANN401 - the clerk's
            super().__init__(*arguments)
            threads.append(threading.current_thread())

    ref = begin(home, clerk(base=Watchful))
    ref.tell(FALL_OVER)
    home.pass_backoff()
    ref.ask(0, timeout=60)

    assert threads[0] is threading.current_thread()
    assert threads[1].name.startswith("reenact-worker")


def test_who_quits_while_it_is_made_again_is_tried_again_and_no_worker_ends(home: Nursery) -> None:
    quits: list[type[BaseException]] = []

    class Quitter(Clerk):
        def __init__(self, *arguments: Any) -> None:  # noqa: ANN401 - the clerk's
            super().__init__(*arguments)
            if quits:
                raise quits.pop()

    ref = begin(home, clerk(base=Quitter))
    quits.append(SystemExit)
    ref.tell(FALL_OVER)
    home.pass_backoff()
    home.pass_backoff()

    assert ref.ask(1, timeout=60) == 1


# The end.


def give_up(home: Nursery) -> None:
    for _ in range(RESTART.max_restarts):
        home.pass_backoff()


@pytest.mark.parametrize("hook", ["__init__", "on_start"])
def test_at_the_limit_it_is_dead_and_who_waits_is_told(home: Nursery, hook: str) -> None:
    kind = clerk()
    ref = begin(home, kind)
    assert ref.ask(0) == 0  # it has started
    kind.trips.add(hook)
    ref.tell(FALL_OVER)
    waiting = ref.ask(1, block=False)
    ref.tell(2)
    stopping = ref.actor_stopped
    give_up(home)

    with pytest.raises(pykka.ActorDeadError, match="stopped before handling"):
        waiting.get(timeout=60)

    assert stopping.is_set()
    assert not ref.is_alive()
    with pytest.raises(pykka.ActorDeadError):
        ref.ask(1)
    with pytest.raises(pykka.ActorDeadError):
        ref.tell(1)
    with pytest.raises(pykka.ActorDeadError):
        ref.proxy()
    wait_until(lambda: len(home.letters) == 2)
    assert home.reasons() == [(str(ref), FALL_OVER, "Stumbled"), (str(ref), 2, "ActorDeadError")]
    assert home.system.live() == 0
    assert "stopped" not in happened(home)


@pytest.mark.parametrize("supervision", [STOP, ESCALATE, Supervision(max_restarts=0)])
def test_one_that_is_not_started_again_is_dead_at_its_first_failure(home: Nursery, supervision: Supervision) -> None:
    ref = begin(home, clerk(supervision))

    ref.tell(FALL_OVER)

    assert ref.actor_stopped.wait(60)
    wait_until(lambda: home.system.live() == 0 and "failed" in happened(home))
    assert happened(home) == ["made", "started", "failed"]


def test_stopped_in_the_usual_way_it_is_not_started_again(home: Nursery) -> None:
    ref = begin(home)
    ref.tell(5)

    assert ref.stop() is True

    assert not ref.is_alive()
    assert ref.stop() is False
    assert home.diary[-1] == ("stopped", "Bob", 5)
    assert not home.is_backing_off()


def test_many_that_come_and_go_leave_nothing_behind(home: Nursery, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "pykka")  # a traceback that was caught keeps what it has come through
    kind = clerk()
    lives = [weakref.ref(home.system.start(kind, home.diary, str(number))) for number in range(20)]
    for number, life in enumerate(lives):
        ref = life()
        assert ref is not None
        if number % 2:
            ref.tell(FALL_OVER)
        ref.stop()
        del ref
    home.letters.clear()

    assert home.system.live() == 0
    wait_until(lambda: gc.collect() + 1 and not any(life() for life in lives))


def test_failing_in_on_stop_does_not_bring_it_back(home: Nursery) -> None:
    class Sulky(Clerk):
        def on_stop(self) -> None:
            raise Stumbled("on_stop")

    ref = begin(home, clerk(base=Sulky))

    assert ref.stop(timeout=60)

    assert not ref.is_alive()
    assert not home.is_backing_off()


# Stopped or closed while it waits.


@pytest.mark.parametrize("blocking", [True, False])
def test_a_stop_while_it_waits_is_not_kept_waiting_and_comes_behind_what_was_sent_before(
    home: Nursery,
    blocking: bool,  # noqa: FBT001 - as pykka has it
) -> None:
    ref = begin(home)
    ref.tell(FALL_OVER)
    home.wait_for_backoff()
    waiting = ref.ask(7, block=False)

    stopped = ref.stop(block=blocking, timeout=60)

    assert (stopped if isinstance(stopped, bool) else stopped.get(timeout=60)) is True
    assert waiting.get(timeout=0) == 7
    assert home.diary[-1] == ("stopped", "Bob", 7)
    assert not ref.is_alive()
    home.clock.advance(100)
    assert home.system.live() == 0


def test_a_stop_is_not_kept_waiting_by_one_failure_after_the_other(home: Nursery) -> None:
    kind = clerk()
    ref = begin(home, kind)
    kind.trips.add("on_start")
    ref.tell(FALL_OVER)
    waiting = ref.ask(7, block=False)
    home.wait_for_backoff()

    assert ref.stop(timeout=60)

    with pytest.raises(pykka.ActorDeadError):
        waiting.get(timeout=0)
    assert not ref.is_alive()


def test_closing_while_it_waits_does_what_waits_and_ends_it(home: Nursery) -> None:
    ref = begin(home)
    ref.tell(FALL_OVER)
    home.wait_for_backoff()
    waiting = ref.ask(7, block=False)

    home.system.close()

    assert waiting.get(timeout=0) == 7
    assert home.diary[-1] == ("stopped", "Bob", 7)
    assert not ref.is_alive()


@pytest.mark.parametrize("hook", ["__init__", "on_start"])
def test_closing_while_it_waits_ends_also_one_that_cannot_be_made_again(home: Nursery, hook: str) -> None:
    kind = clerk()
    ref = begin(home, kind)
    kind.trips.add(hook)
    ref.tell(FALL_OVER)
    home.wait_for_backoff()
    waiting = ref.ask(7, block=False)

    home.system.close()

    with pytest.raises(pykka.ActorDeadError):
        waiting.get(timeout=0)
    assert not ref.is_alive()
    assert home.system.live() == 0


@pytest.mark.parametrize("round_", range(5))
def test_closing_while_they_all_fail_leaves_nobody_waiting(round_: int) -> None:
    with Nursery() as home:
        refs = [home.system.start(clerk(), home.diary, str(number)) for number in range(50)]
        waiting: list[pykka.Future[object]] = []
        for ref in refs:
            ref.tell(FALL_OVER)
            waiting.append(ref.ask(7, block=False))

        home.system.close()

        for future in waiting:
            try:
                assert future.get(timeout=0) == 7
            except pykka.ActorDeadError:
                continue
        assert not any(ref.is_alive() for ref in refs)
        assert home.system.live() == 0
        with pytest.raises(RuntimeClosedError):
            home.system.start(clerk(), home.diary, "late")


# Names.


@pytest.mark.parametrize("name", ["go", "restart_now", "_handle_message_exception", "_turn"])
def test_a_name_that_the_kernel_needs_is_refused_with_the_class(name: str) -> None:
    with pytest.raises(TypeError, match=f"Clumsy.{name} is a name that the kernel uses itself"):
        type("Clumsy", (PooledActor,), {name: print})
