"""Children: they end with their parents, their failures are heard of, and nobody remembers them afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pykka
import pytest

from reenact.actors.kernel import PooledActor, Reference, RestartLimitError, Supervision
from reenact.actors.kernel.context import Family
from reenact.domain.errors import StorageFullError
from reenact.testing.clock import wait_until
from tests.kernel.nursery import (
    ESCALATE,
    RESTART,
    STOP,
    Add,
    Added,
    Command,
    Do,
    Look,
    Nursery,
    Person,
    Stumbled,
    Trip,
)
from tests.threads import at_once


@pytest.fixture(autouse=True)
def nobody_is_remembered_at_the_end(home: Nursery) -> Iterator[None]:
    yield
    home.journal.calm()
    home.system.close()
    assert remembered(home) == 0


def remembered(home: Nursery) -> int:
    """Return how many entries the system's family holds."""
    family = home.system._family
    return len(family._children) + len(family._parents) + len(family._care)


def bear(
    parent: Reference[Command], child: type[Person], name: str = "c", supervision: Supervision | None = None
) -> Reference[Command]:
    """Have the parent make a child, and have the child live."""
    born = parent.ask(Do(lambda actor: actor.context.child(child, name, supervision)), timeout=60)
    assert isinstance(born, Reference)
    born.ask(Look(), timeout=60)  # pyright: ignore[reportUnknownMemberType] - whatever it was given
    return born  # pyright: ignore[reportUnknownVariableType]


def spawned(home: Nursery, parent: Reference[Command, Any], kind: type[pykka.Actor]) -> pykka.ActorRef[Any]:
    """Have the parent start an actor without a log."""
    made: pykka.ActorRef[Any] = parent.ask(Do(lambda actor: actor.context.spawn(kind, home.diary)), timeout=60)
    return made


class Plain(PooledActor):
    """Calls what it is sent."""

    def __init__(self, diary: list[tuple[Any, ...]]) -> None:
        super().__init__()
        self.diary = diary

    def on_receive(self, message: Callable[[Plain], object]) -> object:
        return message(self)

    def on_stop(self) -> None:
        self.diary.append(("plain stopped",))


class Threaded(pykka.ThreadingActor):
    def __init__(self, diary: list[tuple[Any, ...]]) -> None:
        super().__init__()
        self.diary = diary

    def on_stop(self) -> None:
        self.diary.append(("thread stopped",))


def fall_over(_: object) -> None:
    raise Stumbled("plain")


# Where they are.


def test_a_child_is_named_after_its_parent_and_can_be_addressed_by_anybody(home: Nursery) -> None:
    child_class = home.person_class("child")
    child = bear(home.person("parent", id_="p"), child_class)

    assert child.id == "p/c"
    assert child == home.system.actor(child_class, "p/c")
    assert home.system.actor(child_class, "p/c").ask(Add(1)) == 1
    assert home.recorded("child/p/c") == [Added(1)]


def test_the_parents_supervision_takes_the_place_of_the_classes(home: Nursery) -> None:
    child = bear(home.person("parent", id_="p"), home.person_class("child", STOP), supervision=RESTART)

    child.tell(Trip("decide"))
    home.pass_backoff()

    assert home.wait_for("made", 3)[-1] == ("made", "p/c")


# Parents end, and their children with them.


def test_when_the_parent_stops_all_its_children_stop(home: Nursery) -> None:
    parent = home.person("parent", id_="p")
    bear(parent, home.person_class("child"))
    plain = spawned(home, parent, Plain)
    threaded = spawned(home, parent, Threaded)

    parent.stop()

    home.wait_for("plain stopped")
    home.wait_for("thread stopped")
    wait_until(lambda: home.system.live() == 0)
    assert plain.actor_stopped.wait(60)
    assert threaded.actor_stopped.wait(60)
    assert ("stopped", "p/c") in home.wait_for("stopped", 2)
    assert remembered(home) == 0


