"""What an image may have for tools and servers, and what is said of anything else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reenact.domain.errors import ConfigurationError
from reenact.domain.image import Image, check_policy_names, define, known_policies, rules_of
from reenact.domain.policy.judge import judge
from reenact.domain.tools import MCPServer, ToolSpec

SEARCH = {"type": "web_search_20250305", "name": "web_search"}
FILES = MCPServer.stdio("files", "serve-files")
NAN = float("nan")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tools": 7}, "tools of image 'i' must be a tuple"),
        ({"tools": "bash"}, "tools of image 'i' must be a tuple"),
        ({"tools": (7,)}, "7 is not a tool"),
        ({"tools": ({"name": "x"},)}, "JSON with a `type`"),
        ({"tools": ({"type": "x", "n": NAN},)}, "JSON with a `type`"),
        ({"tools": (SEARCH, ToolSpec(name="web_search"))}, "more than one tool named 'web_search'"),
        ({"mcp_servers": FILES}, "mcp_servers of image 'i' must be a tuple"),
        ({"mcp_servers": (FILES, 7)}, "mcp_servers of image 'i' must be a tuple"),
        ({"mcp_servers": (FILES, FILES)}, "two MCP servers of the same name"),
        ({"max_steps": 0}, "max_steps of image 'i' must be a number from"),
        ({"cost_limit": "1.0"}, "a cost limit must be an amount of 0 or more, not '1.0'"),
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


TOOLS = (ToolSpec(name="send_mail"), ToolSpec(name="get_mail", intervention="never"), SEARCH)
LONG = MCPServer.stdio("s" * 80, "serve")


@pytest.mark.parametrize(
    ("policies", "meant"),
    [
        ({"send_mial": "always"}, "'send_mial'; is 'send_mail' meant"),
        ({"SEND_MAIL": "always"}, "'SEND_MAIL'; is 'send_mail' meant"),
        ({"sent_*": "always"}, "'sent_[*]'; "),
        ({"{send,sent}_mail": "always"}, "'sent_mail'; is 'send_mail' meant"),
        ({"web_serach": "always"}, "is 'web_search' meant"),
        ({"quite other": "always"}, "there are: get_mail, send_mail, web_search"),
        ({"mcp__flies__read": "always"}, "'mcp__flies__read'; there are"),
        ({"deny": ["send_mial"]}, "is 'send_mail' meant"),
        ({"deny": [{"tool": "send_mial"}]}, "is 'send_mail' meant"),
    ],
)
def test_policies_for_a_tool_that_there_is_not_are_refused_with_the_nearest_name(policies: Any, meant: str) -> None:  # noqa: ANN401
    defined = define(Image(tools=TOOLS, mcp_servers=(FILES,), policies=policies), "i")

    with pytest.raises(ConfigurationError, match=f"policies: there is no tool .*{meant}"):
        check_policy_names(defined)
    known = known_policies(defined)
    check_policy_names(msgspec.structs.replace(defined, policies=known))


@pytest.mark.parametrize(
    "policies",
    [
        None,
        {"send_*": "always", "get_mail": "never", "web_search": "first"},
        {"tools": {"{send,get}_mail": "always"}, "deny": ["delete_*", {"tool": "drop_?"}, "@built-in"]},
        {"allow": ["not_yet"]},
        {"mcp__files__anything": "always", "mcp__*": "always", "*__read": "first", f"mcp__{'s' * 80}"[:60]: "always"},
    ],
)
def test_policies_for_tools_that_there_are_or_that_a_server_may_have_are_taken(policies: Any) -> None:  # noqa: ANN401
    defined = define(Image(tools=TOOLS, mcp_servers=(FILES, LONG), policies=policies), "i")

    check_policy_names(defined)
    assert known_policies(defined) == defined.policies or "{" in str(policies)


def test_what_a_tool_says_of_itself_does_not_go_before_the_image_s_wildcards() -> None:
    policies = rules_of(define(Image(tools=TOOLS, policies={"get_*": "always"}), "i"), {}, 1).policies

    assert judge(policies, "get_mail", {}).decision == "ask"
    assert judge(rules_of(define(Image(tools=TOOLS), "i"), {}, 1).policies, "get_mail", {}).decision == "run"
