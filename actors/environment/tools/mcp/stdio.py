"""A server that is a program: started, connected by its standard streams, and ended with all its child processes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, ErrorData, JSONRPCError, JSONRPCMessage, jsonrpc_message_adapter

from reenact.actors.environment.received_json import is_json_object, lenient_json
from reenact.actors.environment.tools.mcp.errors import ErrorReporter

Incoming: TypeAlias = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing: TypeAlias = MemoryObjectSendStream[SessionMessage]

MAX_LINE = 64 * 1024 * 1024
"""Bytes of one message of a server; a server that sends a longer one is ended."""
_MAX_ERROR_LINE = 64 * 1024
"""Bytes of a line of a server's standard error; a longer one is not kept."""

_GRACE = 0.8
"""Seconds that a server has to end after its input was closed, and again after SIGTERM."""
_POLL_INTERVAL = 0.01
_WATCH_INTERVAL = 1.0
"""Seconds between looks at whether the program has ended; mostly its output has told so before."""
_KEPT_LINES = 5
_LONGEST_LINE = 500
_REAP_SECONDS = 1.0
_log = logging.getLogger("reenact.tools")


class StdioTransport:
    """The streams to and from a server's program, which runs until the `async with` block is left.

    The program has a process group of its own, which is killed as a whole. `lost` is called when the program has closed
    its output, or has ended: a process that it has started may hold its output open.
    """

    def __init__(self, report: ErrorReporter, lost: Callable[[], None]) -> None:
        self._server = report.server
        self._without_secrets = report.without_secrets
        self._lost = lost
        self._stderr_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._to_session, self._incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self._outgoing, self._from_session = anyio.create_memory_object_stream[SessionMessage](0)
        self._process: subprocess.Popen[bytes] | None = None
        self._was_terminated = False
        self._stdin: asyncio.WriteTransport | None = None
        self._outputs: list[asyncio.BaseTransport] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> tuple[Incoming, Outgoing]:
        try:
            self._process = process = self._start_program()
            flow = _InputPipe(self._lost)
            self._stdin, _ = await asyncio.get_running_loop().connect_write_pipe(lambda: flow, process.stdin)
            stdout = await self._open_reader(process.stdout, MAX_LINE)
            stderr = await self._open_reader(process.stderr, _MAX_ERROR_LINE)
            self._start_task(self._write(self._stdin, flow))
            self._start_task(self._read(stdout))
            self._start_task(self._read_stderr(stderr))
            self._start_task(self._wait_for_end(process))
        except BaseException:
            await self._end_program()
            raise
        return self._incoming, self._outgoing

    async def __aexit__(self, *exc: object) -> None:
        await self._end_program()

    def status(self) -> str:
        """Return the program's exit status as text; empty if it has not ended, or not by itself."""
        status = None if self._process is None or self._was_terminated else self._process.poll()
        return "" if status is None else f"it ended with status {status}"

    def last_output(self) -> str:
        """Return the last lines that the program wrote to its standard error."""
        return " / ".join(self._stderr_lines)

    def _start_program(self) -> subprocess.Popen[bytes]:
        assert self._server.command is not None  # checked when the server was defined
        return subprocess.Popen(  # noqa: S603 - the user's own program
            [self._server.command, *self._server.args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=self._server.cwd,
            env=get_default_environment() | self._server.env,
            start_new_session=True,
        )

    async def _open_reader(self, pipe: object, limit: int) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=limit)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        self._outputs.append(transport)
        return reader

    def _start_task(self, work: Coroutine[object, object, None]) -> None:
        self._tasks.append(asyncio.create_task(work, name=f"mcp {self._server.name}"))

    async def _write(self, stdin: asyncio.WriteTransport, flow: _InputPipe) -> None:
        async for message in self._from_session:
            stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await flow.free.wait()

    async def _read(self, stdout: asyncio.StreamReader) -> None:
        """Pass on the server's messages; when there is no reader any more, read on, so that the program can end."""
        try:
            while line := await stdout.readline():
                await asyncio.sleep(0)  # while there are lines, `readline` lets nobody else run
                message = self._parse_message(line)
                if message is not None:
                    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                        await self._to_session.send(message)
        except ValueError:
            self._stderr_lines.append(f"(a message of more than {MAX_LINE:,} bytes)")
        finally:
            self._to_session.close()
            self._lost()

    def _parse_message(self, line: bytes) -> SessionMessage | None:
        try:
            return SessionMessage(_message(line))
        except ValueError:
            if line.strip():
                _log.debug("MCP server %r sent what is not a message: %.200r", self._server.name, line)
            return _malformed_answer(line)

    async def _read_stderr(self, stderr: asyncio.StreamReader) -> None:
        """Keep the last lines of the server's standard error, for error messages."""
        while line := await _next_line(stderr):
            told = self._without_secrets(line.decode(errors="replace").strip())[:_LONGEST_LINE]
            _log.debug("MCP server %r says: %s", self._server.name, told)
            if told:
                self._stderr_lines.append(told)

    async def _wait_for_end(self, process: subprocess.Popen[bytes]) -> None:
        """Report the end of the program, after a moment for its last messages."""
        while process.poll() is None:  # noqa: ASYNC110 - not all systems have an event for it
            await asyncio.sleep(_WATCH_INTERVAL)
        await asyncio.sleep(_WATCH_INTERVAL)
        self._lost()

    async def _end_program(self) -> None:
        """End the program by closing its input, then with SIGTERM, then with SIGKILL, and release all resources."""
        process = self._process
        try:
            if process is not None and self._stdin is not None:
                self._stdin.close()
                if not await _has_ended(process):
                    self._was_terminated = True
                    _signal(process, signal.SIGTERM)
                    await _has_ended(process)
        finally:
            self._release()
            if process is not None:
                _signal(process, signal.SIGKILL)  # also the processes that it has started and left behind
                _reap(process)

    def _release(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._stdin is not None and (not self._stdin.is_closing() or self._stdin.get_write_buffer_size()):
            self._stdin.abort()
        for output in self._outputs:
            output.close()
        for stream in (self._to_session, self._incoming, self._outgoing, self._from_session):
            stream.close()
        process = self._process
        for pipe in () if process is None else (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


async def _next_line(reader: asyncio.StreamReader) -> bytes:
    """Return the next line that is not too long; nothing at the end."""
    while True:
        await asyncio.sleep(0)
        with contextlib.suppress(ValueError):
            return await reader.readline()


def _message(line: bytes) -> JSONRPCMessage:
    """Return the message; some servers cut texts in a surrogate pair, send a NaN, or return an id 7 as 7.0.

    Raises:
        ValueError: it is not a message.
    """
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        message = lenient_json(line)
        if is_json_object(message) and isinstance(id_ := message.get("id"), float) and id_.is_integer():
            message = {**message, "id": int(id_)}
        return jsonrpc_message_adapter.validate_python(message, by_name=False)


def _malformed_answer(line: bytes) -> SessionMessage | None:
    """Return an answer that does not fit the protocol as a failure of its request; None for any other line."""
    try:
        answer = lenient_json(line)
    except ValueError:
        return None
    if not is_json_object(answer) or "method" in answer:
        return None
    request_id = answer.get("id")
    if isinstance(request_id, bool) or not isinstance(request_id, int | str):
        return None
    told = f"the server's answer does not fit the protocol: {line.decode(errors='replace').strip():.200}"
    error = ErrorData(code=INVALID_REQUEST, message=told)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error))


class _InputPipe(asyncio.BaseProtocol):
    """Signals when more may be written to a pipe."""

    def __init__(self, lost: Callable[[], None]) -> None:
        self._lost = lost
        self.free = asyncio.Event()
        self.free.set()

    def pause_writing(self) -> None:
        self.free.clear()

    def resume_writing(self) -> None:
        self.free.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost()


async def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait a moment for the program to end, and return whether it has ended."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _GRACE
    while process.poll() is None:
        if loop.time() > deadline:
            return False
        await asyncio.sleep(_POLL_INTERVAL)
    return True


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _reap(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_REAP_SECONDS)
    except subprocess.TimeoutExpired:
        _log.warning("process %d of an MCP server cannot be ended", process.pid)
