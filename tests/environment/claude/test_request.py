"""What a request to the Messages API asks for, what it is marked with, and which configurations are refused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.actors.environment.api import RESERVED, LLMConfig
from reenact.actors.environment.claude.models import (
    CONTEXT_WINDOW,
    DEFAULT_MODEL,
    LARGE_CONTEXT_WINDOW,
    context_window,
    takes_prefill,
    takes_thinking_budget,
)
from reenact.actors.environment.claude.request import MOST_MARKS, message_request
from reenact.actors.environment.wire.driver import Question
from reenact.actors.environment.wire.messages import CONTINUE
from reenact.domain.errors import ConfigurationError
from reenact.domain.messages import OpaqueBlock, Said, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from reenact.domain.plain import JsonObject, is_mapping, is_sequence
from reenact.testing.fake_rules import refusal
from tests.environment.histories import histories, plain_histories
from tests.environment.support import HELLO
from tests.environment.wire.test_messages import ends_of_requests

BUDGETED = "claude-sonnet-4-5"
"""A model that is told in tokens how much to think."""
HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
Json: TypeAlias = dict[str, Any]
BASH: Json = {"name": "bash", "input_schema": {"type": "object"}}
SEARCH: Json = {"type": "web_search_20250305", "name": "web_search"}
MARK: Json = {"type": "ephemeral"}


def asked(config: LLMConfig | None = None, **question: Any) -> Json:  # noqa: ANN401 - the fields of a question
    question.setdefault("messages", HELLO)
    config = config or LLMConfig()
    if config.thinking_budget is not None and config.model is None:
        config = msgspec.structs.replace(config, model=BUDGETED)
    return message_request(Question(**question), config, now=NOW)


def said(*texts: str) -> list[Said]:
    roles: tuple[Any, ...] = ("user", "assistant")
    return [Said(roles[number % 2], (TextBlock(text),)) for number, text in enumerate(texts)]


def test_a_request_carries_what_was_configured() -> None:
    config = LLMConfig(
        model="configured",
        max_tokens=9000,
        thinking_budget=2000,
        effort="high",
        stop_sequences=("END",),
        tool_choice={"type": "auto", "disable_parallel_tool_use": True},
        cache="off",
        extra={"metadata": {"user_id": "u"}, "output_config": {"format": {"type": "json_schema"}}},
    )

    assert asked(config, system="Be brief.", tools=[BASH, SEARCH]) == {
        "model": "configured",
        "max_tokens": 9000,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
        "stream": True,
        "system": "Be brief.",
        "tools": [BASH, SEARCH],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "output_config": {"format": {"type": "json_schema"}, "effort": "high"},
        "stop_sequences": ["END"],
        "metadata": {"user_id": "u"},
    }


def test_what_is_asked_for_goes_before_what_is_configured() -> None:
    request = asked(LLMConfig(model="claude-sonnet-5", temperature=0.5), model="asked", max_tokens=5, system=" ")

    assert (request["model"], request["max_tokens"], request["temperature"]) == ("asked", 5, 0.5)
    assert not {"system", "tools", "tool_choice", "thinking", "output_config", "stop_sequences"} & request.keys()
    assert asked()["model"] == DEFAULT_MODEL


def test_a_tool_choice_goes_only_with_tools() -> None:
    assert "tool_choice" not in asked(LLMConfig(tool_choice={"type": "any"}))


@pytest.mark.parametrize(
    ("config", "thinking"),
    [
        ({}, None),
        ({"thinking": "adaptive"}, {"type": "adaptive"}),
        ({"thinking": "disabled"}, {"type": "disabled"}),
        ({"thinking_budget": 2000}, {"type": "enabled", "budget_tokens": 2000}),
        ({"thinking_budget": 2000, "max_tokens": 1500}, {"type": "enabled", "budget_tokens": 1499}),
        ({"thinking_budget": 2000, "max_tokens": 1024}, None),
        (
            {"thinking_budget": 2000, "max_tokens": 1500, "betas": ("interleaved-thinking-2025-05-14",)},
            {"type": "enabled", "budget_tokens": 2000},
        ),
        ({"thinking_budget": 2000, "model": "claude-sonnet-5"}, {"type": "adaptive"}),
    ],
)
def test_the_model_thinks_as_it_can(config: dict[str, Any], thinking: Json | None) -> None:
    assert asked(LLMConfig(**config)).get("thinking") == thinking


def test_a_turn_that_was_begun_without_thought_goes_on_without() -> None:
    call, answer = ToolUseBlock("t", "bash", {}), Said("user", (ToolResultBlock("t", "ok"),))
    without, with_thought = ((*HELLO, Said("assistant", said), answer) for said in ((call,), (THOUGHT, call)))
    config = LLMConfig(thinking_budget=2000)

    assert "thinking" not in asked(config, messages=without, tools=[BASH])
    assert "thinking" in asked(config, messages=with_thought, tools=[BASH])
    assert "thinking" in asked(config, messages=(*without, *said("x", "y", "z")[1:]), tools=[BASH])


THOUGHT = ThinkingBlock("hm", "sig")


def test_tools_that_were_called_are_defined_but_not_to_be_called_when_there_are_none_any_more() -> None:
    called = (*HELLO, Said("assistant", (ToolUseBlock("t", "bash", {}), ToolUseBlock("u", "bash", {}))))

    request = asked(messages=called)

    assert request["tools"] == [{**BASH, "cache_control": MARK}]
    assert request["tool_choice"] == {"type": "none"}


@pytest.mark.parametrize(
    ("model", "config", "last"),
    [
        ("claude-sonnet-4-5", {}, "So far"),
        ("claude-sonnet-4-5", {"thinking_budget": 2000}, CONTINUE),
        ("claude-opus-5", {}, CONTINUE),
        ("another", {}, CONTINUE),
    ],
)
def test_an_answer_is_gone_on_with_where_the_model_can(model: str, config: dict[str, Any], last: str) -> None:
    request = asked(LLMConfig(model=model, **config), messages=said("Hi", "So far "))

    assert request["messages"][-1]["content"][0]["text"] == last


@pytest.mark.parametrize(
    ("expires_at", "sent"),
    [
        ((NOW + timedelta(minutes=4)).isoformat(), "c"),
        ((NOW + timedelta(seconds=1)).isoformat(), None),
        ("2026-01-01T00:04:00", None),
        ("soon", None),
        (None, None),
    ],
)
def test_code_runs_on_in_its_container_while_that_lives(expires_at: str | None, sent: str | None) -> None:
    code = OpaqueBlock({"type": "server_tool_use", "id": "s", "name": "code_execution", "input": {}})
    call = ToolUseBlock("t", "bash", {}, {"caller": {"type": "code_execution_20250825", "tool_id": "s"}})
    container = OpaqueBlock({"type": "container", "id": "c", "expires_at": expires_at})
    waiting = (*HELLO, Said("assistant", (code, call, container)), Said("user", (ToolResultBlock("t", "ok"),)))

    request = asked(messages=waiting, tools=[BASH])

    assert request.get("container") == sent
    assert len(request["messages"]) == (3 if sent else 1)
    assert asked(LLMConfig(extra={"container": "mine"}), messages=waiting, tools=[BASH])["container"] == "mine"
    assert len(asked(messages=waiting)["messages"]) == 1


configs = st.sampled_from(
    [
        LLMConfig(),
        LLMConfig(cache="1h", model="claude-opus-5", effort="low"),
        LLMConfig(cache="off", thinking_budget=2000),
        LLMConfig(thinking="adaptive", model="claude-sonnet-5"),
    ]
)


@given(histories(), configs, st.sampled_from([[], [BASH], [SEARCH, BASH]]))
def test_no_history_and_no_configuration_makes_the_api_refuse(
    history: list[Said], config: LLMConfig, tools: list[Json]
) -> None:
    question = Question(messages=history, system="Be brief.", tools=tools)

    request = message_request(question, config, now=NOW)

    assert refusal(HEADERS, request, None) is None


def marks(request: Json) -> list[str]:
    """Return where a request is marked: `tools`, `system`, or the numbers of message and block."""
    found = ["tools" for tool in request.get("tools", []) if "cache_control" in tool]
    found += ["system" for block in request.get("system", []) if "cache_control" in block]
    return found + [f"{number}.{place}" for number, place, block in numbered(request) if "cache_control" in block]


def numbered(request: Json) -> Iterator[tuple[int, int, Json]]:
    for number, message in enumerate(request["messages"]):
        for place, block in enumerate(message["content"]):
            yield number, place, block


def test_the_tools_the_prompt_and_the_last_two_questions_are_marked() -> None:
    conversation = said("1", "one", "2", "two", "3")

    request = asked(messages=conversation, system="Be brief.", tools=[BASH, SEARCH])
    longer = asked(LLMConfig(cache="1h"), messages=[*conversation, *said("-", "three", "4")[1:]], tools=[BASH])

    assert marks(request) == ["tools", "system", "2.0", "4.0"]
    assert request["tools"] == [BASH, {**SEARCH, "cache_control": MARK}]
    assert request["system"] == [{"type": "text", "text": "Be brief.", "cache_control": MARK}]
    assert marks(longer) == ["tools", "4.0", "6.0"]
    assert longer["tools"][-1]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert marks(asked(LLMConfig(cache="off"), messages=conversation, tools=[BASH])) == []


def test_a_tool_that_is_found_later_cannot_be_marked() -> None:
    later = {**BASH, "name": "later", "defer_loading": True}

    assert asked(tools=[BASH, later])["tools"] == [{**BASH, "cache_control": MARK}, later]
    assert asked(tools=[later])["tools"] == [later]


@pytest.mark.parametrize(
    ("tools", "extra", "expected"),
    [
        ([{**BASH, "cache_control": MARK}], {}, ["tools", "system", "2.0", "4.0"]),
        ([{**BASH, "cache_control": MARK}, {**SEARCH, "cache_control": MARK}], {}, ["tools"] * 2 + ["system", "4.0"]),
        ([BASH], {"cache_control": MARK}, ["system", "2.0", "4.0"]),
    ],
)
def test_marks_of_the_user_s_own_count(tools: list[Json], extra: Json, expected: list[str]) -> None:
    config = LLMConfig(extra=extra)

    assert marks(asked(config, messages=said("1", "one", "2", "two", "3"), system="x", tools=tools)) == expected


def test_a_full_request_gets_no_more_marks() -> None:
    block: Json = {"type": "search_result", "source": "s", "title": "t", "content": [], "cache_control": MARK}

    request = asked(messages=[Said("user", (OpaqueBlock(block),) * MOST_MARKS)], system="x", tools=[BASH])

    assert marks(request) == ["0.0", "0.1", "0.2", "0.3"]
    assert request["system"] == "x"


def test_a_block_that_cannot_be_marked_is_passed_over() -> None:
    unknown = OpaqueBlock({"type": "news"})

    request = asked(messages=[Said("user", (TextBlock("Hi"), unknown))])

    assert marks(request) == ["0.0"]
    assert marks(asked(messages=[Said("user", (unknown,))])) == []


def test_marking_alters_nothing_that_is_kept() -> None:
    found: JsonObject = {
        "type": "search_result",
        "source": "s",
        "title": "t",
        "content": [{"type": "text", "text": "x"}],
    }
    conversation = [Said("user", (OpaqueBlock(found),))]

    request = asked(messages=conversation)

    assert "cache_control" in request["messages"][0]["content"][0]
    assert "cache_control" not in found


LOOKBACK = 20
"""How many blocks before a mark the API looks for what it has kept."""


def beginnings(request: Json) -> list[tuple[bool, bytes]]:
    """Return the request up to the end of each block of its messages, and whether the block is marked."""
    plain = {name: unmarked(request.get(name)) for name in ("tools", "system")}
    said = [(block, message["role"]) for message in request["messages"] for block in message["content"]]
    return [
        ("cache_control" in block, msgspec.json.encode([plain, unmarked([list(one) for one in said[: place + 1]])]))
        for place, (block, _) in enumerate(said)
    ]


def unmarked(value: object) -> object:
    if is_sequence(value):
        return [unmarked(one) for one in value]
    if is_mapping(value):
        return {name: unmarked(one) for name, one in value.items() if name != "cache_control"}
    return value


def written(request: Json) -> list[bytes]:
    return [beginning for is_marked, beginning in beginnings(request) if is_marked]


def looked_for(request: Json, lookback: int = LOOKBACK) -> set[bytes]:
    found = beginnings(request)
    marked_places = [place for place, (is_marked, _) in enumerate(found) if is_marked]
    return {found[near][1] for place in marked_places for near in range(max(0, place - lookback + 1), place + 1)}


@given(plain_histories())
def test_what_one_request_leaves_in_the_cache_the_next_one_looks_for(history: list[Said]) -> None:
    requests = [asked(messages=history[:end], system="x", tools=[BASH]) for end in ends_of_requests(history)]
    requests = [one for one in requests if one["messages"]]  # what was not plain may have been all that was said
    requests = [one for one in requests if one["messages"][-1]["content"][-1].get("text") != CONTINUE]

    for one, following in pairwise(requests):
        assert written(one)[-1] in looked_for(following)
        assert len(marks(following)) <= MOST_MARKS


def test_it_is_found_however_much_was_said_since() -> None:
    calls = tuple(ToolUseBlock(f"t{number}", "bash", {}) for number in range(30))
    answers = tuple(ToolResultBlock(call.id, "ok") for call in calls)

    one = asked(messages=HELLO, tools=[BASH])
    following = asked(messages=[*HELLO, Said("assistant", calls), Said("user", answers)], tools=[BASH])

    assert written(one)[-1] in looked_for(following, lookback=1)


@pytest.mark.parametrize(
    ("model", "window", "prefill", "budget"),
    [
        ("claude-3-opus-20240229", CONTEXT_WINDOW, True, True),
        ("claude-3-7-sonnet-20250219", CONTEXT_WINDOW, True, True),
        ("claude-opus-4-20250514", CONTEXT_WINDOW, True, True),
        ("claude-opus-4-1-20250805", CONTEXT_WINDOW, True, True),
        ("claude-sonnet-4-5", CONTEXT_WINDOW, True, True),
        ("anthropic.claude-haiku-4-5-20251001-v1:0", CONTEXT_WINDOW, True, True),
        ("claude-opus-4-6", LARGE_CONTEXT_WINDOW, False, True),
        ("claude-sonnet-4-6", LARGE_CONTEXT_WINDOW, False, True),
        ("us.anthropic.claude-opus-4-8", LARGE_CONTEXT_WINDOW, False, False),
        ("claude-mythos-preview", LARGE_CONTEXT_WINDOW, False, True),
        ("claude-sonnet-5", LARGE_CONTEXT_WINDOW, False, False),
        ("claude-haiku-5-5", LARGE_CONTEXT_WINDOW, False, False),
        ("claude-fable-5-1", LARGE_CONTEXT_WINDOW, False, False),
        ("another-model", CONTEXT_WINDOW, False, True),
    ],
)
def test_models_are_known_by_their_names(model: str, window: int, *, prefill: bool, budget: bool) -> None:
    assert (context_window(model), takes_prefill(model), takes_thinking_budget(model)) == (window, prefill, budget)


def test_a_model_without_a_name_has_the_smaller_window() -> None:
    assert context_window(None) == CONTEXT_WINDOW


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"max_tokens": True}, "max_tokens is True"),
        ({"thinking_budget": 1023}, "thinking_budget is 1023"),
        ({"thinking_budget": 2000, "thinking": "adaptive"}, "exclude each other"),
        ({"thinking_budget": 2000, "temperature": 0.5}, "temperature=0.5 and thinking"),
        ({"thinking": "adaptive", "tool_choice": {"type": "tool", "name": "x"}}, "tool_choice"),
        ({"thinking": "always"}, "thinking must be one of None, 'adaptive', 'disabled', not 'always'"),
        ({"cache": "2h"}, "cache must be one of 'off', '5m', '1h', not '2h'"),
        ({"effort": "much"}, "effort must be one of"),
        ({"stop_sequences": "END"}, "stop_sequences must be a tuple of texts"),
        ({"stop_sequences": (" ",)}, "stop_sequences"),
        ({"betas": "x"}, "betas must be a tuple of texts"),
        ({"context_window": 0}, "context_window is 0"),
        ({"extra": {"messages": []}}, r"extra\['messages'\]"),
        ({"extra": {"temperature": 1}}, r"extra\['temperature'\]"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_by_its_argument(config: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        LLMConfig(**config)
    with pytest.raises(ConfigurationError, match=complaint):
        msgspec.structs.replace(LLMConfig(), **config)


def test_what_has_an_argument_of_its_own_is_reserved() -> None:
    assert {"model", "messages", "system", "tools", "stream", "max_tokens", "temperature", "thinking"} <= RESERVED
    assert "extra" not in RESERVED
    assert LLMConfig(temperature=1.0, thinking="adaptive").temperature == 1


def test_nothing_secret_is_shown() -> None:
    config = LLMConfig(api_key="sk-1", extra={"mcp_servers": [{"authorization_token": "tok"}]}, betas=("b",))

    assert repr(config) == "LLMConfig(base_url=None, model=None, max_tokens=8192)"
    assert [name for name, _ in config.__rich_repr__()] == ["base_url", "model", "max_tokens"]
