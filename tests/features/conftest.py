"""The steps that several features share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_bdd import given, parsers, step, then, when

from reenact import (
    AgentNotFoundError,
    ContainerNotFoundError,
    ImageNotFoundError,
    InvalidMessageError,
    NotFoundError,
    SessionNotFoundError,
)
from reenact.events import EventType
from tests.features.steps import use_index
from tests.features.story import Ears, Story

use_index()

NOT_FOUND: dict[str, type[NotFoundError]] = {
    "container": ContainerNotFoundError,
    "image": ImageNotFoundError,
    "session": SessionNotFoundError,
    "agent": AgentNotFoundError,
}


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    story = Story(tmp_path)
    yield story
    story.close()


@given("a runtime is initialized")
@given("a runtime is initialized with MockEnvironment")
@given("a runtime with mock driver")
def a_runtime(story: Story) -> None:
    story.open()


@given("a runtime with mock LLM provider")
def a_runtime_with_a_provider(story: Story) -> None:
    story.open_with_provider()


@given(parsers.parse('a container "{container_id}" exists'))
@given(parsers.parse('container "{container_id}" exists'))
def a_container(story: Story, container_id: str) -> None:
    story.runtime.containers.create(container_id, container_id=container_id)


@given(parsers.parse('an image "{image_id}" exists'))
def an_image(story: Story, image_id: str) -> None:
    story.image(image_id)


@given(parsers.parse('image "{image_id}" exists in container "{container_id}"'))
def an_image_and_a_container(story: Story, image_id: str, container_id: str) -> None:
    if story.runtime.containers.get(container_id) is None:
        a_container(story, container_id)
    story.image(image_id)


@given(parsers.parse('a session exists in container "{container_id}" with image "{image_id}"'))
def a_session(story: Story, container_id: str, image_id: str) -> None:
    story.session(container_id, image_id)


@given(parsers.parse('a session "{session_id}" exists in container "{container_id}" with image "{image_id}"'))
def a_named_session(story: Story, session_id: str, container_id: str, image_id: str) -> None:
    story.session(container_id, image_id, session_id)


@given(parsers.parse('an agent is running from session "{session_id}"'))
def an_agent(story: Story, session_id: str) -> None:
    story.session_id = session_id
    story.run()


@step(parsers.parse('mock driver scenario is "{scenario}"'))
def the_mock_plays(story: Story, scenario: str) -> None:
    story.choose(scenario)


@given("the agent is processing a message")
def a_turn_is_under_way(story: Story) -> None:
    story.begin("endless")


@given("the agent is processing a message and has said nothing yet")
def a_silent_turn_is_under_way(story: Story) -> None:
    story.begin("speechless")


@given("I subscribe to all events")
@given("I am subscribed to stream events")
def i_subscribe_to_all(story: Story) -> None:
    mine = story.listeners.setdefault("I", Ears())
    story.subscriptions.append(story.runtime.events.on_all(mine.hear))


@given(parsers.parse('I subscribe to "{type_}" events'))
@given(parsers.parse('I am subscribed to "{type_}" events'))
def i_subscribe(story: Story, type_: EventType) -> None:
    mine = story.listeners.setdefault("I", Ears())
    story.subscriptions.append(story.runtime.events.on(type_, mine.hear))


@step(parsers.parse('I send message "{text}" to the agent'))
def i_send(story: Story, text: str) -> None:
    story.attempt(lambda: story.say(text))


@when(parsers.parse('I send message "{text}" to agent "{agent_id}"'))
def i_send_to(story: Story, text: str, agent_id: str) -> None:
    story.attempt(lambda: story.runtime.agents.receive(agent_id, text))


@when("I interrupt the agent")
def i_interrupt(story: Story) -> None:
    story.attempt(lambda: story.runtime.agents.interrupt(story.agent_id))


@step("I destroy the agent")
def i_destroy(story: Story) -> None:
    story.attempt(lambda: story.runtime.agents.destroy(story.agent_id))


@step("I delete the session")
def i_delete(story: Story) -> None:
    story.attempt(lambda: story.runtime.sessions.delete(story.session_id))


@when("I run the session")
@when("I run the session again")
def i_run(story: Story) -> None:
    story.attempt(story.run)


@when("I interrupt the agent twice")
def i_interrupt_twice(story: Story) -> None:
    for _ in range(2):
        story.attempt(lambda: story.runtime.agents.interrupt(story.agent_id))


@when("I destroy the agent twice")
def i_destroy_twice(story: Story) -> None:
    for _ in range(2):
        story.attempt(lambda: story.runtime.agents.destroy(story.agent_id))


@when("I unsubscribe")
def i_unsubscribe(story: Story) -> None:
    for unsubscribe in story.subscriptions:
        unsubscribe()


@step("its turn is over")
def its_turn_is_over(story: Story) -> None:
    story.ears.wait("turn_completed", where=lambda event: event.context.turn_id == story.answer)


@when("I close the runtime")
def i_close(story: Story) -> None:
    story.attempt(story.close)


@when("I close the runtime and open it again")
def i_reopen(story: Story) -> None:
    story.close()
    story.open()


@step("the process crashes and the runtime is opened again")
def it_crashes(story: Story) -> None:
    story.crash()


@step("an agent runs and produces text")
def an_agent_produces_text(story: Story) -> None:
    story.run()
    story.say("Hello")
    story.completed()


@then("I should receive undefined")
def nothing_received(story: Story) -> None:
    assert story.answer is None


@then("I should receive an empty list")
def an_empty_list(story: Story) -> None:
    assert story.answer == []


@then(parsers.parse("it should fail with {kind} not found error"))
def it_fails(story: Story, kind: str) -> None:
    assert type(story.error) is NOT_FOUND[kind]
    assert story.error.code == f"{kind}_not_found"
    assert isinstance(story.error, LookupError)


@then("it should complete without error")
def it_completes(story: Story) -> None:
    assert story.answer is None


@then(parsers.parse('I should receive "{type_}" events'))
def events_received(story: Story, type_: str) -> None:
    expected = [event.id for event in story.ears.wait(type_)]
    heard = story.listeners["I"].wait(type_, count=len(expected))
    assert [event.id for event in heard] == expected


@then("I should not receive any events")
def nothing_heard(story: Story) -> None:
    assert story.ears.types.count("text_delta") == 3
    story.settle()
    assert story.listeners["I"].types == []


@then(parsers.parse("its turn should be completed once, as {outcome}"))
def completed_once(story: Story, outcome: str) -> None:
    story.settle()
    turn_id = story.ears.of("user_message")[-1].context.turn_id
    story.ears.wait("turn_completed", where=lambda event: event.context.turn_id == turn_id)
    story.settle()
    completed = [event.data for event in story.ears.of("turn_completed") if event.context.turn_id == turn_id]
    assert [(data["turn_id"], data["outcome"]) for data in completed] == [(turn_id, outcome)]


@then(parsers.parse("{count:d} turns should be completed, in the order of their questions"))
def in_order(story: Story, count: int) -> None:
    completed = [event.data["turn_id"] for event in story.completed(count)]
    assert completed == [event.data["turn_id"] for event in story.ears.of("turn_started")]
    assert completed == [event.context.turn_id for event in story.ears.of("user_message")]


@then("I should have heard of no turn")
def no_turn(story: Story) -> None:
    story.settle()
    assert story.ears.of("user_message", "turn_started", "turn_completed", "agent_state_changed") == []


@then("it should be refused as an invalid message")
def it_is_invalid(story: Story) -> None:
    assert isinstance(story.error, InvalidMessageError)
    assert isinstance(story.error, ValueError)


@step(parsers.parse('the agent is in state "{state}"'))
@then(parsers.parse('the agent should be in state "{state}"'))
def its_state_is(story: Story, state: str) -> None:
    (agent,) = story.runtime.agents.list()
    assert story.runtime.agents.get(agent.id) == agent
    assert agent.state == state


@then("no agent should be running")
def none_is_running(story: Story) -> None:
    assert story.runtime.agents.list() == []


@then("it should not run, nor be read, nor be deleted again")
def it_is_gone_for_good(story: Story) -> None:
    assert story.runtime.sessions.delete(story.session_id) is False
    for call in (story.runtime.sessions.run, story.runtime.sessions.messages):
        with pytest.raises(SessionNotFoundError):
            call(story.session_id)


@then("the conversation should be:")
def the_conversation_is(story: Story, datatable: list[list[str]]) -> None:
    said = story.runtime.sessions.messages(story.session_id)
    assert [[message.role, message.text] for message in said] == datatable


@then(parsers.parse('the last answer should be "{text}", {extent}, because of "{reason}"'))
def the_last_answer_is(story: Story, text: str, extent: str, reason: str) -> None:
    answer = story.runtime.sessions.messages(story.session_id)[-1]
    assert (answer.role, answer.text, answer.stop_reason) == ("assistant", text, reason)
    assert answer.partial is {"in part": True, "whole": False}[extent]


@then("the events of the session should be numbered from 1, without holes")
def numbered(story: Story) -> None:
    story.settle()
    cursors = [event.cursor for event in story.of_session()]
    assert cursors == list(range(1, len(cursors) + 1))


@then(parsers.parse('text should be "{text}"'))
def the_text_is(story: Story, text: str) -> None:
    story.completed()
    assert "".join(str(event.data["text"]) for event in story.ears.of("text_delta")) == text


@then("I should receive events in order:")
def the_stream_is(story: Story, datatable: list[list[str]]) -> None:
    story.listeners["I"].wait("turn_completed")
    stream = [event.type for event in story.listeners["I"].heard if event.category in {"stream", "error"}]
    assert stream == [type_ for (type_,) in datatable]


@then(parsers.parse('I should receive "{type_}" event'))
def event_received(story: Story, type_: str) -> None:
    assert len(story.ears.wait(type_)) == 1
