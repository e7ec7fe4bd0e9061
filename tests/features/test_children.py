"""Child sessions: agents that call agents, who see, stop and pay for each other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from pytest_bdd import given, parsers, scenarios, step, then, when

from reenact import Budget, Image, SessionInfo, agent_tool
from reenact.domain.messages import Said
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.rules import Policy
from reenact.domain.session.told import ToolCallInfo
from reenact.events import Envelope
from reenact.testing import MockEvent
from tests.features.story import FOR_EVER, Story
from tests.runtime.families import FAILS, HELD, Plan, answer, send
from tests.runtime.gated import HOLD
from tests.runtime.witness import fold, journal_of

scenarios("children.feature")

BRANCH: Final = "branch"

PLANS: Final[dict[str, Plan]] = {
    "which says": ["42"],
    "which fails": [FAILS],
    "which takes long": [HELD],
    "which works on and on": [[("researcher", {})], "done"],
    "which wants to send a mail": [[("send", {"to": "ann"})], "sent"],
}
DEEP: Final[Plan] = [[("researcher", [[("researcher", [[("researcher", ["too deep"])], "third"])], "second"])], "first"]


def patient(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Follow a plan; where the model holds still, it does so for ever."""
    for event in answer(conversation):
        yield MockEvent("text_delta", FOR_EVER, {"text": ""}) if event is HOLD else event


@given('a runtime whose agents call the agent "researcher"')
def a_runtime(story: Story) -> None:
    story.mock.define_scenario("plan", patient)
    story.mock.set_scenario("plan")
    story.open()
    story.runtime.containers.create(container_id="c")
    register(story, None)
    story.session_id = story.runtime.sessions.create("c", "researcher").id


@given('"researcher" has a budget of 1 step')
def a_budget(story: Story) -> None:
    register(story, Budget(steps=1))
    story.session_id = story.runtime.sessions.create("c", "researcher").id


def register(story: Story, budget: Budget | None) -> None:
    """Register an image whose agents call it, for an answer or for a message."""
    image = Image(
        id="researcher",
        tools=(
            agent_tool("researcher", description="Finds out.", budget=budget),
            agent_tool("assistant", "researcher", description="Sees to it.", detached=True),
            send,
        ),
        policies=Policies(tools={"send": Policy("required")}),
    )
    if story.runtime.images.get("researcher") is None:  # what it calls has to be there
        story.runtime.images.register(Image(id="researcher"))
    story.runtime.images.register(image)


def begin(story: Story, plan: Plan, *, held: int = 0) -> None:
    """Have my agent follow the plan, until its turn is over, or so many models hold still."""
    story.run()
    story.say(json.dumps(plan))
    if held:
        story.ears.wait("text_delta", count=held, where=lambda event: event.data["text"] == "so far")
    else:
        story.ears.wait("turn_completed", where=lambda event: event.context.session_id == story.session_id)


def calls(story: Story, session_id: str) -> list[ToolCallInfo]:
    return story.runtime.sessions.tool_calls(session_id)


def children(story: Story) -> list[SessionInfo]:
    """Return the child sessions, in the order of the calls that they are."""
    found = [(session.parent.depth, session.parent.version, session) for session in every(story) if session.parent]
    return [session for *_, session in sorted(found, key=lambda one: one[:2])]


def every(story: Story) -> list[SessionInfo]:
    return story.runtime.sessions.list()


def answered(story: Story, call: ToolCallInfo) -> ToolCallInfo:
    """Return the call once it is answered."""
    story.ears.wait("tool_result", where=lambda event: _is_of(event, call))
    (found,) = [one for one in calls(story, call.session_id) if one.id == call.id]
    return found


def _is_of(event: Envelope, call: ToolCallInfo) -> bool:
    return event.context.session_id == call.session_id and event.data["id"] == call.id


@when(parsers.re('I ask the agent, which calls "researcher", (?P<plan>which [a-z ]+?)(?: "42")?'))
def i_ask(story: Story, plan: str) -> None:
    begin(story, [[("researcher", PLANS[plan])], "done"], held=plan == "which takes long")


@when('I ask the agent, which calls "assistant", which says "later"')
def i_ask_for_later(story: Story) -> None:
    begin(story, [[("assistant", ["later"])], "done"])


@when('I ask the agent, which calls "assistant" and "researcher", which take long')
def i_ask_for_both(story: Story) -> None:
    begin(story, [[("assistant", [HELD]), ("researcher", [HELD])], "done"], held=2)


@when('I ask the agent, which calls "researcher", three of them below each other')
def i_ask_deep(story: Story) -> None:
    begin(story, DEEP)


@when('I ask the agent, which calls "researcher" nine times')
def i_ask_many(story: Story) -> None:
    begin(story, [[("researcher", ["x"]) for _ in range(9)], "done"])


@when("I interrupt the agent")
def i_interrupt(story: Story) -> None:
    story.runtime.agents.interrupt(story.agent_id)
    story.ears.wait("turn_completed", where=lambda event: event.context.session_id == story.session_id)


@step("I approve it")
def i_approve(story: Story) -> None:
    (pending,) = story.runtime.agents.pending()
    story.runtime.agents.approve(pending.id)


@when("the runtime is closed and opened again")
def restarted(story: Story) -> None:
    story.close()
    story.open()
    register(story, None)


@when("the process crashes")
def crashed(story: Story) -> None:
    story.crash()


