"""A server of Chat Completions and Responses on the loopback, for tests of code that uses a real one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType
from typing import Literal

import msgspec

from reenact.testing.fake_chat_rules import CHAT, RESPONSES, refusal
from reenact.testing.fake_server import (
    FakeError,
    FakeRequest,
    FakeServer,
    Faults,
    Json,
    Streamed,
    on_the_wire,
    pieces_of,
    sse,
)

_CREATED = 1_700_000_000
_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
_FIRST_SERVER_ERROR = 500
_ENCRYPTED = "reasoning.encrypted_content"
_CUT = {"length": "max_output_tokens", "content_filter": "content_filter"}
_USED = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "prompt_tokens_details": "input_tokens_details",
    "completion_tokens_details": "output_tokens_details",
}
"""The names in Responses of counts in Chat Completions."""


class FakeChatReply(Faults, frozen=True, kw_only=True):
    """A message of the model, the dialect in which it is sent, and the faults while it is sent.

    `text` is sent in pieces, which `deltas` replaces; `thinking` comes first, a `refusal` after the text, and `tools`,
    which are `(name, arguments)`, last. Arguments that are a string are sent unchanged, valid or not. A request for
    Responses gets the same message, as items and their events.
    """

    text: str | None = "Hello from the fake API!"
    deltas: Sequence[str] | None = None
    thinking: str | None = None
    thinking_field: Literal["reasoning_content", "reasoning"] = "reasoning_content"
    """The field of thoughts in Chat Completions, which depends on the server."""
    refusal: str | None = None
    tools: Sequence[tuple[str, Mapping[str, object] | str]] = ()
    call_ids: Sequence[str | None] | None = None
    """The ids of the calls in their order; None leaves one out. By default all calls have different ids."""
    indexes: Sequence[int | None] | None = None
    """The indexes of the calls, by which chunks tell them apart; None leaves one out. By default, from 0 on."""
    arguments: Literal["text", "object"] = "text"
    """Whether the arguments of calls are a string, as they should be, or an object, which is sent in one piece."""
    calls_in: Literal["pieces", "interleaved", "whole", "together"] = "pieces"
    """Send calls in pieces, one call after the other or interleaved; or whole, one chunk for each or for all."""
    repeat_call_heads: bool = False
    """Send the id and the name of a call with each piece of its arguments."""
    null_content: bool = False
    """Send `content: null` in each chunk that has no text."""
    finish_reason: str | None = None
    """The finish reason; None: `tool_calls` if there are some, else `stop`."""
    usage: Mapping[str, object] | None = MappingProxyType(
        {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    )
    """The usage, with the names of Chat Completions; None if the server never sends it."""
    usage_in: Literal["own", "last", "each"] = "own"
    """Send it in a chunk of its own, without choices, if that is requested; or always in the last one, or in each."""
    done: bool = True
    """Send `[DONE]` at the end."""
    message_id: str = "fake"
    model: str | None = None
    """The model's name in the answer, if it differs from the requested one."""
    error_type: str = "server_error"
    fails: bool = False
    """Report the error of `error_after` as a failed response, if Responses were requested."""

    def pieces(self) -> list[str]:
        """Return the pieces in which the text is sent."""
        return pieces_of(self.text or "") if self.deltas is None else list(self.deltas)

    def content(self) -> str | None:
        """Return the whole text."""
        return self.text if self.deltas is None else "".join(self.deltas)

    def calls(self) -> list[Json]:
        """Return the calls as they stand in the message."""
        ids = self.call_ids
        if ids is None:
            ids = [f"call_fake_{number}" for number, _ in enumerate(self.tools, 1)]
        return [
            {
                **({} if call_id is None else {"id": call_id}),
                "type": "function",
                "function": {"name": name, "arguments": self._arguments(arguments)},
            }
            for call_id, (name, arguments) in zip(ids, self.tools, strict=True)
        ]

    def completion(self, model: str) -> Json:
        """Return the message as Chat Completions sends it without streaming."""
        message: Json = {"role": "assistant", "content": self.content(), "refusal": self.refusal}
        if self.thinking is not None:
            message[self.thinking_field] = self.thinking
        if self.tools:
            message["tool_calls"] = self.calls()
        choice: Json = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._reason()}
        usage: Json = {} if self.usage is None else {"usage": dict(self.usage)}
        return {**self._head("chat.completion", model), "choices": [choice], **usage}

    def chunks(self, model: str, *, with_usage: bool) -> list[bytes]:
        """Return the chunks of the stream, each as the bytes to send."""
        head = self._head("chat.completion.chunk", model)
        beginning: Json = {"role": "assistant", "content": None if self.content() is None else ""}
        deltas = [beginning, *self._deltas(), {"content": None} if self.null_content else {}]
        chunks: list[Json] = [
            {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]}
            for delta in deltas
        ]
        chunks[-1]["choices"][0]["finish_reason"] = self._reason()
        if self.usage is not None:
            chunks = self._with_usage(chunks, {**head, "choices": []}, dict(self.usage), is_asked=with_usage)
        events = [sse(json.dumps(chunk, ensure_ascii=False)) for chunk in chunks]
        return on_the_wire([*events, sse("[DONE]")] if self.done else events, self)

    def error_chunk(self) -> bytes:
        """Return the chunk that reports a failure in the middle of the stream."""
        error = {"message": f"injected {self.error_type}", "type": self.error_type, "param": None, "code": None}
        return on_the_wire([sse(json.dumps({"error": error}))], self)[0]

    def _head(self, kind: str, model: str) -> Json:
        return {"id": f"chatcmpl-{self.message_id}", "object": kind, "created": _CREATED, "model": self.model or model}

    def _reason(self) -> str:
        return self.finish_reason or ("tool_calls" if self.tools else "stop")

    def _arguments(self, arguments: Mapping[str, object] | str) -> Json | str:
        if isinstance(arguments, str):
            return arguments
        return dict(arguments) if self.arguments == "object" else json.dumps(arguments, ensure_ascii=False)

    def _deltas(self) -> Iterator[Json]:
        blank: Json = {"content": None} if self.null_content else {}
        for piece in pieces_of(self.thinking or ""):
            yield {**blank, self.thinking_field: piece}
        for piece in self.pieces():
            yield {"content": piece}
        for piece in pieces_of(self.refusal or ""):
            yield {**blank, "refusal": piece}
        for pieces in self._pieces_of_calls():
            yield {**blank, "tool_calls": pieces}

    def _pieces_of_calls(self) -> Iterator[list[Json]]:
        """Yield the parts of calls for each chunk."""
        calls = self.calls()
        places = range(len(calls)) if self.indexes is None else self.indexes
        placed = [
            call if place is None else {"index": place, **call} for place, call in zip(places, calls, strict=True)
        ]
        match self.calls_in:
            case "whole":
                yield from ([call] for call in placed)
            case "together":
                yield from [placed] if placed else []
            case "interleaved":
                for row in zip_longest(*map(self._pieces_of_call, placed)):
                    yield [piece for piece in row if piece is not None]
            case "pieces":
                yield from ([piece] for call in placed for piece in self._pieces_of_call(call))

    def _pieces_of_call(self, call: Json) -> list[Json]:
        arguments: str | Json = call["function"]["arguments"]
        if not isinstance(arguments, str):
            return [call]
        head: Json = {**call, "function": {**call["function"], "arguments": ""}}
        rest: Json = {"index": call["index"]} if "index" in call else {}
        pieces = [{"arguments": piece} for piece in pieces_of(arguments)]
        if self.repeat_call_heads:
            return [head, *({**head, "function": {**head["function"], **piece}} for piece in pieces)]
        return [head, *({**rest, "function": piece} for piece in pieces)]

    def _with_usage(self, chunks: list[Json], own: Json, usage: Json, *, is_asked: bool) -> list[Json]:
        match self.usage_in:
            case "each":
                return [{**chunk, "usage": usage} for chunk in chunks]
            case "last":
                return [*chunks[:-1], {**chunks[-1], "usage": usage}]
            case "own":
                asked = [*({**chunk, "usage": None} for chunk in chunks), {**own, "usage": usage}]
                return asked if is_asked else chunks


