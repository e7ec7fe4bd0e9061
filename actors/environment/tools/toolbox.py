"""Collections of tools by name: the tools of one agent, which its model calls, and those that images refer to.

The log holds the definitions of tools, and no code. So the functions are given each time a runtime opens, with
`Runtime.open(..., tools=[…])`, or with the image that is registered; an agent finds them by their names.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self, TypeAlias, TypeVar

import msgspec

from reenact.actors.environment.tools.arguments import ToolContext
from reenact.actors.environment.tools.mcp.connection import MCPConnection, RemoteTool
from reenact.actors.environment.tools.outcome import MAX_OUTPUT, ToolOutcome, error_text, failure, outcome_of
from reenact.actors.environment.tools.running import EscapedError, ExpiredError, within
from reenact.actors.environment.tools.tool import AnyTool, as_tool, is_tool
from reenact.domain.errors import ConfigurationError, ReenactError, ToolUnavailableError
from reenact.domain.image import Definition, Image
from reenact.domain.plain import is_sequence
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.reading import names_in, nearest, unknown_names
from reenact.domain.tools import InvalidArgumentsError, MCPServer, ToolSpec, remote_prefix

_log = logging.getLogger("reenact.tools")


R = TypeVar("R", bound="Runnable")
Offered: TypeAlias = AnyTool | ToolSpec | MCPServer | MCPConnection | Callable[..., object]


class Toolbox:
    """Tools by name. It belongs to the event loop that uses it first.

    Takes tools, plain functions, MCP servers, shared connections to MCP servers, and specs of tools without a function:
    the model sees these, and a call of one is answered with an error. `max_output` is in bytes of text, of one result.
    If `policies` name a tool that its server turns out not to have, the server's tools that no policy names are not
    run: one of them may be meant.
    """

    def __init__(
        self, tools: Iterable[Offered] = (), *, max_output: int = MAX_OUTPUT, policies: Policies | None = None
    ) -> None:
        """Add the tools.

        Raises:
            ConfigurationError: one is not a tool, or two have the same name.
        """
        self._max_output = max_output
        self._local: dict[str, Runnable] = {}
        self._remote: dict[str, Runnable] = {}
        self._connections: dict[str, MCPConnection] = {}
        self._own_connections: list[MCPConnection] = []
        self._told: dict[str, str] = {}
        self._policies = policies or Policies()
        self._refused: dict[str, str] = {}
        for one in tools:
            self._add_offered(one)

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the specs for the model, always in the same order: as given, then each server's tools by name.

        A server's tools are known once `connect` has returned.
        """
        return tuple(one.spec for tools in (self._local, self._remote) for one in tools.values())

    def get(self, name: str) -> Runnable | None:
        """Return the tool of this name, if there is one."""
        return self._local.get(name) or self._remote.get(name)

    def check_tool(self, name: str) -> None:
        """Raise `ToolUnavailableError` if only the spec of the tool is known, and its function is missing."""
        found = self.get(name)
        if isinstance(found, _UnavailableTool) and found.spec.handover is None:
            raise ToolUnavailableError(name)

    async def connect(self) -> dict[str, ReenactError]:
        """List the tools of each server that has not listed them or reports a change; return the errors by server.

        The tools of a server that cannot be reached stay known if they were known before. Such a server is not
        contacted for a while, so that this returns at once.
        """
        if not self._connections:
            return {}
        connections = self._connections.values()
        results = await asyncio.gather(*(one.tools() for one in connections), return_exceptions=True)
        remote: dict[str, Runnable] = {}
        problems: dict[str, ReenactError] = {}
        for connection, result in zip(connections, results, strict=True):
            name = connection.server.name
            if isinstance(result, ReenactError):
                problems[name] = result
            elif isinstance(result, BaseException):
                raise result
            found = {one.spec.name: one for one in connection.used}
            if taken := sorted(found.keys() & {*self._local, *remote}):
                problems[name] = ConfigurationError(f"MCP server {name!r} has tools whose names are taken: {taken}")
            else:
                remote |= found
        for name, problem in problems.items():
            if str(problem) != self._told.get(name):
                _log.warning("the tools of MCP server %r are not all there: %s", name, problem)
        self._told = {name: str(problem) for name, problem in problems.items()}
        self._remote = remote
        self._refused = self._refused_tools()
        return problems

    async def call(
        self,
        name: str,
        arguments: Mapping[str, object],
        context: ToolContext | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - an outcome reports it, instead of an exception
    ) -> ToolOutcome:
        """Run a tool; an error is an outcome too, which tells the model. Raises nothing but cancellation.

        The tool has `timeout` seconds, or those of its spec if they are fewer. After that a coroutine is cancelled; a
        thread goes on, and its result is dropped.
        """
        started = time.perf_counter()
        outcome = await self._run(name, arguments, context, timeout)
        return msgspec.structs.replace(outcome, duration=time.perf_counter() - started)

    async def aclose(self) -> None:
        """Close the connections that were opened for given servers, which ends those that are programs. Idempotent."""
        await asyncio.gather(*(connection.aclose() for connection in self._own_connections))

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def _refused_tools(self) -> dict[str, str]:
        """Return, by name, why tools of servers may not run."""
        unheld: dict[str, str] = {}
        for connection in self._connections.values():
            server, names = connection.server.name, [one.spec.name for one in connection.known]
            named = [name for name in names_in(self._policies) if name.startswith(remote_prefix(server))]
            unknown = unknown_names(named, names) if connection.was_asked else []
            if unknown:
                meant = nearest(unknown[0], names)
                why = f"a policy is for {unknown[0]}, which MCP server {server!r} does not have; {meant}"
                unheld |= {name: why for name in names if not self._policies.has_policy(name)}
        return unheld

    def _add_offered(self, one: Offered) -> None:
        match one:
            case MCPServer():
                self._own_connections.append(connection := MCPConnection(one))
                self._add_connection(connection)
            case MCPConnection():
                self._add_connection(one)
            case ToolSpec():
                _add(self._local, _UnavailableTool(one))
            case _:
                _add(self._local, as_tool(one))

    def _add_connection(self, connection: MCPConnection) -> None:
        if self._connections.setdefault(connection.server.name, connection) is not connection:
            raise ConfigurationError(
                f"two MCP servers are named {connection.server.name!r}; give one of them another name"
            )

    async def _run(
        self, name: str, arguments: Mapping[str, object], context: ToolContext | None, at_most: float | None
    ) -> ToolOutcome:
        seconds = at_most
        try:
            if self.get(name) is None and any(not connection.was_asked for connection in self._connections.values()):
                await self.connect()
            found = self.get(name)
            if found is None:
                names = ", ".join((*self._local, *self._remote)) or "none"
                return failure(f"Tool not found: {name}; there are: {names}", limit=self._max_output)
            if name in self._refused:
                return failure(f"{name} cannot be run: {self._refused[name]}", limit=self._max_output)
            seconds = min((one for one in (at_most, found.spec.timeout) if one is not None), default=None)
            result = await within(seconds, found.run(arguments, context))
            return outcome_of(result, tool=name, limit=self._max_output)
        except ExpiredError:
            return failure(f"{name} did not finish within {seconds:g} s")
        except InvalidArgumentsError as error:
            return failure(str(error), limit=self._max_output)
        except Exception as error:  # noqa: BLE001 - it is logged, and reported to the model
            raised = error.error if isinstance(error, EscapedError) else error
            _log.warning("tool %s has failed", name, exc_info=raised, extra={"tool": name})
            return failure(error_text(raised), limit=self._max_output)