@then(parsers.parse('the call should be answered with "{text}"'))
def is_answered(story: Story, text: str) -> None:
    call = answered(story, calls(story, story.session_id)[0])
    assert (call.result, call.is_error) == (text, False)


@then("the call should be answered with the id of its session")
def is_answered_with_id(story: Story) -> None:
    story.ears.wait("child_ended")
    ((call,), (child,)) = calls(story, story.session_id), children(story)
    assert child.id in str(call.result)


@then(parsers.parse('the call should be answered with an error that says "{text}"'))
def is_answered_with_error(story: Story, text: str) -> None:
    (call,) = calls(story, story.session_id)
    assert call.is_error
    assert text in str(call.result)


@then(parsers.parse('the last call should be answered with an error that says "{text}"'))
def the_last_is_answered_with_error(story: Story, text: str) -> None:
    of = [session.id for session in (*children(story)[::-1], *story.runtime.sessions.list())]
    call = next(calls(story, session)[-1] for session in of if calls(story, session))
    assert call.is_error
    assert text in str(call.result)


@then("the researcher should have a session of its own, whose parent is mine")
def has_a_session(story: Story) -> None:
    (child,) = children(story)
    assert child.parent is not None
    assert child.parent.session_id == story.session_id


@then(parsers.parse('my session should be sent a message that ends with "{text}"'))
def is_sent(story: Story, text: str) -> None:
    told = story.ears.wait("user_message", count=3)[-1]
    assert told.context.session_id == story.session_id
    assert story.runtime.sessions.messages(story.session_id)[-1].role in {"user", "assistant"}
    assert any(message.text.endswith(text) for message in story.runtime.sessions.messages(story.session_id))


@then("the researcher's turn should have ended before mine")
def ended_before(story: Story) -> None:
    ends = [event.context.session_id for event in story.ears.of("turn_completed")]
    assert ends == [children(story)[0].id, story.session_id]


@then("no agent should be at work")
def none_at_work(story: Story) -> None:
    assert [agent for agent in story.runtime.agents.list() if agent.turn_id is not None] == []


@then("the assistant should be at work")
def assistant_at_work(story: Story) -> None:
    at_work = [agent.session_id for agent in story.runtime.agents.list() if agent.turn_id is not None]
    assert at_work == [children(story)[0].id]


@then("both sessions should wait for me")
def both_wait(story: Story) -> None:
    states = {agent.session_id: agent.state for agent in story.runtime.agents.list()}
    assert states == dict.fromkeys((story.session_id, children(story)[0].id), "waiting_for_human_input")


@then("I should be asked about the mail alone")
def asked_alone(story: Story) -> None:
    assert [call.name for call in story.runtime.agents.pending()] == ["send"]


@then(parsers.parse("{count:d} answers should be counted for my session, {others:d} of them of others"))
def are_counted(story: Story, count: int, others: int) -> None:
    def of_others() -> int:
        return fold(journal_of(story.runtime), story.session_id).ledger.children.calls

    if of_others() < others:  # what a crash has lost is told when somebody goes on
        story.run()
        story.ears.wait("child_ended")
    ledger = fold(journal_of(story.runtime), story.session_id).ledger
    own = sum(spent.calls for spent in ledger.models.values())
    assert (own + of_others(), of_others()) == (count, others)


@when("I branch off from my session")
def i_branch(story: Story) -> None:
    story.runtime.sessions.branch(story.session_id, new_session_id=BRANCH)


@when("I approve it below my session, and reject it below the branch")
def i_decide_twice(story: Story) -> None:
    story.runtime.agents.approve("c00", session_id=child_of(story, story.session_id))
    story.runtime.agents.reject("c00", "not today", session_id=child_of(story, BRANCH))
    for session_id in (story.session_id, BRANCH):
        story.ears.wait("turn_completed", where=partial(_has_ended, session_id))


@then("I should be asked about the mail below my session, and below the branch")
def asked_twice(story: Story) -> None:
    asked = [(call.name, call.session_id) for call in story.runtime.agents.pending()]
    assert asked == [("send", child_of(story, story.session_id)), ("send", child_of(story, BRANCH))]


@then("the call should be answered in both sessions")
def both_are_answered(story: Story) -> None:
    for session_id in (story.session_id, BRANCH):
        assert [(call.result, call.is_error) for call in calls(story, session_id)] == [("sent", False)]


@then("the mail should have been sent below my session, and rejected below the branch")
def sent_once(story: Story) -> None:
    sent, rejected = (calls(story, child_of(story, of))[0] for of in (story.session_id, BRANCH))
    assert (sent.result, sent.is_error) == ("sent to ann", False)
    assert rejected.is_error
    assert "not today" in str(rejected.result)


@then("the researcher's turn should be under way below my session, and interrupted below the branch")
def interrupted_in_the_branch(story: Story) -> None:
    outcomes = [story.runtime.sessions.turns(child_of(story, of))[-1].outcome for of in (story.session_id, BRANCH)]
    assert outcomes == [None, "interrupted"]


@then(parsers.parse('the call should be answered in the branch with an error that says "{text}"'))
def is_answered_with_error_in_the_branch(story: Story, text: str) -> None:
    (call,) = calls(story, BRANCH)
    assert call.is_error
    assert text in str(call.result)


def child_of(story: Story, session_id: str) -> str:
    """Return the one child session of the session."""
    (child,) = story.runtime.sessions.list(parent=session_id)
    return child.id


def _has_ended(session_id: str, event: Envelope) -> bool:
    return event.context.session_id == session_id and event.data["outcome"] == "completed"
