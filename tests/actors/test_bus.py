"""The bus: one order for everybody, and nobody held up by a stranger's handler."""

from __future__ import annotations

import itertools
import logging
import sys
import threading
from collections.abc import Iterator

import pytest

from reenact.actors import bus as buses
from reenact.actors.bus import Subscription, SystemBus
from reenact.domain.errors import RuntimeClosedError, UnknownEventTypeError
from reenact.domain.events import ContainerCreated, Envelope, ImageRegistered, MessageStop, TextDelta
from reenact.testing import wait_until

PATIENCE = 60.0


@pytest.fixture
def bus() -> Iterator[SystemBus]:
    numbers = itertools.count()
    opened = SystemBus(lambda prefix: f"{prefix}_{next(numbers)}")
    yield opened
    opened.close()


def say(bus: SystemBus, *texts: str) -> None:
    for text in texts:
        bus.say(0, TextDelta(text=text), {"session_id": "s"})


def text(event: Envelope) -> str:
    said: str = event.data["text"]
    return said


def test_each_event_is_handled_by_everybody_before_the_next(bus: SystemBus) -> None:
    calls: list[tuple[str, str]] = []
    bus.subscribe("text_delta", lambda event: calls.append(("first", text(event))))
    bus.subscribe(None, lambda event: calls.append(("second", text(event))))

    say(bus, "a", "b")
    bus.close()

    assert calls == [("first", "a"), ("second", "a"), ("first", "b"), ("second", "b")]


def test_all_handlers_are_given_the_same_envelope(bus: SystemBus) -> None:
    heard: list[Envelope] = []
    bus.subscribe("text_delta", heard.append)
    bus.subscribe("text_delta", heard.append)

    say(bus, "a")
    bus.close()

    assert heard[0] is heard[1]
    assert heard[0].context.session_id == "s"


def test_whoever_tells_of_a_container_or_an_image_gives_the_event_the_same_id(bus: SystemBus) -> None:
    heard: list[Envelope] = []
    bus.subscribe(None, heard.append)

    bus.say(0, ContainerCreated(container_id="lab"), {"container_id": "lab"})
    bus.say(0, ImageRegistered(image_id="chat", revision=2), {"image_id": "chat"})
    bus.close()

    assert [event.id for event in heard] == ["container/lab:1", "image/chat:2"]


def test_a_handler_that_does_not_return_holds_up_nobody_for_long_and_misses_nothing(bus: SystemBus) -> None:
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

    bus.subscribe("text_delta", hold_up)
    bus.subscribe("text_delta", go_on)
    say(bus, "0", "1", "2", "3", "4")

    assert others_done.wait(PATIENCE)
    assert slow == ["0"]
    gate.set()
    say(bus, "5")
    bus.close()
    assert slow == quick == ["0", "1", "2", "3", "4", "5"]


def test_a_straggler_that_has_caught_up_is_served_in_step_again(bus: SystemBus) -> None:
    gate, relieved, caught_up = threading.Event(), threading.Event(), threading.Event()
    calls: list[tuple[str, str]] = []

    def straggle(event: Envelope) -> None:
        if text(event) == "hold":
            gate.wait(PATIENCE)
        calls.append(("straggler", text(event)))
        if text(event) == "last":
            caught_up.set()

    bus.subscribe("text_delta", straggle)
    bus.subscribe("text_delta", lambda event: relieved.set() if text(event) == "last" else None)
    say(bus, "hold", "last")
    assert relieved.wait(PATIENCE)
    gate.set()
    assert caught_up.wait(PATIENCE)
    bus.subscribe("text_delta", lambda event: calls.append(("other", text(event))))

    say(bus, "x", "y")
    bus.close()

    assert [call for call in calls if call[0] == "straggler"] == [
        ("straggler", one) for one in ("hold", "last", "x", "y")
    ]
    assert [call for call in calls if call[0] == "other"] == [("other", "x"), ("other", "y")]


