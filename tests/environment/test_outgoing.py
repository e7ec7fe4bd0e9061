from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reenact.actors.environment.outgoing import api_messages
from reenact.domain.messages import (
    Block,
    OpaqueBlock,
    Role,
    Said,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from reenact.testing.fake_rules import refusal

HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}


def said(role: Role, *blocks: Block) -> Said:
    return Said(role, blocks)


def user(text: str = "Hi") -> Said:
    return said("user", TextBlock(text))


def sent(*conversation: Said) -> list[tuple[str, list[str]]]:
    return [
        (message["role"], [block["type"] for block in message["content"]]) for message in api_messages(conversation)
    ]


def test_a_plain_conversation_goes_out_as_it_was() -> None:
    assert api_messages([user(), said("assistant", TextBlock("Hello")), user("Bye")]) == [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "user", "content": [{"type": "text", "text": "Bye"}]},
    ]


def test_signed_thoughts_and_blocks_of_other_kinds_go_back_unmodified() -> None:
    opaque = {"type": "redacted_thinking", "data": "xyz"}
    answer = said(
        "assistant", ThinkingBlock("hm", "sig"), OpaqueBlock(opaque), TextBlock("Hi", ({"file_id": 1, "a": 2},))
    )

    assert api_messages([user(), answer, user()])[1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        opaque,
        {"type": "text", "text": "Hi", "citations": [{"a": 2}]},
    ]


def test_an_unsigned_thought_is_left_out() -> None:
    assert sent(user(), said("assistant", ThinkingBlock("hm"), TextBlock("Hi")), user())[1] == ("assistant", ["text"])


def test_an_answer_of_which_nothing_is_left_is_left_out_and_its_neighbours_are_joined() -> None:
    nothing = said("assistant", ThinkingBlock("hm"), TextBlock("  \n"), ToolUseBlock("t", "bash", {}))

    assert sent(user(), nothing, user()) == [("user", ["text", "text"])]


def test_a_call_goes_out_only_with_its_answer_and_an_answer_only_with_its_call() -> None:
    calls = said("assistant", ToolUseBlock("a", "bash", {}), ToolUseBlock("b", "bash", {}))
    results = said("user", TextBlock("and"), ToolResultBlock("b", "ok"), ToolResultBlock("c", "whose?", is_error=True))

    assert api_messages([user(), calls, results])[1:] == [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "b", "name": "bash", "input": {}}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "b", "content": "ok", "is_error": False},
                {"type": "text", "text": "and"},
            ],
        },
    ]


def test_the_model_never_speaks_first_and_never_ends_in_white_space() -> None:
    messages = api_messages([said("assistant", TextBlock("Hm")), user(), said("assistant", TextBlock("I say \n"))])

    assert messages == [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "I say"}]},
    ]


texts = st.sampled_from(["", " ", "Hi", "Hi \n"])
ids = st.sampled_from(["a", "b"])
blocks = st.one_of(
    st.builds(TextBlock, texts),
    st.builds(ThinkingBlock, texts, st.sampled_from([None, "", "sig"])),
    st.builds(ToolUseBlock, ids, st.just("bash"), st.just({})),
    st.builds(ToolResultBlock, ids, texts),
)
conversations = st.lists(
    st.builds(Said, st.sampled_from(["user", "assistant"]), st.lists(blocks, max_size=4).map(tuple))
)


@given(conversations)
def test_no_conversation_makes_the_api_refuse_the_request(conversation: list[Said]) -> None:
    messages = api_messages([*conversation, user("Go on")])

    refused = refusal(HEADERS, {"model": "m", "max_tokens": 1, "messages": messages}, None)

    assert refused is None
