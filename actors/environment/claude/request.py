"""Requests to the Messages API: the question, the settings, marks for the prompt cache, and what the API refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Literal, TypeAlias

from reenact.actors.environment.api import LEAST_BUDGET, LLMConfig
from reenact.actors.environment.claude.models import DEFAULT_MODEL, takes_prefill, takes_sampling, takes_thinking_budget
from reenact.actors.environment.failures import Fault
from reenact.actors.environment.received_json import is_json_object, object_in, objects_in
from reenact.actors.environment.tools.arguments import inner_schemas, reachable, references
from reenact.actors.environment.wire.driver import Question
from reenact.actors.environment.wire.messages import (
    THOUGHTS,
    ApiBlock,
    ApiMessage,
    api_blocks,
    api_messages,
    container_of,
)
from reenact.domain.messages import Said
from reenact.domain.output import OutputSpec
from reenact.domain.plain import Json, JsonDict, JsonObject
from reenact.domain.tools import is_array

SAMPLING = ("temperature", "top_p", "top_k")
"""Settings that the API takes up to version 2023-06-01, for models up to 4.6."""
MOST_MARKS = 4
"""How many cache marks the API takes in one request."""
_MARKABLE = frozenset({"text", "image", "document", "tool_result", "search_result", "container_upload"})
_MARK = "cache_control"
_INTERLEAVED = "interleaved-thinking"
_MARGIN = timedelta(seconds=10)
_NOT_TAKEN = frozenset(
    {"patternProperties", "propertyNames", "prefixItems", "not", "if", "oneOf", "allOf", "contains", "definitions"}
    | {"dependentRequired", "dependentSchemas"}
)
"""Keywords that a description cannot replace: without them the API would enforce a different schema."""
_KINDS = ("type", "enum", "const", "anyOf", "$ref")
_Place: TypeAlias = tuple[int, int, int | None]
"""The number of a message, of a block in it, and of a block in that block, if it is the result of a tool."""
_NAMED = re.compile(
    r"messages\.(\d+)\.content\.(\d+)(?:\.tool_result\.content\.(\d+))?\.(?:image|document|pdf)[.\w]*:? *(.*)"
)
_TYPES = frozenset({"image", "document"})


def message_request(
    question: Question, config: LLMConfig, *, now: datetime, thoughts: bool = True
) -> dict[str, object]:
    """Return the body of the request that streams an answer; without `thoughts`, none are sent."""
    model = question.model or config.model or DEFAULT_MODEL
    max_tokens = question.max_tokens or config.max_tokens
    container = _live_container(question.messages, now) if question.tools else None
    messages = api_messages(
        question.messages,
        prefill=takes_prefill(model) and not _is_thinking_configured(config),
        resumable=container is not None or (bool(question.tools) and "container" in config.extra),
        thoughts=thoughts,
    )
    request: dict[str, object] = {
        **config.extra,
        "model": model,
        "max_tokens": max_tokens,
        "messages": messages,
        "stream": True,
    }
    tools: list[ApiBlock] = [dict(tool) for tool in question.tools]
    if tools:
        if config.tool_choice is not None:
            request["tool_choice"] = dict(config.tool_choice)
        if container is not None:
            request.setdefault("container", container)
    elif tools := _tools_in(messages):
        request["tool_choice"] = {"type": "none"}
    system: list[ApiBlock] = [{"type": "text", "text": question.system}] if (question.system or "").strip() else []
    if config.cache != "off":
        _mark_for_cache(config.cache, request, messages, system, tools)
    if system:
        request["system"] = system if _MARK in system[0] else question.system
    if tools:
        request["tools"] = tools
    thinking = _thinking(config, model, max_tokens, messages)
    if thinking is not None:
        request["thinking"] = thinking
    if config.effort is not None or question.output is not None:
        given = request.get("output_config")
        request["output_config"] = {**(given if is_json_object(given) else {}), **_output_config(question, config)}
    if config.temperature is not None:
        request["temperature"] = config.temperature
    for name in left_out(question, config):
        del request[name]
    if config.stop_sequences:
        request["stop_sequences"] = list(config.stop_sequences)
    return request


def _output_config(question: Question, config: LLMConfig) -> dict[str, object]:
    effort: dict[str, object] = {} if config.effort is None else {"effort": config.effort}
    return effort if question.output is None else {**effort, "format": output_format(question.output)}


def left_out(question: Question, config: LLMConfig) -> tuple[str, ...]:
    """Return the names of the configured sampling settings that are not sent, as the model does not take them."""
    if takes_sampling(question.model or config.model or DEFAULT_MODEL):
        return ()
    given = {*config.extra, *(("temperature",) if config.temperature is not None else ())}
    return tuple(name for name in SAMPLING if name in given)


def _live_container(conversation: Sequence[Said], now: datetime) -> str | None:
    """Return the id of the container in which the API last ran code, unless it has expired."""
    container = container_of(conversation) or {}
    try:
        expires_at = datetime.fromisoformat(str(container.get("expires_at")))
    except ValueError:
        return None
    lives = expires_at.tzinfo is not None and expires_at - _MARGIN > now
    return str(container["id"]) if lives and "id" in container else None


def _is_thinking_configured(config: LLMConfig) -> bool:
    return config.thinking_budget is not None or config.thinking == "adaptive"


def _thinking(config: LLMConfig, model: str, max_tokens: int, messages: list[ApiMessage]) -> dict[str, object] | None:
    """Return the request's `thinking` field.

    A budget that leaves no room for an answer is reduced, or left out. It is also left out in the middle of a turn that
    began without thoughts. The API would refuse the request otherwise.
    """
    if config.thinking is not None:
        return {"type": config.thinking}
    if config.thinking_budget is None:
        return None
    if not takes_thinking_budget(model):
        return {"type": "adaptive"}
    interleaved = any(_INTERLEAVED in beta for beta in config.betas)
    budget = config.thinking_budget if interleaved else min(config.thinking_budget, max_tokens - 1)
    if budget < LEAST_BUDGET or _was_begun_without_thought(messages):
        return None
    return {"type": "enabled", "budget_tokens": budget}


def _was_begun_without_thought(messages: list[ApiMessage]) -> bool:
    """Return whether the model's last turn is in the middle of tool calls and did not begin with a thought."""
    first: ApiBlock | None = None
    for message in reversed(messages):
        if message["role"] == "user" and all(block.get("type") != "tool_result" for block in message["content"]):
            break
        if message["role"] == "assistant":
            first = message["content"][0]
    return first is not None and first.get("type") not in THOUGHTS


