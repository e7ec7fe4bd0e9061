"""The same text gives the same screen, however it is split; nothing is lost; each word comes as soon as it can."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reenact.cli.render.incremental_inline import markdown, runs
from reenact.cli.render.markdown import StreamedMarkdown
from tests.cli.render.kit import console, plain, styles, told, written
from tests.examples import examples

MARKS = [
    *("*", "**", "_", "__", "`", "``", "~~", "[", "](", "]", "(", ")", "<", ">", "\\", "&amp;", "!", '"', ":", "<b>"),
    *("word", "a", "日", "本", "。", "e\u0301", "http://a_b/", "-", "1"),
]
BLOCKS = [
    *(
        "\n",
        "\n\n",
        "    ",
        "\t",
        "# ",
        "#",
        "- ",
        "1. ",
        "> ",
        "---",
        "===",
        "```",
        "~~~",
        "python\n",
        "| a |\n",
        "|-|\n",
    ),
    *("|", "[ ] ", "[x]", "/*", "*/", "'", "\r", "\U0001f600", "x" * 30),
]
LINES = st.lists(st.sampled_from([*MARKS, " ", " ", " "]), max_size=20).map("".join)
TEXTS = st.lists(st.sampled_from([*MARKS, *BLOCKS, " ", " "]), max_size=60).map("".join)
WIDTHS = st.sampled_from([5, 20, 40, 80, 300])


def pieces_of(text: str, places: list[int]) -> list[str]:
    """Return the text cut at these places."""
    cuts = sorted({place % (len(text) + 1) for place in places})
    return [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@given(TEXTS, st.lists(st.integers(0, 10_000), max_size=10), WIDTHS)
@settings(max_examples=examples(80), deadline=None)
@example("a" * 2500 + " *b*", [1999, 2000, 2001], 20)
@example(" " * 1500 + "- x", [999, 1000, 1001], 80)
@example("- " * 600 + "x", [999, 1000, 1001], 80)
@example("*a " * 900, [1998, 1999, 2000], 80)
@example("```\n" + "x " * 1500 + "\n```", [2003, 2004, 2005], 80)
@example("```python\nx\n```\n| a |\n|-|\n| b |\nend", [10, 30], 80)
@example("\ud83d\ude00 \ud83d a\\\n", [1, 3], 80)
def test_the_same_text_gives_the_same_screen_in_whatever_pieces_it_comes(
    text: str, places: list[int], width: int
) -> None:
    whole = written(text, width)

    assert written(pieces_of(text, places), width) == whole
    assert written(list(text), width) == whole


@given(st.lists(st.sampled_from([*MARKS, *BLOCKS, "WORD", "WORD", " "]), max_size=60), WIDTHS)
@settings(max_examples=examples(80), deadline=None)
def test_no_word_is_lost_and_all_are_in_order(parts: list[str], width: int) -> None:
    words = iter(f"W{number}Q" for number in range(1000))
    text = "".join(next(words) if part == "WORD" else part for part in parts)

    output = plain(written(text, max(width, 80)))

    expected = re.findall(r"W\d+Q", text)
    assert re.findall(r"W\d+Q", re.sub(r"\s", "", output)) == expected


@given(LINES)
@settings(max_examples=examples(80), deadline=None)
def test_a_line_that_comes_word_by_word_looks_as_if_it_were_parsed_as_a_whole(line: str) -> None:
    (parsed,) = markdown().parseInline(f"x{line}")

    output = written(list(f"x{line}"), 1000)

    looks = [(character, style.bold, style.italic, style.strikethrough) for character, style in styles(output)]
    assert looks == [
        (character, "bold" in style, "italic" in style, "strike" in style)
        for text, style in runs(parsed.children or (), "")
        for character in text
        if not character.isspace()
    ]


@pytest.mark.parametrize(
    ("pieces", "so_far"),
    [
        (["Hel", "lo wo"], "Hello"),
        (["Hello world", " "], "Hello world"),
        (["Hello world.\n"], "Hello world.\n"),
        (["It is **really ver"], "It is"),
        (["It is **really** ver"], "It is really"),
        (["2 * 3 is snake_case 6 "], "2 * 3 is snake_case 6"),
        (["see [the page](http://x"], "see"),
        (["see [the page](http://x) "], "see the page (http://x)"),
        (["a note [1] and "], "a note [1] and"),
        (["- one tw"], "• one"),
        (["## Head of i"], "Head of"),
        (["日本語"], "日本"),
        (["```\nline\nli"], "line\n"),
        (["| a |\n|---|\n| b |\n"], ""),
    ],
)
def test_what_is_settled_is_written_at_once(pieces: list[str], so_far: str) -> None:
    screen = console(80)
    prose = StreamedMarkdown(screen)

    for piece in pieces:
        prose.write(piece)

    assert plain(told(screen)) == so_far


@given(st.lists(st.text("abcdefgh.,;!?'()/-é", min_size=1, max_size=12), min_size=1, max_size=40))
@settings(max_examples=examples(30), deadline=None)
def test_of_plain_prose_only_the_last_word_is_held_back(words: list[str]) -> None:
    screen = console(40)
    prose = StreamedMarkdown(screen)
    text = "It says " + " ".join(words)

    for character in text:
        prose.write(character)

    assert plain(told(screen)).split() == text.split()[:-1]


def test_what_is_written_next_begins_anew() -> None:
    screen = console(80)
    prose = StreamedMarkdown(screen)

    prose.write("```python\n*a*")
    prose.end()
    prose.write("*b*")
    prose.end()

    assert plain(told(screen)) == "*a*\nb\n"


def test_nothing_is_written_for_nothing() -> None:
    assert written("") == written("\n \n\n") == ""


def test_the_first_words_of_an_answer_wait_for_no_parser() -> None:
    program = """
import io, sys
from rich.console import Console
from reenact.cli.render.markdown import StreamedMarkdown
prose = StreamedMarkdown(Console(file=io.StringIO(), force_terminal=True, width=80))
prose.write("Plain words, (some) of them with a snake_case name; - and so on.\\n- item\\n")
prose.end()
print([name for name in ("markdown_it", "pygments", "rich.table", "rich.markdown") if name in sys.modules])
prose.write("**bold**")
prose.end()
print("markdown_it" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)

    assert done.stdout == "[]\nTrue\n"
