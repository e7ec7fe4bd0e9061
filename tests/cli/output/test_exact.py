"""What is shown of a value is the value: it can be read back, and nothing in it can be overlooked."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from reenact.cli.output.answers import call_line, result_lines
from reenact.cli.output.exact import escaped, lines_of, may_be_reordered, on_one_line, quoted
from reenact.domain.legible import display_safe, in_ascii
from reenact.domain.tools import is_array, is_object

TEXTS = st.text(max_size=60) | st.text('ab \n\t"\\\u202e\u0301\u200b漢\U000e0041', max_size=200)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(TEXTS, inside, max_size=4),
    max_leaves=12,
)
ARGUMENTS = st.dictionaries(TEXTS, VALUES, max_size=5)


@given(TEXTS)
@example("\ud800")
@example("\u0301e\u0301\u0301\u0301\u0301\u0301\u20dd\u0336")
def test_a_text_can_be_read_back_from_its_quotes(text: str) -> None:
    assert json.loads(quoted(text)) == text


@given(TEXTS)
def test_no_character_that_a_terminal_obeys_or_hides_is_left(text: str) -> None:
    for shown in (escaped(text), display_safe(text), "".join(in_ascii(one, "") for one in text)):
        assert all(unicodedata.category(one)[0] != "C" for one in shown)
        assert all(one == " " or unicodedata.category(one)[0] != "Z" for one in shown)


@pytest.mark.parametrize(
    "unseen",
    [
        *(0x00, 0x07, 0x1B, 0x7F, 0x85, 0x9B, 0xA0, 0xAD, 0x034F, 0x061C, 0x115F, 0x180E, 0x200B, 0x200D, 0x200E),
        *(0x2028, 0x202A, 0x202E, 0x2060, 0x2066, 0x2800, 0x3000, 0x3164, 0xE000, 0xFE0F, 0xFEFF, 0xFFA0, 0xFFF9),
        *(0x1D173, 0xE0001, 0xE0041, 0xE0100, 0x10FFFF),
    ],
)
def test_what_cannot_be_seen_is_an_escape(unseen: int) -> None:
    assert escaped(f"a{chr(unseen)}b").isascii()
    assert chr(unseen) not in display_safe(f"a{chr(unseen)}b")


@pytest.mark.parametrize("text", ["plain", "Grüße", "e\u0301", "Ελλάδα", "漢字", "हिन्दी", "שלום", "ไทย", "😀", "~ !"])
def test_what_can_be_seen_is_left_as_it_is(text: str) -> None:
    assert escaped(text) == text
    assert display_safe(text) == text


@pytest.mark.parametrize("text", ["\u0301", "1\u0301", " \u0301", "x\u0336", "x\u20dd", "e" + "\u0301" * 20])
def test_marks_that_belong_to_no_letter_or_strike_it_out_are_escapes(text: str) -> None:
    assert "\\u" in escaped(text)
    assert escaped(text).count("\u0301") <= 3


@given(ARGUMENTS, st.integers(20, 100))
@example({"a": "x " * 40}, 20)
@example({"a": "C:\\temp\\new \\", "b": '\\"' * 20, "c": "\\u0041 \\\n\\", "d": " ", "e": "a  b" * 9}, 20)
def test_every_text_of_the_arguments_can_be_put_together_again_from_its_rows(
    arguments: dict[str, object], width: int
) -> None:
    lines = lines_of({"only": list(_texts(arguments))}, width)

    assert [*_read_back(lines[1:])] == list(_texts(arguments))


def _read_back(lines: list[str]) -> Iterator[str]:
    """Yield the texts of a list as a person would read them off."""
    text: list[str] | None = None
    for line in lines:
        assert line.startswith(("  -", "    |", "    :")), "each row has a mark"
        if line.startswith("  -"):
            if text is not None:
                yield _unescaped("\n".join(text))
            text = [] if line == "  -" else None
            if text is None:
                yield _unescaped(line.removeprefix('  - "').removesuffix('"'))
        else:
            assert text is not None
            mark, row = line[4:6], line[6:]
            if mark.strip() == "|":
                text.append(row)
            elif (len(text[-1]) - len(text[-1].rstrip("\\"))) % 2:
                text[-1] = text[-1][:-1] + row
            else:
                text[-1] += f" {row}"
    if text is not None:
        yield _unescaped("\n".join(text))


def _unescaped(text: str) -> str:
    plain = re.sub(
        r"\\(?:(u[0-9a-f]{4})|([\\bfrt]))",
        lambda found: (
            chr(int(found[1][1:], 16))
            if found[1]
            else {"\\": "\\", "b": "\b", "f": "\f", "r": "\r", "t": "\t"}[found[2]]
        ),
        text,
    )
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


@pytest.mark.parametrize("kind", [list, dict])
@pytest.mark.parametrize("levels", [49, 60, 900, 20_000])
def test_what_is_nested_deeply_is_shown_whole(kind: type[object], levels: int) -> None:
    inmost = 'a" \u202e|\n ' * 40
    value: object = inmost
    for _ in range(levels):
        value = [value] if kind is list else {"k": value}

    lines = lines_of({"to": value}, 60)

    begins, ends = ("[", "]") if kind is list else ('{"k": ', "}")
    told = [line.strip() for line in lines if line.lstrip().startswith("|")] if levels > 50 else []
    shown = levels if not told else len(lines) - len(told) - 1
    if told:
        within = levels - shown
        assert "".join(line[1:-1] for line in told) == begins * within + quoted(inmost) + ends * within
    assert bool(told) != (lines[-1].strip() == "|" or 'a" \\u202e|' in lines[-2])
    assert max(map(cell_len, lines)) < 130
    assert on_one_line(value) == begins * levels + quoted(inmost) + ends * levels
    assert not may_be_reordered(value)
    assert may_be_reordered({"a": value, "b": [value, "\u05d0"]})
    assert call_line("f", {"to": value}, 50).startswith("f(to: ")


@given(ARGUMENTS, st.integers(20, 100))
def test_no_line_ends_before_its_end(arguments: dict[str, object], width: int) -> None:
    lines = lines_of(arguments, width)

    assert all(len(line.splitlines()) == 1 for line in lines)


@given(TEXTS, TEXTS, st.integers(32, 100))
def test_no_text_is_wider_than_its_line(name: str, text: str, width: int) -> None:
    texts, names = lines_of({"body": [text, {"a": text}]}, width), lines_of({name: 1}, width)

    assert all(cell_len(line) <= width for line in (*texts, *names))


def test_lines_have_the_shape_of_the_value() -> None:
    arguments: dict[str, object] = {
        "to": ["a", {"x": 1.5, "y": []}],
        "deep": {"a b": {}, "c": [[True], None]},
        "empty": "",
    }

    assert lines_of(arguments, 40) == [
        "to:",
        '  - "a"',
        "  -",
        "    x: 1.5",
        "    y: []",
        "deep:",
        '  "a b": {}',
        "  c:",
        "    -",
        "      - true",
        "    - null",
        'empty: ""',
    ]


def test_a_text_of_several_lines_reads_as_it_is() -> None:
    body = 'Dear Ada,\n\nthe "tomatoes" were thirsty, C:\\water\\tank is empty. \nBob\x1b[2J\t\u202e\n'

    assert lines_of({"body": body, "a" * 30: "y", "url": "x" * 30}, 30) == [
        "body:",
        "  | Dear Ada,",
        "  |",
        '  | the "tomatoes" were',
        "  : thirsty, C:\\water\\\\tank",
        "  : is empty.\\u0020",
        "  | Bob\\u001b[2J\\t\\u202e",
        "  |",
        "a" * 30 + ":",
        "  | y",
        "url:",
        f"  | {'x' * 25}\\",
        f"  : {'x' * 5}",
    ]


def test_a_name_that_is_none_stands_in_quotes_and_cannot_reach_into_the_next_line() -> None:
    name = "to: " + " " * 30 + "n"

    first, second = lines_of({name: 1}, 30)

    assert json.loads(first) + json.loads(second.removesuffix(": 1")) == name
    assert cell_len(first) <= 30


def test_no_arguments_are_said_to_be_none() -> None:
    assert lines_of({}, 40) == ["no arguments"]


@given(VALUES)
def test_a_value_on_one_line_is_json(value: object) -> None:
    line = on_one_line(value)

    assert json.loads(line) == value
    assert line.splitlines() in ([line], [])


@pytest.mark.parametrize("value", ["\u05d0", {"\u0627": 1}, {"a": [{"b": "\u0661"}]}])
def test_letters_that_run_from_right_to_left_are_noticed(value: object) -> None:
    assert may_be_reordered(value)


def test_other_letters_are_not() -> None:
    assert not may_be_reordered({"a": ["Grüße", 1, None, True, {"漢": "字"}]})


@given(TEXTS, ARGUMENTS | TEXTS, st.integers(2, 100))
def test_a_call_fits_its_line(name: str, arguments: object, width: int) -> None:
    line = call_line(name, arguments, width)

    assert cell_len(line) <= width
    assert "\n" not in line


@pytest.mark.parametrize(
    ("result", "lines"),
    [
        (None, ["(nothing)"]),
        ("  \n", ["(nothing)"]),
        ("one\ntwo\n", ["one", "two"]),
        ("1\n2\n3\n4", ["1", "2", "3", "… 1 more line"]),
        ("1\n2\n3\n4\n5", ["1", "2", "3", "… 2 more lines"]),
        ("a\tb\x1b[2K", [r"a   b\u001b[2K"]),
        ({"sky": "clear"}, ['{"sky":"clear"}']),
        (
            [
                {"type": "text", "text": "seen"},
                {"type": "image", "source": {"type": "url", "url": "https://example.org"}},
            ],
            ["seen", "[image]"],
        ),
        ("x" * 50, ["x" * 39 + "…"]),
    ],
)
def test_a_result_shows_its_first_lines(result: object, lines: list[str]) -> None:
    assert result_lines(result, 40) == lines


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if is_object(value):
        return [text for key, one in value.items() for text in (*_texts(key), *_texts(one))]
    return [text for one in value for text in _texts(one)] if is_array(value) else []
