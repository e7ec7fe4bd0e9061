"""A conversation is a value: whoever holds one sees what it was, whatever grows out of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.domain.conversation import Conversation
from reenact.domain.messages import Said, TextBlock


def say(text: str) -> Said:
    return Said("user", (TextBlock(text),))


@given(st.lists(st.tuples(st.integers(min_value=0), st.sampled_from("abc")), max_size=30))
def test_a_conversation_stays_what_it_is_whatever_grows_out_of_it(growth: list[tuple[int, str]]) -> None:
    held: list[tuple[Conversation, tuple[Said, ...]]] = [(Conversation(), ())]

    for parent, text in growth:
        conversation, naive = held[parent % len(held)]
        held.append((conversation.plus(say(text)), (*naive, say(text))))

    for conversation, naive in held:
        assert tuple(conversation) == naive
        assert len(conversation) == len(naive)
        assert conversation[:] == list(naive)
        assert [conversation[-place] for place in range(1, len(naive) + 1)] == list(reversed(naive))


def test_two_heirs_of_one_conversation_do_not_hear_each_other() -> None:
    parent = Conversation([say("hello")])

    first, second = parent.plus(say("one")), parent.plus(say("two"))

    assert [said.text for said in first] == ["hello", "one"]
    assert [said.text for said in second] == ["hello", "two"]
    assert [said.text for said in parent] == ["hello"]


def test_a_conversation_does_not_share_the_list_that_it_was_made_of() -> None:
    said = [say("hello")]

    conversation = Conversation(said)
    said.append(say("more"))

    assert len(conversation) == 1


def test_a_conversation_equals_what_says_the_same() -> None:
    one, same, other = Conversation([say("a")]), Conversation().plus(say("a")), Conversation([say("b")])

    assert (one == same, one == other, one == [say("a")]) == (True, False, False)
    assert hash(one) == hash(same)
    assert repr(one) == f"Conversation([{say('a')!r}])"


@pytest.mark.parametrize("index", [1, -2])
def test_there_is_nothing_beyond_its_ends(index: int) -> None:
    parent = Conversation([say("a")])
    parent.plus(say("b"))

    with pytest.raises(IndexError):
        parent[index]
