"""A toolbox runs what the model asks for: whatever a tool does, there is an outcome, and nothing else is held up."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from reenact.actors.environment.tools import running
from reenact.actors.environment.tools.arguments import ToolContext
from reenact.actors.environment.tools.outcome import ToolOutcome
from reenact.actors.environment.tools.running import in_thread
from reenact.actors.environment.tools.tool import tool
from reenact.actors.environment.tools.toolbox import Toolbox
from reenact.domain.errors import ConfigurationError
from reenact.domain.tools import ToolSpec
from reenact.testing import wait_until
from tests.environment.tools.support import Invocation, call_all

T = TypeVar("T")
SOON = 0.05
"""Seconds that a tool is given which takes longer."""
PATIENCE = 60.0


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine on a loop whose complaints fail the test."""
    complaints: list[dict[str, Any]] = []

    async def listening() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        result = await work
        gc.collect()
        return result

    result = asyncio.run(listening())
    assert complaints == []
    return result


@tool
def double(number: int) -> int:
    """Return the double."""
    return 2 * number


@tool
async def triple(number: int) -> dict[str, int]:
    await asyncio.sleep(0)
    return {"triple": 3 * number}


@tool
def fail(why: str) -> None:
    raise ValueError(why)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What holds up tools until the test is over."""
    gate = threading.Event()
    yield gate
    gate.set()


def test_a_call_has_an_outcome_and_took_some_time() -> None:
    async def go() -> list[ToolOutcome]:
        box = Toolbox([double, triple])
        return [await box.call("double", {"number": 2}), await box.call("triple", {"number": 2})]

    plain, later = run(go())

    assert (plain.content, plain.result, plain.is_error) == ("4", 4, False)
    assert (later.content, later.result, later.is_error) == ('{"triple":6}', {"triple": 6}, False)
    assert 0 < plain.duration < PATIENCE


def test_the_model_is_told_of_tools_in_the_order_in_which_they_were_given() -> None:
    box = Toolbox([triple, double, fail])

    assert [spec.name for spec in box.specs()] == ["triple", "double", "fail"]
    assert box.specs() == (triple.spec, double.spec, fail.spec)
    assert box.get("double") is double
    assert box.get("quadruple") is None


def test_a_plain_function_is_made_a_tool() -> None:
    def quadruple(number: int) -> int:
        """Return four times the number."""
        return 4 * number

    box = Toolbox([quadruple])

    assert box.specs()[0].description == "Return four times the number."
    assert run(box.call("quadruple", {"number": 2})).content == "8"


@pytest.mark.parametrize("other", [double, tool(name="double")(fail.function), ToolSpec(name="double")])
def test_two_tools_of_one_name_are_refused(other: Any) -> None:  # noqa: ANN401 - whatever can be offered
    if other is double:
        assert len(Toolbox([double, other]).specs()) == 1
        return
    with pytest.raises(ConfigurationError, match="two tools are named 'double'; give one of them another name"):
        Toolbox([double, other])


class Things:
    @tool
    def look(self) -> str:
        return "things"

    def touch(self) -> str:
        return "touched"


@pytest.mark.parametrize("method", [Things.look, Things.touch], ids=["decorated", "plain"])
def test_a_method_without_its_instance_is_refused_at_once(method: Callable[..., str]) -> None:
    with pytest.raises(ConfigurationError, match=r"tool (look|touch) is a method: give the one of an instance"):
        Toolbox([method])

    assert run(Toolbox([Things().look]).call("look", {})).content == "things"
    assert run(Toolbox([Things().touch]).call("touch", {})).content == "touched"


def test_what_is_no_tool_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'double' is not a tool"):
        Toolbox(["double"])  # type: ignore[list-item] # pyright: ignore[reportArgumentType] - a mistake


def test_a_tool_without_its_function_is_told_of_and_cannot_be_run() -> None:
    box = Toolbox([ToolSpec(name="look")])

    outcome = run(box.call("look", {}))

    assert [spec.name for spec in box.specs()] == ["look"]
    assert (outcome.content, outcome.is_error) == ("look cannot be run: the function behind it is not there", True)


def test_an_unknown_tool_is_an_error_that_names_those_there_are() -> None:
    assert run(Toolbox([double, fail]).call("look", {})).content == "Tool not found: look; there are: double, fail"
    assert run(Toolbox().call("look", {})).content == "Tool not found: look; there are: none"


def test_arguments_that_do_not_fit_are_an_error_that_the_model_can_mend() -> None:
    outcome = run(Toolbox([double]).call("double", {"number": "2"}))

    assert (outcome.is_error, outcome.content) == (True, "double: argument `number` must be of type integer; got '2'")
    assert outcome.result == outcome.content


def test_what_a_tool_raises_is_told_without_a_traceback_and_logged_with_it(caplog: pytest.LogCaptureFixture) -> None:
    outcome = run(Toolbox([fail]).call("fail", {"why": "no such city"}))

    (record,) = [record for record in caplog.records if record.name == "reenact.tools"]
    assert (outcome.is_error, outcome.content) == (True, "ValueError: no such city")
    assert (record.levelno, record.getMessage()) == (logging.WARNING, "tool fail has failed")
    assert record.exc_info is not None
    assert record.exc_text is None or "raise ValueError(why)" in record.exc_text


def raises(error: BaseException) -> list[Callable[[], object]]:
    """Return functions, plain and not, that raise the error."""

    def plain() -> None:
        raise error

    async def later() -> None:
        raise error

    def soon() -> Awaitable[None]:
        return later()

    return [plain, later, soon]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit("enough"), "GeneratorExit: enough"),
        (asyncio.CancelledError("I give up"), "CancelledError: "),
        (TimeoutError("too slow"), "TimeoutError: too slow"),
        (RecursionError("deep"), "RecursionError: deep"),
        (ExceptionGroup("many", [ValueError("a")]), "ExceptionGroup: many (1 sub-exception)"),
    ],
    ids=repr,
)
def test_nothing_that_a_tool_raises_ends_the_loop(error: BaseException, words: str) -> None:
    async def go(function: Callable[[], object]) -> tuple[ToolOutcome, ToolOutcome]:
        box = Toolbox([tool(function, name="odd"), double])
        return await box.call("odd", {}), await box.call("double", {"number": 1})

    for function in raises(error):
        odd, after = run(go(function))
        assert odd.is_error
        assert str(odd.content).startswith(words)
        assert after.content == "2"


def test_stop_iteration_is_an_error_like_any_other() -> None:
    plain, *_ = raises(StopIteration("over"))

    assert run(Toolbox([tool(plain, name="odd")]).call("odd", {})).content == "StopIteration: over"


def test_a_result_that_cannot_be_sent_is_an_error() -> None:
    def look() -> bytes:
        return b"x"

    outcome = run(Toolbox([look]).call("look", {}))

    assert outcome.is_error
    assert "look returned a result of type bytes" in str(outcome.content)


def test_a_result_that_is_too_long_is_cut() -> None:
    def look() -> str:
        return "x" * 100

    outcome = run(Toolbox([look], max_output=10).call("look", {}))

    assert outcome.content == "xxxxxxxxxx\n[cut here: 90 of 100 bytes are left out]"


def test_a_tool_is_told_whose_call_it_runs() -> None:
    def who(ctx: ToolContext) -> str:
        return ctx.call_id

    box = Toolbox([who])

    assert run(box.call("who", {}, ToolContext(call_id="toolu_1"))).content == "toolu_1"
    assert run(call_all(box, [Invocation("who", {}, ToolContext(call_id="toolu_2"))]))[0].content == "toolu_2"


def test_a_coroutine_that_takes_too_long_is_cancelled_and_cleans_up() -> None:
    cleaned: list[str] = []

    async def sleep() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("up")

    outcome = run(Toolbox([tool(sleep, timeout=SOON)]).call("sleep", {}))

    assert (outcome.is_error, outcome.content) == (True, "sleep did not finish within 0.05 s")
    assert cleaned == ["up"]


@pytest.mark.parametrize("waits", [False, True])
def test_a_thread_that_takes_too_long_is_left_and_its_late_result_is_dropped(
    gate: threading.Event,
    waits: bool,  # noqa: FBT001 - two cases
) -> None:
    threads: list[threading.Thread] = []

    async def never() -> None: ...

    def sleep() -> Coroutine[Any, Any, None] | str:
        threads.append(threading.current_thread())
        gate.wait()
        return never() if waits else "late"  # nobody is there to wait for it

    async def go() -> tuple[ToolOutcome, ToolOutcome]:
        box = Toolbox([tool(sleep, timeout=SOON), double])
        outcome, after = await box.call("sleep", {}), await box.call("double", {"number": 1})
        gate.set()
        await in_thread(lambda: wait_until(lambda: threads)[0].join(PATIENCE), "the test")
        await asyncio.sleep(0)
        return outcome, after

    outcome, after = run(go())

    assert (outcome.content, after.content) == ("sleep did not finish within 0.05 s", "2")


def test_a_result_that_comes_when_the_loop_is_gone_is_dropped(gate: threading.Event) -> None:
    def sleep() -> str:
        gate.wait()
        return "late"

    before = set(threading.enumerate())
    outcome = run(Toolbox([sleep]).call("sleep", {}, timeout=SOON))
    (thread,) = set(threading.enumerate()) - before

    gate.set()
    thread.join(PATIENCE)

    assert outcome.is_error
    assert thread.daemon
    assert not thread.is_alive()


@pytest.mark.parametrize(("own", "given"), [(SOON, None), (None, SOON), (SOON, 60.0), (60.0, SOON)])
def test_the_shorter_time_holds(own: float | None, given: float | None) -> None:
    async def sleep() -> None:
        await asyncio.Event().wait()

    outcome = run(Toolbox([tool(sleep, timeout=own)]).call("sleep", {}, timeout=given))

    assert outcome.content == "sleep did not finish within 0.05 s"


def test_a_tool_that_finishes_in_time_does_not_wait_for_it() -> None:
    assert run(Toolbox([double]).call("double", {"number": 1}, timeout=60)).duration < PATIENCE


def test_a_coroutine_that_ignores_its_cancellation_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(running, "CLEANUP_SECONDS", SOON)
    caplog.set_level(logging.DEBUG, "reenact.tools")

    async def go() -> ToolOutcome:
        free = asyncio.Event()

        async def stubborn() -> None:
            while not free.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await free.wait()
            raise ValueError("at last")

        outcome = await Toolbox([stubborn]).call("stubborn", {}, timeout=SOON)
        assert len(running._abandoned) == 1
        free.set()
        await asyncio.wait(running._abandoned)
        await asyncio.sleep(0)
        assert not running._abandoned
        return outcome

    outcome = run(go())

    messages = [record.getMessage() for record in caplog.records]
    assert outcome.content == "stubborn did not finish within 0.05 s"
    assert any("goes on after its cancellation, and is left alone" in message for message in messages)
    assert any("has failed after it was given up" in message for message in messages)


def test_a_coroutine_that_fails_when_it_is_cancelled_has_only_taken_too_long() -> None:
    async def sleep() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("not like that")

    assert run(Toolbox([sleep]).call("sleep", {}, timeout=SOON)).content == "sleep did not finish within 0.05 s"


def test_an_interrupted_call_stops_its_tool_and_is_cancelled() -> None:
    async def go() -> tuple[bool, list[str]]:
        stopped: list[str] = []
        began = asyncio.Event()

        async def sleep() -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopped.append("sleep")
                raise

        call = asyncio.create_task(Toolbox([sleep]).call("sleep", {}))
        await began.wait()
        call.cancel()
        await asyncio.wait([call])
        return call.cancelled(), stopped

    assert run(go()) == (True, ["sleep"])


def test_an_interrupted_call_does_not_wait_for_its_thread(gate: threading.Event) -> None:
    async def go() -> bool:
        began = asyncio.Event()
        loop = asyncio.get_running_loop()

        def sleep() -> None:
            loop.call_soon_threadsafe(began.set)
            gate.wait()

        call = asyncio.create_task(Toolbox([sleep]).call("sleep", {}))
        await began.wait()
        call.cancel()
        await asyncio.wait([call])
        return call.cancelled()

    assert run(go())
    assert not gate.is_set()


def test_calls_at_once_have_their_outcomes_in_the_order_of_the_calls() -> None:
    async def go() -> list[ToolOutcome]:
        second_is_done = asyncio.Event()

        async def first() -> str:
            await second_is_done.wait()
            return "first"

        async def second() -> str:
            second_is_done.set()
            return "second"

        box = Toolbox([first, second, fail, double])
        return await call_all(
            box,
            [
                Invocation("first", {}),
                Invocation("fail", {"why": "no such city"}),
                Invocation("second", {}),
                Invocation("look", {}),
                Invocation("double", {"number": "x"}),
                Invocation("double", {"number": 2}),
                Invocation("first", {}, timeout=PATIENCE),
            ],
        )

    outcomes = run(go())

    assert [outcome.is_error for outcome in outcomes] == [False, True, False, True, True, False, False]
    assert [outcome.content for outcome in outcomes[:3]] == ["first", "ValueError: no such city", "second"]


def test_plain_functions_run_at_once_however_many_there_are() -> None:
    many = 64
    together = threading.Barrier(many)

    def meet() -> int:
        return together.wait(PATIENCE)

    outcomes = run(call_all(Toolbox([meet]), [Invocation("meet", {})] * many))

    assert sorted(int(str(outcome.content)) for outcome in outcomes) == list(range(many))


def test_tools_that_never_return_hold_up_no_other(gate: threading.Event) -> None:
    @tool(timeout=SOON)
    def sleep() -> None:
        gate.wait()

    async def go() -> list[ToolOutcome]:
        box = Toolbox([sleep, double])
        await call_all(box, [Invocation("sleep", {})] * 100)
        return await call_all(box, [Invocation("double", {"number": number}) for number in range(10)])

    started = time.monotonic()
    outcomes = run(go())

    assert [outcome.content for outcome in outcomes] == [str(2 * number) for number in range(10)]
    assert time.monotonic() - started < PATIENCE


def test_interrupting_calls_at_once_interrupts_each() -> None:
    async def go() -> tuple[bool, int]:
        stopped: list[str] = []
        together = asyncio.Barrier(4)

        async def sleep() -> None:
            await together.wait()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append("one")

        calls = asyncio.create_task(call_all(Toolbox([sleep]), [Invocation("sleep", {})] * 3))
        await together.wait()
        calls.cancel()
        await asyncio.wait([calls])
        return calls.cancelled(), len(stopped)

    assert run(go()) == (True, 3)


def test_no_calls_have_no_outcomes() -> None:
    assert run(call_all(Toolbox(), [])) == []


def test_a_toolbox_can_be_used_on_one_loop_after_the_other() -> None:
    box = Toolbox([double, triple])

    assert [run(box.call("triple", {"number": 1})).result for _ in range(2)] == [{"triple": 3}] * 2


def test_a_tool_that_never_returns_does_not_keep_a_process_from_ending() -> None:
    program = """
        import asyncio, threading
        from reenact.actors.environment.tools.toolbox import Toolbox

        def sleep() -> None:
            threading.Event().wait()

        print(asyncio.run(Toolbox([sleep]).call("sleep", {}, timeout=0.05)).content)
    """

    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "sleep did not finish within 0.05 s\n", "")
