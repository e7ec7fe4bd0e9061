"""Answers that are to fit a schema: by the server's own mode, or by a tool where that would let none be called."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reenact import Image, OpenAIProvider, OutputSpec, Runtime
from reenact.actors.environment.api import OutputDriver
from reenact.actors.environment.openai.provider import OpenAIDriver, is_strict
from reenact.actors.environment.wire.driver import Question, RetryPolicy
from reenact.domain.messages import Said, TextBlock
from reenact.testing import FakeChatAPI
from tests.environment.talking import Dialect

TEXT: dict[str, Any] = {"type": "string"}
CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"a": TEXT},
    "required": ["a"],
    "additionalProperties": False,
}
HI = [Said("user", (TextBlock("Hi"),))]


class Place(msgspec.Struct):
    name: str
    people: int = 0


def forecast(city: str) -> str:
    """Forecast the weather."""
    return f"rain in {city}"


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        ({**CLOSED, "properties": {"a": {"anyOf": [TEXT, {"type": "null"}]}}}, True),
        ({**CLOSED, "properties": {"a": {"type": "array", "items": CLOSED}}}, True),
        ({**CLOSED, "$defs": {"A": CLOSED}, "properties": {"a": {"$ref": "#/$defs/A"}}}, True),
        ({**CLOSED, "required": []}, False),
        ({**CLOSED, "required": "a"}, False),
        ({**CLOSED, "additionalProperties": True}, False),
        ({**CLOSED, "properties": {"a": {**TEXT, "default": ""}}}, False),
        ({**CLOSED, "properties": {"a": {"type": "array", "items": {"type": "object"}}}}, False),
        ({**CLOSED, "$defs": {"A": {"type": "object"}}}, False),
        ({"anyOf": [CLOSED, True]}, False),
    ],
)
def test_a_schema_is_strict_if_its_objects_say_all_their_members(schema: dict[str, Any], *, strict: bool) -> None:
    assert is_strict(schema) is strict


def test_the_schema_stands_where_each_api_has_it_and_goes_before_what_is_set() -> None:
    question = Question(messages=HI, output=OutputSpec(name="place", schema=CLOSED))
    chat = OpenAIProvider(None, "k", "m", extra={"response_format": {"type": "text"}})
    other = OpenAIProvider(None, "k", "m", api="responses", extra={"text": {"verbosity": "low", "format": None}})

    told = {"name": "place", "schema": CLOSED, "strict": True}
    assert chat.request(question)["response_format"] == {"type": "json_schema", "json_schema": told}
    assert other.request(question)["text"] == {"verbosity": "low", "format": {"type": "json_schema", **told}}


def test_an_answer_is_the_value_that_was_asked_for(api: FakeChatAPI, dialect: Dialect) -> None:
    api.reply("a place")
    api.reply('{"name": "Oslo"}')

    with Runtime.in_memory(llm_provider=OpenAIProvider(api.url, "k", "m", api=dialect)) as runtime:
        answer = runtime.ask("Where?", output=Place)

    assert answer.output == Place("Oslo")
    assert len(api.requests) == 2
    for request in api.requests:
        told: dict[str, Any] = request.body["response_format" if dialect == "chat" else "text"]
        form = told["json_schema"] if dialect == "chat" else told["format"]
        assert (form["name"], form["strict"], "tools" in request.body) == ("Place", False, False)


def test_where_there_are_tools_a_tool_stands_for_the_answer(api: FakeChatAPI, dialect: Dialect) -> None:
    api.reply(text=None, tools=[("forecast", {"city": "Oslo"})])
    api.reply(text=None, tools=[("final_answer", {"name": "Oslo", "people": 7})])

    with Runtime.in_memory(llm_provider=OpenAIProvider(api.url, "k", "m", api=dialect)) as runtime:
        answer = runtime.ask("Where?", output=Place, image=Image(id="i", tools=(forecast,)))

    assert answer.output == Place("Oslo", 7)
    for request in api.requests:
        assert not {"response_format", "text"} & request.body.keys()
        tools: list[dict[str, Any]] = request.body["tools"]
        assert [(tool.get("function") or tool)["name"] for tool in tools] == ["forecast", "final_answer"]


def test_openai_has_both(monkeypatch: pytest.MonkeyPatch, api: FakeChatAPI) -> None:
    monkeypatch.setattr("reenact.actors.environment.openai.provider.OpenAIClient.is_openai", True)
    api.reply(text=None, tools=[("forecast", {"city": "Oslo"})])
    api.reply('{"name": "Oslo"}')

    with Runtime.in_memory(llm_provider=OpenAIProvider(api.url, "k", "m")) as runtime:
        answer = runtime.ask("Where?", output=Place, image=Image(id="i", tools=(forecast,)))

    assert answer.output == Place("Oslo")
    assert [("response_format" in one.body, len(one.body["tools"])) for one in api.requests] == [(True, 1)] * 2


def test_the_driver_takes_any_schema() -> None:
    provider = OpenAIProvider("http://localhost:1")
    driver = OpenAIDriver(provider, provider._client, RetryPolicy(0))

    assert isinstance(driver, OutputDriver)
    assert driver.takes_output(OutputSpec(name="place", schema=CLOSED), None)
