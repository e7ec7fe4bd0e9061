"""The rules by which the Messages API refuses a request, from its public documentation (platform.claude.com).

They cover keys and headers, the fields of a request and the combinations that are not allowed, tools, and cache
breakpoints; and of the conversation: "Handle tool calls", "Stop reasons and fallback", "Programmatic tool calling",
"Thinking", "Errors", "Vision". Consecutive messages of one side count as one, as they do at the API.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import TypeAlias

from reenact.domain.plain import is_mapping, is_sequence
from reenact.testing.fake_server import FakeError, Json

_Turn: TypeAlias = tuple[str, list[Json]]

_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
_BY_THE_SERVER = frozenset({"server_tool_use", "mcp_tool_use"})
_OF_THE_USER = frozenset({"image", "document", "search_result", "tool_result"})
_OF_THE_MODEL = frozenset({"tool_use", "compaction", "fallback", "mcp_tool_listing"}) | _THOUGHTS | _BY_THE_SERVER
_OF_BOTH = frozenset({"text", "container_upload"})
_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_TAKES_PREFILL = re.compile(r"(?!claude-)|claude-(\d|instant|opus-3|(opus|sonnet|haiku)-4(-0|-1|-5|-20\d+)?(-20\d+)?$)")


def blocks_of(message: Json) -> list[Json]:
    """Return a message's content as blocks; a string stands for one text block."""
    content = message.get("content", [])
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def wrong_turns(body: Json) -> Iterator[str]:
    """Yield the API's complaints about the conversation in the request."""
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
        return source.get("media_type") in _IMAGES and is_base64(source.get("data"))
    return source.get("type") in {"url", "file"}


def _is_document(block: Json) -> bool:
    source: Json = block.get("source") or {}
    match source.get("type"):
        case "base64":
            return source.get("media_type") == "application/pdf" and is_base64(source.get("data"))
        case "text":
            return source.get("media_type") == "text/plain" and bool(source.get("data"))
        case kind:
            return kind in {"url", "file", "content"}


def is_base64(data: object) -> bool:
    """Return whether it is base64 of something."""
    try:
        return isinstance(data, str) and bool(b64decode(data, validate=True))
    except binascii.Error:
        return False


def _is_result(block: Json) -> bool:
    """Return whether it is a valid result; that of a failure must be text, and not empty."""
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
    """Check the API's own calls: each must be finished in the model's turn, which the user's next message ends."""
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


_REQUIRED = ("model", "max_tokens", "messages")
_COUNTED = frozenset(
    {"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control", "mcp_servers"}
)
_SENT = _COUNTED | {
    "max_tokens",
    "stream",
    "temperature",
    "top_k",
    "top_p",
    "stop_sequences",
    "metadata",
    "service_tier",
    "container",
    "context_management",
    "inference_geo",
    "diagnostics",
    "speed",
    "billing_policy",
    "compaction",
    "fallback_credit_token",
    "fallbacks",
    "thread",
}
_MOST_BREAKPOINTS = 4
_LEAST_BUDGET = 1024
_ONLY_MANUAL = re.compile(r"claude-(3-7|(opus|sonnet|haiku)-4(-0|-1|-5|-20\d+)?(-20\d+)?$)")
_SAMPLING = ("temperature", "top_k", "top_p")
_SAMPLED_VERSION = "2023-06-01"
_NO_SAMPLING = re.compile(r"claude-((fable|opus|sonnet|haiku|mythos)-[5-9]|opus-4-[78])")
_NO_MANUAL = re.compile(r"claude-((fable|opus|sonnet|haiku)-[5-9]|mythos-[5-9]|opus-4-[78])")


def refusal(headers: Mapping[str, str], body: Json, api_key: str | None, *, counting: bool = False) -> FakeError | None:
    """Return the refusal of a request, or None if the API would answer it. Without an `api_key` any key is accepted.

    With `counting` it is a request to count the tokens of another, which has fewer fields.
    """
    given = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
    if not given:
        return FakeError(401, message="x-api-key header is required")
    if api_key is not None and given != api_key:
        return FakeError(401, message="invalid x-api-key")
    wrong = next(_wrong(headers, body, counting=counting), None)
    return FakeError(400, message=wrong) if wrong is not None else None


def _wrong(headers: Mapping[str, str], body: Json, *, counting: bool) -> Iterator[str]:
    if "anthropic-version" not in headers:
        yield "anthropic-version: header is required"
    for field in _REQUIRED:
        if field not in body and not (counting and field == "max_tokens"):
            yield f"{field}: Field required"
            return
    extra = () if headers.get("anthropic-version", "") <= _SAMPLED_VERSION else _SAMPLING
    for field in body.keys() - (_COUNTED if counting else _SENT.difference(extra)):
        yield f"{field}: Extra inputs are not permitted"
    for field in _SAMPLING:
        if body.get(field, 1) != 1 and _NO_SAMPLING.match(str(body["model"])):
            yield f"`{field}` is deprecated for this model."
    for number, message in enumerate(body["messages"]):
        if not _is_message(message):
            yield f"messages.{number}: Input does not match the expected shape."
            return
    limit: object = body.get("max_tokens", 1)
    if not isinstance(limit, int) or limit < 1:
        yield "max_tokens: must be greater than or equal to 1"
    for check in (_wrong_system, _wrong_tools, _wrong_choice, wrong_turns, _wrong_breakpoints):
        yield from check(body)
    yield from _wrong_thinking(headers, body)


