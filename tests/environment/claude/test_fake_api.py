from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import anthropic
import httpx2
import pytest

from reenact.testing import FakeError, FakeMessagesAPI, FakeReply, FakeRequest

QUESTION: dict[str, Any] = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}


def post(
    api: FakeMessagesAPI, body: object, headers: Mapping[str, str] | None = None, path: str = "/v1/messages"
) -> httpx2.Response:
    standard = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    return httpx2.post(f"{api.url}{path}", json=body, headers=standard if headers is None else headers)


def test_the_sdk_understands_an_answer_that_streams_and_one_that_does_not(api: FakeMessagesAPI) -> None:
    api.script(
        [FakeReply(thinking="hm", text="Hello", tools=[("bash", {"a": [1]})], stop_reason="tool_use", ping_every=3)] * 2
    )
    with anthropic.Anthropic(api_key="k", base_url=api.url) as client:
        whole = client.messages.create(model="m", max_tokens=5, messages=[{"role": "user", "content": "Hi"}])
        with client.messages.stream(model="m", max_tokens=5, messages=[{"role": "user", "content": "Hi"}]) as stream:
            streamed = stream.get_final_message()

    assert [block.to_dict(exclude_none=True) for block in streamed.content] == [
        block.to_dict(exclude_none=True) for block in whole.content
    ]
    assert [block.type for block in whole.content] == ["thinking", "text", "tool_use"]
    assert streamed.stop_reason == whole.stop_reason == "tool_use"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (FakeReply(), "end_turn"),
        (FakeReply(tools=[("bash", {})]), "tool_use"),
        (FakeReply(tools=[("bash", {})], stop_reason="max_tokens"), "max_tokens"),
        (FakeReply(stop_reason=None), None),
    ],
)
def test_a_reply_with_calls_stops_for_them_unless_another_reason_is_given(reply: FakeReply, reason: str | None) -> None:
    assert reply.message("m")["stop_reason"] == reason


def test_requests_are_kept_without_their_key(api: FakeMessagesAPI) -> None:
    post(api, QUESTION)

    assert api.wait_for_requests(1)
    assert api.requests[0].body == QUESTION
    assert api.requests[0].path == "/v1/messages"
    assert "x-api-key" not in api.requests[0].headers


def test_the_system_prompt_of_a_request_is_a_text_however_it_came(api: FakeMessagesAPI) -> None:
    blocks = [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]
    for system in ({}, {"system": "Be brief."}, {"system": blocks}):
        post(api, {**QUESTION, **system})

    assert [request.system for request in api.requests] == [None, "Be brief.", "Be brief."]


@pytest.mark.parametrize(
    "fields",
    [
        {"text": 3},
        {"tools": ["bash"]},
        {"drop_after": "1"},
        {"drop_mode": "reset"},
        {"delay": "1"},
        {"line_end": "\r"},
        {"texts": "Hello"},
    ],
)
def test_a_reply_that_cannot_be_is_refused_before_it_would_look_like_a_broken_connection(
    api: FakeMessagesAPI, fields: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match=next(iter(fields))):
        api.reply(**fields)


@pytest.mark.parametrize("wrong", ["Hello", None, {"text": "Hello"}])
def test_a_script_of_something_else_than_replies_is_refused(api: FakeMessagesAPI, wrong: Any) -> None:  # noqa: ANN401 - the mistake
    with pytest.raises(TypeError, match="a script is made of FakeReply and FakeError, not of "):
        api.script([wrong])
    with pytest.raises(TypeError, match=r"a FakeError is invalid: Expected `int`.*status"):
        api.error(wrong)


