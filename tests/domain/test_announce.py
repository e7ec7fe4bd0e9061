"""What is heard of each event: its type, its data, and what it is about."""

from __future__ import annotations

from reenact.domain import events as heard
from reenact.domain.agent import (
    AgentStarted,
    AgentStopped,
    AnswerRecorded,
    Failure,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.announce import about, announce, of_turn, question_of
from reenact.domain.events import Context
from reenact.domain.messages import Message, TextBlock, instant
from reenact.domain.session import Session, SessionDeleted, SessionEvent
from tests.domain.examples import BUSY, CREATED, HELLO, IDLE, IDLE_SESSION, THINKING, accepted, session

SESSION = Context(container_id="c", image_id="i", session_id="s")
AGENT = Context(container_id="c", image_id="i", session_id="s", agent_id="a")
TURN = Context(
    container_id="c",
    image_id="i",
    session_id="s",
    agent_id="a",
    turn_id="t1",
    correlation_id="t1",
    causation_id="m-t1",
)


def told(before: Session, *events: SessionEvent) -> list[tuple[Context, heard.EventData]]:
    return list(announce(before, events))


def test_a_new_session_is_heard_of() -> None:
    created = heard.SessionCreated(session_id="s", container_id="c", image_id="i")
    assert told(Session(), CREATED) == [(SESSION, created)]


def test_a_new_agent_is_heard_of() -> None:
    assert told(IDLE_SESSION, AgentStarted("a")) == [(AGENT, heard.AgentStarted(agent_id="a"))]


def test_a_question_is_heard_of_in_its_own_turn() -> None:
    ((context, data),) = told(THINKING, accepted("t2"))

    assert (context.turn_id, context.correlation_id, context.causation_id) == ("t2", "t2", None)
    assert data == heard.UserMessage(
        message=Message(id="m-t2", role="user", content=HELLO, created_at=instant(1), turn_id="t2")
    )


def test_a_question_that_is_taken_up_reads_as_it_was_asked() -> None:
    ((_, asked),) = told(IDLE, accepted("t1"))
    assert THINKING.turn is not None

    assert asked == heard.UserMessage(message=question_of(THINKING.turn, THINKING.conversation[-1]))


def test_a_question_without_an_agent_names_none() -> None:
    ((context, _),) = told(IDLE_SESSION, accepted("t2"))

    assert context.agent_id is None


def test_the_agent_thinks_right_after_its_turn_began() -> None:
    assert told(IDLE, accepted("t1"), TurnStarted("t1", 2))[1:] == [
        (TURN, heard.TurnStarted(turn_id="t1", message_id="m-t1")),
        (TURN, heard.AgentStateChanged(previous="idle", current="thinking")),
    ]


def test_a_turn_without_an_agent_changes_no_state() -> None:
    orphan = session(CREATED, accepted("t1"))

    assert [data.event_type for _, data in told(orphan, TurnStarted("t1", 2))] == ["turn_started"]


def test_an_interrupt_is_heard_of_with_its_reason() -> None:
    assert told(THINKING, TurnInterrupted("t1", "user")) == [(TURN, heard.Interrupted(reason="user"))]


def test_a_failure_that_the_environment_has_not_told_is_an_error() -> None:
    error = heard.StreamError(type="storage_error", message="no space", retryable=True)

    assert told(THINKING, TurnFailed("t1", Failure("storage_error", "no space", retryable=True))) == [(TURN, error)]


def test_an_answer_is_heard_of_whole() -> None:
    answer = AnswerRecorded("t1", "m", (TextBlock("Hi"),), "end_turn", False, {"output_tokens": 1}, "model", 2)  # noqa: FBT003 - as stored

    assert told(THINKING, answer) == [
        (
            TURN,
            heard.AssistantMessage(
                message=Message(
                    id="m",
                    role="assistant",
                    content=(TextBlock("Hi"),),
                    created_at=instant(2),
                    turn_id="t1",
                    stop_reason="end_turn",
                    usage={"output_tokens": 1},
                )
            ),
        )
    ]


def test_the_agent_is_at_rest_right_before_its_turn_is_over() -> None:
    completed = TurnCompleted("t1", "completed", "end_turn", {}, 0.5, "responding")

    assert told(THINKING, completed) == [
        (TURN, heard.AgentStateChanged(previous="responding", current="idle")),
        (TURN, heard.TurnCompleted(turn_id="t1", outcome="completed", stop_reason="end_turn", duration=0.5)),
    ]


def test_a_failure_is_explained_before_its_turn_is_over() -> None:
    failed = TurnCompleted("t1", "failed", "error", {}, 0.5, "thinking", Failure("api_error", "broken", retryable=True))

    assert told(THINKING, failed) == [
        (TURN, heard.ErrorMessage(type="api_error", message="broken", retryable=True)),
        (TURN, heard.AgentStateChanged(previous="thinking", current="error")),
        (TURN, heard.TurnCompleted(turn_id="t1", outcome="failed", stop_reason="error", duration=0.5)),
    ]


def test_the_end_of_a_turn_that_never_began_changes_no_state() -> None:
    ((context, data),) = told(BUSY, TurnCompleted("t2", "interrupted", "interrupted", {}, 0.0, "idle"))

    assert (context.turn_id, context.agent_id, data.event_type) == ("t2", "a", "turn_completed")
    ((context, _),) = told(IDLE_SESSION, TurnCompleted("t2", "interrupted", "interrupted", {}, 0.0, "idle"))
    assert context.agent_id is None


def test_an_agent_that_stops_says_so_twice() -> None:
    assert told(IDLE, AgentStopped("a", "destroyed")) == [
        (AGENT, heard.AgentStateChanged(previous="idle", current="stopped")),
        (AGENT, heard.AgentStopped(agent_id="a", reason="destroyed")),
    ]
    assert told(IDLE_SESSION, AgentStopped("a", "crash")) == [
        (SESSION, heard.AgentStopped(agent_id="a", reason="crash"))
    ]


def test_a_deletion_is_heard_of() -> None:
    assert told(IDLE_SESSION, SessionDeleted("s")) == [(SESSION, heard.SessionDeleted(session_id="s"))]


def test_what_is_of_no_turn_is_about_the_session() -> None:
    assert of_turn(IDLE) == about(IDLE) == AGENT
    assert of_turn(IDLE_SESSION) == about(IDLE_SESSION) == SESSION
    orphan = session(CREATED, accepted("t1"), TurnStarted("t1", 2))
    assert (of_turn(orphan).agent_id, of_turn(orphan).turn_id) == (None, "t1")
