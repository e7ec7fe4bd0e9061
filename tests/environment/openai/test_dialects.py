"""What other servers do behind OpenAI's APIs: whole answers, calls, thoughts and seals as each of them writes them."""

from __future__ import annotations

import json
from typing import Literal

import pytest

from reenact.actors.environment.failures import Fault
from reenact.actors.environment.openai.chat import ChatReader
from reenact.actors.environment.wire.decode import MessageDecoder
from reenact.domain.messages import Said, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from reenact.domain.stream.events import StreamData
from reenact.testing.fake_chat_rules import CHAT, RESPONSES
from tests.environment.openai.streams import Heard, Json, chat, chunk, piece, responses
from tests.environment.openai.test_requests import sent

DONE = "[DONE]"
ASKED = Said("user", (TextBlock("Hello"),))


def whole(message: Json, **choice: object) -> Heard:
    """Return what is reported of an answer that is not streamed."""
    events: list[StreamData] = []

    def hear(event: object) -> None:
        assert isinstance(event, StreamData)
        events.append(event)

    answer = {"choices": [{"index": 0, "message": message, "finish_reason": "stop", **choice}]}
    ChatReader(MessageDecoder(hear), ()).whole(json.dumps(answer).encode())
    return Heard(events)


def call(given: str | None, name: str, arguments: str) -> Json:
    return {"id": given, "type": "function", "function": {"name": name, "arguments": arguments}}


def sent_back(path: str, heard: Heard) -> list[Json]:
    """Return what is sent of the answer with the next question."""
    content = heard.end.content
    results = tuple(ToolResultBlock(block.id, "done") for block in content if isinstance(block, ToolUseBlock))
    asked = Said("user", results or (TextBlock("Go on"),))
    return [one for one in sent(path, ASKED, Said("assistant", content), asked) if one.get("role") != "user"]


def test_perplexity_has_an_empty_delta_beside_a_whole_message() -> None:
    heard = whole({"role": "assistant", "content": "Paris"}, delta={"role": "assistant", "content": ""})

    assert heard.content == (TextBlock("Paris"),)


@pytest.mark.parametrize("reason", [None, ""])
def test_a_whole_answer_is_complete_without_a_reason(reason: str | None) -> None:
    assert whole({"content": "Hi"}, finish_reason=reason).end.stop_reason == "end_turn"


def test_the_calls_of_a_whole_answer_are_never_pieces_of_each_other() -> None:
    heard = whole({"tool_calls": [call(None, "f", "null"), call(None, "f", "null"), call("c", "g", "{}")]})

    assert heard.calls == [("f", {}), ("f", {}), ("g", {})]


def test_a_call_with_another_id_is_another_whatever_the_first_one_s_arguments_are() -> None:
    heard = chat(
        chunk(piece("null", name="f", index=0, id="1")),
        chunk(piece('{"x":', name="g", index=0, id="2")),
        chunk(piece("1}", index=0)),
        DONE,
    )

    assert heard.calls == [("f", {}), ("g", {"x": 1})]


def test_a_call_may_come_in_the_field_that_was_there_before_tool_calls() -> None:
    first, second = {"name": "f", "arguments": '{"x":'}, {"arguments": "1}"}

    alone = chat(chunk({"function_call": first}), chunk({"function_call": second}), chunk({}, "function_call"), DONE)
    beside = chat(
        chunk({"function_call": first, **piece(**first)}), chunk({"function_call": second, **piece(**second)}), DONE
    )

    assert alone.calls == beside.calls == [("f", {"x": 1})]
    assert alone.end.stop_reason == "tool_use"
    assert whole({"content": None, "function_call": {"name": "f", "arguments": "{}"}}).calls == [("f", {})]


