"""What tests of tools have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from jsonschema import Draft202012Validator

from reenact.actors.environment.tools.arguments import ToolContext
from reenact.actors.environment.tools.outcome import ToolOutcome
from reenact.actors.environment.tools.toolbox import Toolbox
from reenact.domain.tools import MCPServer

T = TypeVar("T")

PATIENCE = 20.0


class Invocation(NamedTuple):
    """A call that is to be made."""

    name: str
    arguments: Mapping[str, Any]
    context: ToolContext | None = None
    timeout: float | None = None


async def call_all(box: Toolbox, calls: Iterable[Invocation]) -> list[ToolOutcome]:
    """Run several tools at once; return their outcomes in the order of the calls."""
    return await asyncio.gather(
        *(box.call(call.name, call.arguments, call.context, timeout=call.timeout) for call in calls)
    )


async def find_added(box: Toolbox, name: str) -> str:
    """Let the proper server add a tool, connect until it is found, as each turn does, and return its name."""
    await box.call("mcp__proper__grow", {"name": name})
    async with asyncio.timeout(PATIENCE):
        while f"mcp__proper__{name}" not in {spec.name for spec in box.specs()}:
            await asyncio.sleep(0.01)
            await box.connect()
    return name


def run(work: Callable[[Toolbox], Coroutine[Any, Any, T]], *servers: MCPServer) -> T:
    """Run what uses a toolbox with these servers, on a loop whose complaints fail the test."""
    complaints: list[dict[str, Any]] = []

    async def using() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        async with Toolbox(servers) as box:
            return await work(box)

    result = asyncio.run(using())
    assert complaints == []
    return result


def problems_of(*servers: MCPServer) -> dict[str, str]:
    """Return what goes wrong when these are connected."""

    async def connect() -> dict[str, str]:
        box = Toolbox(servers)
        try:
            return {name: str(problem) for name, problem in (await box.connect()).items()}
        finally:
            await box.aclose()

    return asyncio.run(connect())


def fits(schema: Mapping[str, Any], value: object) -> bool:
    """Return whether the schema, which is checked itself, describes the value."""
    Draft202012Validator.check_schema(schema)
    is_valid: Callable[[object], bool] = getattr(Draft202012Validator(schema), "is_valid")  # noqa: B009 - its types are partly unknown
    return is_valid(value)