class FakeChatAPI(FakeServer[FakeChatReply]):
    """Serves Chat Completions and Responses, streaming or not, and fails on demand.

    ```python
    with FakeChatAPI() as api:
        api.reply(text="Hello!")                                # the next request gets this answer,
        api.error(429, retry_after=0)                           # the one after it a refusal,
        api.reply(tools=[("search", {})], call_ids=[None])      # and the third a call without an id
        client = openai.OpenAI(api_key="any", base_url=api.url)
        ...
        assert api.requests[0].body["messages"][0]["role"] == "user"
    ```

    The script, the `default`, the `api_key`, `requests` and the rest are as in `FakeMessagesAPI`, but without an
    `api_key` requests need none, as with a server of one's own. Unless `strict` is False, a request that OpenAI would
    refuse is answered with 400. The `url` is the base URL for clients.
    """

    _made_of = FakeChatReply
    _path = "/v1"
    _calls = 0

    def _reply_to(self, request: FakeRequest, headers: dict[str, str]) -> Streamed | FakeError | Json:
        path, body = request.path.partition("?")[0], request.body
        if path not in {CHAT, RESPONSES}:
            return FakeError(404, message=f"Invalid URL (POST {request.path})")
        if self._strict and (refused := refusal(path, headers, body, self._api_key)) is not None:
            return refused
        reply = self._next(request)
        if isinstance(reply, FakeError):
            return reply
        reply = self._with_ids(reply)
        model, streams = str(body.get("model")), bool(body.get("stream")) and not reply.whole
        if path == CHAT:
            if not streams:
                return reply.completion(model)
            options: Json = body.get("stream_options") or {}
            chunks = reply.chunks(model, with_usage=bool(options.get("include_usage")))
            return Streamed(chunks, reply.error_chunk(), reply)
        encrypted = _ENCRYPTED in (body.get("include") or ())
        if not streams:
            return _response(reply, model, encrypted=encrypted)
        return Streamed(_response_events(reply, model, encrypted=encrypted), _failure_event(reply, model), reply)

    def _body_of(self, refusal: FakeError) -> Json:
        if refusal.bare:
            return {"error": refusal.message}
        kind = refusal.type or ("server_error" if refusal.status >= _FIRST_SERVER_ERROR else "invalid_request_error")
        code = refusal.code or _CODES.get(refusal.status)
        return {"error": {"message": refusal.message, "type": kind, "param": None, "code": code}}

    def _with_ids(self, reply: FakeChatReply) -> FakeChatReply:
        """Return the reply with ids for its calls that no call of this server had before, unless it has ids."""
        if reply.call_ids is not None:
            return reply
        first = self._calls + 1
        self._calls += len(reply.tools)
        return msgspec.structs.replace(reply, call_ids=[f"call_fake_{n}" for n in range(first, self._calls + 1)])


