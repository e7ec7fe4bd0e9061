"""Text without its sequences, and the text that a reader is left with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.terminal import ANSIParser
from reenact.terminal.ansi.parser import ANSIStripper
from reenact.terminal.screen.engine import Engine
from tests.terminal.ansi.reference import simple_tokens
from tests.terminal.ansi.streams import in_pieces, plain_texts, sequences, wild

parser = ANSIParser()


@given(st.lists(st.tuples(plain_texts, sequences), max_size=8), plain_texts)
def test_property_03_ansi_escape_sequence_parsing(pairs: list[tuple[str, str]], last: str) -> None:
    """Property 03: ANSI Escape Sequence Parsing (requirements 1.4)."""
    text = "".join(plain + sequence for plain, sequence in pairs) + last

    assert parser.strip(text) == "".join(plain for plain, _ in pairs) + last


@given(wild)
def test_requirement_1_4_only_texts_are_left(text: str) -> None:
    assert parser.strip(text) == "".join(content for kind, content in simple_tokens(text) if kind == "text")


@given(wild)
def test_what_is_stripped_has_nothing_left_to_strip(text: str) -> None:
    once = parser.strip(text)

    assert parser.strip(once) == once
    assert not any(character == "\x1b" or "\x80" <= character <= "\x9f" for character in once)


@given(wild, st.lists(st.integers(0, 1000), max_size=8))
def test_a_stripper_returns_the_same_in_whatever_pieces_text_comes(text: str, cuts: list[int]) -> None:
    stripper = ANSIStripper()
    by_character = ANSIStripper()

    stripped = "".join(map(stripper.feed, in_pieces(text, cuts)))

    assert stripped == parser.strip(text)
    assert "".join(map(by_character.feed, text)) == stripped


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a\tb\r\nc\bd\x07\0\x7f", "a\tb\r\nc\bd\x07\0\x7f"),
        ("\x1b[31mred\x1b[0m and \x9b1mbold\x9bm", "red and bold"),
        ("\x1b]8;;https://example.org\x1b\\a link\x1b]8;;\x1b\\", "a link"),
        ("a\x1b[3\x18b\x1b]0;t\x1ac", "abc"),
        ("a\x18b\x1ac", "a\x18b\x1ac"),
        ("a\x1b[3\n1mb", "ab"),
        ("shown\x1b]0;never ended", "shown"),
        ("漢字é\x85\U0001f600", "漢字é\U0001f600"),
        ("\ud800", "\ud800"),
    ],
)
def test_strip_keeps_controls_outside_sequences_and_drops_sequences_whole(text: str, left: str) -> None:
    assert parser.strip(text) == left


TO_NOTHING = (
    "\x1b[1;31m",
    "\x1b[38:2::1:2:3m",
    "\x1b[?2004h",
    "\x1b[1?m",
    "\x1b[3\x7f1m",
    "\x1b[31\x18",
    "\x1b[3\x1b[m",
    "\x1b(B",
    "\x1b]0;a title\x07",
    "\x1b]8;;https://example.org\x1b\\",
    "\x1b]0;a title\x18",
    "\x1b]0;a title\x1b[m",
    "\x1bP1$r0m\x1b\\",
    "\x1b_Ga=q\x07\x1b\\",
    "\x1b^private\x1b\\",
    "\x1bXany\x1b\\",
    "\x1b\\",
)


@given(st.lists(st.text(st.sampled_from("ab [];m"), min_size=1, max_size=9) | st.sampled_from(TO_NOTHING), max_size=12))
def test_what_is_left_is_what_a_terminal_shows(parts: list[str]) -> None:
    text = "".join(parts)
    engine = Engine(200, 2)

    engine.feed(text.encode())

    assert engine.text() == parser.strip(text).rstrip()
    engine.close()


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("one\r\ntwo\nthree\r\n", "one\ntwo\nthree\n"),
        ("10%\r50%\r100%\r\ndone", "100%\ndone"),
        ("a long line\rshort", "shortg line"),
        ("a long line\r\x1b[Kshort", "short"),
        ("a long line\x1b[2K\rshort", "short"),
        ("abc\x1b[2Kd", "   d"),
        ("abc\x1b[2K", ""),
        ("abc\x1b[2K\b\bd\re", "ed"),
        ("abcdef\x1b[2Kg\rh", "h     g"),
        ("abcdef\b\b\b\x1b[0Kg", "abcg"),
        ("abcdef\r\x1b[1K", "abcdef"),
        ("abcdef\r\x1b[?K", "abcdef"),
        ("abd\bc\bcd", "abcd"),
        ("\b\ba", "a"),
        ("a\x07\0b\x7f\x18", "ab"),
        ("a\tb", "a\tb"),
        ("a\x0bb\x0cc\x85d\x1bEe", "a\nb\nc\nd\ne"),
        ("\x1b[31mred\x1b[m \x1b]0;title\x07text", "red text"),
        ("", ""),
    ],
)
def test_extract_text_gives_the_lines_that_a_reader_is_left_with(text: str, read: str) -> None:
    assert parser.extract_text(text) == read


@given(st.text(st.sampled_from("ab \n\t漢é")))
def test_text_that_nothing_moves_in_is_read_as_it_is(text: str) -> None:
    assert parser.extract_text(text) == text


WRITTEN = ("a", "bc", " ", "def", "\r", "\b", "\r\n", "\x1b[K", "\x1b[0K", "\x1b[2K", "\x1b[31m", "\x07", "\x1bE")


@given(st.lists(st.sampled_from(WRITTEN), max_size=40))
def test_extracted_lines_are_those_that_a_terminal_shows(parts: list[str]) -> None:
    text = "".join(parts)
    engine = Engine(200, 60)

    engine.feed(text.encode())

    assert [line.rstrip() for line in parser.extract_text(text).rstrip().split("\n")] == engine.text().split("\n")
    engine.close()


@given(wild)
def test_extracted_text_has_no_control_characters_but_tabs_and_newlines(text: str) -> None:
    extracted = parser.extract_text(text)

    assert not any(c not in "\t\n" and (c < " " or "\x7f" <= c <= "\x9f") for c in extracted)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("again", ["\x1b[2Kx", "\x1b[2K\rx", "\x1b[2Kx\b\b", "\r\x1b[K", "\b"])
def test_a_line_that_is_written_over_and_over_takes_no_longer(again: str) -> None:
    text = "x" * 500_000 + again * 20_000

    assert "\n" not in parser.extract_text(text)
