"""A set to which adding costs little at any size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reenact.domain.growing_set import GrowingSet


@given(st.lists(st.lists(st.sampled_from("abcdefgh"))))
def test_it_has_what_was_added_and_the_sets_that_it_grew_from_do_not_change(added: list[list[str]]) -> None:
    sets = [GrowingSet()]
    for texts in added:
        sets.append(sets[-1].plus(texts))

    for number, grown in enumerate(sets):
        expected = {text for texts in added[:number] for text in texts}
        assert (set(grown), len(grown)) == (expected, len(expected))
        assert [text in grown for text in "abcdefgh"] == [text in expected for text in "abcdefgh"]


def test_what_is_there_already_is_not_added_again() -> None:
    grown = GrowingSet().plus(["a", "b"])

    assert grown.plus(["b", "a"]) is grown
    assert "c" not in grown


def test_a_text_is_copied_a_few_times_only_however_many_there_are() -> None:
    grown, copied = GrowingSet(), 0
    for number in range(0, 20_000, 2):
        before, grown = grown, grown.plus([f"{number}", f"{number + 1}"])
        copied += sum(len(part) for part in grown.parts if not any(part is old for old in before.parts))

    assert len(grown) == 20_000
    assert len(grown.parts) <= 14
    assert copied <= 20_000 * 14
