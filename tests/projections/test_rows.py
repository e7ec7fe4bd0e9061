"""The rows say what a naive reading of the history says, however they came about."""

from __future__ import annotations

import hashlib
import itertools
import math
import traceback
from collections import defaultdict
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Select
from sqlalchemy.schema import CreateIndex, CreateTable

from reenact.domain.container import ContainerCreated
from reenact.domain.history.stored import STORED
from reenact.domain.image import Definition, ImageRegistered
from reenact.domain.loop.events import Option, ToolEdited, ToolResult
from reenact.domain.loop.ledger import Spent
from reenact.domain.messages import Message, TextBlock, ToolUseBlock
from reenact.domain.session.agent import Failure, ReceivedAnswer
from reenact.domain.session.state import SessionBranched, SessionCreated, SessionForgotten
from reenact.domain.session.told import TurnInfo
from reenact.projections.errors import ProjectionFailedError
from reenact.projections.read_model import compiled
from reenact.projections.read_model import tables as questions
from reenact.projections.read_model.projection import ReadModelTables
from reenact.projections.read_model.projectors import OF_CONVERSATION
from reenact.projections.read_model.queries import ReadModel
from reenact.projections.read_model.sqlite_store import PrivateStore, SqliteStore
from reenact.projections.read_model.tables import METADATA, VERSION
from tests.projections import naive
from tests.projections.compiled import TABLES
from tests.projections.histories import ListLog, Step, World, play, steps
from tests.projections.opened import apply

ACTIVITY = """
    SELECT id, activity.position, events, turns, state, outcome, tokens_in, tokens_out
    FROM activity JOIN sessions ON sessions.position = session WHERE state <> 'deleted' ORDER BY session
"""


@contextmanager
def private() -> Generator[SqliteStore, None, None]:
    store = PrivateStore()
    try:
        yield store
    finally:
        store.close()


def all_rows(store: SqliteStore) -> dict[str, list[tuple[Any, ...]]]:
    with closing(store.connect()) as connection:
        return {
            table.name: sorted(connection.execute(f"SELECT * FROM {table.name}"), key=repr)  # noqa: S608 - ours
            for table in METADATA.tables.values()
        }


def rows_from_zero(log: ListLog) -> dict[str, list[tuple[Any, ...]]]:
    with private() as store:
        apply(log, store)
        return all_rows(store)


