"""Tables: whole, as wide as they may be, and otherwise as they were written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.render.kit import shown, style_of, written
from tests.examples import examples


def test_a_table_is_drawn_when_it_is_over() -> None:
    rows = shown("Look:\n| Name | Count |\n|:--|--:|\n| `a` | 1 |\n| **b** | 22 |\nend")

    assert rows == [
        "Look:",
        "╭──────┬───────╮",
        "│ Name │ Count │",
        "├──────┼───────┤",
        "│ a    │     1 │",
        "│ b    │    22 │",
        "╰──────┴───────╯",
        "end",
    ]


def test_what_is_in_a_cell_is_markdown() -> None:
    output = written("| Head |\n|---|\n| **bold** |\n| [a](http://x.y) |\n| a \\| b |")

    assert style_of("Head", output).bold
    assert style_of("bold", output).bold
    assert style_of("(http://x.y)", output).dim
    assert "a | b" in output


def test_a_wide_table_folds_its_cells_and_parts_its_rows() -> None:
    rows = shown("| A | B |\n|---|---|\n| one | two three four |\n| five | six |", 20)

    assert rows == [
        "╭──────┬───────────╮",
        "│ A    │ B         │",
        "├──────┼───────────┤",
        "│ one  │ two three │",
        "│      │ four      │",
        "├──────┼───────────┤",
        "│ five │ six       │",
        "╰──────┴───────────╯",
    ]


@given(st.lists(st.lists(st.integers(100, 999), min_size=1, max_size=5), min_size=1, max_size=4), st.integers(1, 60))
@settings(max_examples=examples(40), deadline=None)
def test_no_cell_is_lost_at_any_width(numbers: list[list[int]], width: int) -> None:
    rows = "\n".join("|" + "|".join(map(str, row)) + "|" for row in numbers)

    text = "".join(shown(f"| h |\n|---|\n{rows}", max(width, 8)))

    # A cell that is folded has its digits one below the other, so they are only counted.
    digits = "".join(str(number) for row in numbers for number in row)
    assert sorted(character for character in text if character.isdigit()) == sorted(digits)


@pytest.mark.parametrize(
    "text",
    [
        "| a | b |",
        "| a | b |\n| c | d |",
        "| a | b |\n|---|\n| c | d |",
        "|x| is not a table",
        "a | b\n--|--\nc | d",
        "| a |\n|---|".replace("a", "| ".join("abcdefghijklmnopqrst")),
    ],
)
def test_what_is_no_table_or_does_not_fit_is_shown_as_it_was_written(text: str) -> None:
    assert shown(text) == text.split("\n")


def test_a_table_in_a_quote_has_the_bar() -> None:
    rows = shown("> | a |\n> |---|\n> | b |\n\nend", 20)

    assert rows == ["│ ╭───╮", "│ │ a │", "│ ├───┤", "│ │ b │", "│ ╰───╯", "", "end"]


def test_two_tables_are_two() -> None:
    rows = shown("| a |\n|---|\n| b |\n\n| c |\n|---|\n| d |")

    assert [row for row in rows if "╭" in row or not row] == ["╭───╮", "", "╭───╮"]


def test_of_a_table_that_is_too_long_every_row_is_written() -> None:
    rows = [f"| row {number} |" for number in range(1500)]
    text = "\n".join(["| head |", "|---|", *rows, "end"])

    assert written(text).split("\n")[:-1] == text.split("\n")
