"""A small log of sessions with everything in it that a log can have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from reenact import Image, Retention, Runtime, Said, ToolResultBlock
from reenact.actors.environment.tools.tool import tool
from reenact.domain.stream.events import Envelope
from reenact.testing import MockEnvironmentFactory, MockEvent


@tool
def add(left: int, right: int) -> int:
    """Return the sum."""
    return left + right


@tool(intervention="required")
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def make_log(path: Path) -> Path:
    """Make a log with two sessions, tools, a call that waits for a person, a branch, and deltas that were compacted."""
    factory = MockEnvironmentFactory(delays=False)
    factory.define_scenario("tools", _asks("add", {"left": 1, "right": 2}))
    factory.define_scenario("people", _asks("pay", {"amount": 3}))
    with Runtime.open(
        path, environment=factory, synchronous="OFF", retention=Retention(deltas=timedelta(0))
    ) as runtime:
        runtime.containers.create(container_id="c")
        runtime.images.register(Image(id="i", tools=(add, pay)))
        for session, scenarios in (("a", ("default", "tools")), ("b", ("people",))):
            runtime.sessions.create("c", "i", session_id=session)
            agent = runtime.sessions.run(session)
            with runtime.events.subscribe(session, "me") as heard:
                for scenario in scenarios:
                    factory.set_scenario(scenario)
                    runtime.agents.receive(agent, f"Hello, {scenario}")
                    _until_completed(heard)
                heard.ack()
        runtime.events.compact()
        runtime.sessions.branch("a", new_session_id="z", edit="Hello, branch")
        factory.set_scenario("default")
        agent = runtime.sessions.run("z")
        with runtime.events.stream("z") as stream:
            _until_completed(stream)
        once = {"session_id": "a", "content": "Once", "request_id": "r1"}
        runtime.request("message_send_request", once)
        runtime.request("container_create_request", {"container_id": "d", "request_id": "r2"})
        assert len(runtime.sessions.messages("z")) > 1
    with Runtime.open(path, environment=factory, synchronous="OFF", retention=Retention(deltas=None)):
        pass  # the projections have everything now
    return path


def _asks(name: str, arguments: dict[str, int]) -> Callable[[Sequence[Said]], Iterator[MockEvent]]:
    def script(said: Sequence[Said]) -> Iterator[MockEvent]:
        yield MockEvent("message_start")
        if any(isinstance(block, ToolResultBlock) for block in said[-1].content):
            yield MockEvent("text_delta", data={"text": "done"})
            yield MockEvent("message_stop", data={"stop_reason": "end_turn"})
        else:
            yield MockEvent("tool_call", data={"id": name, "name": name, "input": arguments})
            yield MockEvent("message_stop", data={"stop_reason": "tool_use"})

    return script


def _until_completed(events: Iterable[Envelope]) -> None:
    for envelope in events:
        if envelope.type == "turn_completed":
            return
