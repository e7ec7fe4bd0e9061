"""Handlers: one order for everybody, and nobody held up by a stranger's handler."""

from __future__ import annotations

import itertools
import logging
import sys
import threading

import pytest

from reenact.actors.feed import handlers
from reenact.actors.feed.handlers import Handlers, Registration, _Calls
from reenact.actors.feed.hub import Feed
from reenact.actors.feed.publications import Listener
from reenact.actors.journal.api import Entry, Publication, Segment
from reenact.domain.errors import RuntimeClosedError, UnknownEventTypeError
from reenact.domain.stream.events import ContainerCreated, Envelope, ImageRegistered, MessageStop, TextDelta
from reenact.testing import wait_until

PATIENCE = 60.0


def say(feed: Feed, *texts: str) -> None:
    for text in texts:
        feed.say(0, TextDelta(text=text), {"session_id": "s"})


def say_at_once(feed: Feed, *texts: str) -> None:
    entries = tuple(Entry("text_delta", 0, TextDelta(text=text)) for text in texts)
    feed.publish((Publication(None, None, Segment({"session_id": "s"}, entries)),))


def text(event: Envelope) -> str:
    return str(event.data["text"])


def test_each_event_is_handled_by_everybody_before_the_next(feed: Feed) -> None:
    calls: list[tuple[str, str]] = []
    feed.handlers.add("text_delta", lambda event: calls.append(("first", text(event))))
    feed.handlers.add(None, lambda event: calls.append(("second", text(event))))

    say(feed, "a", "b")
    feed.close()

    assert calls == [("first", "a"), ("second", "a"), ("first", "b"), ("second", "b")]


def test_all_handlers_are_given_the_same_envelope(feed: Feed) -> None:
    heard: list[Envelope] = []
    feed.handlers.add("text_delta", heard.append)
    feed.handlers.add("text_delta", heard.append)

    say(feed, "a")
    feed.close()

    assert heard[0] is heard[1]
    assert heard[0].context.session_id == "s"


def test_whoever_tells_of_a_container_or_an_image_gives_the_event_the_same_id(feed: Feed) -> None:
    heard: list[Envelope] = []
    feed.handlers.add(None, heard.append)

    feed.say(0, ContainerCreated(container_id="lab"), {"container_id": "lab"})
    feed.say(0, ImageRegistered(image_id="chat", revision=2), {"image_id": "chat"})
    feed.close()

    assert [event.id for event in heard] == ["container/lab:1", "image/chat:2"]


def test_a_handler_that_does_not_return_holds_up_nobody_for_long_and_misses_nothing(feed: Feed) -> None:
    gate, others_done = threading.Event(), threading.Event()
    slow: list[str] = []
    quick: list[str] = []

    def hold_up(event: Envelope) -> None:
        if text(event) == "1":
            gate.wait(PATIENCE)
        slow.append(text(event))

    def go_on(event: Envelope) -> None:
        quick.append(text(event))
        if text(event) == "4":
            others_done.set()

    feed.handlers.add("text_delta", hold_up)
    feed.handlers.add("text_delta", go_on)
    say(feed, "0", "1", "2", "3", "4")

    assert others_done.wait(PATIENCE)
    assert slow == ["0"]
    gate.set()
    say(feed, "5")
    feed.close()
    assert slow == quick == ["0", "1", "2", "3", "4", "5"]


