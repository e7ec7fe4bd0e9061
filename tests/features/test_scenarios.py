"""Mock scenarios: what each of them says, and how one chooses."""

from __future__ import annotations

import json

from pytest_bdd import given, parsers, scenarios, step, then, when

from reenact import ThinkingBlock, UnknownScenarioError
from reenact.domain.stream.events import AssistantMessage
from reenact.testing import MockEvent, MockScenario
from tests.features.story import Story
from tests.jsons import at

scenarios("scenarios.feature")


@given(parsers.parse('a scenario "{name}" that says "{text}" and stops'))
def a_scenario(story: Story, name: str, text: str) -> None:
    events = (MockEvent("text_delta", data={"text": text}), MockEvent("message_stop"))
    story.mock.define_scenario(name, MockScenario(name, events))


@step(parsers.re('I send (message )?"(?P<text>[^"]*)" to image "(?P<image_id>[^"]*)"'))
def i_send_to_image(story: Story, text: str, image_id: str) -> None:
    response = story.runtime.request("message_send_request", {"image_id": image_id, "content": text})
    story.session_id = at(str, response.data.result, "session_id")
    turn_id = at(str, response.data.result, "turn_id")
    story.ears.wait("turn_completed", where=lambda event: event.context.turn_id == turn_id)


@when(parsers.parse('I send message "{text}" to image "{image_id}" and interrupt it after "{words}"'))
def i_send_and_interrupt(story: Story, text: str, image_id: str, words: str) -> None:
    response = story.runtime.request("message_send_request", {"image_id": image_id, "content": text})
    story.session_id, story.agent_id = (
        at(str, response.data.result, "session_id"),
        at(str, response.data.result, "agent_id"),
    )
    story.ears.wait("text_delta", where=lambda event: event.data["text"] == words)
    story.runtime.agents.interrupt(story.agent_id)


@when(parsers.parse('I choose mock driver scenario "{name}"'))
def i_choose(story: Story, name: str) -> None:
    story.attempt(lambda: story.mock.set_scenario(name))


@then(parsers.parse('I should receive {count:d} "{type_}" events'))
def so_many_events(story: Story, count: int, type_: str) -> None:
    story.settle()
    assert len(story.listeners["I"].wait(type_, count=count)) == count
    assert [event.id for event in story.listeners["I"].heard] == [event.id for event in story.ears.of(type_)]


@then(parsers.parse('they should be "{first}" to "{last}", in order'))
def in_order(story: Story, first: str, last: str) -> None:
    texts = [event.data["text"] for event in story.listeners["I"].heard]
    assert texts == [f"chunk-{number} " for number in range(100)]
    assert (texts[0], texts[-1]) == (first, last)


@then(parsers.parse('the last answer should hold the thought "{thought}"'))
def the_thought_is(story: Story, thought: str) -> None:
    answer = story.runtime.sessions.messages(story.session_id)[-1]
    assert [block.thinking for block in answer.content if isinstance(block, ThinkingBlock)] == [thought]


@then(parsers.parse('the call should be of "{name}" with {arguments}'))
def the_call_is(story: Story, name: str, arguments: str) -> None:
    (call,) = story.ears.wait("tool_call")
    assert (call.data["name"], call.data["input"]) == (name, json.loads(arguments))


@then(parsers.parse('the error should say "{message}"'))
def the_error_says(story: Story, message: str) -> None:
    (error,) = story.ears.wait("error")
    assert error.data["message"] == message


@then(parsers.parse('the error should be of type "{type_}"'))
def the_error_is_of_type(story: Story, type_: str) -> None:
    (error,) = story.ears.wait("error")
    assert error.data["type"] == type_


@then("the message should have an ID")
def the_message_has_an_id(story: Story) -> None:
    (started,) = story.ears.wait("message_start")
    (answered,) = story.ears.wait("assistant_message")
    assert isinstance(answered.data, AssistantMessage)
    assert started.data["message_id"] == answered.data.message.id
    assert started.data["message_id"]


@then("it should fail because nobody defined that scenario")
def no_such_scenario(story: Story) -> None:
    assert isinstance(story.error, UnknownScenarioError)
    assert isinstance(story.error, LookupError)
    assert "simple-text" in str(story.error)


@then(parsers.parse('the mock should still answer "{text}"'))
def it_still_answers(story: Story, text: str) -> None:
    i_send_to_image(story, "Hello", "chat")
    assert story.runtime.sessions.messages(story.session_id)[-1].text == text
