"""A Messages API server on the loopback, for tests of code that uses the real one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TypeAlias

from reenact.testing.fake_rules import blocks_of, refusal
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

_MESSAGES = "/v1/messages"
_COUNT = "/v1/messages/count_tokens"
_BYTES_PER_TOKEN = 4


class FakeReply(Faults, frozen=True, kw_only=True):
    """A message, and the faults while it is sent. Counts are of events of the stream; times are in seconds.

    `text` is sent in pieces, which `deltas` replaces; `thinking` comes first, `tools` are `(name, input)` and come
    last. `content` replaces all of these by the blocks themselves, in the API's form.
    """

    text: str | None = "Hello from the fake API!"
    deltas: Sequence[str] | None = None
    thinking: str | None = None
    signature: str = "signature"
    tools: Sequence[tuple[str, Mapping[str, object]]] = ()
    content: Sequence[Mapping[str, object]] | None = None
    stop_reason: str | None = "end_turn"
    """Why the message ends; `end_turn` is sent as `tool_use` if there are `tools`, as by the API."""
    stop_sequence: str | None = None
    stop_details: Mapping[str, object] | None = None
    """The details of a refusal: `type`, `category`, `explanation`."""
    usage: Mapping[str, object] = MappingProxyType({"input_tokens": 10, "output_tokens": 5})
    message_id: str = "msg_fake"
    model: str | None = None
    """The model's name in the answer, if it differs from the requested one."""
    container: Mapping[str, object] | None = None
    """The container in which code was run for the message: an `id`, and when it `expires_at`."""
    repeat_message_start: bool = False

    def blocks(self) -> list[Json]:
        """Return the content blocks of the message."""
        if self.content is not None:
            return [dict(block) for block in self.content]
        blocks: list[Json] = []
        if self.thinking is not None:
            blocks.append({"type": "thinking", "thinking": self.thinking, "signature": self.signature})
        text = "".join(self.deltas) if self.deltas is not None else self.text
        if text is not None:
            blocks.append({"type": "text", "text": text})
        for number, (name, arguments) in enumerate(self.tools, 1):
            blocks.append({"type": "tool_use", "id": f"toolu_fake_{number}", "name": name, "input": dict(arguments)})
        return blocks

    def message(self, model: str) -> Json:
        """Return the message as the API sends it without streaming."""
        return {
            "id": self.message_id,
            "type": "message",
            "role": "assistant",
            "model": self.model or model,
            "content": self.blocks(),
            **self._end(),
            "usage": dict(self.usage),
        }

    def events(self, model: str) -> list[bytes]:
        """Return the events of the stream, each as the bytes to send."""
        unended: Json = dict.fromkeys(("stop_reason", "stop_sequence", "stop_details"))
        beginning: Json = {"content": [], **unended, "usage": {**self.usage, "output_tokens": 1}}
        start: Json = {"type": "message_start", "message": {**self.message(model), **beginning}}
        events = [start, start] if self.repeat_message_start else [start]
        for index, block in enumerate(self.blocks()):
            events += self._block_events(index, block)
        start["message"].pop("container", None)
        events.append({"type": "message_delta", "delta": self._end(), "usage": dict(self.usage)})
        events.append({"type": "message_stop"})
        return on_the_wire([_named(event) for event in events], self, ping=_named({"type": "ping"}))

    def error_event(self) -> bytes:
        """Return the event that reports a failure in the middle of the stream."""
        error = {"type": self.error_type, "message": f"injected {self.error_type}"}
        return on_the_wire([_named({"type": "error", "error": error})], self)[0]

    def _end(self) -> Json:
        end: Json = {"stop_reason": self._stop_reason(), "stop_sequence": self.stop_sequence}
        end["stop_details"] = None if self.stop_details is None else dict(self.stop_details)
        return end if self.container is None else {**end, "container": dict(self.container)}

    def _stop_reason(self) -> str | None:
        return "tool_use" if self.tools and self.stop_reason == "end_turn" else self.stop_reason

    def _block_events(self, index: int, block: Json) -> list[Json]:
        start, deltas = dict(block), list[Json]()
        match block["type"]:
            case "text":
                start["text"] = ""
                pieces = self.deltas if self.deltas is not None and self.content is None else pieces_of(block["text"])
                deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
                deltas += [{"type": "citations_delta", "citation": one} for one in start.pop("citations", None) or ()]
            case "thinking":
                start.update(thinking="", signature="")
                deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces_of(block["thinking"])]
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            case "tool_use" | "server_tool_use" | "mcp_tool_use":
                start["input"] = {}
                deltas = [
                    {"type": "input_json_delta", "partial_json": piece}
                    for piece in pieces_of(json.dumps(block["input"]))
                ]
            case "compaction":
                start["content"] = None
                deltas = [{"type": "compaction_delta", "content": block["content"]}]
            case _:
                pass
        return [
            {"type": "content_block_start", "index": index, "content_block": start},
            *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": index},
        ]


