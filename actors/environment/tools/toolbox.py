"""The tools of one agent, by their names: told to the model, and called when it asks for them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, Self, TypeAlias

import msgspec

from reenact.actors.environment.tools.context import ToolContext
from reenact.actors.environment.tools.mcp.connection import MCPConnection
from reenact.actors.environment.tools.outcome import MAX_OUTPUT, ToolOutcome, failure, outcome_of, told
from reenact.actors.environment.tools.running import EscapedError, ExpiredError, within
from reenact.actors.environment.tools.tool import AnyTool, is_tool, tool
from reenact.domain.errors import ConfigurationError, ReenactError, ToolUnavailableError
from reenact.domain.loop.policy import Policies
from reenact.domain.loop.policy_names import names_in, nearest, unknown_names
from reenact.domain.tools import InvalidArgumentsError, MCPServer, ToolSpec, remote_prefix

_log: Final = logging.getLogger("reenact.tools")


class Runnable(Protocol):
    """What a toolbox holds: something with a spec that runs."""

    @property
    def spec(self) -> ToolSpec: ...
    async def run(self, arguments: Mapping[str, Any], context: ToolContext | None = None) -> Any: ...  # noqa: ANN401 - what it gives


Offered: TypeAlias = AnyTool | ToolSpec | MCPServer | MCPConnection | Callable[..., Any]


class Invocation(msgspec.Struct, frozen=True):
    """A call that is to be made; `timeout` is in seconds, and the tool's own holds besides."""

    name: str
    arguments: Mapping[str, Any]
    context: ToolContext | None = None
    timeout: float | None = None


