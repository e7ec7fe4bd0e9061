"""A connection to an MCP server, which is opened when it is needed, and reopened if the server was lost."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from reenact.actors.environment.tools.arguments import ToolContext
from reenact.actors.environment.tools.mcp.errors import ErrorReporter, LostError, UnknownSessionError, cause_of
from reenact.actors.environment.tools.outcome import ToolOutcome, failure
from reenact.actors.environment.tools.running import in_thread
from reenact.domain.errors import ConfigurationError, MissingExtraError, ReenactError
from reenact.domain.tools import InvalidArgumentsError, MCPServer, MCPServerError, ToolSpec, check_server, is_json

if TYPE_CHECKING:
    from reenact.actors.environment.tools.mcp.session import ListedTool, Session

FIRST_WAIT = 1.0
"""Seconds without another attempt after the first failure; the pause doubles with each further failure."""
LONGEST_WAIT = 60.0
_CLOSING = 2.0
"""Seconds that a connection may take to close by itself."""
_log = logging.getLogger("reenact.tools")


class MCPConnection:
    """A connection to a server, shared by all users of its tools. It belongs to the event loop that uses it first.

    `known` are the tools that the server last listed, and `was_asked` is whether it ever listed them.

    Raises:
        MissingExtraError: the extra `mcp` is not installed.
    """

    def __init__(self, server: MCPServer) -> None:
        check_server(server)
        if importlib.util.find_spec("mcp") is None:
            raise MissingExtraError(f"MCP server {server.name!r}", "mcp", "no module named 'mcp'")
        self.server = server
        self.known: tuple[RemoteTool, ...] = ()
        self.was_asked = False
        self._link: _Link | None = None
        self._closed = False
        self._backoff = Backoff()

    @property
    def used(self) -> tuple[RemoteTool, ...]:
        """The known tools that are used: those that `MCPServer.tools` names, or all."""
        names = self.server.tools
        return self.known if names is None else tuple(one for one in self.known if one.name in names)

    async def tools(self) -> tuple[RemoteTool, ...]:
        """Return the server's tools, which are requested over a new connection or when the server reports a change.

        Raises:
            MCPServerError: the server cannot be reached, or does not answer.
            ConfigurationError: two tools cannot be told apart, or an environment variable is missing.
        """
        link = await self._connected()
        if link.outdated:
            self._backoff.check()
            link.outdated = False
            try:
                listed = await link.listed()
            except BaseException as error:
                link.outdated = True
                if isinstance(error, ReenactError):
                    self._backoff.begin(error)
                raise
            self._backoff.end()
            self.known = tuple(RemoteTool(self, one) for one in listed)
            missing = set(self.server.tools or ()) - {one.name for one in self.known}
            if missing and not self.was_asked:
                _log.warning("MCP server %r has no tools named %s", self.server.name, ", ".join(sorted(missing)))
            self.was_asked = True
        return self.known

    async def call(self, tool: ListedTool, arguments: Mapping[str, object]) -> ToolOutcome:
        """Run a tool of the server.

        Raises:
            MCPServerError: the server cannot be reached, or was lost before it answered.
        """
        link = await self._connected()
        self._backoff.end()
        try:
            return await link.session.call(tool, arguments)
        except UnknownSessionError:
            link.end()
            link = await self._connected()
            return await link.session.call(tool, arguments)
        except LostError as error:
            link.end()
            raise await link.failure() from error

    async def aclose(self) -> None:
        """Close the connection for good, and end the server if it is a program that was started here. Idempotent."""
        self._closed = True
        if self._link is not None:
            await self._link.close()

    async def _connected(self) -> _Link:
        if self._closed:
            raise MCPServerError(self.server.name, "is not used any more: the connection was closed")
        if self._link is None or self._link.is_over:
            self._backoff.check()
            self._link = _Link(self.server)
        link = self._link
        try:
            await link.wait_until_ready()
        except ReenactError as error:
            self._backoff.begin(error)
            raise
        return link


class Backoff:
    """Delays further attempts to reach a server that failed; until then, the last error is raised again.

    The clock returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._error: ReenactError | None = None
        self._seconds = 0.0
        self._until = 0.0

    def check(self) -> None:
        """Raise the error of the last attempt, if the pause after it is not over."""
        if self._error is not None and self._clock() < self._until:
            raise self._error.with_traceback(None)

    def begin(self, error: ReenactError) -> None:
        """Begin a pause; an error that has begun one already does not extend it."""
        if error is not self._error:
            self._error = error
            self._seconds = min(LONGEST_WAIT, max(FIRST_WAIT, 2 * self._seconds))
            self._until = self._clock() + self._seconds

    def end(self) -> None:
        """Forget the last error, after a success."""
        self._error = None
        self._seconds = 0.0


