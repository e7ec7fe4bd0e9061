"""Guards by their names: whatever a function does, it lets pass or refuses."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from reenact import ConfigurationError, Guard, GuardInput, guard
from reenact.actors.environment.guards import TIMEOUT, GuardRegistry
from reenact.domain.guards import GuardChecked
from reenact.domain.messages import TextBlock
from reenact.domain.session.guarding import Question

ABOUT = GuardInput(point="message", session_id="s", image_id="i", content=(TextBlock("Hello"), TextBlock(" you")))


def said(*guards: object, names: tuple[str, ...] = ()) -> list[tuple[str, str, str]]:
    registry = GuardRegistry(guards)
    questions = [Question(name, ABOUT) for name in names or [g.name for g in guards if isinstance(g, Guard)]]
    checked: tuple[GuardChecked, ...] = asyncio.run(registry.ask(questions))
    return [(one.name, one.verdict, one.reason) for one in checked]


@guard
def polite(about: GuardInput) -> str | None:
    return None if about.text == "Hello you" else "rude"


@guard(name="strict", timeout=1)
async def strictly(about: GuardInput) -> str | None:
    return f"it says {about.text}"


def test_a_guard_lets_pass_or_refuses_with_a_reason() -> None:
    assert said(polite, strictly) == [("polite", "passed", ""), ("strict", "refused", "it says Hello you")]


def test_a_guard_is_its_function_and_a_function_is_a_guard_under_its_name() -> None:
    def plain(_: GuardInput) -> None:
        return None

    assert polite(ABOUT) is None
    assert (polite.name, polite.timeout, strictly.name, strictly.timeout) == ("polite", TIMEOUT, "strict", 1)
    assert repr(polite) == "<guard polite>"
    assert said(plain, names=("plain",)) == [("plain", "passed", "")]


def raises(error: BaseException) -> Callable[[GuardInput], str | None]:
    def function(_: GuardInput) -> str | None:
        raise error

    return function


def returns(value: Any) -> Callable[[GuardInput], str | None]:  # noqa: ANN401 - what a guard must not return, too
    return lambda _: value


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (raises(KeyError("x")), "it raised KeyError: 'x'"),
        (raises(SystemExit(1)), "it raised SystemExit: 1"),
        (raises(StopIteration()), "it raised StopIteration"),
        (returns(""), "it gives no reason"),
        (returns(True), "it returned a value of type bool; a guard returns None, or why it refuses"),  # noqa: FBT003
        (returns("\ud800 no"), "\\ud800 no"),
        (returns("x" * 5000), "x" * 2000),
    ],
)
def test_whatever_goes_wrong_refuses(function: Callable[[GuardInput], str | None], reason: str) -> None:
    assert said(guard(function, name="g")) == [("g", "refused", reason)]


def test_a_guard_that_takes_too_long_refuses_and_harms_no_other() -> None:
    free = threading.Event()

    @guard(timeout=0.05)
    def hangs(_: GuardInput) -> None:
        free.wait(60)

    @guard(timeout=0.05)
    async def waits(_: GuardInput) -> None:
        await asyncio.get_running_loop().create_future()

    try:
        told = said(hangs, waits, polite)
    finally:
        free.set()

    late = "it has not answered within 0.05 s"
    assert told == [("hangs", "refused", late), ("waits", "refused", late), ("polite", "passed", "")]


def test_a_guard_that_cancels_itself_refuses() -> None:
    @guard
    async def gives_up(_: GuardInput) -> None:
        raise asyncio.CancelledError

    assert said(gives_up) == [("gives_up", "refused", "it raised CancelledError: it cancelled itself")]


def test_a_guard_that_nobody_has_given_refuses() -> None:
    (refused,) = said(polite, names=("stranger",))

    assert refused == (
        "stranger",
        "refused",
        "there is no guard of this name here; give it to Runtime.open(guards=[…])",
    )


def test_a_plain_function_runs_on_a_thread_of_its_own_and_a_coroutine_on_the_loop() -> None:
    threads: list[str] = []

    @guard
    def plain(_: GuardInput) -> None:
        threads.append(threading.current_thread().name)

    @guard
    async def coroutine(_: GuardInput) -> None:
        threads.append(threading.current_thread().name)

    said(plain, coroutine)

    assert sorted(threads) == sorted([threading.current_thread().name, "reenact-guard-plain"])


def test_a_function_that_returns_an_awaitable_is_awaited() -> None:
    async def later() -> str | None:
        return "no"

    def function(_: GuardInput) -> Awaitable[str | None]:
        return later()

    assert said(guard(function, name="g")) == [("g", "refused", "no")]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ((3,), "a guard must be a function, not 3"),
        ((Guard,), "a guard must be a function, not <class"),
        ((polite, guard(returns(None), name="polite")), "two guards are named 'polite'"),
        (polite, "guards must be a list of functions, not <guard polite>"),
    ],
)
def test_what_is_no_guard_is_told_at_once(given: Any, problem: str) -> None:  # noqa: ANN401 - likewise
    with pytest.raises(ConfigurationError, match=problem):
        GuardRegistry(given)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, None])
def test_a_guard_has_a_time(timeout: Any) -> None:  # noqa: ANN401 - likewise
    with pytest.raises(ConfigurationError, match="give it a number above zero"):
        guard(returns(None), name="g", timeout=timeout)
