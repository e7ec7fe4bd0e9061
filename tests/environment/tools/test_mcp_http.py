"""Tools of a server on the network: whatever becomes of it, calls have outcomes; when it is back, it is found again."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest

from reenact.actors.environment.tools.mcp import connection, session
from reenact.actors.environment.tools.outcome import ToolOutcome
from reenact.actors.environment.tools.toolbox import Toolbox
from reenact.domain.tools import MCPServer
from tests.environment.tools.servers import loopback
from tests.environment.tools.support import Invocation, call_all, find_added, problems_of, run

Json = dict[str, Any]
SOON = 0.2
HIDDEN = "mellon-mellon"


@pytest.fixture
def rough() -> Iterator[loopback.Rough]:
    with loopback.rough() as server:
        yield server


@pytest.mark.parametrize("json_response", [False, True], ids=["stream", "json"])
def test_the_tools_of_a_proper_server_are_offered_and_run(json_response: bool) -> None:  # noqa: FBT001 - two cases
    async def use(box: Toolbox) -> tuple[list[str], list[ToolOutcome], list[ToolOutcome]]:
        added = await call_all(box, [Invocation("mcp__proper__add", {"a": n, "b": n}) for n in range(10)])
        failed = [await box.call("mcp__proper__fail", {}), await box.call("mcp__proper__refuse", {})]
        return [spec.name for spec in box.specs()], added, failed

    with loopback.proper(json_response=json_response) as url:
        names, added, failed = run(use, MCPServer.http("proper", url))

    assert names[:2] == ["mcp__proper__add", "mcp__proper__ask_back"]
    assert [outcome.content for outcome in added] == [str(2 * n) for n in range(10)]
    assert [outcome.is_error for outcome in failed] == [True, True]


def test_servers_that_connect_later_share_the_certificates_which_are_not_read_on_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readers: list[threading.Thread] = []
    read = httpx2.create_ssl_context

    def reading() -> ssl.SSLContext:
        readers.append(threading.current_thread())
        return read()

    async def connect() -> None:
        for number in range(2):
            async with Toolbox([MCPServer.http(f"gone{number}", "http://127.0.0.1:9/mcp")]) as box:
                assert len(await box.connect()) == 1

    monkeypatch.setattr(httpx2, "create_ssl_context", reading)
    session._ssl_context.cache_clear()
    asyncio.run(connect())

    assert len(readers) == 1
    assert readers != [threading.current_thread()]


def test_a_call_that_takes_too_long_is_given_up_and_others_go_on() -> None:
    async def use(box: Toolbox) -> list[object]:
        slow = await box.call("mcp__proper__sleep", {}, timeout=SOON)
        return [slow.content, (await box.call("mcp__proper__add", {"a": 1, "b": 2})).content]

    with loopback.proper() as url:
        assert run(use, MCPServer.http("proper", url)) == ["mcp__proper__sleep did not finish within 0.2 s", "3"]


def test_a_server_that_was_away_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "FIRST_WAIT", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    async def use(box: Toolbox) -> list[ToolOutcome]:
        add = Invocation("mcp__proper__add", {"a": 1, "b": 2})
        away = await call_all(box, [add])
        with loopback.proper(port=port):
            problems = await box.connect()
            assert problems == {}
            there = await call_all(box, [add])
        gone = await call_all(box, [add])
        with loopback.proper(port=port):
            return [*away, *there, *gone, *await call_all(box, [add])]

    away, there, gone, again = run(use, MCPServer.http("proper", f"http://127.0.0.1:{port}/mcp"))

    assert str(away.content) == "Tool not found: mcp__proper__add; there are: none"
    assert (there.content, again.content) == ("3", "3")
    assert gone.is_error
    assert "MCP server 'proper'" in str(gone.content)


@pytest.mark.parametrize("json_response", [False, True], ids=["stream", "json"])
def test_tools_that_a_server_of_the_newest_protocol_adds_are_found(json_response: bool) -> None:  # noqa: FBT001 - two cases
    async def use(box: Toolbox) -> list[str]:
        return [await find_added(box, name) for name in ("first", "second")]

    with loopback.proper(json_response=json_response) as url:
        assert run(use, MCPServer.http("proper", url)) == ["first", "second"]


def test_tools_that_a_server_adds_are_found_after_the_stream_of_its_reports_was_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "FIRST_WAIT", 0.0)

    async def use(box: Toolbox) -> list[str]:
        found = [await find_added(box, "first")]
        await asyncio.to_thread(servers.close)
        port = int(url.rpartition(":")[2].partition("/")[0])
        await asyncio.to_thread(servers.enter_context, loopback.proper(port=port))
        return [*found, await find_added(box, "second"), await find_added(box, "third")]

    with ExitStack() as servers:
        url = servers.enter_context(loopback.proper())
        assert run(use, MCPServer.http("proper", url)) == ["first", "second", "third"]


def test_a_server_that_is_not_there_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    (problem,) = problems_of(MCPServer.http("nothing", f"http://127.0.0.1:{port}/mcp")).values()

    assert problem.startswith("MCP server 'nothing' could not be connected: ConnectError: ")


def test_a_server_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]

        (problem,) = problems_of(MCPServer.http("silent", f"http://127.0.0.1:{port}/mcp", connect_timeout=0.5)).values()

    assert problem == "MCP server 'silent' could not be connected: no answer within 0.5 s"


def test_a_server_with_sessions_is_given_its_headers_and_told_when_we_leave(rough: loopback.Rough) -> None:
    async def use(box: Toolbox) -> object:
        return (await box.call("mcp__rough__echo", {"a": 1})).content

    server = MCPServer.http("rough", rough.url, {"Authorization": f"Bearer {HIDDEN}"})

    assert run(use, server) == '{"a": 1}'
    assert rough.methods() == [
        "server/discover",
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/call",
        "DELETE",
    ]
    assert {headers["Authorization"] for _, headers in rough.asked} == {f"Bearer {HIDDEN}"}


def test_a_server_that_does_not_let_us_go_is_left(rough: loopback.Rough, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_CLOSING", SOON)
    rough.lets_go = False

    async def use(box: Toolbox) -> object:
        return (await box.call("mcp__rough__echo", {})).content

    assert run(use, MCPServer.http("rough", rough.url)) == "{}"
    assert rough.methods()[-1] == "DELETE"


def test_a_server_that_has_forgotten_us_is_greeted_again_and_asked_again(rough: loopback.Rough) -> None:
    async def use(box: Toolbox) -> object:
        rough.sessions.clear()
        return (await box.call("mcp__rough__echo", {"a": 1})).content

    assert run(use, MCPServer.http("rough", rough.url)) == '{"a": 1}'
    assert rough.methods().count("initialize") == 2
    assert rough.methods().count("tools/call") == 2


def test_a_connection_that_drops_in_the_middle_leaves_open_what_became_of_the_call(rough: loopback.Rough) -> None:
    async def use(box: Toolbox) -> list[ToolOutcome]:
        return [await box.call("mcp__rough__drop", {}), await box.call("mcp__rough__echo", {})]

    dropped, after = run(use, MCPServer.http("rough", rough.url))

    assert dropped.is_error
    assert "RemoteProtocolError" in str(dropped.content)
    assert str(dropped.content).endswith("whether it took effect is not known")
    assert after.content == "{}"


def test_an_interrupted_call_leaves_the_connection(rough: loopback.Rough) -> None:
    async def use(box: Toolbox) -> tuple[bool, object]:
        call = asyncio.create_task(box.call("mcp__rough__hang", {}))
        while "tools/call" not in rough.methods():  # noqa: ASYNC110 - the server is on another thread
            await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.wait([call])
        return call.cancelled(), (await box.call("mcp__rough__echo", {})).content

    assert run(use, MCPServer.http("rough", rough.url)) == (True, "{}")
    assert "notifications/cancelled" in rough.methods()


@pytest.mark.parametrize("name", ["break", "html"])
def test_an_answer_that_is_none_is_an_error_for_the_model(rough: loopback.Rough, name: str) -> None:
    async def use(box: Toolbox) -> list[ToolOutcome]:
        return [await box.call(f"mcp__rough__{name}", {}), await box.call("mcp__rough__echo", {})]

    wrong, after = run(use, MCPServer.http("rough", rough.url))

    assert wrong.is_error
    assert str(wrong.content).startswith(f"mcp__rough__{name}: ")
    assert after.content == "{}"


@pytest.mark.parametrize(
    ("name", "problem"), [("long", "has more than 50,000 bytes"), ("zip", "is compressed")], ids=["long", "zip"]
)
def test_a_response_without_end_or_with_one_that_cannot_be_known_is_not_read_to_its_end(
    rough: loopback.Rough, monkeypatch: pytest.MonkeyPatch, name: str, problem: str
) -> None:
    monkeypatch.setattr(session, "MAX_LINE", 50_000)

    async def use(box: Toolbox) -> list[ToolOutcome]:
        return [await box.call(f"mcp__rough__{name}", {}), await box.call("mcp__rough__echo", {})]

    wrong, after = run(use, MCPServer.http("rough", rough.url))

    assert wrong.is_error
    assert str(wrong.content).endswith(f"the response {problem}")
    assert after.content == "{}"
    assert all(headers["Accept-Encoding"] == "identity" for _, headers in rough.asked)


@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_server_that_refuses_us_is_told_with_its_status_and_no_secret(
    rough: loopback.Rough, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    rough.refuses = status

    (problem,) = problems_of(MCPServer.http("rough", rough.url, {"Authorization": f"Bearer {HIDDEN}"})).values()

    assert problem == (
        f"MCP server 'rough' could not be connected: MCPError: Server returned an error response; HTTP status {status}"
    )
    assert HIDDEN not in json.dumps([record.getMessage() for record in caplog.records])


def test_a_header_may_come_from_the_environment(rough: loopback.Rough, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUGH_TOKEN", HIDDEN)

    async def use(box: Toolbox) -> int:
        return len(box.specs())

    server = MCPServer.http("rough", rough.url, {"Authorization": "Bearer ${ROUGH_TOKEN}"})

    assert run(use, server) == len(loopback.TOOLS)
    assert rough.asked[0][1]["Authorization"] == f"Bearer {HIDDEN}"


def test_a_server_that_sends_us_elsewhere_is_not_followed_for_that_would_take_its_headers_along(
    rough: loopback.Rough,
) -> None:
    with loopback.rough() as elsewhere:
        rough.elsewhere = elsewhere.url
        (problem,) = problems_of(MCPServer.http("rough", rough.url, {"X-Api-Key": HIDDEN})).values()

    assert problem.startswith("MCP server 'rough' could not be connected: ")
    assert rough.asked != []
    assert elsewhere.asked == []
