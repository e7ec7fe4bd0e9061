"""Ids sort by when they were made."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from reenact.actors.ids import make_id

moments = st.tuples(st.integers(0, 2**48 - 1), st.integers(0, 2**80 - 1))


@given(moments, moments)
def test_ids_sort_as_the_moments_they_were_made_at(first: tuple[int, int], second: tuple[int, int]) -> None:
    ids = make_id("ses", *first), make_id("ses", *second)

    assert (ids[0] < ids[1], ids[0] == ids[1]) == (first < second, first == second)


@given(moments)
def test_an_id_says_what_it_is_of(moment: tuple[int, int]) -> None:
    assert re.fullmatch(r"agt_[0-9a-hjkmnp-tv-z]{26}", make_id("agt", *moment))


def test_an_id_reads_as_a_ulid_does() -> None:
    assert make_id("trn", 1469918176385, 0) == "trn_01aryz6s41" + "0" * 16
    assert make_id("x", 0, 33) == "x_" + "0" * 24 + "11"
