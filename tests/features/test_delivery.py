"""Delivery: a session is followed from any point of it, by anybody, once and in order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_bdd import given, parsers, scenarios, step, then, when

from reenact import Subscription
from reenact.events import Envelope
from tests.features.story import PATIENCE, Story

scenarios("delivery.feature")


class Following:
    """The subscription that the steps speak of, and what it has handed out."""

    def __init__(self) -> None:
        self._subscription: Subscription | None = None
        self.heard: list[Envelope] = []

    @property
    def subscription(self) -> Subscription:
        assert self._subscription is not None, "nobody follows"
        return self._subscription

    def begin(self, subscription: Subscription) -> None:
        self.leave()
        self._subscription = subscription
        self.heard = []

    def read(self, count: int) -> None:
        for _ in range(count):
            event = self.subscription.next(PATIENCE)
            assert event is not None, f"nothing came behind {self.heard[-1:]}"
            self.heard.append(event)

    def leave(self) -> None:
        if self._subscription is not None:
            self._subscription.unsubscribe()


@pytest.fixture
def following() -> Iterator[Following]:
    following = Following()
    yield following
    following.leave()


@step(parsers.parse('I follow the session as "{client_id}"'))
def i_follow(story: Story, following: Following, client_id: str) -> None:
    following.begin(story.runtime.events.subscribe(story.session_id, client_id))


@when(parsers.parse("I follow the session from behind cursor {cursor:d}"))
def i_follow_from(story: Story, following: Following, cursor: int) -> None:
    following.begin(story.runtime.events.stream(story.session_id, after=cursor))


@when(parsers.parse('I leave, and follow the session as "{client_id}"'))
def i_leave_and_follow(story: Story, following: Following, client_id: str) -> None:
    following.leave()
    following.begin(story.runtime.events.subscribe(story.session_id, client_id))


@when(parsers.parse('I try to follow the session "{session_id}"'))
def i_try_to_follow(story: Story, session_id: str) -> None:
    story.attempt(lambda: story.runtime.events.subscribe(session_id, "laptop"))


@given(parsers.parse("I have heard {count:d} events"))
def i_have_heard(following: Following, count: int) -> None:
    following.read(count)


@given("I acknowledge them")
def i_acknowledge(following: Following) -> None:
    following.subscription.ack()


@given(parsers.parse("I acknowledge cursor {cursor:d}"))
def i_acknowledge_one(following: Following, cursor: int) -> None:
    following.subscription.ack(cursor)


@then("I should hear the session from its first event")
def i_hear_all(story: Story, following: Following) -> None:
    i_hear_from(story, following, 1)


@then(parsers.parse("I should hear the session from event {cursor:d} on"))
def i_hear_from(story: Story, following: Following, cursor: int) -> None:
    story.settle()
    expected = [event for event in story.of_session() if (event.cursor or 0) >= cursor]
    assert expected
    following.read(len(expected) - len(following.heard))
    assert following.heard == expected
    assert [event.cursor for event in expected] == list(range(cursor, cursor + len(expected)))
    assert following.subscription.take() == []


@then(parsers.parse("the next event should be event {cursor:d}"))
def the_next_one_is(following: Following, cursor: int) -> None:
    following.read(1)
    assert following.heard[-1].cursor == cursor


@then(parsers.parse('the last event should be "{type_}"'))
def the_last_one_is(following: Following, type_: str) -> None:
    assert following.heard[-1].type == type_


@then("nothing more should come")
def nothing_more(following: Following) -> None:
    while (event := following.subscription.next(PATIENCE)) is not None:
        following.heard.append(event)
    assert following.subscription.closed
    assert list(following.subscription) == []
