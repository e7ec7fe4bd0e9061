"""Locators: what they find, how long they wait, and what they say when it does not come."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.terminal import (
    ANSIStyle,
    ExpectationError,
    Locator,
    Screen,
    TerminalTestError,
    TerminalTestErrorType,
    WaitTimeoutError,
)
from reenact.terminal.matching.options import Pattern
from reenact.terminal.screen.engine import Engine
from reenact.terminal.session.locator import StyleFields
from tests.terminal.raising import raises


class Scripted:
    """A terminal whose screens are known beforehand: every wait that is not met goes on to the next of them."""

    def __init__(self, *written: str, columns: int = 30, rows: int = 4) -> None:
        self._screens: list[Screen] = []
        with closing(Engine(columns, rows)) as engine:
            for each in written:
                engine.feed(each.encode())
                self._screens.append(engine.screen())
        self.asked: list[tuple[float | None, str]] = []

    @property
    def screen(self) -> Screen:
        return self._screens[0]

    @property
    def left(self) -> int:
        """How many screens are still to come."""
        return len(self._screens) - 1

    def send_mouse(self, *_: object, **__: object) -> None:
        raise AssertionError("nothing is clicked here")

    def wait_until(self, condition: Callable[[Screen], bool], timeout: float | None = None, *, what: str) -> Screen:
        self.asked.append((timeout, what))
        while not condition(self.screen):
            if not self.left:
                raise WaitTimeoutError(f"{what} did not come", seen=self.screen.text)
            del self._screens[0]
        return self.screen


def found(
    viewed: Scripted, text: Pattern, *, exact: bool = False, ignore_case: bool = False
) -> list[tuple[int, int, str]]:
    matches = Locator.by_text(viewed, text, exact=exact, ignore_case=ignore_case).matches()
    return [(match.row, match.column, match.text) for match in matches]


def styled(viewed: Scripted, fields: StyleFields) -> list[tuple[int, int, str]]:
    return [(match.row, match.column, match.text) for match in Locator.by_style(viewed, **fields).matches()]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("one", [(0, 0, "one"), (1, 2, "one")]),
        ("One", [(0, 8, "One")]),
        ("two one", []),
        ("$ ", [(2, 0, "$ ")]),
        (re.compile(r"on\w"), [(0, 0, "one"), (1, 2, "one")]),
        (re.compile(r"^one"), [(0, 0, "one")]),
        (re.compile(r"One$"), [(0, 8, "One")]),
        (re.compile(r"\$$"), [(2, 0, "$")]),
        (re.compile(r"x*"), []),
    ],
)
def test_text_is_found_in_rows(text: Pattern, places: list[tuple[int, int, str]]) -> None:
    viewed = Scripted("one two One\r\n  one\r\n$ ")

    assert found(viewed, text) == places


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("one", [(1, 2, "one")]),
        (" one ", [(1, 2, "one")]),
        ("ONE", []),
        ("one t", []),
        (re.compile("o.*"), [(0, 0, "one two"), (1, 2, "one")]),
        (re.compile("o"), []),
        (re.compile("^one$"), [(1, 2, "one")]),
    ],
)
def test_exact_text_is_all_that_stands_in_the_row(text: Pattern, places: list[tuple[int, int, str]]) -> None:
    viewed = Scripted("one two\r\n  one  ")

    assert found(viewed, text, exact=True) == places


@pytest.mark.parametrize("text", ["STRASSE", re.compile("s?TRASSE")])
def test_case_is_ignored_if_asked_to(text: Pattern) -> None:
    viewed = Scripted("Strasse")

    assert found(viewed, text) == found(Scripted("strasse"), "STRASSE") == []
    assert found(viewed, text, ignore_case=True) == [(0, 0, "Strasse")]
    assert found(viewed, text, exact=True, ignore_case=True) == [(0, 0, "Strasse")]


def test_wide_and_combined_characters_are_counted_in_columns() -> None:
    viewed = Scripted("中文 e\u0301x 中")

    assert found(viewed, "文") == [(0, 2, "文")]
    assert found(viewed, "x 中") == [(0, 6, "x 中")]
    assert [len(match.cells) for match in Locator.by_text(viewed, "中").matches()] == [2, 2]
    assert found(viewed, re.compile(r"\w\u0301")) == [(0, 5, "e\u0301")]


def test_text_that_goes_on_in_the_next_row_is_found_row_by_row() -> None:
    viewed = Scripted("x" * 28 + "hello")

    assert found(viewed, "hello") == []
    assert found(viewed, "llo") == [(1, 0, "llo")]


def test_styles_are_found_as_runs_of_cells() -> None:
    viewed = Scripted("a \x1b[31mred \x1b[1mand bold\x1b[0m b\r\n\x1b[44m bar \x1b[0m\x1b[4:3mwave")

    assert styled(viewed, {"foreground": "red"}) == [(0, 2, "red and bold")]
    assert styled(viewed, {"foreground": "red", "bold": True}) == [(0, 6, "and bold")]
    assert styled(viewed, {"background": "blue"}) == [(1, 0, " bar ")]
    assert styled(viewed, {"underline": True}) == styled(viewed, {"underline": "curly"}) == [(1, 5, "wave")]
    assert styled(viewed, {"underline": "single"}) == []
    assert styled(viewed, {"bold": False, "foreground": None}) == [
        (0, 0, "a "),
        (0, 14, " b" + " " * 14),
        (1, 0, " bar wave" + " " * 21),
    ]


def test_blanks_are_found_only_if_the_style_can_be_seen_on_them() -> None:
    viewed = Scripted("\x1b[1;7m    ")

    assert styled(viewed, {"bold": True}) == []
    assert styled(viewed, {"inverse": True}) == [(0, 0, "    ")]


def test_a_match_is_told_by_its_text_place_and_style() -> None:
    viewed = Scripted("a\r\n  \x1b[1mbold\x1b[0m")

    locator = Locator.by_text(viewed, "bold")

    assert (locator.text, locator.row, locator.column) == ("bold", 1, 2)
    assert locator.style == ANSIStyle(bold=True)
    assert "".join(cell.text for cell in locator.cells) == "bold"
    assert (locator.count(), locator.is_visible()) == (1, True)


def test_a_match_with_several_styles_says_so() -> None:
    viewed = Scripted("\x1b[1mbo\x1b[0mld")

    with pytest.raises(ExpectationError, match="more than one style") as refused:
        _ = Locator.by_text(viewed, "bold").style

    assert "bold=True" in str(refused.value)


def test_the_first_the_last_and_others_are_picked() -> None:
    viewed = Scripted("x1 x2\r\nx3")
    every = Locator.by_text(viewed, re.compile(r"x\d"))

    assert [every.first.text, every.last.text, every.nth(1).text, every.nth(-2).text] == ["x1", "x3", "x2", "x2"]
    assert [every.in_row(0).count(), every.in_row(1).text, every.in_row(0).last.text] == [2, "x3", "x2"]
    assert every.nth(3).count() == 0
    assert every.in_row(Locator.by_text(viewed, "x3")).text == "x3"


def test_a_locator_looks_again_whenever_it_is_asked() -> None:
    viewed = Scripted("loading", "\x1b[2J\x1b[Hready, and more")
    ready = Locator.by_text(viewed, "ready")
    before = ready.is_visible()

    column = ready.column

    assert (before, column, ready.count()) == (False, 0, 1)


WAITING: list[tuple[Callable[[Locator], object], str]] = [
    (lambda it: it.text, "'ready' to be visible"),
    (lambda it: it.expect_visible(2.5), "'ready' to be visible"),
    (lambda it: it.expect_text("read"), "'ready' to have the text 'read'"),
    (lambda it: it.expect_text(re.compile("r.*y")), "'ready' to have the text 'r.*y'"),
    (lambda it: it.expect_style(bold=True), "'ready' to have the style bold=True"),
    (lambda it: it.expect_cursor(), "'ready' to have the cursor"),
    (lambda it: it.expect_count(1), "'ready' to be there once"),
    (lambda it: it.first.expect_visible(), "the first of 'ready' to be visible"),
]


@pytest.mark.parametrize(
    ("ask", "what"),
    WAITING,
)
def test_everything_waits_until_it_is_so(ask: Callable[[Locator], object], what: str) -> None:
    viewed = Scripted("", "wait", "\x1b[2J\x1b[H\x1b[1mready", "more")

    ask(Locator.by_text(viewed, "ready"))

    assert viewed.left == 1
    assert viewed.asked == [(2.5 if viewed.asked[0][0] else None, what)]


def test_a_timeout_is_passed_on() -> None:
    viewed = Scripted("ready")
    ready = Locator.by_text(viewed, "ready")

    ready.expect_visible(1).expect_style(2, bold=False).expect_cursor(3).expect_count(1, 4).expect_text("ready", 5)
    Locator.by_text(viewed, "gone").expect_hidden(6)

    assert [timeout for timeout, _ in viewed.asked] == [1, 2, 3, 4, 5, 6]


def test_what_is_to_be_hidden_is_waited_for_until_it_is_gone() -> None:
    viewed = Scripted("wait wait", "\r    ", "\x1b[2J\x1b[Hdone")

    Locator.by_text(viewed, "wait").expect_hidden()

    assert viewed.screen.text == "done"


STRICT: list[Callable[[Locator], object]] = [
    lambda it: it.expect_visible(),
    lambda it: it.expect_text("o"),
    lambda it: it.expect_style(bold=True),
    lambda it: it.text,
    lambda it: it.cells,
]


@pytest.mark.parametrize(
    "ask",
    STRICT,
)
def test_more_than_one_is_refused_at_once_and_told_with_their_places(ask: Callable[[Locator], object]) -> None:
    viewed = Scripted("one\r\n  one", "more")

    with pytest.raises(ExpectationError) as refused:
        ask(Locator.by_text(viewed, "one"))

    said = str(refused.value)
    assert refused.value.type is TerminalTestErrorType.ASSERTION_FAILED
    assert "'one' is there 2 times" in said
    assert "row 0, column 0: 'one'" in said
    assert "row 1, column 2: 'one'" in said
    assert "`first`, `last`, `nth` or `in_row`" in said
    assert refused.value.seen == "one\n  one"
    assert viewed.left == 1


def test_very_many_are_not_all_told() -> None:
    viewed = Scripted("x " * 14)

    with pytest.raises(ExpectationError, match="and 4 more"):
        Locator.by_text(viewed, "x").expect_visible()


MISSING: list[tuple[Callable[[Callable[[Pattern], Locator]], object], str]] = [
    (lambda it: it("done").expect_visible(), "expected 'done' to be visible; it is not there"),
    (
        lambda it: it("wait").expect_hidden(),
        "expected 'wait' to be hidden; it is there once:\n  row 0, column 0: 'wait'",
    ),
    (lambda it: it("wait").expect_count(2), "expected 'wait' to be there 2 times; it is there once"),
    (lambda it: it("wait").expect_text("x"), "expected 'wait' to have the text 'x'; it is there once"),
    (
        lambda it: it("wait").expect_style(bold=True, foreground="red"),
        "style bold=True, foreground='red'; it is there",
    ),
    (
        lambda it: it("wait").expect_cursor(),
        "to have the cursor; it is there once:\n  row 0, column 0: 'wait'; the cursor is in row 0, column 8",
    ),
    (
        lambda it: it(re.compile("d.*")).in_row(3).last.expect_visible(),
        "expected the last of in row 3, /d.*/ to be",
    ),
]


@pytest.mark.parametrize(
    ("ask", "said"),
    MISSING,
)
def test_what_does_not_come_is_told_with_the_screen(
    ask: Callable[[Callable[[Pattern], Locator]], object], said: str
) -> None:
    viewed = Scripted("wait .", "..")

    with pytest.raises(ExpectationError) as refused:
        ask(lambda text: Locator.by_text(viewed, text))

    assert said in str(refused.value)
    assert refused.value.__suppress_context__
    assert refused.value.seen == "wait ..."


def test_a_look_that_is_another_one_is_told() -> None:
    viewed = Scripted("\x1b[32mgreen\x1b[0m and \x1b[1mhalf")

    with pytest.raises(ExpectationError) as one:
        Locator.by_text(viewed, "green").expect_style(foreground="red", bold=False)
    with pytest.raises(ExpectationError) as several:
        Locator.by_text(viewed, "and half").expect_style(bold=True)

    assert "\n  row 0, column 0: 'green' with foreground='green', bold=False;" in str(one.value)
    assert "\n  row 0, column 6: 'and half' with bold=False; bold=True;" in str(several.value)


def test_asking_for_what_does_not_come_is_a_time_out() -> None:
    viewed = Scripted("wait ...")

    with pytest.raises(WaitTimeoutError, match="'done' to be visible"):
        _ = Locator.by_text(viewed, "done").row


@pytest.mark.parametrize(
    ("written", "is_there"),
    [("ab\x1b[2G", True), ("ab", True), ("ab \x1b[3G", True), ("ab ", False), ("ab\r\n", False), (" ab\r", False)],
)
def test_the_cursor_is_on_it_or_right_behind_it(written: str, *, is_there: bool) -> None:
    locator = Locator.by_text(Scripted(written), "ab")

    if is_there:
        locator.expect_cursor()
    else:
        with pytest.raises(ExpectationError):
            locator.expect_cursor()


@pytest.mark.parametrize("text", ["", "  ", "one\ntwo", "one\r", "a\tb", "\x1b[31mred"])
def test_a_text_that_no_row_can_hold_is_refused(text: str) -> None:
    with raises(TerminalTestErrorType.INVALID_CONFIG, "give the text of one row"):
        Locator.by_text(Scripted("x"), text)


@pytest.mark.parametrize("wrong", [3, None, b"x", re.compile(b"x")])
def test_what_is_neither_a_text_nor_a_pattern_of_one_is_refused(wrong: Any) -> None:  # noqa: ANN401 - the mistake
    viewed = Scripted("x")

    with pytest.raises(TerminalTestError, match="expected a non-empty string or a compiled pattern") as sought:
        Locator.by_text(viewed, wrong)
    with pytest.raises(TerminalTestError, match="expected a non-empty string or a compiled pattern") as expected:
        Locator.by_text(viewed, "x").expect_text(wrong)

    assert sought.value.type is expected.value.type is TerminalTestErrorType.INVALID_CONFIG


def test_an_empty_text_is_not_expected_since_it_is_everywhere() -> None:
    with pytest.raises(TerminalTestError, match="expected a non-empty string"):
        Locator.by_text(Scripted("x"), "x").expect_text("")


def test_a_style_that_there_is_not_is_refused() -> None:
    viewed = Scripted("x")

    with pytest.raises(TerminalTestError, match="no field of a style") as nothing:
        Locator.by_style(viewed)
    with pytest.raises(TerminalTestError, match="a style has no colour; it has bold,") as unknown:
        Locator.by_text(viewed, "x").expect_style(colour="red")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]  # there is none

    assert nothing.value.type is unknown.value.type is TerminalTestErrorType.INVALID_CONFIG


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        *(("foreground", wrong) for wrong in ("Red", "reddish", "color7", "color256", "#FF0000", "#f00", "", 1, True)),
        ("background", (255, 0, 0)),
        ("underline_color", "\x1b[31m"),
        ("underline", "wavy"),
        ("underline", None),
        ("bold", "yes"),
        ("bold", None),
    ],
)
def test_a_look_that_no_text_can_have_is_refused_since_it_would_be_hidden_for_ever(field: str, wrong: object) -> None:
    fields: Any = {field: wrong}

    with raises(TerminalTestErrorType.INVALID_CONFIG, rf"{field}: expected .*, got "):
        Locator.by_style(Scripted("x"), **fields).expect_hidden()


@pytest.mark.parametrize("color", [None, "red", "bright_white", "color16", "color255", "#00ff9c"])
def test_each_kind_of_colour_can_be_asked_for(color: str | None) -> None:
    Locator.by_style(Scripted("x"), underline_color=color, underline="curly", bold=True).expect_hidden()


@given(
    line=st.text(st.sampled_from("ab 中e\u0301"), max_size=15).filter(lambda line: "\u0301\u0301" not in line),
    wanted=st.text(st.sampled_from("ab 中e\u0301"), min_size=1, max_size=3).filter(str.strip),
)
def test_what_is_found_stands_there_and_nothing_else_does(line: str, wanted: str) -> None:
    viewed = Scripted(line)
    screen = viewed.screen

    matches = Locator.by_text(viewed, wanted).matches()

    assert len(matches) == "".join(cell.text for cell in screen.cells[0]).count(wanted)
    for match in matches:
        assert match.cells == screen.cells[match.row][match.column : match.end]
        assert wanted in match.text
        assert sum(cell.width for cell in match.cells) == len(match.cells)


def test_what_is_in_one_cell_several_times_is_there_once() -> None:
    assert found(Scripted("ba\u0301\u0301"), "\u0301") == [(0, 1, "a\u0301\u0301")]