def test_a_handler_of_what_is_published_before_the_calls_begin_holds_up_nobody_either(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    published, gate, heard = threading.Event(), threading.Event(), threading.Event()
    make_calls = Handlers._make_calls

    def make_calls_late(handlers: Handlers, calls: _Calls) -> None:
        published.wait(PATIENCE)
        make_calls(handlers, calls)

    monkeypatch.setattr(Handlers, "_make_calls", make_calls_late)
    feed.handlers.add("text_delta", lambda _: gate.wait(PATIENCE))
    feed.handlers.add("text_delta", lambda _: heard.set())
    say(feed, "a")
    published.set()

    assert heard.wait(PATIENCE)
    gate.set()
    feed.close()


def test_a_straggler_that_has_caught_up_is_served_in_step_again(feed: Feed) -> None:
    gate, relieved, caught_up = threading.Event(), threading.Event(), threading.Event()
    calls: list[tuple[str, str]] = []

    def straggle(event: Envelope) -> None:
        if text(event) == "hold":
            gate.wait(PATIENCE)
        calls.append(("straggler", text(event)))
        if text(event) == "last":
            caught_up.set()

    feed.handlers.add("text_delta", straggle)
    feed.handlers.add("text_delta", lambda event: relieved.set() if text(event) == "last" else None)
    say(feed, "hold", "last")
    assert relieved.wait(PATIENCE)
    gate.set()
    assert caught_up.wait(PATIENCE)
    feed.handlers.add("text_delta", lambda event: calls.append(("other", text(event))))

    say(feed, "x", "y")
    feed.close()

    assert [call for call in calls if call[0] == "straggler"] == [
        ("straggler", one) for one in ("hold", "last", "x", "y")
    ]
    assert [call for call in calls if call[0] == "other"] == [("other", "x"), ("other", "y")]


def test_what_a_handler_raises_is_logged_and_harms_nobody(feed: Feed, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []

    def fail(_event: Envelope) -> None:
        raise SystemExit(7)

    feed.handlers.add("text_delta", fail)
    feed.handlers.add("text_delta", lambda event: heard.append(text(event)))
    with caplog.at_level(logging.ERROR, "reenact.events"):
        say(feed, "a", "b")
        feed.close()

    assert heard == ["a", "b"]
    assert len(caplog.records) == 2
    assert caplog.records[0].exc_info is not None


def test_a_subscription_made_in_a_handler_begins_with_the_next_event(feed: Feed) -> None:
    late: list[str] = []
    subscribed = threading.Event()

    def subscribe(event: Envelope) -> None:
        if text(event) == "a":
            feed.handlers.add("text_delta", lambda other: late.append(text(other)))
            subscribed.set()

    feed.handlers.add("text_delta", subscribe)
    say_at_once(feed, "a", "b", "c")
    assert subscribed.wait(PATIENCE)
    feed.close()

    assert late == ["b", "c"]


def test_a_subscription_ended_in_another_s_handler_ends_behind_the_event_that_is_handled(feed: Feed) -> None:
    heard: list[str] = []
    ends: list[Registration] = []

    feed.handlers.add("text_delta", lambda event: ends[0]() if text(event) == "b" else None)
    ends.append(feed.handlers.add("text_delta", lambda event: heard.append(text(event))))
    say(feed, "a", "b", "c")
    feed.close()

    assert heard == ["a", "b"]


def test_one_that_is_ended_while_its_handler_waits_for_a_straggler_has_the_event_too(feed: Feed) -> None:
    heard: list[str] = []
    release = threading.Event()
    ends: list[Registration] = []

    def straggle(event: Envelope) -> None:
        if text(event) == "a":
            ends[0]()
            release.wait(PATIENCE)

    feed.handlers.add("text_delta", straggle)
    ends.append(feed.handlers.add("text_delta", lambda event: heard.append(text(event))))
    say(feed, "a", "b")
    wait_until(lambda: heard == ["a"])
    release.set()
    feed.close()

    assert heard == ["a"]


def test_a_handler_that_unsubscribes_itself_hears_no_more(feed: Feed) -> None:
    heard: list[str] = []

    def once(event: Envelope) -> None:
        heard.append(text(event))
        subscription()

    subscription = feed.handlers.add("text_delta", once)
    say(feed, "a", "b")
    feed.close()

    assert heard == ["a"]


def test_what_was_published_before_is_not_heard(feed: Feed) -> None:
    heard: list[str] = []
    say(feed, "before")
    feed.handlers.add(None, lambda event: heard.append(text(event)))
    say(feed, "after")
    feed.close()

    assert heard == ["after"]


def test_events_that_nobody_wants_are_passed_over(feed: Feed) -> None:
    heard: list[str] = []
    feed.handlers.add("message_stop", lambda event: heard.append(event.type))
    say(feed, "a", "b", "c")
    feed.say(0, MessageStop(), {})
    feed.close()

    assert heard == ["message_stop"]


@pytest.mark.parametrize("subscribed", [False, True])
def test_events_that_nobody_wants_are_not_kept(feed: Feed, subscribed: bool) -> None:  # noqa: FBT001
    heard = threading.Event()
    if subscribed:
        feed.handlers.add("message_stop", lambda _event: heard.set())
        feed.say(0, MessageStop(), {})
        assert heard.wait(PATIENCE)
        wait_until(
            lambda: feed.publications.reached == feed.publications.tail.end, PATIENCE, "the handlers to have had all"
        )
    large = TextDelta(text="a")
    before = sys.getrefcount(large)

    for _ in range(3):
        feed.say(0, large, {})

    assert sys.getrefcount(large) == before


def test_what_handlers_have_had_is_not_kept_while_listeners_hear_more(feed: Feed) -> None:
    heard = threading.Event()
    feed.handlers.add("message_stop", lambda _event: heard.set())
    listener = Listener(feed.publications, None, feed.replay)
    feed.publications.join(listener)
    first = MessageStop()
    before = sys.getrefcount(first)

    feed.say(0, first, {})
    assert heard.wait(PATIENCE)
    say(feed, "a", "b")
    assert len(listener.give(10**6)[0]) == 3

    wait_until(lambda: sys.getrefcount(first) == before, PATIENCE, "what all have had to be let go of")


def test_a_handler_can_subscribe_to_what_came_behind_its_event_though_nobody_wanted_it_then(feed: Feed) -> None:
    handled, published, heard = threading.Event(), threading.Event(), threading.Event()

    def subscribe(_event: Envelope) -> None:
        handled.set()
        assert published.wait(PATIENCE)
        feed.handlers.add("text_delta", lambda _event: heard.set())

    feed.handlers.add("message_stop", subscribe)
    feed.say(0, MessageStop(), {})
    assert handled.wait(PATIENCE)
    say(feed, "a")
    published.set()

    assert heard.wait(PATIENCE)


def test_an_unknown_type_is_refused_at_once(feed: Feed) -> None:
    with pytest.raises(UnknownEventTypeError, match="nonsense"):
        feed.handlers.add("nonsense", print)


def test_nothing_can_be_subscribed_or_heard_after_the_end(feed: Feed) -> None:
    heard: list[str] = []
    feed.handlers.add(None, lambda event: heard.append(event.type))
    feed.close()
    say(feed, "too late")
    feed.close()

    with pytest.raises(RuntimeClosedError):
        feed.handlers.add(None, print)
    assert heard == []


def test_closing_in_a_handler_lets_the_rest_be_heard(feed: Feed) -> None:
    heard: list[str] = []
    done = threading.Event()

    def close(event: Envelope) -> None:
        if text(event) == "a":
            feed.close()
        heard.append(text(event))
        if text(event) == "c":
            done.set()

    feed.handlers.add("text_delta", close)
    say_at_once(feed, "a", "b", "c")

    assert done.wait(PATIENCE)
    assert heard == ["a", "b", "c"]


def test_closing_leaves_behind_a_handler_that_never_returns(
    feed: Feed, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "PATIENCE", 0.05)
    gate, stuck = threading.Event(), threading.Event()

    def hang(_event: Envelope) -> None:
        stuck.set()
        gate.wait(PATIENCE)

    feed.handlers.add("text_delta", hang)
    say(feed, "a")
    assert stuck.wait(PATIENCE)
    feed.close()

    assert "is abandoned" in caplog.text
    gate.set()
    monkeypatch.undo()
    feed.close()


def test_a_thousand_subscribers_cost_two_threads(feed: Feed) -> None:
    before = set(threading.enumerate())
    heard = itertools.count()
    for _ in range(1000):
        feed.handlers.add("text_delta", lambda _event: next(heard))
    say(feed, "a")

    assert len(set(threading.enumerate()) - before) <= 2
    feed.close()
    assert next(heard) == 1000
