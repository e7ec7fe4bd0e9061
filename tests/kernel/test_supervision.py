"""Supervision: started again after a while, stopped at the limit, escalated; and stopped or closed in between."""

from __future__ import annotations

import dataclasses
import sys
import threading
from contextlib import suppress

import hypothesis.strategies as st
import pytest
from hypothesis import given

from reenact.actors.kernel import ActorFailedError, PooledFuture, Reference, RestartLimitError, Supervision
from reenact.actors.kernel.supervision import Restarts
from reenact.actors.kernel.timetable import SECOND
from reenact.domain.errors import RuntimeClosedError, StorageFullError
from reenact.testing.clock import wait_until
from tests.kernel.nursery import ESCALATE, RESTART, STOP, Add, Added, Command, Do, Look, Nursery, Stumbled, Trip

# How long to wait, and how often.


def test_the_backoff_doubles_from_the_shortest_to_the_longest() -> None:
    restarts = Restarts(Supervision(max_restarts=7, min_backoff=0.5, max_backoff=10.0), "somebody")

    delays = [restarts.delay(SECOND) or 0.0 for _ in range(7)]

    spread = delays[0] / 0.5
    assert 1 <= spread <= 1.2
    assert delays == pytest.approx([spread * seconds for seconds in (0.5, 1, 2, 4, 8, 10, 10)])
    assert restarts.delay(SECOND) is None


def test_actors_that_failed_together_do_not_come_back_together() -> None:
    delays = {Restarts(RESTART, f"person/{number}").delay(0) for number in range(50)}

    assert len(delays) == 50


