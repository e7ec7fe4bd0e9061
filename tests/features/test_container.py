"""Containers: created, read and listed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pytest_bdd import given, parsers, scenarios, then, when

from reenact import ContainerInfo
from tests.features.story import Story

scenarios("container.feature")


@given(parsers.parse('a container exists with name "{name}"'))
def a_container_with_name(story: Story, name: str) -> None:
    story.container_id = story.runtime.containers.create(name).id


@given("the following containers exist:")
def containers(story: Story, datatable: list[list[str]]) -> None:
    for (name,) in datatable[1:]:
        story.runtime.containers.create(name)


@when("I create a container")
def i_create(story: Story) -> None:
    story.attempt(story.runtime.containers.create)


@when(parsers.parse('I create a container with name "{name}"'))
def i_create_with_name(story: Story, name: str) -> None:
    story.attempt(lambda: story.runtime.containers.create(name))


@when("I get the container by its ID")
def i_get(story: Story) -> None:
    story.attempt(lambda: story.runtime.containers.get(story.container_id))


@when(parsers.parse('I get container by ID "{container_id}"'))
def i_get_by_id(story: Story, container_id: str) -> None:
    story.attempt(lambda: story.runtime.containers.get(container_id))


@when("I list all containers")
def i_list(story: Story) -> None:
    story.attempt(story.runtime.containers.list)


@then("the container should be created successfully")
def it_is_created(story: Story) -> None:
    assert isinstance(story.answer, ContainerInfo)
    assert story.runtime.containers.get(story.answer.id) == story.answer
    assert story.runtime.containers.list() == [story.answer]


@then("the container should have a unique ID")
def its_id_is_unique(story: Story) -> None:
    assert isinstance(story.answer, ContainerInfo)
    assert story.answer.id.startswith("cnt_")
    assert story.runtime.containers.create().id != story.answer.id


@then("the container createdAt should be set")
def its_time_is_set(story: Story) -> None:
    assert isinstance(story.answer, ContainerInfo)
    assert story.answer.created_at.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - story.answer.created_at) < timedelta(minutes=1)


@then(parsers.parse('the container name should be "{name}"'))
def its_name_is(story: Story, name: str) -> None:
    assert isinstance(story.answer, ContainerInfo)
    assert story.answer.name == name


@then("I should receive the container info")
def the_info(story: Story) -> None:
    assert isinstance(story.answer, ContainerInfo)
    assert [story.answer] == story.runtime.containers.list()
    assert story.answer.name == "workspace-1"


@then(parsers.parse("I should receive {count:d} containers"))
def so_many(story: Story, count: int) -> None:
    listed = story.listed(ContainerInfo)
    assert len({info.id for info in listed}) == len(listed) == count
    assert [story.runtime.containers.get(info.id) for info in listed] == listed
