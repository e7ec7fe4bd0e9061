"""What of an image can be sent, and what a server does not take from afar."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reenact import Image, MCPServer, ToolSpec, tool
from reenact.domain.errors import ConfigurationError, InvalidInputError
from reenact.domain.image import define
from reenact.domain.operations.images import check_from_afar, image_of, requested, travelling
from reenact.domain.operations.table import ImageContent
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.rules import Policy, Rule

WHOLE = Image(
    id="i",
    name="Kiosk",
    model="m",
    system_prompt="Be brief.",
    max_tokens=5,
    tools=(
        "look",
        ToolSpec(name="far"),
        {"name": "spec", "input_schema": {"type": "object"}},
        {"type": "bash_20250124", "name": "bash"},
    ),
    mcp_servers=(MCPServer.stdio("m", "prog", ["-x"], {"K": "v"}), MCPServer.http("h", "https://x", {"A": "b"})),
    policies=Policies(tools={"look": Policy("first", (Rule({"n": 1}, "deny"),))}, allow=("far",), deny=()),
    max_steps=None,
    max_repeats=2,
    cost_limit=2.5,
    compress_at=0,
)


def sent(image: Image) -> Image:
    """Return the image after it has travelled."""
    return image_of(msgspec.json.decode(msgspec.json.encode(travelling(requested(image))), type=ImageContent))


def names(image: Image) -> list[str]:
    return [one for one in image.tools if isinstance(one, str)]


def without_names(image: Image) -> Image:
    return msgspec.structs.replace(image, tools=tuple(one for one in image.tools if not isinstance(one, str)))


@pytest.mark.parametrize("image", [WHOLE, Image(), Image(id="i"), Image(policies={}), Image(policies=Policies())])
def test_an_image_that_has_travelled_means_what_it_meant(image: Image) -> None:
    arrived = sent(image)

    assert define(without_names(arrived), "i") == define(without_names(image), "i")
    assert names(arrived) == names(image)


def plain_function(text: str) -> str:
    """Say it."""
    return text


@pytest.mark.parametrize("function", [plain_function, tool(plain_function)])
def test_functions_stay_where_they_are(function: object) -> None:
    with pytest.raises(ConfigurationError, match=r"'plain_function' is a function, and tools run where the runtime is"):
        travelling(requested(Image(id="i", tools=(function,))))


NO_JSON: Any = object()


@pytest.mark.parametrize(
    ("image", "error"),
    [
        (None, InvalidInputError),
        (Image(id=" "), InvalidInputError),
        (Image(tools="look"), ConfigurationError),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        (Image(tools=(5,)), ConfigurationError),
        (Image(tools=({"name": "a", "input_schema": {}, "legs": 4},)), ConfigurationError),
        (Image(tools=({"name": "a", "input_schema": {}, "timeout": "long"},)), ConfigurationError),
        (Image(tools=({"input_schema": {}},)), ConfigurationError),
        (Image(tools=({},)), ConfigurationError),
        (Image(max_steps=0), ConfigurationError),
        (Image(policies={"look": {"rules": [{"when": {"n": float("nan")}, "mode": "deny"}]}}), ConfigurationError),
        (Image(policies=Policies(tools={"x": Policy("first", (Rule({"n": NO_JSON}, "deny"),))})), ConfigurationError),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_what_could_not_be_registered_is_not_sent(image: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        travelling(requested(image))


def refuses(data: dict[str, Any], type_: str = "image_register_request") -> str | None:
    """Return why it is refused."""
    try:
        check_from_afar(type_, data, allow_programs=False)
    except ConfigurationError as error:
        return str(error)
    return None


def with_server(**server: object) -> dict[str, Any]:
    return {"image": {"id": "i", "mcp_servers": [{"name": "harmless", "url": "https://x"}, {"name": "m", **server}]}}


def test_a_program_is_not_started_for_somebody_from_afar() -> None:
    assert "MCP server 'm' is a program" in (refuses(with_server(command="rm", args=["-rf", "/"])) or "")


@pytest.mark.parametrize("server", [{"url": "https://x/?k=${SECRET}"}, {"url": "https://x", "headers": {"A": "${S}"}}])
def test_environment_variables_are_not_told_to_somebody_from_afar(server: dict[str, object]) -> None:
    assert "MCP server 'm' names environment variables" in (refuses(with_server(**server)) or "")


@pytest.mark.parametrize(
    "data",
    [
        with_server(url="https://y"),
        with_server(command=None, url="https://y"),
        {"image": {"id": "i"}},
        {"image": {"mcp_servers": "all"}},
        {"image": {"mcp_servers": ["m"]}},
        {"image": "i"},
        {},
    ],
)
def test_everything_else_is_let_through(data: dict[str, Any]) -> None:
    assert refuses(data) is None


def test_what_registers_no_image_is_not_looked_at() -> None:
    assert refuses(with_server(command="rm"), "session_run_request") is None


def test_programs_may_be_allowed() -> None:
    check_from_afar("image_register_request", with_server(command="rm", args=["${X}"]), allow_programs=True)
