"""Requests to the Messages API: the question, the settings of the configuration, and the marks for the prompt cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Literal

from reenact.actors.environment.api import LLMConfig
from reenact.actors.environment.claude.models import DEFAULT_MODEL, takes_prefill, takes_sampling, takes_thinking_budget
from reenact.actors.environment.claude.output import output_format
from reenact.actors.environment.received_json import is_json_object
from reenact.actors.environment.wire.driver import Question
from reenact.actors.environment.wire.messages import THOUGHTS, ApiBlock, ApiMessage, api_messages, container_of
from reenact.domain.messages import Said

SAMPLING = ("temperature", "top_p", "top_k")
"""Settings that the API takes up to version 2023-06-01, for models up to 4.6."""
MOST_MARKS = 4
"""How many cache marks the API takes in one request."""
_MARKABLE = frozenset({"text", "image", "document", "tool_result", "search_result", "container_upload"})
_MARK = "cache_control"
_LEAST_BUDGET = 1024
_INTERLEAVED = "interleaved-thinking"
_MARGIN = timedelta(seconds=10)


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
    if budget < _LEAST_BUDGET or _was_begun_without_thought(messages):
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
