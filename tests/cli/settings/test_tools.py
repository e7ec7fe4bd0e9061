"""Where the command line takes tools, servers and policies from, and what is said when they are not right."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from reenact import MCPServer
from reenact.cli.settings.configuration import functions_of, load_tools, read_prices, read_servers
from reenact.domain.errors import ConfigurationError
from reenact.domain.loop.ledger import Price
from reenact.domain.tools import ToolSpec
from tests.cli.conftest import Run
from tests.cli.tools import TOOLS, Office

FIRST = '''
from reenact import tool

@tool
def first() -> str:
    """First."""
    return "1"
'''


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a directory of its own; what is imported from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("hands", "hands.left", "helper"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def names(*places: str) -> list[str]:
    return [tool.name if isinstance(tool, ToolSpec) else tool.spec.name for tool in load_tools(places)]


def test_every_tool_of_a_file_is_taken_in_its_order() -> None:
    Path("tools.py").write_text(TOOLS)

    assert names("tools.py") == ["ask_user", "send_mail", "get_weather", "read_lines", "fail"]
    assert [tool.spec.name for tool in functions_of(load_tools(["tools.py"]))][:2] == ["send_mail", "get_weather"]


@pytest.mark.parametrize("place", ["tools.py:first", "./tools.py:first", "tools:first", "tools"])
def test_a_tool_can_be_named_in_a_file_or_a_module(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.delitem(sys.modules, "tools", raising=False)
    Path("tools.py").write_text(FIRST)

    assert names(place) == ["first"]


def test_what_is_installed_is_not_looked_for_in_the_current_folder() -> None:
    Path("reenact.py").write_text("raise SystemExit('of the project')")
    Path("helper.py").write_text(FIRST)

    assert names("reenact:ask_user") == ["ask_user"]
    assert str(Path.cwd()) not in sys.path
    assert names("helper:first") == ["first"]
    assert sys.path[-1] == str(Path.cwd())


def test_a_module_may_be_in_a_package_and_a_file_may_import_its_neighbours() -> None:
    Path("hands").mkdir()
    Path("hands/left.py").write_text(FIRST)
    Path("helper.py").write_text("ANSWER = '2'\n")
    Path("second.py").write_text(
        FIRST.replace("first", "second").replace('"1"', "ANSWER") + "\nfrom helper import ANSWER\n"
    )

    assert names("hands.left", "second.py") == ["first", "second"]


def test_a_plain_function_is_a_tool_if_it_is_named_and_so_are_several() -> None:
    Path("plain.py").write_text('def add(a: int, b: int) -> int:\n    """Add."""\n    return a + b\n\nBOTH = [add]\n')

    assert names("plain.py:add") == ["add"]
    assert names("plain.py:BOTH") == ["add"]


def test_a_tool_that_is_named_twice_is_there_once() -> None:
    Path("hands").mkdir()
    Path("hands/left.py").write_text(FIRST)

    assert names("hands.left", "hands.left:first") == ["first"]


def test_the_library_has_a_tool_of_its_own() -> None:
    assert names("reenact:ask_user") == ["ask_user"]


@pytest.mark.parametrize(
    ("content", "where", "why"),
    [
        ("def f(:\n", "bad.py, line 1", "SyntaxError"),
        ("x = 1\nimport nowhere_to_be_found\n", "bad.py, line 2", "ModuleNotFoundError"),
        ("\n\nraise RuntimeError('boom')\n", "bad.py, line 3", "RuntimeError: boom"),
        ("def f():\n    raise ValueError\nf()\n", "bad.py, line 2", "ValueError"),
        ("import sys\nsys.exit(3)\n", "bad.py, line 2", "SystemExit: 3"),
        ("x = 1\n", "bad.py", "there is no tool in it"),
        ("from reenact import tool\n\n@tool\ndef f(a) -> str: ...\n", "bad.py, line 3", "ConfigurationError"),
    ],
)
def test_a_file_that_is_no_file_of_tools_is_refused_with_its_line(run: Run, content: str, where: str, why: str) -> None:
    Path("bad.py").write_text(content)

    done = run("-p", "Hello", "--tools", "bad.py", "--output-format", "json")

    assert done.code == 2
    assert done.result["error"]["type"] == "invalid_configuration"
    assert where in done.result["error"]["message"]
    assert why in done.result["error"]["message"]


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("missing.py", "there is no such file"),
        ("no_such_module", "No module named 'no_such_module'"),
        ("./tools", "it is neither a file that ends with .py nor the name of a module"),
        ("more/tools", "it is neither a file that ends with .py nor the name of a module"),
        ("tools.py:second", "tools.py has no 'second'"),
        ("tools.py:NUMBER", "1 is not a tool"),
        ("", "--tools"),
        (":", "--tools"),
        ("..", "--tools"),
    ],
)
def test_a_place_without_tools_is_refused(place: str, why: str) -> None:
    Path("tools.py").write_text(FIRST + "\nNUMBER = 1\n")

    with pytest.raises(ConfigurationError) as refused:
        load_tools([place])

    assert why in str(refused.value)


def test_two_tools_of_one_name_are_refused(run: Run) -> None:
    Path("one.py").write_text(FIRST)
    Path("two.py").write_text(FIRST)

    done = run("-p", "Hello", "--tools", "one.py", "--tools", "two.py")

    assert done.code == 2
    assert "first" in done.err


def test_servers_are_read_in_the_usual_form() -> None:
    file = {
        "mcpServers": {
            "files": {"command": "npx", "args": ["-y", "x"], "env": {"A": "b"}, "cwd": "/tmp", "disabled": False},  # noqa: S108
            "web": {"type": "http", "url": "https://example.org/mcp", "headers": {"Authorization": "${TOKEN}"}},
        }
    }
    Path("mcp.json").write_text(json.dumps(file))

    assert read_servers("mcp.json") == (
        MCPServer.stdio("files", "npx", ["-y", "x"], {"A": "b"}, "/tmp"),  # noqa: S108
        MCPServer.http("web", "https://example.org/mcp", {"Authorization": "${TOKEN}"}),
    )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "it is not valid JSON"),
        ("[]", '"mcpServers"'),
        ('{"servers": {}}', '"mcpServers"'),
        ('{"mcpServers": []}', '"mcpServers"'),
        ('{"mcpServers": {"a": 1}}', "mcpServers.a: Expected `object`"),
        ('{"mcpServers": {"a": {}}}', "mcpServers.a"),
        (
            '{"mcpServers": {"a": {"command": "x", "args": [1]}}}',
            "`int` - at `$.args[0]`",
        ),
        ('{"mcpServers": {"a": {"command": "x", "url": "http://x"}}}', "mcpServers.a: it has a `command` and a `url`"),
        ('{"mcpServers": {"a": {"url": "ftp://x"}}}', "mcpServers.a"),
        ('{"mcpServers": {"a": {"type": "sse", "url": "http://x"}}}', "mcpServers.a: transport `sse` is not supported"),
    ],
)
def test_servers_that_are_not_right_are_refused_with_their_place(run: Run, content: str, why: str) -> None:
    Path("mcp.json").write_text(content)

    done = run("-p", "Hello", "--mcp-config", "mcp.json")

    assert done.code == 2
    assert "--mcp-config mcp.json" in done.err
    assert why in done.err


@pytest.mark.parametrize("option", ["--mcp-config", "--policy"])
def test_a_file_that_is_not_there_is_named(run: Run, option: str) -> None:
    done = run("-p", "Hello", option, "nowhere.json")

    assert done.code == 2
    assert f"{option} nowhere.json: it cannot be read (No such file or directory)" in done.err


@pytest.mark.parametrize("option", ["--mcp-config", "--policy"])
@pytest.mark.parametrize("content", [b'{"caf\xe9": 1}', b"[" * 10_000], ids=["Latin-1", "deep"])
def test_a_file_that_no_json_decoder_takes_is_named(run: Run, option: str, content: bytes) -> None:
    Path("given.json").write_bytes(content)

    done = run("-p", "Hello", option, "given.json")

    assert done.code == 2
    assert f"{option} given.json: it is not valid JSON" in done.err


@pytest.mark.parametrize("content", ["{", "[]", '{"deny": 1}', '"x"'])
def test_policies_that_are_not_right_are_refused(run: Run, content: str) -> None:
    Path("policy.json").write_text(content)

    done = run("-p", "Hello", "--policy", "policy.json")

    assert done.code == 2
    assert "--policy policy.json" in done.err


def test_a_policy_for_a_tool_that_is_not_there_is_refused_with_the_nearest_name(run: Run, office: Office) -> None:
    Path("policy.json").write_text('{"send_*": "always", "read_line": "always"}')

    done = run("-p", "Hello", *office.tools, "--policy", "policy.json")

    assert (done.code, done.out) == (2, "")
    assert "--policy policy.json: policies: there is no tool 'read_line'; is 'read_lines' meant?" in done.err


def test_the_log_does_not_show_what_servers_are_told_in_secret(run: Run) -> None:
    server = {"command": "true", "args": ["--key=secret-1"], "env": {"KEY": "secret-2"}}
    Path("mcp.json").write_text(json.dumps({"mcpServers": {"files": server}}))
    run("-p", "Hello", "--mcp-config", "mcp.json")

    shown = run("log").out + run("log", "--output-format", "json").out

    assert '"name":"files"' in shown
    assert "secret" not in shown


def test_prices_are_per_million_tokens() -> None:
    assert read_prices(["claude-x=3,15", "a=b=0,0.5"]) == {"claude-x": Price(3, 15), "a=b": Price(0, 0.5)}
