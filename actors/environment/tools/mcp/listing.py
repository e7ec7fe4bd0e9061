"""Removes from the lists of a server what the `mcp` package must not get: malformed tools, and schemas of results."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol, TypeVar

from anyio.abc import ObjectReceiveStream
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCResponse
from mcp.types.methods import validate_server_result

from reenact.actors.environment.received_json import is_json_object
from reenact.domain.plain import Json, JsonObject

_log = logging.getLogger("reenact.tools")


class Incoming(Protocol):
    """The messages of a server."""

    async def receive(self) -> SessionMessage | Exception: ...
    async def aclose(self) -> None: ...


Outgoing = TypeVar("Outgoing")


class ListedTools:
    """Removes malformed tools from the lists of a server, once the `version` of its protocol is known."""

    def __init__(self, server: str) -> None:
        self.version: str | None = None
        self._server = server

    @asynccontextmanager
    async def streams(
        self, transport: AbstractAsyncContextManager[tuple[Incoming, Outgoing]]
    ) -> AsyncGenerator[tuple[CheckedMessages, Outgoing]]:
        """Open the transport, and check the messages that come in."""
        async with transport as (incoming, outgoing):
            yield CheckedMessages(self, incoming), outgoing

    def check(self, received: SessionMessage | Exception) -> None:
        """Remove the malformed tools from the message if it is a list of tools, each with a warning.

        Schemas of results are removed, too: the package would check results on the event loop, and a server can send a
        schema and a result with which that never ends.
        """
        if isinstance(received, SessionMessage) and isinstance(received.message, JSONRPCResponse):
            result = received.message.result
            if self.version is not None and isinstance(result.get("tools"), list):
                result["tools"] = [_without_output_schema(tool) for tool in self._well_formed(result, self.version)]

    def _well_formed(self, result: JsonObject, version: str) -> list[Json]:
        """Return the well-formed tools; all tools if none is."""
        tools = result["tools"]
        assert isinstance(tools, list)
        return [tool for tool in tools if self._is_well_formed(tool, result, version)] or tools

    def _is_well_formed(self, tool: Json, result: JsonObject, version: str) -> bool:
        mistake = _mistake({**result, "tools": [tool]}, version)
        if mistake:
            name = tool.get("name") if is_json_object(tool) else tool
            _log.warning("MCP server %r: a tool is left out: %.200r: %s", self._server, name, mistake)
        return not mistake


class CheckedMessages(ObjectReceiveStream[SessionMessage | Exception]):
    """The messages of a server, checked when they are received."""

    def __init__(self, tools: ListedTools, incoming: Incoming) -> None:
        self._tools = tools
        self._incoming = incoming

    async def receive(self) -> SessionMessage | Exception:
        received = await self._incoming.receive()
        self._tools.check(received)
        return received

    async def aclose(self) -> None:
        await self._incoming.aclose()


def _without_output_schema(tool: Json) -> Json:
    return {name: of for name, of in tool.items() if name != "outputSchema"} if is_json_object(tool) else tool


def _mistake(result: JsonObject, version: str) -> str:
    """Return where a list of tools is not as the protocol requires, and why; an empty text if it is."""
    try:
        validate_server_result("tools/list", version, result)
    except ValueError as error:
        _, *lines = str(error).splitlines()
        return ": ".join(line.strip().partition(" [")[0] for line in lines[:2]) or str(error)
    return ""
