from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from msgspec.structs import replace

from reenact.terminal.matching.options import AssertionResult
from reenact.terminal.report.html import DARK, LARGEST, LARGEST_IN_ALL, LIGHT, html, link_from, styled
from reenact.terminal.report.results import TestResult, TestSuiteResult
from reenact.terminal.screen.drawing import BACKGROUND, FOREGROUND, shown_color
from tests.terminal.report.html_rules import Page
from tests.terminal.report.samples import broken, failing, passing, skipped, suite, texts

HERE = Path("/reports")


def page(*tests: TestResult) -> Page:
    return Page(html([suite(*tests)], HERE))


def luminance(rgb: str) -> float:
    """Return the relative luminance of `#rrggbb`, 0 to 1, as WCAG 2.2 defines it."""
    parts = [int(rgb[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_requirement_10_5_a_page_for_people_says_of_each_test_what_became_of_it_failures_first() -> None:
    shown = page(passing(), skipped(), failing(), broken())

    assert shown.wrong == []
    assert shown.text("title") == "2 of 4 terminal tests did not pass"
    assert shown.text("h2") == "Tests that failed\nAll tests"
    assert shown.texts["h3"] == ["chat: it greets", "chat: it is set up", "chat (2.50 s)"]
    assert "waited 1 s for 'Hello'" in shown.text("pre")
    assert shown.texts["td"][:8] == ["passed", "it starts", "12.5 ms", "", "skipped", "it flies", "0 ms", "no wings"]
    assert shown.links == ["#test-1-3", "#test-1-4"]


@given(texts)
def test_no_text_becomes_markup(text: str) -> None:
    assertion = AssertionResult(passed=False, actual=text, expected=text, type="exact", diff=text, message=text)
    test = TestResult(
        name=text,
        suite=text,
        status="failed",
        duration=1.0,
        error=text,
        stack=text,
        output=text,
        screen=text,
        assertions=(assertion,),
        attachments=(text,),
    )
    plain = page(replace(test, **dict.fromkeys(("name", "error", "stack", "output", "screen"), "x"), assertions=()))

    shown = Page(html([TestSuiteResult(name=text, tests=(test,), duration=1.0)], HERE))

    assert shown.wrong == []
    assert set(shown.texts) <= {*plain.texts, "a", "ul", "li", "span"}


def test_the_output_of_a_failing_test_is_shown_in_its_colours() -> None:
    output = "\x1b[1;31mred\x1b[0m plain \x1b[38;5;208morange\x1b[0m \x1b[48;2;1;2;3mnight\x1b[0m\x1b[3;4:3;9mall\r\n"

    document = html([suite(failing(output=output))], HERE)

    shown = Page(document)
    assert shown.wrong == []
    red = shown_color("red", "")
    assert f'<span style="color: {red}; font-weight: bold">red</span> plain' in document
    assert ' <span style="color: #ff8700">orange</span> <span style="background: #010203">night</span>' in document
    assert '<span style="font-style: italic; text-decoration: underline line-through wavy">all' in document
    assert "red plain orange night" in shown.text("pre")


def test_inverse_text_is_dark_on_light_whatever_its_colours() -> None:
    red = shown_color("red", "")

    plain, colored = styled("\x1b[7mplain"), styled("\x1b[7;31mred")

    assert plain == f'<span style="color: {BACKGROUND}; background: {FOREGROUND}">plain</span>'
    assert colored == f'<span style="color: {BACKGROUND}; background: {red}">red</span>'


@pytest.mark.parametrize(
    ("sequence", "css"),
    [
        ("2", "opacity: 0.75"),
        ("8", "outline: 1px dotted"),
        ("9;53", "text-decoration: line-through overline solid"),
        ("21", "text-decoration: underline double"),
        ("4:4", "text-decoration: underline dotted"),
        ("4:5", "text-decoration: underline dashed"),
    ],
)
def test_each_style_is_shown(sequence: str, css: str) -> None:
    assert styled(f"\x1b[{sequence}mtext") == f'<span style="{css}">text</span>'


def test_sequences_that_are_no_colours_leave_no_trace_and_broken_ones_no_harm() -> None:
    painted = styled("a\x1b[2J\x1b]0;title\x07b\x1b]8;;javascript:alert(1)\x1b\\c\x1b[31")

    assert painted == "abc"


@pytest.mark.parametrize(
    ("name", "rgb"),
    [
        ("color16", "#000000"),
        ("color196", "#ff0000"),
        ("color231", "#ffffff"),
        ("color232", "#080808"),
        ("color255", "#eeeeee"),
        ("#0a0b0c", "#0a0b0c"),
    ],
)
def test_the_palette_is_that_of_xterm(name: str, rgb: str) -> None:
    assert shown_color(name, "") == rgb


@pytest.mark.parametrize("code", [*range(30, 38), *range(90, 98)])
def test_each_named_colour_can_be_read_on_the_paper(code: int) -> None:
    (ink,) = re.findall("color: (#[0-9a-f]{6})", styled(f"\x1b[{code}mtext"))

    assert contrast(ink, BACKGROUND) >= 4.5


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_the_page_can_be_read_in_light_and_in_dark(theme: dict[str, str]) -> None:
    for kind in ("ink", "link", "passed", "failed", "error", "skipped"):
        assert contrast(theme[kind], theme["paper"]) >= 4.5, kind
    assert contrast(theme["ink"], theme["added"]) >= 4.5
    assert contrast(theme["ink"], theme["removed"]) >= 4.5
    assert "prefers-color-scheme: dark" in page(passing()).style


def test_a_diff_shows_what_was_added_and_what_is_missing() -> None:
    assertion = AssertionResult(passed=False, actual="<a>", expected="b", type="exact", diff="-b\n+<a>\n same")

    document = html([suite(replace(failing(), assertions=(assertion,)))], HERE)

    assert '\n<span class="removed">-b</span>\n<span class="added">+&lt;a&gt;</span>\n same</pre>' in document


def test_a_diff_that_is_part_of_the_reason_is_shown_once_in_colours() -> None:
    assertion = AssertionResult(
        passed=False, actual="a", expected="b", type="exact", diff="-b\n+a", message="not alike"
    )
    test = replace(failing(error="step 1: not alike\n-b\n+a"), assertions=(assertion,))

    shown = page(test)

    assert shown.texts["h4"] == ["Why"]
    assert shown.text("pre").count("-b") == 1
    assert {"added", "removed"} <= shown.classes


def test_links_to_attachments_are_relative_to_the_page_and_lead_to_the_file(tmp_path: Path) -> None:
    kept = tmp_path / "kept" / "50% <of> it?#1 \udcff.svg"

    (link,) = [
        link
        for link in Page(html([suite(replace(failing(), attachments=(str(kept),)))], tmp_path / "pages")).links
        if not link.startswith("#")
    ][:1]

    assert not Path(link).is_absolute()
    assert os.path.normpath(os.fsencode(tmp_path / "pages") + b"/" + unquote_to_bytes(link)) == os.fsencode(kept)


def test_a_file_whose_name_looks_like_a_scheme_is_still_a_file() -> None:
    assert link_from(Path.cwd(), "javascript:alert(1)") == "javascript%3Aalert%281%29"


def test_a_first_line_that_is_empty_is_not_lost_as_a_line_break_is_that_comes_first_in_pre() -> None:
    document = html([suite(replace(failing(), screen="\n\n$ _"))], HERE)

    assert 'aria-label="The last screen">\n\n\n$ _</pre>' in document


def test_a_long_output_loses_its_beginning_with_a_note() -> None:
    document = html([suite(failing(output="first\n" + "x" * LARGEST + "\nlast"))], HERE)

    shown = Page(document)
    assert shown.wrong == []
    assert "first" not in shown.text("pre")
    assert shown.text("pre").endswith("\nlast")
    assert "characters before this are left out." in shown.text("p")


def test_a_page_shows_so_much_of_all_outputs_and_no_more() -> None:
    count = LARGEST_IN_ALL // LARGEST + 20
    tests = [failing(f"it is number {number}", output="x" * LARGEST) for number in range(count)]

    document = html([suite(*tests)], HERE)

    assert LARGEST_IN_ALL < len(document) < LARGEST_IN_ALL * 1.1
    assert f"<p>{LARGEST} characters before this are left out.</p>" in document
    assert f"it is number {count - 1}" in document


def test_a_page_without_tests_is_valid_and_says_so() -> None:
    shown = Page(html([], HERE))

    assert shown.wrong == []
    assert "There were none." in shown.text("p")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("</h1>", ""),
        ('lang="en"', ""),
        ('id="all"', 'id="failed"'),
        ('href="#test-1-1"', 'href="https://example.com/"'),
        ("<h3 ", "<h4 "),
        ("</article>", "</article><!-- note -->"),
        ("<main>", "<main><script>1</script>"),
        ("<header>", "<header>\x1b"),
        ('class="failed"', 'class="failed" class="passed"'),
        ("body {", "body { background: url(x);"),
    ],
)
def test_the_rules_see_what_makes_a_page_invalid(right: str, wrong: str) -> None:
    document = html([suite(failing())], HERE)

    assert right in document
    assert Page(document).wrong == []
    assert Page(document.replace(right, wrong, 1)).wrong