@given(steps, st.one_of(st.just(0), st.integers(1, 40)))
def test_every_answer_is_what_a_naive_reading_of_the_history_gives_wherever_it_ends(
    chosen: list[Step], missing: int
) -> None:
    log = play(chosen).log
    rows = log.rows = log.rows[: max(0, len(log.rows) - missing)]

    with ReadModel.of(log) as model:
        assert model.containers() == naive.containers(rows)
        assert model.images() == naive.images(rows)
        assert model.sessions() == naive.sessions(rows)[::-1]
        assert model.agents() == naive.agents(rows)
        assert model.schedules() == naive.schedules(rows)
        assert model.unfinished() == naive.unfinished(rows)
        assert model.select(ACTIVITY, {}) == naive.activity(rows)
        assert all_of(model, "answers") == sorted(naive.answers(rows))
        assert all_of(model, "turn_ends") == sorted(naive.turn_ends(rows))
        assert all_of(model, "call_ends") == sorted(naive.call_ends(rows))
        assert all_of(model, "decisions") == sorted(naive.decisions(rows))
        assert [model.container(one) for one in "xyz"] == _by_id(naive.containers(rows), "xyz")
        assert [model.image(one) for one in "xyz"] == _by_id(naive.images(rows), "xyz")
        assert model.sessions(1) == naive.sessions(rows)[-1:]
        assert [model.agent(agent.id) for agent in naive.agents(rows)] == naive.agents(rows)
        for container_id in "xyz":
            expected = [session for session in naive.sessions(rows) if session.container_id == container_id]
            assert model.sessions_of(container_id) == expected
        every = naive.sessions(rows)[::-1]
        for container_id, waiting in itertools.product((None, *"xyz"), (None, True, False)):
            wanted = [
                one
                for one in every
                if container_id in (None, one.container_id) and waiting in (None, bool(naive.pending(rows, one.id)))
            ]
            for start, size in itertools.product(range(len(wanted) + 1), (1, 3)):
                after = wanted[start - 1].id if start else None
                page = model.sessions(size, after=after, container_id=container_id, waiting=waiting)
                assert page == wanted[start : start + size]
        for number, one in enumerate(every):
            assert model.turn_began(f"t{number}") is None
            for turn in () if one.origin is not None else naive.turns(rows, one.id):
                assert model.turn_began(turn.id) in ((one.id, True), (one.id, False))
        for session_id in "abcdefg":
            assert [model.session(session_id)] == _by_id(naive.sessions(rows), session_id)
            assert model.messages(session_id) == naive.messages(rows, session_id)
            assert told(model.turns_of(session_id)) == naive.turns(rows, session_id)
            assert model.tool_calls(session_id) == naive.calls(rows, session_id)
            pending = [(call.id, call.turn_id, call.kind) for call in model.pending(session_id)]
            assert pending == naive.pending(rows, session_id)
            used = model.usage(session_id)
            by_kind = {"model": used.models, "tool": used.tools}
            assert {(kind, one): spent for kind, of in by_kind.items() for one, spent in of.items()} == naive.usage(
                rows, session_id
            )
        for _, registered in naive.of(rows, ImageRegistered):
            assert model.image_revision(registered.image_id, registered.revision) == registered.definition


def all_of(model: ReadModel, table: str) -> list[tuple[Any, ...]]:
    return model.select(f"SELECT * FROM {table} ORDER BY position", {})  # noqa: S608 - ours


def told(turns: Sequence[TurnInfo]) -> list[naive.Turn]:
    return [
        naive.Turn(
            turn.id,
            turn.message_id,
            turn.outcome,
            turn.stop_reason,
            turn.steps,
            turn.model,
            turn.cost,
            turn.stop_sequence,
            turn.stop_details,
        )
        for turn in turns
    ]


def _by_id(infos: Sequence[Any], ids: str) -> list[Any]:
    return [next((info for info in infos if info.id == one), None) for one in ids]


@given(steps, st.one_of(st.lists(st.tuples(st.integers(1, 7), st.booleans())), st.just([(1, True)] * 100)))
def test_rows_made_in_batches_of_any_sizes_with_crashes_between_them_are_those_made_from_zero(
    chosen: list[Step], batches: list[tuple[int, bool]]
) -> None:
    log = play(chosen).log

    with private() as store:
        projection = ReadModelTables(log, store)
        for size, crash in batches:
            projection.advance(size)
            if crash:
                projection = ReadModelTables(log, store)  # nothing of the one before is in memory any more
        while projection.advance():
            pass
        projection.close(intact=True)

        assert projection.position == log.head()
        assert all_rows(store) == rows_from_zero(log)


def test_more_conversations_than_are_remembered_at_once_are_projected_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reenact.projections.read_model.projection.KEPT", 5)
    world = World()
    names = [f"s{number}" for number in range(40)]
    for name in names:
        world.begin(name)
    for name in names:
        world.say(name)

    with private() as store:
        projection = ReadModelTables(world.log, store)
        remembered: list[int] = []
        while projection.advance(20):
            remembered.append(len(projection._conversations))
        projection.close(intact=True)

        assert remembered == [5] * len(remembered)
        assert all_rows(store) == rows_from_zero(world.log)