def test_grandchildren_stop_too(home: Nursery) -> None:
    child_class, grandchild_class = home.person_class("child"), home.person_class("grandchild")
    parent = home.person("parent", id_="p")
    child = bear(parent, child_class)
    grandchild = bear(child, grandchild_class, "g")
    assert grandchild.id == "p/c/g"

    parent.stop()

    wait_until(lambda: home.system.live() == 0)
    assert [entry[1] for entry in home.wait_for("stopped", 3)] == ["p", "p/c", "p/c/g"]


def test_children_finish_what_they_were_sent_before_they_stop() -> None:
    with Nursery(stepwise=True) as home:
        parent = home.person("parent", id_="p")
        child = bear(parent, home.person_class("child"))
        steps = [child.ask_future(Add(1)) for _ in range(3)]
        home.memory.wait_for_appends()

        parent.stop(timeout=60)
        while home.system.live():
            home.memory.commit()

        assert [step.get(timeout=0) for step in steps] == [1, 2, 3]


def test_a_child_whose_parent_is_gone_lives_again_when_it_is_addressed_and_is_nobodys_child(home: Nursery) -> None:
    parent_class = home.person_class("parent", STOP)
    parent = home.system.actor(parent_class, "p")
    child = bear(parent, home.person_class("child", STOP))
    child.ask(Add(1))
    parent.stop()
    parent.ask(Look())

    assert child.ask(Add(1), timeout=60) == 2
    child.tell(Trip("decide"))
    home.wait_for("failed")
    assert parent.ask(Look()) == 0
    assert home.diary.told("child failed") == []


def test_a_child_that_waits_to_be_started_again_ends_with_its_parent(home: Nursery) -> None:
    parent = home.person("parent", id_="p")
    child = bear(parent, home.person_class("child"), supervision=RESTART)
    child.tell(Trip("decide"))
    home.wait_for_backoff()

    parent.stop()

    wait_until(lambda: not home.system._cells)
    assert not home.is_backing_off()


class Patient(Plain):
    supervision = RESTART


def test_a_plain_child_that_waits_to_be_started_again_ends_with_its_parent(home: Nursery) -> None:
    parent = home.person("parent", id_="p")
    plain = spawned(home, parent, Patient)
    plain.tell(fall_over)
    home.wait_for_backoff()

    parent.stop()

    assert plain.actor_stopped.wait(60)
    assert not home.is_backing_off()


# Parents start again.


class Parent(Person):
    """Has its child in every life."""

    child_class: type[Person]

    def on_recovered(self) -> list[Command]:
        self.context.child(self.child_class, "c").tell(Add(1))
        return []


def test_a_parent_that_starts_again_may_have_its_children_again(home: Nursery) -> None:
    child_class = home.person_class("child", RESTART)
    parent_class = home.person_class("parent", RESTART, base=Parent, child_class=child_class)
    parent, child = home.system.actor(parent_class, "p"), home.system.actor(child_class, "p/c")
    parent.ask(Look())
    assert child.ask(Look(), timeout=60) == 1

    parent.tell(Trip("decide"))
    wait_until(lambda: ("stopped", "p/c") in home.diary)
    home.pass_backoff()

    assert parent.ask(Look(), timeout=60) == 0
    assert child.ask(Look(), timeout=60) == 2
    assert [entry[0] for entry in home.diary if entry[1] == "p/c"] == [
        *("made", "started", "recovered", "stopped"),
        *("made", "started", "recovered"),
    ]
    parent.stop()
    wait_until(lambda: home.system.live() == 0)


# Children fail.


def test_a_parent_hears_of_a_child_that_ended_for_good(home: Nursery) -> None:
    parent = home.person("parent", id_="p")
    child = bear(parent, home.person_class("child", STOP))

    child.tell(Trip("decide"))

    [(_, _, heard_of, error)] = home.wait_for("child failed")
    assert heard_of == child
    assert isinstance(error, Stumbled)
    assert parent.ask(Look()) == 0
    assert child.ask(Add(1)) == 1