# Responses.


def _response(reply: FakeChatReply, model: str, *, encrypted: bool = False) -> Json:
    """Return the response as it is at its end, with `encrypted` thoughts as well if they were requested."""
    why = _CUT.get(reply.finish_reason or "")
    usage = None if reply.usage is None else {_USED.get(name, name): value for name, value in reply.usage.items()}
    return {
        "id": f"resp_{reply.message_id}",
        "object": "response",
        "created_at": _CREATED,
        "status": "completed" if why is None else "incomplete",
        "error": None,
        "incomplete_details": None if why is None else {"reason": why},
        "model": reply.model or model,
        "output": list(_items(reply, encrypted=encrypted)),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
    }


def _response_events(reply: FakeChatReply, model: str, *, encrypted: bool) -> list[bytes]:
    """Return the events of the stream, each as the bytes to send."""
    whole = _response(reply, model, encrypted=encrypted)
    begun: Json = {**whole, "status": "in_progress", "incomplete_details": None, "output": [], "usage": None}
    events: list[Json] = [{"type": f"response.{state}", "response": begun} for state in ("created", "in_progress")]
    for place, item in enumerate(whole["output"]):
        events += [{**event, "output_index": place} for event in _item_events(item, reply)]
    events.append({"type": f"response.{whole['status']}", "response": whole})
    return on_the_wire([_numbered(event, number) for number, event in enumerate(events)], reply)


