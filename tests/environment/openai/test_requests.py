"""What is sent of a conversation to each API: valid by the types of its SDK, and by its rules, whatever was said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import msgspec
import pytest
from anthropic.types import MessageParam
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

from reenact import ConfigurationError, OpenAIProvider
from reenact.actors.environment.failures import Fault
from reenact.actors.environment.wire.driver import Question
from reenact.actors.environment.wire.messages import api_messages
from reenact.domain.attachments import DocumentBlock, ImageBlock
from reenact.domain.messages import (
    Block,
    OpaqueBlock,
    Said,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from reenact.domain.plain import is_mapping, is_sequence
from reenact.testing.fake_chat_rules import CHAT, RESPONSES, refusal
from reenact.testing.fake_rules import refusal as claude_refusal
from tests.environment.histories import histories
from tests.examples import examples

KEY = {"authorization": "Bearer k"}
TOOLS: list[dict[str, object]] = [
    {"name": "bash", "description": "Runs it.", "input_schema": {"type": "object"}},
    {"type": "web_search_20250305", "name": "web_search"},
]
TYPES: dict[str, TypeAdapter[Any]] = {
    CHAT: TypeAdapter(CompletionCreateParamsStreaming),
    RESPONSES: TypeAdapter(ResponseCreateParamsStreaming),
}
CLAUDE = TypeAdapter(list[MessageParam])
ORIGINS = ("chat:reasoning_content", "chat:reasoning", "responses:rs_1:sealed", "chat:role")
OF_THE_DIALECT = frozenset({"reasoning_content", "reasoning"})
"""What the SDK does not know, and servers do."""


def provider(path: str = CHAT, **settings: Any) -> OpenAIProvider:  # noqa: ANN401 - those of the provider
    given: dict[str, Any] = {"model": "m", "api": "chat" if path == CHAT else "responses", **settings}
    return OpenAIProvider("http://localhost:1", **given)


def sent(path: str, *conversation: Said, **asked: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - those of a question
    request = provider(path).request(Question(messages=conversation, **asked))
    messages: list[dict[str, Any]] = msgspec.convert(request["messages" if path == CHAT else "input"], list[Any])
    return messages


def is_iterable(value: object) -> TypeGuard[Iterable[object]]:
    return isinstance(value, Iterable)


def plain(value: object) -> object:
    """Return what pydantic has read, which it does when it is asked for."""
    if is_mapping(value):
        return {name: plain(one) for name, one in value.items()}
    if is_iterable(value) and not isinstance(value, str | bytes):
        return [plain(one) for one in value]
    return value


def without_dialect(value: object) -> object:
    if is_mapping(value):
        return {name: without_dialect(one) for name, one in value.items() if name not in OF_THE_DIALECT}
    return list(map(without_dialect, value)) if is_sequence(value) else value


def user(*blocks: Block | str) -> Said:
    return Said("user", tuple(TextBlock(one) if isinstance(one, str) else one for one in blocks))


def model(*blocks: Block | str) -> Said:
    return Said("assistant", tuple(TextBlock(one) if isinstance(one, str) else one for one in blocks))


@st.composite
def mixed_histories(draw: st.DrawFn) -> list[Said]:
    """Return a conversation with several models, some of them behind OpenAI's APIs."""
    return [
        msgspec.structs.replace(said, content=tuple(draw(elsewhere(block)) for block in said.content))
        for said in draw(histories())
    ]


@st.composite
def elsewhere(draw: st.DrawFn, block: Block) -> Block:
    """Return the block as it may come from elsewhere."""
    match block:
        case ThinkingBlock(thinking=thinking) if draw(st.booleans()):
            return ThinkingBlock(thinking, f"openai:{draw(st.sampled_from(ORIGINS))}")
        case ToolUseBlock(id=given, name=name, input=arguments) if len(given) == 1:  # whose answers have it as well
            return ToolUseBlock(given, draw(st.sampled_from([name, "n" * 100])), arguments)
        case _:
            return block


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
@settings(max_examples=examples(150))
@given(conversation=mixed_histories(), thoughts=st.booleans())
def test_any_conversation_is_sent_in_a_form_that_the_api_takes(
    path: str, *, conversation: list[Said], thoughts: bool
) -> None:
    question = Question(messages=conversation, system="Be brief.", max_tokens=5, tools=TOOLS)

    request = provider(path, effort="low", temperature=1.0).request(question, thoughts=thoughts)

    assert refusal(path, KEY, msgspec.convert(msgspec.to_builtins(request), dict[str, Any]), None) is None
    sent_messages = {"messages": without_dialect(request["messages"])} if path == CHAT else {}
    assert plain(TYPES[path].validate_python(request)) == {**request, **sent_messages}
    for call_id in ids(request):
        assert len(call_id) <= 40


