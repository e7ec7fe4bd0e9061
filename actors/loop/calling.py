"""Calling functions of others, async or not: what blocks gets a thread of its own, and a cancellation goes through."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from reenact.actors.environment.tools.running import EscapedError
from reenact.domain.errors import ReenactError
from reenact.domain.loop.growing import is_iterable


@dataclass(frozen=True)
class Failure:
    """What a function raised."""

    error: BaseException


class AbortedError(ReenactError):
    """A function of others has tried to end the process, or cancelled itself."""

    code = "aborted"


async def call(function: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401 - as the function returns
    """Return what the function returns, awaited if it can be; it runs where the loop runs."""
    returned = function(*arguments)
    return await returned if inspect.isawaitable(returned) else returned


async def outcome(call: Awaitable[Any]) -> Any:  # noqa: ANN401 - as it comes
    """Return what this comes to, or its `Failure`; only the cancellation of the task itself is raised.

    `SystemExit` is a failure too: a function does not decide whether the process goes on.
    """
    try:
        return await call
    except asyncio.CancelledError as cancelled:
        if _is_cancelled():
            raise
        return Failure(_told(AbortedError("it cancelled itself"), cancelled))
    except EscapedError as escaped:
        return _aborted(escaped.error)
    except SystemExit as exit_:
        return _aborted(exit_)
    except Exception as error:  # noqa: BLE001 - it may be anybody's
        return Failure(error)


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


def _is_async(value: object) -> TypeGuard[AsyncIterable[object]]:
    return isinstance(value, AsyncIterable)


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


def _aborted(error: BaseException) -> Failure:
    """Return the failure for what would have ended the loop, or could not even be raised in it."""
    if isinstance(error, SystemExit):
        return Failure(_told(AbortedError(f"it called for the end of the process, with {error.code!r}"), error))
    return Failure(_told(RuntimeError(f"the function raised {type(error).__name__}"), error))


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _told(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error
