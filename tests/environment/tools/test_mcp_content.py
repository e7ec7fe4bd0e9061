"""What servers of the newer protocol may offer and return is mended, shown, or left out."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import types

from reenact.actors.environment.tools.mcp.session import listed, outcome_of_result
from reenact.actors.environment.tools.outcome import ToolOutcome
from reenact.domain.tools import MCPServer

SERVER = MCPServer.stdio("files", "npx")


def offered(*tools: types.Tool) -> list[str]:
    return [one.spec.name for one in listed(SERVER, tools)]


@pytest.mark.parametrize(
    "schema", [{"type": "object", "properties": []}, {"type": "object", "properties": {}, "required": "a"}], ids=str
)
def test_a_tool_whose_schema_is_none_is_left_out(schema: dict[str, Any]) -> None:
    assert offered(
        types.Tool(name="a", input_schema=schema), types.Tool(name="b", input_schema={"type": "object"})
    ) == ["mcp__files__b"]


def test_tools_come_by_name_whatever_the_order_of_the_server() -> None:
    tools = [types.Tool(name=name, input_schema={"type": "object"}) for name in "cab"]

    assert offered(*tools) == ["mcp__files__a", "mcp__files__b", "mcp__files__c"]


def test_a_tool_without_a_description_is_described_by_its_title() -> None:
    tool = types.Tool(name="a", title="The letter", input_schema={"type": "object"})

    assert listed(SERVER, [tool])[0].spec.description == "The letter"


@pytest.mark.parametrize(
    ("hints", "idempotent"),
    [
        (None, False),
        (types.ToolAnnotations(), False),
        (types.ToolAnnotations(idempotent_hint=True), True),
        (types.ToolAnnotations(read_only_hint=True), True),
        (types.ToolAnnotations(idempotent_hint=False, read_only_hint=False), False),
    ],
)
def test_what_a_server_says_of_repetition_is_believed(
    hints: types.ToolAnnotations | None,
    idempotent: bool,  # noqa: FBT001 - a value that is expected
) -> None:
    tool = types.Tool(name="a", input_schema={"type": "object"}, annotations=hints)

    assert listed(SERVER, [tool])[0].spec.idempotent is idempotent


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (types.CallToolResult(content=[]), ToolOutcome("")),
        (types.CallToolResult(content=[], structured_content={"a": [1]}), ToolOutcome('{"a":[1]}')),
        (types.CallToolResult(content=[], structured_content="a", is_error=True), ToolOutcome('"a"', is_error=True)),
        (
            types.CallToolResult(content=[types.TextContent(text="a"), types.TextContent(text="b")]),
            ToolOutcome("a\nb"),
        ),
        (
            types.CallToolResult(content=[types.TextContent(text="a")], structured_content={"result": "a"}),
            ToolOutcome("a"),
        ),
        (
            types.CallToolResult(content=[types.ResourceLink(uri="file:///a", name="a")]),
            ToolOutcome("[resource a: file:///a]"),
        ),
    ],
    ids=["nothing", "structured", "structured error", "texts", "text first", "link"],
)
def test_a_result_is_its_content_or_else_what_is_structured(result: types.CallToolResult, outcome: ToolOutcome) -> None:
    assert outcome_of_result(result) == outcome


def test_tuples_as_older_schemas_have_them_are_told_as_the_api_takes_them() -> None:
    number, rest = {"type": "number"}, {"type": "string"}
    schema: dict[str, Any] = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "place": {"type": "array", "items": [number, number], "default": {"items": [1]}},
            "way": {"anyOf": [{"type": "array", "items": [number], "additionalItems": rest}]},
            "items": {"type": "array", "items": rest},
        },
    }

    (tool,) = listed(SERVER, [types.Tool(name="a", input_schema=schema)])

    assert tool.spec.input_schema["properties"] == {
        "place": {"type": "array", "prefixItems": [number, number], "default": {"items": [1]}},
        "way": {"anyOf": [{"type": "array", "prefixItems": [number], "items": rest}]},
        "items": {"type": "array", "items": rest},
    }


@pytest.mark.parametrize(("kind", "data"), [("image/jpg", "aGVsbG8="), ("image/jpeg", "aGVs\r\nbG8=\n")])
def test_an_image_is_shown_also_if_its_type_or_its_data_are_written_otherwise(kind: str, data: str) -> None:
    result = types.CallToolResult(content=[types.ImageContent(data=data, mime_type=kind)])

    source = {"type": "base64", "media_type": "image/jpeg", "data": "aGVsbG8="}
    assert outcome_of_result(result).content == ({"type": "image", "source": source},)
