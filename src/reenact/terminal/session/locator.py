"""Locators: find text on the screen by content or style, and wait until it appears."""

# ruff: noqa: ASYNC109 - same parameters as the blocking version; its timeout errors say what was seen

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from functools import wraps
from itertools import groupby
from typing import Concatenate, ParamSpec, Protocol, Self, TypeAlias, TypedDict, Unpack, get_args

import msgspec

from reenact.terminal.ansi.style import ANSIStyle, Underline, is_color
from reenact.terminal.errors import (
    ExpectationError,
    TerminalTestError,
    TerminalTestErrorType,
    invalid,
    is_kit_error,
)
from reenact.terminal.matching.options import Pattern
from reenact.terminal.screen.model import Cell, MouseAction, MouseButton, Screen
from reenact.terminal.session.transcript import compiled
from reenact.terminal.session.waiting import blocking, run

__tracebackhide__ = is_kit_error
P = ParamSpec("P")
_NOT_FOUND_ERRORS = (TerminalTestErrorType.TIMEOUT, TerminalTestErrorType.PROCESS_EXITED)
_LISTED = 10
"""Maximum number of matches that an error lists."""
_EXPECTED_COLOR = "None, a name as red or bright_red, color16 to color255, or #rrggbb in small letters"
_EXPECTED_UNDERLINE = f"True, False, or one of {', '.join(get_args(Underline))}"
_CONTROL = re.compile("[\x00-\x1f]")
_VISIBLE_ON_BLANKS = frozenset({"background", "inverse", "underline", "strikethrough", "overline"})


class Viewed(Protocol):
    """Has a screen and can wait for changes to it, like a terminal emulator."""

    @property
    def screen(self) -> Screen:
        """A snapshot of the screen."""
        ...

    def wait_until(
        self, condition: Callable[[Screen], bool], timeout: float | None = None, *, what: str
    ) -> Screen | Awaitable[Screen]:
        """Return the first screen, from now on, for which the condition is true.

        Raises:
            WaitTimeoutError: there was none in time.
        """
        ...

    def send_mouse(
        self,
        action: MouseAction,
        row: int,
        column: int,
        button: MouseButton = "left",
        *,
        shift: bool = False,
        alt: bool = False,
        ctrl: bool = False,
    ) -> Awaitable[None] | None:
        """Use the mouse at this position."""
        ...


class StyleFields(TypedDict, total=False):
    """Fields of `ANSIStyle` to compare; `underline=True` stands for any shape."""

    bold: bool
    dim: bool
    italic: bool
    underline: Underline | bool
    blink: bool
    inverse: bool
    hidden: bool
    strikethrough: bool
    overline: bool
    foreground: str | None
    background: str | None
    underline_color: str | None


class Match(msgspec.Struct, frozen=True):
    """A match within one row: its position and its cells."""

    row: int
    column: int
    cells: tuple[Cell, ...]

    @property
    def text(self) -> str:
        """The text of the match."""
        return "".join(cell.text for cell in self.cells)

    @property
    def end(self) -> int:
        """The column after the match."""
        return self.column + len(self.cells)

    def __str__(self) -> str:
        """Return the position and the text in words."""
        return f"row {self.row}, column {self.column}: {self.text!r}"


Find: TypeAlias = Callable[[Screen], tuple[Match, ...]]


