"""What an image may have for tools and servers, and what is said of anything else."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.domain.errors import ConfigurationError
from reenact.domain.image import Image, define
from reenact.domain.tools import MCPServer, ToolSpec

SEARCH = {"type": "web_search_20250305", "name": "web_search"}
FILES = MCPServer.stdio("files", "serve-files")
NAN = float("nan")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tools": 7}, "tools of image 'i' are a tuple"),
        ({"tools": "bash"}, "tools of image 'i' are a tuple"),
        ({"tools": (7,)}, "7 is no tool"),
        ({"tools": ({"name": "x"},)}, "JSON with a `type`"),
        ({"tools": ({"type": "x", "n": NAN},)}, "JSON with a `type`"),
        ({"tools": (SEARCH, ToolSpec(name="web_search"))}, "more than one tool named 'web_search'"),
        ({"mcp_servers": FILES}, "mcp_servers of image 'i' are a tuple"),
        ({"mcp_servers": (FILES, 7)}, "mcp_servers of image 'i' are a tuple"),
        ({"mcp_servers": (FILES, FILES)}, "two MCP servers of the same name"),
        ({"max_steps": 0}, "max_steps of image 'i' is 0"),
    ],
)
def test_what_cannot_work_is_refused_by_its_name(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        define(Image(**fields), "i")


def test_tools_of_the_api_and_servers_are_kept_as_they_are() -> None:
    defined = define(Image(tools=(SEARCH, ToolSpec(name="bash")), mcp_servers=(FILES,), cost_limit=2.5), "i")

    assert defined.api_tools == (SEARCH,)
    assert [tool.name for tool in defined.tools] == ["bash"]
    assert defined.mcp_servers == (FILES,)
    assert defined.cost_limit is not None
    assert defined.cost_limit.max_total == 2.5
