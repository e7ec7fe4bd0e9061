"""The terminal for asyncio answers as the blocking one does, keeps its loop free, and leaves nothing when cancelled."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from reenact.terminal.errors import ExpectationError, TerminalTestErrorType, WaitTimeoutError
from reenact.terminal.session.emulator import AsyncTerminalEmulator, TerminalEmulator
from reenact.terminal.session.spawning import ExitStatus
from tests.terminal.raising import raises
from tests.terminal.session.programs import CAT, RAW_CAT, RAW_SLEEP, READY, exists, holdings, shell


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run the test on a loop of its own, which leaves what it found."""
    before = holdings()
    asyncio.run(test())
    assert holdings() == before


def test_a_program_is_driven_as_by_the_blocking_terminal() -> None:
    async def test() -> None:
        async with AsyncTerminalEmulator(CAT, cols=40) as terminal:
            await terminal.send_line("Hello")
            assert await terminal.wait_for("Hello\nHello\n") == "Hello\r\nHello\r\n"
            await terminal.send_key("x")
            screen = await terminal.wait_until(lambda screen: screen.cursor.column == 1, what="the cursor behind x")
            assert (screen.columns, screen.lines[2]) == (40, "x")
            await terminal.wait_idle(0.01)
            await terminal.expect_cursor(2, 1)
            await terminal.paste("yz")
            assert await terminal.wait_for(re.compile("y(z)")) == "xyz"
            assert terminal.match is not None
            terminal.resize(50, 10)
            assert terminal.screen.columns == 50
            await terminal.write("\x03")
            assert await terminal.wait_for_exit() == ExitStatus(signal=2)
            with raises(TerminalTestErrorType.PROCESS_EXITED):
                await terminal.wait_for("more")
        assert terminal.get_stripped_output().startswith("Hello")

    run(test)


def test_both_terminals_have_the_same_methods() -> None:
    blocking, awaited = (
        {name for name in dir(terminal) if not name.startswith("_")}
        for terminal in (TerminalEmulator, AsyncTerminalEmulator)
    )

    assert blocking == awaited


def test_waits_that_are_too_long_end() -> None:
    async def test() -> None:
        async with AsyncTerminalEmulator(RAW_SLEEP, timeout=0.05) as terminal:
            await terminal.wait_for(READY, 60)
            waits: list[Callable[[], Awaitable[object]]] = [
                lambda: terminal.wait_for("never"),
                lambda: terminal.wait_for("never", 0),
                lambda: terminal.wait_idle(10),
                lambda: terminal.wait_until(lambda _: False, what="what never is"),
                lambda: terminal.write(b"x" * 1_000_000),
            ]
            for wait in waits:
                with pytest.raises(WaitTimeoutError):
                    await wait()
            assert terminal.is_running
            with pytest.raises(WaitTimeoutError):
                await terminal.wait_for_exit()
            assert terminal.exit_status == ExitStatus(signal=1)

    run(test)


def test_many_wait_at_once_on_one_loop() -> None:
    async def talk(number: int) -> str:
        async with AsyncTerminalEmulator(CAT) as terminal:
            await terminal.send_line(f"I am {number}.")
            return await terminal.wait_for(f"{number}.\nI am {number}.")

    async def test() -> None:
        said = await asyncio.gather(*(talk(number) for number in range(10)))

        assert said == [f"I am {number}.\r\nI am {number}." for number in range(10)]

    run(test)


def test_two_wait_for_one_program() -> None:
    async def test() -> None:
        async with AsyncTerminalEmulator(RAW_CAT) as terminal:
            await terminal.wait_for(READY)
            waiting = [asyncio.create_task(terminal.wait_for(";")) for _ in range(2)]
            await asyncio.sleep(0)
            await terminal.write("a;b;")

            assert sorted(await asyncio.gather(*waiting)) == ["a;", "b;"]

    run(test)


def test_a_wait_that_is_cancelled_leaves_nothing() -> None:
    async def test() -> None:
        async with AsyncTerminalEmulator(RAW_CAT) as terminal:
            await terminal.wait_for(READY)
            waiting = asyncio.create_task(terminal.wait_for("later"))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert terminal._started().changes._listeners == []

            await terminal.write("later")
            assert await terminal.wait_for("later") == "later"

    run(test)


