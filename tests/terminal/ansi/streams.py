"""What programs might write to a terminal, and what none should."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from hypothesis import strategies as st


def _range(first: str, last: str) -> str:
    return "".join(map(chr, range(ord(first), ord(last) + 1)))


def _run(characters: str) -> st.SearchStrategy[str]:
    return st.text(st.sampled_from(characters), max_size=8)


def _in_turn(*parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map("".join)


TELLING = (
    "\x1b\x1b\x1b[[]P_^X\\\\();:?<#NOMm78cK0123 ~"
    "\x07\x18\x1a\x7f\0\n\r\b\t\x84\x85\x8e\x90\x98\x9b\x9c\x9d\x9e\x9f\xa0é漢a"
)
wild = st.text(st.sampled_from(TELLING), max_size=60) | st.text(max_size=30)
"""Text that is rich in characters with which sequences begin, go on and end, wherever they stand."""

_C1 = _range("\x80", "\x9f")
plain_texts = st.text(st.characters(exclude_characters="\x1b" + _C1, exclude_categories=()))
"""Text of all that is not part of any sequence."""


_DONE_ANYWAY = "\0\x07\x08\t\n\r\x0e\x7f"
_in_strings = st.text(st.characters(exclude_characters="\x07\x18\x1a\x1b" + _C1), max_size=12)
_st = st.sampled_from(("\x1b\\", "\x9c"))

controls = _in_turn(
    st.sampled_from(("\x1b[", "\x9b")),
    _run("<=>?"),
    _run("0123456789:;" + _DONE_ANYWAY),
    _run(_range(" ", "/")),
    st.sampled_from(_range("@", "~")),
)
escapes = _in_turn(
    st.just("\x1b"), _run(_DONE_ANYWAY), _run(_range(" ", "/")), st.sampled_from(_range("0", "O") + "Q~cno|")
)
strings = _in_turn(
    st.sampled_from(("\x1bP", "\x1bX", "\x1b^", "\x1b_", "\x90", "\x98", "\x9e", "\x9f")), _in_strings, _st
)
commands = _in_turn(st.sampled_from(("\x1b]", "\x9d")), _in_strings, _st | st.just("\x07"))
singles = st.sampled_from("\x80\x84\x85\x8d\x8e\x8f\x91\x99\x9a\x9c")
sequences = controls | escapes | strings | commands | singles


def in_pieces(text: str, cuts: Sequence[int]) -> Iterator[str]:
    """Yield the text in pieces that end at the cuts, taken modulo its length."""
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    for start, end in pairwise(places):
        yield text[start:end]