def test_a_parent_hears_of_the_limit_once_and_not_of_the_restarts(home: Nursery) -> None:
    child_class = home.person_class("child")
    parent = home.person("parent", id_="p")
    child = bear(parent, child_class, supervision=RESTART)
    child_class.trips["on_start"] = Stumbled
    child.tell(Trip("decide"))
    for _ in range(RESTART.max_restarts):
        assert home.diary.told("child failed") == []
        home.pass_backoff()

    [(_, _, heard_of, error)] = home.wait_for("child failed")

    assert heard_of == child
    assert isinstance(error, RestartLimitError)
    assert isinstance(error.cause, Stumbled)


def test_without_supervision_nobody_hears_of_a_failure_but_who_waits(home: Nursery) -> None:
    parent = home.person("parent", id_="p")
    child = bear(parent, home.person_class("child"))
    home.journal.fail_next(StorageFullError("no space"))

    with pytest.raises(StorageFullError):
        child.ask(Add(1))

    assert child.ask(Add(1)) == 1
    assert parent.ask(Look()) == 0
    assert home.diary.told("child failed") == []


class Faithful(Person):
    """Has another child when one has failed."""

    child_class: type[Person]

    def on_child_failed(self, child: Any, error: Exception) -> None:  # noqa: ANN401 - as inherited
        self.context.child(self.child_class, "second").tell(Add(1))


def test_a_parent_may_do_something_about_it(home: Nursery) -> None:
    child_class = home.person_class("child", STOP)
    parent = home.person("parent", base=Faithful, child_class=child_class, id_="p")
    child = bear(parent, child_class)

    child.tell(Trip("decide"))

    wait_until(lambda: home.recorded("child/p/second") == [Added(1)])


# Escalation.


def test_a_child_that_escalates_lets_its_parent_fail_and_the_parent_is_started_again(home: Nursery) -> None:
    parent = home.person("parent", RESTART, id_="p")
    child = bear(parent, home.person_class("child", ESCALATE))
    child.tell(Trip("decide"))
    home.pass_backoff()

    assert parent.ask(Look(), timeout=60) == 0

    failed = home.diary.told("failed")
    assert [(entry[1], type(entry[2])) for entry in failed] == [("p/c", Stumbled), ("p", Stumbled)]
    assert failed[0][2] is failed[1][2]
    assert len([entry for entry in home.diary.told("made") if entry[1] == "p"]) == 2


def test_escalation_goes_on_from_parent_to_grandparent(home: Nursery) -> None:
    top = home.person("top", RESTART, id_="t")
    middle = bear(top, home.person_class("middle", ESCALATE), "m")
    bottom = bear(middle, home.person_class("bottom", ESCALATE), "b")
    other = bear(top, home.person_class("other"), "o")

    bottom.tell(Trip("decide"))
    home.wait_for("failed", 3)
    home.pass_backoff()

    assert [entry[1] for entry in home.diary.told("failed")] == ["t/m/b", "t/m", "t"]
    assert top.ask(Look(), timeout=60) == 0
    wait_until(lambda: ("stopped", "t/o") in home.diary)
    assert other.ask(Look(), timeout=60) == 0


def test_at_its_limit_a_child_may_escalate(home: Nursery) -> None:
    parent = home.person("parent", RESTART, id_="p")
    supervision = Supervision(max_restarts=0, on_limit="escalate")
    child = bear(parent, home.person_class("child"), supervision=supervision)

    child.tell(Trip("decide"))
    home.wait_for("failed", 2)
    home.pass_backoff()

    assert parent.ask(Look(), timeout=60) == 0
    assert [(entry[1], type(entry[2])) for entry in home.diary.told("failed")] == [
        ("p/c", Stumbled),
        ("p", RestartLimitError),
    ]


def test_a_parent_without_supervision_ends_of_it_and_comes_back_with_the_next_message(home: Nursery) -> None:
    parent = home.person("parent", id_="p")
    child = bear(parent, home.person_class("child", ESCALATE))
    parent.ask(Add(1))

    child.tell(Trip("decide"))
    home.wait_for("failed", 2)

    assert parent.ask(Look(), timeout=60) == 1


# Children without a log.


class Brief(Plain):
    supervision = STOP


class Escalating(Plain):
    supervision = ESCALATE