def test_a_write_that_is_cancelled_goes_no_further() -> None:
    async def test() -> None:
        async with AsyncTerminalEmulator(RAW_SLEEP) as terminal:
            await terminal.wait_for(READY)
            writing = asyncio.create_task(terminal.write(b"x" * 1_000_000))
            while terminal.recording.events[-1].code != "i":  # noqa: ASYNC110 - a recording tells nobody
                await asyncio.sleep(0.001)
            writing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await writing

            assert not terminal._started()._outbox

    run(test)


def test_a_start_that_is_cancelled_has_not_happened() -> None:
    async def test() -> None:
        terminal = AsyncTerminalEmulator(CAT)
        starting = asyncio.create_task(terminal.start())
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

        assert not terminal.is_running
        assert terminal.pid is None or not exists(terminal.pid)

    run(test)


def test_an_end_that_is_cancelled_is_an_end() -> None:
    async def test() -> None:
        terminal = await AsyncTerminalEmulator(CAT).start()
        ending = asyncio.create_task(terminal.dispose())
        await asyncio.sleep(0)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending

        assert terminal.exit_status is not None

    run(test)


def test_the_loop_goes_on_while_a_program_is_ended() -> None:
    async def test() -> None:
        turns = 0
        terminal = AsyncTerminalEmulator(shell("trap '' HUP; echo ready; exec sleep 60"))
        async with terminal:
            await terminal.wait_for("ready")
            ending = asyncio.create_task(terminal.dispose())
            while not ending.done():
                await asyncio.sleep(0.005)
                turns += 1

        assert turns > 10

    run(test)


def test_what_cannot_be_started_raises() -> None:
    async def test() -> None:
        with raises(TerminalTestErrorType.PROCESS_START_FAILED):
            async with AsyncTerminalEmulator("no-such-command"):
                pass

    run(test)


def test_things_on_the_screen_are_located_and_waited_for() -> None:
    async def test() -> None:
        script = r"read line; printf 'plain \033[1mbold\033[m plain'; exec sleep 60"
        async with AsyncTerminalEmulator(shell(script)) as terminal:
            bold = terminal.get_by_text("bold")
            assert not bold.is_visible()
            await terminal.send_line("")

            assert await bold.text() == "bold"
            assert (await bold.row(), await bold.column()) == (1, 6)
            assert (await bold.style()).bold
            assert [cell.text for cell in await terminal.get_by_style(bold=True).cells()] == ["b", "o", "l", "d"]
            plain = terminal.get_by_text("plain")
            await plain.expect_count(2)
            await plain.last.expect_cursor()
            assert await plain.nth(0).in_row(1).column() == await plain.first.column() == 0
            assert plain.count() == len(plain.matches()) == 2
            await bold.expect_visible()
            await bold.expect_text("bold")
            await bold.expect_style(bold=True)
            await terminal.get_by_text("nothing").expect_hidden()
            with pytest.raises(ExpectationError, match="2 times"):
                await plain.expect_visible()
            with pytest.raises(ExpectationError, match="italic"):
                await bold.expect_style(0.01, italic=True)
            assert "bold" in str(bold)

    run(test)


def ignore(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    pass


def test_a_loop_that_was_closed_is_not_woken() -> None:
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(ignore)  # it is told of tasks that are forgotten
    terminal = AsyncTerminalEmulator(CAT)
    loop.run_until_complete(terminal.start())
    waiting = [loop.create_task(terminal.wait_for("never"))]
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()

    terminal._dispose()

    assert terminal.exit_status is not None
    assert terminal._started().failure is None
    waiting.clear()
    gc.collect()


def test_what_was_expected_of_a_program_that_has_ended_is_an_expectation() -> None:
    async def test() -> None:
        async with AsyncTerminalEmulator("/usr/bin/printf", ["Hello"]) as terminal:
            with pytest.raises(ExpectationError, match="it is not there"):
                await terminal.get_by_text("Bye").expect_visible()
            with raises(TerminalTestErrorType.PROCESS_EXITED):
                await terminal.get_by_text("Bye").text()

    run(test)