def _named(event: Json) -> str:
    """Return the server-sent event that is named by its type."""
    return sse(json.dumps(event, ensure_ascii=False), event["type"])


Scripted: TypeAlias = FakeReply | FakeError


class FakeMessagesAPI(FakeServer[FakeReply]):
    """Serves the Messages API's wire protocol, streaming or not, and fails on demand.

    ```python
    with FakeMessagesAPI() as api:
        api.reply(text="Hello!")                          # the next request gets this answer,
        api.error(529, retry_after=0)                     # the one after it a refusal,
        api.reply(text="Again", drop_after=3)             # and the third half a stream
        runtime = Runtime.open(path, llm=LLMConfig(api_key="any", base_url=api.url))
        ...
        assert api.requests[0].body["messages"][0]["role"] == "user"
    ```

    Requests that find the script empty get `default`, which may be a function of the request. A request to count tokens
    is answered with a number that grows with its size, or with the refusal that is next in the script. With an
    `api_key`, any other key is answered with 401; unless `strict` is False, a request that the API would refuse is
    answered with 400, and so is one with a thought that differs from the one that was sent. The server runs on a thread
    of its own, from `start` (or the `with` line) to `close`. `requests` are the received requests, `connections` is the
    number of opened connections, and `hung_up` the number of clients that closed theirs in the middle of an answer.
    """

    _made_of = FakeReply

    @cached_property
    def _thoughts(self) -> dict[str, set[str]]:
        """The thoughts that were sent, by their signatures."""
        return {}

    def _reply_to(self, request: FakeRequest, headers: dict[str, str]) -> Streamed | FakeError | Json:
        path, body = request.path.partition("?")[0], request.body
        if path not in {_MESSAGES, _COUNT}:
            return FakeError(404, message=f"not found: {request.path}")
        if self._strict:
            refused = refusal(headers, body, self._api_key, counting=path == _COUNT) or self._altered(request)
            if refused is not None:
                return refused
        if path == _COUNT and not (self._script and isinstance(self._script[0], FakeError)):
            return {"input_tokens": len(json.dumps(body)) // _BYTES_PER_TOKEN}
        reply = self._next(request)
        if isinstance(reply, FakeError):
            return reply
        for block in reply.blocks():
            if block["type"] == "thinking":
                self._thoughts.setdefault(block["signature"], set()).add(block["thinking"])
        model = str(body.get("model"))
        if body.get("stream") and not reply.whole:
            return Streamed(reply.events(model), reply.error_event(), reply)
        return reply.message(model)

    def _altered(self, request: FakeRequest) -> FakeError | None:
        """Return the refusal of a request with a changed copy of a thought that this server sent."""
        for number, message in enumerate(request.body["messages"]):
            for place, block in enumerate(blocks_of(message)):
                known = self._thoughts.get(block.get("signature", ""))
                if block.get("type") == "thinking" and known is not None and block["thinking"] not in known:
                    return FakeError(400, message=f"messages.{number}.content.{place}: `thinking` cannot be modified.")
        return None
