"""Restart: everything is there again, and goes on."""

from __future__ import annotations

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from reenact import AgentNotFoundError, AlreadyExistsError
from tests.features.story import Story, told

scenarios("restart.feature")


@given("I have looked at everything")
def i_look(story: Story) -> None:
    story.before = everything(story)


@given("I have looked at the conversation")
def i_look_at_the_conversation(story: Story) -> None:
    story.before = story.runtime.sessions.messages(story.session_id)
    assert story.before


@when(parsers.parse("{count:d} turn is over"))
def so_many_turns_are_over(story: Story, count: int) -> None:
    story.completed(count)


@then("everything should be what it was")
def everything_is_what_it_was(story: Story) -> None:
    assert everything(story) == story.before


@then("the conversation should be what it was")
def the_conversation_is_what_it_was(story: Story) -> None:
    assert story.runtime.sessions.messages(story.session_id) == story.before


@then("the agent of before should not be known")
def the_agent_is_unknown(story: Story) -> None:
    assert story.runtime.agents.get(story.agent_id) is None
    with pytest.raises(AgentNotFoundError):
        story.say("Hello")


@then("the session should be in no list")
def the_session_is_gone(story: Story) -> None:
    assert story.runtime.sessions.get(story.session_id) is None
    assert story.runtime.sessions.list_by_container("default") == []


@then("its ID should not be given again")
def its_id_is_spent(story: Story) -> None:
    with pytest.raises(AlreadyExistsError):
        story.runtime.sessions.create("default", "chat", session_id=story.session_id)


@then("I should have heard of its turn:")
def heard_of_its_turn(story: Story, datatable: list[list[str]]) -> None:
    (completed,) = story.completed()
    of_turn = [event for event in story.of_session() if event.context.turn_id == completed.data["turn_id"]]
    assert told(of_turn) == datatable


@then("the end of the turn should have taken exactly these numbers:")
def the_end_was_written_once(story: Story, datatable: list[list[str]]) -> None:
    (started,) = story.ears.wait("agent_started", where=lambda event: event.context.agent_id == story.agent_id)
    last_before_the_crash = story.ears.of("text_delta")[-1].cursor
    assert last_before_the_crash is not None
    assert started.cursor == last_before_the_crash + len(datatable) + 1


def everything(story: Story) -> list[object]:
    containers = story.runtime.containers.list()
    sessions = [story.runtime.sessions.list_by_container(container.id) for container in containers]
    assert len(containers) == len(sessions) == 2
    return [containers, story.runtime.images.list(), sessions]
