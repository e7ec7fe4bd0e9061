"""The rules by which the Messages API refuses a conversation, from its public documentation (platform.claude.com).

"Handle tool calls", "Stop reasons and fallback", "Programmatic tool calling", "Thinking", "Errors", "Vision".
Messages of one side in a row count as one, as they do there.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
_Turn: TypeAlias = tuple[str, list[Json]]

_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
_BY_THE_SERVER = frozenset({"server_tool_use", "mcp_tool_use"})
_OF_THE_USER = frozenset({"image", "document", "search_result", "tool_result"})
_OF_THE_MODEL = frozenset({"tool_use", "compaction", "fallback"}) | _THOUGHTS | _BY_THE_SERVER
_OF_BOTH = frozenset({"text", "container_upload"})
_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_TAKES_PREFILL = re.compile(r"(?!claude-)|claude-(\d|instant|opus-3|(opus|sonnet|haiku)-4(-0|-1|-5|-20\d+)?(-20\d+)?$)")


def blocks_of(message: Json) -> list[Json]:
    """Return a message's content as blocks; a text alone is short for one."""
    content = message.get("content", [])
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def wrong_turns(body: Json) -> Iterator[str]:
    """Tell what the API would complain of in the conversation that the request holds."""
    turns = _merged(body["messages"])
    if not turns:
        yield "messages: at least one message is required"
        return
    if turns[0][0] != "user":
        yield "messages: first message must use the user role"
    for number, (role, blocks) in enumerate(turns):
        if not blocks:
            yield f"messages.{number}: content must not be empty"
        for place, block in enumerate(blocks):
            for complaint in _wrong_block(role, block):
                yield f"messages.{number}.content.{place}: {complaint}"
        if role == "assistant" and blocks and blocks[-1].get("type") in _THOUGHTS:
            yield f"messages.{number}: The final block in an assistant message cannot be `thinking`."
    yield from _wrong_calls(turns)
    yield from _wrong_server_calls(turns, has_container="container" in body)
    yield from _wrong_thoughts(turns, body)
    yield from _wrong_end(turns[-1], body)


def _merged(messages: list[Json]) -> list[_Turn]:
    return [
        (role, [block for message in said for block in blocks_of(message)])
        for role, said in groupby(messages, key=lambda message: str(message.get("role")))
    ]


def _wrong_block(role: str, block: Json) -> Iterator[str]:
    kind = str(block.get("type"))
    known = _OF_BOTH | (_OF_THE_USER if role == "user" else _OF_THE_MODEL)
    if kind not in known and not (role == "assistant" and kind.endswith("_tool_result")):
        yield f"Input tag '{kind}' does not match any of the expected tags for the {role} role"
        return
    check = _BLOCK_RULES.get(kind)
    if check is not None and not check(block):
        yield f"invalid `{kind}` block"


def _is_text(block: Json) -> bool:
    return isinstance(block.get("text"), str) and bool(block["text"].strip())


def _is_call(block: Json) -> bool:
    proper = _ID.fullmatch(str(block.get("id", ""))) and _NAME.fullmatch(str(block.get("name", "")))
    return bool(proper) and isinstance(block.get("input"), dict)


def _is_image(block: Json) -> bool:
    source: Json = block.get("source") or {}
    if source.get("type") == "base64":
        return source.get("media_type") in _IMAGES and _is_base64(source.get("data"))
    return source.get("type") in {"url", "file"}


def _is_document(block: Json) -> bool:
    source: Json = block.get("source") or {}
    match source.get("type"):
        case "base64":
            return source.get("media_type") == "application/pdf" and _is_base64(source.get("data"))
        case "text":
            return source.get("media_type") == "text/plain" and bool(source.get("data"))
        case kind:
            return kind in {"url", "file", "content"}


def _is_base64(data: object) -> bool:
    try:
        return isinstance(data, str) and bool(b64decode(data, validate=True))
    except binascii.Error:
        return False


def _is_result(block: Json) -> bool:
    """Return whether it is a result; what a failure says is text, and there is some."""
    content, failed = block.get("content", ""), block.get("is_error", False)
    if not block.get("tool_use_id"):
        return False
    if isinstance(content, str):
        return bool(content.strip()) or not failed
    inner = [part.get("type") for part in content]
    rules = [(_BLOCK_RULES.get(str(part.get("type"))), part) for part in content]
    whole = all(rule is None or rule(part) for rule, part in rules)
    return whole and not (failed and (not inner or set(inner) != {"text"}))


