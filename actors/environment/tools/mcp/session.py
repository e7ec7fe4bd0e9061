"""A session with an MCP server, by the official `mcp` package, which this module and those it is made of import."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from importlib.metadata import version
from typing import Any, Final

import httpx2
from mcp import Client, MCPError, types
from mcp.client import IncomingMessage, Transport
from mcp.client.streamable_http import streamable_http_client

from reenact.actors.environment.tools.mcp.content import Listed, listed, outcome_of_result
from reenact.actors.environment.tools.mcp.failures import ForgottenError, LostError, Reporter, root_of, unreachable
from reenact.actors.environment.tools.mcp.stdio import MAX_LINE, StdioTransport
from reenact.actors.environment.tools.outcome import ToolOutcome, failure, told
from reenact.domain.tools import MCPServer

MOST_PAGES: Final = 100
"""How many pages of tools a server may have."""

_trusting: Final = threading.Lock()
_CLOSED: Final = "Connection closed"
_FORGOTTEN: Final = "Session terminated"


class Session:
    """What can be asked of a server."""

    def __init__(self, server: MCPServer, client: Client) -> None:
        self._server = server
        self._client = client

    async def tools(self) -> list[Listed]:
        """Return the server's tools, by name.

        Raises:
            ConfigurationError: two cannot be told apart.
        """
        if self._client.server_capabilities.tools is None:
            return []
        found: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await self._client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        return listed(self._server, found)

    async def call(self, tool: Listed, arguments: Mapping[str, Any]) -> ToolOutcome:
        """Run a tool; what it says of a failure is an outcome.

        Raises:
            LostError, ForgottenError: see there.
        """
        given = {tool.renamed.get(name, name): value for name, value in arguments.items()}
        try:
            result = await self._client.call_tool(tool.name, given)
        except MCPError as error:
            if error.message == _CLOSED:
                raise LostError(_CLOSED) from error
            if error.message == _FORGOTTEN:
                raise ForgottenError from error
            return failure(self._server.without_secrets(f"{tool.spec.name}: {error.message}"))
        except (RuntimeError, ValueError) as error:  # what came is not what the protocol or the tool promises
            return failure(self._server.without_secrets(f"{tool.spec.name}: {told(error)}"))
        return outcome_of_result(result)


@asynccontextmanager
async def opened(
    server: MCPServer, *, lost: Callable[[], None], changed: Callable[[], None], report: Reporter
) -> AsyncGenerator[Session]:
    """Connect, and yield the session; the block must be left by the task that entered it.

    `lost` is called when the connection has ended, `changed` when the server has other tools. `report` then tells what
    is known of how the server fared.

    Raises:
        MCPServerError: the server could not be reached.
    """

    async def heard(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed()

    async with AsyncExitStack() as stack:
        transport = await _transport(stack, server, lost, report)
        client = Client(transport, client_info=_ourselves(), message_handler=heard, cache=None)
        try:
            async with asyncio.timeout(server.connect_timeout):
                await stack.enter_async_context(client)
        except TimeoutError:
            raise unreachable(server, f"no answer within {server.connect_timeout:g} s", report) from None
        except Exception as error:
            raise unreachable(server, told(root_of(error)), report) from error
        yield Session(server, client)


async def _transport(stack: AsyncExitStack, server: MCPServer, lost: Callable[[], None], report: Reporter) -> Transport:
    if server.url is None:
        program = StdioTransport(server, lost)
        report.status, report.said = program.status, program.said
        return program

    async def noted(response: httpx2.Response) -> None:
        status = f"HTTP status {response.status_code}" if response.is_error else ""
        report.status = lambda: status

    http = httpx2.AsyncClient(
        headers=server.headers,
        verify=await asyncio.to_thread(_trust),
        timeout=httpx2.Timeout(server.connect_timeout, read=None),  # how long an answer may take, its caller says
        event_hooks={"response": [noted]},
    )
    await stack.enter_async_context(http)
    return streamable_http_client(server.url, http_client=http, max_sse_event_size=MAX_LINE)


def _trust() -> ssl.SSLContext:
    with _trusting:
        return _trusted()


@cache
def _trusted() -> ssl.SSLContext:
    """Return whose certificates are trusted; reading them takes 50 ms, too long for the one loop of all sessions."""
    return httpx2.create_ssl_context()


def _ourselves() -> types.Implementation:
    return types.Implementation(name="reenact", version=version("reenact"))
