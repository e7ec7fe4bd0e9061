"""The fake Chat API's replies as Responses: the whole response, and the events of its stream."""

from __future__ import annotations

import json
from collections.abc import Iterator

from reenact.testing.fake_chat_replies import CREATED, FakeChatReply
from reenact.testing.fake_replies import Json, on_the_wire, pieces_of, sse

_CUT = {"length": "max_output_tokens", "content_filter": "content_filter"}
_USED = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "prompt_tokens_details": "input_tokens_details",
    "completion_tokens_details": "output_tokens_details",
}
"""The names in Responses of counts in Chat Completions."""


def response(reply: FakeChatReply, model: str, *, encrypted: bool = False) -> Json:
    """Return the response as it is at its end, with `encrypted` thoughts as well if they were requested."""
    why = _CUT.get(reply.finish_reason or "")
    usage = None if reply.usage is None else {_USED.get(name, name): value for name, value in reply.usage.items()}
    return {
        "id": f"resp_{reply.message_id}",
        "object": "response",
        "created_at": CREATED,
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


def response_events(reply: FakeChatReply, model: str, *, encrypted: bool = False) -> list[bytes]:
    """Return the events of the stream, each as the bytes to send."""
    whole = response(reply, model, encrypted=encrypted)
    begun: Json = {**whole, "status": "in_progress", "incomplete_details": None, "output": [], "usage": None}
    events: list[Json] = [{"type": f"response.{state}", "response": begun} for state in ("created", "in_progress")]
    for place, item in enumerate(whole["output"]):
        events += [{**event, "output_index": place} for event in _item_events(item, reply)]
    events.append({"type": f"response.{whole['status']}", "response": whole})
    return on_the_wire([_numbered(event, number) for number, event in enumerate(events)], reply)


def failure_event(reply: FakeChatReply, model: str) -> bytes:
    """Return the event that reports a failure in the middle of the stream."""
    error: Json = {"code": reply.error_type, "message": f"injected {reply.error_type}"}
    event: Json = {"type": "error", **error, "param": None}
    if reply.fails:
        failed: Json = {**response(reply, model), "status": "failed", "error": error, "output": [], "usage": None}
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
