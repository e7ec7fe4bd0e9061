"""Source in the colours of its language, line by line, as it can be copied."""

from __future__ import annotations

from string import ascii_letters

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.cli.render.source import Source
from tests.cli.render.kit import plain, shown, style_of, styles, written
from tests.examples import examples


def lines_of(language: str, *lines: str) -> list[list[tuple[str, str]]]:
    """Return each line as texts with styles, without texts that are empty or blank."""
    source = Source(language)
    return [[(text, style) for text, style in source.line(line) if text.strip()] for line in lines]


def test_source_is_set_apart_and_in_colours() -> None:
    output = written("Code:\n```python\ndef f(x):\n    return 'text'  # why\n```\nAnd then.")

    assert plain(output) == "Code:\n\ndef f(x):\n    return 'text'  # why\n\nAnd then.\n"
    assert style_of("def", output).foreground is not None
    assert style_of("'text'", output).foreground is not None
    assert style_of("#why", output).dim
    assert all(style.background is None for _, style in styles(output))


@pytest.mark.parametrize(
    ("fence", "caption"),
    [
        ("```", ""),
        ("```python", ""),
        ("~~~ sh", ""),
        ("````js", ""),
        ("```nosuch", "nosuch\n"),
        ("```python title=a.py", "python title=a.py\n"),
    ],
)
def test_a_fence_may_say_more_than_a_language(fence: str, caption: str) -> None:
    closing = fence.strip(f"{ascii_letters} .=")

    assert plain(written(f"{fence}\nx = 1\n{closing}")) == f"{caption}x = 1\n"


@given(st.lists(st.text("abc*_`~#>|-[]()<&\\ \t", max_size=20), max_size=10), st.sampled_from(["", "python", "x"]))
@settings(max_examples=examples(50), deadline=None)
def test_source_is_written_to_the_last_character(lines: list[str], language: str) -> None:
    source = "\n".join(f"{line}." for line in lines)

    output = plain(written(f"`````{language}\n{source}\n`````"))

    assert output.removeprefix("x\n" if language == "x" else "") == f"{source}\n"


def test_a_long_line_is_broken_by_the_terminal_alone() -> None:
    line = "word " * 30

    output = plain(written(f"```\n{line}\n```", 20))

    assert output == f"{line}\n"


def test_a_fence_in_a_quote_has_the_bar_and_ends_with_it() -> None:
    rows = shown("> ```\n> a\n>   b\nout *here*")

    assert rows == ["│ a", "│   b", "out here"]


def test_a_fence_in_a_list_is_without_the_indentation_of_the_list_and_outlives_less_of_it() -> None:
    rows = shown("1. do\n   ```sh\n   make\n     all\n less\n   ```\n2. done")

    assert rows == ["1. do", "", "make", "  all", "less", "", "2. done"]


def test_a_fence_without_an_end_ends_with_the_text() -> None:
    assert shown("a\n```python\nx = 1\n*y*") == ["a", "", "x = 1", "*y*"]


def test_what_spans_lines_keeps_its_colour() -> None:
    before, inside, behind = lines_of("python", 'x = """a', "def f():", 'end"""; def g')

    assert before[-1][1] == inside[0][1] == behind[0][1] == "green"
    assert [text for text, _ in inside] == ["def f():"]
    assert ("def", "magenta") in behind


@pytest.mark.parametrize(
    ("language", "begin", "end", "style"),
    [
        ("js", "let a; /* one", "three */ let b;", "dim"),
        ("c", "int a; /* one", "three */ int b;", "dim"),
        ("css", "/* one", "three */ a { b: c }", "dim"),
        ("html", "<p> <!-- one", "three --> <p>", "dim"),
        ("go", "a := `one", "three`", "green"),
        ("js", "let a = `one", "three`; let b", "green"),
        ("sh", "awk 'one", "three' file", "green"),
    ],
)
def test_what_a_grammar_takes_as_a_whole_keeps_its_colour(language: str, begin: str, end: str, style: str) -> None:
    first, second, third = lines_of(language, begin, "if two for", end)

    assert "one" in first[-1][0]
    assert first[-1][1] == style
    assert {style for _, style in second} == {style}
    assert third[0][1] == style
    assert len(third) == 1 or third[-1][1] != style


def test_an_apostrophe_in_a_comment_begins_nothing() -> None:
    _, second = lines_of("sh", "ls # don't", "for x in y; do")

    assert second[0] == ("for", "magenta")


@pytest.mark.parametrize("language", ["yaml", "scheme", "json", "pycon", "console", "diff", "rb", "php", "sml"])
def test_every_kind_of_grammar_gives_back_what_it_is_given(language: str) -> None:
    source = Source(language)

    for line in [
        "a: b",
        "",
        "(define x 'y)",
        '{"a": [1, null]}',
        ">>> f(1)",
        "$ ls <<EOF",
        "+ x",
        "<?php echo $a;",
        "\t#'",
    ]:
        assert "".join(text for text, _ in source.line(line)) == line


def test_states_that_are_never_left_are_forgotten() -> None:
    source = Source("js")

    for _ in range(2000):
        source.line("`${")

    assert source._context is not None
    assert len(source._context.stack) < 1000


def test_a_line_with_many_backslashes_has_no_colours() -> None:
    """In Scala's grammar a string without an end takes twice the time for each two backslashes in it."""
    line = 'val path = "' + r"\\\\server" * 6

    assert Source("scala").line(line) == [(line, "")]
    assert len(Source("scala").line(line[:30])) > 1