class _Located:
    """Base of both locators: the search, the selection of matches, and the waiting."""

    def __init__(self, viewed: Viewed, find: Find, what: str) -> None:
        self._viewed = viewed
        self._find = find
        self._what = what

    @classmethod
    def by_text(cls, viewed: Viewed, text: Pattern, *, exact: bool = False, ignore_case: bool = False) -> Self:
        """Return a locator for a text, or a regular expression, in the rows.

        A text is searched for in the whole row, including blanks; an expression in the row without trailing blanks, so
        that `$` matches at the end of its text. With `exact`, the row without surrounding blanks must equal the text,
        or match the whole expression.

        Raises:
            TerminalTestError: the text is blank, or has a control character, as a tab (`INVALID_CONFIG`).
        """
        return cls(viewed, _by_text(text, exact=exact, ignore_case=ignore_case), _pattern_text(text, exact=exact))

    @classmethod
    def by_style(cls, viewed: Viewed, **fields: Unpack[StyleFields]) -> Self:
        """Return a locator for adjacent cells of a row whose styles all have these fields.

        Blanks count if one of the fields is visible on them, such as a background.

        Raises:
            TerminalTestError: no field is given, or an unknown one (`INVALID_CONFIG`).
        """
        wanted = _checked(fields)
        return cls(viewed, _by_style(wanted), f"the style {_described(wanted)}")

    # --- selection of matches ---

    @property
    def first(self) -> Self:
        """The first match, from the top left."""
        return self._selected(lambda matches: matches[:1], "the first of")

    @property
    def last(self) -> Self:
        """The last match."""
        return self._selected(lambda matches: matches[-1:], "the last of")

    def nth(self, index: int) -> Self:
        """Return a locator for the match with this index, counted from 0, or from the end if it is negative."""
        return self._selected(lambda matches: matches[index : index + 1 or None], f"number {index} of")

    def in_row(self, row: int | Self) -> Self:
        """Return a locator for the matches in this row, or in the rows in which another locator has matches."""
        if isinstance(row, int):
            return self._selected(lambda matches: tuple(each for each in matches if each.row == row), f"in row {row},")
        other, find = row, self._find

        def beside(screen: Screen) -> tuple[Match, ...]:
            rows = {match.row for match in other.matches(screen)}
            return tuple(match for match in find(screen) if match.row in rows)

        return type(self)(self._viewed, beside, f"in a row of {row}, {self}")

    # --- current matches ---

    def matches(self, screen: Screen | None = None) -> tuple[Match, ...]:
        """Return the matches on a screen, from the top left; None stands for the current screen."""
        return self._find(self._viewed.screen if screen is None else screen)

    def count(self) -> int:
        """Return the current number of matches."""
        return len(self.matches())

    def is_visible(self) -> bool:
        """Return whether there is at least one match now."""
        return bool(self.matches())

    def __str__(self) -> str:
        """Return a description of what is searched for."""
        return self._what

    def _selected(self, pick: Callable[[tuple[Match, ...]], tuple[Match, ...]], words: str) -> Self:
        find = self._find
        return type(self)(self._viewed, lambda screen: pick(find(screen)), f"{words} {self}")

    async def _wait_until(self, condition: Callable[[Screen], bool], timeout: float | None, what: str) -> Screen:
        screen = self._viewed.wait_until(condition, timeout, what=f"{self} {what}")
        return screen if isinstance(screen, Screen) else await screen

    async def _single_match(self) -> Match:
        return self._require_single(
            await self._wait_until(lambda screen: bool(self._find(screen)), None, "to be visible")
        )

    async def _style(self) -> ANSIStyle:
        first, *others = dict.fromkeys(cell.style for cell in (await self._single_match()).cells)
        if others:
            listed = "\n".join(f"  {style}" for style in (first, *others)[:_LISTED])
            raise ExpectationError(f"{self} has more than one style; `cells` tells where:\n{listed}")
        return first

    def _require_single(self, screen: Screen) -> Match:
        matches = self._find(screen)
        if len(matches) != 1:
            raise ExpectationError(
                f"{self} is there {_count_text(len(matches))}; say which one with `first`, `last`, `nth` or `in_row`:"
                f"{_match_list(matches)}",
                seen=screen.text,
            )
        return matches[0]

    async def _expect(
        self,
        expected: str,
        holds: Callable[[Match, Screen], bool],
        timeout: float | None,
        shown: Callable[[Match], str] = str,
    ) -> Self:
        def decided(screen: Screen) -> bool:
            matches = self._find(screen)
            return len(matches) > 1 or any(holds(match, screen) for match in matches)

        self._require_single(await self._wait(expected, decided, timeout, shown))
        return self

    async def _wait(
        self,
        expected: str,
        condition: Callable[[Screen], bool],
        timeout: float | None,
        shown: Callable[[Match], str] = str,
    ) -> Screen:
        try:
            return await self._wait_until(condition, timeout, expected)
        except TerminalTestError as error:
            if error.type not in _NOT_FOUND_ERRORS:
                raise
            screen = self._viewed.screen
            found, cursor = self._find(screen), screen.cursor
            there = f"it is there {_count_text(len(found))}:{_match_list(found, shown)}" if found else "it is not there"
            ended = "; the program has ended" if error.type is TerminalTestErrorType.PROCESS_EXITED else ""
            raise ExpectationError(
                f"expected {self} {expected}; {there}; the cursor is in row {cursor.row}, column {cursor.column}"
                f"{ended}",
                seen=screen.text,
            ) from None


