"""Rate-limits WebSocket frames, including control frames and fragments."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame

from reenact.server.limits import Bucket

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveEvent, ASGISendEvent

MOST_FRAGMENTS = 4096
"""Frames of one message: enough for the largest message in pieces of 4 KiB."""
FRAMES = 10
"""Frames of any kind for each message that the limits of rate and burst allow."""
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