@settings(max_examples=examples(150))
@given(mixed_histories())
def test_any_conversation_with_several_models_is_one_that_claude_takes(conversation: list[Said]) -> None:
    messages = api_messages(conversation)

    body = {"model": "m", "max_tokens": 1, "messages": messages, "tools": TOOLS[:1], "container": "c"}
    assert claude_refusal({"x-api-key": "k", "anthropic-version": "2023-06-01"}, body, None) is None
    assert "openai:" not in repr(messages)


@settings(max_examples=examples(60))
@given(mixed_histories())
def test_what_claude_is_sent_is_valid_by_the_types_of_its_sdk(conversation: list[Said]) -> None:
    spoken = [msgspec.structs.replace(said, content=tuple(filter(is_typed, said.content))) for said in conversation]
    messages = api_messages(spoken)

    read = CLAUDE.validate_python(messages)

    assert len(list(map(plain, read))) == len(messages)


def is_typed(block: Block) -> bool:
    """Return whether the SDK types the block by what was made of it, not by what the history has drawn."""
    return not isinstance(block, OpaqueBlock) and not (isinstance(block, TextBlock) and block.citations)


def ids(request: Mapping[str, Any]) -> list[str]:
    calls = [call["id"] for message in request.get("messages", ()) for call in message.get("tool_calls", ())]
    return calls + [item["call_id"] for item in request.get("input", ()) if "call_id" in item]


def test_a_call_and_its_result_are_messages_of_their_own_in_chat() -> None:
    assert sent(
        CHAT,
        user("Look"),
        model("I look.", ToolUseBlock("a", "bash", {"n": 1}), ToolUseBlock("b", "bash", {})),
        user(ToolResultBlock("b", "two", is_error=True), ToolResultBlock("a", "one"), "Well?"),
        system="Be brief.",
    ) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Look"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "bash", "arguments": '{"n":1}'}},
                {"id": "b", "type": "function", "function": {"name": "bash", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "one"},
        {"role": "tool", "tool_call_id": "b", "content": "Error:\n\ntwo"},
        {"role": "user", "content": "Well?"},
    ]


def test_everything_is_an_item_in_responses() -> None:
    assert sent(
        RESPONSES,
        user("Look"),
        model(ThinkingBlock("hm", "openai:responses:rs_1:xyz"), "I look.", ToolUseBlock("a", "bash", {"n": 1})),
        user(ToolResultBlock("a", "one")),
    ) == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look"}]},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": "xyz",
        },
        {"type": "message", "role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "a", "name": "bash", "arguments": '{"n":1}'},
        {"type": "function_call_output", "call_id": "a", "output": "one"},
    ]


def test_a_thought_goes_back_in_the_field_that_it_came_in_and_only_to_the_api_that_it_was_had_behind() -> None:
    thoughts = [
        ThinkingBlock("one", "openai:chat:reasoning"),
        ThinkingBlock("two", "openai:responses:rs_1:xyz"),
        ThinkingBlock("three", "of Claude"),
        ThinkingBlock("four"),
        ThinkingBlock("five", "openai:chat:role"),
    ]

    chat = sent(CHAT, user("Hi"), model(*thoughts, "Hello"), user("Bye"))[1]
    items = sent(RESPONSES, user("Hi"), model(*thoughts, "Hello"), user("Bye"))

    assert chat == {"role": "assistant", "content": "Hello", "reasoning": "one"}
    assert [item["id"] for item in items if item["type"] == "reasoning"] == ["rs_1"]


