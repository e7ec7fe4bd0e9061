"""A session with an MCP server, through the official `mcp` package: its tools and their results."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import logging
import re
import ssl
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import cache, partial
from typing import Protocol, TypeVar

import httpx2
import msgspec
from anyio.abc import ObjectReceiveStream
from jsonschema import Draft202012Validator, SchemaError
from mcp import Client, MCPError, types
from mcp.client import IncomingMessage, Transport
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCResponse
from mcp.types.methods import validate_server_result

from reenact._version import version
from reenact.actors.environment.received_json import is_json_object
from reenact.actors.environment.tools.mcp.errors import ErrorReporter, LostError, UnknownSessionError, cause_of
from reenact.actors.environment.tools.mcp.stdio import MAX_LINE, StdioTransport
from reenact.actors.environment.tools.outcome import ToolOutcome, error_text, failure
from reenact.actors.environment.tools.running import in_thread
from reenact.domain.errors import ConfigurationError
from reenact.domain.loop.calls import json_text
from reenact.domain.plain import Json, JsonDict, JsonObject
from reenact.domain.tools import MCPServer, ToolSpec, check_spec, is_property_name, remote_name

IMAGES = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})
_OTHER_NAMES = {"image/jpg": "image/jpeg"}
PDF = "application/pdf"

_LEFT_OUT_OF_SCHEMAS = ("$schema", "oneOf", "anyOf", "allOf")
_VALUES = frozenset({"const", "default", "enum", "examples"})
"""Keywords of schemas that hold values, not schemas."""
_NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9_.-]")
_LONGEST = 64
MOST_PAGES = 100
"""The most pages of tools that are requested from a server."""

_CONNECTION_CLOSED = "Connection closed"
_SESSION_TERMINATED = "Session terminated"
_log = logging.getLogger("reenact.tools")


class ListedTool(msgspec.Struct, frozen=True):
    """A tool of a server: its spec, its name at the server, and the server's names of renamed arguments."""

    spec: ToolSpec
    name: str
    renamed: Mapping[str, str]


