"""JSON in events, replies and calls that wait, as users look into it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import assert_type

import msgspec

from reenact import ContainerInfo, Image, Message, Runtime
from reenact.events import Envelope, Response, ToolCall, ToolResult
from reenact.loop import AgentContext, AgentState, CallLLM, Finish, LLMResult, RequestHumanApprove


def arguments(runtime: Runtime) -> None:
    runtime.events.on("tool_started", lambda event: print(event.data.name, event.data.input["path"]))
    runtime.events.on("tool_edited", lambda event: show({**event.data.original, **event.data.edited}))
    for event in runtime.events.stream("talk"):
        if event.type == "tool_started":
            given = event.data.input
            show(given)
            print(json.dumps(given), len(given), [f"{name}={value}" for name, value in given.items()])
            path = given["path"]
            if isinstance(path, str):
                print(path.upper())
            match given:
                case {"path": str(name), "lines": [*lines]}:
                    print(name.upper(), len(lines))
                case {"limit": int(limit)}:
                    print(limit + 1)
                case _:
                    pass
            edits = given.get("edits", [])
            if isinstance(edits, list):
                print([edit["old"] for edit in edits if isinstance(edit, dict)])
            print(given["path"].upper())  # type: ignore[union-attr]  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess, reportUnknownMemberType, reportUnknownArgumentType]
            given["path"] = "other"  # type: ignore[index]  # pyright: ignore[reportIndexIssue]


def show(values: Mapping[str, object]) -> None:
    print(values.get("path"))


def result(event: Envelope[ToolResult]) -> str:
    match event.data.result:
        case str(text):
            return text
        case {"found": [first, *_]}:
            return f"{first}"
        case other:
            return json.dumps(other)


def call(event: Envelope[ToolCall]) -> None:
    if isinstance(event.data.input, dict):
        print(event.data.input["path"])


def decisions(runtime: Runtime) -> None:
    corrected: dict[str, str] = {"to": "ann"}
    for waiting in runtime.agents.pending():
        runtime.agents.approve(waiting, arguments={**waiting.arguments, "to": "bob", "cc": ["ann"]})
        runtime.agents.approve(waiting, arguments=corrected)
        runtime.agents.respond(waiting, input(waiting.prompt or ""))
        runtime.agents.respond(waiting, [option.value for option in waiting.options or ()])
        runtime.agents.approve(waiting, arguments={"to": object()})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]


def replies(runtime: Runtime) -> None:
    data: dict[str, object] = {"name": "home"}
    response = runtime.request("container_create_request", data)
    assert_type(response.data, Response)
    assert_type(msgspec.convert(response.data.result, ContainerInfo), ContainerInfo)
    match response.data.result:
        case {"id": str(id_)}:
            print(id_.upper())
        case _:
            print(response.data.error)


def spent(messages: list[Message]) -> int:
    counts = (message.usage.get("output_tokens") for message in messages if message.usage is not None)
    return sum(count for count in counts if isinstance(count, int))


def image() -> Image:
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
    rules = {"tools": {"*": {"mode": "required", "rules": [{"when": {"path": "src/**"}, "mode": "never"}]}}}
    return Image(tools=(show, "bash", search), policies=rules)


class Clerk:
    """Runs the loop."""

    def runner(self, context: AgentContext, state: AgentState) -> CallLLM | RequestHumanApprove | Finish:
        if context.phase != "llm_result":
            return CallLLM({"model": "small", "messages": state.messages})
        calls = context.payload["tool_calls"]
        return RequestHumanApprove(calls) if calls else Finish("answered")


def answers(state: AgentState) -> list[str]:
    return [str(event.result["content"]) for event in state.events if isinstance(event, LLMResult)]
