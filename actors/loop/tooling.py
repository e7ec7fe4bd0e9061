"""Running the tools of an agent, each so that its siblings do not wait for it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from reenact.actors.environment.tools.running import in_thread
from reenact.actors.loop.calling import Failure, outcome
from reenact.actors.loop.config import Tool, cost_of, is_described
from reenact.domain.errors import InvalidInputError
from reenact.domain.loop.calls import ToolCall
from reenact.domain.loop.events import ToolResult
from reenact.domain.loop.faults import ToolNotFoundError, ToolTimeoutError, info_of
from reenact.domain.loop.values import check_numbers, frozen, thawed


@dataclass(frozen=True)
class Ran:
    """What a call came to: its result or its failure, whether the tool ran for it, and what that cost."""

    call: ToolCall
    result: Any
    failure: BaseException | None
    ran: bool
    cost: float | None

    @property
    def answer(self) -> ToolResult:
        """What the model is told."""
        told = self.result if self.failure is None else info_of(self.failure).message
        return ToolResult(
            id=self.call.id,
            name=self.call.name,
            result=told,
            is_error=self.failure is not None,
            cost=self.cost,
            ran=self.ran,
        )


async def run_all(tools: Mapping[str, Tool], calls: Sequence[ToolCall]) -> list[Ran]:
    """Return what the calls came to, in their order; they run at the same time."""
    return list(await asyncio.gather(*(run(tools, call) for call in calls)))


async def run(tools: Mapping[str, Tool], call: ToolCall) -> Ran:
    """Return what the call came to; only a cancellation is raised."""
    tool = tools.get(call.name)
    if tool is None:
        return Ran(call, None, ToolNotFoundError(call.name), ran=False, cost=None)
    cost = cost_of(tool)
    cost = None if cost is None else float(cost)
    came = await outcome(_limited(tool, call))
    if not isinstance(came, Failure):
        what = f"what {call.name} returned"
        try:
            made = frozen(came, what=what)
            check_numbers(came, what=what)
            return Ran(call, made, None, ran=True, cost=cost)
        except InvalidInputError as broken:
            came = Failure(broken)
    return Ran(call, None, came.error, ran=True, cost=cost)


async def _limited(tool: Tool, call: ToolCall) -> Any:  # noqa: ANN401 - as the tool returns
    seconds = tool.spec.timeout if is_described(tool) else None
    if seconds is None:
        return await _called(tool, call)
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await _called(tool, call)
    except TimeoutError:
        if limit.expired():
            raise ToolTimeoutError(call.name, seconds) from None
        raise


async def _called(tool: Tool, call: ToolCall) -> Any:  # noqa: ANN401 - as the tool returns
    arguments = thawed(call.input)
    function = tool.run if is_described(tool) else tool
    if inspect.iscoroutinefunction(function):
        return await function(arguments)
    returned = await in_thread(partial(function, arguments), "reenact-tool")
    return await returned if inspect.isawaitable(returned) else returned
