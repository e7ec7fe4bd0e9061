"""The fake of Chat Completions and Responses: to the SDK as its client, and on the wire."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import httpx2
import pytest

from reenact.testing import FakeChatAPI, FakeChatReply, FakeError, FakeRequest

QUESTION: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
STREAM: dict[str, Any] = {**QUESTION, "stream": True}
COUNTED: dict[str, Any] = {**STREAM, "stream_options": {"include_usage": True}}
INPUT: dict[str, Any] = {"model": "m", "input": "Hi"}
KIND = {"content-type": "application/json"}
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
TWO: list[tuple[str, dict[str, object]]] = [("search", {"question": "What is new?"}), ("bash", {})]


@pytest.fixture
def chat() -> Iterator[FakeChatAPI]:
    with FakeChatAPI() as api:
        yield api


def post(
    api: FakeChatAPI, body: object, path: str = "/chat/completions", headers: Mapping[str, str] | None = None
) -> httpx2.Response:
    return httpx2.post(f"{api.url}{path}", json=body, headers=headers or {"authorization": "Bearer k"})


def streaming(api: FakeChatAPI) -> AbstractContextManager[httpx2.Response]:
    return httpx2.stream("POST", f"{api.url}/chat/completions", json=STREAM, headers={"authorization": "Bearer k"})


def events(answer: httpx2.Response) -> list[dict[str, Any]]:
    data = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    return [json.loads(one) for one in data if one != "[DONE]"]


def deltas(answer: httpx2.Response) -> list[dict[str, Any]]:
    return [chunk["choices"][0]["delta"] for chunk in events(answer) if chunk["choices"]]


def calls(answer: httpx2.Response) -> list[list[dict[str, Any]]]:
    """Return what each chunk has of calls."""
    return [delta["tool_calls"] for delta in deltas(answer) if "tool_calls" in delta]


def test_the_sdk_understands_a_completion_that_streams_and_one_that_does_not(chat: FakeChatAPI) -> None:
    openai = pytest.importorskip("openai")
    chat.script([FakeChatReply(text="Hello, all of you", thinking="hm", tools=TWO, ping_every=2)] * 2)

    with openai.OpenAI(api_key="k", base_url=chat.url) as client:
        whole = client.chat.completions.create(**QUESTION)
        with client.chat.completions.stream(**QUESTION, stream_options={"include_usage": True}) as stream:
            streamed = stream.get_final_completion()

    for completion in (whole, streamed):
        choice = completion.choices[0]
        assert (choice.message.content, choice.finish_reason) == ("Hello, all of you", "tool_calls")
        assert choice.message.reasoning_content == "hm"
        assert [(one.function.name, one.function.arguments) for one in choice.message.tool_calls] == [
            ("search", '{"question": "What is new?"}'),
            ("bash", "{}"),
        ]
        assert completion.usage.to_dict() == USAGE
    ids = [one.id for completion in (whole, streamed) for one in completion.choices[0].message.tool_calls]
    assert len(set(ids)) == 4


def test_the_sdk_understands_a_response_that_streams_and_one_that_does_not(chat: FakeChatAPI) -> None:
    openai = pytest.importorskip("openai")
    usage = {**USAGE, "prompt_tokens_details": {"cached_tokens": 3}}
    chat.script([FakeChatReply(thinking="hm", tools=TWO, usage=usage, ping_every=2)] * 2)
    asked = {**INPUT, "include": ["reasoning.encrypted_content"]}

    with openai.OpenAI(api_key="k", base_url=chat.url) as client:
        whole = client.responses.create(**asked)
        with client.responses.stream(**asked) as stream:
            streamed = stream.get_final_response()

    for response in (whole, streamed):
        assert [item.type for item in response.output] == ["reasoning", "message", "function_call", "function_call"]
        assert response.output_text == "Hello from the fake API!"
        assert response.output[0].summary[0].text == "hm"
        assert response.output[0].encrypted_content
        assert response.output[2].arguments == '{"question": "What is new?"}'
        assert (response.usage.input_tokens, response.usage.output_tokens) == (10, 5)
        assert response.usage.input_tokens_details.cached_tokens == 3
        assert response.status == "completed"


def test_the_deltas_of_a_response_make_up_its_items(chat: FakeChatAPI) -> None:
    chat.reply(deltas=["Hel", "lo"], refusal="But I would rather not say more", tools=TWO, finish_reason="length")

    answered = events(post(chat, {**INPUT, "stream": True}, "/responses"))

    assert [one["sequence_number"] for one in answered] == list(range(len(answered)))
    assert [one["type"] for one in answered[:2]] == ["response.created", "response.in_progress"]
    said = {"response.output_text.delta": "Hello", "response.refusal.delta": "But I would rather not say more"}
    for kind, text in said.items():
        assert "".join(one["delta"] for one in answered if one["type"] == kind) == text
    arguments = [one for one in answered if one["type"] == "response.function_call_arguments.delta"]
    assert "".join(one["delta"] for one in arguments if one["output_index"] == 1) == json.dumps(TWO[0][1])
    assert answered[-1]["type"] == "response.incomplete"
    assert answered[-1]["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    done = [one["item"] for one in answered if one["type"] == "response.output_item.done"]
    assert done == answered[-1]["response"]["output"]


def test_requests_are_kept_without_their_key(chat: FakeChatAPI) -> None:
    post(chat, QUESTION)

    assert chat.wait_for_requests(1)
    assert chat.requests[0].body == QUESTION
    assert chat.requests[0].path == "/v1/chat/completions"
    assert "authorization" not in chat.requests[0].headers


def test_the_system_prompt_of_a_request_is_a_text_wherever_it_stands(chat: FakeChatAPI) -> None:
    parts = [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]
    for role, content in (("system", "Be brief."), ("developer", parts)):
        post(chat, {**QUESTION, "messages": [{"role": role, "content": content}, *QUESTION["messages"]]})
    post(chat, QUESTION)
    post(chat, {**INPUT, "instructions": "Be brief."}, "/responses")

    assert [request.system for request in chat.requests] == ["Be brief.", "Be brief.", None, "Be brief."]


def test_the_script_is_played_in_order_and_then_the_default() -> None:
    with FakeChatAPI(default=FakeChatReply(text="default")) as api:
        api.reply("first")
        api.error(429, "tokens", message="slow down", retry_after=2, should_retry=True)

        first, second, third = (post(api, QUESTION) for _ in range(3))

    assert first.json()["choices"][0]["message"] == {"role": "assistant", "content": "first", "refusal": None}
    assert (second.status_code, second.headers["retry-after"], second.headers["x-should-retry"]) == (429, "2", "true")
    error = {"message": "slow down", "type": "tokens", "param": None, "code": "rate_limit_exceeded"}
    assert second.json() == {"error": error}
    assert third.json()["choices"][0]["message"]["content"] == "default"


def test_the_default_may_depend_on_the_request() -> None:
    def echo(request: FakeRequest) -> FakeChatReply | FakeError:
        return FakeChatReply(text=request.body["messages"][-1]["content"])

    with FakeChatAPI(default=echo) as api:
        assert post(api, QUESTION).json()["choices"][0]["message"]["content"] == "Hi"


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        ({"status": 500}, {"type": "server_error", "code": None}),
        ({"status": 400, "code": "context_length_exceeded"}, {"code": "context_length_exceeded"}),
        ({"status": 401}, {"type": "invalid_request_error", "code": "invalid_api_key"}),
        ({"status": 429, "type": "insufficient_quota", "code": "insufficient_quota"}, {"type": "insufficient_quota"}),
    ],
)
def test_a_refusal_says_what_its_status_means(
    refusal: dict[str, Any], error: dict[str, object], chat: FakeChatAPI
) -> None:
    chat.error(**refusal)

    refused = post(chat, QUESTION)

    assert refused.status_code == refusal["status"]
    assert refused.json()["error"] == {"message": "injected failure", "param": None, **refused.json()["error"], **error}


def test_a_refusal_may_be_bare_or_no_json(chat: FakeChatAPI) -> None:
    chat.error(404, message="no such model", bare=True)
    chat.script([FakeError(502, content_type="text/html")])

    bare, html = (post(chat, QUESTION) for _ in range(2))

    assert bare.json() == {"error": "no such model"}
    assert (html.status_code, html.headers["content-type"]) == (502, "text/html")


def test_usage_comes_in_a_chunk_without_choices_for_who_asks(chat: FakeChatAPI) -> None:
    unasked, asked = (events(post(chat, body)) for body in (STREAM, COUNTED))

    assert not [chunk for chunk in unasked if "usage" in chunk]
    assert [chunk["usage"] for chunk in asked] == [None] * len(unasked) + [USAGE]
    assert asked[-1]["choices"] == []


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        ({"usage": None}, [False, False, False]),
        ({"usage_in": "last"}, [False, False, True]),
        ({"usage_in": "each"}, [True, True, True]),
    ],
)
def test_usage_may_come_otherwise_or_never(fields: dict[str, object], counts: list[bool], chat: FakeChatAPI) -> None:
    chat.reply("Hi", **fields)

    chunks = events(post(chat, COUNTED))

    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert ["usage" in chunk for chunk in chunks] == counts


def test_who_never_says_what_was_used_does_not_say_it_whole_either(chat: FakeChatAPI) -> None:
    chat.script([FakeChatReply(usage=None)] * 2)

    assert "usage" not in post(chat, QUESTION).json()
    assert post(chat, INPUT, "/responses").json()["usage"] is None


def test_calls_come_in_pieces_that_their_index_tells_apart(chat: FakeChatAPI) -> None:
    chat.script([FakeChatReply(text=None, tools=TWO, calls_in=way) for way in ("pieces", "interleaved")])

    one_by_one, interleaved = (calls(post(chat, STREAM)) for _ in range(2))
    for sent in (one_by_one, interleaved):
        arguments = {0: "", 1: ""}
        for piece in (piece for pieces in sent for piece in pieces):
            arguments[piece["index"]] += piece["function"]["arguments"]
        assert arguments == {0: '{"question": "What is new?"}', 1: "{}"}
        heads = [piece for pieces in sent for piece in pieces if "id" in piece]
        assert [head["function"]["name"] for head in heads] == ["search", "bash"]
    assert [len(pieces) for pieces in interleaved] == [2, 2, 1, 1]


def test_a_reply_alone_numbers_its_calls() -> None:
    assert [call["id"] for call in FakeChatReply(tools=TWO).calls()] == ["call_fake_1", "call_fake_2"]


def test_calls_may_come_whole_one_by_one_or_all_in_one_chunk(chat: FakeChatAPI) -> None:
    chat.script([FakeChatReply(tools=TWO, calls_in=way) for way in ("whole", "together")])

    one_by_one, together = (calls(post(chat, STREAM)) for _ in range(2))

    assert [len(pieces) for pieces in one_by_one] == [1, 1]
    assert [len(pieces) for pieces in together] == [2]
    assert [one["function"]["name"] for one in together[0]] == ["search", "bash"]


def test_calls_may_have_no_ids_the_same_or_no_index(chat: FakeChatAPI) -> None:
    chat.reply(tools=TWO, call_ids=[None, None], indexes=[0, 0], calls_in="together")
    chat.reply(tools=TWO, call_ids=["c", "c"], indexes=[None, None], calls_in="pieces")

    without, same = (calls(post(chat, STREAM)) for _ in range(2))

    assert [[("id" in one, one["index"]) for one in pieces] for pieces in without] == [[(False, 0), (False, 0)]]
    assert [one["id"] for pieces in same for one in pieces if "id" in one] == ["c", "c"]
    assert not [one for pieces in same for one in pieces if "index" in one]


def test_a_response_may_have_calls_without_ids(chat: FakeChatAPI) -> None:
    chat.reply(text=None, tools=TWO, call_ids=[None, "c"], arguments="object")

    first, second = post(chat, INPUT, "/responses").json()["output"]

    assert ("call_id" in first, second["call_id"]) == (False, "c")
    assert first["arguments"] == {"question": "What is new?"}


def test_arguments_may_be_objects_or_any_text(chat: FakeChatAPI) -> None:
    chat.script([FakeChatReply(tools=TWO, arguments="object")] * 2)
    chat.reply(tools=[("search", '{"question": "two\nlines')])

    whole, streamed, broken = (post(chat, body) for body in (QUESTION, STREAM, STREAM))

    assert [one["function"]["arguments"] for one in whole.json()["choices"][0]["message"]["tool_calls"]] == [
        {"question": "What is new?"},
        {},
    ]
    assert [piece["function"]["arguments"] for [piece] in calls(streamed)] == [{"question": "What is new?"}, {}]
    assert "".join(piece["function"]["arguments"] for [piece] in calls(broken)) == '{"question": "two\nlines'


def test_heads_of_calls_may_come_with_each_piece(chat: FakeChatAPI) -> None:
    chat.reply(tools=TWO[:1], repeat_call_heads=True)

    sent = [piece for [piece] in calls(post(chat, STREAM))]

    assert len(sent) > 2
    assert {(piece["id"], piece["function"]["name"]) for piece in sent} == {("call_fake_1", "search")}
    assert "".join(piece["function"]["arguments"] for piece in sent) == json.dumps(TWO[0][1])


def test_content_may_be_null_beside_calls_and_thoughts(chat: FakeChatAPI) -> None:
    chat.script([FakeChatReply(text=None, thinking="hm", tools=TWO, null_content=null) for null in (True, False)])

    null, absent = (deltas(post(chat, STREAM)) for _ in range(2))

    assert [delta.get("content", "") for delta in null] == [None] * len(null)
    assert [delta.get("content", "") for delta in absent] == [None] + [""] * (len(absent) - 1)


def test_thoughts_stand_where_the_server_has_them(chat: FakeChatAPI) -> None:
    chat.script([FakeChatReply(thinking="hm", thinking_field="reasoning")] * 2)

    whole, streamed = post(chat, QUESTION), post(chat, STREAM)

    assert whole.json()["choices"][0]["message"]["reasoning"] == "hm"
    assert [delta["reasoning"] for delta in deltas(streamed) if "reasoning" in delta] == ["hm"]


def test_a_message_with_calls_may_end_as_one_without(chat: FakeChatAPI) -> None:
    chat.script([FakeChatReply(tools=TWO, finish_reason="stop"), FakeChatReply(refusal="No", text=None, done=False)])

    with_calls, refused = (post(chat, STREAM) for _ in range(2))

    assert events(with_calls)[-1]["choices"][0]["finish_reason"] == "stop"
    assert with_calls.text.endswith("data: [DONE]\n\n")
    assert [delta["refusal"] for delta in deltas(refused) if "refusal" in delta] == ["No"]
    assert "[DONE]" not in refused.text


def test_who_asked_for_a_stream_may_be_answered_whole(chat: FakeChatAPI) -> None:
    chat.script([FakeChatReply(whole=True, model="other")] * 2)

    completion, response = post(chat, STREAM).json(), post(chat, {**INPUT, "stream": True}, "/responses").json()

    assert (completion["object"], response["object"]) == ("chat.completion", "response")
    assert completion["model"] == response["model"] == "other"


CALL: dict[str, Any] = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
CALLS: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT: dict[str, Any] = {"role": "tool", "tool_call_id": "c", "content": "ok"}
BASH: dict[str, Any] = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}
STRICT: dict[str, Any] = {"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}


def said(*messages: object, **fields: object) -> dict[str, Any]:
    return {**QUESTION, "messages": [*QUESTION["messages"], *messages], **fields}


def user(*parts: object) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def image(url: object) -> dict[str, Any]:
    return user({"type": "image_url", "image_url": {"url": url}})


def function(**fields: object) -> dict[str, Any]:
    return {**QUESTION, "tools": [{"type": "function", "function": {**BASH["function"], **fields}}]}


def called(**fields: object) -> dict[str, Any]:
    return said({**CALLS, "tool_calls": [{**CALL, **fields}]}, RESULT)


def form(schema: object, *, strict: bool = True) -> dict[str, Any]:
    schemed = {"name": "answer", "schema": schema, "strict": strict}
    return {**QUESTION, "response_format": {"type": "json_schema", "json_schema": schemed}}


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"messages": []}, "'model'"),
        ({"model": "m"}, "'messages'"),
        ({**QUESTION, "model": ""}, "model parameter"),
        ({**QUESTION, "input": "Hi"}, "Unknown parameter: 'input'"),
        ({**QUESTION, "max_tokens": 0}, "'max_tokens'"),
        ({**QUESTION, "max_tokens": 5, "max_completion_tokens": 5}, "at the same time"),
        ({**QUESTION, "model": "gpt-5-mini", "max_tokens": 5}, "not supported with this model"),
        ({**QUESTION, "model": "o3", "temperature": 0.5}, "'temperature'"),
        ({**QUESTION, "stream_options": {"include_usage": True}}, "'stream_options'"),
        ({**QUESTION, "messages": []}, "too short"),
        ({**QUESTION, "messages": ["Hi"]}, "expected an object"),
        (said({"role": "robot", "content": "Hi"}), "'robot'"),
        (said({"role": "user", "content": None}), "got null"),
        (said(user()), "non-empty"),
        (said(user("Hi")), "Invalid value: 'Hi'"),
        (said(user({"type": "input_text", "text": "Hi"})), "'input_text'"),
        (said(user({"type": "text"})), "`text`"),
        (said(image("data:image/png;base64,?")), "`image_url`"),
        (said(image("file:///etc/passwd")), "`image_url`"),
        (said({**CALLS, "tool_calls": []}), "got null"),
        (said({**CALLS, "content": "Hm", "tool_calls": []}), "too short"),
        (called(id=""), "tool_calls[].id"),
        (called(function={"name": "my tool", "arguments": "{}"}), "'name'"),
        (called(function={"name": "bash", "arguments": {}}), "arguments"),
        (called(function={"name": "bash", "arguments": "{"}), "arguments"),
        (called(function={"name": "bash", "arguments": "[]"}), "arguments"),
        (said(CALLS), "did not have response messages: c"),
        (said(CALLS, {"role": "user", "content": "Well?"}, RESULT), "did not have response messages: c"),
        (said(RESULT), "preceeding"),
        (said(CALLS, RESULT, RESULT), "preceeding"),
        (said(CALLS, {"role": "tool", "content": "ok"}), "tool_call_id"),
        ({**QUESTION, "tools": []}, "'tools'"),
        ({**QUESTION, "tool_choice": "auto"}, "'tool_choice'"),
        ({**QUESTION, "parallel_tool_calls": True}, "'parallel_tool_calls'"),
        ({**QUESTION, "tools": [{"name": "bash"}]}, "tools.0.type"),
        (function(name="my tool"), "tools[0].name"),
        (function(parameters=[]), "tools[0].parameters"),
        (function(parameters={"type": "array"}), 'type: "object"'),
        (function(strict=True), "additionalProperties"),
        (form({**STRICT, "required": []}), "additionalProperties"),
        (form({**STRICT, "required": 1}), "additionalProperties"),
        (form({**STRICT, "properties": {"a": {"anyOf": [{"type": "object"}]}}}), "additionalProperties"),
    ],
)
def test_what_the_api_would_refuse_is_refused(body: object, complaint: str, chat: FakeChatAPI) -> None:
    refused = post(chat, body)

    assert refused.status_code == 400
    assert complaint in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        said(CALLS, RESULT, {"role": "user", "content": "Well?"}, tools=[BASH], tool_choice="auto"),
        said({**CALLS, "tool_calls": [CALL, {**CALL, "id": "d"}]}, {**RESULT, "tool_call_id": "d"}, RESULT),
        said(CALLS, RESULT, CALLS, RESULT),
        said({"role": "assistant", "content": None, "refusal": "No"}),
        said({"role": "assistant", "content": [{"type": "refusal", "refusal": "No"}]}),
        said(image("data:image/png;base64,eA=="), image("https://x.example/y.png")),
        {**QUESTION, "model": "gpt-5", "max_completion_tokens": 5, "temperature": 1, "tools": None},
        form({**STRICT, "properties": {"a": STRICT}}),
        form({"type": "object"}, strict=False),
    ],
)
def test_what_the_api_accepts_is_accepted(body: object, chat: FakeChatAPI) -> None:
    assert post(chat, body).json()["object"] == "chat.completion"


ITEM: dict[str, Any] = {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"}
OUTPUT: dict[str, Any] = {"type": "function_call_output", "call_id": "c", "output": "ok"}
THOUGHT: dict[str, Any] = {"type": "reasoning", "id": "rs", "summary": []}
ASKED: dict[str, Any] = {"role": "user", "content": "Hi"}


def items(*given: object, **fields: object) -> dict[str, Any]:
    return {"model": "m", "input": [ASKED, *given], **fields}


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"model": "m"}, "'input'"),
        ({"model": "m", "input": []}, "empty"),
        ({**INPUT, "messages": []}, "'messages'"),
        ({**INPUT, "response_format": {}}, "'response_format'"),
        ({**INPUT, "max_output_tokens": 0}, "'max_output_tokens'"),
        ({**INPUT, "previous_response_id": "resp_1"}, "'resp_1' not found"),
        (items("Hi"), "expected an object"),
        (items({"type": "news"}), "'news'"),
        (items({"role": "tool", "content": "ok"}), "'tool'"),
        (items({"role": "user", "content": [{"type": "text", "text": "Hi"}]}), "'text'"),
        (items({"role": "user", "content": [{"type": "input_image", "image_url": {"url": "x"}}]}), "`input_image`"),
        (items({**ITEM, "call_id": ""}), "'call_id'"),
        (items({**ITEM, "arguments": {}}, OUTPUT), "arguments"),
        (items(ITEM, {**OUTPUT, "call_id": None}), "'call_id'"),
        (items(ITEM, {**OUTPUT, "output": {}}), "'content'"),
        (items(ITEM), "No tool output found for function call c"),
        (items(OUTPUT), "with call_id c"),
        (items({"type": "reasoning"}), "'summary'"),
        (items(THOUGHT), "required following item"),
        (items(THOUGHT, ASKED), "required following item"),
        ({**INPUT, "tools": [{"type": "function", "name": "my tool"}]}, "tools[0].name"),
        ({**INPUT, "text": {"format": {"type": "json_schema", "schema": STRICT}}}, "text.format.name"),
    ],
)
def test_what_responses_would_refuse_is_refused(body: object, complaint: str, chat: FakeChatAPI) -> None:
    refused = post(chat, body, "/responses")

    assert refused.status_code == 400
    assert complaint in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        items(THOUGHT, ITEM, OUTPUT, THOUGHT, {"role": "assistant", "content": "Hm"}, ASKED),
        items(
            ITEM, {**OUTPUT, "output": [{"type": "input_image", "image_url": "data:image/png;base64,eA=="}]},
            tools=[{"type": "function", "name": "bash", "parameters": STRICT, "strict": True}],
        ),
        {**INPUT, "text": {"format": {"type": "json_schema", "name": "a", "schema": STRICT, "strict": True}}},
        {**INPUT, "text": {"format": {"type": "text"}}},
    ],
)  # fmt: skip
def test_what_responses_accept_is_accepted(body: object, chat: FakeChatAPI) -> None:
    assert post(chat, body, "/responses").json()["object"] == "response"


def test_who_is_not_strict_accepts_all() -> None:
    with FakeChatAPI(strict=False) as api:
        assert httpx2.post(f"{api.url}/chat/completions", json={}).status_code == 200


def test_a_key_is_required_and_checked() -> None:
    with FakeChatAPI(api_key="right") as api:
        statuses = [
            httpx2.post(f"{api.url}/chat/completions", json=QUESTION, headers=headers).status_code
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Bearer right"})
        ]

    assert statuses == [401, 401, 200]


def test_other_paths_and_other_bodies_are_refused(chat: FakeChatAPI) -> None:
    assert post(chat, {}, "/completions").status_code == 404
    assert (
        httpx2.post(f"{chat.url}/chat/completions", content=b"{").json()["error"]["message"] == "the body is not JSON"
    )


@pytest.mark.parametrize("path", ["/chat/completions", "/responses"])
@pytest.mark.parametrize("fields", [{"chunk_size": 5}, {"delay": 0.001}, {"line_end": "\r\n"}, {"ping_every": 1}])
def test_the_stream_is_the_same_however_it_comes(path: str, fields: dict[str, object], chat: FakeChatAPI) -> None:
    chat.script([FakeChatReply(text="ü😀"), FakeChatReply(text="ü😀")])
    chat.reply("ü😀", **fields)
    body = STREAM if path == "/chat/completions" else {**INPUT, "stream": True}

    first, second, other = (events(post(chat, body, path)) for _ in range(3))

    assert other == second == first


@pytest.mark.parametrize(("mode", "error"), [("rst", httpx2.ReadError), ("fin", httpx2.RemoteProtocolError)])
def test_a_dropped_connection_is_felt(mode: str, error: type[Exception], chat: FakeChatAPI) -> None:
    chat.reply("Hi", drop_after=2, drop_mode=mode)

    with pytest.raises(error):
        post(chat, STREAM)


def test_a_stream_may_end_without_its_end_or_with_an_error(chat: FakeChatAPI) -> None:
    chat.reply("Hi", drop_after=2, drop_mode="eof")
    chat.reply("Hi", error_after=2, error_type="overloaded")

    ended, failed = (post(chat, STREAM) for _ in range(2))

    assert len(events(ended)) == 2
    assert "[DONE]" not in ended.text
    assert events(failed)[2:] == [
        {"error": {"message": "injected overloaded", "type": "overloaded", "param": None, "code": None}}
    ]


def test_a_response_fails_by_an_error_or_as_a_whole(chat: FakeChatAPI) -> None:
    chat.script([FakeChatReply(error_after=3, fails=fails) for fails in (False, True)])

    error, failed = (events(post(chat, {**INPUT, "stream": True}, "/responses"))[-1] for _ in range(2))

    assert (error["type"], error["code"], error["sequence_number"]) == ("error", "server_error", 3)
    assert (failed["type"], failed["response"]["status"]) == ("response.failed", "failed")
    assert failed["response"]["error"]["code"] == "server_error"


def test_a_client_that_hangs_up_is_noticed(chat: FakeChatAPI) -> None:
    chat.reply("Hi", stall_after=1)

    with httpx2.stream(
        "POST", f"{chat.url}/chat/completions", json=STREAM, headers={"authorization": "Bearer k"}
    ) as answer:
        next(answer.iter_raw())

    assert chat.wait_for_hang_up()


def test_closing_breaks_what_is_under_way_and_ends_the_thread() -> None:
    before = set(threading.enumerate())
    api = FakeChatAPI().start()
    api.reply("Hi", stall_after=0)
    with streaming(api) as response:
        api.close()

        with pytest.raises(httpx2.TransportError):
            response.read()

    assert set(threading.enumerate()) <= before


def test_a_body_may_come_in_chunks_and_leaves_the_connection_usable(chat: FakeChatAPI) -> None:
    chat.script([FakeChatReply(deltas=["one"]), FakeChatReply(deltas=["two"])])
    sent = json.dumps(QUESTION).encode()
    with httpx2.Client(headers={"authorization": "Bearer k"}) as client:
        answers = [
            client.post(f"{chat.url}/chat/completions", content=iter([sent[:9], sent[9:]]), headers=KIND)
            for _ in range(2)
        ]

    assert [one.request.headers.get("transfer-encoding") for one in answers] == ["chunked"] * 2
    assert [one.json()["choices"][0]["message"]["content"] for one in answers] == ["one", "two"]
    assert [request.body["messages"] for request in chat.requests] == [QUESTION["messages"]] * 2
