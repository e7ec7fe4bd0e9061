"""Connection classes for uvicorn: they pace frames, and close a connection whose client sends or reads nothing."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import h11
from starlette.websockets import WebSocketDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.frames import CloseCode, Frame

from reenact.domain.stream.frames import TOO_SLOW
from reenact.server.answers import PIECE
from reenact.server.limits import Bucket, Limits, Unread

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveEvent, ASGISendEvent


MOST_FRAGMENTS = 4096
"""Frames of one message: enough for the largest message in pieces of 4 KiB."""
FRAMES = 10
"""Frames of any kind for each message that the limits of rate and burst allow."""
MOST_CHUNKS = 4096
"""Chunks of one body. Parsing more of them would block the event loop for too long."""
_SLICE = 8 * 1024
"""Bytes that are parsed before the frames in them are counted; the smallest frame has 6."""


class PacedProtocol(WebSocketsSansIOProtocol):
    """Parses frames no faster than `pace` allows, and keeps at most one pong for a client that reads nothing.

    While a client does not take what is sent, its messages are still read, as the application allows: a client that
    first sends everything and only then reads must not be blocked by a server that waits for it.
    """

    pace: Bucket
    """The token bucket for frames, set when the connection is made."""

    _parsed = 0
    _held = b""
    _pause: asyncio.TimerHandle | None = None
    _pong = b""

    @property
    def is_over_rate(self) -> bool:
        """Whether reading is paused because too many frames have arrived."""
        return self._pause is not None

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop the data that has not been parsed."""
        super().connection_lost(exc)
        self._held = b""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    def resume_writing(self) -> None:
        """Answer the latest ping that could not be answered before."""
        super().resume_writing()
        pong, self._pong = self._pong, b""
        if pong and not self.close_sent and not self.transport.is_closing():
            self.transport.write(pong)

    def data_received(self, data: bytes) -> None:
        """Parse the data, or keep it while reading is paused; at most one read's data arrives then."""
        self._held += data
        if self._pause is None:
            self._parse_held()

    async def receive(self) -> ASGIReceiveEvent:
        """Return the next message for the application."""
        message = await super().receive()
        self._stay_paused()
        return message

    async def send(self, message: ASGISendEvent) -> None:
        """Send a message of the application."""
        await super().send(message)
        if self.initial_response is not None and self.close_sent:  # uvicorn would log it as an application error
            self.handshake_complete = True
        self._stay_paused()

    def handle_text(self, event: Frame) -> None:
        """Count a message, or its first fragment."""
        self._parsed += 1
        super().handle_text(event)

    def handle_bytes(self, event: Frame) -> None:
        """Count a message, or its first fragment."""
        self._parsed += 1
        super().handle_bytes(event)

    def handle_cont(self, event: Frame) -> None:
        """Handle a further fragment, unless there are too many, or it is empty and not the last."""
        self._parsed += 1
        if self.close_sent:
            return
        if not event.data and not event.fin:
            self._refuse(CloseCode.POLICY_VIOLATION, "a fragment has no content")
        elif len(self.frames) >= MOST_FRAGMENTS:
            self._refuse(CloseCode.POLICY_VIOLATION, f"a message has at most {MOST_FRAGMENTS} fragments")
        else:
            super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        """Pass a complete message on, or end the connection if it is a text that is not UTF-8."""
        if self.curr_msg_data_type == "text" and not self.close_sent:
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:  # uvicorn would log a traceback
                self._refuse(CloseCode.INVALID_DATA)
                return
        super().send_receive_event_to_app()

    def handle_pong(self, event: Frame) -> None:
        """Count a pong, whether it answers a ping or not."""
        self._parsed += 1
        super().handle_pong(event)

    def handle_ping(self) -> None:
        """Answer a ping; while the client takes nothing, only the latest ping is kept to be answered."""
        self._parsed += 1
        pongs = self.conn.data_to_send()
        if self.close_sent or not pongs:
            return
        if self.writable.is_set():
            self.transport.write(b"".join(pongs))
        else:
            self._pong = pongs[-1]

    def _parse_held(self) -> None:
        """Parse the data until the frames exceed the rate; then pause reading."""
        held, self._held, self._pause = self._held, b"", None
        for end in range(_SLICE, len(held) + _SLICE, _SLICE):
            self._parsed = 0
            super().data_received(held[end - _SLICE : end])
            wait = self.pace.take(self._parsed)
            if wait and not self.conn.eof_sent:  # nothing is parsed after an end
                self._held = held[end:]
                self._pause = self.loop.call_later(wait, self._parse_held)
                self.transport.pause_reading()
                return
        if not self.read_paused:
            self.transport.resume_reading()

    def _stay_paused(self) -> None:
        if self._pause is not None:  # the application resumes reading; the connection must not yet
            self.transport.pause_reading()

    def _refuse(self, code: CloseCode, why: str = "") -> None:
        self.frames = []
        self.conn.fail(code, why)
        self.handle_parser_exception()


