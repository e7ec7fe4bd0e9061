"""A client that is gone after any number of deltas, for any reason, has each of them once, in order, in the end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reenact import Runtime, Subscription
from reenact.events import Envelope
from reenact.server import Server
from reenact.testing import wait_until
from tests.domain.stream.grammar import Heard
from tests.examples import examples
from tests.logs import copy_log, log_at
from tests.reliability.serving import tapped
from tests.reliability.tap import Tap, TapFactory, chunks
from tests.reliability.truth import deltas_of, kept, kept_in, received, taken
from tests.reliability.wire import PATIENCE, Wire, cursors

DELTAS = examples(100)


@pytest.mark.parametrize("knows", ["its cursor", "its name"])
def test_whoever_disconnects_at_any_position_has_everything_once(
    runtime: Runtime, agent: str, server: Server, tap: Tap, knows: str
) -> None:
    runtime.agents.receive(agent, f"{DELTAS} deltas")
    first: list[list[Heard]] = []
    for position in range(DELTAS + 1):
        wire = Wire(server.url)
        wire.subscribe("s", client_id=f"client-{position}", after=0)
        wire.read("message_start")
        wire.read("text_delta", position)
        if knows == "its name":
            wire.ack(cursors(wire.heard())[-1])
        wire.drop()
        first.append(received(wire.heard()))
        tap.allow(1)

    wait_until(lambda: kept(runtime)[-1].type == "turn_completed")
    expected = kept(runtime)
    assert [event.cursor for event in expected] == list(range(1, len(expected) + 1))
    assert deltas_of(expected) == chunks(DELTAS)
    for position, before in enumerate(first):
        last = before[-1].cursor
        with Wire(server.url) as wire:
            after = last if knows == "its cursor" else None
            assert wire.subscribe("s", client_id=f"client-{position}", after=after) == last
            wire.read_on(len(expected) - last)

        assert len(deltas_of(before)) == position
        assert before + received(wire.heard()) == expected


def test_a_process_that_ends_at_any_position_has_kept_what_it_delivered(
    runtime: Runtime, agent: str, tap: Tap, log: str
) -> None:
    runtime.agents.receive(agent, f"{DELTAS} deltas")
    seen: list[Envelope] = []
    with runtime.events.subscribe("s", "client", after=0) as subscription:
        for position in range(DELTAS + 1):
            _follow(subscription, seen, position)
            subscription.ack()
            runtime.containers.list()  # returns when the projections have nothing to do
            copy = copy_log(log, str(position))

            with Runtime.open(copy, environment=TapFactory(Tap()), synchronous="OFF") as recovered:
                with recovered.events.subscribe("s", "client") as again:
                    assert again.cursor == subscription.cursor
                    rest = again.take()
                with recovered.events.stream("s", after=0) as anew:
                    everything = anew.take()
            assert everything == [*seen, *rest]
            assert [event.cursor for event in everything] == list(range(1, len(everything) + 1))
            assert deltas_of(taken(everything)) == chunks(position)
            assert rest[-1].type == "agent_stopped"
            tap.allow(1)


@pytest.mark.parametrize("recovery", ["close", "resume"])
def test_a_server_that_is_killed_and_started_again_goes_on_where_it_was(tmp_path: Path, recovery: str) -> None:
    log, port = log_at(tmp_path / "agents.db"), 0
    heard: list[Heard] = []

    for position in (0, 1, DELTAS // 2, DELTAS - 1, DELTAS):
        with tapped(log, port=port, recovery=recovery) as server:
            port = server.port
            with Wire(server.url) as wire:
                if not heard:
                    wire.ask("session_create_request", {"container_id": "c", "image_id": "i", "session_id": "s"})
                assert wire.subscribe("s", client_id="client") == len(heard)
                if heard:
                    _finish_the_turn(wire, server.tell)
                _say_in_part(wire, server.tell, position)
                wire.ack(cursors(wire.heard())[-1])
                server.kill()
                heard += received(wire.heard())
                assert [event.cursor for event in heard] == list(range(1, len(heard) + 1))
    with tapped(log, port=port, recovery=recovery) as server, Wire(server.url) as wire:
        assert wire.subscribe("s", client_id="client") == len(heard)
        _finish_the_turn(wire, server.tell)
        heard += received(wire.heard())
        assert server.finish() == 0

    assert heard == kept_in(log)[: len(heard)]
    completed = [event.data["outcome"] for event in heard if event.type == "turn_completed"]
    assert completed == ["interrupted" if recovery == "close" else "completed"] * 5


def _follow(subscription: Subscription, seen: list[Envelope], deltas: int) -> None:
    while sum(event.type == "text_delta" for event in seen) < deltas or "message_start" not in [e.type for e in seen]:
        event = subscription.next(PATIENCE)
        assert event is not None
        seen.append(event)


def _finish_the_turn(wire: Wire, tell: Callable[[str], None]) -> None:
    """Let the turn that the last server left unfinished end, however it ends."""
    tell("open")
    wire.read("turn_completed")
    tell("shut")


def _say_in_part(wire: Wire, tell: Callable[[str], None], position: int) -> None:
    """Have the agent begin to answer, and read so many deltas of it."""
    turns, deltas = sum(event["type"] == "message_start" for event in wire.heard()), len(wire.deltas())
    wire.ask("message_send_request", {"session_id": "s", "content": f"{DELTAS + 1} deltas"})
    tell(f"allow {position}")
    wire.read("message_start", turns + 1)
    wire.read("text_delta", deltas + position)
