"""Reliability: a remote client receives every event once, whatever fails between it and the agent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_bdd import given, parsers, scenarios, step, then, when

from reenact.testing import wait_until
from tests.features.remote import PATIENCE, World
from tests.jsons import at
from tests.reliability.tap import chunks
from tests.reliability.truth import deltas_of, kept

scenarios("reliability.feature")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


@given("a server with mock driver")
def a_server(world: World) -> None:
    assert world.server.url.startswith("http://127.0.0.1:")


@given(parsers.parse('image "{image_id}" exists on it, with a session'))
def an_image(world: World, image_id: str) -> None:
    world.furnish(image_id)


@given(parsers.parse('a remote client subscribed to "chat"'))
def a_client(world: World) -> None:
    world.client()


@given(parsers.parse('another remote client subscribed to "chat"'))
def another_client(world: World) -> None:
    world.client("another")


@given(parsers.re(r'mock driver scenario is "(?P<scenario>[^"]+)" \((?P<count>\d+) (text_delta events|deltas)\)'))
def the_mock_plays(world: World, scenario: str, count: str) -> None:
    world.mock.set_scenario(scenario)
    assert int(count) == 100


@given("the network delivers every message twice")
def twice(world: World) -> None:
    world.tap.open()
    world.proxy.duplicate(b"message_send_request", times=1_000)


@given("the network loses the next answer")
def an_answer_is_lost(world: World) -> None:
    world.tap.open()
    world.proxy.cut_inside("client", b"message_send_response")


@when(parsers.parse('client sends message "{text}"'))
def it_sends(world: World, text: str) -> None:
    sent = world.client().runtime.request("message_send_request", {"session_id": "chat", "content": text})
    world.turn_id = at(str, sent.data.result, "turn_id")


@when(parsers.re(r"mock (driver )?emits (?P<count>\d+) text_delta events"), converters={"count": int})
def it_emits(world: World, count: int) -> None:
    world.emit(count)
    for client in world.clients.values():
        client.read(world.emitted)


@when(parsers.re(r"mock (driver )?continues emitting (?P<count>\d+) more events"), converters={"count": int})
def it_emits_more(world: World, count: int) -> None:
    world.emit(count)


@when("client disconnects")
def it_disconnects(world: World) -> None:
    world.client().go()


@when("client reconnects")
def it_reconnects(world: World) -> None:
    world.client().come()


@when("client forgets everything")
def it_forgets(world: World) -> None:
    world.client().acknowledge()
    world.client().go()


@when("client subscribes under its name")
def it_comes_under_its_name(world: World) -> None:
    world.client().come_as_one_that_has_forgotten()


@when("the network breaks")
def it_breaks(world: World) -> None:
    world.proxy.refuse()
    assert world.proxy.cut() == 1


@when("the network falls silent")
def it_falls_silent(world: World) -> None:
    world.proxy.hold()
    world.is_silent = True


@when("the network works again")
def it_works_again(world: World) -> None:
    if world.is_silent:
        wait_until(lambda: world.proxy.accepted == 2, PATIENCE, "the client to try another connection")
    world.proxy.accept()
    world.proxy.let_go()


@when("the server stops listening")
def it_stops_listening(world: World) -> None:
    world.stop_listening()


@when("the server listens again")
def it_listens_again(world: World) -> None:
    world.listen_again()


@when("the server's machine fails, and another one takes over its log")
def it_fails_over(world: World) -> None:
    world.fail_over()


@then(parsers.re(r"client should receive all (?P<count>\d+) text_delta events"), converters={"count": int})
def it_has_all(world: World, count: int) -> None:
    world.client().read(count, "turn_completed")
    assert deltas_of(world.client().heard) == chunks(100)[:count]


@then(parsers.re(r"the other client should receive all (?P<count>\d+) text_delta events"), converters={"count": int})
def the_other_has_all(world: World, count: int) -> None:
    world.client("another").read(count, "turn_completed")
    assert world.client("another").heard == kept(world.runtime, "chat")


@step("events should be in order")
def in_order(world: World) -> None:
    cursors = [event.cursor for event in world.client().heard]
    assert cursors == sorted(set(cursors))


@then("no events should be lost")
def none_is_lost(world: World) -> None:
    heard = world.client().heard
    assert heard == kept(world.runtime, "chat")[: len(heard)]
    assert heard[-1].type == "turn_completed"


@then("the turn should be completed as interrupted")
def it_is_interrupted(world: World) -> None:
    (completed,) = [event for event in world.client().heard if event.type == "turn_completed"]
    assert completed.data["outcome"] == "interrupted"


@then("the agent should have been asked once")
def asked_once(world: World) -> None:
    def completed() -> list[str | None]:
        return [event.turn_id for event in kept(world.runtime, "chat") if event.type == "turn_completed"]

    assert wait_until(completed, PATIENCE, "the end of the turn") == [world.turn_id]
    asked = [message for message in world.runtime.sessions.messages("chat") if message.role == "user"]
    assert [message.turn_id for message in asked] == [world.turn_id]
    assert world.proxy.duplicated + world.proxy.accepted == 2