def _failure_event(reply: FakeChatReply, model: str) -> bytes:
    """Return the event that reports a failure in the middle of the stream."""
    error: Json = {"code": reply.error_type, "message": f"injected {reply.error_type}"}
    event: Json = {"type": "error", **error, "param": None}
    if reply.fails:
        failed: Json = {**_response(reply, model), "status": "failed", "error": error, "output": [], "usage": None}
        event = {"type": "response.failed", "response": failed}
    return on_the_wire([_numbered(event, reply.error_after or 0)], reply)[0]


def _numbered(event: Json, number: int) -> str:
    data: Json = {**event, "sequence_number": number}
    return sse(json.dumps(data, ensure_ascii=False), str(event["type"]))


def _items(reply: FakeChatReply, *, encrypted: bool) -> Iterator[Json]:
    name = reply.message_id
    if reply.thinking is not None:
        thought: Json = {"type": "summary_text", "text": reply.thinking}
        secret: Json = {"encrypted_content": f"encrypted:{reply.thinking}"} if encrypted else {}
        yield {"type": "reasoning", "id": f"rs_{name}", "summary": [thought], **secret}
    parts: list[Json] = []
    if (text := reply.content()) is not None:
        parts.append({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
    if reply.refusal is not None:
        parts.append({"type": "refusal", "refusal": reply.refusal})
    if parts:
        yield {"type": "message", "id": f"msg_{name}", "role": "assistant", "status": "completed", "content": parts}
    for number, call in enumerate(reply.calls(), 1):
        called: Json = {"call_id": call["id"]} if "id" in call else {}
        whole: Json = {"type": "function_call", "id": f"fc_{name}_{number}", **called, **call["function"]}
        yield {**whole, "status": "completed"}


def _item_events(item: Json, reply: FakeChatReply) -> Iterator[Json]:
    about: Json = {"item_id": item["id"]}
    match item["type"]:
        case "reasoning":
            yield _added({**item, "summary": []})
            thought: Json = {**about, "summary_index": 0}
            kind, part = "response.reasoning_summary", item["summary"][0]
            yield {**thought, "type": f"{kind}_part.added", "part": {**part, "text": ""}}
            for piece in pieces_of(part["text"]):
                yield {**thought, "type": f"{kind}_text.delta", "delta": piece}
            yield {**thought, "type": f"{kind}_text.done", "text": part["text"]}
            yield {**thought, "type": f"{kind}_part.done", "part": part}
        case "message":
            yield _added({**item, "status": "in_progress", "content": []})
            for place, part in enumerate(item["content"]):
                yield from ({**about, "content_index": place, **event} for event in _part_events(part, reply))
        case _:
            yield _added({**item, "status": "in_progress", "arguments": ""})
            arguments: str | Json = item["arguments"]
            deltas: list[str] | list[Json] = pieces_of(arguments) if isinstance(arguments, str) else [arguments]
            for delta in deltas:
                yield {**about, "type": "response.function_call_arguments.delta", "delta": delta}
            done: Json = {"name": item["name"], "arguments": arguments}
            yield {**about, "type": "response.function_call_arguments.done", **done}
    yield {"type": "response.output_item.done", "item": item}


def _added(item: Json) -> Json:
    return {"type": "response.output_item.added", "item": item}


def _part_events(part: Json, reply: FakeChatReply) -> Iterator[Json]:
    field = "text" if part["type"] == "output_text" else "refusal"
    kind = f"response.{part['type']}"
    yield {"type": "response.content_part.added", "part": {**part, field: ""}}
    for piece in reply.pieces() if field == "text" else pieces_of(part[field]):
        yield {"type": f"{kind}.delta", "delta": piece}
    yield {"type": f"{kind}.done", field: part[field]}
    yield {"type": "response.content_part.done", "part": part}