class FailsAtOnce(Plain):
    supervision = STOP

    def on_start(self) -> None:
        raise Stumbled("at once")


def test_a_parent_hears_of_a_plain_child_too(home: Nursery) -> None:
    parent = home.person("parent", id_="p")
    plain = spawned(home, parent, Brief)

    plain.tell(fall_over)

    [(_, _, heard_of, error)] = home.wait_for("child failed")
    assert heard_of is plain
    assert isinstance(error, Stumbled)
    assert not plain.is_alive()


def test_a_parent_hears_of_a_plain_child_that_fails_before_it_is_born_quite(home: Nursery) -> None:
    parent = home.person("parent", id_="p")

    refs = {spawned(home, parent, FailsAtOnce) for _ in range(20)}

    assert {entry[2] for entry in home.wait_for("child failed", 20)} == refs


def test_a_parent_hears_of_a_dead_plain_child_though_it_starts_another_one(
    home: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = home.person("parent", id_="p")
    refuse = Brief._refuse_rest

    def start_another_first(dead: Brief) -> None:
        spawned(home, parent, Plain)
        refuse(dead)

    monkeypatch.setattr(Brief, "_refuse_rest", start_another_first)
    plain = spawned(home, parent, Brief)
    plain.tell(fall_over)

    [(_, _, heard_of, _)] = home.wait_for("child failed")
    assert heard_of is plain


def test_a_plain_child_may_escalate(home: Nursery) -> None:
    parent = home.person("parent", RESTART, id_="p")
    plain = spawned(home, parent, Escalating)

    plain.tell(fall_over)
    home.pass_backoff()

    assert parent.ask(Look(), timeout=60) == 0
    assert len(home.diary.told("made")) == 2


# Passivation, and what is remembered.


def test_a_parent_leaves_memory_only_when_no_child_lives(home: Nursery) -> None:
    parent = home.person("parent", id_="p")
    child = bear(parent, home.person_class("child"))

    def try_to_leave() -> None:
        parent.ask(Do(lambda actor: actor.ask_to_leave()))
        parent.ask(Look())

    try_to_leave()
    plain = spawned(home, parent, Plain)
    child.stop()
    try_to_leave()
    assert home.system.live() == 2
    assert [entry[1] for entry in home.diary.told("stopped")] == ["p/c"]

    plain.stop()
    parent.ask(Do(lambda actor: actor.ask_to_leave()))

    wait_until(lambda: home.system.live() == 0)
    assert [entry[1] for entry in home.wait_for("stopped", 2)] == ["p/c", "p"]


def test_a_parent_does_not_remember_the_plain_children_that_have_ended(home: Nursery) -> None:
    parent = home.person("parent", id_="p")
    stays = spawned(home, parent, Plain)

    for _ in range(100):
        spawned(home, parent, Plain).stop()

    assert remembered(home) < 10
    parent.stop()
    assert stays.actor_stopped.wait(60)


def test_a_child_belongs_to_the_parent_that_has_had_it_last() -> None:
    family, first, second, child = Family(), (Person, "first"), (Person, "second"), (Person, "child")
    family.add(first, child, RESTART)
    family.add(second, child, STOP)

    assert family.part(first) == []

    assert family.parent(child) == second
    assert family.supervision(child) == STOP
    assert family.part(second) == [child]
    assert family.parent(child) is None
    assert family.supervision(child) is None


def test_many_families_come_and_go_and_nothing_stays(home: Nursery) -> None:
    child_class = home.person_class("child", RESTART)
    parent_class = home.person_class("parent", RESTART, base=Parent, child_class=child_class)

    def live_and_end(seed: int) -> None:
        for number in range(25):
            parent = home.system.actor(parent_class, f"{seed}-{number}")
            spawned(home, parent, Plain)
            parent.stop(timeout=60)

    at_once(live_and_end, threads=4)

    wait_until(lambda: home.system.live() == 0)
    assert remembered(home) == 0
    assert len(home.wait_for("plain stopped", 100)) == 100
    assert (
        sum(home.recorded(f"child/{seed}-{number}/c") == [Added(1)] for seed in range(4) for number in range(25)) == 100
    )
