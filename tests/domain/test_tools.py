"""What is known of tools and of servers is checked before anybody relies on it, and secrets stay secret."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.domain.errors import ConfigurationError
from reenact.domain.tools import (
    MAX_NAME,
    InvalidArgumentsError,
    MCPServer,
    MCPServerError,
    ToolSpec,
    check_server,
    check_spec,
    is_json,
    no_arguments,
    remote_name,
    variables_of,
)

CYCLE: list[Any] = []
CYCLE.append(CYCLE)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=20,
)


def spec(**fields: object) -> ToolSpec:
    return msgspec.structs.replace(ToolSpec(name="look"), **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"name": "a" * MAX_NAME},
        {"name": "Look-at_1"},
        {"description": "What the weather is like. ☀"},
        {"timeout": 0.001},
        {"timeout": 5},
        {"intervention": "always"},
        {"cost": 0},
        {"input_schema": {"type": "object"}},
        {"input_schema": {"type": "object", "properties": {"a.b-c_1": {"anyOf": [{"type": "string"}]}}}},
    ],
)
def test_a_sound_spec_is_returned(fields: Mapping[str, Any]) -> None:
    given = spec(**fields)

    assert check_spec(given) is given


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"name": ""}, "a name has 1 to 64 letters"),
        ({"name": "a" * (MAX_NAME + 1)}, "a name has 1 to 64 letters"),
        ({"name": "look at"}, "a name has 1 to 64 letters"),
        ({"name": "look\n"}, "a name has 1 to 64 letters"),
        ({"name": 5}, "`$.name`"),
        ({"description": None}, "`$.description`"),
        ({"description": "\ud800"}, "the description is not valid Unicode"),
        ({"timeout": 0}, "`timeout` must be a number of seconds above 0"),
        ({"timeout": math.inf}, "`timeout` must be a number of seconds above 0"),
        ({"timeout": math.nan}, "`timeout` must be a number of seconds above 0"),
        ({"timeout": "5"}, "`$.timeout`"),
        ({"timeout": True}, "`$.timeout`"),
        ({"cost": -1}, "`cost` must be an amount of 0 or more"),
        ({"cost": math.nan}, "`cost` must be an amount of 0 or more"),
        ({"intervention": "sometimes"}, "`intervention` must be one of"),
        ({"idempotent": 1}, "`$.idempotent`"),
        ({"input_schema": []}, "`$.input_schema`"),
        ({"input_schema": {}}, "its `type` is 'object'"),
        ({"input_schema": {"type": "string"}}, "its `type` is 'object'"),
        ({"input_schema": {"type": "object", "default": object()}}, "cannot be written as JSON"),
        ({"input_schema": {"type": "object", "default": CYCLE}}, "cannot be written as JSON"),
        ({"input_schema": {"type": "object", "anyOf": []}}, "may not have `anyOf` at its top"),
        ({"input_schema": {"type": "object", "properties": []}}, "`properties` of `input_schema` is not an object"),
        ({"input_schema": {"type": "object", "properties": {"$top": {}}}}, "argument '$top'"),
        ({"input_schema": {"type": "object", "properties": {"a" * 65: {}}}}, "argument 'aaa"),
    ],
)
def test_what_the_api_or_the_loop_would_refuse_is_refused_by_name(fields: Mapping[str, Any], what: str) -> None:
    wrong = spec(**fields)

    with pytest.raises(ConfigurationError) as refused:
        check_spec(wrong)

    assert str(refused.value).startswith(f"tool {wrong.name!r}: ")
    assert what in str(refused.value)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"a name has .*; `timeout` must be .*; `cost` must be"):
        check_spec(spec(name="", timeout=-1, cost=-1))


def test_a_tool_without_a_schema_takes_no_arguments() -> None:
    assert ToolSpec(name="look").input_schema == no_arguments()


@given(JSON)
def test_what_json_has_is_json(value: object) -> None:
    assert is_json(value)
    assert msgspec.json.decode(msgspec.json.encode(value)) == value


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, {1: 2}, {"\ud800": 1}, "\ud800", ("a",), {"a": {1, 2}}, b"", object(), CYCLE]
)
def test_what_json_does_not_have_is_not_json(value: object) -> None:
    assert not is_json(value)
    assert not is_json({"inside": [value]})


def test_wrong_arguments_are_told_as_one_sentence_and_kept_one_by_one() -> None:
    error = InvalidArgumentsError("look", ["argument `city` is missing", "argument `unit` is not"])

    assert str(error) == "look: argument `city` is missing; argument `unit` is not"
    assert (error.tool, error.problems, error.code) == (
        "look",
        ("argument `city` is missing", "argument `unit` is not"),
        "invalid_arguments",
    )


def test_the_error_of_a_server_names_it() -> None:
    error = MCPServerError("files", "could not be connected")

    assert (str(error), error.server) == ("MCP server 'files' could not be connected", "files")


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("files", "read", "mcp__files__read"),
        ("my files", "read.all/now", "mcp__my_files__read_all_now"),
        ("größe", "ж", "mcp__gr__e___"),
    ],
)
def test_a_tool_of_a_server_is_named_after_both(server: str, tool: str, name: str) -> None:
    assert remote_name(server, tool) == name


@given(st.text(min_size=1), st.text(min_size=1))
def test_the_name_of_a_tool_of_a_server_is_one_that_the_api_takes(server: str, tool: str) -> None:
    name = remote_name(server, tool)

    assert re.fullmatch(r"mcp__[a-zA-Z0-9_-]{1,59}", name)


def test_long_names_that_begin_alike_stay_apart() -> None:
    names = {remote_name("files", f"{'read' * 20}{number}") for number in range(100)}

    assert len(names) == 100
    assert {len(name) for name in names} == {MAX_NAME}


def test_a_program_is_a_server() -> None:
    server = MCPServer.stdio("files", "npx", ["-y", "files"], {"TOKEN": "x"}, "/srv", timeout=5, tools=["read"])

    assert server == MCPServer(
        name="files",
        command="npx",
        args=("-y", "files"),
        env={"TOKEN": "x"},
        cwd="/srv",
        timeout=5,
        tools=("read",),
    )


def test_an_address_is_a_server() -> None:
    server = MCPServer.http("files", "https://example.org/mcp", {"Authorization": "Bearer x"}, connect_timeout=1)

    assert server == MCPServer(
        name="files", url="https://example.org/mcp", headers={"Authorization": "Bearer x"}, connect_timeout=1
    )


@pytest.mark.parametrize(
    "server",
    [
        MCPServer.stdio("files", "npx", ["-y"], {"A": "b"}, "/srv", tools=["read"]),
        MCPServer.http("files", "http://127.0.0.1:80/mcp?x=1", {"X-A": "b"}, tools=[]),
    ],
    ids=["stdio", "http"],
)
def test_a_server_can_stand_in_a_configuration(server: MCPServer) -> None:
    written = msgspec.json.encode(server)

    assert msgspec.json.decode(written, type=MCPServer) == server


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"name": " "}, "it has no name"),
        ({"command": None}, "either a `command` or a `url`"),
        ({"url": "http://example.org"}, "either a `command` or a `url`"),
        ({"command": " "}, "its `command` is empty"),
        ({"command": None, "url": "http://example.org", "args": ("a",)}, "belong to a `command`"),
        ({"command": None, "url": "http://example.org", "cwd": "/"}, "belong to a `command`"),
        ({"headers": {"A": "b"}}, "`headers` belong to a `url`"),
        ({"command": None, "url": "ftp://example.org"}, "not an http:// or https:// address"),
        ({"command": None, "url": "http:///path"}, "not an http:// or https:// address"),
        ({"command": None, "url": "http://example.org", "headers": {"A b": "c"}}, "the header 'A b' cannot be sent"),
        ({"command": None, "url": "http://example.org", "headers": {"A": "b\r\nc"}}, "the header 'A' cannot be sent"),
        ({"command": None, "url": "http://example.org", "headers": {"A": "é"}}, "the header 'A' cannot be sent"),
        ({"env": {"": "x"}}, "the environment variable '' cannot be set"),
        ({"env": {"A=B": "x"}}, "the environment variable 'A=B' cannot be set"),
        ({"env": {"A": "x\0"}}, "the environment variable 'A' cannot be set"),
        ({"args": ("a\0",)}, "no NUL"),
        ({"timeout": 0}, "`timeout` must be a number of seconds above 0"),
        ({"connect_timeout": math.inf}, "`connect_timeout` must be a number of seconds above 0"),
        ({"args": (1,)}, "`$.args[0]`"),
    ],
)
def test_a_server_that_cannot_be_reached_like_that_is_refused_by_name(fields: Mapping[str, Any], what: str) -> None:
    wrong = msgspec.structs.replace(MCPServer(name="files", command="npx"), **fields)

    with pytest.raises(ConfigurationError) as refused:
        check_server(wrong)

    assert str(refused.value).startswith(f"MCP server {wrong.name!r}: ")
    assert what in str(refused.value)


def test_a_server_may_answer_when_it_likes() -> None:
    assert MCPServer.stdio("files", "npx", timeout=None).timeout is None


HIDDEN = "mellon-mellon"
KEEPERS = [
    MCPServer.stdio("files", "npx", [f"--token={HIDDEN}"], {"TOKEN": HIDDEN}),
    MCPServer.http("files", f"https://me:{HIDDEN}@example.org/mcp?key={HIDDEN}", {"Authorization": f"Bearer {HIDDEN}"}),
]


@pytest.mark.parametrize("server", KEEPERS, ids=["stdio", "http"])
def test_a_server_shows_no_secret(server: MCPServer) -> None:
    shown = f"{server!r} {server} {dict(server.__rich_repr__())}"

    assert HIDDEN not in shown
    assert "files" in shown
    assert "not shown" in shown


def test_a_server_shows_where_it_is() -> None:
    assert repr(MCPServer.http("files", "https://me:x@example.org/mcp?key=y")) == (
        "MCPServer(name='files', url='https://example.org/mcp')"
    )
    assert repr(MCPServer.http("files", "https://example.org")) == "MCPServer(name='files', url='https://example.org')"
    assert repr(MCPServer.stdio("files", "npx")) == "MCPServer(name='files', command='npx')"


@pytest.mark.parametrize("server", KEEPERS, ids=["stdio", "http"])
def test_a_secret_is_taken_out_of_what_is_told(server: MCPServer) -> None:
    assert server.without_secrets(f"denied: {HIDDEN}!") == "denied: …!"


def test_the_variables_of_a_server_are_those_that_its_settings_name() -> None:
    program = MCPServer.stdio("files", "npx", ["--key=${A}"], {"TOKEN": "${B}-${A}"})
    remote = MCPServer.http("files", "https://example.org?key=${C}", {"Authorization": "Bearer ${D}"})

    assert variables_of(program) == {"A", "B"}
    assert variables_of(remote) == {"C", "D"}


def test_what_is_too_short_to_be_a_secret_stays() -> None:
    server = MCPServer.stdio("files", "npx", env={"DEBUG": "1"})

    assert server.without_secrets("1 of 10 files") == "1 of 10 files"


def test_variables_of_the_environment_are_put_in() -> None:
    server = MCPServer.stdio("files", "npx", ["--for=${WHO}"], {"TOKEN": "a-${KEY}-${KEY}", "PLAIN": "$KEY {KEY}"})

    resolved = server.resolved({"WHO": "me", "KEY": "x"})

    assert resolved.args == ("--for=me",)
    assert resolved.env == {"TOKEN": "a-x-x", "PLAIN": "$KEY {KEY}"}
    assert resolved.url is None


def test_variables_are_put_into_an_address_and_its_headers() -> None:
    server = MCPServer.http("files", "http://${HOST}/mcp", {"Authorization": "Bearer ${KEY}"})

    resolved = server.resolved({"HOST": "example.org", "KEY": "x"})

    assert (resolved.url, resolved.headers) == ("http://example.org/mcp", {"Authorization": "Bearer x"})


def test_a_variable_that_is_not_set_is_named() -> None:
    server = MCPServer.stdio("files", "npx", env={"TOKEN": "${FILES_TOKEN}"})

    with pytest.raises(ConfigurationError, match="'files' needs the environment variable FILES_TOKEN, which is not"):
        server.resolved({})
