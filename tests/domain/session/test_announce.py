"""What is heard of each event: its type, its data, and what it is about."""

from __future__ import annotations

from reenact.domain.loop.events import Option, ToolStarted
from reenact.domain.loop.events import Warning as LimitWarning
from reenact.domain.messages import Message, TextBlock, ToolResultBlock, ToolUseBlock, instant
from reenact.domain.session.agent import (
    AgentStarted,
    AgentStopped,
    AnswerRecorded,
    ContextCompressed,
    Failure,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.session.announce import about, of_turn, question_of
from reenact.domain.session.commands import Delete
from reenact.domain.session.decide import decide
from reenact.domain.session.state import Session, SessionDeleted, SessionEvent
from reenact.domain.stream import events as heard
from reenact.domain.stream.events import Context
from tests.domain.session.announced import announced
from tests.domain.session.examples import BUSY, CREATED, HELLO, IDLE, IDLE_SESSION, THINKING, accepted, session
from tests.domain.session.loops import (
    ASK,
    ASKED,
    AT,
    CAREFUL,
    HALF_WAITING,
    LOOK,
    PAY,
    QUESTION,
    RUNNING,
    WAITING,
    after,
    approve,
    asks,
    finish,
    interrupt,
    reject,
    report,
    respond,
    run,
    stop,
)

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
    return announced(before, events)


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


def types(before: Session, *events: SessionEvent) -> list[str]:
    return [data.event_type for _, data in told(before, *events)]


def changes(before: Session, *events: SessionEvent) -> list[tuple[str, str]]:
    heard_of = [data for _, data in told(before, *events)]
    return [(data.previous, data.current) for data in heard_of if isinstance(data, heard.AgentStateChanged)]


def test_calls_that_start_are_heard_of_with_the_arguments_they_run_with() -> None:
    events = decide(ASKED, finish(asks(LOOK, PAY, text="Let me see")))

    assert told(ASKED, *events)[1:] == [
        (TURN, heard.AgentStateChanged(previous="responding", current="tool_executing")),
        (TURN, heard.ToolStarted(id="a", name="look", input={})),
        (TURN, heard.ToolStarted(id="b", name="pay", input={"amount": 1})),
    ]


def test_results_are_heard_of_one_by_one_and_then_in_the_message_that_goes_back() -> None:
    events = decide(RUNNING, report("a"))

    results = Message(
        id="r-a", role="user", content=(ToolResultBlock("a", "sunny"),), created_at=instant(AT), turn_id="t1"
    )
    assert told(RUNNING, *events) == [
        (TURN, heard.ToolResult(id="a", name="look", result="sunny")),
        (TURN, heard.ToolResultMessage(message=results)),
        (TURN, heard.AgentStateChanged(previous="tool_executing", current="thinking")),
        (TURN, heard.StepStarted(turn_id="t1", step=2)),
    ]


def test_what_waits_for_approval_is_heard_of_before_the_turn_is_over() -> None:
    events = decide(ASKED, finish(asks(PAY), CAREFUL))

    heard_of = told(ASKED, *events)
    assert [data.event_type for _, data in heard_of] == [
        "assistant_message",
        "human_approve_required",
        "tool_pending",
        "agent_state_changed",
        "turn_completed",
    ]
    (_, required), (_, pending), (_, changed) = heard_of[1:4]
    assert isinstance(required, heard.HumanApproveRequired)
    assert [(call.id, call.arguments) for call in required.calls] == [("b", {"amount": 1})]
    assert pending == heard.ToolPending(ids=("b",))
    assert changed == heard.AgentStateChanged(previous="thinking", current="waiting_for_human_input")


def test_questions_are_heard_of_with_their_options() -> None:
    select = ToolUseBlock("s", "ask_user", {"prompt": "Which?", "options": ["x"], "multi": True})

    (_, prompt), (_, selection) = told(ASKED, *decide(ASKED, finish(asks(ASK, select))))[1:3]

    assert prompt == heard.HumanPromptRequired(id="q", prompt="Which?")
    assert selection == heard.HumanSelectRequired(id="s", prompt="Which?", options=(Option("x", "x"),), multi=True)


def test_a_decision_is_heard_of_before_the_turn_that_it_begins() -> None:
    events = decide(WAITING, approve("b", arguments={"amount": 9}))

    heard_of = told(WAITING, *events)
    edited, approved, started, changed, runs = [data for _, data in heard_of]
    assert edited == heard.ToolEdited(id="b", original={"amount": 1}, edited={"amount": 9})
    assert isinstance(approved, heard.ToolApproved)
    assert started == heard.TurnStarted(turn_id="t7", message_id="m-t1")
    assert changed == heard.AgentStateChanged(previous="waiting_for_human_input", current="tool_executing")
    assert runs == heard.ToolStarted(id="b", name="pay", input={"amount": 9})
    assert [context.turn_id for context, _ in heard_of] == [None, None, "t7", "t7", "t7"]
    assert heard_of[-1][0].causation_id == "m-t1"


def test_a_rejection_is_heard_of_with_its_reason() -> None:
    heard_of = told(WAITING, *decide(WAITING, reject("b")))

    assert heard_of[0] == (AGENT, heard.ToolRejected(id="b", reason="no"))
    assert [data.event_type for _, data in heard_of[1:]] == [
        "tool_result",
        "turn_started",
        "tool_result_message",
        "agent_state_changed",
        "step_started",
    ]


def test_an_answer_of_a_person_is_heard_of() -> None:
    assert told(QUESTION, *decide(QUESTION, respond("q", "this one")))[0] == (
        AGENT,
        heard.HumanResponded(id="q", value="this one"),
    )


def test_an_agent_that_waits_no_longer_is_idle_once_the_results_are_told() -> None:
    events = decide(WAITING, interrupt())

    assert told(WAITING, *events)[-1] == (
        AGENT,
        heard.AgentStateChanged(previous="waiting_for_human_input", current="idle"),
    )
    assert types(WAITING, *events) == ["tool_result", "tool_result_message", "agent_state_changed"]


def test_an_agent_of_a_session_with_waiting_calls_waits_from_its_first_moment() -> None:
    stopped = after(WAITING, stop())

    assert types(stopped, *decide(stopped, run(CAREFUL))) == ["agent_started", "agent_state_changed"]
    assert changes(stopped, AgentStarted("b")) == [("idle", "waiting_for_human_input")]


def test_a_turn_that_is_stopped_while_calls_wait_leaves_the_agent_waiting() -> None:
    events = decide(HALF_WAITING, stop())

    assert changes(HALF_WAITING, *events) == [
        ("tool_executing", "waiting_for_human_input"),
        ("waiting_for_human_input", "stopped"),
    ]


def test_a_deletion_without_an_agent_tells_of_the_calls_but_of_no_state() -> None:
    stopped = after(WAITING, stop())

    events = decide(stopped, Delete(session_id="s", at=AT))

    assert types(stopped, *events) == ["tool_result", "tool_result_message", "session_deleted"]


def test_a_turn_that_ends_in_the_state_the_agent_rests_in_changes_no_state() -> None:
    assert types(THINKING, TurnCompleted("t1", "completed", "end_turn", {}, 0.5, "idle")) == ["turn_completed"]


def test_a_warning_is_heard_of() -> None:
    warning = LimitWarning(reason="cost_limit_exceeded", message="too much")

    assert told(THINKING, warning) == [(TURN, heard.Warned(reason="cost_limit_exceeded", message="too much"))]


def test_a_summary_is_heard_of_with_how_much_it_leaves() -> None:
    compressed = ContextCompressed("t1", "so far", 1, {"input_tokens": 1}, "m", None, 2)

    assert told(THINKING, compressed) == [
        (TURN, heard.ContextCompressed(summary="so far", kept=0, usage={"input_tokens": 1}, model="m"))
    ]


def test_a_call_that_nobody_asked_for_starts_without_arguments() -> None:
    assert told(THINKING, ToolStarted(id="z", name="look"))[-1] == (
        TURN,
        heard.ToolStarted(id="z", name="look", input={}),
    )
