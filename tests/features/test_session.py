"""Sessions: created on a container and an image, read, listed, deleted, run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pytest_bdd import given, parsers, scenarios, then, when

from reenact import SessionInfo
from tests.features.story import Story

scenarios("session.feature")


@given(parsers.parse('the following sessions exist in container "{container_id}":'))
def sessions(story: Story, container_id: str, datatable: list[list[str]]) -> None:
    for (image_id,) in datatable[1:]:
        story.session(container_id, image_id)


@when(parsers.parse('I create a session in container "{container_id}" with image "{image_id}"'))
def i_create(story: Story, container_id: str, image_id: str) -> None:
    story.attempt(lambda: story.runtime.sessions.create(container_id, image_id))


@when("I get the session by its ID")
def i_get(story: Story) -> None:
    story.attempt(lambda: story.runtime.sessions.get(story.session_id))


@when(parsers.parse('I get session by ID "{session_id}"'))
def i_get_by_id(story: Story, session_id: str) -> None:
    story.attempt(lambda: story.runtime.sessions.get(session_id))


@when(parsers.parse('I list sessions in container "{container_id}"'))
def i_list(story: Story, container_id: str) -> None:
    story.attempt(lambda: story.runtime.sessions.list_by_container(container_id))


@when(parsers.parse('I delete session "{session_id}"'))
def i_delete_by_id(story: Story, session_id: str) -> None:
    story.attempt(lambda: story.runtime.sessions.delete(session_id))


@when(parsers.parse('I run session "{session_id}"'))
def i_run_by_id(story: Story, session_id: str) -> None:
    story.attempt(lambda: story.runtime.sessions.run(session_id))


@then("the session should be created successfully")
def it_is_created(story: Story) -> None:
    assert isinstance(story.answer, SessionInfo)
    assert story.runtime.sessions.get(story.answer.id) == story.answer
    assert story.runtime.sessions.list_by_container(story.answer.container_id) == [story.answer]


@then("the session should have a unique ID")
def its_id_is_unique(story: Story) -> None:
    assert isinstance(story.answer, SessionInfo)
    assert story.answer.id.startswith("ses_")
    assert story.runtime.sessions.create("default", "translator").id != story.answer.id


@then(parsers.parse('the session containerId should be "{container_id}"'))
def its_container_is(story: Story, container_id: str) -> None:
    assert isinstance(story.answer, SessionInfo)
    assert story.answer.container_id == container_id


@then(parsers.parse('the session imageId should be "{image_id}"'))
def its_image_is(story: Story, image_id: str) -> None:
    assert isinstance(story.answer, SessionInfo)
    assert story.answer.image_id == image_id


@then("the session createdAt should be set")
def its_time_is_set(story: Story) -> None:
    assert isinstance(story.answer, SessionInfo)
    assert story.answer.created_at.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - story.answer.created_at) < timedelta(minutes=1)


@then("I should receive the session info")
def the_info(story: Story) -> None:
    assert isinstance(story.answer, SessionInfo)
    assert [story.answer] == story.runtime.sessions.list_by_container("default")
    assert story.answer.image_id == "translator"


@then(parsers.re(r"I should receive (?P<count>\d+) sessions?"), converters={"count": int})
def so_many(story: Story, count: int) -> None:
    listed = story.listed(SessionInfo)
    assert len({info.id for info in listed}) == len(listed) == count
    assert [story.runtime.sessions.get(info.id) for info in listed] == listed
    assert {info.container_id for info in listed} == {"default"}


@then("the delete should return true")
def it_was_deleted(story: Story) -> None:
    assert story.answer is True


@then("the delete should return false")
def nothing_was_deleted(story: Story) -> None:
    assert story.answer is False


@then("the session should not exist")
def it_is_gone(story: Story) -> None:
    assert story.runtime.sessions.get(story.session_id) is None
    assert story.runtime.sessions.list_by_container("default") == []


@then("I should receive an agent ID")
def an_agent_id(story: Story) -> None:
    assert isinstance(story.answer, str)
    assert story.answer.startswith("agt_")


@then("the agent should be running")
def it_is_running(story: Story) -> None:
    (agent,) = story.runtime.agents.list()
    assert (agent.id, agent.session_id, agent.state) == (story.answer, story.session_id, "idle")