def test_what_a_handler_raises_is_logged_and_harms_nobody(bus: SystemBus, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []

    def fail(_event: Envelope) -> None:
        raise SystemExit(7)

    bus.subscribe("text_delta", fail)
    bus.subscribe("text_delta", lambda event: heard.append(text(event)))
    with caplog.at_level(logging.ERROR, "reenact.events"):
        say(bus, "a", "b")
        bus.close()

    assert heard == ["a", "b"]
    assert len(caplog.records) == 2
    assert caplog.records[0].exc_info is not None


def test_a_subscription_made_in_a_handler_begins_with_the_next_event(bus: SystemBus) -> None:
    late: list[str] = []
    subscribed = threading.Event()

    def subscribe(event: Envelope) -> None:
        if text(event) == "a":
            bus.subscribe("text_delta", lambda other: late.append(text(other)))
            subscribed.set()

    bus.subscribe("text_delta", subscribe)
    with bus._changed:
        say(bus, "a", "b", "c")
    assert subscribed.wait(PATIENCE)
    bus.close()

    assert late == ["b", "c"]


def test_a_subscription_ended_in_another_s_handler_ends_behind_the_event_that_is_handled(bus: SystemBus) -> None:
    heard: list[str] = []
    ends: list[Subscription] = []

    bus.subscribe("text_delta", lambda event: ends[0]() if text(event) == "b" else None)
    ends.append(bus.subscribe("text_delta", lambda event: heard.append(text(event))))
    say(bus, "a", "b", "c")
    bus.close()

    assert heard == ["a", "b"]


def test_one_that_is_ended_while_its_handler_waits_for_a_straggler_has_the_event_too(bus: SystemBus) -> None:
    heard: list[str] = []
    release = threading.Event()
    ends: list[Subscription] = []

    def straggle(event: Envelope) -> None:
        if text(event) == "a":
            ends[0]()
            release.wait(PATIENCE)

    bus.subscribe("text_delta", straggle)
    ends.append(bus.subscribe("text_delta", lambda event: heard.append(text(event))))
    say(bus, "a", "b")
    wait_until(lambda: heard == ["a"])
    release.set()
    bus.close()

    assert heard == ["a"]


def test_a_handler_that_unsubscribes_itself_hears_no_more(bus: SystemBus) -> None:
    heard: list[str] = []

    def once(event: Envelope) -> None:
        heard.append(text(event))
        subscription()

    subscription = bus.subscribe("text_delta", once)
    say(bus, "a", "b")
    bus.close()

    assert heard == ["a"]


def test_what_was_published_before_is_not_heard(bus: SystemBus) -> None:
    heard: list[str] = []
    say(bus, "before")
    bus.subscribe(None, lambda event: heard.append(text(event)))
    say(bus, "after")
    bus.close()

    assert heard == ["after"]


def test_events_that_nobody_wants_are_passed_over(bus: SystemBus) -> None:
    heard: list[str] = []
    bus.subscribe("message_stop", lambda event: heard.append(event.type))
    say(bus, "a", "b", "c")
    bus.say(0, MessageStop(), {})
    bus.close()

    assert heard == ["message_stop"]


@pytest.mark.parametrize("subscribed", [False, True])
def test_events_that_nobody_wants_are_not_kept(bus: SystemBus, subscribed: bool) -> None:  # noqa: FBT001
    heard = threading.Event()
    if subscribed:
        bus.subscribe("message_stop", lambda _event: heard.set())
        bus.say(0, MessageStop(), {})
        assert heard.wait(PATIENCE)
        wait_until(lambda: bus._idle, PATIENCE, "the dispatcher to have handled all")
    large = TextDelta(text="a")
    before = sys.getrefcount(large)

    for _ in range(3):
        bus.say(0, large, {})

    assert sys.getrefcount(large) == before


def test_a_handler_can_subscribe_to_what_came_behind_its_event_though_nobody_wanted_it_then(bus: SystemBus) -> None:
    handled, published, heard = threading.Event(), threading.Event(), threading.Event()

    def subscribe(_event: Envelope) -> None:
        handled.set()
        assert published.wait(PATIENCE)
        bus.subscribe("text_delta", lambda _event: heard.set())

    bus.subscribe("message_stop", subscribe)
    bus.say(0, MessageStop(), {})
    assert handled.wait(PATIENCE)
    say(bus, "a")
    published.set()

    assert heard.wait(PATIENCE)


def test_an_unknown_type_is_refused_at_once(bus: SystemBus) -> None:
    with pytest.raises(UnknownEventTypeError, match="nonsense"):
        bus.subscribe("nonsense", print)


def test_nothing_can_be_subscribed_or_heard_after_the_end(bus: SystemBus) -> None:
    heard: list[str] = []
    bus.subscribe(None, lambda event: heard.append(event.type))
    bus.close()
    say(bus, "too late")
    bus.close()

    with pytest.raises(RuntimeClosedError):
        bus.subscribe(None, print)
    assert heard == []


def test_closing_in_a_handler_lets_the_rest_be_heard(bus: SystemBus) -> None:
    heard: list[str] = []
    done = threading.Event()

    def close(event: Envelope) -> None:
        if text(event) == "a":
            bus.close()
        heard.append(text(event))
        if text(event) == "c":
            done.set()

    bus.subscribe("text_delta", close)
    with bus._changed:
        say(bus, "a", "b", "c")

    assert done.wait(PATIENCE)
    assert heard == ["a", "b", "c"]


def test_closing_leaves_behind_a_handler_that_never_returns(
    bus: SystemBus, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buses, "PATIENCE", 0.05)
    gate, stuck = threading.Event(), threading.Event()

    def hang(_event: Envelope) -> None:
        stuck.set()
        gate.wait(PATIENCE)

    bus.subscribe("text_delta", hang)
    say(bus, "a")
    assert stuck.wait(PATIENCE)
    bus.close()

    assert "left behind" in caplog.text
    gate.set()
    monkeypatch.undo()
    bus.close()


def test_a_thousand_subscribers_cost_two_threads(bus: SystemBus) -> None:
    before = threading.active_count()
    heard = itertools.count()
    for _ in range(1000):
        bus.subscribe("text_delta", lambda _event: next(heard))
    say(bus, "a")

    assert threading.active_count() <= before + 2
    bus.close()
    assert next(heard) == 1000
