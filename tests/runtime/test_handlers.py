"""Handlers: they may call anything, raise anything, come and go, and harm nobody."""

from __future__ import annotations

import logging
import threading

import pytest

from reenact import Runtime, RuntimeClosedError, UnknownEventTypeError, Unsubscribe
from reenact.events import Envelope, EventType
from tests.runtime.gated import GatedFactory
from tests.runtime.witness import PATIENCE, Ears, check


def mark(runtime: Runtime, ears: Ears) -> None:
    """Return when everything published so far has been heard."""
    marker = runtime.containers.create().id
    while all(event.data["container_id"] != marker for event in ears.of("container_created")):
        ears.next(timeout=0.02)


def test_an_unknown_type_of_event_is_refused_at_once(runtime: Runtime) -> None:
    with pytest.raises(UnknownEventTypeError):
        runtime.events.on("text_deltas", print)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


@pytest.mark.parametrize(
    "error", [ValueError("boom"), SystemExit(1), KeyboardInterrupt()], ids=lambda error: type(error).__name__
)
def test_a_handler_that_raises_is_reported_and_harms_nobody(
    runtime: Runtime, agent: str, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def broken(event: Envelope) -> None:
        heard.append(event.type)
        raise error

    runtime.events.on_all(broken)
    ears = Ears(runtime)

    with caplog.at_level(logging.ERROR, logger="reenact.events"):
        runtime.agents.receive(agent, "Hello")
        ears.wait("turn_completed")
        runtime.close()

    assert heard[: len(ears.types)] == ears.types
    reports = [record for record in caplog.records if record.name == "reenact.events"]
    assert len(reports) == len(heard)
    assert all(record.levelno == logging.ERROR and record.exc_info is not None for record in reports)


def test_a_handler_may_call_any_facade(runtime: Runtime, agent: str) -> None:
    told: list[list[str]] = []
    done = threading.Event()

    def read(event: Envelope) -> None:
        told.append([message.text for message in runtime.sessions.messages("s")])
        if len(told) == 1:
            runtime.agents.receive(agent, "And then?")
        else:
            done.set()

    runtime.events.on("turn_completed", read)
    runtime.agents.receive(agent, "Hello")

    assert done.wait(PATIENCE)
    assert told == [["Hello", "Hello from mock!"], ["Hello", "Hello from mock!", "And then?", "Hello from mock!"]]


@pytest.mark.parametrize("act", ["interrupt", "destroy", "delete"])
@pytest.mark.parametrize("when", ["turn_started", "text_delta"])
def test_a_handler_may_end_the_turn_that_it_hears_of(
    runtime: Runtime, agent: str, mock: GatedFactory, act: str, when: EventType
) -> None:
    mock.set_scenario("held")
    ears = Ears(runtime)

    def end(event: Envelope) -> None:
        match act:
            case "interrupt":
                runtime.agents.interrupt(agent)
            case "destroy":
                runtime.agents.destroy(agent)
            case _:
                runtime.sessions.delete("s")

    runtime.events.on(when, end)
    turn_id = runtime.agents.receive(agent, "Hello")

    (completed,) = ears.wait("turn_completed")
    assert (completed.data["turn_id"], completed.data["outcome"]) == (turn_id, "interrupted")
    mark(runtime, ears)
    check(runtime)


def test_a_subscription_that_begins_in_a_handler_begins_with_the_next_event(runtime: Runtime, agent: str) -> None:
    late = Ears()
    subscriptions: list[Unsubscribe] = []

    def subscribe(event: Envelope) -> None:
        if not subscriptions:
            subscriptions.append(runtime.events.on_all(late))

    runtime.events.on("message_start", subscribe)
    runtime.agents.receive(agent, "Hello")

    late.wait("turn_completed")
    assert late.types == [
        "agent_state_changed",
        *["text_delta"] * 3,
        "message_stop",
        "assistant_message",
        "agent_state_changed",
        "turn_completed",
    ]


def test_a_subscription_that_ends_in_its_own_handler_hears_nothing_more(runtime: Runtime, agent: str) -> None:
    heard: list[str] = []
    ears = Ears(runtime)

    def once(event: Envelope) -> None:
        heard.append(event.type)
        subscription()

    subscription = runtime.events.on("text_delta", once)
    runtime.agents.receive(agent, "Hello")
    ears.wait("turn_completed")
    mark(runtime, ears)

    assert heard == ["text_delta"]


def test_ending_a_subscription_is_idempotent_and_a_with_block_ends_it_too(runtime: Runtime) -> None:
    first, second, ears = Ears(), Ears(), Ears(runtime)
    unsubscribe = runtime.events.on_all(first)
    with runtime.events.on_all(second):
        runtime.containers.create()
        second.wait("container_created")
    unsubscribe()
    unsubscribe()

    mark(runtime, ears)

    assert len(first.heard) <= 1
    assert len(second.heard) == 1


def test_a_slow_handler_holds_up_no_caller(runtime: Runtime, agent: str) -> None:
    go_on = threading.Event()
    heard: list[str] = []

    def slow(event: Envelope) -> None:
        go_on.wait(PATIENCE)
        heard.append(event.type)

    runtime.events.on_all(slow)
    turn_id = runtime.agents.receive(agent, "Hello")
    while len(runtime.sessions.messages("s")) < 2:  # the answer comes while the handler has not returned
        go_on.wait(0.01)

    go_on.set()
    runtime.close()
    assert heard[0] == "user_message"
    assert heard.count("turn_completed") == 1
    assert turn_id


def test_closing_inside_a_handler_returns_and_ends_the_runtime(runtime: Runtime, agent: str) -> None:
    closed = threading.Event()

    def close(event: Envelope) -> None:
        runtime.close()
        closed.set()

    runtime.events.on("turn_completed", close)
    runtime.agents.receive(agent, "Hello")

    assert closed.wait(PATIENCE)
    with pytest.raises(RuntimeClosedError):
        runtime.containers.list()


def test_nobody_can_subscribe_to_a_closed_runtime(runtime: Runtime) -> None:
    subscription = runtime.events.on_all(print)
    runtime.close()

    subscription()
    with pytest.raises(RuntimeClosedError):
        runtime.events.on("turn_completed", print)