def _is_message(message: object) -> bool:
    if not is_mapping(message) or message.get("role") not in {"user", "assistant"}:
        return False
    content = message.get("content")
    return isinstance(content, str) or (is_sequence(content) and all(map(is_mapping, content)))


def _wrong_system(body: Json) -> Iterator[str]:
    system = body.get("system", "x")
    texts = [system] if isinstance(system, str) else [block.get("text", "") for block in system]
    if not texts or not all(str(text).strip() for text in texts):
        yield "system: text content blocks must contain non-whitespace text"


def _wrong_tools(body: Json) -> Iterator[str]:
    tools: list[Json] = body.get("tools", [])
    names = [str(tool["name"]) for tool in tools if "name" in tool]
    for number, tool in enumerate(tools):
        if tool.get("type", "custom") != "custom":
            continue
        if not _NAME.fullmatch(str(tool.get("name", ""))):
            yield f"tools.{number}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        schema: object = tool.get("input_schema")
        if not isinstance(schema, dict) or "type" not in schema:
            yield f"tools.{number}.input_schema.type: Field required"
    if len(set(names)) != len(names):
        yield "tools: Tool names must be unique."
    kinds = {block.get("type") for message in body["messages"] for block in blocks_of(message)}
    if not tools and kinds & {"tool_use", "tool_result"}:
        yield "Requests which include `tool_use` or `tool_result` blocks must define tools"


def _wrong_choice(body: Json) -> Iterator[str]:
    choice: Json | None = body.get("tool_choice")
    if choice is None:
        return
    if not body.get("tools"):
        yield "tool_choice: may only be specified while providing tools"
    elif choice.get("type") == "tool" and choice.get("name") not in {tool.get("name") for tool in body["tools"]}:
        yield f"tool_choice: Tool '{choice.get('name')}' not found in provided tools"


def _wrong_thinking(headers: Mapping[str, str], body: Json) -> Iterator[str]:
    thinking: Json = body.get("thinking") or {}
    kind, model = thinking.get("type"), str(body["model"])
    if kind == "adaptive" and _ONLY_MANUAL.match(model):
        yield "adaptive thinking is not supported on this model"
    if kind == "enabled":
        if _NO_MANUAL.match(model):
            yield '"thinking.type.enabled" is not supported for this model'
        budget = thinking.get("budget_tokens", 0)
        if budget < _LEAST_BUDGET:
            yield "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
        interleaved = "interleaved-thinking" in headers.get("anthropic-beta", "")
        if not interleaved and budget >= body.get("max_tokens", budget + 1):
            yield "`max_tokens` must be greater than `thinking.budget_tokens`"
    if kind in {"enabled", "adaptive"}:
        if body.get("temperature", 1) != 1:
            yield "`temperature` may only be set to 1 when thinking is enabled"
        choice: Json = body.get("tool_choice") or {}
        if choice.get("type") in {"any", "tool"}:
            yield "Thinking may not be enabled when tool_choice forces tool use."


def _wrong_breakpoints(body: Json) -> Iterator[str]:
    system = body.get("system", [])
    places: list[Json] = [*body.get("tools", []), *(system if isinstance(system, list) else [])]
    places += [block for message in body["messages"] for block in blocks_of(message)]
    marked = [place for place in places if place.get("cache_control")]
    marks = [place["cache_control"] for place in marked]
    if len(marks) + bool(body.get("cache_control")) > _MOST_BREAKPOINTS:
        yield f"A maximum of {_MOST_BREAKPOINTS} blocks with cache_control may be provided. Found {len(marks)}."
    for place in marked:
        refuses = _UNMARKED.get(str(place.get("type")))
        if refuses is not None and refuses(place):
            yield f"cache_control cannot be set for {place.get('type')} blocks like this one"
        if place.get("defer_loading"):
            yield f"Tool '{place.get('name')}' cannot have both defer_loading=true and cache_control set"
    lives = [mark.get("ttl", "5m") for mark in marks]
    if "1h" in lives[lives.index("5m") :] if "5m" in lives else False:
        yield "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"


_UNMARKED: dict[str, Callable[[Json], bool]] = {
    "thinking": lambda _block: True,
    "redacted_thinking": lambda _block: True,
    "text": lambda block: not block.get("text"),
}