class Toolbox:
    """Tools by their names. It belongs to the loop that uses it first.

    Takes tools, plain functions, MCP servers, connections to such that others may use as well, and specs of tools whose
    functions are not there: these are told to the model, and a call of one is answered with an error. `max_output` is
    in bytes of text, of one result. If a tool that `policies` name turns out not to be among those of its server, the
    server's tools that they do not name are not run: one of them may be meant.
    """

    def __init__(
        self, tools: Iterable[Offered] = (), *, max_output: int = MAX_OUTPUT, policies: Policies | None = None
    ) -> None:
        """Take the tools.

        Raises:
            ConfigurationError: one is no tool, or two have the same name.
        """
        self._max_output = max_output
        self._local: dict[str, Runnable] = {}
        self._remote: dict[str, Runnable] = {}
        self._connections: dict[str, MCPConnection] = {}
        self._own: list[MCPConnection] = []
        self._told: dict[str, str] = {}
        self._policies = policies or Policies()
        self._unheld: dict[str, str] = {}
        for one in tools:
            self._take(one)

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return what the model is told, always in the same order: as given, then each server's tools by name.

        A server's tools are known once `connect` has returned.
        """
        return tuple(one.spec for tools in (self._local, self._remote) for one in tools.values())

    def get(self, name: str) -> Runnable | None:
        """Return the tool of this name, if there is one."""
        return self._local.get(name) or self._remote.get(name)

    def check_tool(self, name: str) -> None:
        """Raise `ToolUnavailableError` if only the spec of the tool is there, and not its function."""
        if isinstance(self.get(name), _Absent):
            raise ToolUnavailableError(name)

    async def connect(self) -> dict[str, ReenactError]:
        """Ask each server for its tools that has not been asked, or has new ones; return what went wrong, by server.

        The tools of a server that cannot be reached now stay known if they were known before. Such a server is left
        alone for a while, so that this returns at once.
        """
        if not self._connections:
            return {}
        connections = self._connections.values()
        problems_of = await asyncio.gather(*(_problem_of(connection) for connection in connections))
        remote: dict[str, Runnable] = {}
        problems: dict[str, ReenactError] = {}
        for connection, problem in zip(connections, problems_of, strict=True):
            name = connection.server.name
            if problem is not None:
                problems[name] = problem
            found = {one.spec.name: one for one in connection.known}
            if taken := sorted(found.keys() & {*self._local, *remote}):
                problems[name] = ConfigurationError(f"MCP server {name!r} has tools whose names are taken: {taken}")
            else:
                remote |= found
        for name, problem in problems.items():
            if str(problem) != self._told.get(name):
                _log.warning("the tools of MCP server %r are not all there: %s", name, problem)
        self._told = {name: str(problem) for name, problem in problems.items()}
        self._remote = remote
        self._unheld = self._not_held()
        return problems

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        context: ToolContext | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the outcome says so, instead of an exception
    ) -> ToolOutcome:
        """Run a tool; whatever goes wrong is an outcome too, which says it to the model. Only cancellation is raised.

        It is given `timeout` seconds, or those of its spec if they are fewer. A coroutine is then cancelled; a thread
        goes on, unheard.
        """
        started = time.perf_counter()
        outcome = await self._outcome(Invocation(name, arguments, context, timeout))
        return msgspec.structs.replace(outcome, duration=time.perf_counter() - started)

    async def call_all(self, calls: Iterable[Invocation]) -> list[ToolOutcome]:
        """Run several tools at once; return their outcomes in the order of the calls."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self.call(call.name, call.arguments, call.context, timeout=call.timeout))
                for call in calls
            ]
        return [task.result() for task in tasks]

    async def aclose(self) -> None:
        """Leave the servers that were given as servers, and end those that are programs. Idempotent."""
        await asyncio.gather(*(connection.aclose() for connection in self._own))

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def _not_held(self) -> dict[str, str]:
        """Return by name why tools of servers may not run."""
        unheld: dict[str, str] = {}
        for connection in self._connections.values():
            server, names = connection.server.name, [one.spec.name for one in connection.known]
            named = [name for name in names_in(self._policies) if name.startswith(remote_prefix(server))]
            unknown = unknown_names(named, names) if connection.was_asked else []
            if unknown:
                meant = nearest(unknown[0], names)
                why = f"a policy is for {unknown[0]}, which MCP server {server!r} does not have; {meant}"
                unheld |= {name: why for name in names if not self._policies.judge.has_policy(name)}
        return unheld

    def _take(self, one: Offered) -> None:
        match one:
            case MCPServer():
                self._own.append(connection := MCPConnection(one))
                self._take_connection(connection)
            case MCPConnection():
                self._take_connection(one)
            case ToolSpec():
                self._take_tool(_Absent(one))
            case _:
                made = one if is_tool(one) else tool(one)
                made.check_bound()
                self._take_tool(made)

    def _take_connection(self, connection: MCPConnection) -> None:
        if self._connections.setdefault(connection.server.name, connection) is not connection:
            msg = f"two MCP servers are named {connection.server.name!r}; give one of them another name"
            raise ConfigurationError(msg)

    def _take_tool(self, one: Runnable) -> None:
        if self._local.setdefault(one.spec.name, one) is not one:
            msg = f"two tools are named {one.spec.name!r}; give one of them another name: @tool(name=…)"
            raise ConfigurationError(msg)

    async def _outcome(self, call: Invocation) -> ToolOutcome:
        seconds: float | None = None
        try:
            found = await self._found(call.name)
            if found is None:
                return failure(f"Tool not found: {call.name}; there are: {self._names()}", limit=self._max_output)
            if call.name in self._unheld:
                return failure(f"{call.name} cannot be run: {self._unheld[call.name]}", limit=self._max_output)
            seconds = _fewer(call.timeout, found.spec.timeout)
            result = await within(seconds, found.run(call.arguments, call.context))
            return outcome_of(result, tool=call.name, limit=self._max_output)
        except ExpiredError:
            return failure(f"{call.name} did not finish within {seconds:g} s")
        except InvalidArgumentsError as error:
            return failure(str(error), limit=self._max_output)
        except Exception as error:  # noqa: BLE001 - it is logged, and the model is told
            raised = error.error if isinstance(error, EscapedError) else error
            _log.warning("tool %s has failed", call.name, exc_info=raised, extra={"tool": call.name})
            return failure(told(raised), limit=self._max_output)

    async def _found(self, name: str) -> Runnable | None:
        found = self.get(name)
        if found is None and any(not connection.was_asked for connection in self._connections.values()):
            await self.connect()
            found = self.get(name)
        return found

    def _names(self) -> str:
        return ", ".join((*self._local, *self._remote)) or "none"


class _Absent:
    """A tool that is known by its spec alone: what runs it was not handed in."""

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec

    async def run(self, arguments: Mapping[str, Any], context: ToolContext | None = None) -> ToolOutcome:
        return failure(f"{self.spec.name} cannot be run: the function behind it is not there")


def _fewer(seconds: float | None, others: float | None) -> float | None:
    return min((one for one in (seconds, others) if one is not None), default=None)


async def _problem_of(connection: MCPConnection) -> ReenactError | None:
    """Ask for the server's tools, and return what went wrong."""
    try:
        await connection.tools()
    except ReenactError as error:
        return error
    return None
