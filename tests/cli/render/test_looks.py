"""What Markdown looks like on a terminal, and what is not Markdown."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from reenact.cli.render.markdown import StreamedMarkdown
from tests.cli.render.kit import plain, shown, style_of, styles, written


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("**bold** and *it*", "bold and it"),
        ("***both*** ~~gone~~ __b__ _i_", "both gone b i"),
        ("`code with * in it` and ``a ` b``", "code with * in it and a ` b"),
        ("snake_case_names and 2 * 3 * 4 = 24", "snake_case_names and 2 * 3 * 4 = 24"),
        ("an *unclosed word and **another", "an *unclosed word and **another"),
        ("files *.py and a_ b", "files *.py and a_ b"),
        (r"\*no emphasis\* and \_none\_", "*no emphasis* and _none_"),
        ("&lt;b&gt; &amp; &eacute; &nosuch;", "<b> & é &nosuch;"),
        ("<b>bold</b> <!-- *x* -->", "<b>bold</b> <!-- *x* -->"),
        ("[text](http://a.b/c_d)", "text (http://a.b/c_d)"),
        ('[text](http://a.b "A title")', 'text (http://a.b "A title")'),
        ("[http://a.b](http://a.b)", "http://a.b"),
        ("<http://a.b/_c_> <me@a.b>", "http://a.b/_c_ me@a.b"),
        ("https://a.b/_next_/*x* is bare", "https://a.b/_next_/*x* is bare"),
        ("![a picture](p.png) ![](q.png)", "[image: a picture] (p.png) [image: ] (q.png)"),
        ("[bank](http://evil.example)", "bank (http://evil.example)"),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))"),
        ("# One\n## Two ##\n### C#\n#no heading\n####### seven", "One\nTwo\nC#\n#no heading\n####### seven"),
        ("one\ntwo  \nthree\\\nfour", "one\ntwo\nthree\nfour"),
        ("the end\\", "the end\\"),
        ("the end\\\n\nnext", "the end\\\n\nnext"),
        ("docker run \\\n  --rm x", "docker run \\\n  --rm x"),
        ("a\n\n\nb\n\n", "a\n\n\nb"),
        ("> \tcode\n>\t- item", "│     code\n│ • item"),
    ],
)
def test_what_is_shown(markdown: str, text: str) -> None:
    assert plain(written(markdown)).removesuffix("\n") == text


def test_emphasis_is_seen() -> None:
    output = written("**bold** *italic* ~~gone~~ `code` ***both*** [link](http://u.rl) plain")

    assert style_of("bold", output).bold
    assert style_of("italic", output).italic
    assert style_of("gone", output).strikethrough
    assert style_of("code", output).foreground is not None
    assert style_of("both", output).bold
    assert style_of("both", output).italic
    assert style_of("link", output).underline
    assert style_of("(http://u.rl)", output).dim
    assert style_of("plain", output) == style_of("plain", "plain")


def test_headings_are_bold_and_of_a_colour_for_each_level() -> None:
    output = written("# One\n## Two\n### Three\n#### Four")

    looks = [style_of(word, output) for word in ("One", "Two", "Three", "Four")]
    assert all(look.bold for look in looks)
    assert len({(look.foreground, look.underline) for look in looks}) == len(looks)


def test_without_colours_the_rest_of_the_styles_is_left() -> None:
    output = written("# One\n**bold** `code` and\n```python\nimport os\n```", no_color=True)

    assert style_of("One", output).bold
    assert {style.foreground for _, style in styles(output)} == {None}


def test_lists_have_hanging_indents_at_every_depth() -> None:
    rows = shown("- one two three four\n  - five six seven eight\n\n10. nine ten eleven\n* [ ] to do\n+ [x] done", 14)

    assert rows == [
        "• one two",
        "  three four",
        "  • five six",
        "    seven",
        "    eight",
        "",
        "10. nine ten",
        "    eleven",
        "☐ to do",
        "☑ done",
    ]


def test_quotes_have_a_bar_on_every_row() -> None:
    rows = shown("> one two three\n>\n> > four five six\n> - seven eight", 13)

    assert rows == ["│ one two", "│ three", "│", "│ │ four five", "│ │ six", "│ • seven", "│   eight"]


@pytest.mark.parametrize("rule", ["---", "***", "___", "- - -", "*****"])
def test_a_rule_is_drawn(rule: str) -> None:
    assert shown(f"a\n\n{rule}\n\nb", 20) == ["a", "", "─" * 20, "", "b"]


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21 12:00:00  INFO   started    pid=42",
        '{\n  "a": [1, 2],\n  "b": {"c": "*"}\n}',
        "  +---+\n  | x |\n  +---+",
        "name\tsize\nfoo\t12",
        "drwxr-xr-x  2 root root  4096 Nov 21 20:46 .ci",
        "    indented *as it is*\n      and more",
        'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    f()',
        "a = b\n=====",
    ],
)
def test_what_is_no_markdown_stays_as_it_is(text: str) -> None:
    assert shown(text) == [line.expandtabs(8) for line in text.split("\n")]


@pytest.mark.parametrize(
    "text",
    [
        "a\x1b[31mb",
        "`a\x1b]0;title\x07b`",
        "```\x1b[2J\na\x1b[1Ab\n```",
        "    a\x9b31mb",
        "| a\x1b[2K |\n|---|\n| \x1b[5n |",
        "[a\x1b[0m](http://x/\x1b[1m)",
        "&#27;[31m &#x9b;31m &#13;x",
        "a\rb",
    ],
)
def test_nothing_in_a_text_drives_the_terminal(text: str) -> None:
    output = written(text)

    assert "\r" not in output
    sequences = output.split("\x1b")[1:]
    assert all(sequence.lstrip("[0123456789;").startswith("m") for sequence in sequences)
    assert not set(output) & {"\x07", "\x9b"}
    assert "\x1b[31m" not in output


@pytest.mark.parametrize("entity", ["&#10;", "&NewLine;", "&Tab;"])
def test_an_entity_does_not_break_a_line(entity: str) -> None:
    assert len(shown(f"> a{entity}b")) == 1


def test_a_terminal_that_cannot_show_them_gets_other_marks() -> None:
    with io.TextIOWrapper(io.BytesIO(), encoding="ascii") as file:
        prose = StreamedMarkdown(Console(file=file, force_terminal=True, width=20, color_system=None, _environ={}))

        prose.write("- a\n- [ ] b\n> c\n\n---")
        prose.end()

        file.seek(0)
        assert file.read().split("\n") == ["* a", "[ ] b", "| c", "", "-" * 20, ""]
