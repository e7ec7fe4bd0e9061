"""The replies of the fake Chat API: a message of Chat Completions, whole or in chunks, in several dialects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType
from typing import Literal

from reenact.testing.fake_replies import FakeError, Faults, Json, on_the_wire, pieces_of, sse

CREATED = 1_700_000_000
_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
_FIRST_SERVER_ERROR = 500


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
        return {"id": f"chatcmpl-{self.message_id}", "object": kind, "created": CREATED, "model": self.model or model}

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


def refusal_body(refusal: FakeError) -> Json:
    """Return the body of a refusal as the Chat API sends it."""
    if refusal.bare:
        return {"error": refusal.message}
    kind = refusal.type or ("server_error" if refusal.status >= _FIRST_SERVER_ERROR else "invalid_request_error")
    code = refusal.code or _CODES.get(refusal.status)
    return {"error": {"message": refusal.message, "type": kind, "param": None, "code": code}}
