"""The rows of a session that branches off say what its whole history says, and copy nothing of it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings

from reenact.domain.errors import LogUnusableError
from reenact.domain.messages import TextBlock, ToolUseBlock
from reenact.domain.session.agent import ReceivedAnswer
from reenact.domain.session.state import BranchPoint, SessionBranched
from reenact.projections.errors import ProjectionFailedError
from reenact.projections.explain.history import history_of, lineage_of, moment_of
from reenact.projections.log import shared_before
from reenact.projections.read_model.queries import ReadModel
from tests.examples import examples
from tests.projections import naive
from tests.projections.histories import ListLog, Step, World, lineage, play, steps
from tests.projections.test_rows import rows_from_zero, told

ANSWER = ReceivedAnswer(
    content=(TextBlock("Hi"),), message_id="m", stop_reason="end_turn", usage={"output_tokens": 3}, model="x"
)
SEND = ToolUseBlock("t1", "send", {"to": "ann"})


@pytest.fixture
def world() -> World:
    """A session with two questions, each answered."""
    world = World()
    world.begin("a")
    for text in ("One", "Two"):
        world.say("a", text)
        world.answer("a", ANSWER)
    return world


def said(model: ReadModel, session_id: str) -> list[str]:
    return [message.text for message in model.messages(session_id)]


@settings(max_examples=examples(15), deadline=None)
@given(steps)
def test_at_every_position_of_a_history_the_rows_of_a_branch_are_what_a_naive_reading_gives(chosen: list[Step]) -> None:
    world = play(chosen[:25])
    before = [row for name in ("a", "d") for row in lineage(world.log.rows, name)]
    originals = [*world.log.rows]
    for row in before:
        world.branch(row.stream.removeprefix("session/"), f"at {row.position}", row.position)
    rows = world.log.rows

    assert rows[: len(originals)] == originals
    with ReadModel.of(world.log) as model:
        for session in naive.sessions(rows):
            assert model.session(session.id) == session
            assert model.messages(session.id) == naive.messages(rows, session.id)
            assert told(model.turns_of(session.id)) == naive.turns(rows, session.id)
            assert model.tool_calls(session.id) == naive.calls(rows, session.id)
            pending = [(call.id, call.turn_id, call.kind) for call in model.pending(session.id)]
            assert pending == naive.pending(rows, session.id)
            used = model.usage(session.id)
            assert {**used.models, **used.tools} == {
                name: spent for (_, name), spent in naive.usage(rows, session.id).items()
            }


def test_a_branch_has_the_messages_up_to_its_beginning_and_its_own(world: World) -> None:
    world.branch("a", "b")
    world.run("b")
    world.say("a", "Three")
    world.say("b", "Drei")

    with ReadModel.of(world.log) as model:
        assert said(model, "a") == ["One", "Hi", "Two", "Hi", "Three"]
        assert said(model, "b") == ["One", "Hi", "Two", "Hi", "Drei"]
        assert model.usage("b").models["x"].usage == {"output_tokens": 6}


def test_a_branch_says_where_it_begins(world: World) -> None:
    until = world.log.head()
    world.branch("a", "b")

    with ReadModel.of(world.log) as model:
        session = model.session("b")

    assert session is not None
    assert session.origin == BranchPoint(session_id="a", position=until, version=until)


def test_nothing_of_the_history_is_copied(world: World) -> None:
    for _ in range(20):
        world.say("a")
        world.answer("a", ANSWER)
    before = rows_from_zero(world.log)
    head = world.log.head()

    world.branch("a", "b")

    after = rows_from_zero(world.log)
    assert world.log.head() == head + 1
    assert {name: len(after[name]) - len(before[name]) for name in before if len(after[name]) != len(before[name])} == {
        "activity": 1,
        "sessions": 1,
        "usage": 1,
    }
    assert all(set(before[name]) <= set(after[name]) for name in before)


def test_branches_of_branches_of_deleted_sessions_have_all_that_went_before(world: World) -> None:
    for origin, name in (("a", "b"), ("b", "c"), ("c", "d")):
        world.branch(origin, name)
        world.delete(origin)
        world.run(name)
        world.say(name, name)
        world.answer(name, ANSWER)

    with ReadModel.of(world.log) as model:
        assert said(model, "d") == ["One", "Hi", "Two", "Hi", "b", "Hi", "c", "Hi", "d", "Hi"]
        assert model.messages("a") == []
        assert [turn.outcome for turn in model.turns_of("d")] == ["completed"] * 5


def test_a_call_that_waits_is_decided_in_each_session_by_itself(world: World) -> None:
    world.say("a", "Send it")
    world.ask("a", SEND)
    world.branch("a", "b")
    world.run("b")
    world.approve("b")
    world.report("b", result="sent")

    with ReadModel.of(world.log) as model:
        assert [call.stage for call in model.tool_calls("a")] == ["waiting"]
        assert [call.stage for call in model.tool_calls("b")] == ["answered"]
        assert [call.session_id for call in model.pending()] == ["a"]
        assert [call.session_id for call in model.pending_of_id("t1")] == ["a"]


def test_the_history_of_a_branch_is_read_through_its_lineage(world: World) -> None:
    until = world.log.head()
    world.branch("a", "b")
    world.say("a")
    world.run("b")

    assert lineage_of(world.log, "b") == [("session/a", until), ("session/b", None)]
    assert [row.stream for row in history_of(world.log, "b")[-3:]] == ["session/a", "session/b", "session/b"]
    assert moment_of(world.log, "b").session == world.sessions["b"]
    assert moment_of(world.log, "b", at=until).session.id == "a"


def test_a_log_that_has_lost_the_history_of_a_branch_says_so(world: World) -> None:
    branched = SessionBranched("b", "c", "i", 1, "a", world.log.head() + 5, "d1")
    world.log.append("session/b", branched)

    with pytest.raises(LogUnusableError, match="'session/b' branches off from 'session/a' at version"):
        lineage_of(world.log, "b")
    with pytest.raises(ProjectionFailedError, match="branches off from"):
        ReadModel.of(world.log)


def test_a_history_that_would_go_on_with_itself_is_none() -> None:
    log = ListLog()
    branched = SessionBranched("a", "c", "i", 1, "a", 1, "d1")
    log.append("session/a", branched, msgspec.structs.replace(branched, session_id="b"))

    with pytest.raises(LogUnusableError):
        shared_before(log, log.rows[0])