@pytest.mark.parametrize("session_id", ["plain", 'quo"ted', "back\\slash", "grün 🌱", "\n\t\x7f", "[1, null]"])
def test_a_conversation_that_was_forgotten_is_found_again_whatever_its_id(session_id: str) -> None:
    world = World()
    world.begin(session_id)
    world.say(session_id)
    world.say(session_id)
    with private() as store:
        apply(world.log, store)
        world.answer(session_id, ReceivedAnswer(content=(TextBlock("Hi"),), message_id="m", stop_reason="end_turn"))

        apply(world.log, store)

        assert all_rows(store) == rows_from_zero(world.log)


def test_what_is_read_back_of_an_agent_is_all_that_its_row_said() -> None:
    world = World()
    world.begin("a")
    world.say("a")
    world.answer("a", ReceivedAnswer(failure=Failure("overloaded_error", "busy", retryable=True)))
    with private() as store:
        apply(world.log, store)
        world.stop("a", ReceivedAnswer())

        apply(world.log, store)

        assert all_rows(store) == rows_from_zero(world.log)


def test_an_event_of_the_domain_that_has_no_projector_is_refused() -> None:
    log = ListLog()
    log.append("odd", Definition("not an event, but the domain's"))

    with pytest.raises(ProjectionFailedError, match="has no projector") as failed:
        ReadModel.of(log)

    assert failed.value.position == 1


def test_what_users_said_is_in_no_error() -> None:
    log = ListLog()
    log.append("container-c", ContainerCreated("c", "a secret"), ContainerCreated("c", "a secret"))

    with pytest.raises(ProjectionFailedError, match="UNIQUE constraint failed") as failed:
        ReadModel.of(log)

    assert failed.value.position == 2
    assert "secret" not in "".join(traceback.format_exception(failed.value))


def test_token_counts_beyond_all_reason_are_not_added_up() -> None:
    world = World()
    world.begin("a")
    world.say("a")
    world.answer("a", ReceivedAnswer(usage={"input_tokens": 1 << 62, "output_tokens": 2, "fine": True}))

    with ReadModel.of(world.log) as model:
        assert model.usage("a").models == {"": Spent(1, {"output_tokens": 2}, 0.0, 1)}


def test_pages_put_together_are_the_whole_list() -> None:
    world = World()
    world.create_container("x")
    world.create_container("y")
    world.create_container("z")
    for name in "abcde":
        world.begin(name, "x")
    world.delete("c")
    for _ in range(3):
        world.say("a")

    with ReadModel.of(world.log) as model:
        first = model.containers(limit=2)
        assert first + model.containers(after=first[-1].id) == model.containers()
        newest = model.sessions(2)
        assert [one.id for one in newest + model.sessions(after=newest[-1].id)] == ["e", "d", "b", "a"]
        oldest = model.sessions_of("x", limit=3)
        assert [one.id for one in oldest] == ["a", "b", "d"]
        assert [one.id for one in model.sessions_of("x", after="d", limit=5)] == ["e"]
        live = model.agents(limit=1)
        assert live + model.agents(after=live[0].id) == model.agents()
        pages: list[Message] = []
        while page := model.messages("a", after=pages[-1] if pages else None, limit=2):
            pages += page
        assert pages == model.messages("a")
        assert model.turns_of("a", after=model.turns_of("a", limit=1)[0].id) == model.turns_of("a")[1:]


@given(steps)
def test_pages_of_messages_and_turns_put_together_are_all_of_them(chosen: list[Step]) -> None:
    log = play(chosen).log

    with ReadModel.of(log) as model:
        for session_id in "abcdef":
            messages: list[Message] = []
            while len(messages) < 1000 and (
                page := model.messages(session_id, after=messages[-1] if messages else None, limit=2)
            ):
                messages += page
            turns: list[TurnInfo] = []
            while len(turns) < 1000 and (
                some := model.turns_of(session_id, after=turns[-1].id if turns else None, limit=1)
            ):
                turns += some
            assert messages == model.messages(session_id)
            assert turns == model.turns_of(session_id)


