"""In a chat, calls that wait in child sessions are decided, and the answer goes on when the children have ended."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from reenact import Image, Runtime
from reenact.cli.chat.conversation import Approved, Conversation, Decision, Rejected, TurnRunner
from reenact.cli.output.answers import Answer
from reenact.domain.session.people import PendingCall
from tests.cli.talks import unheard
from tests.logs import log_at
from tests.runtime.families import Plan, factory, furnish

SEND: Plan = [[("send", {"to": "ann"})], "sent"]
TWICE: Plan = [[("send", {"to": "ann"})], [("send", {"to": "bob"})], "sent"]


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    with Runtime.open(log_at(tmp_path / "log.db"), environment=factory(), synchronous="OFF") as runtime:
        furnish(runtime)
        yield runtime


class Deciding:
    """Approves of every call, or of none, and remembers of which sessions they were."""

    def __init__(self, *, approves: bool = True) -> None:
        self.asked: list[list[str]] = []
        self._approves = approves

    def __call__(self, pending: Sequence[PendingCall]) -> list[Decision]:
        self.asked.append([call.session_id for call in pending])
        if self._approves:
            return [Approved(call=call) for call in pending]
        return [Rejected(call=call, ends_turn=True) for call in pending]


def ask(runtime: Runtime, plan: Plan, decide: Deciding) -> Answer:
    conversation = Conversation(runtime, Image(), session_id="root", is_new=False)
    try:
        return TurnRunner(conversation, unheard, decide, timeout=60).ask(json.dumps(plan))
    finally:
        conversation.close()


@pytest.mark.parametrize(
    "plan",
    [
        [[("agent", SEND)], "done"],
        [[("agent", TWICE)], "done"],
        [[("agent", [[("agent", SEND)], "middle"])], "done"],
        [[("agent", SEND), ("agent", TWICE), ("send", {"to": "eve"})], "done"],
    ],
)
def test_the_answer_goes_on_when_children_have_what_they_waited_for(runtime: Runtime, plan: Plan) -> None:
    decide = Deciding()

    answer = ask(runtime, plan, decide)

    assert (answer.text, answer.waits, answer.problem) == ("done", False, None)
    assert decide.asked
    assert runtime.agents.pending() == []


def test_a_child_whose_call_ends_its_turn_has_ended_and_the_answer_goes_on(runtime: Runtime) -> None:
    answer = ask(runtime, [[("agent", SEND)], "done"], Deciding(approves=False))

    assert (answer.text, answer.waits) == ("done", False)
    (call,) = answer.tool_calls
    assert call.is_error


def test_a_child_is_asked_one_question_after_the_other(runtime: Runtime) -> None:
    runtime.ask(json.dumps([[("agent", ["42"])], "done"]), session="root", timeout=60)
    (child,) = runtime.sessions.list(parent="root")
    conversation = Conversation(runtime, Image(), session_id=child.id, is_new=False)

    try:
        runner = TurnRunner(conversation, unheard, Deciding(), timeout=60)
        answers = [runner.ask(question).text for question in ("one", "two", "three")]
    finally:
        conversation.close()

    assert answers == ["heard: one", "heard: two", "heard: three"]


class Late(SimpleQueue[Any]):
    """A queue to which the first thing comes while somebody waits for the second time."""

    _has_waited = False

    def get(self, *_: object, **__: object) -> object:
        if not self._has_waited:
            self._has_waited = True
            raise Empty
        return "the end"


def test_the_last_event_of_an_agent_that_has_ended_may_come_a_moment_later(runtime: Runtime) -> None:
    conversation = Conversation(runtime, Image(), session_id="root", is_new=False)
    conversation._events = Late()

    try:
        found: object = conversation._next("agt_ended", math.inf)
        assert found == "the end"
    finally:
        conversation.close()


def test_calls_that_wait_below_a_branch_are_decided_in_it(runtime: Runtime) -> None:
    runtime.ask(json.dumps([[("agent", SEND)], "done"]), session="root", timeout=60)
    runtime.sessions.branch("root", new_session_id="b")
    (child,), decide = runtime.sessions.list(parent="b"), Deciding()
    conversation = Conversation(runtime, Image(), session_id="b", is_new=False)

    try:
        decisions = decide(conversation.pending())
        answer = TurnRunner(conversation, unheard, decide, timeout=60).apply_decisions(decisions)
    finally:
        conversation.close()

    assert answer.text == "done"
    assert decide.asked == [[child.id]]
