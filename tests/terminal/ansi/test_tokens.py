"""What the tokens of a stream are, in whatever pieces it comes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reenact.terminal import ANSIParser, ANSIStyle, ANSIToken, TerminalTestErrorType
from reenact.terminal.ansi.parser import ANSITokenizer
from tests.terminal.ansi.reference import simple_tokens, told
from tests.terminal.ansi.streams import in_pieces, sequences, wild
from tests.terminal.raising import raises

parser = ANSIParser()


def joined(tokens: Iterable[ANSIToken]) -> list[ANSIToken]:
    """Return the tokens with neighbouring texts as one."""
    result: list[ANSIToken] = []
    for token in tokens:
        if result and result[-1].type == token.type == "text":
            assert result[-1].style == token.style
            result[-1] = msgspec.structs.replace(token, content=result[-1].content + token.content)
        else:
            result.append(token)
    return result


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("\x1b[31m", "csi"),
        ("\x1b[?2004h", "csi"),
        ("\x1b[4:3;58:2::1:2:3m", "csi"),
        ("\x1b[0 q", "csi"),
        ("\x9b31m", "csi"),
        ("\x1b[3\n1m", "csi"),
        ("\x1b[1?;m", "csi"),
        ("\x1b(B", "escape"),
        ("\x1b#8", "escape"),
        ("\x1b7", "escape"),
        ("\x1b\\", "escape"),
        ("\x1bN", "escape"),
        ("\x1bO", "escape"),
        ("\x8e", "c1"),
        ("\x8f", "c1"),
        ("\x85", "c1"),
        ("\x9c", "c1"),
        ("\x1b]0;a title\x07", "osc"),
        ("\x1b]0;a title\x1b\\", "osc"),
        ("\x1b]0;a title\x9c", "osc"),
        ("\x9d8;;https://example.org\x07", "osc"),
        ("\x1bP1$r0m\x1b\\", "dcs"),
        ("\x90q\x07\x9c", "dcs"),
        ("\x1b_Gi=1;AAAA\x1b\\", "apc"),
        ("\x9fa\x9c", "apc"),
        ("\x1b^private\x1b\\", "pm"),
        ("\x1bXany\x9c", "sos"),
        ("\x1b[31\x18", "cancelled"),
        ("\x1b]0;t\x1a", "cancelled"),
        ("\x1b(\x18", "cancelled"),
    ],
)
def test_a_sequence_is_one_token_of_its_kind(text: str, kind: str) -> None:
    assert told(parser.parse(f"a{text}b")) == [("text", "a"), (kind, text), ("text", "b")]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("\x1b[3\x1b[1m", [("cancelled", "\x1b[3"), ("csi", "\x1b[1m")]),
        ("\x1b]0;t\x1b[1m", [("cancelled", "\x1b]0;t"), ("csi", "\x1b[1m")]),
        ("\x1b]0;t\x9b1m", [("cancelled", "\x1b]0;t"), ("csi", "\x9b1m")]),
        ("\x1b\x1b\x1bc", [("cancelled", "\x1b"), ("cancelled", "\x1b"), ("escape", "\x1bc")]),
        ("\x1b[3é", [("cancelled", "\x1b[3"), ("text", "é")]),
        ("\x1bé", [("cancelled", "\x1b"), ("text", "é")]),
        ("\x1bOP", [("escape", "\x1bO"), ("text", "P")]),
        ("\x1b]t\x1b\\x", [("osc", "\x1b]t\x1b\\"), ("text", "x")]),
        ("\x18\x1a", [("text", "\x18\x1a")]),
        ("", []),
    ],
)
def test_what_cannot_go_on_ends_and_the_next_begins(text: str, tokens: list[tuple[str, str]]) -> None:
    assert told(parser.parse(text)) == tokens


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("\x1b", "escape"),
        ("\x1b(", "escape"),
        ("\x1b[31", "csi"),
        ("\x9b", "csi"),
        ("\x1b]0;title", "osc"),
        ("\x1b]0;title\x1b", "osc"),
        ("\x1bP", "dcs"),
        ("\x1bX", "sos"),
        ("\x1b^", "pm"),
        ("\x1b_", "apc"),
    ],
)
def test_a_sequence_that_does_not_end_is_an_incomplete_token(text: str, kind: str) -> None:
    *before, last = parser.parse(f"\x1b[1ma{text}")

    assert [token.complete for token in before] == [True, True]
    assert (last.kind, last.content, last.complete) == (kind, text, False)
    assert last.style == ANSIStyle(bold=True)


@given(wild)
def test_no_character_is_lost_and_no_two_texts_are_neighbours(text: str) -> None:
    tokens = parser.parse(text)

    assert "".join(token.content for token in tokens) == text
    assert all(token.content for token in tokens)
    assert not any(one.type == other.type == "text" for one, other in itertools.pairwise(tokens))
    assert all(token.complete for token in tokens[:-1])
    assert all((token.type == "text") == (token.kind == "text") for token in tokens)


@given(wild)
@example("\x1b]\x1b")
@example("\x1bP\x07\x1b\x1b\\")
def test_the_tokens_are_those_of_a_reading_by_character(text: str) -> None:
    assert told(parser.parse(text)) == simple_tokens(text)


@given(wild, st.lists(st.integers(0, 1000), max_size=8))
def test_the_tokens_are_the_same_in_whatever_pieces_they_come(text: str, cuts: list[int]) -> None:
    tokenizer = ANSITokenizer()

    tokens = [token for piece in in_pieces(text, cuts) for token in tokenizer.feed(piece)]

    assert joined([*tokens, *tokenizer.close()]) == parser.parse(text)


@given(wild)
def test_the_tokens_are_the_same_character_by_character(text: str) -> None:
    tokenizer = ANSITokenizer()

    tokens = [token for character in text for token in tokenizer.feed(character)]

    assert joined([*tokens, *tokenizer.close()]) == parser.parse(text)


@given(sequences)
def test_whatever_the_grammar_can_make_is_one_token(sequence: str) -> None:
    (token,) = parser.parse(sequence)

    assert token.complete
    assert token.kind != "cancelled"


def test_a_tokenizer_that_was_closed_begins_anew() -> None:
    tokenizer = ANSITokenizer()
    tokenizer.feed("\x1b[1ma\x1b]0;t")
    tokenizer.close()

    assert told(tokenizer.feed("b\x07")) == [("text", "b\x07")]
    assert tokenizer.feed("c")[0].style == ANSIStyle()
    assert tokenizer.close() == []


def test_a_text_is_told_before_the_next_sequence_comes() -> None:
    tokenizer = ANSITokenizer()

    assert told(tokenizer.feed("$ \x1b[")) == [("text", "$ ")]
    assert told(tokenizer.feed("1m")) == [("csi", "\x1b[1m")]


@pytest.mark.parametrize(
    ("content", "private", "params", "intermediates", "final"),
    [
        ("\x1b[m", "", (), "", "m"),
        ("\x1b[4:3;;1m", "", ((4, 3), (None,), (1,)), "", "m"),
        ("\x1b[?1049;2004h", "?", ((1049,), (2004,)), "", "h"),
        ("\x1b[>4;2m", ">", ((4,), (2,)), "", "m"),
        ("\x9b2 q", "", ((2,),), " ", "q"),
        ("\x1b[!p", "", (), "!", "p"),
        ("\x1b[1\x075A", "", ((15,),), "", "A"),
        ("\x1b[" + "9" * 5000 + ";007A", "", ((65_535,), (7,)), "", "A"),
        ("\x1b[1?A", "", (), "", ""),
        ("\x1b[ 1A", "", (), "", ""),
        ("\x1b[31\x18", "", (), "", ""),
        ("\x1b[31", "", (), "", ""),
        ("\x1bA", "", (), "", ""),
        ("plain 1A", "", (), "", ""),
    ],
)
def test_a_control_sequence_has_parts(
    content: str, private: str, params: tuple[tuple[int | None, ...], ...], intermediates: str, final: str
) -> None:
    (token,) = parser.parse(content)

    assert (token.private, token.params, token.intermediates, token.final) == (private, params, intermediates, final)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("part", ["\x1b", "\x1b]", "\x1b[", "\x1b]\x1b", "\x1b ", "\x9b1;", "\x1bP\0"], ids=ascii)
def test_many_beginnings_take_no_longer_than_other_text(part: str) -> None:
    text = part * 20_000
    tokenizer = ANSITokenizer()

    pieces = [token for character in text for token in tokenizer.feed(character)]

    assert [*pieces, *tokenizer.close()] == parser.parse(text)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("text", ["\x1b]0;" + "x" * 10_000_000, "\x1b[" + "1;" * 5_000_000, "\x1b" + "\0" * 10_000_000])
def test_a_sequence_may_be_long_and_never_end(text: str) -> None:
    tokenizer = ANSITokenizer()

    tokens = [token for piece in in_pieces(text, range(0, len(text), 1000)) for token in tokenizer.feed(piece)]

    assert tokens == []
    assert [token.content for token in tokenizer.close()] == [text]


@pytest.mark.parametrize("method", ["strip", "parse", "extract_text"])
def test_bytes_are_refused_with_what_to_do(method: str) -> None:
    with raises(TerminalTestErrorType.INVALID_CONFIG, "decode bytes first"):
        getattr(parser, method)(b"text")