_BLOCK_RULES: dict[str, Callable[[Json], bool]] = {
    "text": _is_text,
    "thinking": lambda block: isinstance(block.get("signature"), str) and bool(block["signature"]),
    "redacted_thinking": lambda block: bool(block.get("data")),
    "tool_use": _is_call,
    "server_tool_use": _is_call,
    "mcp_tool_use": _is_call,
    "tool_result": _is_result,
    "image": _is_image,
    "document": _is_document,
    "compaction": lambda block: block.get("content") != "",
}


def _ids(blocks: list[Json], kind: str, field: str) -> list[str]:
    return [str(block.get(field)) for block in blocks if block.get("type") == kind]


def _wrong_calls(turns: list[_Turn]) -> Iterator[str]:
    seen: set[str] = set()
    for number, (role, blocks) in enumerate(turns):
        kinds = [str(block.get("type")) for block in blocks]
        if role == "assistant":
            asked = _ids(blocks, "tool_use", "id")
            following = turns[number + 1][1] if number + 1 < len(turns) else []
            if len(set(asked)) != len(asked) or seen & set(asked):
                yield f"messages.{number}: `tool_use` ids must be unique"
            seen |= set(asked)
            later = kinds[kinds.index("tool_use") :] if asked else []
            if set(asked) - set(_ids(following, "tool_result", "tool_use_id")) or set(later) & {"text", *_THOUGHTS}:
                yield f"messages.{number}: `tool_use` ids were found without `tool_result` blocks immediately after"
            continue
        answered = _ids(blocks, "tool_result", "tool_use_id")
        if set(answered) - set(_ids(turns[number - 1][1] if number else [], "tool_use", "id")):
            yield f"messages.{number}: unexpected `tool_use_id` found in `tool_result` blocks"
        if len(set(answered)) != len(answered):
            yield f"messages.{number}: each tool_use must have a single result"
        if "tool_result" in kinds[len(answered) :]:
            yield f"messages.{number}: `tool_result` blocks must come before other content"


def _wrong_server_calls(turns: list[_Turn], *, has_container: bool) -> Iterator[str]:
    """Follow the API's own calls: each is finished in the model's turn, which ends when the user says something."""
    running: dict[str, bool] = {}
    seen: set[str] = set()
    for number, (role, blocks) in enumerate(turns):
        if role == "user":
            if any(block.get("type") != "tool_result" for block in blocks):
                for call_id in running:
                    yield f"messages.{number - 1}: tool use `{call_id}` was found without a corresponding result"
                running = {}
            continue
        waiting = set(running)
        for block in blocks:
            kind = str(block.get("type"))
            caller: Json = block.get("caller") or {}
            if "tool_id" in caller and not kind.endswith("_tool_result"):
                if caller["tool_id"] not in running:
                    yield f"messages.{number}: the caller `{caller['tool_id']}` is not running"
                waiting.discard(caller["tool_id"])
                running[caller["tool_id"]] = True
            if kind in _BY_THE_SERVER:
                if block["id"] in seen:
                    yield f"messages.{number}: `{kind}` ids must be unique"
                seen.add(block["id"])
                running[block["id"]] = False
            elif kind.endswith("_tool_result"):
                answered = str(block.get("tool_use_id"))
                if answered not in running:
                    yield f"messages.{number}: unexpected `tool_use_id` found in `{kind}` blocks: {answered}"
                running.pop(answered, None)
                waiting.discard(answered)
        for call_id in waiting:
            yield f"messages.{number}: tool use `{call_id}` was found without a corresponding result"
    if any(running.values()) and not has_container:
        yield "container: required while code waits for the results of the tools that it called"


def _wrong_thoughts(turns: list[_Turn], body: Json) -> Iterator[str]:
    thinking: Json = body.get("thinking") or {}
    if thinking.get("type") != "enabled":
        return
    beginning: Json | None = None
    calls = False
    for role, blocks in turns:
        if role == "user" and any(block.get("type") != "tool_result" for block in blocks):
            beginning, calls = None, False
        elif role == "assistant" and blocks:
            beginning = beginning or blocks[0]
            calls = calls or any(block.get("type") == "tool_use" for block in blocks)
    if calls and beginning is not None and beginning.get("type") not in _THOUGHTS:
        yield f"Expected `thinking` or `redacted_thinking`, but found `{beginning.get('type')}`"


def _wrong_end(turn: _Turn, body: Json) -> Iterator[str]:
    role, blocks = turn
    last = blocks[-1] if role == "assistant" and blocks else {}
    if last.get("type") != "text":
        return
    if last.get("text", "") != str(last.get("text", "")).rstrip():
        yield "messages: final assistant content cannot end with trailing whitespace"
    thinking: Json = body.get("thinking") or {}
    if thinking.get("type") in {"enabled", "adaptive"} or not _TAKES_PREFILL.match(str(body["model"])):
        yield "This model does not support assistant message prefill. The conversation must end with a user message."
