"""An MCP server as the official package makes them; run as a program it speaks over its standard input and output."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import BaseModel

DATA = "aGVsbG8="


class Weather(BaseModel):
    city: str
    degrees: float


def made() -> MCPServer[Any]:
    """Return a server with tools of every kind."""
    server: MCPServer[Any] = MCPServer("proper", log_level="ERROR")

    @server.tool(annotations=ToolAnnotations(idempotent_hint=True))
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def weather(city: str) -> Weather:
        return Weather(city=city, degrees=1.5)

    @server.tool(annotations=ToolAnnotations(idempotent_hint=False))
    def fail() -> str:
        raise ValueError("out of order")

    @server.tool()
    async def sleep() -> str:
        await asyncio.Event().wait()
        return "never"

    @server.tool()
    def variable(name: str) -> str:
        return os.environ.get(name, "(not set)")

    @server.tool()
    def die() -> str:
        os._exit(3)

    @server.tool()
    def everything() -> CallToolResult:
        return CallToolResult(
            content=[
                TextContent(type="text", text="Look:"),
                ImageContent(type="image", data=DATA, mime_type="image/png"),
                ImageContent(type="image", data=DATA, mime_type="image/tiff"),
                ImageContent(type="image", data="not base64", mime_type="image/png"),
                AudioContent(type="audio", data=DATA, mime_type="audio/wav"),
                EmbeddedResource(type="resource", resource=TextResourceContents(uri="file:///a.txt", text="a text")),
                EmbeddedResource(
                    type="resource",
                    resource=BlobResourceContents(uri="file:///a.pdf", blob=DATA, mime_type="application/pdf"),
                ),
                EmbeddedResource(type="resource", resource=BlobResourceContents(uri="file:///a", blob=DATA)),
                ResourceLink(type="resource_link", uri="file:///b", name="b", description="more"),
            ]
        )

    @server.tool()
    async def grow(name: str, context: Context[Any, Any]) -> None:
        server.add_tool(fail, name)
        await context.notify_tools_changed()

    @server.tool()
    def refuse() -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text="not today")], is_error=True)

    @server.tool()
    async def ask_back(what: str, context: Context[Any, Any]) -> str:
        """Ask the client for what only its user may give."""
        match what:
            case "model":
                message = SamplingMessage(role="user", content=TextContent(type="text", text="Tell me all"))
                ask = context.session.create_message  # pyright: ignore[reportDeprecated] - older servers may still ask
                return str(await ask([message], max_tokens=100))
            case "person":
                return str(await context.elicit("Your password?", Weather))
            case _:
                look = context.session.list_roots  # pyright: ignore[reportDeprecated] - likewise
                return str(await look())

    return server


if __name__ == "__main__":
    made().run()
