from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.terminal.text import encodable, end_of, one_line, plain_lines, visible
from tests.terminal.report.samples import texts


def _allowed_by_xml(letter: str) -> bool:
    code = ord(letter)
    return code in {9, 10, 13} or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or code >= 0x10000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x00\x1b\x7f", r"\x00\x1b\x7f"),
        ("\x9b\x85", r"\x9b\x85"),
        ("\ud800", r"\ud800"),
        ("\udcff", r"\udcff"),
        ("\ufffe\U0001ffff", r"\ufffe\U0001ffff"),
        ("\u202eabc", r"\u202eabc"),
        ("a\tb\r\n漢🙂", "a\tb\r\n漢🙂"),
    ],
)
def test_what_cannot_be_shown_is_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text(st.characters(exclude_categories=())))
def test_what_is_visible_is_allowed_in_xml_and_can_be_encoded(text: str) -> None:
    shown = visible(text)

    assert all(map(_allowed_by_xml, shown))
    assert shown.encode().decode() == shown


@given(st.text(st.characters(exclude_categories=("C", "Z"))))
def test_text_of_letters_stays_as_it_is(text: str) -> None:
    assert visible(text) == plain_lines(text) == one_line(text) == encodable(text) == text


def test_the_ends_of_lines_of_a_terminal_become_newlines_and_no_other_carriage_return_does() -> None:
    assert plain_lines("one\r\ntwo\r\r\n10%\r20%") == "one\ntwo\n10%\\r20%"


def test_a_flood_of_carriage_returns_is_read_once() -> None:
    flood = "\r" * 1_000_000

    assert plain_lines(flood) == "\\r" * 1_000_000


@given(texts)
def test_a_name_has_one_line(text: str) -> None:
    assert not set(one_line(text)) & set("\r\n\t\x0b\x0c\x85")


@given(texts)
def test_text_that_can_be_encoded_loses_nothing_but_halves_of_pairs(text: str) -> None:
    encodable(text).encode()

    assert encodable(text) == text or any("\ud800" <= letter <= "\udfff" for letter in text)


@given(texts, st.integers(0, 20))
def test_the_end_of_a_text_and_the_number_of_what_is_missing_make_the_whole(text: str, limit: int) -> None:
    end, missing = end_of(text, limit)

    assert len(end) <= limit
    assert text[missing:] == end


def test_a_text_is_cut_behind_a_line_so_that_no_sequence_loses_its_head() -> None:
    end, missing = end_of("first\x1b[31m red\r\nsecond", 10)

    assert (end, missing) == ("second", 16)
