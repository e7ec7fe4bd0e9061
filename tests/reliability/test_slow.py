"""Whoever reads slowly, or not at all, costs the others nothing and the server no memory, and loses nothing."""

from __future__ import annotations

from pathlib import Path

from reenact import Runtime
from reenact.server import Server
from tests.domain.stream.grammar import Heard
from tests.examples import takes_long
from tests.logs import log_at
from tests.reliability.serving import tapped
from tests.reliability.tap import Tap
from tests.reliability.truth import deltas_of, kept, kept_in, received, taken
from tests.reliability.wire import Wire

TURNS = 10
EACH = 5_000
MEBIBYTE = 1024 * 1024


@takes_long()
def test_fifty_thousand_events_past_a_client_that_reads_nothing(tmp_path: Path) -> None:
    log = log_at(tmp_path / "agents.db")
    with tapped(log) as server:
        server.tell("open")
        with Wire(server.url) as fast, Wire(server.url) as slow:
            fast.ask("session_create_request", {"container_id": "c", "image_id": "i", "session_id": "s"})
            fast.subscribe("s", after=0)
            _produce(fast, 2 * TURNS)  # what is made once, is made
            begun = slow.subscribe("s", client_id="slow", after=len(fast.heard()))
            before = server.resident()

            _produce(fast, 3 * TURNS)
            grown = server.resident() - before

            assert grown < 24 * MEBIBYTE
            slow.read("turn_completed", TURNS)
            heard = received(slow.heard())
            assert heard == received(fast.heard())[begun:]
            assert len(deltas_of(heard)) == TURNS * EACH
        assert server.finish() == 0
    assert received(fast.heard()) == kept_in(log)[: len(fast.heard())]


def test_a_client_that_reads_an_event_at_a_time_gets_all_in_order(
    runtime: Runtime, agent: str, server: Server, tap: Tap
) -> None:
    tap.open()
    with Wire(server.url) as slow, Wire(server.url) as fast:
        for wire in (slow, fast):
            wire.subscribe("s", after=0)
        for _ in range(4):
            runtime.agents.receive(agent, "1000 deltas")
            slow.read_on(1)
        fast.read("turn_completed", 4)
        assert len(slow.heard()) < len(fast.heard())

        slow.read("turn_completed", 4)

    assert received(slow.heard()) == received(fast.heard()) == kept(runtime)


def test_a_subscriber_that_takes_nothing_keeps_nobody_waiting(runtime: Runtime, agent: str, tap: Tap) -> None:
    heard: list[Heard] = []
    tap.open()
    with runtime.events.subscribe("s", "slow", after=0) as slow:
        for _ in range(3):
            turn_id = runtime.agents.receive(agent, "2000 deltas")
            with runtime.events.stream("s", after=0) as events:
                assert any(event.type == "turn_completed" and event.context.turn_id == turn_id for event in events)
        (topic,) = runtime.feed.topics
        count, size = topic.kept
        assert count <= 8192
        assert size <= 2 * MEBIBYTE

        while some := slow.take(100):
            heard += taken(some)

    assert heard == kept(runtime)


def _produce(wire: Wire, turns: int) -> None:
    """Have the agent answer, turn after turn, until there were so many turns."""
    done = sum(event["type"] == "turn_completed" for event in wire.heard())
    for number in range(done, turns):
        wire.ask("message_send_request", {"session_id": "s", "content": f"{EACH} deltas"})
        wire.read("turn_completed", number + 1)
