"""Calls runners, executors, models and tools, async or not: a tool that blocks gets a thread of its own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeAlias, TypeGuard

import msgspec

from reenact.actors.environment.tools.running import EscapedError, in_thread
from reenact.actors.loop.config import Tool, cost_of, is_described
from reenact.domain.errors import ReenactError
from reenact.domain.loop.calls import ToolCall
from reenact.domain.loop.events import ToolResult
from reenact.domain.loop.faults import ToolNotFoundError, ToolTimeoutError, info_of
from reenact.domain.loop.values import frozen, is_iterable, thawed


class AbortedError(ReenactError):
    """A function of others has tried to end the process, or cancelled itself."""

    code = "aborted"


async def call(function: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401 - as the function returns
    """Return what the function returns, awaited if it can be; it runs where the loop runs."""
    returned = function(*arguments)
    return await returned if inspect.isawaitable(returned) else returned


async def guarded(call: Awaitable[Any]) -> Any:  # noqa: ANN401 - as it comes
    """Return what this comes to; only a cancellation of the task itself, and no other end of it, gets through.

    Raises:
        Exception: what was raised, also in the place of `SystemExit`: a function does not decide whether the process
            goes on.
    """
    try:
        return await call
    except asyncio.CancelledError as cancelled:
        task = asyncio.current_task()
        if task is not None and task.cancelling() > 0:
            raise
        raise AbortedError("it cancelled itself") from cancelled
    except EscapedError as escaped:
        raise _aborted(escaped.error) from escaped.error
    except SystemExit as exit_:
        raise _aborted(exit_) from exit_


async def chunks(answer: object) -> AsyncIterator[object]:
    """Yield what a model yields, whether it is asked in an async way or not."""
    told: object = await answer if inspect.isawaitable(answer) else answer
    if _is_async(told):
        try:
            async for chunk in told:
                yield chunk
        finally:
            close = getattr(told, "aclose", None)
            if close is not None:
                await close()
    elif is_iterable(told) and not isinstance(told, Mapping | str | bytes):
        for chunk in told:
            yield chunk
    else:
        yield told


def takes_context(runner: Callable[..., Any]) -> bool:
    """Return whether a runner takes `(context, state)`, and not `(state)` only."""
    try:
        parameters = list(inspect.signature(runner).parameters.values())
    except (TypeError, ValueError):
        return True
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters):
        return True
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    first, second = [*(each for each in parameters if each.kind in places), None, None][:2]
    if first is None or second is None:
        return False
    return second.default is inspect.Parameter.empty or second.name == "state"


Ran: TypeAlias = tuple[ToolResult, Exception | None]
"""What the model is told of a call, and why it failed, if it did."""


async def run(tools: Mapping[str, Tool], call: ToolCall) -> Ran:
    """Return what the call came to; only a cancellation is raised."""
    tool = tools.get(call.name)
    if tool is None:
        failure: Exception = ToolNotFoundError(call.name)
        return ToolResult(id=call.id, name=call.name, result=str(failure), is_error=True, ran=False), failure
    cost = cost_of(tool)
    answer = ToolResult(id=call.id, name=call.name, cost=None if cost is None else float(cost))
    try:
        result = frozen(await guarded(_limited(tool, call)), what=f"what {call.name} returned", finite=True)
    except Exception as error:  # noqa: BLE001 - a tool may raise anything
        return msgspec.structs.replace(answer, result=info_of(error).message, is_error=True), error
    return msgspec.structs.replace(answer, result=result), None


def _is_async(value: object) -> TypeGuard[AsyncIterable[object]]:
    return isinstance(value, AsyncIterable)


def _aborted(error: BaseException) -> Exception:
    """Return the error for what would have ended the loop, or could not even be raised in it."""
    if isinstance(error, SystemExit):
        return AbortedError(f"it called for the end of the process, with {error.code!r}")
    return RuntimeError(f"the function raised {type(error).__name__}")


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
    arguments = {name: thawed(value) for name, value in call.input.items()}
    function = tool.run if is_described(tool) else tool
    assert callable(function)  # the agent is checked
    if inspect.iscoroutinefunction(function):
        return await function(arguments)
    returned = await in_thread(partial(function, arguments), "reenact-tool")
    return await returned if inspect.isawaitable(returned) else returned