class _UnavailableTool:
    """A tool of which only the spec is known: its function was not given."""

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec

    async def run(self, arguments: Mapping[str, object], context: ToolContext | None = None) -> ToolOutcome:
        return failure(f"{self.spec.name} cannot be run: the function behind it is not there")


Runnable: TypeAlias = AnyTool | RemoteTool | _UnavailableTool
"""An entry of a toolbox: an object with a spec and a `run` method."""


class ToolRegistry:
    """The functions of the tools that images refer to: those of one image, and those for all images. Thread-safe."""

    def __init__(self, tools: Sequence[object] = ()) -> None:
        """Register the tools for all images.

        Raises:
            ConfigurationError: one is not a tool, or two have the same name.
        """
        self._lock = threading.Lock()
        self._of_all: dict[str, AnyTool] = {}
        for one in map(as_tool, _listed(tools)):
            _add(self._of_all, one)
        self._of_image: dict[tuple[str, str], AnyTool] = {}
        self._replaced: set[tuple[str, str]] = set()

    def with_specs(self, image: Image) -> Image:
        """Return the image with functions made tools, and names replaced by the registered tools.

        Raises:
            ConfigurationError: one cannot be a tool, or the runtime was opened without a tool of that name.
        """
        return msgspec.structs.replace(image, tools=tuple(map(self._resolved, _listed(image.tools))))

    def _resolved(self, one: object) -> object:
        if callable(one) and not hasattr(one, "spec"):
            return as_tool(one)
        if isinstance(one, str) and one not in self._of_all:
            known = ", ".join(sorted(self._of_all)) or "none"
            raise ConfigurationError(f"there is no tool {one!r}: Runtime.open(tools=[…]) was given {known}")
        return self._of_all[one] if isinstance(one, str) else one

    def add(self, image_id: str, image: Image) -> None:
        """Register the functions of an image's tools; those of a later image of the same id replace them."""
        with self._lock:
            for one in image.tools:
                if is_tool(one):
                    self._warn_if_replaced(image_id, one)
                    self._of_image[image_id, one.spec.name] = one

    def _warn_if_replaced(self, image_id: str, new: AnyTool) -> None:
        """Log once that a function is replaced: if each user's request has its own, users get those of others."""
        key = image_id, new.spec.name
        old = self._of_image.get(key, new)
        if old.function != new.function and key not in self._replaced:
            self._replaced.add(key)
            _log.warning("all sessions of image %r get another function for their tool %s", *key)

    def find(self, image_id: str, definition: Definition) -> tuple[AnyTool | ToolSpec, ...]:
        """Return the image's tools; for a tool without a registered function, only its spec."""
        with self._lock:
            return tuple(
                self._of_image.get((image_id, spec.name))
                or self._of_image.get((definition.base or image_id, spec.name))
                or self._of_all.get(spec.name)
                or spec
                for spec in definition.tools
            )


def _add(tools: dict[str, R], one: R) -> None:
    if tools.setdefault(one.spec.name, one) is not one:
        raise ConfigurationError(f"two tools are named {one.spec.name!r}; give one of them another name: @tool(name=…)")


def _listed(tools: object) -> Sequence[object]:
    if is_sequence(tools):
        return tools
    raise ConfigurationError(f"tools must be a list of tools, not {tools!r}")