def test_an_id_that_is_too_long_is_shortened_and_stays_anothers() -> None:
    long, longer = "x" * 60, "x" * 61

    call, first, second = sent(
        CHAT,
        user("Look"),
        model(ToolUseBlock(long, "f", {}), ToolUseBlock(longer, "f", {})),
        user(ToolResultBlock(long, "one"), ToolResultBlock(longer, "two")),
    )[1:]

    one, two = (each["id"] for each in call["tool_calls"])
    assert one != two
    assert {len(one), len(two)} == {40}
    assert [(each["tool_call_id"], each["content"]) for each in (first, second)] == [(one, "one"), (two, "two")]


SHOWN: dict[str, Any] = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}}


def test_what_a_tool_shows_follows_its_result_in_chat_and_stands_in_it_in_responses() -> None:
    conversation = (
        user("Look"),
        model(ToolUseBlock("a", "look", {})),
        user(ToolResultBlock("a", ({"type": "text", "text": "Here:"}, SHOWN))),
    )

    assert sent(CHAT, *conversation)[2:] == [
        {"role": "tool", "tool_call_id": "a", "content": "Here:"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What a has returned:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}},
            ],
        },
    ]
    assert sent(RESPONSES, *conversation)[2]["output"] == [
        {"type": "input_text", "text": "Here:"},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,eA=="},
    ]


def test_images_and_documents_are_sent_as_far_as_the_api_takes_them() -> None:
    asked = user(
        "Look",
        ImageBlock.from_bytes(b"x", "image/png"),
        ImageBlock.from_url("https://x"),
        DocumentBlock.from_bytes(b"x", title="A.pdf", context="C"),
        DocumentBlock.from_file("file-1"),
        DocumentBlock.from_text("Words"),
        OpaqueBlock({"type": "search_result", "title": "T", "source": "S", "content": [{"type": "text", "text": "R"}]}),
    )

    assert sent(CHAT, asked)[0]["content"] == [
        {"type": "text", "text": "Look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}},
        {"type": "image_url", "image_url": {"url": "https://x"}},
        {"type": "text", "text": "A.pdf\nC"},
        {"type": "file", "file": {"filename": "A.pdf", "file_data": "data:application/pdf;base64,eA=="}},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "text", "text": "Words"},
        {"type": "text", "text": "T\nS\nR"},
    ]


def test_responses_take_files_and_addresses_besides() -> None:
    pieces: tuple[dict[str, Any], ...] = ({"type": "text", "text": "one"}, SHOWN)
    content: dict[str, Any] = {"type": "document", "source": {"type": "content", "content": pieces}}
    spoken: dict[str, Any] = {"type": "document", "source": {"type": "content", "content": "two"}}
    asked = user(
        ImageBlock.from_file("file-1"),
        DocumentBlock.from_url("https://x/a.pdf"),
        DocumentBlock.from_bytes(b"x"),
        DocumentBlock.from_file("file-2"),
        msgspec.convert(content, DocumentBlock),
        msgspec.convert(spoken, DocumentBlock),
    )

    assert sent(RESPONSES, asked)[0]["content"] == [
        {"type": "input_image", "detail": "auto", "file_id": "file-1"},
        {"type": "input_file", "file_url": "https://x/a.pdf"},
        {"type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,eA=="},
        {"type": "input_file", "file_id": "file-2"},
        {"type": "input_text", "text": "one"},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,eA=="},
        {"type": "input_text", "text": "two"},
    ]


@pytest.mark.parametrize(
    ("path", "block", "advice"),
    [
        (CHAT, DocumentBlock.from_url("https://x/a.pdf"), "hand in its bytes"),
        (CHAT, ImageBlock.from_file("file-1"), 'use api="responses"'),
        (CHAT, DocumentBlock.from_file("file_011C"), "a file at another provider"),
        (RESPONSES, ImageBlock.from_file("file_011C"), "a file at another provider"),
        (RESPONSES, OpaqueBlock({"type": "container_upload", "file_id": "file_1"}), "Claude's own"),
    ],
)
def test_what_cannot_be_sent_is_refused_in_the_question_and_named_in_what_was_said_before(
    path: str, block: Block, advice: str
) -> None:
    with pytest.raises(Fault, match=advice) as fault:
        sent(path, user("Look", block))

    assert (fault.value.error_type, fault.value.retryable) == ("invalid_request_error", False)
    assert "that cannot be shown here]" in repr(sent(path, user("Look", block), model("Hm"), user("And now?"))[0])
    assert "that cannot be shown here]" in repr(sent(path, user("Look", block), user("Without it, then."))[0])