def test_a_default_that_fails_is_the_message_of_a_refusal_that_nobody_asks_again_after(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def default(request: FakeRequest) -> FakeReply:
        return FakeReply(text=request.body["no such field"])

    with FakeMessagesAPI(default=default) as api:
        refused = post(api, QUESTION)

    assert (refused.status_code, refused.json()["error"]["type"]) == (400, "invalid_request_error")
    assert "the fake API has no answer: KeyError('no such field')" in refused.json()["error"]["message"]
    assert "in default" in caplog.text


def test_the_script_is_played_in_order_and_then_the_default() -> None:
    with FakeMessagesAPI(default=FakeReply(text="default")) as api:
        api.reply("first")
        api.error(418, "teapot_error", message="short and stout", retry_after="later")

        first, second, third = (post(api, QUESTION) for _ in range(3))

    assert first.json()["content"] == [{"type": "text", "text": "first"}]
    assert (second.status_code, second.headers["retry-after"]) == (418, "later")
    assert second.json() == {"type": "error", "error": {"type": "teapot_error", "message": "short and stout"}}
    assert third.json()["content"] == [{"type": "text", "text": "default"}]


def test_the_default_may_depend_on_the_request() -> None:
    def echo(request: FakeRequest) -> FakeReply:
        return FakeReply(text=str(request.body["messages"][-1]["content"]))

    with FakeMessagesAPI(default=echo) as api:
        assert post(api, QUESTION).json()["content"] == [{"type": "text", "text": "Hi"}]


def test_who_asked_for_a_stream_may_be_answered_with_the_whole_message(api: FakeMessagesAPI) -> None:
    container = {"id": "c", "expires_at": "2026-01-01T00:00:00Z"}
    api.script([FakeReply(text="Hello", container=container, whole=whole) for whole in (True, False)])

    whole, streamed = (post(api, {**QUESTION, "stream": True}) for _ in range(2))

    assert whole.headers["content-type"] == "application/json"
    assert (whole.json()["content"], whole.json()["container"]) == ([{"type": "text", "text": "Hello"}], container)
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert '"container": {"id": "c"' in streamed.text.partition("message_delta")[2]


def test_tokens_are_counted_more_for_more(api: FakeMessagesAPI) -> None:
    body = {name: value for name, value in QUESTION.items() if name != "max_tokens"}
    longer = {**body, "system": "Be brief. " * 10}
    api.error(529)

    refused, short, long = (post(api, one, path="/v1/messages/count_tokens") for one in (body, body, longer))

    assert refused.status_code == 529
    assert 0 < short.json()["input_tokens"] < long.json()["input_tokens"]
    assert post(api, QUESTION, path="/v1/messages/count_tokens").status_code == 400
    assert post(api, QUESTION, path="/v1/other").status_code == 404


CALL: dict[str, Any] = {"type": "tool_use", "id": "t", "name": "bash", "input": {}}
RESULT: dict[str, Any] = {"type": "tool_result", "tool_use_id": "t", "content": "ok"}
SEARCH: dict[str, Any] = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
FOUND: dict[str, Any] = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
BY_CODE: dict[str, Any] = {**CALL, "caller": {"type": "code_execution_20250825", "tool_id": "s"}}
THOUGHT: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": "s"}
BASH: dict[str, Any] = {"name": "bash", "input_schema": {"type": "object"}}
MARK: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
HOUR: dict[str, Any] = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
TEXT: dict[str, Any] = {"type": "text", "text": "Hi"}


def turns(*contents: object, **fields: object) -> dict[str, Any]:
    """Return a request with these messages, which users and the model say in turns."""
    roles = ("user", "assistant")
    said = [{"role": roles[n % 2], "content": content} for n, content in enumerate(contents)]
    return {**QUESTION, "messages": said, "tools": [BASH], **fields}


def image(**source: object) -> dict[str, Any]:
    return {"type": "image", "source": source}


def document(**source: object) -> dict[str, Any]:
    return {"type": "document", "source": source}


def failed(content: object) -> dict[str, Any]:
    return turns("Hi", [CALL], [{**RESULT, "content": content, "is_error": True}])


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({}, "model"),
        ({**QUESTION, "top_x": 1}, "top_x: Extra inputs"),
        ({**QUESTION, "max_tokens": 0}, "max_tokens"),
        ({**QUESTION, "messages": []}, "at least one"),
        ({**QUESTION, "messages": ["Hi"]}, "expected shape"),
        ({**QUESTION, "messages": [{"role": "system", "content": "Hi"}]}, "expected shape"),
        ({**QUESTION, "messages": [{"role": "user", "content": ["Hi"]}]}, "expected shape"),
        ({**QUESTION, "messages": [{"role": "assistant", "content": "Hi"}]}, "user role"),
        ({**QUESTION, "system": " "}, "system"),
        ({**QUESTION, "system": []}, "system"),
        (turns(" "), "`text`"),
        (turns([]), "empty"),
        (turns([{"type": "news"}]), "'news'"),
        (turns([CALL]), "'tool_use' does not match"),
        (turns("Hi", [image(type="url"), TEXT], "Hi"), "'image' does not match"),
        (turns([image(type="base64", media_type="image/bmp", data="eA==")]), "`image`"),
        (turns([image(type="base64", media_type="image/png", data="?")]), "`image`"),
        (turns([image(type="text")]), "`image`"),
        (turns([document(type="base64", media_type="image/png", data="eA==")]), "`document`"),
        (turns([document(type="text", data="x")]), "`document`"),
        (turns([document(type="news")]), "`document`"),
        (turns("Hi", [{"type": "thinking", "thinking": "hm"}, TEXT], "Hi"), "`thinking`"),
        (turns("Hi", [{"type": "redacted_thinking"}, TEXT], "Hi"), "`redacted_thinking`"),
        (turns("Hi", [{"type": "compaction", "content": ""}, TEXT], "Hi"), "`compaction`"),
        (turns("Hi", [TEXT, THOUGHT], "Hi"), "final block"),
        (turns("Hi", "Hm "), "trailing"),
        (turns("Hi", "Hm", model="claude-sonnet-4-6"), "prefill"),
        (turns("Hi", "Hm", thinking={"type": "adaptive"}), "prefill"),
        (turns("Hi", [CALL]), "without `tool_result`"),
        (turns("Hi", [CALL, TEXT], [RESULT]), "without `tool_result`"),
        (turns("Hi", [CALL, CALL], [RESULT]), "unique"),
        (turns("Hi", [CALL], [RESULT], [CALL], [RESULT]), "unique"),
        (turns("Hi", [{**CALL, "id": "t|1"}], [{**RESULT, "tool_use_id": "t|1"}]), "`tool_use`"),
        (turns("Hi", [{**CALL, "name": ""}], [RESULT]), "`tool_use`"),
        (turns("Hi", [CALL], [RESULT, RESULT]), "single result"),
        (turns([RESULT]), "unexpected"),
        (turns("Hi", [CALL], [{"type": "tool_result"}]), "`tool_result`"),
        (turns("Hi", [CALL], [TEXT, RESULT]), "before other content"),
        (turns("Hi", [CALL], [{**RESULT, "content": [{"type": "text", "text": ""}]}]), "`tool_result`"),
        (failed(""), "`tool_result`"),
        (failed([]), "`tool_result`"),
        (failed([TEXT, image(type="url")]), "`tool_result`"),
        (turns("Hi", [CALL], [RESULT], tools=[]), "must define tools"),
        (turns("Hi", [SEARCH, TEXT], "Hi"), "`s` was found without"),
        (turns("Hi", [SEARCH, CALL], [RESULT, TEXT]), "`s` was found without"),
        (turns("Hi", [SEARCH, CALL], [RESULT], "Lost", "Hi"), "`s` was found without"),
        (turns("Hi", [FOUND, TEXT], "Hi"), "`web_search_tool_result` blocks"),
        (turns("Hi", [SEARCH, FOUND, SEARCH, FOUND], "Hi"), "unique"),
        (turns("Hi", [BY_CODE], [RESULT]), "`s` is not running"),
        (turns("Hi", [SEARCH, BY_CODE], [RESULT]), "container"),
        (turns("Hi", tools=[{**BASH, "name": "my tool"}]), "tools.0.name"),
        (turns("Hi", tools=[{"name": "bash"}]), "input_schema"),
        (turns("Hi", tools=[BASH, BASH]), "unique"),
        (turns("Hi", tools=[], tool_choice={"type": "any"}), "while providing tools"),
        (turns("Hi", tool_choice={"type": "tool", "name": "x"}), "'x' not found"),
        (turns("Hi", thinking={"type": "adaptive"}, model="claude-sonnet-4-5"), "adaptive"),
        (turns("Hi", thinking={"type": "enabled", "budget_tokens": 2000}, model="claude-opus-4-7"), "enabled"),
        (turns("Hi", thinking={"type": "enabled", "budget_tokens": 5}), "1024"),
        (turns("Hi", thinking={"type": "enabled", "budget_tokens": 2000}, max_tokens=2000), "`max_tokens`"),
        (turns("Hi", thinking={"type": "adaptive"}, temperature=0.5), "`temperature`"),
        (turns("Hi", thinking={"type": "adaptive"}, tool_choice={"type": "any"}), "forces tool use"),
        (
            turns("Hi", [CALL], [RESULT], thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2000),
            "found `tool_use`",
        ),
        (turns([{**TEXT, **MARK}] * 5), "maximum of 4"),
        (turns([{**TEXT, **MARK}] * 4, **MARK), "maximum of 4"),
        (turns("Hi", [{**THOUGHT, **MARK}, TEXT], "Hi"), "thinking"),
        (turns("Hi", tools=[{**BASH, **MARK, "defer_loading": True}]), "defer_loading"),
        (turns([{**TEXT, **HOUR}], tools=[{**BASH, **MARK}]), "must not come after"),
    ],
)
def test_what_the_api_would_refuse_is_refused(body: object, complaint: str, api: FakeMessagesAPI) -> None:
    refused = post(api, body)

    assert refused.status_code == 400
    assert complaint in refused.json()["error"]["message"]


