"""What a model writes is what it looks like: nothing in it turns letters around or cannot be seen."""

from __future__ import annotations

import io
from urllib.parse import quote

import pytest

from reenact.cli.render.flow import Plain
from reenact.domain.legible import in_ascii
from tests.cli.render.kit import console, plain, told, written

MASKS = "\u00ad\u200b\u202a\u202e\u2060\u2064\u2066\u2069\ufeff\U000e0041\U000e007f"


@pytest.mark.parametrize(
    "form", ["a{}b", "`a{}b`", "```py\na{}b\n```", "    a{}b", "# a{}b", "| a{}b |\n|---|\n| c |\n", "[a](b{}c)"]
)
@pytest.mark.parametrize("mask", MASKS, ids=ascii)
def test_what_would_mask_a_text_is_seen_as_an_escape(form: str, mask: str) -> None:
    output = written(form.format(mask))

    assert mask not in output
    if "](" in form:
        assert f"(b{quote(mask)}c)" in plain(output)
        return
    assert in_ascii(mask, "") in plain(output)
    assert "\x1b[7m\\\x1b[27m" in output, "which is none of the text's"


@pytest.mark.parametrize("entity", ["&#x202e;", "`&`&#8238;"])
def test_an_entity_masks_nothing_either(entity: str) -> None:
    assert "u202e" in plain(written(f"a {entity} b"))


@pytest.mark.parametrize("text", ["\\u202e", "👩\u200d💻", "a\u200cb", "☂\ufe0f", "a\u200eb\u200f"])
def test_what_masks_nothing_is_left_as_it_is(text: str) -> None:
    assert written(text) == f"{text}\n"


def test_nobody_can_write_our_mark() -> None:
    assert "\ufdd0" not in written("a\ufdd0b &#xfdd0; c")
    assert plain(written("a\ufdd0b")).rstrip() == "a\\ufdd0b"


def test_thoughts_are_masked_no_more_than_answers() -> None:
    screen = console(80)
    thoughts = Plain(screen, "dim")
    thoughts.write("a\u202eb ")
    thoughts.end()

    assert isinstance(screen.file, io.StringIO)
    assert "\u202e" not in told(screen)
    assert "u202e" in told(screen)
