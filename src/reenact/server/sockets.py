"""Serves one WebSocket: the hello, then frames in order; a frame that is not accepted is refused individually."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import assert_never

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from reenact.actors.feed.group import Group
from reenact.domain.errors import ProtocolError, ReenactError
from reenact.domain.stream.frames import (
    BAD_FRAME,
    NO_HELLO,
    NOT_ALLOWED,
    Ack,
    Answered,
    Ask,
    FromClient,
    Hello,
    Listen,
    Refused,
    Subscribe,
    Unsubscribe,
    Welcome,
)
from reenact.server.answers import READS
from reenact.server.limits import Bucket, Room
from reenact.server.outbox import Outbox, Subscriptions
from reenact.server.reading import NotAccepted, frame_of, hello_of
from reenact.server.service import INTERNAL, Service
from reenact.server.transports import FLUSH, WIRE, Wire

GOING_AWAY = 1001
INTERNAL_ERROR = 1011
_CLOSING = 0.5
"""Seconds in which a close frame must have been sent."""
_LAST_WORDS = 1.0
"""Seconds in which frames are still handled that arrived before the client left."""
_LONGEST_REASON = 120
"""The most bytes of a reason in a close frame."""
_log = logging.getLogger("reenact.server")


class Closing(Exception):
    """The connection is to be closed with this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason.encode()[:_LONGEST_REASON].decode(errors="ignore")


@dataclass
class Connection:
    """One client on an accepted WebSocket; `_is_authenticated` if the handshake had a token, or none is needed."""

    _websocket: WebSocket
    _service: Service
    _is_authenticated: bool

    def __post_init__(self) -> None:
        service = self._service
        self._limits = service.limits
        wire = self._websocket.scope.get("state", {}).get(WIRE)
        self._wire = wire if isinstance(wire, Wire) else None
        self._bucket = Bucket(self._limits.rate, self._limits.burst)
        self._read_lock = asyncio.Lock()
        """Held by the one read request that is carried out, as its answer may be large; the next waits for it."""
        self._request_room = Room(self._limits.requests, 2 * self._limits.message_size)
        group = Group(service.runtime.feed, asyncio.get_running_loop())
        self._outbox = Outbox(group, self._send, service.counts, service.unread)
        self._subscriptions = Subscriptions(group, self._outbox, self._limits.subscriptions, service.counts)
        self._outbox.on_ended = self._subscriptions.ended
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve the connection until one side ends it."""
        handling = asyncio.ensure_future(self._handle_frames())
        others = (self._outbox.send_frames(), self._outbox.send_events(), self._close_at_shutdown())
        tasks = [handling, *map(asyncio.ensure_future, others)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            closing = _closing_for(tasks)
            self._outbox.close()
            if closing is None:  # frames that the client sent before it left are still handled
                await asyncio.wait([handling], timeout=_LAST_WORDS)
                await self._subscriptions.settle()
        finally:
            self._outbox.close()
            await _cancel(tasks)
            self._subscriptions.close()
        if closing is not None:
            await self._close(closing)

    async def _close_at_shutdown(self) -> None:
        await self._service.ends.wait()
        raise Closing(GOING_AWAY, "the server ends")

    async def _close(self, closing: Closing) -> None:
        self._service.counts.closed[closing.code] += 1
        if self._wire is not None:
            self._wire.cut(after=FLUSH)
        with contextlib.suppress(TimeoutError, WebSocketDisconnect, RuntimeError):
            async with asyncio.timeout(_CLOSING):
                await self._websocket.close(closing.code, closing.reason)

    async def _handle_frames(self) -> None:
        await self._expect_hello()
        while True:
            await self._outbox.room()
            text = await self._receive()
            try:
                await self._handle(frame_of(text), len(text or ""))
            except NotAccepted as no:
                self._refuse(no.refused)

    async def _expect_hello(self) -> None:
        try:
            async with asyncio.timeout(self._limits.hello_timeout):
                hello = hello_of(await self._receive())
        except TimeoutError:
            raise Closing(NO_HELLO, "no hello came") from None
        except NotAccepted as no:
            await self._send([msgspec.json.encode(no.refused)])
            raise Closing(BAD_FRAME, no.refused.message) from None
        if not (self._is_authenticated or self._service.access.knows(hello.token)):
            raise Closing(NOT_ALLOWED, "the token is not known" if hello.token else "a token is needed")
        if self._wire is not None:
            self._wire.allow(self._limits.message_size)
        self._outbox.put(
            Welcome(
                server=self._service.name,
                max_message_size=self._limits.message_size,
                max_subscriptions=self._limits.subscriptions,
            )
        )

    async def _receive(self) -> str | None:
        """Return the next message, None if it is binary, after a wait if the client exceeds its rate."""
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1005), message.get("reason"))
        text: str | None = message.get("text")
        self._service.counts.received += len(message["bytes"] if text is None else text)
        await asyncio.sleep(self._bucket.take())
        return text

    async def _handle(self, frame: FromClient, size: int) -> None:
        match frame:
            case Ask():
                await self._request_room.enter(size)
                self._spawn(self._ask(frame), size)
            case Subscribe() | Listen():
                await self._subscriptions.begin(frame)
            case Ack():
                subscription = self._subscriptions.named(frame)
                await self._request_room.enter(size)
                task = self._spawn(self._subscriptions.acknowledge(frame, subscription), size)
                subscription.acks.add(task)
                task.add_done_callback(subscription.acks.discard)
            case Unsubscribe():
                await self._subscriptions.end(frame)
            case Hello():
                raise NotAccepted(None, ProtocolError.code, "hello was said before")
            case _:
                assert_never(frame)

    async def _ask(self, frame: Ask) -> None:
        try:
            is_read = frame.request in READS
            async with self._read_lock if is_read else contextlib.nullcontext():
                await self._outbox.room()
                if is_read and self._outbox.is_closed:  # no one is there to receive the answer
                    return
                answer = await self._service.ask(
                    frame.request,
                    frame.data,
                    frame.id,
                    frame.timeout,
                    lambda answer: msgspec.json.encode(Answered(id=frame.id, response=answer)),
                )
                self._outbox.put(answer)
        except ReenactError as error:
            self._refuse(NotAccepted.because(frame.id, error).refused)

    def _refuse(self, refused: Refused) -> None:
        self._service.counts.refused[refused.code] += 1
        self._outbox.put(refused)

    async def _send(self, parts: Sequence[bytes]) -> None:
        if self._wire is None:
            await self._websocket.send_text(b"".join(parts).decode())
        else:
            await self._wire.send(parts)
        self._service.counts.sent += sum(map(len, parts))

    def _spawn(self, work: Coroutine[object, object, None], size: int) -> asyncio.Task[None]:
        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            self._request_room.leave(size)
            if not task.cancelled() and (error := task.exception()) is not None:
                _log.error("a frame could not be obeyed", exc_info=error)
                self._refuse(Refused(code=INTERNAL.code, message=INTERNAL.message))

        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(done)
        return task


def _closing_for(tasks: Sequence[asyncio.Future[None]]) -> Closing | None:
    """Return how to close a connection one of whose tasks has ended; None if the client has gone."""
    errors = [error for task in tasks if task.done() and (error := task.exception()) is not None]
    if any(isinstance(error, WebSocketDisconnect) for error in errors):
        return None
    for error in errors:
        if isinstance(error, Closing):
            return error
        _log.error("a connection ended by what nobody expected", exc_info=error)
    return Closing(INTERNAL_ERROR, "internal error")


async def _cancel(tasks: Sequence[asyncio.Future[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