def test_results_that_no_turn_brought_about_are_a_place_to_go_on_from() -> None:
    world = World()
    world.begin("a")
    world.say("a")
    world.ask("a", ToolUseBlock("t1", "send", {}))
    world.interrupt("a", ReceivedAnswer())
    world.say("a", "And now?")

    with ReadModel.of(world.log) as model:
        *before, results, last = model.messages("a")
        assert model.messages("a", after=results) == [last]

    assert (results.role, results.turn_id, last.text) == ("user", None, "And now?")
    assert [message.role for message in before] == ["user", "assistant"]


def test_what_waits_is_told_of_all_sessions_with_what_it_takes_to_decide() -> None:
    world = World()
    for name in "ab":
        world.begin(name)
        world.say(name)
    world.ask("a", ToolUseBlock("t1", "send", {"to": "ann"}))
    world.ask("b", ToolUseBlock("t1", "ask_user", {"prompt": "Which?", "options": ["x"], "multi": True}))
    world.stop("b", ReceivedAnswer())

    with ReadModel.of(world.log) as model:
        to_approve, to_answer = model.pending()
        assert model.pending("b") == [to_answer]
        assert model.pending_of_id("t1") == [to_approve, to_answer]
        assert model.pending_of_id("t2") == []

    round_ = world.sessions["a"].round
    assert round_ is not None
    assert (to_approve.session_id, to_approve.kind, to_approve.arguments) == ("a", "approval", {"to": "ann"})
    assert (to_approve.digest, to_approve.reason) == (round_.calls[0].digest, round_.calls[0].reason)
    assert (to_approve.agent_id, to_answer.agent_id) == ("agt_1", None)
    assert (to_answer.session_id, to_answer.kind, to_answer.name) == ("b", "select", "ask_user")
    assert (to_answer.prompt, to_answer.options, to_answer.multi) == ("Which?", (Option("x", "x"),), True)


def test_a_turn_that_a_person_lets_go_on_stands_before_what_was_asked_meanwhile() -> None:
    world = World()
    world.begin("a")
    world.say("a", "Send it")
    world.ask("a", ToolUseBlock("t1", "send", {}))
    world.say("a", "And then?")
    world.approve("a")
    world.report("a", result="sent")
    world.answer("a", ReceivedAnswer(content=(TextBlock("Done"),), message_id="m", stop_reason="end_turn"))

    with ReadModel.of(world.log) as model:
        roles = [(message.role, message.text) for message in model.messages("a")]
        turns = model.turns_of("a")
        (agent,) = model.agents()

    assert roles == [("user", "Send it"), ("assistant", ""), ("user", ""), ("assistant", "Done"), ("user", "And then?")]
    assert [turn.outcome for turn in turns] == ["waiting", "completed", None]
    assert turns[0].message_id == turns[1].message_id != turns[2].message_id
    assert (agent.state, agent.turn_id) == ("thinking", turns[2].id)


def test_a_session_that_waits_waits_under_its_next_agent_too() -> None:
    world = World()
    world.begin("a")
    world.say("a")
    world.ask("a", ToolUseBlock("t1", "send", {}))
    world.stop("a", ReceivedAnswer())
    world.run("a")

    with ReadModel.of(world.log) as model:
        assert [agent.state for agent in model.agents()] == ["waiting_for_human_input"]


def test_a_call_that_was_denied_after_it_was_edited_says_who_edited_it() -> None:
    world = World()
    world.begin("a")
    world.say("a")
    world.ask("a", ToolUseBlock("t1", "send", {"to": "ann"}))
    edited = ToolEdited(id="t1", original={"to": "ann"}, edited={"to": "eve"}, by="bob")
    denied = ToolResult(id="t1", name="send", result="denied", is_error=True, ran=False)
    world.log.append("session/a", edited, denied)

    with ReadModel.of(world.log) as model:
        (call,) = model.tool_calls("a")

    assert (call.stage, call.decision, call.decided_by, call.ran) == ("answered", "edited", "bob", False)
    assert (call.original, call.arguments, call.result) == ({"to": "ann"}, {"to": "eve"}, "denied")


