"""Events, as users hear them."""

from __future__ import annotations

from typing import Literal, assert_type

from reenact import AsyncRuntime, Runtime
from reenact.events import (
    AssistantMessage,
    Envelope,
    EventData,
    EventType,
    Response,
    RuntimeEvent,
    TextDelta,
    TurnCompleted,
)


def by_name(runtime: Runtime) -> None:
    runtime.events.on("text_delta", lambda event: print(event.data.text.upper()))
    runtime.events.on("turn_completed", lambda event: print(event.data.outcome.upper()), session_id="talk")
    runtime.events.on("text_delta", log)
    with runtime.events.on("assistant_message", say):
        runtime.ask("Hello")
    runtime.events.on_all(log)
    runtime.events.on("turn_complete", log)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    runtime.events.on("turn_completed", say)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


def by_any_name(runtime: Runtime, type_: EventType) -> None:
    runtime.events.on(type_, log)


def say(event: Envelope[AssistantMessage]) -> None:
    assert_type(event.data, AssistantMessage)
    print(event.context.turn_id, event.data.message.text)


def log(event: RuntimeEvent) -> None:
    print(event.data.text)  # type: ignore[union-attr]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
    if event.type == "text_delta":
        assert_type(event.data, TextDelta)
        assert_type(event.type, Literal["text_delta"])
        print(event.data.text)
    print(event.type == "turn_complete")  # type: ignore[comparison-overlap]  # pyright: ignore[reportUnnecessaryComparison]


def following(runtime: Runtime) -> None:
    for event in runtime.events.subscribe("talk", "screen"):
        if event.type == "text_delta":
            print(event.cursor, event.data.text)
        if event.type == "turn_completed":
            assert_type(event.data, TurnCompleted)
            break
    print([event.data.text for event in runtime.events.stream("talk").take() if event.type == "text_delta"])


def told_by_name(runtime: Runtime) -> None:
    response = runtime.request("container_list_request", {})
    assert_type(response.data, Response)
    print(response.data.error is None, response.data.request_id.upper())


def plainly(event: Envelope) -> None:
    assert_type(event.data, EventData)
    print(event.data["text"])
    print(event.data.text)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]


def remotely() -> None:
    with Runtime.connect("http://localhost:8000") as remote:
        remote.events.on("text_delta", lambda event: print(event.data.text.upper()))
        for event in remote.events.stream("talk"):
            log(event)


async def on_a_loop() -> None:
    async def hear(event: Envelope[TextDelta]) -> None:
        print(event.data.text)

    async with AsyncRuntime.in_memory() as runtime:
        runtime.events.on("text_delta", hear)
        async for event in runtime.events.stream("talk"):
            if event.type == "text_delta":
                assert_type(event.data, TextDelta)