@pytest.mark.parametrize("field", ["temperature", "top_p", "top_k"])
@pytest.mark.parametrize(
    ("version", "model", "complaint"),
    [
        ("2026-10-21", "claude-sonnet-4-6", "{field}: Extra inputs are not permitted"),
        ("2026-10-21", "claude-sonnet-5", "{field}: Extra inputs are not permitted"),
        ("2023-06-01", "claude-opus-4-7", "`{field}` is deprecated for this model."),
        ("2023-06-01", "claude-sonnet-4-6", None),
    ],
)
def test_sampling_parameters_are_taken_by_old_versions_for_old_models(
    field: str, version: str, model: str, complaint: str | None, api: FakeMessagesAPI
) -> None:
    answer = post(api, {**QUESTION, "model": model, field: 0.5}, {"x-api-key": "k", "anthropic-version": version})

    if complaint is None:
        assert answer.status_code == 200
    else:
        assert answer.status_code == 400
        error = {"type": "invalid_request_error", "message": complaint.format(field=field)}
        assert answer.json() == {"type": "error", "error": error}


@pytest.mark.parametrize(
    "body",
    [
        turns("Hi", [THOUGHT, CALL], [RESULT], "Done"),
        turns("Hi", [CALL], [{**RESULT, "content": [TEXT, image(type="url", url="https://x")]}]),
        turns("Hi", [SEARCH, FOUND, TEXT], "Hi"),
        turns("Hi", [SEARCH, CALL], [RESULT]),
        turns("Hi", [SEARCH, CALL], [RESULT], [FOUND, TEXT], "Hi"),
        turns("Hi", [SEARCH, BY_CODE], [RESULT], container="c"),
        turns(
            "Hi", [SEARCH, BY_CODE], [RESULT], [{**BY_CODE, "id": "u"}], [{**RESULT, "tool_use_id": "u"}], container="c"
        ),
        turns("Hi", [TEXT, SEARCH], model="claude-opus-5"),
        turns("Hi", "Hm", model="claude-sonnet-4-5-20250929"),
        turns("Hi", [THOUGHT, CALL], [RESULT], thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2000),
        turns([{**TEXT, **MARK}], tools=[{**BASH, **HOUR}], system=[{**TEXT, **HOUR}]),
        turns([document(type="text", media_type="text/plain", data="x"), {"type": "container_upload", "file_id": "f"}]),
        turns("Hi", [{"type": "mcp_tool_listing", "mcp_server_name": "e", "tools": [{"name": "t"}]}, TEXT], "Hi"),
        turns("Hi", fallbacks=[{"model": "claude-opus-4-8"}], thread={"id": "x"}),
    ],
)
def test_what_the_api_accepts_is_accepted(body: object, api: FakeMessagesAPI) -> None:
    assert post(api, body).json()["type"] == "message"


