"""What has arrived is kept, as much as is wanted, and searched."""

from __future__ import annotations

import re
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.terminal.ansi.parser import ANSIParser
from reenact.terminal.errors import TerminalTestErrorType
from reenact.terminal.session.transcript import Tail, Transcript, compiled
from tests.terminal.raising import raises

PIECES = st.lists(st.binary(max_size=12) | st.sampled_from([b"\x1b[3", b"1m", b"\xe2\x82", b"\xac", b"\r", b"\n"]))


@given(PIECES, st.integers(1, 40), st.integers(0, 200))
def test_the_last_of_what_was_added_is_kept(pieces: list[bytes], limit: int, place: int) -> None:
    kept = Tail(limit)

    for piece in pieces:
        kept.add(piece)

    whole = b"".join(pieces)
    assert kept.end == len(whole)
    assert kept.start == max(0, len(whole) - limit)
    assert kept.since(place) == whole[max(place, kept.start) :]


@given(st.lists(st.integers(1, 9_000), max_size=8), st.integers(1, 20_000))
def test_large_pieces_are_kept_as_small_ones_are(sizes: list[int], limit: int) -> None:
    kept = Tail(limit)
    whole = b""

    for size in sizes:
        piece = bytes(ord("a") + (len(whole) + i) % 26 for i in range(size))
        whole += piece
        kept.add(piece)

    assert kept.since(0) == whole[-limit:]


@given(PIECES)
def test_requirement_1_3_however_output_arrives_it_is_all_there(pieces: list[bytes]) -> None:
    transcript = Transcript(1_000_000)

    for piece in pieces:
        transcript.add(piece)
    transcript.complete()

    whole = b"".join(pieces)
    assert transcript.output_bytes() == whole
    assert transcript.output() == whole.decode(errors="replace")
    assert transcript.stripped_output() == ANSIParser().strip(whole.decode(errors="replace"))


def test_a_character_that_is_not_complete_is_not_shown_yet() -> None:
    transcript = Transcript(100)

    transcript.add(b"5 \xe2\x82")
    assert (transcript.output(), transcript.stripped_output()) == ("5 ", "5 ")

    transcript.add(b"\xac")
    assert (transcript.output(), transcript.stripped_output()) == ("5 €", "5 €")

    transcript.add(b"\xe2")
    transcript.complete()
    assert (transcript.output(), transcript.stripped_output()) == ("5 €\ufffd", "5 €\ufffd")


@given(
    st.lists(st.sampled_from(["a", "b", "aab", "\r\n", "\r", "\n"]), max_size=30),
    st.sampled_from(["aab", "a\nb", "\n"]),
)
def test_a_text_is_found_as_soon_as_it_is_there_wherever_it_was_cut(pieces: list[str], wanted: str) -> None:
    transcript = Transcript(1_000_000)
    search = partial(transcript.search, compiled(wanted), only_new=True)
    plain = re.compile(re.escape(wanted).replace("\\\n", "\r?\n"))
    whole = ""
    matched = 0

    for piece in pieces:
        transcript.add(piece.encode())
        whole += piece
        expected = plain.search(whole, matched)
        found = search()

        assert found == (None if expected is None else whole[matched : expected.end()])
        if expected is not None:
            matched = expected.end()
            assert transcript.new_output() == whole[matched:]


def test_what_was_matched_is_not_matched_again_unless_all_is_wanted() -> None:
    transcript = Transcript(100)
    transcript.add(b"one two one")

    assert transcript.search(compiled("one"), only_new=True) == "one"
    assert transcript.search(compiled(re.compile("t(w)o")), only_new=True) == " two"
    assert transcript.match is not None
    assert transcript.match.group(1) == "w"
    assert transcript.search(compiled("two"), only_new=True) is None
    assert transcript.search(compiled("two"), only_new=False) == "one two"
    assert transcript.search(compiled("one"), only_new=True) == " one"
    assert transcript.search(compiled("one"), only_new=True) is None


def test_what_was_dropped_is_counted_and_the_rest_can_be_searched() -> None:
    transcript = Transcript(10)
    search = partial(transcript.search, compiled("ab"), only_new=True)

    transcript.add(b"ab" + b"x" * 20)
    assert transcript.dropped == 12
    assert search() is None
    transcript.add(b"yaba")

    assert search() == "xxxxxx" + "yab"
    assert transcript.dropped == 16
    assert transcript.output_bytes() == b"xxxxxxyaba"


def test_a_character_that_is_dropped_in_part_is_dropped() -> None:
    transcript = Transcript(4)

    transcript.add("€abc".encode())

    assert (transcript.dropped, transcript.stripped_output()) == (2, "abc")
    assert transcript.search(compiled("b"), only_new=True) == "ab"
    assert transcript.new_output() == "c"


@pytest.mark.parametrize("wrong", ["", b"bytes", re.compile(b"bytes"), None, 3])
def test_what_is_no_pattern_is_refused(wrong: str) -> None:
    with raises(TerminalTestErrorType.INVALID_CONFIG, "pattern"):
        compiled(wrong)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r\r\n"])
def test_the_end_of_a_line_is_found_as_terminals_write_it(end: str) -> None:
    transcript = Transcript(100)
    search = partial(transcript.search, compiled("a\nb"), only_new=True)

    found: list[str | None] = []
    for character in f"a{end}b":
        transcript.add(character.encode())
        found.append(search())

    assert found == [None] * len(end) + [None, f"a{end}b"]
