"""A node whose database is away for longer than its lease goes on with its sessions, for nobody has taken them."""

from __future__ import annotations

from reenact import Image, Runtime, ShardMovedError
from reenact.testing import MockEnvironmentFactory, MockEvent, wait_until
from tests.journal.server import Server


def test_a_turn_that_the_outage_cut_short_ends_when_it_is_over(url: str, server: Server) -> None:
    slow = MockEnvironmentFactory(
        "slow", {"slow": [MockEvent("text_delta", 100, {"text": "word "}) for _ in range(10)]}
    )
    with Runtime.open(url, environment=slow, default_image=Image(id="i")) as runtime:
        runtime.containers.create(container_id="c")
        session = runtime.sessions.create("c", "i")
        with runtime.events.stream(session.id) as events:
            runtime.agents.receive(runtime.sessions.run(session.id), "Hello")
            while (event := events.next(60)) is not None and event.type != "text_delta":
                pass
            server.stop()
            try:
                # By then the session was tried again, and the node took no commands any more.
                wait_until(lambda: isinstance(runtime.failure, ShardMovedError))
            finally:
                server.start()
            while (event := events.next(60)) is not None and event.type != "turn_completed":
                pass

    assert event is not None
    assert event.data.outcome == "failed"