def test_a_thought_must_come_back_as_it_was_sent(api: FakeMessagesAPI) -> None:
    api.reply(thinking="hm", signature="sig")
    post(api, QUESTION)

    same, other = (
        post(api, turns("Hi", [{"type": "thinking", "thinking": thought, "signature": "sig"}, TEXT], "Hi"))
        for thought in ("hm", "hum")
    )

    assert same.status_code == 200
    assert "cannot be modified" in other.json()["error"]["message"]


def test_who_is_not_strict_accepts_all() -> None:
    with FakeMessagesAPI(strict=False) as api:
        assert post(api, turns(" ")).status_code == 200


def test_headers_are_required_and_the_key_is_checked() -> None:
    with FakeMessagesAPI(api_key="right") as api:
        statuses = [
            post(api, QUESTION, headers).status_code
            for headers in (
                {},
                {"x-api-key": "wrong", "anthropic-version": "2023-06-01"},
                {"x-api-key": "right"},
                {"authorization": "Bearer right", "anthropic-version": "2023-06-01"},
            )
        ]

    assert statuses == [401, 401, 400, 200]


def test_it_need_not_be_strict() -> None:
    with FakeMessagesAPI(strict=False) as api:
        assert post(api, {}, {}).status_code == 200


def test_other_paths_and_other_bodies_are_refused(api: FakeMessagesAPI) -> None:
    assert httpx2.post(f"{api.url}/v1/other", json={}).status_code == 404
    assert httpx2.post(f"{api.url}/v1/messages", content=b"{").status_code == 400