class RemoteTool:
    """A tool of an MCP server."""

    def __init__(self, connection: MCPConnection, listed: ListedTool) -> None:
        self.spec: ToolSpec = listed.spec
        self.name = listed.name
        """Its name at the server."""
        self._connection = connection
        self._listed = listed

    def __repr__(self) -> str:
        return f"<tool {self.spec.name}>"

    async def run(self, arguments: Mapping[str, object], context: ToolContext | None = None) -> ToolOutcome:
        """Let the server run the tool; that the server cannot be reached is an outcome, too.

        Raises:
            InvalidArgumentsError: the arguments are not a JSON object. The server checks whether they fit.
        """
        if not is_json(arguments):
            raise InvalidArgumentsError(self.spec.name, ["its arguments must be a JSON object"])
        try:
            return await self._connection.call(self._listed, arguments)
        except (MCPServerError, ConfigurationError) as error:
            _log.warning("tool %s has failed: %s", self.spec.name, error, extra={"tool": self.spec.name})
            return failure(str(error))


class _Link:
    """One connection, opened and closed in a task of its own, because only the task that enters it can leave it."""

    def __init__(self, server: MCPServer) -> None:
        self.outdated = True
        self._loop = asyncio.get_running_loop()
        self._end_requested = asyncio.Event()
        self._report = ErrorReporter(server)
        self._failure_reason = ""
        self._ready: asyncio.Future[Session] = self._loop.create_future()
        self._task = asyncio.create_task(self._run_connection(), name=f"mcp {server.name}")
        self._task.add_done_callback(self._report_end)

    @property
    def is_over(self) -> bool:
        return self._end_requested.is_set() or self._loop.is_closed()

    @property
    def session(self) -> Session:
        """The session; available once `wait_until_ready` has returned."""
        return self._ready.result()

    async def wait_until_ready(self) -> None:
        if self._loop is not asyncio.get_running_loop():
            raise MCPServerError(self._report.server.name, "is connected on another event loop")
        await asyncio.wait((self._ready,))
        self._ready.result()

    async def listed(self) -> list[ListedTool]:
        """Request the list of tools."""
        seconds = self._report.server.connect_timeout
        try:
            async with asyncio.timeout(seconds):
                return await self.session.tools()
        except TimeoutError:
            raise self._report.unreachable(f"its tools did not come within {seconds:g} s") from None
        except (ConfigurationError, MCPServerError):
            raise
        except Exception as error:
            raise self._report.unreachable(cause_of(error)) from error

    def end(self) -> None:
        self._end_requested.set()

    async def close(self) -> None:
        """Close the connection and wait until its task has ended."""
        if self._loop is not asyncio.get_running_loop():
            with contextlib.suppress(RuntimeError):  # the loop is closed, and has ended its tasks
                self._loop.call_soon_threadsafe(self.end)
            return
        self.end()
        if self._ready.done():
            await asyncio.wait((self._task,), timeout=_CLOSING)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,), timeout=_CLOSING)

    async def failure(self) -> MCPServerError:
        """Return the error that says why the connection was lost, after its task has ended."""
        await asyncio.wait((self._task,), timeout=_CLOSING)
        return self._report.lost(self._failure_reason)

    async def _run_connection(self) -> None:
        try:
            open_session = await in_thread(_import_opener, "reenact-mcp")
            self._report.resolve(os.environ)
            async with open_session(lost=self.end, changed=self._mark_outdated, report=self._report) as session:
                self._ready.set_result(session)
                await self._end_requested.wait()
        except (MCPServerError, ConfigurationError) as error:
            self._fail_waiters(error)
        except Exception as error:  # noqa: BLE001 - reported to the callers
            self._failure_reason = cause_of(error)
            _log.debug("the connection to MCP server %r has failed", self._report.server.name, exc_info=True)

    def _report_end(self, _: asyncio.Task[None]) -> None:
        """Report the end to waiting callers, even if the task was cancelled before its first step."""
        self._end_requested.set()
        self._fail_waiters(self._report.unreachable(self._failure_reason or "the connection was closed"))

    def _mark_outdated(self) -> None:
        self.outdated = True

    def _fail_waiters(self, error: MCPServerError | ConfigurationError) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # mark it as retrieved, in case no one waits for it


def _import_opener() -> Callable[..., AbstractAsyncContextManager[Session]]:
    """Return the function that opens a session; its import takes a second, which only users of MCP should pay."""
    from reenact.actors.environment.tools.mcp.session import open_session  # noqa: PLC0415

    return open_session
