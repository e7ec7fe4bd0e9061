"""Requests: what a facade does, asked for by name, answered by a response."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TypeGuard

from pytest_bdd import given, parsers, scenarios, then, when

from reenact import AlreadyExistsError, UnknownCommandError
from reenact.domain.errors import RequestReusedError
from reenact.domain.operations.table import Response, refusal_of
from reenact.domain.stream.events import AssistantMessage
from reenact.events import CATALOGUE, Envelope
from tests.features.story import Ears, Story

scenarios("requests.feature")


def looked_at(story: Story) -> list[object]:
    """Return what there is, and what was said."""
    runtime = story.runtime
    sessions = runtime.sessions.list_by_container("default")
    questions = [
        [message for message in runtime.sessions.messages(session.id) if message.role == "user"] for session in sessions
    ]
    agents = [agent.id for agent in runtime.agents.list()]
    return [*runtime.containers.list(), *runtime.images.list(), *sessions, *questions, *agents]


RESPONSES = {type_ for type_ in CATALOGUE if type_.endswith("_response")}
OF_PEOPLE = {"agent_approve_response", "agent_reject_response", "agent_respond_response"}
"""What there is to decide only once a call waits for a person."""
OF_KEYS = {"session_forget_response"}
"""What can be done only in a log that is encrypted."""


@given(parsers.parse('I am subscribed to events for image "{image_id}"'))
def i_subscribe_to_image(story: Story, image_id: str) -> None:
    mine = story.listeners["I"] = Ears()
    story.runtime.events.on_all(lambda event: mine.hear(event) if event.context.image_id == image_id else None)


@when(parsers.parse('I call runtime.request("{type_}", {data})'))
def i_request(story: Story, type_: str, data: str) -> None:
    story.attempt(lambda: story.runtime.request(type_, json.loads(data)))


@when(parsers.parse('I send message "{text}" to the agent by request'))
def i_send_by_request(story: Story, text: str) -> None:
    message = {"agent_id": story.agent_id, "content": text}
    story.attempt(lambda: story.runtime.request("message_send_request", message))


@when("I make these requests:")
def i_make_requests(story: Story, datatable: list[list[str]]) -> None:
    for type_, data in datatable:
        i_request(story, type_, data)


@when(parsers.parse('this is asked for {count:d} times at once: "{type_}", {data}'))
def i_request_at_once(story: Story, count: int, type_: str, data: str) -> None:
    with ThreadPoolExecutor(count) as threads:
        requests = [threads.submit(story.runtime.request, type_, json.loads(data)) for _ in range(count)]
    for request in requests:
        story.attempt(request.result)


@when("I have looked at everything")
def i_looked(story: Story) -> None:
    story.before = looked_at(story)


@then("everything should be what it was")
def all_is_as_before(story: Story) -> None:
    assert looked_at(story) == story.before


def is_envelope(answer: object) -> TypeGuard[Envelope]:
    return isinstance(answer, Envelope)


@then("each should have been given the same answer")
def the_same_answer(story: Story) -> None:
    first, *others = filter(is_envelope, story.answers)
    assert others
    for other in others:
        assert (other.type, other.context, other.data) == (first.type, first.context, first.data)
    assert first.data["error"] is None


@then(parsers.parse('"{text}" should have been said once'))
def said_once(story: Story, text: str) -> None:
    story.completed()
    (session,) = story.runtime.sessions.list_by_container("default")
    questions = [message.text for message in story.runtime.sessions.messages(session.id) if message.role == "user"]
    assert questions == [text]


@then("it should be refused because the request ID was used for another request")
def it_is_reused(story: Story) -> None:
    assert isinstance(story.error, RequestReusedError)


@then(parsers.parse('I should receive "{type_}"'))
def a_response(story: Story, type_: str) -> None:
    assert is_envelope(story.answer)
    (published,) = story.ears.wait(type_)
    assert published == story.answer
    assert (published.category, published.intent, published.data["error"]) == ("command", "result", None)


@then("I should hear these in this order:")
def heard_in_order(story: Story, datatable: list[list[str]]) -> None:
    expected = [type_ for (type_,) in datatable]
    story.completed()
    assert [type_ for type_ in story.ears.types if type_ in expected] == expected


@then("the response should name the turn, the agent and the session of the question")
def it_names(story: Story) -> None:
    assert is_envelope(story.answer)
    about = story.ears.wait("user_message")[-1].context
    named = {"turn_id": about.turn_id, "agent_id": about.agent_id, "session_id": about.session_id}
    assert story.answer.data["result"] == named
    assert None not in named.values()


@then("the response should have no cursor")
def no_cursor(story: Story) -> None:
    (response,) = story.ears.wait("message_send_response")
    assert response.cursor is None


@then(parsers.re(r'container "(?P<container_id>\w+)" should have (?P<count>\d) sessions?'), converters={"count": int})
def so_many_sessions(story: Story, container_id: str, count: int) -> None:
    assert len(story.runtime.sessions.list_by_container(container_id)) == count


@then(parsers.parse('container "{container_id}" should have 1 session, on image "{image_id}"'))
def one_session(story: Story, container_id: str, image_id: str) -> None:
    (session,) = story.runtime.sessions.list_by_container(container_id)
    assert (session.container_id, session.image_id) == (container_id, image_id)


@then("both messages should be in it")
def both_messages(story: Story) -> None:
    (session,) = story.runtime.sessions.list_by_container("default")
    story.completed(2)
    questions = [message.text for message in story.runtime.sessions.messages(session.id) if message.role == "user"]
    assert questions == ["Hello", "Again"]


@then(parsers.parse('the agent of session "{session_id}" should be running'))
def its_agent_is_running(story: Story, session_id: str) -> None:
    (agent,) = story.runtime.agents.list()
    assert agent.session_id == session_id


@then("each should have been answered by its own response, under its own request ID")
def each_is_answered(story: Story) -> None:
    story.settle()
    published = [event for event in story.ears.heard if event.intent == "result"]
    assert published == story.answers
    expected = RESPONSES - OF_PEOPLE - OF_KEYS - {"message_send_response"}
    assert {event.type for event in published} == expected
    assert [event.data["error"] for event in published] == [None] * len(expected)
    assert len({event.data["request_id"] for event in published}) == len(published)


@then(parsers.parse('"{type_}" should have been published with error code "{code}"'))
def failure_published(story: Story, type_: str, code: str) -> None:
    (response,) = story.ears.wait(type_)
    assert isinstance(response.data, Response)
    assert response.data.error == refusal_of(story.error)
    assert code == story.error.code
    assert response.data.result is None


@then("it should be refused because the ID exists")
def it_exists(story: Story) -> None:
    assert isinstance(story.error, AlreadyExistsError)


@then("it should be refused because there is no such request")
def no_such_request(story: Story) -> None:
    assert isinstance(story.error, UnknownCommandError)


@then(parsers.parse('assistant message content should contain "{text}"'))
def the_message_contains(story: Story, text: str) -> None:
    (answered,) = story.listeners["I"].wait("assistant_message")
    assert isinstance(answered.data, AssistantMessage)
    assert text in answered.data.message.text
