"""The styles that sequences add up to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.terminal import ANSIParser, ANSIStyle
from reenact.terminal.ansi.style import PLAIN, palette_color, rgb_color
from reenact.terminal.screen.engine import Engine

parser = ANSIParser()


def style_after(text: str) -> ANSIStyle:
    return parser.parse(f"{text}x")[-1].style


@pytest.mark.parametrize(
    ("parameters", "style"),
    [
        ("1", ANSIStyle(bold=True)),
        ("2", ANSIStyle(dim=True)),
        ("3", ANSIStyle(italic=True)),
        ("4", ANSIStyle(underline="single")),
        ("4:1", ANSIStyle(underline="single")),
        ("4:2", ANSIStyle(underline="double")),
        ("4:3", ANSIStyle(underline="curly")),
        ("4:4", ANSIStyle(underline="dotted")),
        ("4:5", ANSIStyle(underline="dashed")),
        ("21", ANSIStyle(underline="double")),
        ("5", ANSIStyle(blink=True)),
        ("6", ANSIStyle(blink=True)),
        ("7", ANSIStyle(inverse=True)),
        ("8", ANSIStyle(hidden=True)),
        ("9", ANSIStyle(strikethrough=True)),
        ("53", ANSIStyle(overline=True)),
        ("31", ANSIStyle(foreground="red")),
        ("97", ANSIStyle(foreground="bright_white")),
        ("40", ANSIStyle(background="black")),
        ("104", ANSIStyle(background="bright_blue")),
        ("38;5;1", ANSIStyle(foreground="red")),
        ("38;5;208", ANSIStyle(foreground="color208")),
        ("48:5:9", ANSIStyle(background="bright_red")),
        ("38;2;1;2;255", ANSIStyle(foreground="#0102ff")),
        ("38:2::1:2:3", ANSIStyle(foreground="#010203")),
        ("38:2:1:2:3", ANSIStyle(foreground="#010203")),
        ("38:2:0:1:2:3:0:1", ANSIStyle(foreground="#010203")),
        ("58;5;4", ANSIStyle(underline_color="blue")),
        ("58:2::1:2:3", ANSIStyle(underline_color="#010203")),
        ("1;31;4:3;58:5:1", ANSIStyle(bold=True, foreground="red", underline="curly", underline_color="red")),
        ("38;5;1;1", ANSIStyle(bold=True, foreground="red")),
        ("31\x7f", ANSIStyle(foreground="red")),
        ("3\x0b1", ANSIStyle(foreground="red")),
    ],
)
def test_a_rendition_is_set(parameters: str, style: ANSIStyle) -> None:
    assert style_after(f"\x1b[{parameters}m") == style
    assert style_after(f"\x9b{parameters}m") == style


@pytest.mark.parametrize(
    ("set_by", "reset_by"),
    [
        ("1", "22"),
        ("2", "22"),
        ("3", "23"),
        ("4", "24"),
        ("4:3", "4:0"),
        ("21", "24"),
        ("5", "25"),
        ("7", "27"),
        ("8", "28"),
        ("9", "29"),
        ("53", "55"),
        ("31", "39"),
        ("91", "39"),
        ("38;2;1;2;3", "39"),
        ("41", "49"),
        ("101", "49"),
        ("58;5;1", "59"),
        ("1;3;31", "0"),
        ("1;3;31", ""),
        ("1;3;31", ";"),
    ],
)
def test_a_rendition_is_taken_back(set_by: str, reset_by: str) -> None:
    assert style_after(f"\x1b[{set_by}m") != PLAIN
    assert style_after(f"\x1b[{set_by}m\x1b[{reset_by}m") == PLAIN
    assert style_after(f"\x1b[{set_by};{reset_by}m") == PLAIN


@pytest.mark.parametrize(
    "parameters",
    [
        *("38", "38;5", "38;5;", "38;5;256", "38;2;1;2", "38;2;1;2;256", "38;2;;;", "38;7", "38;5;1:2", "38;2:1:2:3"),
        *(
            "38:5",
            "38:5:",
            "38:5:256",
            "38:2:1:2",
            "38:3:1:2:3",
            "4:6",
            "4:",
            "4:3:1",
            "1:1",
            "10",
            "26",
            "99",
            "65537",
        ),
    ],
)
def test_what_is_malformed_or_unknown_changes_nothing(parameters: str) -> None:
    assert style_after(f"\x1b[3m\x1b[{parameters}m") == ANSIStyle(italic=True)


@pytest.mark.parametrize("sequence", ["\x1b[>4;1m", "\x1b[?1m", "\x1b[1 m", "\x1b[1?m", "\x1b[1\x18", "\x1b[1\x1b\\"])
def test_what_is_no_rendition_changes_nothing(sequence: str) -> None:
    assert style_after(f"\x1b[3m{sequence}") == ANSIStyle(italic=True)


def test_a_text_has_the_style_that_holds_for_it_and_a_sequence_the_one_behind_it() -> None:
    tokens = parser.parse("a\x1b[1mb\x1b]0;t\x07\x1b[31mc\x1b[md")

    bold = ANSIStyle(bold=True)
    both = ANSIStyle(bold=True, foreground="red")
    assert [token.style for token in tokens] == [PLAIN, bold, bold, bold, both, both, PLAIN, PLAIN]


@pytest.mark.parametrize(("save", "restore"), [("\x1b7", "\x1b8"), ("\x1b[s", "\x1b[u")])
def test_what_is_saved_with_the_cursor_comes_back_with_it(save: str, restore: str) -> None:
    assert style_after(f"\x1b[1m{save}\x1b[31m{restore}") == ANSIStyle(bold=True)
    assert style_after(f"\x1b[1m{restore}") == PLAIN


@pytest.mark.parametrize("sequence", ["\x1b#7", "\x1b[?7s", "\x1b[1s"])
def test_what_only_looks_like_saving_saves_nothing(sequence: str) -> None:
    assert style_after(f"\x1b[1m{sequence}\x1b8") == PLAIN


@pytest.mark.parametrize("reset", ["\x1bc", "\x1b[!p"])
def test_a_reset_of_the_terminal_resets_the_style_and_what_was_saved(reset: str) -> None:
    assert style_after(f"\x1b[1m\x1b7{reset}") == PLAIN
    assert style_after(f"\x1b[1m\x1b7{reset}\x1b[31m\x1b8") == PLAIN


_byte = st.integers(0, 255)
_color = st.one_of(
    st.builds("{};5;{}".format, st.sampled_from((38, 48, 58)), _byte),
    st.builds("{}:5:{}".format, st.sampled_from((38, 48, 58)), _byte),
    st.builds("{};2;{};{};{}".format, st.sampled_from((38, 48, 58)), _byte, _byte, _byte),
    st.builds("{}:2::{}:{}:{}".format, st.sampled_from((38, 48, 58)), _byte, _byte, _byte),
)
_simple = st.integers(0, 110).filter(lambda code: code not in (38, 48, 58)).map(str)
_rendition = _color | _simple | st.sampled_from(("", "4:0", "4:1", "4:2", "4:3", "4:4", "4:5"))
# Ghostty reads no more than 24 parameters of one sequence, and none that is left out at its end.
_renditions = st.lists(_rendition, min_size=1, max_size=4).map(";".join).filter(lambda text: not text.endswith(";"))


@given(st.lists(_renditions, min_size=1, max_size=5))
def test_styles_are_those_that_a_terminal_shows(renditions: list[str]) -> None:
    text = "".join(f"\x1b[{parameters}mx" for parameters in renditions)
    engine = Engine(20, 2)

    engine.feed(text.encode())

    styles = [token.style for token in parser.parse(text) if token.type == "text"]
    assert styles == [cell.style for cell in engine.screen().cells[0][: len(styles)]]
    engine.close()


@given(st.text(st.sampled_from("0123456789:;"), max_size=20), st.text(st.sampled_from("0123456789:;"), max_size=20))
def test_any_parameters_give_a_style_and_zero_the_plain_one(first: str, second: str) -> None:
    assert isinstance(style_after(f"\x1b[{first}m\x1b[{second}m"), ANSIStyle)
    assert style_after(f"\x1b[{first}m\x1b[0m") == PLAIN


@given(_byte, _byte, _byte)
def test_colors_are_named_alike_by_all(red: int, green: int, blue: int) -> None:
    assert style_after(f"\x1b[38;2;{red};{green};{blue}m").foreground == rgb_color(red, green, blue)
    assert style_after(f"\x1b[48;5;{red}m").background == palette_color(red)