def _tools_in(messages: list[ApiMessage]) -> list[ApiBlock]:
    """Return definitions of the tools that were called: the API wants definitions if the conversation has calls."""
    blocks = (block for message in messages for block in message["content"])
    names = dict.fromkeys(block["name"] for block in blocks if block.get("type") == "tool_use")
    return [{"name": name, "input_schema": {"type": "object"}} for name in names]


def _mark_for_cache(
    life: Literal["5m", "1h"],
    request: dict[str, object],
    messages: list[ApiMessage],
    system: list[ApiBlock],
    tools: list[ApiBlock],
) -> None:
    """Add marks for the prompt cache to parts of the request; marks that are already in it stay, and count.

    A mark says that everything up to it may be cached, or read from the cache. Requests of one conversation have their
    beginning in common. So the last question is marked, and the last but one, which was the last of the previous
    request, and besides these the system prompt and the tools, for requests that have only these in common.
    (platform.claude.com: "Prompt caching".)
    """
    mark: dict[str, object] = {"type": "ephemeral"} if life == "5m" else {"type": "ephemeral", "ttl": life}
    questions = _questions(messages)
    places = [*islice(questions, 1), *((system, 0) for _ in system), *islice(questions, 1)]
    told = [place for place, tool in enumerate(tools) if not tool.get("defer_loading")]  # the model finds others later
    if told and not any(_MARK in tool for tool in tools):
        places.append((tools, told[-1]))
    blocks = (block for message in messages for block in message["content"])
    left = MOST_MARKS - sum(_MARK in one for one in (request, *tools, *blocks))
    for siblings, place in places[: max(0, left)]:
        siblings[place] = {**siblings[place], _MARK: mark}


