"""A program at a terminal for asyncio: the same questions, awaited."""

# ruff: noqa: ASYNC109 - the names and promises are those of the blocking one; the error says what was seen

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar, Unpack

from reenact.terminal.errors import WaitTimeoutError
from reenact.terminal.matching.options import AssertionOptions, Pattern
from reenact.terminal.screen.model import Screen
from reenact.terminal.script.steps import Scope
from reenact.terminal.session.aio_locator import AsyncLocator
from reenact.terminal.session.keys import SpecialKey, encode, paste
from reenact.terminal.session.locator import StyleFields
from reenact.terminal.session.session import Session
from reenact.terminal.session.waiting import Asking, Changes, Pause
from reenact.terminal.status import ExitStatus

T = TypeVar("T")


class AsyncTerminalEmulator(Session):
    """`TerminalEmulator`, with everything awaitable that may wait.

    An `async with` block starts it, if that was not done, and ends it. A wait that is cancelled leaves nothing behind:
    of what was to be written, nothing more goes; of what was looked for, nothing was matched. A start that is cancelled
    has not happened, and an end is an end all the same.
    """

    async def start(self) -> Self:
        """Start the program. Raises what `TerminalEmulator.start` raises."""
        try:
            await _off_the_loop(self._start)
        except asyncio.CancelledError:
            await _off_the_loop(self._dispose)
            raise
        return self

    async def dispose(self) -> None:
        """End the program with all that it has started, and close the terminal. Idempotent."""
        await _off_the_loop(self._dispose)

    async def __aenter__(self) -> Self:
        return self if self._live is not None and not self._is_disposed else await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.dispose()

    async def write(self, data: str | bytes) -> None:
        """Send exactly this. Raises what `TerminalEmulator.write` raises."""
        await self._wait(self._questions.writing(data))

    async def send_line(self, text: str) -> None:
        """Send the text, and press Enter. Raises what `write` raises."""
        await self.write(text + "\r")

    async def paste(self, text: str) -> None:
        """Send the text as if it was pasted. Raises what `write` raises."""
        await self.write(paste(text, self._started().display.modes()))

    async def send_key(
        self, key: SpecialKey | str, *, shift: bool = False, alt: bool = False, ctrl: bool = False
    ) -> None:
        """Press a key. Raises what `TerminalEmulator.send_key` raises."""
        await self.write(encode(key, self._started().display.modes(), shift=shift, alt=alt, ctrl=ctrl))

    async def wait_for(
        self, pattern: str | re.Pattern[str], timeout: float | None = None, *, scope: Scope = "new"
    ) -> str:
        """Wait until the pattern is there, as `TerminalEmulator.wait_for` does, and raise what that raises."""
        return await self._wait(self._questions.finding(pattern, timeout, scope))

    async def wait_idle(self, quiet: float = 0.1, timeout: float | None = None) -> None:
        """Wait until nothing has arrived for `quiet` seconds. Raises what `TerminalEmulator.wait_idle` raises."""
        await self._wait(self._questions.quieting(quiet, timeout))

    async def wait_until(
        self, condition: Callable[[Screen], bool], timeout: float | None = None, *, what: str
    ) -> Screen:
        """Wait until the condition is true of the screen. Raises what `TerminalEmulator.wait_until` raises."""
        return await self._wait(self._questions.seeing(condition, timeout, what))

    async def watch(self, look: Callable[[Screen], T | None], timeout: float | None = None, *, what: str) -> T:
        """Look at the screen whenever it may have changed, until that returns more than None; return it.

        Raises:
            WaitTimeoutError: there was only None in time; `what` says what was looked for.
            TerminalTestError: the program has ended, and there is only None (`PROCESS_EXITED`).
        """
        return await self._wait(self._questions.looking(look, timeout, what))

    async def wait_for_exit(self, timeout: float | None = None) -> ExitStatus:
        """Wait until the program has ended. Raises what `TerminalEmulator.wait_for_exit` raises."""
        try:
            return await self._wait(self._questions.exiting(timeout))
        except WaitTimeoutError:
            await _off_the_loop(self._end)
            raise

    async def expect_cursor(self, row: int, column: int, timeout: float | None = None) -> None:
        """Wait until the cursor is there. Raises what `TerminalEmulator.expect_cursor` raises."""
        await self._wait(self._questions.cursor_at(row, column, timeout))

    async def expect_screen(self, options: AssertionOptions | str, timeout: float | None = None) -> None:
        """Wait until the screen is as expected. Raises what `TerminalEmulator.expect_screen` raises."""
        await self._wait(self._questions.showing(options, timeout))

    def get_by_text(self, text: Pattern, *, exact: bool = False, ignore_case: bool = False) -> AsyncLocator:
        """Return what finds the text on the screen; what waits of it is awaited."""
        return AsyncLocator.by_text(self, text, exact=exact, ignore_case=ignore_case)

    def get_by_style(self, **fields: Unpack[StyleFields]) -> AsyncLocator:
        """Return what finds text of this look on the screen; what waits of it is awaited."""
        return AsyncLocator.by_style(self, **fields)

    async def _wait(self, asking: Asking[T]) -> T:
        return await _answered(self._started().changes, asking)


async def _answered(changes: Changes, asking: Asking[T]) -> T:
    try:
        while True:
            await _rest(changes, next(asking))
    except StopIteration as answered:
        answer: T = answered.value
        return answer
    finally:
        asking.close()


async def _rest(changes: Changes, pause: Pause) -> None:
    loop, woken = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop was closed without waiting for its tasks
            loop.call_soon_threadsafe(woken.set)

    async def until(time_is_over: float, reached: Callable[[], bool]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, time_is_over - time.monotonic())):
                while not reached():
                    woken.clear()
                    if not reached():
                        await woken.wait()

    with changes.heard_by(wake):
        await until(pause.latest, lambda: changes.moment.happened != pause.happened)
        await until(pause.earliest, lambda: changes.moment.over)


async def _off_the_loop(work: Callable[[], T]) -> T:
    """Do on a thread what blocks, or here if there is none to be had; if cancelled, first let it come to its end."""
    turns = [work]

    def once() -> T:
        return turns.pop()()

    try:
        working = asyncio.get_running_loop().run_in_executor(None, once)
    except RuntimeError:
        return once()  # should the executor find a thread later, its turn is over
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        while not working.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([working])
        if not working.cancelled():
            working.exception()  # it has been seen
        raise
