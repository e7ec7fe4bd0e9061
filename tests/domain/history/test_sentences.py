"""What happened, in one plain sentence."""

from __future__ import annotations

import pytest

from reenact.domain.children import Budget, ChildEnded, ChildOrigin, ChildrenInterrupted, ChildStarted
from reenact.domain.container import ContainerCreated
from reenact.domain.guards import GuardChecked
from reenact.domain.history.explanation import AnyEvent, Outside, excerpt, outside_phrase, sentence
from reenact.domain.history.stored import STORED
from reenact.domain.image import Definition, ImageRegistered
from reenact.domain.legible import columns, shortened
from reenact.domain.loop.events import (
    AskedCall,
    HumanApproveRequired,
    HumanPromptRequired,
    HumanResponded,
    HumanSelectRequired,
    ToolApproved,
    ToolEdited,
    ToolPending,
    ToolRejected,
    ToolResult,
    ToolStarted,
)
from reenact.domain.loop.events import Warning as LimitWarning
from reenact.domain.messages import TextBlock, ToolResultBlock, ToolUseBlock
from reenact.domain.session.agent import (
    AgentStarted,
    AgentStopped,
    AnswerRecorded,
    ContextCompressed,
    Failure,
    HandoverRequested,
    ImageChanged,
    MessageAccepted,
    MessageScheduled,
    OutputAccepted,
    OutputRejected,
    ResultsRecorded,
    RulesRecorded,
    ScheduleCancelled,
    ScheduleFired,
    StepStarted,
    ToolsRequested,
    TurnCompleted,
    TurnContinued,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.session.state import SessionBranched, SessionCreated, SessionDeleted, SessionForgotten

ORIGIN = ChildOrigin(session_id="ses_0", version=3, digest="ab", position=9, at=1, waits=True)
CALL = ToolUseBlock("c1", "send", {})
PARTLY = AGAIN = True

SENTENCES: list[tuple[AnyEvent, str]] = [
    (ContainerCreated("home", None), "Container home was created."),
    (ImageRegistered("chat", 2, Definition("chat")), "Image chat was registered, revision 2."),
    (SessionCreated("s", "home", "chat", 2), "The session was created in container home, on image chat, revision 2."),
    (SessionBranched("b", "c", "i", 1, "s", 7, ""), "The session branched off from session s, behind its event 7."),
    (SessionDeleted("s"), "The session was deleted."),
    (SessionForgotten("s", "c", "i", 1, 2, "ada", ""), "The session was forgotten by ada."),
    (SessionForgotten("s", "c", "i", 1, 2, "ada", "asked to"), "The session was forgotten by ada: asked to."),
    (AgentStarted("a"), "Agent a was started."),
    (AgentStopped("a", "crash"), "Agent a was stopped: crash."),
    (
        HandoverRequested("chat", 2, "all"),
        "A caller asked for a hand-over to image chat, revision 2.",
    ),
    (
        HandoverRequested("chat", 2, "all", "c1"),
        "Call c1 asked for a hand-over to image chat, revision 2.",
    ),
    (
        ImageChanged("chat", 2, "none"),
        "The session went over to image chat, revision 2; its agent is given nothing of what was said before.",
    ),
    (
        MessageScheduled("q", (TextBlock("Hello"),), 1_000_000, None, None),
        'A message is to come at 1970-01-01 00:00:01 UTC, once: "Hello".',
    ),
    (
        MessageScheduled("q", (TextBlock("Hello"),), 0, 90_500_000, None),
        'A message is to come at 1970-01-01 00:00:00 UTC, every 90.5 s: "Hello".',
    ),
    (ScheduleCancelled("q"), "Schedule q was cancelled."),
    (
        ScheduleFired("q", "t", 0, late=False, then=None),
        "Schedule q was due at 1970-01-01 00:00:00 UTC: its message comes.",
    ),
    (
        ScheduleFired("q", "t", 0, late=True, then=None),
        "Schedule q was due at 1970-01-01 00:00:00 UTC: its message comes, late.",
    ),
    (RulesRecorded(), "From here on other rules held: policies, prices, costs or limits."),
    (MessageAccepted("t", "m", (TextBlock("Hello\n you"),), 1), 'A message came in: "Hello you".'),
    (AnswerRecorded("t", "m", (TextBlock("Hi"),), "end_turn", not PARTLY, {}, None, 1), 'The model answered: "Hi".'),
    (AnswerRecorded("t", "m", (CALL,), "tool_use", not PARTLY, {}, None, 1), "The model answered: calls of send."),
    (
        AnswerRecorded("t", "m", (TextBlock("So"), CALL, CALL), "error", PARTLY, {}, None, 1),
        'The model answered, in part: "So", and calls of send, send.',
    ),
    (ContextCompressed("t", "", 4, {}, None, None, 1), "The first 4 messages were summarised for the model."),
    (ResultsRecorded("t", "m", (ToolResultBlock("c1", ""),), 1), "1 result went back to the model."),
    (ResultsRecorded("t", "m", (), 1), "0 results went back to the model."),
    (LimitWarning(reason="x", message="2 were spent"), "A limit is exceeded that only warns: 2 were spent."),
    (GuardChecked("message", "polite", "passed"), "Guard polite let the message pass."),
    (GuardChecked("answer", "polite", "refused", "rude"), 'Guard polite refused the answer: "rude".'),
    (GuardChecked("call", "polite", "refused", "rude", call_id="c1"), 'Guard polite refused call c1: "rude".'),
    (TurnStarted("t", 1), "Turn t began: the model is asked."),
    (TurnContinued("t", 1), "Turn t began: a person has decided."),
    (TurnInterrupted("t", "user"), "Turn t was interrupted: user."),
    (TurnFailed("t", Failure("x", "no space")), 'Turn t cannot go on: "no space".'),
    (TurnCompleted("t", "failed", "error", {}, 0.0, "idle"), "Turn t ended: failed (error)."),
    (StepStarted("t", 2, 1), "The model is asked again, step 2."),
    (ToolsRequested("t", "idle"), "The answer asks for tools."),
    (OutputAccepted("t", "m"), "The answer is what it was to be."),
    (
        OutputRejected("t", "m", 1, ("`a` is wrong", "`b`, too"), AGAIN, "responding", 1),
        'Answer 1 does not fit, and the model is asked again: "`a` is wrong; `b`, too".',
    ),
    (
        OutputRejected("t", "m", 3, ("no",), not AGAIN, "responding", 1),
        'Answer 3 does not fit, and it is not asked for again: "no".',
    ),
    (
        HumanApproveRequired(session_id="s", calls=(AskedCall("c1", "send", {}), AskedCall("c2", "pay", {}))),
        "A person is to approve send (c1), pay (c2).",
    ),
    (HumanPromptRequired(session_id="s", prompt="Sure?"), 'A person is asked: "Sure?".'),
    (HumanSelectRequired(session_id="s", prompt="Which?", options=()), 'A person is asked: "Which?".'),
    (ToolPending(ids=("c1",)), "1 call waits for a person."),
    (ToolPending(ids=("c1", "c2")), "2 calls wait for a person."),
    (ToolApproved(id="c1", digest=""), "A person approved call c1."),
    (ToolEdited(id="c1", original={}, edited={}, by="ann"), "A person (ann) changed the arguments of call c1."),
    (ToolRejected(id="c1", reason=""), "A person rejected call c1."),
    (ToolRejected(id="c1", reason="not now"), 'A person rejected call c1: "not now".'),
    (HumanResponded(id="c1", value="Yes", by="bob"), "A person (bob) answered question c1."),
    (ToolStarted(id="c1", name="send"), "Call c1 of send was started."),
    (ToolStarted(id="c1", name="send", attempt=2), "Call c1 of send was started, attempt 2."),
    (ToolResult(id="c1", name="send", result=[1]), 'Call c1 of send returned: "[1]".'),
    (ToolResult(id="c1", name="send", result=[{"type": "text", "text": "x"}]), "Call c1 of send returned."),
    (ToolResult(id="c1", name="send", result="no", is_error=True), 'Call c1 of send failed: "no".'),
    (
        ChildStarted("c1", "ses_1", "i", 2, 1, Budget(), detached=False, at=1),
        "Call c1 started child session ses_1 of image i.",
    ),
    (
        ChildStarted("c1", "ses_1", "i", 2, 1, Budget(), detached=False, at=1, origin=ORIGIN),
        "Call c1 has a branch of child session ses_0: ses_1.",
    ),
    (
        ChildEnded("c1", "ses_1", "limit", "max_tokens", 1, {}, None, 9, 12, "", 1),
        "Child session ses_1 ended: limit (max_tokens).",
    ),
    (ChildrenInterrupted("user", 1), "The child sessions at work are interrupted: user."),
    (
        ToolResult(id="c1", name="send", result="no", is_error=True, ran=False),
        'Call c1 of send was answered without being run: "no".',
    ),
]


@pytest.mark.parametrize(("event", "expected"), SENTENCES)
def test_each_event_is_told_in_a_sentence(event: AnyEvent, expected: str) -> None:
    assert sentence(event) == expected


def test_there_is_a_sentence_for_every_event_of_the_log() -> None:
    assert {type(event) for event, _ in SENTENCES} == set(STORED.values())


@pytest.mark.parametrize(
    ("outside", "expected"),
    [
        (Outside("message"), "outside"),
        (Outside("message", "r1"), "outside, by request r1"),
        (Outside("person"), "a person"),
        (Outside("person", "ann"), "a person: ann"),
        (Outside("caller"), "a caller"),
        (Outside("caller", "user"), "a caller: user"),
        (Outside("model"), "the model"),
        (Outside("model", "small"), "the model small"),
        (Outside("tool", "send"), "the tool send"),
        (Outside("guard", "polite"), "the guard polite"),
        (Outside("environment"), "the environment"),
        (Outside("environment", "api_error"), "the environment: api_error"),
        (Outside("crash"), "a crash of the process"),
        (Outside("shutdown"), "a shutdown"),
        (Outside("child", "ses_1"), "the child session ses_1"),
    ],
)
def test_what_comes_from_outside_is_told_where_it_came_from(outside: Outside, expected: str) -> None:
    assert outside_phrase(outside) == expected


def test_of_a_long_text_the_beginning_is_told() -> None:
    assert excerpt("word " * 100) == f'"{"word " * 11}word…"'
    assert excerpt(" " * 500 + "late") == '"…"'
    assert excerpt("x" * 60) == f'"{"x" * 60}"'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("short", "short"),
        ("just eight", "just ei…"),
        ("exactly8", "exactly8"),
        ("a\x1b[2J", "a\\u001b…"),
        ("a\nb", "a\\nb"),
        ("漢字漢字", "漢字漢字"),
        ("漢字漢字漢", "漢字漢…"),
        ("e\u0301" * 8, "e\u0301" * 8),
        ("\u0301" * 100, "…"),
        ("tab\tx", "tab x"),
        ("\ud800", "\\ud800"),
        ("word   and more", "word…"),
    ],
)
def test_a_line_is_shortened_to_the_columns_that_there_are_and_shows_what_is_hidden(text: str, expected: str) -> None:
    line = shortened(text, 8)

    assert line in (expected, "\u0301" * 32 + expected)
    assert columns(line) <= 8
