"""Agents: read, listed, talked to, interrupted, destroyed."""

from __future__ import annotations

from pytest_bdd import parsers, scenarios, then, when

from reenact import AgentInfo
from tests.features.story import Story

scenarios("agent.feature")


@when("I get the agent info by its ID")
def i_get(story: Story) -> None:
    story.attempt(lambda: story.runtime.agents.get(story.agent_id))


@when(parsers.parse('I get agent by ID "{agent_id}"'))
def i_get_by_id(story: Story, agent_id: str) -> None:
    story.attempt(lambda: story.runtime.agents.get(agent_id))


@when("I list all running agents")
def i_list(story: Story) -> None:
    story.attempt(story.runtime.agents.list)


@when(parsers.parse('I interrupt agent "{agent_id}"'))
def i_interrupt_by_id(story: Story, agent_id: str) -> None:
    story.attempt(lambda: story.runtime.agents.interrupt(agent_id))


@when(parsers.parse('I destroy agent "{agent_id}"'))
def i_destroy_by_id(story: Story, agent_id: str) -> None:
    story.attempt(lambda: story.runtime.agents.destroy(agent_id))


@then("I should receive the agent info")
def the_info(story: Story) -> None:
    assert isinstance(story.answer, AgentInfo)
    assert [story.answer] == story.runtime.agents.list()


@then("the agent info should contain sessionId")
def its_session(story: Story) -> None:
    assert isinstance(story.answer, AgentInfo)
    assert (story.answer.session_id, story.answer.container_id) == ("session-1", "default")


@then(parsers.parse("I should receive {count:d} agents"))
def so_many(story: Story, count: int) -> None:
    listed = story.listed(AgentInfo)
    assert len({info.id for info in listed}) == len(listed) == count
    assert {info.session_id for info in listed} == {"session-1", "session-2"}


@then("the agent should process the message")
def it_processes(story: Story) -> None:
    (completed,) = story.completed()
    assert (completed.data["turn_id"], completed.data["outcome"]) == (story.answer, "completed")
    said = [(message.role, message.text) for message in story.runtime.sessions.messages("session-1")]
    assert said == [("user", "Hello"), ("assistant", "Hello from mock!")]


@then("the agent should return to idle state")
def it_is_idle(story: Story) -> None:
    (completed,) = story.completed()
    assert completed.data["outcome"] == "interrupted"
    assert story.ears.of("agent_state_changed")[-1].data["current"] == "idle"
    (agent,) = story.runtime.agents.list()
    assert (agent.id, agent.state, agent.turn_id) == (story.agent_id, "idle", None)


@then("the agent should not be running")
def it_is_gone(story: Story) -> None:
    assert story.runtime.agents.get(story.agent_id) is None
    assert story.runtime.agents.list() == []


@then("the session data should be preserved")
def the_session_stays(story: Story) -> None:
    (session,) = story.runtime.sessions.list_by_container("default")
    assert story.runtime.sessions.get("session-1") == session
    assert story.runtime.sessions.messages("session-1") == []
    assert story.runtime.sessions.run("session-1") != story.agent_id
