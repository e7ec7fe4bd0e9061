"""Finding things on a screen, for asyncio: what a `Locator` waits for is awaited."""

# ruff: noqa: ASYNC109 - the names and promises are those of the blocking one; the error says what was seen

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar, Unpack

from reenact.terminal.errors import ExpectationError, TerminalTestError, WaitTimeoutError
from reenact.terminal.matching.options import Pattern
from reenact.terminal.screen.model import Cell, Screen
from reenact.terminal.session.locator import IN_VAIN, Locator, Match, StyleFields, Viewed
from reenact.terminal.style import ANSIStyle

T = TypeVar("T")


class Watched(Protocol):
    """What has a screen that can be watched; as an `AsyncTerminalEmulator` does."""

    @property
    def screen(self) -> Screen:
        """The screen as it is now."""
        ...

    def watch(self, look: Callable[[Screen], T | None], timeout: float | None, *, what: str) -> Awaitable[T]:
        """Return what the function first returns for a screen that is not None, from now on.

        Raises:
            WaitTimeoutError: there was only None in time.
        """
        ...


class AsyncLocator:
    """`Locator`, with everything awaitable that may wait."""

    def __init__(self, watched: Watched, make: Callable[[Viewed], Locator]) -> None:
        self._watched = watched
        self._make = make

    @classmethod
    def by_text(cls, watched: Watched, text: Pattern, *, exact: bool = False, ignore_case: bool = False) -> Self:
        """Return what finds a text, or a regular expression. Raises what `Locator.by_text` raises."""
        Locator.by_text(_Still(watched.screen), text, exact=exact, ignore_case=ignore_case)
        return cls(watched, lambda viewed: Locator.by_text(viewed, text, exact=exact, ignore_case=ignore_case))

    @classmethod
    def by_style(cls, watched: Watched, **fields: Unpack[StyleFields]) -> Self:
        """Return what finds cells whose styles have these fields. Raises what `Locator.by_style` raises."""
        Locator.by_style(_Still(watched.screen), **fields)
        return cls(watched, lambda viewed: Locator.by_style(viewed, **fields))

    @property
    def first(self) -> AsyncLocator:
        """The first of those that are found."""
        return self._narrowed(lambda locator: locator.first)

    @property
    def last(self) -> AsyncLocator:
        """The last of those that are found."""
        return self._narrowed(lambda locator: locator.last)

    def nth(self, index: int) -> AsyncLocator:
        """Return what finds this one of them, counted from 0."""
        return self._narrowed(lambda locator: locator.nth(index))

    def in_row(self, row: int) -> AsyncLocator:
        """Return what finds those that are in this row."""
        return self._narrowed(lambda locator: locator.in_row(row))

    def matches(self) -> tuple[Match, ...]:
        """Return those that are there now."""
        return self._now().matches()

    def count(self) -> int:
        """Return how many there are now."""
        return self._now().count()

    def is_visible(self) -> bool:
        """Whether it is there now."""
        return self._now().is_visible()

    async def text(self) -> str:
        """Wait until it is there, and return its text."""
        return await self._once(lambda locator: locator.text)

    async def row(self) -> int:
        """Wait until it is there, and return its row."""
        return await self._once(lambda locator: locator.row)

    async def column(self) -> int:
        """Wait until it is there, and return the column where it begins."""
        return await self._once(lambda locator: locator.column)

    async def cells(self) -> tuple[Cell, ...]:
        """Wait until it is there, and return its cells."""
        return await self._once(lambda locator: locator.cells)

    async def style(self) -> ANSIStyle:
        """Wait until it is there, and return the style that all of it has."""
        return await self._once(lambda locator: locator.style)

    async def expect_visible(self, timeout: float | None = None) -> Self:
        """Wait until it is there. Raises what `Locator.expect_visible` raises."""
        return await self._expect(lambda locator: locator.expect_visible(0), timeout)

    async def expect_hidden(self, timeout: float | None = None) -> Self:
        """Wait until it is not there. Raises what `Locator.expect_hidden` raises."""
        return await self._expect(lambda locator: locator.expect_hidden(0), timeout, is_one=False)

    async def expect_count(self, count: int, timeout: float | None = None) -> Self:
        """Wait until there are so many. Raises what `Locator.expect_count` raises."""
        return await self._expect(lambda locator: locator.expect_count(count, 0), timeout, is_one=False)

    async def expect_text(self, pattern: Pattern, timeout: float | None = None) -> Self:
        """Wait until its text is this. Raises what `Locator.expect_text` raises."""
        return await self._expect(lambda locator: locator.expect_text(pattern, 0), timeout)

    async def expect_style(self, timeout: float | None = None, **fields: Unpack[StyleFields]) -> Self:
        """Wait until its style has these fields. Raises what `Locator.expect_style` raises."""
        return await self._expect(lambda locator: locator.expect_style(0, **fields), timeout)

    async def expect_cursor(self, timeout: float | None = None) -> Self:
        """Wait until the cursor stands on it or right behind it. Raises what `Locator.expect_cursor` raises."""
        return await self._expect(lambda locator: locator.expect_cursor(0), timeout)

    def __str__(self) -> str:
        """Return what it finds, in words."""
        return str(self._now())

    def _now(self) -> Locator:
        return self._make(_Still(self._watched.screen))

    def _narrowed(self, narrow: Callable[[Locator], Locator]) -> AsyncLocator:
        return AsyncLocator(self._watched, lambda viewed: narrow(self._make(viewed)))

    async def _expect(
        self, expectation: Callable[[Locator], object], timeout: float | None, *, is_one: bool = True
    ) -> Self:
        await self._once(expectation, timeout, is_one=is_one)
        return self

    async def _once(self, ask: Callable[[Locator], T], timeout: float | None = None, *, is_one: bool = True) -> T:
        """Ask the locator of each screen until one answers; more than one match where one is meant is an error."""
        failed: list[ExpectationError] = []

        def look(screen: Screen) -> tuple[T] | None:
            locator = self._make(_Still(screen))
            try:
                return (ask(locator),)
            except WaitTimeoutError:
                return None
            except ExpectationError as error:
                if is_one and locator.count() > 1:
                    raise
                failed[:] = [error]
                return None

        try:
            (answer,) = await self._watched.watch(look, timeout, what=f"{self} to be as expected")
        except TerminalTestError as error:
            if not failed or error.type not in IN_VAIN:
                raise
            raise failed[0] from error
        return answer


@dataclass(frozen=True)
class _Still:
    """A screen at one moment: who waits for it to change waits in vain."""

    screen: Screen

    def wait_until(self, condition: Callable[[Screen], bool], timeout: float | None = None, *, what: str) -> Screen:
        if condition(self.screen):
            return self.screen
        raise WaitTimeoutError(f"there was not {what}", seen=self.screen.text)
