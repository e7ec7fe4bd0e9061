"""Subscriptions: independent of each other, and of whom they listen to."""

from __future__ import annotations

from contextlib import ExitStack
from queue import SimpleQueue

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from reenact import Message, UnknownEventTypeError
from reenact.events import Envelope, EventType
from tests.features.story import PATIENCE, Ears, Story

scenarios("subscriptions.feature")


@pytest.fixture
def block() -> ExitStack:
    return ExitStack()


@pytest.fixture
def read() -> SimpleQueue[list[Message]]:
    return SimpleQueue()


@given(parsers.parse('a handler for "{type_}" events that always raises'))
def it_always_raises(story: Story, type_: EventType) -> None:
    it = story.listeners["it"] = Ears()

    def hear(event: Envelope) -> None:
        it.hear(event)
        raise RuntimeError("a mistake in the handler")

    story.runtime.events.on(type_, hear)


@given(parsers.parse('a block in which I subscribe to "{type_}" events'))
def a_block(story: Story, block: ExitStack, type_: EventType) -> None:
    mine = story.listeners["I"] = Ears()
    block.enter_context(story.runtime.events.on(type_, mine.hear))


@given(parsers.parse('a handler for "{type_}" events that unsubscribes at the first'))
def it_unsubscribes(story: Story, type_: EventType) -> None:
    it = story.listeners["it"] = Ears()

    def hear(event: Envelope) -> None:
        it.hear(event)
        unsubscribe()

    unsubscribe = story.runtime.events.on(type_, hear)


@given(parsers.parse('a handler for "{type_}" events that subscribes to "{other}" events'))
def it_subscribes(story: Story, type_: EventType, other: EventType) -> None:
    mine = story.listeners["I"] = Ears()
    story.runtime.events.on(type_, lambda _: story.runtime.events.on(other, mine.hear))


@given(parsers.parse('a handler for "{type_}" events that reads the conversation'))
def it_reads(story: Story, read: SimpleQueue[list[Message]], type_: EventType) -> None:
    story.runtime.events.on(type_, lambda _: read.put(story.runtime.sessions.messages(story.session_id)))


@when("the block is left")
def the_block_is_left(block: ExitStack) -> None:
    block.close()


@when(parsers.parse('I try to subscribe to "{type_}" events'))
def i_try_to_subscribe(story: Story, type_: EventType) -> None:
    story.attempt(lambda: story.runtime.events.on(type_, Ears().hear))


@then(parsers.parse("the handler that raises should have been called {count:d} times"))
def it_was_called(story: Story, count: int) -> None:
    story.settle()
    assert len(story.listeners["it"].wait("text_delta", count=count)) == count


@then(parsers.parse('what it raised should be in the log of "{logger}"'))
def it_is_logged(caplog: pytest.LogCaptureFixture, logger: str) -> None:
    logged = [record for record in caplog.records if record.name == logger]
    assert {(record.levelname, str(record.exc_info and record.exc_info[1])) for record in logged} == {
        ("ERROR", "a mistake in the handler")
    }


@then(parsers.parse("it should have heard {count:d} event"))
def it_heard(story: Story, count: int) -> None:
    assert story.ears.types.count("text_delta") > count
    story.settle()
    assert len(story.listeners["it"].wait("text_delta")) == count


@then("it should have read:")
def it_read(read: SimpleQueue[list[Message]], datatable: list[list[str]]) -> None:
    assert [[message.role, message.text] for message in read.get(timeout=PATIENCE)] == datatable


@then("it should fail because there is no such event type")
def no_such_type(story: Story) -> None:
    assert isinstance(story.error, UnknownEventTypeError)
    assert isinstance(story.error, ValueError)


@then(parsers.parse('I should receive the "{type_}" events of the second turn only'))
def of_the_second_turn(story: Story, type_: str) -> None:
    second = story.completed(2)[1].data["turn_id"]
    expected = [event.id for event in story.ears.of(type_) if event.context.turn_id == second]
    story.listeners["I"].wait(type_, count=len(expected))
    assert [event.id for event in story.listeners["I"].heard] == expected
