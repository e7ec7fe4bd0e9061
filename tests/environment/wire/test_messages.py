"""What is sent of a conversation: all that the API accepts, nothing that it refuses, and always the same beginning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.actors.environment.wire.messages import (
    CONTINUE,
    FAILED,
    NO_RESULT,
    ApiBlock,
    ApiMessage,
    api_blocks,
    api_messages,
    container_of,
)
from reenact.domain.attachments import DocumentBlock, ImageBlock
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
from reenact.domain.plain import Json, JsonObject
from reenact.testing.fake_rules import refusal
from tests.environment.histories import histories, open_histories, plain_histories
from tests.jsons import at, object_at

HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
TOOLS = [{"name": "bash", "input_schema": {"type": "object"}}]


def said(role: Role, *blocks: Block) -> Said:
    return Said(role, blocks)


def user(text: str = "Hi") -> Said:
    return said("user", TextBlock(text))


def call(call_id: str, name: str = "bash", **extra: Json) -> ToolUseBlock:
    return ToolUseBlock(call_id, name, {}, extra or None)


def server(call_id: str, **fields: Json) -> OpaqueBlock:
    return OpaqueBlock({"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {}, **fields})


def found(call_id: str) -> OpaqueBlock:
    return OpaqueBlock({"type": "web_search_tool_result", "tool_use_id": call_id, "content": []})


def sent(
    *conversation: Said, prefill: bool = False, resumable: bool = True, thoughts: bool = True
) -> list[tuple[str, list[object]]]:
    messages = api_messages(conversation, prefill=prefill, resumable=resumable, thoughts=thoughts)
    return [(message["role"], [block["type"] for block in message["content"]]) for message in messages]


def complaint(messages: list[ApiMessage], model: str = "m", *, container: bool = True) -> str | None:
    """Return what the API would say against a request with these messages."""
    body: dict[str, object] = {"model": model, "max_tokens": 1, "messages": messages, "tools": TOOLS}
    refused = refusal(HEADERS, {**body, "container": "c"} if container else body, None)
    return None if refused is None else refused.message


def test_a_plain_conversation_goes_out_as_it_was() -> None:
    assert api_messages([user(), said("assistant", TextBlock("Hello")), user("Bye")]) == [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "user", "content": [{"type": "text", "text": "Bye"}]},
    ]


def test_signed_thoughts_and_blocks_of_other_kinds_go_back_unmodified() -> None:
    opaque = {"type": "redacted_thinking", "data": "xyz"}
    answer = said(
        "assistant",
        ThinkingBlock("hm", "sig"),
        ThinkingBlock("", "of a thought that was not shown"),
        OpaqueBlock(opaque),
        TextBlock("Hi", ({"file_id": 1, "a": 2},)),
        call("t", caller={"type": "direct"}),
    )

    assert api_messages([user(), answer, said("user", ToolResultBlock("t", "ok"))])[1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "thinking", "thinking": "", "signature": "of a thought that was not shown"},
        opaque,
        {"type": "text", "text": "Hi", "citations": [{"a": 2}]},
        {"type": "tool_use", "id": "t", "name": "bash", "input": {}, "caller": {"type": "direct"}},
    ]


def test_images_and_documents_go_out_in_the_shapes_of_the_api() -> None:
    question = said(
        "user",
        ImageBlock.from_bytes(b"x", "image/png"),
        ImageBlock.from_url("https://x"),
        DocumentBlock.from_text("Hi", title="T", citations=True),
        DocumentBlock.from_bytes(b"x", context="C"),
    )

    assert api_messages([question])[0]["content"] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}},
        {"type": "image", "source": {"type": "url", "url": "https://x"}},
        {
            "type": "document",
            "source": {"type": "text", "data": "Hi", "media_type": "text/plain"},
            "title": "T",
            "citations": {"enabled": True},
        },
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "eA=="},
            "context": "C",
        },
    ]


def test_an_unsigned_thought_is_left_out_and_so_is_one_that_leads_to_nothing() -> None:
    cut = said("assistant", ThinkingBlock("hm"), TextBlock("Hi"), ThinkingBlock("so", "sig"))

    assert sent(user(), cut, user())[1] == ("assistant", ["text"])


def test_without_thoughts_there_are_none() -> None:
    answer = said("assistant", ThinkingBlock("hm", "sig"), OpaqueBlock({"type": "redacted_thinking"}), TextBlock("Hi"))

    assert sent(user(), answer, user(), thoughts=False)[1] == ("assistant", ["text"])


def test_an_answer_of_which_nothing_is_left_is_left_out_and_its_neighbours_are_joined() -> None:
    nothing = said("assistant", ThinkingBlock("hm", "sig"), TextBlock("  \n"), OpaqueBlock({"of": "no type"}))

    assert sent(user(), nothing, user()) == [("user", ["text", "text"])]


def test_every_call_is_answered_first_and_in_order_and_an_answer_without_a_call_is_left_out() -> None:
    calls = said("assistant", call("a"), call("b"), call("c"))
    results = said(
        "user",
        TextBlock("and"),
        ToolResultBlock("c", "third"),
        ToolResultBlock("b", "second"),
        ToolResultBlock("b", "again"),
        ToolResultBlock("z", "whose?"),
    )

    assert api_messages([user(), calls, results])[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": NO_RESULT, "is_error": True},
        {"type": "tool_result", "tool_use_id": "b", "content": "second", "is_error": False},
        {"type": "tool_result", "tool_use_id": "c", "content": "third", "is_error": False},
        {"type": "text", "text": "and"},
    ]


def test_calls_that_nobody_answered_keep_the_thought_that_led_to_them() -> None:
    interrupted = said("assistant", ThinkingBlock("hm", "sig"), call("a"))

    assert sent(user(), interrupted, user("Never mind")) == [
        ("user", ["text"]),
        ("assistant", ["thinking", "tool_use"]),
        ("user", ["tool_result", "text"]),
    ]
    assert sent(user(), interrupted)[-1] == ("user", ["tool_result"])


def test_an_answer_that_comes_after_the_model_was_asked_without_it_is_left_out() -> None:
    late = [user(), said("assistant", call("a")), user("Well?"), said("assistant", TextBlock(" "))]

    messages = api_messages([*late, said("user", ToolResultBlock("a", "late"))])

    assert messages == api_messages(late)


def test_a_call_is_answered_before_the_model_s_next_message_though_the_user_said_nothing() -> None:
    first = [user(), said("assistant", call("a")), user(" ")]

    assert sent(*first, said("assistant", call("b")), user()) == [
        ("user", ["text"]),
        ("assistant", ["tool_use"]),
        ("user", ["tool_result"]),
        ("assistant", ["tool_use"]),
        ("user", ["tool_result", "text"]),
    ]


def test_an_answer_that_goes_on_after_a_call_is_cut_there() -> None:
    foreign = said("assistant", call("a"), TextBlock("and"), call("b"))

    assert sent(user(), foreign, said("user", ToolResultBlock("b", "2"), ToolResultBlock("a", "1"))) == [
        ("user", ["text"]),
        ("assistant", ["tool_use"]),
        ("user", ["tool_result"]),
        ("assistant", ["text", "tool_use"]),
        ("user", ["tool_result"]),
    ]


def test_ids_and_names_that_the_api_does_not_take_are_replaced_in_call_and_answer() -> None:
    first = said("assistant", call("call|1", "my tool"), call("", ""))
    answers = said("user", ToolResultBlock("call|1", "one"), ToolResultBlock("", "two"))
    again = said("assistant", call("call_1", "x" * 200))

    messages = api_messages([user(), first, answers, again, said("user", ToolResultBlock("call_1", "three"))])

    assert [(block["id"], block["name"]) for block in messages[1]["content"]] == [
        ("call_1", "my_tool"),
        ("call", "tool"),
    ]
    assert [(block["tool_use_id"], block["content"]) for block in messages[2]["content"]] == [
        ("call_1", "one"),
        ("call", "two"),
    ]
    assert (messages[3]["content"][0]["id"], messages[3]["content"][0]["name"]) == ("call_1_2", "x" * 128)
    assert messages[4]["content"][0]["tool_use_id"] == "call_1_2"


@pytest.mark.parametrize(
    ("content", "is_error", "expected"),
    [
        ("", False, ""),
        (" ", True, FAILED),
        ("boom", True, "boom"),
        ((), False, ""),
        ((), True, FAILED),
        (({"type": "text", "text": " "}, {"type": "image"}), False, [{"type": "image"}]),
        (({"type": "text", "text": "boom"}, {"type": "image"}), True, [{"type": "text", "text": "boom"}]),
        (({"type": "image"},), True, FAILED),
    ],
)
def test_a_failure_says_something_and_says_it_in_words(
    content: str | tuple[JsonObject, ...],
    is_error: bool,  # noqa: FBT001 - a case of the table
    expected: object,
) -> None:
    answers = said("user", ToolResultBlock("t", content, is_error))

    (result,) = api_messages([user(), said("assistant", call("t")), answers])[-1]["content"]

    assert (result["content"], result["is_error"]) == (expected, is_error)


def test_the_answer_to_a_call_of_a_toolset_names_it() -> None:
    calls = said("assistant", call("t", "screenshot", toolset_name="computer"), call("u"))
    answers = said("user", ToolResultBlock("t", "ok"), ToolResultBlock("u", "ok"))

    one, other = api_messages([user(), calls, answers])[-1]["content"]

    assert one["toolset_name"] == "computer"
    assert "toolset_name" not in other


def test_what_only_one_side_may_say_is_left_out_of_the_other_s_messages() -> None:
    user_says = said("user", TextBlock("Hi"), ThinkingBlock("hm", "s"), call("t"), found("s"), server("s"))
    model_says = said("assistant", ToolResultBlock("t", "ok"), ImageBlock.from_url("https://x"), TextBlock("Hello"))

    assert sent(user_says, model_says, user()) == [("user", ["text"]), ("assistant", ["text"]), ("user", ["text"])]


def test_the_model_never_speaks_first() -> None:
    assert sent(said("assistant", TextBlock("Hm")), user()) == [("user", ["text"])]


def test_the_model_goes_on_with_its_own_words_only_if_it_can() -> None:
    conversation = [user(), said("assistant", TextBlock("I say \n"))]

    assert api_messages(conversation, prefill=True)[1]["content"] == [{"type": "text", "text": "I say"}]
    assert api_messages(conversation)[1:] == [
        {"role": "assistant", "content": [{"type": "text", "text": "I say \n"}]},
        {"role": "user", "content": [{"type": "text", "text": CONTINUE}]},
    ]


def test_of_a_refused_turn_nothing_is_sent_again() -> None:
    conversation = [
        user("1"),
        said("assistant", TextBlock("one")),
        user("forbidden"),
        said("assistant", call("t")),
        said("user", ToolResultBlock("t", "ok")),
        Said("assistant", (TextBlock("I ca"),), refused=True),
        user("2"),
        Said("assistant", (), refused=True),
        user("3"),
    ]

    texts = [block["text"] for message in api_messages(conversation) for block in message["content"]]
    assert texts == ["1", "one", "3"]


def test_the_work_of_the_api_s_own_tools_goes_back_only_if_it_is_finished() -> None:
    twice = (server("s"), found("s"), server("s"), found("s"))
    searched = said("assistant", *twice, server("cut"), found("never"), TextBlock("Hi"))

    assert sent(user(), searched, user())[1] == ("assistant", ["server_tool_use", "web_search_tool_result", "text"])
    assert sent(user(), said("assistant", server("s"), found("s"), found("s"), TextBlock("Hi")), user())[1] == (
        "assistant",
        ["server_tool_use", "web_search_tool_result", "text"],
    )


def test_a_search_that_waits_for_the_client_s_tools_stays_until_the_user_speaks() -> None:
    waiting = [user(), said("assistant", server("s"), call("t")), said("user", ToolResultBlock("t", "ok"))]
    goes_on = said("assistant", found("s"), TextBlock("Found."))

    assert sent(*waiting)[1] == ("assistant", ["server_tool_use", "tool_use"])
    assert sent(*waiting, goes_on, user())[1] == ("assistant", ["server_tool_use", "tool_use"])
    assert sent(*waiting, user("Stop"))[1] == ("assistant", ["tool_use"])
    assert sent(*waiting, said("assistant", TextBlock("Lost.")), user())[1] == ("assistant", ["tool_use"])


def test_a_search_that_the_next_message_does_not_answer_is_lost() -> None:
    waiting = [user(), said("assistant", server("s"), call("t")), said("user", ToolResultBlock("t", "ok"))]
    goes_on = [said("assistant", TextBlock("And"), call("u")), said("user", ToolResultBlock("u", "ok"))]

    assert sent(*waiting, *goes_on)[1] == ("assistant", ["tool_use"])
    assert sent(*waiting, *goes_on, said("assistant", found("s"), TextBlock("Late.")), user())[1::4] == [
        ("assistant", ["tool_use"]),
        ("assistant", ["text"]),
    ]
    assert sent(user(), said("assistant", server("s"), TextBlock("Hm")))[1:] == [
        ("assistant", ["text"]),
        ("user", ["text"]),
    ]


def test_code_that_waits_for_its_calls_goes_on_over_several_messages_as_long_as_its_container_lives() -> None:
    code: JsonObject = {"type": "server_tool_use", "id": "s", "name": "code_execution", "input": {}}
    caller = {"type": "code_execution_20250825", "tool_id": "s"}
    running = [
        user(),
        said("assistant", OpaqueBlock(code), call("a", caller=caller)),
        said("user", ToolResultBlock("a", "1")),
        said("assistant", call("b", caller=caller)),
        said("user", ToolResultBlock("b", "2")),
    ]

    assert sent(*running) == [
        ("user", ["text"]),
        ("assistant", ["server_tool_use", "tool_use"]),
        ("user", ["tool_result"]),
        ("assistant", ["tool_use"]),
        ("user", ["tool_result"]),
    ]
    assert sent(*running, resumable=False) == [("user", ["text"])]
    assert sent(*running, user("Stop")) == [("user", ["text", "text"])]


def test_a_paused_answer_is_sent_back_for_the_api_to_go_on() -> None:
    assert sent(user(), said("assistant", TextBlock("Let me see."), server("s")))[-1] == (
        "assistant",
        ["text", "server_tool_use"],
    )


def test_the_container_is_no_part_of_the_message() -> None:
    older, newer = ({"type": "container", "id": name, "expires_at": "2026"} for name in ("c1", "c2"))
    conversation = [
        said("assistant", OpaqueBlock(older)),
        user(),
        said("assistant", TextBlock("Hi"), OpaqueBlock(newer)),
        user(),
    ]

    assert sent(*conversation)[1] == ("assistant", ["text"])
    assert container_of(conversation) == newer
    assert container_of([user()]) is None


@given(histories(), st.booleans())
def test_no_history_makes_the_api_refuse_the_request(history: list[Said], resumable: bool) -> None:  # noqa: FBT001
    messages = api_messages(history, resumable=resumable)

    assert complaint(messages, container=resumable) is None
    assert all(one["role"] != other["role"] for one, other in pairwise(messages))
    assert messages[-1]["role"] == "user"


@given(open_histories(), st.booleans())
def test_no_history_that_ends_in_the_middle_does_either(history: list[Said], prefill: bool) -> None:  # noqa: FBT001
    messages = api_messages(history, prefill=prefill)

    assert not messages or complaint(messages, "claude-sonnet-4-5" if prefill else "claude-opus-5") is None


@given(histories())
def test_all_that_may_be_sent_is_sent_and_in_order(history: list[Said]) -> None:
    messages = api_messages(history)

    blocks = [block for message in messages for block in message["content"]]
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    calls = [at(str, block, "input", "n") for block in blocks if block["type"] == "tool_use"]
    signed = [at(str, block, "signature") for block in blocks if block["type"] == "thinking"]
    answers = [block["content"] for block in blocks if block["type"] == "tool_result"]
    attached = [block for block in blocks if block["type"] in {"image", "document"}]
    wanted = Wanted(history)
    assert texts == wanted.texts
    assert attached == api_blocks(wanted.attached)
    assert [one for one in calls if one in wanted.calls] == wanted.calls
    assert [one for one in signed if one in wanted.signed] == wanted.signed
    assert [one for one in answers if one in wanted.answers] == wanted.answers
    assert signed == sorted(signed, key=number)


class Wanted:
    """What must be sent of a history, read naively: what nothing could make the API refuse."""

    def __init__(self, history: Sequence[Said]) -> None:
        self.texts: list[str] = []
        self.attached: list[Block] = []
        self.calls: list[str] = []
        self.signed: list[str] = []
        self.answers: list[str] = []
        kept = without_refused(history)
        while kept and not (kept[0].role == "user" and any(map(speaks, kept[0].content))):
            kept.pop(0)
        for said, after in zip(kept, [*kept[1:], None], strict=True):
            for place, block in enumerate(said.content):
                self._want(said, place, block, after)

    def _want(self, said: Said, place: int, block: Block, after: Said | None) -> None:
        match block:
            case TextBlock(text=text) if text.strip():
                self.texts.append(text)
            case ImageBlock() | DocumentBlock() if said.role == "user":
                self.attached.append(block)
            case ToolUseBlock() if said.role == "assistant" and block.id.startswith("toolu_") and not by_code(block):
                self.calls.append(at(str, block.input, "n"))
                self.answers += [*first_answer(block, after)]
            case ThinkingBlock(signature=str(signature)) if said.role == "assistant" and signature:
                if any(isinstance(later, TextBlock) and later.text.strip() for later in said.content[place:]):
                    self.signed.append(signature)
            case _:
                pass


def without_refused(history: Sequence[Said]) -> list[Said]:
    kept: list[Said] = []
    for one in history:
        if not one.refused:
            kept.append(one)
            continue
        questions = [
            place
            for place, before in enumerate(kept)
            if before.role == "user" and any(not isinstance(block, ToolResultBlock) for block in before.content)
        ]
        del kept[questions[-1] if questions else 0 :]
    return kept


def speaks(block: Block) -> bool:
    return isinstance(block, ImageBlock | DocumentBlock) or (isinstance(block, TextBlock) and bool(block.text.strip()))


def by_code(block: ToolUseBlock) -> bool:
    return "tool_id" in object_at({"caller": {}, **(block.extra or {})}, "caller")


def first_answer(block: ToolUseBlock, after: Said | None) -> Iterator[str]:
    """Return the answer of a call that no other shares its id with."""
    if after is not None and after.role == "user" and block.id != "toolu_1":
        answers = [one for one in after.content if isinstance(one, ToolResultBlock) and one.tool_use_id == block.id]
        yield from [one.content for one in answers[:1] if isinstance(one.content, str) and one.content.strip()]


def number(mark: str) -> int:
    return int(mark[1:-1])


@given(open_histories())
def test_what_was_made_fit_fits(history: list[Said]) -> None:
    messages = api_messages(history)

    assert api_messages(said_of(messages)) == messages


def said_of(messages: list[ApiMessage]) -> list[Said]:
    """Return the conversation that a request tells of."""
    return [Said(message["role"], tuple(block_of(dict(block)) for block in message["content"])) for message in messages]


def block_of(fields: dict[str, Any]) -> Block:
    kinds: dict[str, type[Block]] = {
        "text": TextBlock,
        "thinking": ThinkingBlock,
        "tool_result": ToolResultBlock,
        "image": ImageBlock,
        "document": DocumentBlock,
    }
    if fields["type"] == "tool_use":
        own = {name: fields.pop(name) for name in ("type", "id", "name", "input")}
        return msgspec.convert({**own, "extra": fields or None}, ToolUseBlock)
    kind = kinds.get(fields["type"])
    return OpaqueBlock(fields) if kind is None else msgspec.convert(fields, kind)


@given(plain_histories())
def test_a_request_begins_with_the_one_before_it(history: list[Said]) -> None:
    """Where the API's own tools left nothing unfinished, and nothing was refused: that may take back what was sent."""
    requests = [flat(api_messages(history[:end])) for end in ends_of_requests(history)]

    asked = [request for request in requests if request and request[-1][1].get("text") != CONTINUE]
    for one, following in pairwise(asked):
        assert following[: len(one)] == one


def ends_of_requests(history: Sequence[Said]) -> list[int]:
    """Return where a conversation stood each time the model was asked: what it said next came after that."""
    nexts = [*history[1:], None]
    return [
        end
        for end, (said, after) in enumerate(zip(history, nexts, strict=True), 1)
        if said.role == "user" and (after is None or after.role == "assistant")
    ]


def flat(messages: list[ApiMessage]) -> list[tuple[str, ApiBlock]]:
    return [(message["role"], block) for message in messages for block in message["content"]]
