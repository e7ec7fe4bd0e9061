"""What one node says of an agent that lives at another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from reenact import Image, Runtime
from reenact.domain.messages import Said
from reenact.testing import MockEnvironmentFactory, MockEvent, wait_until

LONG = 3_600_000.0
"""Milliseconds that nobody waits."""


def stuck(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Think, and answer if it is to, and never come to an end."""
    yield MockEvent("thinking_start")
    yield MockEvent("thinking_delta", 0, {"text": "hm"})
    if conversation[-1].text == "answer":
        yield MockEvent("thinking_end")
        yield MockEvent("text_delta", 0, {"text": "well"})
    yield MockEvent("message_stop", LONG)


def node(url: str) -> Runtime:
    environment = MockEnvironmentFactory("stuck", {"stuck": stuck})
    return Runtime.open(url, environment=environment, default_image=Image(id="i"))


def test_an_agent_is_in_the_same_state_at_every_node(url: str) -> None:
    with ExitStack() as stack:
        owner, other = (stack.enter_context(node(url)) for _ in range(2))
        owner.containers.create(container_id="c")
        session = owner.sessions.create("c", "i").id
        agent = owner.sessions.run(session)

        def said(node: Runtime) -> tuple[str | None, str]:
            info = node.agents.get(agent)
            assert info is not None
            assert node.agents.list() == [info]
            return info.turn_id, info.state

        for question, state in (("think", "thinking"), ("answer", "responding"), ("think", "thinking")):
            with owner.events.stream(session, after=0) as events:
                turn_id = owner.agents.receive(agent, question)
                while (event := events.next(60)) is not None:
                    last = "text_delta" if question == "answer" else "thinking_delta"
                    if event.type == last and event.context.turn_id == turn_id:
                        break

            assert said(owner) == (turn_id, state)
            wait_until(lambda: said(other) == (turn_id, state))  # noqa: B023 - called at once

            owner.agents.interrupt(agent)
            wait_until(lambda: said(owner)[1] == "idle")