def test_what_a_tool_returns_that_cannot_be_sent_is_named() -> None:
    reference: dict[str, Any] = {"type": "tool_reference", "tool_name": "other"}
    document: dict[str, Any] = {"type": "document", "source": {"type": "file", "file_id": "file_011C"}}
    found: dict[str, Any] = {"type": "search_result", "title": "T", "source": "S", "content": "R"}

    result = sent(
        CHAT,
        user("Look"),
        model(ToolUseBlock("a", "look", {}), ToolUseBlock("b", "look", {})),
        user(ToolResultBlock("a", (reference, document, found)), ToolResultBlock("b", ())),
    )[2:]

    assert [message["content"] for message in result] == ["other\n\n[file that cannot be shown here]\n\nT\nS\nR", ""]


def test_what_is_set_goes_into_each_request_and_the_smaller_limit_holds() -> None:
    question = Question(messages=[user("Hi")], max_tokens=100, system=" ", tools=TOOLS)
    chat = provider(CHAT, max_tokens=50, effort="high", temperature=0.5, stop_sequences=("END",), extra={"seed": 1})
    other = provider(RESPONSES, effort="high", extra={"store": None, "top_p": 0.5})

    assert chat.request(question) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 50,
        "reasoning_effort": "high",
        "temperature": 0.5,
        "stop": ["END"],
        "seed": 1,
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {"name": "bash", "description": "Runs it.", "parameters": {"type": "object"}},
            }
        ],
    }
    assert {name: value for name, value in other.request(question).items() if name not in {"input", "tools"}} == {
        "model": "m",
        "max_output_tokens": 100,
        "reasoning": {"effort": "high", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "stream": True,
        "top_p": 0.5,
    }
    assert other.request(question)["tools"] == [
        {
            "type": "function",
            "name": "bash",
            "description": "Runs it.",
            "strict": False,
            "parameters": {"type": "object"},
        }
    ]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (None, "max_completion_tokens"),
        ("https://eu.api.openai.com/v1", "max_completion_tokens"),
        ("https://me.openai.azure.com/openai/v1", "max_completion_tokens"),
        ("http://localhost:11434/v1", "max_tokens"),
    ],
)
def test_openai_itself_knows_the_limit_by_its_newer_name(url: str | None, name: str) -> None:
    request = OpenAIProvider(url, "k", "m").request(Question(messages=[user("Hi")], max_tokens=7))

    assert {key: value for key, value in request.items() if key.startswith("max")} == {name: 7}


def test_the_image_may_name_another_model_and_somebody_must_name_one() -> None:
    question = Question(messages=[user("Hi")])

    assert provider().request(msgspec.structs.replace(question, model="other"))["model"] == "other"
    with pytest.raises(Fault, match="no model is named"):
        provider(model=None).request(question)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"api": "completions"}, "api must be 'chat' or 'responses'"),
        ({"extra": {"model": "x"}}, "extra\\['model'\\]"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"context_window": 0}, "context_window is 0"),
        ({"stop_sequences": (" ",)}, "stop_sequences"),
        ({"api": "responses", "stop_sequences": ("END",)}, "no stop sequences"),
        ({"base_url": None}, "OpenAI needs an API key: OpenAIProvider"),
        ({"base_url": "localhost:8080"}, "https://api.openai.com/v1 or http://localhost:8080"),
        ({"api_key": "a b\n"}, "OPENAI_API_KEY"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], told: str) -> None:
    given: dict[str, Any] = {"base_url": "http://localhost:1", "model": "m", **settings}

    with pytest.raises(ConfigurationError, match=told):
        OpenAIProvider(**given)


def test_a_conversation_that_grows_is_sent_with_the_same_beginning() -> None:
    conversation: Sequence[Said] = (
        user("Look"),
        model(ThinkingBlock("hm", "openai:chat:reasoning"), ToolUseBlock("a.b", "f", {})),
        user(ToolResultBlock("a.b", "one")),
        model("Done"),
        user("Bye"),
    )

    longest = sent(CHAT, *conversation)

    for length in (1, 3):
        assert sent(CHAT, *conversation[:length]) == longest[:length]