class Session:
    """The requests to a server; `changed` is called when its tools may have changed."""

    def __init__(self, report: ErrorReporter, client: Client, changed: Callable[[], None]) -> None:
        self._server = report.server
        self._without_secrets = report.without_secrets
        self._client = client
        self._changed = changed
        self._listening: asyncio.Task[None] | None = None

    async def tools(self) -> list[ListedTool]:
        """Return the server's tools, sorted by name.

        Raises:
            ConfigurationError: two cannot be told apart.
        """
        offered = self._client.server_capabilities.tools
        if offered is None:
            return []
        if offered.list_changed and (self._listening is None or self._listening.done()):
            self._listening = asyncio.create_task(self._listen(), name=f"mcp {self._server.name}")
        found: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await self._client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        return await in_thread(partial(listed, self._server, found), "reenact-mcp")  # 5 ms a tool, for its schema

    async def call(self, tool: ListedTool, arguments: Mapping[str, object]) -> ToolOutcome:
        """Run a tool; a failure that it reports is an outcome.

        Raises:
            LostError, UnknownSessionError: see these classes.
        """
        given = {tool.renamed.get(name, name): value for name, value in arguments.items()}
        try:
            result = await self._client.call_tool(tool.name, given)
        except MCPError as error:
            if error.message == _CONNECTION_CLOSED:
                raise LostError(_CONNECTION_CLOSED) from error
            if error.message == _SESSION_TERMINATED:
                raise UnknownSessionError from error
            return failure(self._without_secrets(f"{tool.spec.name}: {error.message}"))
        except (RuntimeError, ValueError) as error:  # the response does not fit the protocol or the tool
            return failure(self._without_secrets(f"{tool.spec.name}: {error_text(error)}"))
        return outcome_of_result(result)

    async def stop_listening(self) -> None:
        """Stop listening for changes of the tools."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait((self._listening,))

    async def _listen(self) -> None:
        """Listen for changes of the tools: from protocol 2026-07-28 on, servers report them only to those who listen.

        A server that does not let us listen is not asked again; a stream that was lost is opened again with the next
        list of tools.
        """
        with contextlib.suppress(MCPError, RuntimeError):  # older protocols, refusals, lost streams
            async with self._client.listen(tools_list_changed=True) as changes:
                try:
                    self._changed()  # they may have changed after they were listed
                    async for _ in changes:
                        self._changed()
                finally:
                    self._changed()


@asynccontextmanager
async def open_session(
    *, lost: Callable[[], None], changed: Callable[[], None], report: ErrorReporter
) -> AsyncGenerator[Session]:
    """Connect to the report's server, and yield the session; the block must be left by the task that entered it.

    `lost` is called when the connection has ended, `changed` when the server reports that its tools have changed. The
    report is updated with the server's status and output.

    Raises:
        MCPServerError: the server could not be reached.
    """
    server = report.server

    async def handle(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed()

    async with AsyncExitStack() as stack:
        transport = await _transport(stack, lost, report)
        ourselves = types.Implementation(name="reenact", version=version())
        filter_ = ToolListFilter(server.name)
        client = Client(filter_.streams(transport), client_info=ourselves, message_handler=handle, cache=None)
        try:
            async with asyncio.timeout(server.connect_timeout):
                await stack.enter_async_context(client)
                filter_.version = client.protocol_version
        except TimeoutError:
            raise report.unreachable(f"no answer within {server.connect_timeout:g} s") from None
        except Exception as error:
            raise report.unreachable(cause_of(error)) from error
        session = Session(report, client, changed)
        stack.push_async_callback(session.stop_listening)
        yield session


async def _transport(stack: AsyncExitStack, lost: Callable[[], None], report: ErrorReporter) -> Transport:
    server = report.server
    if server.url is None:
        program = StdioTransport(report, lost)
        report.status, report.last_output = program.status, program.last_output
        return program

    async def check(response: httpx2.Response) -> None:
        status = f"HTTP status {response.status_code}" if response.is_error else ""
        report.status = lambda: status
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _BoundedBody(response)

    http = httpx2.AsyncClient(
        headers={"Accept-Encoding": "identity", **server.headers},
        verify=await asyncio.to_thread(_ssl_context),
        timeout=httpx2.Timeout(server.connect_timeout, read=None),  # the caller limits the time of an answer
        event_hooks={"response": [check]},
    )
    await stack.enter_async_context(http)
    return streamable_http_client(server.url, http_client=http, max_sse_event_size=MAX_LINE)


class _BoundedBody(httpx2.AsyncByteStream):
    """A response, up to the size of a message; one that is compressed is refused, as its size is not known."""

    def __init__(self, response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._body = response.stream
        self._is_compressed = response.headers.get("content-encoding", "identity") != "identity"

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        size = 0
        async for part in self._body:
            size += len(part)
            if size > MAX_LINE or self._is_compressed:
                what = "is compressed" if self._is_compressed else f"has more than {MAX_LINE:,} bytes"
                raise httpx2.StreamError(f"the response {what}")
            yield part

    async def aclose(self) -> None:
        await self._body.aclose()


@cache
def _ssl_context() -> ssl.SSLContext:
    """Return an SSL context with trusted certificates; reading them takes 50 ms, too long for the event loop."""
    return httpx2.create_ssl_context()


class Incoming(Protocol):
    """The messages of a server."""

    async def receive(self) -> SessionMessage | Exception: ...
    async def aclose(self) -> None: ...


Outgoing = TypeVar("Outgoing")


class ToolListFilter:
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

    def __init__(self, filter_: ToolListFilter, incoming: Incoming) -> None:
        self._filter = filter_
        self._incoming = incoming

    async def receive(self) -> SessionMessage | Exception:
        received = await self._incoming.receive()
        self._filter.check(received)
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


def listed(server: MCPServer, tools: Sequence[types.Tool]) -> list[ListedTool]:
    """Return the tools, sorted by name, without those that the Messages API would refuse, and with them all others.

    Raises:
        ConfigurationError: two tools cannot be told apart.
    """
    found: dict[str, ListedTool] = {}
    for tool in tools:
        try:
            one = _listed(server, tool)
        except ConfigurationError as error:
            _log.warning("MCP server %r: a tool is left out: %s", server.name, error)
            continue
        if (other := found.setdefault(one.spec.name, one)) is not one:
            raise ConfigurationError(
                f"MCP server {server.name!r}: {other.name!r} and {one.name!r} would both be named {one.spec.name}"
            )
    return [found[name] for name in sorted(found)]


def _listed(server: MCPServer, tool: types.Tool) -> ListedTool:
    given = _with_prefix_items(tool.input_schema)
    schema = {key: value for key, value in given.items() if key not in _LEFT_OUT_OF_SCHEMAS}
    properties = schema.get("properties", {})
    renamed: dict[str, str] = {}
    if is_json_object(properties):
        renamed = _renamed(properties)
        to_new = {old: new for new, old in renamed.items()}
        schema["properties"] = {to_new.get(name, name): of for name, of in properties.items()}
        if isinstance(required := schema.get("required"), list):
            schema["required"] = [to_new.get(str(name), name) for name in required]
    hints = tool.annotations
    spec = ToolSpec(
        name=remote_name(server.name, tool.name),
        description=tool.description or tool.title or "",
        input_schema=schema,
        idempotent=hints is not None and bool(hints.idempotent_hint or hints.read_only_hint),
        timeout=server.timeout,
    )
    check_spec(spec)
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ConfigurationError(f"tool {spec.name!r}: its schema is not valid: {error.message}") from None
    except RecursionError:
        raise ConfigurationError(f"tool {spec.name!r}: its schema is nested too deeply") from None
    return ListedTool(spec, tool.name, renamed)


def _with_prefix_items(schema: JsonObject) -> JsonDict:
    """Return a schema of JSON Schema draft 7 with its lists of `items` as draft 2020-12, which the API takes, has them.

    Many servers describe tuples this way.
    """
    made = {name: of if name in _VALUES else _with_newer_parts(of) for name, of in schema.items()}
    if isinstance(schema.get("items"), list):
        made["prefixItems"] = made.pop("items")
        if "additionalItems" in made:
            made["items"] = made.pop("additionalItems")
    return made


def _with_newer_parts(part: Json) -> Json:
    if is_json_object(part):
        return _with_prefix_items(part)
    return [_with_newer_parts(one) for one in part] if isinstance(part, list) else part


def _renamed(properties: Mapping[str, object]) -> dict[str, str]:
    """Return new names for arguments whose names the Messages API refuses, each mapped to the old name."""
    new: dict[str, str] = {}
    for name in properties:
        if not is_property_name(name):
            base = fit = _NOT_ALLOWED.sub("_", name)[:_LONGEST] or "_"
            number = 1
            while fit in properties or fit in new:
                number += 1
                fit = f"{base[: _LONGEST - len(str(number)) - 1]}_{number}"
            new[fit] = name
    return new


def outcome_of_result(result: types.CallToolResult) -> ToolOutcome:
    """Return the outcome of a call: its content, or, if there is none, its structured content as JSON."""
    blocks = [block for item in result.content for block in _blocks(item)]
    if not blocks and result.structured_content is not None:
        return ToolOutcome(json_text(result.structured_content), is_error=result.is_error)
    if all(block["type"] == "text" for block in blocks):
        return ToolOutcome("\n".join(str(block["text"]) for block in blocks), is_error=result.is_error)
    return ToolOutcome(tuple(blocks), is_error=result.is_error)


def _blocks(item: types.ContentBlock) -> Iterator[JsonObject]:
    match item:
        case types.TextContent(text=text):
            yield _text(text)
        case types.ImageContent(data=data, mime_type=kind) | types.AudioContent(data=data, mime_type=kind):
            yield _binary(kind, data)
        case types.EmbeddedResource(resource=resource):
            yield _text(f"{resource.uri}:")
            yield _resource(resource)
        case types.ResourceLink(uri=uri, name=name, description=description):
            yield _text(f"[resource {name}: {uri}{f' ({description})' if description else ''}]")


def _resource(resource: types.TextResourceContents | types.BlobResourceContents) -> JsonObject:
    if isinstance(resource, types.TextResourceContents):
        return _text(resource.text)
    return _binary(resource.mime_type or "", resource.blob)


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _binary(kind: str, data: str) -> JsonObject:
    """Return an image or a document; other binary data, which a model cannot be shown, is replaced by a note."""
    kind = kind.partition(";")[0].strip().lower()
    kind = _OTHER_NAMES.get(kind, kind)
    unbroken = "".join(data.split())  # some servers break it into lines, as in mails
    if (kind in IMAGES or kind == PDF) and _is_base64(unbroken):
        source = {"type": "base64", "media_type": kind, "data": unbroken}
        return {"type": "document" if kind == PDF else "image", "source": source}
    return _text(f"[{kind or 'binary data'} of {len(data):,} characters in base64: it cannot be shown]")


def _is_base64(data: str) -> bool:
    try:
        return bool(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return False
