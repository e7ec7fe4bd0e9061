"""A Messages API server on the loopback, for tests of everything that talks to the real one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Self, TypeAlias

import msgspec

from reenact.domain.plain import made
from reenact.testing.fake_replies import FakeError, FakeReply, Json
from reenact.testing.fake_rules import blocks_of, refusal

Scripted: TypeAlias = FakeReply | FakeError

_START_SECONDS = 10.0
_MESSAGES = "/v1/messages"
_COUNT = "/v1/messages/count_tokens"
_BYTES_PER_TOKEN = 4


class FakeRequest(msgspec.Struct, frozen=True):
    """A request that was received. The API key is not in the headers."""

    path: str
    headers: dict[str, str]
    body: Json

    @property
    def system(self) -> str | None:
        """The system prompt as text, whether it came as text or as blocks."""
        system: str | list[Json] | None = self.body.get("system")
        return "".join(block["text"] for block in system) if isinstance(system, list) else system


class _ClientHungUpError(Exception):
    """The client has closed the connection."""


class FakeMessagesAPI:
    """Speaks the Messages API's wire protocol, streaming or not, and fails on demand.

    ```python
    with FakeMessagesAPI() as api:
        api.reply(text="Hello!")                          # the next request gets this answer,
        api.error(529, retry_after=0)                     # the one after it a refusal,
        api.reply(text="Again", drop_after=3)             # and the third half a stream
        runtime = Runtime.open(path, llm=LLMConfig(api_key="any", base_url=api.url))
        ...
        assert api.requests[0].body["messages"][0]["role"] == "user"
    ```

    Requests that find the script empty get `default`, which may be a function of the request. One to count tokens is
    answered with a number that grows with it, or with the refusal that is next in the script. With an `api_key`, any
    other key is answered with 401; unless `strict` is False, so is whatever the API would refuse with 400, also a
    thought that comes back otherwise than it was sent. The server lives on a thread of its own, from `start` (or the
    `with` line) to `close`. `requests` are those that have come, `connections` how many have been opened, and
    `hung_up` how many clients closed theirs in the middle of an answer.
    """

    def __init__(
        self,
        *,
        default: FakeReply | Callable[[FakeRequest], Scripted] | None = None,
        api_key: str | None = None,
        strict: bool = True,
    ) -> None:
        self.requests: list[FakeRequest] = []
        self.hung_up = 0
        self.connections = 0
        self.url = ""
        self._default = default or FakeReply()
        self._api_key = api_key
        self._strict = strict
        self._script: deque[Scripted] = deque()
        self._thoughts: dict[str, set[str]] = {}
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fake-messages-api", daemon=True)
        self._connections: set[asyncio.Task[None]] = set()

    def reply(self, text: str | None = None, **fields: object) -> None:
        """Answer one more request with a `FakeReply` of these fields."""
        self.script([made(FakeReply, **fields) if text is None else made(FakeReply, text=text, **fields)])

    def error(
        self,
        status: int,
        type: str | None = None,  # noqa: A002 - the API's word
        *,
        message: str = "injected failure",
        retry_after: float | str | None = None,
        should_retry: bool | None = None,
    ) -> None:
        """Answer one more request with a refusal."""
        self.script([FakeError(status, type, message, retry_after, should_retry)])

    def script(self, replies: Iterable[Scripted]) -> None:
        """Answer the next requests with these, in order, after what was scripted before."""
        self._script.extend(replies)

    def wait_for_requests(self, count: int, timeout: float = 10.0) -> bool:
        """Wait until so many requests have come; return whether they have in time."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.requests) >= count, timeout)

    def wait_for_hang_up(self, count: int = 1, timeout: float = 10.0) -> bool:
        """Wait until a client has closed its connection in the middle of an answer; return whether it has in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.hung_up >= count, timeout)

    def start(self) -> Self:
        """Listen on a free port of the loopback; `url` tells which."""
        with self._changed:
            self._thread.start()
            if not self._changed.wait_for(lambda: self.url, _START_SECONDS):
                raise RuntimeError("the fake API could not listen on the loopback")
        return self

    def close(self) -> None:
        """Break all connections and end the thread. Idempotent."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # it has ended meanwhile
                self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        elif not self._loop.is_closed():
            self._loop.close()

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *exc: object) -> None:
        """Close."""
        self.close()

    def _run(self) -> None:
        loop = self._loop
        try:
            server = loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
            with self._changed:
                self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
                self._changed.notify_all()
            loop.run_forever()
            server.close()
            loop.run_until_complete(self._break_all())
            loop.run_until_complete(server.wait_closed())
        finally:
            loop.close()

    async def _break_all(self) -> None:
        for connection in self._connections:
            connection.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        try:
            while (request := await _read_request(reader)) is not None:
                await self._answer(request, reader, writer)
        except (_ClientHungUpError, ConnectionError):
            with self._changed:
                self.hung_up += 1
                self._changed.notify_all()
        except (asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer(
        self, request: tuple[str, dict[str, str], bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        path, headers, raw = request
        try:
            body: Json = json.loads(raw or b"{}")
        except ValueError:
            await _send_json(writer, FakeError(400, message="the body is not JSON"))
            return
        public = {name: value for name, value in headers.items() if name not in {"x-api-key", "authorization"}}
        received = FakeRequest(path, public, body)
        with self._changed:
            self.requests.append(received)
            self._changed.notify_all()
        reply = self._reply_to(received, headers)
        if not isinstance(reply, FakeReply):
            await _send_json(writer, reply)
        elif body.get("stream") and not reply.whole:
            await _Stream(reply, reader, writer).send(str(body.get("model")))
        else:
            await _send_json(writer, reply.message(str(body.get("model"))))

    def _reply_to(self, request: FakeRequest, headers: dict[str, str]) -> Scripted | Json:
        path = request.path.partition("?")[0]
        if path not in {_MESSAGES, _COUNT}:
            return FakeError(404, message=f"not found: {request.path}")
        if self._strict:
            refused = refusal(headers, request.body, self._api_key, counting=path == _COUNT) or self._altered(request)
            if refused is not None:
                return refused
        if path == _COUNT and not (self._script and isinstance(self._script[0], FakeError)):
            return {"input_tokens": len(json.dumps(request.body)) // _BYTES_PER_TOKEN}
        reply = self._script.popleft() if self._script else self._default
        reply = reply(request) if callable(reply) else reply
        if isinstance(reply, FakeReply):
            for block in reply.blocks():
                if block["type"] == "thinking":
                    self._thoughts.setdefault(block["signature"], set()).add(block["thinking"])
        return reply

    def _altered(self, request: FakeRequest) -> FakeError | None:
        """Return the refusal of a request in which a thought has been altered that was sent from here."""
        for number, message in enumerate(request.body["messages"]):
            for place, block in enumerate(blocks_of(message)):
                known = self._thoughts.get(block.get("signature", ""))
                if block.get("type") == "thinking" and known is not None and block["thinking"] not in known:
                    return FakeError(400, message=f"messages.{number}.content.{place}: `thinking` cannot be modified.")
        return None


class _Stream:
    """Sends a reply as a stream of events, and fails as it says."""

    def __init__(self, reply: FakeReply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reply = reply
        self._reader = reader
        self._writer = writer

    async def send(self, model: str) -> None:
        reply = self._reply
        headers = {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"}
        self._writer.write(_head(HTTPStatus.OK, headers))
        hang_up = asyncio.ensure_future(self._reader.read(1))
        try:
            for number, event in enumerate(reply.events(model)):
                if await self._failed(number, hang_up):
                    return
                if reply.delay:
                    await asyncio.wait({hang_up}, timeout=reply.delay)
                if hang_up.done():
                    raise _ClientHungUpError
                await self._put(event)
            self._writer.write(b"0\r\n\r\n")
            await self._writer.drain()
        finally:
            hang_up.cancel()
            await asyncio.wait({hang_up})

    async def _failed(self, number: int, hang_up: asyncio.Future[bytes]) -> bool:
        """Fail if it is time to; return whether the stream is over."""
        reply = self._reply
        if number == reply.stall_after:
            await hang_up
            raise _ClientHungUpError
        if number == reply.error_after:
            await self._put(reply.error_event())
        elif number != reply.drop_after:
            return False
        elif reply.drop_mode != "eof":
            self._break()
        self._writer.write(b"0\r\n\r\n")
        return True

    async def _put(self, data: bytes) -> None:
        size = self._reply.chunk_size or len(data)
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            self._writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await self._writer.drain()

    def _break(self) -> None:
        if self._reply.drop_mode == "rst":
            connection: socket.socket = self._writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._writer.transport.abort()
        raise asyncio.IncompleteReadError(b"", None)


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes] | None:
    """Return path, headers and body of the next request on the connection, None if there is none."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return first.split(" ")[1], headers, body


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = (f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} {'OK' if status == HTTPStatus.OK else 'Refused'}\r\n{''.join(lines)}\r\n".encode()


async def _send_json(writer: asyncio.StreamWriter, answer: FakeError | Json) -> None:
    status, body, own = HTTPStatus.OK.value, answer, dict[str, str]()
    if isinstance(answer, FakeError):
        status, body, own = answer.status, answer.body(), {**answer.headers(), "content-type": answer.content_type}
    data = json.dumps(body, ensure_ascii=False).encode()
    writer.write(_head(status, {"content-type": "application/json", "content-length": str(len(data)), **own}) + data)
    await writer.drain()