class AsyncLocator(_Located):
    """`Locator` with awaitable methods for everything that may wait."""

    async def text(self) -> str:
        """Wait for the match and return its text."""
        return (await self._single_match()).text

    async def row(self) -> int:
        """Wait for the match and return its row."""
        return (await self._single_match()).row

    async def column(self) -> int:
        """Wait for the match and return its first column."""
        return (await self._single_match()).column

    async def cells(self) -> tuple[Cell, ...]:
        """Wait for the match and return its cells, one for each column."""
        return (await self._single_match()).cells

    async def style(self) -> ANSIStyle:
        """Wait for the match and return its style; raises `ExpectationError` if its cells have several."""
        return await self._style()

    async def click(
        self, button: MouseButton = "left", *, shift: bool = False, alt: bool = False, ctrl: bool = False
    ) -> Self:
        """Wait for the match and click in its middle; raises the errors of the terminal's `send_mouse`."""
        match = await self._single_match()
        column = (match.column + match.end) // 2
        sent = self._viewed.send_mouse("click", match.row, column, button, shift=shift, alt=alt, ctrl=ctrl)
        if sent is not None:
            await sent
        return self

    async def expect_visible(self, timeout: float | None = None) -> Self:
        """Wait until there is a match."""
        return await self._expect("to be visible", lambda _match, _screen: True, timeout)

    async def expect_hidden(self, timeout: float | None = None) -> Self:
        """Wait until there is no match."""
        await self._wait("to be hidden", lambda screen: not self._find(screen), timeout)
        return self

    async def expect_count(self, count: int, timeout: float | None = None) -> Self:
        """Wait until there are exactly this many matches."""
        await self._wait(f"to be there {_count_text(count)}", lambda screen: len(self._find(screen)) == count, timeout)
        return self

    async def expect_text(self, pattern: Pattern, timeout: float | None = None) -> Self:
        """Wait until the match contains the text, or the expression is found in it."""
        expression = compiled(pattern)
        shown = pattern if isinstance(pattern, str) else pattern.pattern
        return await self._expect(
            f"to have the text {shown!r}", lambda match, _: expression.search(match.text) is not None, timeout
        )

    async def expect_style(self, timeout: float | None = None, **fields: Unpack[StyleFields]) -> Self:
        """Wait until all cells of the match have these style fields."""
        wanted = _checked(fields)

        def styled(match: Match, _: Screen) -> bool:
            return all(_has(cell.style, wanted) for cell in match.cells)

        def shown(match: Match) -> str:
            has = (_described({name: getattr(cell.style, name) for name in wanted}) for cell in match.cells)
            return f"{match} with {'; '.join(dict.fromkeys(has))}"

        return await self._expect(f"to have the style {_described(wanted)}", styled, timeout, shown)

    async def expect_cursor(self, timeout: float | None = None) -> Self:
        """Wait until the cursor is on the match or directly after it."""

        def under(match: Match, screen: Screen) -> bool:
            return screen.cursor.row == match.row and match.column <= screen.cursor.column <= match.end

        return await self._expect("to have the cursor", under, timeout)


def _chained(
    method: Callable[Concatenate[AsyncLocator, P], Coroutine[object, None, AsyncLocator]],
) -> Callable[Concatenate[Locator, P], Locator]:
    """Return the blocking version of the method, which returns the locator for chaining."""
    call = blocking(method)

    @wraps(method)
    def chained(self: Locator, /, *args: P.args, **kwargs: P.kwargs) -> Locator:
        call(self, *args, **kwargs)
        return self

    return chained