WIRE = "reenact.wire"
"""The key under which the state of a WebSocket's scope holds its `Wire`."""
FIRST_SIZE = 64 * 1024
"""The largest message, in bytes, of a client that has not been authenticated."""
FLUSH = 5.0
"""Seconds in which a client may still read what was sent before its connection is cut."""
STALL_CHECK = 1.0
"""Seconds in which a client must read something while other clients wait for the memory of its answers."""
LINGER = 1.0
"""Seconds in which a client that is still sending can read why its connection is closed."""
_NO_LINGERING = struct.pack("ii", 1, 0)
"""The value of the option SO_LINGER: on, with a timeout of 0."""
_FULL_BODY = b'{"error":{"code":"too_many_connections","message":"the server has as many connections as it may"}}'
_FULL_RESPONSE = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_FULL_BODY), _FULL_BODY)
)


class Wire:
    """Gives the application access to the connection below it."""

    def __init__(self, protocol: WebSocketsSansIOProtocol) -> None:
        self._protocol = protocol

    def allow(self, size: int) -> None:
        """Allow messages of at most `size` bytes."""
        self._protocol.conn.max_message_size = size

    async def send(self, parts: Sequence[bytes]) -> None:
        """Send a text as fragments, each after the client has taken most of the previous ones.

        Raises:
            WebSocketDisconnect: the connection has ended, or is being closed.
        """
        protocol, conn = self._protocol, self._protocol.conn
        for number, (piece, is_last) in enumerate(_pieces_of(parts)):
            await protocol.writable.wait()
            try:
                if protocol.disconnected or protocol.close_sent:
                    raise WebSocketDisconnect(1006)
                (conn.send_continuation if number else conn.send_text)(piece, fin=is_last)
            except InvalidState:
                raise WebSocketDisconnect(1006) from None
            protocol.transport.write(b"".join(conn.data_to_send()))

    def cut(self, after: float = 0.0) -> None:
        """End the connection after at most `after` seconds, even if data is unsent."""
        self._protocol.loop.call_later(after, cut, self._protocol.transport)


class Transports:
    """The open connections of a server."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: set[asyncio.Transport] = set()
        self._none = asyncio.Event()

    def add(self, transport: asyncio.Transport) -> bool:
        """Register a connection; return whether the number of connections is within the limit."""
        self._open.add(transport)
        return len(self._open) <= self._most

    def discard(self, transport: asyncio.Transport) -> None:
        """Remove a connection that has ended."""
        self._open.discard(transport)
        if not self._open:
            self._none.set()

    async def wait_for_none(self, seconds: float) -> None:
        """Return when no connection is open, or after the given number of seconds."""
        if self._open:
            self._none.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._none.wait()

    def cut(self) -> None:
        """End all connections now."""
        for transport in tuple(self._open):
            cut(transport)


def cut(transport: asyncio.Transport) -> None:
    """End a connection now; unsent data is dropped, also by the system."""
    connection = transport.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING)
    transport.abort()


class _Timeout:
    """Ends a connection after a timeout, unless `end` is called before."""

    _timer: asyncio.TimerHandle | None = None

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds

    def begin(self, transport: asyncio.Transport) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, cut, transport)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _StallTimeout(_Timeout):
    """Closes a client that reads nothing, after a timeout, or soon if others wait for its answers' memory."""

    _until = 0.0

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limits: Limits, unread: Unread, give_up: Callable[[], object]
    ) -> None:
        super().__init__(loop, limits.stall_timeout)
        self._unread = unread
        self._give_up = give_up

    def watch(self) -> None:
        self.end()
        self._until = self._loop.time() + self._seconds
        self._check_later()

    def _check_later(self) -> None:
        self._timer = self._loop.call_later(min(STALL_CHECK, self._until - self._loop.time()), self._check)

    def _check(self) -> None:
        if self._unread.waiting or self._loop.time() >= self._until:
            self._timer = None
            self._give_up()
        else:
            self._check_later()


class _WatchedConnection(asyncio.Protocol):
    """A connection that ends if its client does not send a request in time, or does not read the responses."""

    transport: asyncio.Transport
    _transports: Transports
    _head: _Timeout
    _stall: _StallTimeout

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._head.end()
        self._stall.end()
        self._transports.discard(self.transport)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall.watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stall.end()


