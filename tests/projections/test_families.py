"""Child sessions have rows of their own, which say whose children they are."""

from __future__ import annotations

import pytest

from reenact.domain.messages import ToolUseBlock
from reenact.domain.session.people import Caller
from reenact.projections.read_model.queries import ReadModel
from reenact.projections.statistics.counting import statistics_of
from tests.projections.calling import ANSWER, USAGE, call, end
from tests.projections.histories import World
from tests.statistics.counted import tables_of

SEND = ToolUseBlock("s1", "send", {"to": "ann"})


@pytest.fixture
def world() -> World:
    """A root with two children, one of which has a child that asks a person, and a session of no family."""
    world = World()
    world.create("other")
    world.create("root")
    call(world, "root", "first")
    world.answer("first", ANSWER)
    end(world, "root", "first")
    call(world, "root", "second", "c2")
    call(world, "second", "leaf", "c3")
    world.ask("leaf", SEND)
    end(world, "second", "leaf", "waiting", "c3")
    end(world, "root", "second", "waiting", "c2")
    return world


def test_children_are_sessions_that_say_who_has_called_them(world: World) -> None:
    with ReadModel.of(world.log) as model:
        listed = [(one.id, one.parent and (one.parent.session_id, one.parent.depth)) for one in model.sessions()]

    assert listed == [
        ("leaf", ("second", 2)),
        ("second", ("root", 1)),
        ("first", ("root", 1)),
        ("root", None),
        ("other", None),
    ]


def test_the_children_of_a_session_are_listed_by_pages(world: World) -> None:
    with ReadModel.of(world.log) as model:
        assert [one.id for one in model.sessions(parent="root")] == ["second", "first"]
        assert [one.id for one in model.sessions(1, after="second", parent="root")] == ["first"]
        assert [one.id for one in model.sessions(parent="root", waiting=True)] == ["second"]
        assert model.sessions(parent="leaf") == []


def test_a_call_that_waits_in_a_child_is_listed_with_its_path_for_each_session_above(world: World) -> None:
    path = (
        Caller(session_id="root", image_id="i", call_id="c2"),
        Caller(session_id="second", image_id="i", call_id="c3"),
    )

    with ReadModel.of(world.log) as model:
        for asked in (None, "root", "second", "leaf"):
            assert [(one.id, one.session_id, one.path) for one in model.pending(asked)] == [("s1", "leaf", path)]
        assert model.pending("first") == model.pending("other") == []
        assert [one.path for one in model.pending_of_id("s1")] == [path]


def test_a_call_of_a_session_that_nobody_has_called_has_no_path() -> None:
    world = World()
    world.begin("alone")
    world.say("alone")
    world.ask("alone", SEND)

    with ReadModel.of(world.log) as model:
        assert [one.path for one in model.pending()] == [()]


def test_what_children_use_is_counted_in_their_own_rows_alone(world: World) -> None:
    with ReadModel.of(world.log) as model:
        used = {one: model.usage(one).models["small"].usage for one in ("root", "first")}
        tokens = model.select("SELECT sum(tokens_in), sum(tokens_out) FROM answers", {})

    assert used == {"root": {kind: 2 * count for kind, count in USAGE.items()}, "first": USAGE}
    assert tokens == [(4 * 7, 4 * 3)]


def test_statistics_count_a_call_that_waits_in_a_child_once(world: World) -> None:
    with tables_of(world.log) as tables:
        figures = statistics_of(tables, "session")

    assert figures.total.approvals.waiting == 1
    assert [one.key for one in figures.groups if one.approvals.waiting] == ["leaf"]
