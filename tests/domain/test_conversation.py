"""A conversation is a value: whoever holds one sees what it was, whatever grows out of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.domain.conversation import LEFT_OUT, Conversation, without_longest_result
from reenact.domain.messages import Said, TextBlock, ToolResultBlock


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


class Log:
    """What was said, and how often it was read."""

    def __init__(self, *texts: str) -> None:
        self.said = [say(text) for text in texts]
        self.reads = 0

    def read(self) -> list[Said]:
        self.reads += 1
        return self.said


@given(st.integers(0, 5), st.integers(0, 5), st.slices(10))
def test_what_is_read_late_is_what_was_said(before: int, after: int, part: slice) -> None:
    log = Log(*map(str, range(before + after)))
    conversation = Conversation.unread(before, log.read)
    for said in log.said[before:]:
        conversation = conversation.plus(said)

    assert conversation[part] == log.said[part]
    assert list(conversation) == log.said
    assert [conversation[place] for place in range(-len(log.said), len(log.said))] == log.said * 2
    assert conversation == Conversation(log.said)
    assert log.reads == (before > 0)


def test_the_beginning_is_not_read_for_the_end() -> None:
    log = Log("a", "b", "c")

    conversation = Conversation.unread(2, log.read).plus(log.said[2]).plus(say("d"))

    assert (conversation[-1], conversation[2:], conversation[-2:0]) == (say("d"), [log.said[2], say("d")], [])
    assert (len(conversation), conversation.is_read, log.reads) == (4, False, 0)


def test_the_beginning_is_read_once_for_all_that_grow_out_of_it() -> None:
    log = Log("a")
    parent = Conversation.unread(1, log.read)
    children = [parent.plus(say(text)) for text in "bc"]

    assert [[said.text for said in child] for child in children] == [["a", "b"], ["a", "c"]]
    assert (log.reads, parent.is_read) == (1, True)


def test_a_conversation_that_cannot_be_read_equals_what_is_as_long_and_ends_alike() -> None:
    unread = Conversation.unread(1).plus(say("b"))

    assert unread == Conversation([say("a"), say("b")])
    assert unread != Conversation([say("a"), say("c")])
    assert unread != Conversation([say("b")])
    assert repr(unread) == f"Conversation(1 before, [{say('b')!r}])"
    with pytest.raises(LookupError, match="source of the conversation"):
        list(unread)


def test_the_longest_result_is_left_out_and_the_others_stay() -> None:
    blocks = ({"type": "text", "text": "x" * 300}, {"type": "image", "source": "y" * 999})
    results = Said("user", (ToolResultBlock("c1", "x" * 200), ToolResultBlock("c2", blocks), TextBlock("z" * 999)))

    first = without_longest_result([say("a" * 999), results])
    assert first == [
        say("a" * 999),
        Said("user", (results.content[0], ToolResultBlock("c2", LEFT_OUT), TextBlock("z" * 999))),
    ]
    second = without_longest_result(first or [])
    assert second is not None
    assert second[1].tool_results == (ToolResultBlock("c1", LEFT_OUT), ToolResultBlock("c2", LEFT_OUT))
    assert without_longest_result(second) is None


def test_a_conversation_without_results_has_none_to_leave_out() -> None:
    assert without_longest_result([say("a")]) is None