class _Parser(h11.Connection):
    """Parses requests, and refuses a body in too many chunks."""

    _chunks = 0

    def next_event(self) -> type[h11.NEED_DATA | h11.PAUSED] | h11.Event:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = 0
        elif isinstance(event, h11.Data):
            self._chunks += event.chunk_start
            if self._chunks > MOST_CHUNKS:
                raise h11.RemoteProtocolError(f"a body has at most {MOST_CHUNKS} chunks")
        return event


def http_protocol(transports: Transports, limits: Limits, unread: Unread) -> type[H11Protocol]:
    """Return the protocol class for the connections of a server, which begin with HTTP."""

    class HttpProtocol(_WatchedConnection, H11Protocol):
        """Ends connections whose request does not arrive, or whose response is not read."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # as uvicorn has it
            self._transports = transports
            self._head = _Timeout(self.loop, limits.head_timeout)
            self._stall = _StallTimeout(self.loop, limits, unread, lambda: cut(self.transport))
            self.conn = _Parser(h11.SERVER)
            super().connection_made(transport)
            if transports.add(transport):
                self._head.begin(transport)
            else:
                transport.write(_FULL_RESPONSE)
                transport.close()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.transport.get_protocol() is self and not self._is_answering():
                self._head.begin(self.transport)
            else:
                self._head.end()

        def send_400_response(self, msg: str) -> None:
            """Refuse what is not HTTP; if the request was answered before its body was wrong, only close."""
            try:
                super().send_400_response(msg)
            except h11.LocalProtocolError:
                self.transport.close()

        def _is_answering(self) -> bool:
            cycle = getattr(self, "cycle", None)  # not set before the first request, despite its annotation
            return cycle is not None and not cycle.response_complete

    return HttpProtocol


def socket_protocol(transports: Transports, limits: Limits, unread: Unread) -> type[WebSocketsSansIOProtocol]:
    """Return the class for connections that have become WebSockets."""

    class SocketProtocol(_WatchedConnection, PacedProtocol):
        """Ends connections whose handshake does not arrive, or whose client is gone, or reads nothing.

        A client that is not being read from, or that has not taken what was sent, cannot answer a ping, so a missing
        pong says nothing then.
        """

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.app_state = {**self.app_state, WIRE: Wire(self)}
            self._transports = transports
            self._head = _Timeout(self.loop, limits.head_timeout)
            self._stall = _StallTimeout(self.loop, limits, unread, self._give_up)
            self.pace = Bucket(FRAMES * limits.rate, FRAMES * limits.burst)
            super().connection_made(transport)
            self._head.begin(self.transport)

        def start_keepalive(self) -> None:
            super().start_keepalive()
            self._head.end()  # the handshake is done

        def eof_received(self) -> None:
            super().eof_received()
            # A client that sends an end usually reads no more, and unsent data would keep the connection open.
            self.loop.call_later(min(FLUSH, limits.stall_timeout), cut, self.transport)

        def keepalive_timeout(self) -> None:
            if self.read_paused or self.is_over_rate or not self.writable.is_set():
                self.pong_timer = None
                self.pending_ping_payload = None
                self.schedule_ping()
                return
            super().keepalive_timeout()
            self.loop.call_later(min(FLUSH, limits.stall_timeout), cut, self.transport)

        def handle_parser_exception(self) -> None:
            """Send the reason, and read on for a moment: with unread data, the system would discard the reason."""
            if self.close_sent or self.conn.close_sent is None:
                return
            code, reason = self.conn.close_sent.code, self.conn.close_sent.reason
            self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.write_eof()
            self.close_sent = True
            self.close_timer = self.loop.call_later(LINGER, self.transport.close)

        def _give_up(self) -> None:
            if not self.close_sent and not self.transport.is_closing():
                self.stop_keepalive()
                self.conn.fail(TOO_SLOW, "nothing of what was sent is taken")
                self.transport.write(b"".join(self.conn.data_to_send()))
                self.close_sent = True
                self.transport.close()
                self.writable.set()  # wakes the sending task
            self.loop.call_later(min(FLUSH, limits.stall_timeout), cut, self.transport)

    return SocketProtocol


def _pieces_of(parts: Sequence[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield the parts, joined or split into pieces of at most `PIECE` bytes, each with whether it is the last."""
    ends = [0, *accumulate(map(len, parts))]
    begin = 0
    while begin < len(parts):
        end = bisect_right(ends, ends[begin] + PIECE, lo=begin + 1) - 1  # all parts that fit
        if end > begin:
            yield b"".join(parts[begin:end]), end == len(parts)
        else:
            end, part = begin + 1, parts[begin]
            for start in range(0, len(part), PIECE):
                yield part[start : start + PIECE], end == len(parts) and start + PIECE >= len(part)
        begin = end