class Locator(_Located):
    """Searches the screen at each access: nothing is cached between accesses.

    Properties of a single match (`text`, `row`, `column`, `style`, `cells`) and expectations about one wait until there
    is a match, and are strict: if there are more, `ExpectationError` lists them. Select one with `first`, `last`, `nth`
    or `in_row`.

    A match lies within one row. A text that wraps into the next row is found only in parts, or at a terminal with more
    columns, or with `wait_for`, which searches the output regardless of rows. Rows and columns count from 0; a wide
    character takes two columns.

    Timeouts are in seconds; None stands for the terminal's timeout.
    """

    @property
    def text(self) -> str:
        """The text of the match."""
        return run(self._single_match()).text

    @property
    def row(self) -> int:
        """The row of the match."""
        return run(self._single_match()).row

    @property
    def column(self) -> int:
        """The first column of the match."""
        return run(self._single_match()).column

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells of the match, one for each column."""
        return run(self._single_match()).cells

    @property
    def style(self) -> ANSIStyle:
        """The style of its cells; raises `ExpectationError` if they have several."""
        return run(self._style())

    click = _chained(AsyncLocator.click)
    expect_visible = _chained(AsyncLocator.expect_visible)
    expect_hidden = _chained(AsyncLocator.expect_hidden)
    expect_count = _chained(AsyncLocator.expect_count)
    expect_text = _chained(AsyncLocator.expect_text)
    expect_style = _chained(AsyncLocator.expect_style)
    expect_cursor = _chained(AsyncLocator.expect_cursor)


def _by_text(text: Pattern, *, exact: bool, ignore_case: bool) -> Find:
    flags = re.IGNORECASE if ignore_case else 0
    literal = isinstance(text, str)
    if isinstance(text, str):
        if not text.strip() or _CONTROL.search(text):
            raise invalid(
                f"text is {text!r}: give the text of one row, with more than blanks and without control characters; "
                "a screen shows a tab as blanks"
            )
        expression = re.compile(re.escape(text.strip(" ") if exact else text), flags)
    else:
        compiled(text)  # or it is refused
        expression = re.compile(text.pattern, text.flags | flags)

    def spans(line: str) -> Iterator[tuple[int, int]]:
        if not exact:
            yield from (found.span() for found in expression.finditer(line if literal else line.rstrip(" ")))
        elif (found := expression.fullmatch(line.strip(" "))) is not None:
            blanks = len(line) - len(line.lstrip(" "))
            yield blanks + found.start(), blanks + found.end()

    def find(screen: Screen) -> tuple[Match, ...]:
        found = (
            _match(row, cells, start, end)
            for row, cells in enumerate(screen.cells)
            for start, end in spans("".join([cell.text for cell in cells]))
            if start < end
        )
        return tuple({(match.row, match.column, match.end): match for match in found}.values())  # cells are not split

    return find


def _match(row: int, cells: tuple[Cell, ...], start: int, end: int) -> Match:
    """Return the match for the characters from `start` to `end` of the row."""
    columns = [column for column, cell in enumerate(cells) for _ in cell.text]
    first, last = columns[start], columns[end - 1]
    return Match(row, first, cells[first : last + cells[last].width])


def _by_style(wanted: Mapping[str, object]) -> Find:
    on_blanks = not _VISIBLE_ON_BLANKS.isdisjoint(wanted)

    def find(screen: Screen) -> tuple[Match, ...]:
        found: list[Match] = []
        for row, cells in enumerate(screen.cells):
            places = ((column, cell) for column, cell in enumerate(cells))
            for fits, neighbours in groupby(places, key=lambda place: _has(place[1].style, wanted)):
                if fits:
                    column, *_ = (several := tuple(neighbours))[0]
                    match = Match(row, column, tuple(cell for _, cell in several))
                    if on_blanks or match.text.strip():
                        found.append(match)
        return tuple(found)

    return find


def _has(style: ANSIStyle, wanted: Mapping[str, object]) -> bool:
    for name, value in wanted.items():
        is_so: object = getattr(style, name)
        if (bool(is_so) if value is True else is_so) != value:
            return False
    return True


def _checked(fields: Mapping[str, object]) -> Mapping[str, object]:
    """Return the fields if styles can have them: what no text can look like would be hidden for ever."""
    known = ANSIStyle.__struct_fields__
    unknown = [name for name in fields if name not in known]
    if unknown or not fields:
        problem = f"a style has no {', '.join(unknown)}" if unknown else "no field of a style is given"
        raise invalid(f"{problem}; it has {', '.join(known)}")
    for name, value in fields.items():
        if name.endswith(("ground", "color")):
            can_be, expected = is_color(value), _EXPECTED_COLOR
        elif name == "underline":
            can_be, expected = isinstance(value, bool) or value in get_args(Underline), _EXPECTED_UNDERLINE
        else:
            can_be, expected = isinstance(value, bool), "True or False"
        if not can_be:
            raise invalid(f"{name}: expected {expected}, got {value!r}")
    return fields


def _described(fields: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in fields.items())


def _pattern_text(text: Pattern, *, exact: bool) -> str:
    whole = "the row " if exact else ""
    return f"{whole}{text!r}" if isinstance(text, str) else f"{whole}/{text.pattern}/"


def _count_text(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _match_list(matches: tuple[Match, ...], shown: Callable[[Match], str] = str) -> str:
    lines = [f"\n  {shown(match)}" for match in matches[:_LISTED]]
    more = len(matches) - len(lines)
    return "".join(lines) + (f"\n  and {more} more" if more else "")
