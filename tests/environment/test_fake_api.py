from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import anthropic
import httpx2
import pytest

from reenact.testing import FakeError, FakeMessagesAPI, FakeReply
from reenact.testing.fake_api import FakeRequest

QUESTION: dict[str, Any] = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}


def post(api: FakeMessagesAPI, body: object, headers: Mapping[str, str] | None = None) -> httpx2.Response:
    standard = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    return httpx2.post(f"{api.url}/v1/messages", json=body, headers=standard if headers is None else headers)


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


def test_requests_are_kept_without_their_key(api: FakeMessagesAPI) -> None:
    post(api, QUESTION)

    assert api.wait_for_requests(1)
    assert api.requests[0].body == QUESTION
    assert api.requests[0].path == "/v1/messages"
    assert "x-api-key" not in api.requests[0].headers


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


TOOL: dict[str, Any] = {"type": "tool_use", "id": "t", "name": "bash", "input": {}}
RESULT: dict[str, Any] = {"type": "tool_result", "tool_use_id": "t", "content": "ok"}


def turns(*contents: object) -> dict[str, object]:
    roles = ("user", "assistant")
    return {**QUESTION, "messages": [{"role": roles[n % 2], "content": content} for n, content in enumerate(contents)]}


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({}, "model"),
        ({**QUESTION, "messages": []}, "at least one"),
        ({**QUESTION, "messages": [{"role": "assistant", "content": "Hi"}]}, "user role"),
        (turns(" "), "`text`"),
        (turns([]), "empty"),
        (turns("Hi", [{"type": "thinking", "thinking": "hm"}], "Hi"), "`thinking`"),
        (turns("Hi", "Hm "), "trailing"),
        (turns("Hi", [TOOL]), "without `tool_result`"),
        (turns("Hi", [TOOL, TOOL], [RESULT]), "unique"),
        (turns("Hi", [TOOL], [RESULT, RESULT]), "single result"),
        (turns([RESULT]), "unexpected"),
        (turns("Hi", [TOOL], [{"type": "text", "text": "and"}, RESULT]), "before other content"),
    ],
)
def test_what_the_api_would_refuse_is_refused(body: object, complaint: str, api: FakeMessagesAPI) -> None:
    refused = post(api, body)

    assert refused.status_code == 400
    assert complaint in refused.json()["error"]["message"]


def test_a_right_conversation_is_not_refused(api: FakeMessagesAPI) -> None:
    body = turns("Hi", [{"type": "thinking", "thinking": "", "signature": "s"}, TOOL], [RESULT], "Done")

    assert post(api, body).status_code == 200


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
    before = threading.active_count()
    api = FakeMessagesAPI().start()
    api.reply("Hi", stall_after=0)
    with httpx2.stream("POST", f"{api.url}/v1/messages", json={**QUESTION, "stream": True}, headers={
        "x-api-key": "k", "anthropic-version": "1"
    }) as response:  # fmt: skip
        api.close()
        api.close()

        with pytest.raises(httpx2.TransportError):
            response.read()

    assert threading.active_count() == before


def test_one_that_was_never_started_can_be_closed() -> None:
    FakeMessagesAPI().close()


def test_a_refusal_says_what_its_status_means() -> None:
    assert FakeError(529).body()["error"]["type"] == "overloaded_error"
    assert FakeError(500).body()["error"]["type"] == "api_error"
    assert FakeError(400, should_retry=False).headers() == {"x-should-retry": "false"}
