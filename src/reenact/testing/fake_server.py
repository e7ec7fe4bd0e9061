"""The base of all fake APIs: an HTTP server on the loopback that answers by a script and fails on demand."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import struct
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal, NoReturn, Self, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from reenact.domain.plain import made

Json: TypeAlias = dict[str, Any]  # dynamic, for tests such as requests[0].body["messages"][0]["role"]

_log = logging.getLogger("reenact.testing")
_START_SECONDS = 10.0
_INSTRUCTING = frozenset({"system", "developer"})
_KEYS = frozenset({"x-api-key", "authorization"})
_PIECE = 12
_END = b"0\r\n\r\n"
"""The end of a body in chunks."""
_NAMES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """The faults while an answer is sent. Counts are of events of the stream; times are in seconds."""

    whole: bool = False
    """Answer with the whole message at once, even if a stream was requested, as some proxies do."""
    delay: float = 0.0
    """Wait this long before each event."""
    drop_after: int | None = None
    """Break the connection after this many events."""
    drop_mode: Literal["rst", "fin", "eof"] = "rst"
    """Break it with a reset, by closing it in the middle, or by a regular end of the body."""
    error_after: int | None = None
    """Report an error in the stream after this many events, and end."""
    error_type: str = "overloaded_error"
    stall_after: int | None = None
    """Send nothing after this many events, until the client hangs up."""
    ping_every: int | None = None
    """Send a ping each time after this many events."""
    chunk_size: int | None = None
    """Split the body into chunks of this many bytes, also within events and characters."""
    line_end: Literal["\n", "\r\n"] = "\n"


class FakeError(msgspec.Struct, frozen=True):
    """A refusal: the request is answered with this status and error type, by default the type for the status.

    `retry_after` (seconds, or any text) and `should_retry` become headers; `content_type` is that of the body, which is
    JSON. Only `FakeChatAPI` sends a `code` beside the type, and can be `bare`: the error is the message alone, as some
    servers send it.
    """

    status: int
    type: str | None = None
    message: str = "injected failure"
    retry_after: float | str | None = None
    should_retry: bool | None = None
    content_type: str = "application/json"
    code: str | None = None
    bare: bool = False

    def body(self) -> Json:
        """Return the answer's body as the Messages API sends it."""
        kind = self.type or _NAMES.get(self.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": self.message}}

    def headers(self) -> dict[str, str]:
        """Return the answer's additional headers."""
        headers: dict[str, str] = {}
        if self.retry_after is not None:
            headers["retry-after"] = str(self.retry_after)
        if self.should_retry is not None:
            headers["x-should-retry"] = str(self.should_retry).lower()
        return headers


class FakeRequest(msgspec.Struct, frozen=True):
    """A received request. Its headers do not include the API key."""

    path: str
    headers: dict[str, str]
    body: Json

    @property
    def system(self) -> str | None:
        """The system prompt as text, whether it was sent as text, as blocks, or as separate messages."""
        system: str | list[Json] | None = self.body.get("system", self.body.get("instructions"))
        if system is not None:
            return _text(system)
        messages: list[Json] = self.body.get("messages", [])
        found = [_text(message["content"]) for message in messages if message.get("role") in _INSTRUCTING]
        return "\n".join(found) if found else None


def _text(content: str | list[Json]) -> str:
    return "".join(block["text"] for block in content) if isinstance(content, list) else content


class Streamed(msgspec.Struct, frozen=True):
    """A streamed answer: its events as bytes, the event that reports a failure, and the faults."""

    events: Sequence[bytes]
    failure: bytes
    faults: Faults

    async def send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send the stream to its end, or up to its fault."""
        headers = {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"}
        writer.write(_head(HTTPStatus.OK, headers))
        hang_up = asyncio.ensure_future(reader.read(1))
        try:
            for number, event in enumerate(self.events):
                if await self._failed(number, hang_up, writer):
                    return
                if self.faults.delay:
                    await asyncio.wait({hang_up}, timeout=self.faults.delay)
                if hang_up.done():
                    raise _ClientHungUpError
                await self._put(event, writer)
            writer.write(_END)
            await writer.drain()
        finally:
            hang_up.cancel()
            await asyncio.wait({hang_up})

    async def _failed(self, number: int, hang_up: asyncio.Future[bytes], writer: asyncio.StreamWriter) -> bool:
        """Cause the fault that is due before this event, if any; return whether the stream is over."""
        faults = self.faults
        if number == faults.stall_after:
            await hang_up
            raise _ClientHungUpError
        if number == faults.error_after:
            await self._put(self.failure, writer)
        elif number != faults.drop_after:
            return False
        elif faults.drop_mode != "eof":
            _break(writer, with_reset=faults.drop_mode == "rst")
        writer.write(_END)
        return True

    async def _put(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        size = self.faults.chunk_size or len(data)
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()


def _break(writer: asyncio.StreamWriter, *, with_reset: bool) -> NoReturn:
    if with_reset:
        connection: socket.socket = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    raise asyncio.IncompleteReadError(b"", None)


class _ClientHungUpError(Exception):
    """The client has closed the connection."""


Reply = TypeVar("Reply", bound=Faults)


class FakeServer(ABC, Generic[Reply]):
    """Answers requests by a script, on a thread of its own, from `start` (or the `with` line) to `close`.

    `requests` are the received requests, `connections` is the number of opened connections, and `hung_up` the number of
    clients that closed theirs in the middle of an answer.
    """

    _made_of: type[Reply]
    """The class of the replies."""
    _path: ClassVar[str] = ""
    """The part of the request paths that belongs to the base URL."""
    _stop: Callable[[], object]
    """Ends the server, from any thread; there once it listens."""

    def __init__(
        self,
        *,
        default: Reply | Callable[[FakeRequest], Reply | FakeError] | None = None,
        api_key: str | None = None,
        strict: bool = True,
    ) -> None:
        self.requests: list[FakeRequest] = []
        self.hung_up = 0
        self.connections = 0
        self.url = ""
        self._default = default or self._made_of()
        self._api_key = api_key
        self._strict = strict
        self._script: deque[Reply | FakeError] = deque()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="fake-api", daemon=True)

    @abstractmethod
    def _reply_to(self, request: FakeRequest, headers: dict[str, str]) -> Streamed | FakeError | Json:
        """Return the answer to the request; the `headers` include the key."""

    def _body_of(self, refusal: FakeError) -> Json:
        """Return the body of a refusal, as this API sends it."""
        return refusal.body()

    def reply(self, text: str | UnsetType | None = UNSET, **fields: object) -> None:
        """Answer one more request with a reply of these fields; `text=None` makes one without text.

        Raises:
            TypeError: there is no such field, or a value does not fit its field.
        """
        if text is not UNSET:
            fields["text"] = text
        self.script([made(self._made_of, **fields)])

    def error(
        self,
        status: int,
        type: str | None = None,  # noqa: A002 - the API's word
        *,
        message: str = "injected failure",
        retry_after: float | str | None = None,
        should_retry: bool | None = None,
        code: str | None = None,
        bare: bool = False,
    ) -> None:
        """Answer one more request with a `FakeError` of these fields."""
        self.script([FakeError(status, type, message, retry_after, should_retry, code=code, bare=bare)])

    def script(self, replies: Iterable[Reply | FakeError]) -> None:
        """Answer the next requests with these, in order, after those that were scripted before.

        Raises:
            TypeError: one is neither a reply nor a `FakeError`, or a value does not fit its field.
        """
        self._script.extend([self._checked(reply) for reply in replies])

    def _checked(self, reply: object) -> Reply | FakeError:
        """Return the reply if it is valid; a mistake found only while sending would look like a broken connection."""
        if not isinstance(reply, (self._made_of, FakeError)):
            raise TypeError(f"a script is made of {self._made_of.__name__} and FakeError, not of {reply!r:.100}")
        try:
            msgspec.convert(msgspec.structs.asdict(reply), type(reply))
        except msgspec.ValidationError as error:
            raise TypeError(f"a {type(reply).__name__} is invalid: {error}") from None
        return reply

    def wait_for_requests(self, count: int, timeout: float = 10.0) -> bool:
        """Wait until this many requests have arrived; return whether they have in time."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.requests) >= count, timeout)

    def wait_for_hang_up(self, count: int = 1, timeout: float = 10.0) -> bool:
        """Wait until this many clients have hung up in the middle of an answer; return whether they have in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.hung_up >= count, timeout)

    def start(self) -> Self:
        """Listen on a free port of the loopback, which is then in `url`."""
        with self._changed:
            self._thread.start()
            if not self._changed.wait_for(lambda: self.url, _START_SECONDS):
                raise RuntimeError("the fake API could not listen on the loopback")
        return self

    def close(self) -> None:
        """Break all connections and end the thread. Idempotent."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # it has ended meanwhile
                self._stop()
            self._thread.join()

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *exc: object) -> None:
        """Close."""
        self.close()

    def _run(self) -> None:
        with asyncio.Runner() as runner:  # not `asyncio.run`, which `nest_asyncio` replaces in notebooks
            runner.run(self._listen())

    async def _listen(self) -> None:
        """Listen until `close`; the connections that are open then are cancelled with the loop's other tasks."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        stopped = asyncio.Event()
        with self._changed:
            self._stop = partial(asyncio.get_running_loop().call_soon_threadsafe, stopped.set)
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{self._path}"
            self._changed.notify_all()
        await stopped.wait()
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while (request := await _read_request(reader)) is not None:
                await self._answer(request, reader, writer)
        except (_ClientHungUpError, ConnectionError):
            with self._changed:
                self.hung_up += 1
                self._changed.notify_all()
        except asyncio.IncompleteReadError:
            pass
        except asyncio.CancelledError:  # by `close`, which does not wait for what the client has not read
            writer.transport.abort()
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
            await self._refuse(writer, FakeError(400, message="the body is not JSON"))
            return
        public = {name: value for name, value in headers.items() if name not in _KEYS}
        received = FakeRequest(path, public, body)
        with self._changed:
            self.requests.append(received)
            self._changed.notify_all()
        try:
            answer = self._reply_to(received, headers)
        except Exception as error:  # noqa: BLE001 - a mistake in the test: the client gets an error that it does not retry
            _log.exception("the fake API has no answer to %s", path)
            answer = FakeError(400, message=f"the fake API has no answer: {error!r}")
        if isinstance(answer, Streamed):
            await answer.send(reader, writer)
        elif isinstance(answer, FakeError):
            await self._refuse(writer, answer)
        else:
            await _send_json(writer, HTTPStatus.OK, answer)

    async def _refuse(self, writer: asyncio.StreamWriter, refusal: FakeError) -> None:
        headers = {**refusal.headers(), "content-type": refusal.content_type}
        await _send_json(writer, refusal.status, self._body_of(refusal), headers)

    def _next(self, request: FakeRequest) -> Reply | FakeError:
        """Return the next reply in the script, or else the default."""
        if self._script:
            return self._script.popleft()
        return self._default(request) if callable(self._default) else self._default


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes] | None:
    """Return path, headers and body of the next request on the connection, or None if there is none."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = await _read_chunks(reader)
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return first.split(" ")[1], headers, body


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int((await reader.readline()).partition(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readline()
    while (await reader.readline()).strip():
        pass  # trailers
    return bytes(body)


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = (f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} {'OK' if status == HTTPStatus.OK else 'Refused'}\r\n{''.join(lines)}\r\n".encode()


async def _send_json(
    writer: asyncio.StreamWriter, status: int, body: Json, headers: Mapping[str, str] = MappingProxyType({})
) -> None:
    data = json.dumps(body, ensure_ascii=False).encode()
    own = {"content-type": "application/json", "content-length": str(len(data)), **headers}
    writer.write(_head(status, own) + data)
    await writer.drain()


def pieces_of(text: str) -> list[str]:
    """Return the text in pieces, as a stream sends it."""
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


def sse(data: str, event: str | None = None) -> str:
    """Return a server-sent event."""
    return f"data: {data}\n\n" if event is None else f"event: {event}\ndata: {data}\n\n"


def on_the_wire(events: Sequence[str], faults: Faults, *, ping: str = ": PROCESSING\n\n") -> list[bytes]:
    """Return the events as bytes, with pings between them if they are wanted."""
    wire: list[str] = []
    for number, event in enumerate(events, 1):
        wire.append(event)
        if faults.ping_every is not None and number % faults.ping_every == 0:
            wire.append(ping)
    return [event.replace("\n", faults.line_end).encode() for event in wire]
