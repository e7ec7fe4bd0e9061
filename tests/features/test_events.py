"""Events: subscribed to by type or all, and no longer."""

from __future__ import annotations

from pytest_bdd import given, parsers, scenarios, then

from reenact.events import EventType
from tests.features.story import Ears, Story

scenarios("events.feature")


@given(parsers.parse('subscriber {name} subscribes to "{type_}" events'))
def someone_subscribes(story: Story, name: str, type_: EventType) -> None:
    story.listeners[name] = Ears()
    story.subscriptions.append(story.runtime.events.on(type_, story.listeners[name].hear))


@then("I should receive both event types")
def both_types(story: Story) -> None:
    story.listeners["I"].wait("text_delta", "assistant_message", count=4)
    assert story.listeners["I"].types.count("text_delta") == 3
    assert set(story.listeners["I"].types) == {"text_delta", "assistant_message"}


@then("I should receive all event types")
def all_types(story: Story) -> None:
    story.listeners["I"].wait("turn_completed")
    assert story.listeners["I"].types == [
        "agent_started",
        "user_message",
        "turn_started",
        "agent_state_changed",
        "message_start",
        "agent_state_changed",
        "text_delta",
        "text_delta",
        "text_delta",
        "message_stop",
        "assistant_message",
        "agent_state_changed",
        "turn_completed",
    ]


@then("both subscribers should receive the events")
def both_hear(story: Story) -> None:
    expected = [event.id for event in story.ears.wait("text_delta", count=3)]
    for name in ("A", "B"):
        heard = story.listeners[name].wait("text_delta", count=3)
        assert [event.id for event in heard] == expected
