"""The rules by which the Messages API refuses a request, from its public documentation (platform.claude.com).

Keys and headers, the fields of a request and what excludes what among them, tools, cache breakpoints; those of the
conversation are in `fake_turns`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from reenact.domain.plain import is_mapping, is_sequence
from reenact.testing.fake_replies import FakeError
from reenact.testing.fake_turns import blocks_of, wrong_turns

Json: TypeAlias = dict[str, Any]

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
}
_MOST_BREAKPOINTS = 4
_LEAST_BUDGET = 1024
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ONLY_MANUAL = re.compile(r"claude-(3-7|(opus|sonnet|haiku)-4(-0|-1|-5|-20\d+)?(-20\d+)?$)")
_SAMPLING = ("temperature", "top_k", "top_p")
_SAMPLED_VERSION = "2023-06-01"
_NO_SAMPLING = re.compile(r"claude-((fable|opus|sonnet|haiku|mythos)-[5-9]|opus-4-[78])")
_NO_MANUAL = re.compile(r"claude-((fable|opus|sonnet|haiku)-[5-9]|mythos-[5-9]|opus-4-[78])")


def refusal(headers: Mapping[str, str], body: Json, api_key: str | None, *, counting: bool = False) -> FakeError | None:
    """Return why the API would not answer a request, or None if it would. Without an `api_key` any one will do.

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
    limit: Any = body.get("max_tokens", 1)
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
        schema: Any = tool.get("input_schema")
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