@pytest.mark.parametrize("chunk_size", [1, 5, 100])
def test_the_stream_is_the_same_however_it_is_cut(chunk_size: int, api: FakeMessagesAPI) -> None:
    api.script([FakeReply(text="ü😀"), FakeReply(text="ü😀", chunk_size=chunk_size)])

    whole, cut = (post(api, {**QUESTION, "stream": True}).content for _ in range(2))

    assert cut == whole
    assert b"event: message_stop" in whole


def test_a_delayed_stream_comes_whole(api: FakeMessagesAPI) -> None:
    api.reply("Hi", delay=0.001)

    assert b"message_stop" in post(api, {**QUESTION, "stream": True}).content


@pytest.mark.parametrize(("mode", "error"), [("rst", httpx2.ReadError), ("fin", httpx2.RemoteProtocolError)])
def test_a_dropped_connection_is_felt(mode: str, error: type[Exception], api: FakeMessagesAPI) -> None:
    api.reply("Hi", drop_after=2, drop_mode=mode)

    with pytest.raises(error):
        post(api, {**QUESTION, "stream": True})


def test_a_stream_may_end_without_its_end(api: FakeMessagesAPI) -> None:
    api.reply("Hi", drop_after=2, drop_mode="eof")
    api.reply("Hi", error_after=2, error_type="api_error")

    ended, failed = (post(api, {**QUESTION, "stream": True}).text for _ in range(2))

    assert "message_stop" not in ended
    assert failed.split("\n\n")[-2].startswith("event: error\n")


def test_closing_breaks_what_is_under_way_and_ends_the_thread() -> None:
    before = set(threading.enumerate())
    api = FakeMessagesAPI().start()
    api.reply("Hi", stall_after=0)
    with httpx2.stream("POST", f"{api.url}/v1/messages", json={**QUESTION, "stream": True}, headers={
        "x-api-key": "k", "anthropic-version": "1"
    }) as response:  # fmt: skip
        api.close()
        api.close()

        with pytest.raises(httpx2.TransportError):
            response.read()

    assert set(threading.enumerate()) <= before


def test_closing_does_not_wait_for_a_client_that_reads_nothing() -> None:
    api = FakeMessagesAPI().start()
    api.script([FakeReply(deltas=["x" * 10_000_000])])
    with httpx2.stream("POST", f"{api.url}/v1/messages", json={**QUESTION, "stream": True}, headers={
        "x-api-key": "k", "anthropic-version": "1"
    }):  # fmt: skip
        closing = threading.Thread(target=api.close, daemon=True)
        closing.start()
        closing.join(10)

        assert not closing.is_alive()


def test_one_can_be_used_in_a_notebook_where_asyncio_run_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("asyncio.run")

    with FakeMessagesAPI() as api:
        assert api.url


def test_one_that_was_never_started_can_be_closed() -> None:
    FakeMessagesAPI().close()


def test_a_refusal_says_what_its_status_means() -> None:
    assert FakeError(529).body()["error"]["type"] == "overloaded_error"
    assert FakeError(500).body()["error"]["type"] == "api_error"
    assert FakeError(400, should_retry=False).headers() == {"x-should-retry": "false"}
