"""The replies of the fake Messages API, streamed or whole; and the refusals and faults of all fakes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import msgspec

Json: TypeAlias = dict[str, Any]  # dynamic, for tests such as requests[0].body["messages"][0]["role"]

_PIECE = 12
_NAMES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """The faults while an answer is sent. Counts are of events of the stream; times are in seconds."""

    whole: bool = False
    """Answer with the whole message at once, even if a stream was requested, as some proxies do."""
    delay: float = 0.0
    """Wait this long before each event."""
    drop_after: int | None = None
    """Break the connection after this many events."""
    drop_mode: Literal["rst", "fin", "eof"] = "rst"
    """Break it with a reset, by closing it in the middle, or by a regular end of the body."""
    error_after: int | None = None
    """Report an error in the stream after this many events, and end."""
    error_type: str = "overloaded_error"
    stall_after: int | None = None
    """Send nothing after this many events, until the client hangs up."""
    ping_every: int | None = None
    """Send a ping each time after this many events."""
    chunk_size: int | None = None
    """Split the body into chunks of this many bytes, also within events and characters."""
    line_end: Literal["\n", "\r\n"] = "\n"


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


class FakeError(msgspec.Struct, frozen=True):
    """A refusal: the request is answered with this status and error type, by default the type for the status.

    `retry_after` (seconds, or any text) and `should_retry` become headers; `content_type` is that of the body, which is
    JSON. Only `FakeChatAPI` sends a `code` beside the type, and can be `bare`: the error is the message alone, as some
    servers send it.
    """

    status: int
    type: str | None = None
    message: str = "injected failure"
    retry_after: float | str | None = None
    should_retry: bool | None = None
    content_type: str = "application/json"
    code: str | None = None
    bare: bool = False

    def body(self) -> Json:
        """Return the answer's body as the Messages API sends it."""
        kind = self.type or _NAMES.get(self.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": self.message}}

    def headers(self) -> dict[str, str]:
        """Return the answer's additional headers."""
        headers: dict[str, str] = {}
        if self.retry_after is not None:
            headers["retry-after"] = str(self.retry_after)
        if self.should_retry is not None:
            headers["x-should-retry"] = str(self.should_retry).lower()
        return headers


def pieces_of(text: str) -> list[str]:
    """Return the text in pieces, as a stream sends it."""
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


def sse(data: str, event: str | None = None) -> str:
    """Return a server-sent event."""
    return f"data: {data}\n\n" if event is None else f"event: {event}\ndata: {data}\n\n"


def _named(event: Json) -> str:
    """Return the server-sent event that is named by its type."""
    return sse(json.dumps(event, ensure_ascii=False), event["type"])


def on_the_wire(events: Sequence[str], faults: Faults, *, ping: str = ": PROCESSING\n\n") -> list[bytes]:
    """Return the events as bytes, with pings between them if they are wanted."""
    wire: list[str] = []
    for number, event in enumerate(events, 1):
        wire.append(event)
        if faults.ping_every is not None and number % faults.ping_every == 0:
            wire.append(ping)
    return [event.replace("\n", faults.line_end).encode() for event in wire]
