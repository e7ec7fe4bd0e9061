"""Answers that the Messages API holds to a schema: which it takes, what it is sent, and what stands in otherwise."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from anthropic.types import OutputConfigParam
from pydantic import TypeAdapter

from reenact import Image, LLMConfig, Runtime
from reenact.actors.environment.claude.environment import ClaudeClient, ClaudeDriver
from reenact.actors.environment.claude.models import DEFAULT_MODEL, takes_output_format
from reenact.actors.environment.claude.request import is_format
from reenact.actors.environment.wire.driver import RetryPolicy
from reenact.actors.output import output_of
from reenact.domain.output import OutputSpec
from reenact.testing import FakeMessagesAPI, FakeReply
from tests.environment.claude.test_request import asked

OLD = "claude-sonnet-4-20250514"


class Line(msgspec.Struct):
    text: str
    price: float


class Invoice(msgspec.Struct):
    total: float
    lines: list[Line]
    note: str | None = None


class Tree(msgspec.Struct):
    left: Tree | None = None


INVOICE = output_of(Invoice).spec


def of(**schema: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"type": "object", "properties": {"v": schema}}


@pytest.mark.parametrize(
    ("model", "takes"),
    [
        (DEFAULT_MODEL, True),
        ("claude-opus-4-1-20250805", True),
        ("claude-haiku-4-5", True),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", True),
        (OLD, False),
        ("claude-opus-4-0", False),
        ("claude-3-7-sonnet-latest", False),
        ("claude-sonnet-4@20250514", False),
        ("qwen3", False),
    ],
)
def test_models_from_4_1_on_are_held_to_a_schema(model: str, takes: bool) -> None:  # noqa: FBT001 - what is expected
    assert takes_output_format(model) is takes
    llm = LLMConfig(api_key="k", model=model)
    assert ClaudeDriver(llm, ClaudeClient(llm), RetryPolicy(0)).takes_output(INVOICE, None) is takes


@pytest.mark.parametrize(
    ("schema", "taken"),
    [
        (INVOICE.schema, True),
        (output_of(list[Invoice]).spec.schema, True),
        (output_of(Tree).spec.schema, False),
        (output_of(dict[str, int]).spec.schema, False),
        (of(type="string", pattern="^a", minLength=2), True),
        (of(enum=[1, "a"]), True),
        (of(type="array", items={"type": "integer"}, minItems=3), True),
        (of(type="array"), False),
        (of(type=["string", "null"]), False),
        (of(type="object", additionalProperties={"type": "integer"}), False),
        (of(type="object", properties={}, additionalProperties=True), False),
        (of(type="object"), False),
        (of(description="anything"), False),
        (of(**{"not": {"type": "null"}}, type="string"), False),
        ({**of(**{"$ref": "#/$defs/a"}), "$defs": {"a": {"type": "string"}}}, True),
        ({**of(**{"$ref": "#/$defs/a"}), "$defs": {"a": {}}}, False),
        ({**of(type="string"), "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}}, False),
    ],
    ids=lambda one: str(one)[:60],
)
def test_the_api_takes_objects_whose_members_are_all_known(
    schema: dict[str, Any],
    taken: bool,  # noqa: FBT001 - what is expected
) -> None:
    assert is_format(schema) is taken


def test_the_request_has_the_schema_beside_the_effort() -> None:
    config = LLMConfig(effort="low", extra={"output_config": {"task_budget": None}})
    format_ = asked(config, output=INVOICE)["output_config"].pop("format")

    assert asked(config, output=INVOICE)["output_config"] == {"task_budget": None, "effort": "low", "format": format_}
    assert TypeAdapter(OutputConfigParam).validate_python({"format": format_}) == {"format": format_}
    assert format_["type"] == "json_schema"
    assert format_["schema"]["additionalProperties"] is False
    assert format_["schema"]["properties"]["lines"]["items"]["additionalProperties"] is False
    assert "output_config" not in asked()


def test_what_the_api_does_not_check_is_told_to_the_model() -> None:
    output = OutputSpec(name="x", schema=of(type="integer", minimum=3))

    assert "minimum: 3" in asked(output=output)["output_config"]["format"]["schema"]["properties"]["v"]["description"]


def ask(api: FakeMessagesAPI, **llm: Any) -> Any:  # noqa: ANN401 - what `LLMConfig` takes
    config = LLMConfig(api_key="k", base_url=api.url, **llm)
    with Runtime.in_memory(llm=config) as runtime:
        return runtime.ask("Read it", image=Image(id="clerk"), output=Invoice)


def test_an_answer_comes_in_the_mode_of_the_api(api: FakeMessagesAPI) -> None:
    api.reply(text='{"total": 3, "lines": []}')

    answer = ask(api)

    assert answer.output == Invoice(3.0, [])
    assert api.requests[0].body["output_config"]["format"]["type"] == "json_schema"
    assert "tools" not in api.requests[0].body


@pytest.mark.parametrize("words", [None, "Let me read it."])
def test_a_model_without_the_mode_is_given_a_tool_and_never_forced(api: FakeMessagesAPI, words: str | None) -> None:
    api.reply(
        text=words,
        tools=[("final_answer", {"total": 3, "lines": [{"text": "tea", "price": 3}]})],
        stop_reason="tool_use",
    )

    answer = ask(api, model=OLD, thinking_budget=1024)

    assert answer.output == Invoice(3.0, [Line("tea", 3.0)])
    assert (answer.outcome, answer.stop_reason) == ("completed", "end_turn")
    body = api.requests[0].body
    assert [tool["name"] for tool in body["tools"]] == ["final_answer"]
    assert "tool_choice" not in body
    assert "output_config" not in body


def test_an_answer_that_does_not_fit_is_sent_back_with_what_is_wrong(api: FakeMessagesAPI) -> None:
    api.script([FakeReply(text='{"total": "three"}'), FakeReply(text='{"total": 3, "lines": []}')])

    assert ask(api).output == Invoice(3.0, [])
    asked_again = api.requests[1].body["messages"]
    assert [message["role"] for message in asked_again] == ["user", "assistant", "user"]
    assert "`total` must be a number" in asked_again[2]["content"][0]["text"]


def test_a_refusal_is_no_answer_that_does_not_fit(api: FakeMessagesAPI) -> None:
    api.reply(text="I cannot", stop_reason="refusal", stop_details={"type": "refusal", "category": "cyber"})

    answer = ask(api)

    assert (answer.outcome, answer.output, answer.refusal is not None) == ("completed", None, True)
    assert len(api.requests) == 1
