"""Guards: the user's own functions that let things pass or refuse them, by their names."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from math import isfinite
from typing import TypeAlias, TypeGuard, overload

from reenact.actors.environment.tools.outcome import error_text
from reenact.actors.environment.tools.running import EscapedError, ExpiredError, awaited, in_thread, within
from reenact.domain.errors import ConfigurationError
from reenact.domain.guards import GuardChecked, GuardInput
from reenact.domain.messages import check_text
from reenact.domain.plain import is_sequence
from reenact.domain.session.guarding import Question

GuardFunction: TypeAlias = Callable[[GuardInput], str | None] | Callable[[GuardInput], Awaitable[str | None]]
"""Returns None to let its input pass, or the reason for which it refuses it."""
TIMEOUT = 10.0
"""Seconds that a guard may take, unless it has a timeout of its own."""
LONGEST_REASON = 2000
"""Characters of a reason that are recorded."""
_log = logging.getLogger("reenact.guards")


class Guard:
    """A function that lets things pass or refuses them, with the name by which images refer to it. Made by `guard`.

    Calling it calls the function.
    """

    def __init__(self, function: GuardFunction, name: str, timeout: float) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.name = name
        self.timeout = timeout
        self._is_async = inspect.iscoroutinefunction(function)

    def __call__(self, about: GuardInput) -> str | Awaitable[str | None] | None:
        return self.function(about)

    def __repr__(self) -> str:
        return f"<guard {self.name}>"

    async def refusal(self, about: GuardInput) -> str | None:
        """Return the reason for which the guard refuses, or None if it lets pass; an error or a timeout refuses too.

        A coroutine function runs on this loop, any other function on a thread of its own. When the time is over, the
        thread goes on, and its result is dropped.
        """
        try:
            said = await within(self.timeout, self._call_function(about))
        except ExpiredError:
            return f"it has not answered within {self.timeout:g} s"
        except Exception as error:  # noqa: BLE001 - it is logged, and recorded
            raised = error.error if isinstance(error, EscapedError) else error
            _log.warning("guard %s has failed", self.name, exc_info=raised, extra={"guard": self.name})
            return _recordable(f"it raised {error_text(raised)}")
        if said is None:
            return None
        if isinstance(said, str):
            return _recordable(said) or "it gives no reason"
        return f"it returned a value of type {type(said).__name__}; a guard returns None, or why it refuses"

    async def _call_function(self, about: GuardInput) -> object:
        call = partial(self.function, about)
        said: object = call() if self._is_async else await in_thread(call, f"reenact-guard-{self.name}")
        return await awaited(said) if inspect.isawaitable(said) else said


@overload
def guard(function: GuardFunction, /, *, name: str | None = None, timeout: float = TIMEOUT) -> Guard: ...
@overload
def guard(*, name: str | None = None, timeout: float = TIMEOUT) -> Callable[[GuardFunction], Guard]: ...
def guard(
    function: GuardFunction | None = None, /, *, name: str | None = None, timeout: float = TIMEOUT
) -> Guard | Callable[[GuardFunction], Guard]:
    """Make a function a guard: `@guard`, `@guard(timeout=3)`, or `guard(function, name="polite")`.

    The function receives a `GuardInput`, and returns None to let it pass, or the reason for which it refuses. It may
    take `timeout` seconds; a guard that does not answer in time refuses, and so does one that raises.

    Raises:
        ConfigurationError: it is not a function, or the name or the timeout is not valid.
    """
    if function is None:
        return lambda function: _new_guard(function, name, timeout)
    return _new_guard(function, name, timeout)


def as_guard(one: object) -> Guard:
    """Return the guard, or make the function one; raise `ConfigurationError` if it is neither."""
    if isinstance(one, Guard):
        return one
    return _new_guard(one, None, TIMEOUT)


class GuardRegistry:
    """The guards that images can refer to."""

    def __init__(self, guards: Sequence[object] = ()) -> None:
        """Register guards and functions; functions are registered by their own names.

        Raises:
            ConfigurationError: one is not a guard, or two have the same name.
        """
        given: object = guards
        if not is_sequence(given):
            raise ConfigurationError(f"guards must be a list of functions, not {given!r:.100}")
        self._guards: dict[str, Guard] = {}
        for one in map(as_guard, given):
            if self._guards.setdefault(one.name, one) is not one:
                raise ConfigurationError(f"two guards are named {one.name!r}; give one another name: @guard(name=…)")

    async def ask(self, questions: Sequence[Question]) -> tuple[GuardChecked, ...]:
        """Ask all guards concurrently, and return their verdicts. Raises nothing but cancellation."""
        reasons = await asyncio.gather(*map(self._refusal, questions))
        return tuple(question.verdict(reason) for question, reason in zip(questions, reasons, strict=True))

    async def _refusal(self, question: Question) -> str | None:
        known = self._guards.get(question.name)
        if known is None:
            return "there is no guard of this name here; give it to Runtime.open(guards=[…])"
        return await known.refusal(question.about)


def _new_guard(function: object, name: str | None, timeout: float) -> Guard:
    if not _is_function(function):
        raise ConfigurationError(f"a guard must be a function, not {function!r:.100}")
    called = check_text("the name of a guard", getattr(function, "__name__", "") if name is None else name)
    if type(timeout) not in {int, float} or not (timeout > 0 and isfinite(timeout)):
        raise ConfigurationError(f"guard {called!r} has {timeout!r} seconds; give it a number above zero")
    return Guard(function, called, timeout)


def _is_function(one: object) -> TypeGuard[GuardFunction]:
    return callable(one) and not isinstance(one, type)


def _recordable(reason: str) -> str:
    """Return the reason in text that a log can store, cut to the longest that is recorded."""
    return reason.encode("utf-8", "backslashreplace").decode()[:LONGEST_REASON].strip()