def _questions(messages: list[ApiMessage]) -> Iterator[tuple[list[ApiBlock], int]]:
    """Yield the last block that may be marked of each user message, the last message first."""
    for message in reversed(messages):
        blocks = message["content"]
        places = [place for place, block in enumerate(blocks) if block.get("type") in _MARKABLE]
        if message["role"] == "user" and places:
            yield blocks, places[-1]


def is_format(schema: JsonObject) -> bool:
    """Return whether the API takes the schema, and answers that fit what is sent of it can fit all of it.

    The API takes objects whose members are all known, and checks types, enumerations and some formats. Other rules of a
    schema are sent to the model as a description, and are checked when the answer has arrived. (platform.claude.com:
    "Structured outputs".)
    """
    definitions = object_in(schema, "$defs")
    is_recursive = any(name in reachable(references(of), definitions) for name, of in definitions.items())
    return _is_taken(schema) and not is_recursive


def output_format(output: OutputSpec) -> dict[str, object]:
    """Return the `format` of the request's `output_config`."""
    from anthropic import transform_schema  # noqa: PLC0415 - half a second, spent only where Claude is used

    return {"type": "json_schema", "schema": transform_schema({**output.schema})}


def _is_taken(node: object) -> bool:
    if not is_json_object(node) or not _NOT_TAKEN.isdisjoint(node) or all(kind not in node for kind in _KINDS):
        return False
    kind, others = node.get("type"), node.get("additionalProperties", False)
    if is_array(kind) or (kind == "array" and "items" not in node):
        return False
    if kind == "object" and (others is not False or "properties" not in node):
        return False
    return all(map(_is_taken, inner_schemas(node)))


def leave_out_refused(request: Mapping[str, object], asked: Said, fault: Fault) -> bool:
    """Put a note in the place of the image or document for which the API has refused the request.

    The API checks them with every request, and its error names the place. It takes images of 5 MiB in base64 and of
    8,000 pixels, of 2,000 pixels if there are more than 20, and requests of 32 MB. (platform.claude.com: "Vision",
    "Errors".) If the request is too large, the first one goes. Those of the message that asks stay: the user has to
    know.

    Returns:
        Whether there was one.
    """
    messages = objects_in(request, "messages")
    places = list(_attachments(messages, asked))
    named = _NAMED.search(fault.message)
    if fault.error_type == "request_too_large":
        refused, why = places[:1], "the conversation became too large"
    elif named is not None:
        number, outer, inner, why = named.groups()
        place = int(number), int(outer), None if inner is None else int(inner)
        refused = [place] if place in places else []
    else:
        return False
    for place in refused:
        _replace(messages, place, {"type": "text", "text": f"[left out: {why}]"})
    return bool(refused)


def _attachments(messages: Sequence[JsonDict], asked: Said) -> Iterator[_Place]:
    """Yield the places of the images and documents, without those of the message that asks, which are the last ones."""
    for number, message in enumerate(messages):
        content = objects_in(message, "content")
        own = len(api_blocks(asked.content)) if number == len(messages) - 1 and asked.role == "user" else 0
        for outer, block in enumerate(content):
            if block.get("type") in _TYPES and outer < len(content) - own:
                yield number, outer, None
            elif block.get("type") == "tool_result":
                returned = enumerate(objects_in(block, "content"))
                yield from ((number, outer, inner) for inner, one in returned if one.get("type") in _TYPES)


def _replace(messages: Sequence[JsonDict], place: _Place, note: JsonDict) -> None:
    number, outer, inner = place
    content = objects_in(messages[number], "content")
    if inner is None:
        content[outer] = note
    else:
        returned: list[Json] = [*objects_in(content[outer], "content")]
        returned[inner] = note
        content[outer] = {**content[outer], "content": returned}
    messages[number]["content"] = [*content]