@given(
    limit=st.integers(0, 5),
    within=st.integers(1, 20),
    pauses=st.lists(st.integers(0, 12), max_size=40),
)
def test_it_is_given_up_exactly_when_more_failures_than_that_lie_within_the_time(
    limit: int, within: int, pauses: list[int]
) -> None:
    restarts = Restarts(Supervision(max_restarts=limit, within=within, min_backoff=0.0), "somebody")
    failures: list[int] = []
    now = 0

    for pause in pauses:
        now += pause
        failures.append(now)
        gives_up = sum(now - within < failure for failure in failures) > limit
        assert (restarts.delay(now * SECOND) is None) == gives_up


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_restarts": -1},
        {"max_restarts": float("inf")},
        {"max_restarts": 1.5},
        {"max_restarts": sys.maxsize},
        {"within": 0.0},
        {"within": float("nan")},
        {"min_backoff": -0.1},
        {"min_backoff": 2.0, "max_backoff": 1.0},
        {"max_backoff": float("inf")},
        {"strategy": "resume"},
        {"on_limit": "restart"},
    ],
)
def test_a_supervision_that_cannot_work_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"supervision"):
        Supervision(**wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # that is the point


# What is a failure, and what is not.


def test_a_refusal_is_no_failure(home: Nursery) -> None:
    person = home.person(supervision=STOP)

    person.tell(Add(-1))

    assert person.ask(Look()) == 0
    assert len(home.diary.told("made")) == 1


# Restart.


def test_it_starts_again_when_the_backoff_is_over_and_not_before(home: Nursery) -> None:
    person = home.person(supervision=RESTART)
    person.tell(Trip("decide"))
    waiting = person.ask_future(Look())
    home.wait_for_backoff()

    home.clock.advance(0.99)
    assert home.is_backing_off()
    assert not waiting.done()

    home.clock.advance(0.22)
    assert waiting.get(timeout=60) == 0
    assert len(home.diary.told("made")) == 2


def test_during_the_backoff_it_is_not_live(home: Nursery) -> None:
    person = home.person(supervision=RESTART)
    person.tell(Trip("decide"))
    home.wait_for_backoff()

    assert home.system.live() == 0


def test_messages_that_waited_are_handled_in_their_order(home: Nursery) -> None:
    person = home.person(supervision=RESTART)
    person.tell(Trip("decide"))
    home.wait_for_backoff()
    for amount in range(1, 100):
        person.tell(Add(amount))

    home.pass_backoff()

    assert person.ask(Look(), timeout=60) == 4950
    assert home.recorded("person/a") == [Added(amount) for amount in range(1, 100)]


def fails_until_the_limit(home: Nursery, person: Reference[Command, object]) -> None:
    waiting = person.ask_future(Look())
    for _ in range(RESTART.max_restarts):
        home.pass_backoff()
    with pytest.raises(RestartLimitError):
        waiting.get(timeout=60)


def test_at_the_limit_who_waits_is_told_of_the_last_cause_and_what_was_told_is_a_dead_letter(home: Nursery) -> None:
    kind = home.person_class(supervision=RESTART)
    person = home.system.actor(kind, "a")
    kind.trips["on_start"] = Stumbled
    waiting = person.ask_future(Look())
    person.tell(Add(1))
    for _ in range(RESTART.max_restarts):
        home.pass_backoff()

    with pytest.raises(RestartLimitError, match=r"person/a failed more than 3 times within 1000 s.*on_start") as caught:
        waiting.get(timeout=60)

    assert caught.value.code == "restart_limit"
    assert isinstance(caught.value.__cause__, Stumbled)
    wait_until(lambda: home.letters)
    assert home.reasons() == [("person/a", Add(1), "RestartLimitError")]


def test_without_restarts_the_first_failure_is_the_limit(home: Nursery) -> None:
    person = home.person(supervision=Supervision(max_restarts=0))
    held = threading.Event()
    home.journal.disk_full()
    person.tell(Do(lambda _: held.wait(60)))
    lost, waiting = person.ask_future(Add(1)), person.ask_future(Add(2))
    held.set()

    with pytest.raises(StorageFullError):
        lost.get(timeout=60)
    with pytest.raises(RestartLimitError):
        waiting.get(timeout=60)


def test_when_the_failures_are_long_past_it_is_started_again_as_often_as_at_first(home: Nursery) -> None:
    kind = home.person_class(supervision=RESTART)
    person = home.system.actor(kind, "a")
    kind.trips["on_start"] = Stumbled
    fails_until_the_limit(home, person)

    home.clock.advance(RESTART.within)
    fails_until_the_limit(home, person)

    assert len(home.diary.told("made")) == 2 * (1 + RESTART.max_restarts)


def test_who_has_reached_the_limit_is_forgotten_when_the_failures_are_long_past(home: Nursery) -> None:
    kind = home.person_class(supervision=Supervision(max_restarts=0, within=60.0))
    kind.trips["on_start"] = Stumbled
    with pytest.raises(RestartLimitError):
        home.system.actor(kind, "a").ask(Look(), timeout=60)
    wait_until(lambda: home.system.timetable._entries != [], what="what is remembered until it is long past")

    home.clock.advance(61)

    wait_until(lambda: not home.system._cells, what="the cell to be gone")


def test_stopping_who_has_reached_the_limit_lets_it_begin_anew(home: Nursery) -> None:
    kind = home.person_class(supervision=RESTART)
    person = home.system.actor(kind, "a")
    kind.trips["on_start"] = Stumbled
    fails_until_the_limit(home, person)

    person.stop(timeout=60)
    second = person.ask_future(Look())
    home.pass_backoff()
    home.wait_for_backoff()
    kind.trips.clear()
    home.pass_backoff()

    assert second.get(timeout=60) == 0


# Stop, and nobody to escalate to.


@pytest.mark.parametrize("supervision", [STOP, ESCALATE])
def test_it_ends_what_waits_is_refused_and_the_next_message_starts_it_anew(
    home: Nursery, supervision: Supervision
) -> None:
    held = threading.Event()
    person = home.person(supervision=supervision)
    person.ask(Add(1))
    person.tell(Do(lambda _: held.wait(60)))
    person.tell(Trip("decide"))
    waiting = person.ask_future(Look())
    person.tell(Add(10))
    held.set()

    with pytest.raises(ActorFailedError, match="Stumbled"):
        waiting.get(timeout=60)
    assert person.ask(Look(), timeout=60) == 1
    assert home.reasons() == [("person/a", Trip("decide"), "Stumbled"), ("person/a", Add(10), "ActorFailedError")]
    assert not home.is_backing_off()


# Stopped, while something is under way.


def test_a_stop_during_a_backoff_ends_it_at_once_and_nothing_comes_back(home: Nursery) -> None:
    person = home.person(supervision=RESTART)
    person.tell(Trip("decide"))
    home.wait_for_backoff()

    person.stop(timeout=60)
    home.clock.advance(100)

    wait_until(lambda: home.system._cells == {})
    assert len(home.diary.told("made")) == 1


def test_a_stop_during_a_backoff_comes_behind_what_was_sent_before(home: Nursery) -> None:
    person = home.person(supervision=RESTART)
    person.tell(Trip("decide"))
    home.wait_for_backoff()
    waiting = person.ask_future(Add(1))

    person.stop(timeout=60)

    assert waiting.get(timeout=0) == 1
    assert home.system.live() == 0


def test_a_stop_is_not_kept_waiting_by_one_backoff_after_the_other(home: Nursery) -> None:
    kind = home.person_class(supervision=RESTART)
    person = home.system.actor(kind, "a")
    kind.trips["on_start"] = Stumbled
    waiting = person.ask_future(Look())
    home.wait_for_backoff()

    person.stop(timeout=60)

    with pytest.raises(RestartLimitError):
        waiting.get(timeout=0)
    assert len(home.diary.told("made")) == 1 + RESTART.max_restarts


# Closed, while something is under way.


def test_closing_during_a_backoff_returns_at_once_and_does_what_waits(home: Nursery) -> None:
    person = home.person(supervision=RESTART)
    person.tell(Trip("decide"))
    home.wait_for_backoff()
    waiting = [person.ask_future(Add(amount)) for amount in (1, 2)]

    home.system.close()

    assert [future.get(timeout=0) for future in waiting] == [1, 3]
    assert home.system._cells == {}


def test_what_still_fails_while_closing_fails_who_waits_and_nothing_hangs(home: Nursery) -> None:
    kind = home.person_class(supervision=RESTART)
    person = home.system.actor(kind, "a")
    kind.trips["on_start"] = Stumbled
    waiting = [person.ask_future(Look()) for _ in range(10)]
    home.wait_for_backoff()

    home.system.close()

    for future in waiting:
        with pytest.raises(ActorFailedError, match="Stumbled"):
            future.get(timeout=0)


def test_actors_that_all_fail_while_the_system_closes_do_not_keep_it_open(home: Nursery) -> None:
    kind = home.person_class(supervision=RESTART)
    replies: list[PooledFuture[int]] = []
    for number in range(200):
        person = home.system.actor(kind, str(number))
        person.tell(Trip("decide"))
        replies.append(person.ask_future(Add(1)))

    home.system.close()

    assert all(future.done() for future in replies)
    told = {future.get() for future in replies if not future.failed()}
    assert told <= {1}
    assert home.system._cells == {}
    with pytest.raises(RuntimeClosedError):
        home.system.actor(kind, "0").ask(Look())


# A model: whatever happens, in whichever order.


@given(st.lists(st.sampled_from(["add", "fail", "full", "wait", "stop"]), max_size=25))
def test_whatever_happens_the_state_is_what_was_acknowledged(deeds: list[str]) -> None:
    with Nursery() as home:
        person = home.system.actor(
            home.person_class(supervision=Supervision(max_restarts=2, within=50.0, min_backoff=1.0, max_backoff=4.0)),
            "a",
        )
        model = Model()

        for deed in deeds:
            match deed:
                case "add":
                    model.total += 1
                    model.waiting.append((person.ask_future(Add(1)), model.total))
                case "wait":
                    model.now += 5
                    home.clock.advance(5)
                    model.comes_back()
                case "stop":
                    person.stop(timeout=60)
                    model.failures.clear()
                    model.comes_back()
                case _ if model.is_backing_off:
                    continue
                case _:
                    model.settle()
                    if deed == "full":
                        home.journal.fail_next(StorageFullError("no space"))
                    person.tell(Add(1000) if deed == "full" else Trip("decide"))
                    if model.fails():
                        home.wait_for_backoff()
                    else:
                        with suppress(RestartLimitError):  # it may come before the end, or start it again
                            person.ask(Look(), timeout=60)
            if not model.is_backing_off:
                model.settle()

        home.clock.advance(5)
        model.settle()
        assert person.ask(Look(), timeout=60) == model.total
        assert home.recorded("person/a") == [Added(1)] * model.total


@dataclasses.dataclass
class Model:
    """What a supervised actor should be that may be started again twice within 50 seconds."""

    total: int = 0
    now: int = 0
    failures: list[int] = dataclasses.field(default_factory=list[int])
    is_backing_off: bool = False
    waiting: list[tuple[PooledFuture[int], int]] = dataclasses.field(
        default_factory=list[tuple[PooledFuture[int], int]]
    )

    def fails(self) -> bool:
        self.failures.append(self.now)
        self.is_backing_off = sum(failure > self.now - 50 for failure in self.failures) <= 2
        return self.is_backing_off

    def comes_back(self) -> None:
        self.is_backing_off = False

    def settle(self) -> None:
        for future, expected in self.waiting:
            assert future.get(timeout=60) == expected
        self.waiting.clear()
