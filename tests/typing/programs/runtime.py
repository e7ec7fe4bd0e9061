"""A runtime and its facades, as users call them."""

from __future__ import annotations

from typing import assert_type

from reenact import (
    AgentInfo,
    Answer,
    AsyncRuntime,
    ContainerInfo,
    Image,
    LLMConfig,
    Message,
    Policies,
    Policy,
    Runtime,
    SessionInfo,
    tool,
)
from reenact.testing import MockEnvironmentFactory, MockEvent


@tool
def send_email(to: str, subject: str) -> str:
    """Send an email."""
    return f"sent to {to}"


def a_turn() -> None:
    image = Image(id="clerk", tools=(send_email,), policies=Policies(tools={"send_email": Policy("required")}))
    with Runtime.open("agents.db", llm=LLMConfig(api_key="key"), tools=[send_email]) as runtime:
        answer = runtime.ask("Hello", image=image, on_event=lambda event: print(event.type))
        assert_type(answer, Answer)
        assert_type(runtime.sessions.messages(answer.session_id), list[Message])
        assert_type(runtime.containers.create(container_id="home"), ContainerInfo)
        assert_type(runtime.sessions.get("talk"), SessionInfo | None)
        assert_type(runtime.agents.list(), list[AgentInfo])
        for call in runtime.agents.pending():
            turn_id = runtime.agents.approve(call)
            if turn_id is not None:
                assert_type(runtime.turns.wait(turn_id), Answer)
        runtime.ask(5)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


def scripted() -> None:
    mock = MockEnvironmentFactory()
    mock.define_scenario("mail", [MockEvent("text_delta", data={"text": "Hi"}), MockEvent("message_stop")])
    with Runtime.in_memory(environment=mock) as runtime:
        print(runtime.ask("Hello").text)


async def awaited() -> None:
    async with AsyncRuntime.open("agents.db") as runtime:
        assert_type(await runtime.ask("Hello"), Answer)
        assert_type(await runtime.containers.list(), list[ContainerInfo])
    async with AsyncRuntime.in_memory(prices=5) as runtime:  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        assert_type(runtime, AsyncRuntime)