@pytest.mark.parametrize("cost", [math.nan, math.inf])
def test_a_cost_that_is_no_amount_is_not_known(cost: float) -> None:
    world = World()
    world.begin("a")
    world.say("a")
    world.ask("a", ToolUseBlock("t1", "search", {}))
    world.log.append("session/a", ToolResult(id="t1", name="search", result=1, cost=cost))

    with ReadModel.of(world.log) as model:
        assert model.tool_calls("a")[0].cost is None
        assert model.usage("a").tools == {"search": Spent(1, {}, 0.0, 1)}


def test_every_event_that_stands_in_the_log_has_a_projector() -> None:
    known = {*OF_CONVERSATION, SessionCreated, SessionBranched, SessionForgotten, ContainerCreated, ImageRegistered}

    assert known == set(STORED.values())


def test_an_id_that_is_no_unicode_names_nothing() -> None:
    with ReadModel.of(ListLog()) as model:
        assert model.container("\ud800") is None


QUESTIONS = {
    **{
        name: getattr(compiled, name)
        for name, value in vars(questions).items()
        if isinstance(value, Select) and name.isupper() and "?" not in getattr(compiled, name)
    },
    **{f"NEWEST_SESSIONS{asked}": value for asked, value in compiled.NEWEST_SESSIONS.items()},
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_no_question_scans_or_sorts_a_table(name: str) -> None:
    question = QUESTIONS[name]

    with private() as store, closing(store.connect()) as connection:
        asked = connection.execute(f"EXPLAIN QUERY PLAN {question}", defaultdict(lambda: 1))
        plan = [str(row[3]) for row in asked]

    listed = (
        "agents_live",
        "agents_started",
        "turns_open",
        "sessions_listed",
        "at_work",
        "calls_open",
        "calls_waiting",
        "lineage",
        "below",
        "schedules_due",
    )  # hold these rows, only
    # What is at work is sorted, what waits in a family, the messages of one turn, and what several sessions share.
    few = {"UNFINISHED", "PENDING_OF_SESSION", "PLACE_OF_MESSAGE", "PLACE_OF_MESSAGE_OF_NO_TURN"}
    few |= {"SCHEDULES_OF_SESSION"}  # a session's messages to come
    few |= {"MESSAGES_OF_BRANCH", "TURNS_OF_BRANCH", "CALLS_OF_BRANCH"}
    assert not [step for step in plan if step.startswith("SCAN") and not step.endswith(listed)], plan
    assert name in few or not [step for step in plan if "TEMP B-TREE" in step], plan


def test_a_scheduled_message_that_is_still_to_come_is_found_by_its_id() -> None:
    with private() as store, closing(store.connect()) as connection:
        plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {compiled.RESCHEDULE}", (None, 1, "q"))]

    assert plan == ["SEARCH schedules USING INDEX schedules_of_session (session=? AND id=?)"]


def test_finding_forgotten_conversations_again_scans_no_table() -> None:
    questions_of_load = [value for value in vars(compiled).values() if isinstance(value, str) and "json_each" in value]

    with private() as store, closing(store.connect()) as connection:
        plans = [
            str(row[3])
            for question in questions_of_load
            for row in connection.execute(f"EXPLAIN QUERY PLAN {question}", ("[]",))
        ]

    assert len(questions_of_load) == 5
    assert [step for step in plans if step.startswith("SCAN") and "VIRTUAL TABLE" not in step] == []
    assert [step for step in plans if "TEMP B-TREE" in step] == []


def test_tables_do_not_change_without_a_new_version() -> None:
    ddl = "".join(
        str(part)
        for table in TABLES
        for part in [CreateTable(table), *map(CreateIndex, sorted(table.indexes, key=lambda index: str(index.name)))]
    )

    digest = hashlib.sha256(ddl.encode()).hexdigest()[:16]

    assert (VERSION, digest) == (12, "c159962d1e6e1d2b")