def test_mistral_s_thoughts_are_parts_of_the_content() -> None:
    thought = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]
    streamed = chat(chunk({"content": thought}), chunk({"content": thought}), chunk({"content": "So"}), DONE)
    (first, second) = streamed.content

    assert isinstance(first, ThinkingBlock)
    assert (first.thinking, second) == ("hmhm", TextBlock("So"))
    assert isinstance(whole({"content": [*thought, {"type": "text", "text": "So"}]}).content[0], ThinkingBlock)


def test_gemini_is_given_back_the_signature_of_a_call() -> None:
    extra = {"google": {"thought_signature": "sealed"}}
    delta = piece("{}", name="f", index=0, id="c")
    delta["tool_calls"][0]["extra_content"] = extra
    answer, *_ = sent_back(CHAT, chat(chunk(delta), DONE))

    assert answer["tool_calls"][0]["extra_content"] == extra


def test_openrouter_is_given_back_sealed_thoughts() -> None:
    sealed = {"type": "reasoning.encrypted", "data": "sealed", "id": "c", "index": 0}
    heard = chat(chunk({"reasoning_details": [sealed]}), chunk(piece("{}", name="f", index=0, id="c")), DONE)
    answer, *_ = sent_back(CHAT, heard)

    assert answer["reasoning_details"] == [sealed]


def test_a_signed_thought_of_openrouter_goes_back_in_one_piece() -> None:
    def text(piece: str, **more: str) -> Json:
        return {"reasoning_details": [{"type": "reasoning.text", "text": piece, "index": 0, **more}]}

    heard = chat(chunk(text("h")), chunk(text("m", signature="signed")), chunk({"content": "So"}), DONE)
    answer, *_ = sent_back(CHAT, heard)

    assert answer["reasoning_details"] == [{"type": "reasoning.text", "text": "hm", "index": 0, "signature": "signed"}]


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
def test_what_one_api_has_sealed_is_not_sent_to_the_other(path: str) -> None:
    sealed = {"type": "reasoning.encrypted", "data": "sealed", "id": "c", "index": 0}
    message = {"type": "message", "phase": "commentary", "content": [{"type": "output_text", "text": "So"}]}
    of_responses = responses({"type": "response.output_item.done", "output_index": 0, "item": message}, COMPLETED)
    of_chat = chat(chunk({"reasoning_details": [sealed]}), chunk({"content": "So"}), DONE)

    assert "sealed" not in json.dumps(sent_back(RESPONSES, of_chat))
    assert "commentary" not in json.dumps(sent_back(CHAT, of_responses))
    assert sent_back(path, of_chat if path == CHAT else of_responses)


COMPLETED: Json = {"type": "response.completed", "response": {"status": "completed", "usage": {}}}


def test_responses_is_given_back_the_phase_of_a_message() -> None:
    message = {"type": "message", "phase": "commentary", "content": [{"type": "output_text", "text": "So"}]}
    heard = responses({"type": "response.output_item.done", "output_index": 0, "item": message}, COMPLETED)

    assert sent_back(RESPONSES, heard) == [
        {"type": "message", "role": "assistant", "content": "So", "phase": "commentary"}
    ]


def test_responses_is_not_given_back_a_thought_after_which_nothing_came() -> None:
    thought: Json = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "sealed"}
    empty: Json = {"type": "message", "phase": "final_answer", "content": []}
    heard = responses(
        {"type": "response.output_item.done", "output_index": 0, "item": thought},
        {"type": "response.output_item.done", "output_index": 1, "item": empty},
        COMPLETED,
    )

    assert sent_back(RESPONSES, heard) == []


@pytest.mark.parametrize("kind", ["object", "within", "words"])
def test_an_event_named_error_is_a_fault_with_its_words(kind: Literal["object", "within", "words"]) -> None:
    words = "CUDA out of memory"
    data = {
        "object": json.dumps({"message": words}),
        "within": json.dumps({"error": {"message": words}}),
        "words": words,
    }
    reader = ChatReader(MessageDecoder(lambda _: None), ())

    with pytest.raises(Fault, match=words):
        reader.take("error", data[kind].encode())
