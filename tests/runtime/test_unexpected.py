"""Turns whose session cannot handle one of its own commands: they end as failed, and the session goes on."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from reenact import Guards, Image, Runtime
from reenact.actors.session.actor import SessionActor
from reenact.actors.session.live_agent import LiveAgent
from reenact.domain.children import agent_tool
from reenact.domain.session import decide as deciding
from reenact.domain.session import guarding
from reenact.domain.session.agent import Failure
from reenact.domain.session.commands import BeginChild, Finish, Report, ReportChild, SessionCommand
from reenact.domain.session.state import Session, SessionEvent
from reenact.domain.session.told import Answer
from reenact.testing import MockEvent, MockScenario
from tests.runtime.conftest import Open
from tests.runtime.families import PRICES, Plan, factory
from tests.runtime.gated import GatedFactory, text
from tests.runtime.witness import Ears, check

Decide = Callable[[Session, SessionCommand], tuple[SessionEvent, ...]]
FAILURE = Failure("internal_error", "an unexpected error has ended the turn: ZeroDivisionError: with")


@pytest.fixture
def mock() -> GatedFactory:
    return factory()


def polite(_: object) -> None:
    """A guard that lets everything pass."""


def look() -> str:
    """Look."""
    return "seen"


@pytest.fixture
def runtime(opened: Open) -> Runtime:
    runtime = opened(prices=PRICES, guards=[polite])
    runtime.containers.create(container_id="c")
    guards = Guards(answer=("polite",), hold=True)
    runtime.images.register(Image(id="agent", tools=(agent_tool("agent", description="Does it."), look)))
    runtime.images.register(Image(id="guarded", guards=guards))
    runtime.sessions.create("c", "agent", session_id="root")
    runtime.sessions.create("c", "guarded", session_id="guarded")
    return runtime


def fail_once(monkeypatch: pytest.MonkeyPatch, kind: type[SessionCommand]) -> None:
    """Let the next decision on a command of this type fail unexpectedly."""
    failed: list[SessionCommand] = []

    def decide(session: Session, command: SessionCommand) -> tuple[SessionEvent, ...]:
        if isinstance(command, kind) and not failed:
            failed.append(command)
            raise ZeroDivisionError("with")
        return deciding.decide(session, command)

    monkeypatch.setattr(SessionActor, "decide", staticmethod(decide))
    monkeypatch.setattr(guarding, "decide", decide)


def ask(runtime: Runtime, plan: Plan, session: str = "root") -> Answer:
    return runtime.ask(json.dumps(plan), session=session, timeout=60)


LOOKS: Plan = [[("look", {})], "done"]
ASKS: Plan = [[("agent", ["42"])], "done"]


@pytest.mark.parametrize(
    ("kind", "plan", "text"),
    [(Finish, ["so far"], "so far"), (Finish, LOOKS, ""), (Report, LOOKS, ""), (ReportChild, ASKS, "")],
)
def test_a_turn_whose_end_cannot_be_decided_fails_with_what_was_published(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, kind: type[SessionCommand], plan: Plan, text: str
) -> None:
    fail_once(monkeypatch, kind)

    answer = ask(runtime, plan)

    assert (answer.text, answer.failure) == (text, FAILURE)
    assert ask(runtime, []).outcome == "completed"
    check(runtime)


def test_a_turn_whose_withheld_answer_cannot_be_judged_fails_without_it(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_once(monkeypatch, Finish)

    answer = ask(runtime, ["so far"], "guarded")

    assert (answer.text, answer.failure) == ("", FAILURE)
    check(runtime)


def test_an_error_of_that_type_that_a_model_reports_is_told_once(runtime: Runtime, mock: GatedFactory) -> None:
    error = MockEvent("error", data={"type": "internal_error", "message": "sorry"})
    mock.scenarios.define_scenario("sorry", MockScenario("sorry", (text("Half an"), error)))
    mock.set_scenario("sorry")
    ears = Ears(runtime)

    answer = ask(runtime, [])

    assert (answer.text, answer.failure) == ("Half an", Failure("internal_error", "sorry"))
    ears.wait("turn_completed")  # an answer does not wait for handlers
    assert len(ears.of("error")) == 1
    check(runtime)


def test_the_call_of_a_child_that_cannot_begin_ends_with_the_error(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_once(monkeypatch, BeginChild)

    answer = ask(runtime, [[("agent", ["42"])], "done"])

    assert answer.text == "done"
    (call,) = runtime.sessions.tool_calls("root")
    assert call.is_error
    assert str(call.result).startswith("The agent failed (error: ZeroDivisionError: with) after 0 steps")
    check(runtime)


def test_a_turn_fails_if_the_environment_cannot_be_asked_to_act(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_once(*_: object) -> None:
        monkeypatch.undo()
        raise ZeroDivisionError("with")

    runtime.sessions.run("root")
    monkeypatch.setattr(LiveAgent, "ask", fail_once)

    assert ask(runtime, ["42"]).failure == FAILURE
    assert ask(runtime, []).outcome == "completed"
    check(runtime)
