"""A WebSocket: the hello, then frames in order, each refused by itself if it cannot be accepted."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from typing import Any, Final

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from reenact.domain.errors import InvalidInputError, ReenactError
from reenact.domain.events import Envelope
from reenact.domain.frames import (
    BAD_FRAME,
    NO_HELLO,
    NOT_ALLOWED,
    PROTOCOL,
    Ack,
    Acked,
    Answered,
    Ask,
    Ended,
    FromClient,
    Hello,
    Listen,
    Refused,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Welcome,
)
from reenact.server.limits import Bucket, Room
from reenact.server.outbox import Followed, Outbox
from reenact.server.service import Service
from reenact.server.transports import FLUSH, WIRE, Wire

GOING_AWAY: Final = 1001
INTERNAL_ERROR: Final = 1011
_CLOSING: Final = 0.5
"""Seconds in which a close frame must have gone out."""
_LAST_ACKS: Final = 1.0
"""Seconds in which what a client that has left acknowledged must have become durable."""
_FRAMES: Final = msgspec.json.Decoder(FromClient)
_ANY: Final = msgspec.json.Decoder(dict[str, Any])
_log: Final = logging.getLogger("reenact.server")


class Closing(Exception):  # noqa: N818 - no error: the way out of a conversation
    """The connection is to be closed with this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


class Unreadable(Exception):  # noqa: N818 - the sender's error, which it is told of
    """A message is no frame that a client may send."""

    def __init__(self, id_: str | None, message: str, code: str = "invalid_frame") -> None:
        super().__init__(message)
        self.refused = Refused(id=id_, code=code, message=message)


class Connection:
    """One client."""

    def __init__(self, websocket: WebSocket, service: Service, *, known: bool) -> None:
        """Take an accepted WebSocket; `known` if a token came with the handshake, or none is needed."""
        self._websocket = websocket
        self._service = service
        self._known = known
        self._limits = service.limits
        wire = websocket.scope.get("state", {}).get(WIRE)
        self._wire = wire if isinstance(wire, Wire) else None
        self._bucket = Bucket(self._limits.rate, self._limits.burst)
        self._room = Room(self._limits.requests, 2 * self._limits.message_size)
        self._group = service.group()
        self._outbox = Outbox(self._group, self._send, self._gone)
        self._names = itertools.count(1)
        self._subscriptions: dict[str, Followed] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._acks: dict[str, set[asyncio.Task[None]]] = {}
        self._leaving: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Talk until one side ends it."""
        tasks = [asyncio.ensure_future(work) for work in (self._talk(), self._outbox.run())]
        closing: Closing | None = None
        try:
            await asyncio.wait([*tasks, self._leaving], return_when=asyncio.FIRST_COMPLETED)
            closing = self._why(tasks)
            if closing is None:
                await self._finish_acks()
        finally:
            await _end([*tasks, *self._tasks])
            self._group.close()
            self._service.counts.subscriptions -= len(self._subscriptions)
            self._service.counts.events += self._outbox.events
            self._leaving.cancel()
        if closing is not None:
            await self._close(closing)

    def leave(self) -> None:
        """Have the connection closed, because the server ends."""
        if not self._leaving.done():
            self._leaving.set_result(None)

    def _why(self, tasks: list[asyncio.Future[None]]) -> Closing | None:
        """Return how to close, or None if the client has gone."""
        for task in tasks:
            error = task.exception() if task.done() and not task.cancelled() else None
            match error:
                case None:
                    continue
                case Closing():
                    return error
                case WebSocketDisconnect():
                    return None
                case _:
                    _log.error("a connection ended by what nobody expected", exc_info=error)
                    return Closing(INTERNAL_ERROR, "internal error")
        return Closing(GOING_AWAY, "the server ends")

    async def _close(self, closing: Closing) -> None:
        self._service.counts.closed[closing.code] += 1
        if self._wire is not None:
            self._wire.cut(after=FLUSH)
        with contextlib.suppress(TimeoutError, WebSocketDisconnect, RuntimeError):
            async with asyncio.timeout(_CLOSING):
                await self._websocket.close(closing.code, closing.reason)

    async def _talk(self) -> None:
        await self._expect_hello()
        while True:
            await self._outbox.room()
            try:
                await self._obey(*await self._next())
            except Unreadable as unreadable:
                self._refuse(unreadable.refused)

    async def _expect_hello(self) -> None:
        try:
            async with asyncio.timeout(self._limits.hello_timeout):
                frame, _ = await self._next()
        except TimeoutError:
            raise Closing(NO_HELLO, "no hello came") from None
        except Unreadable as unreadable:
            await self._send(msgspec.json.encode(unreadable.refused))
            raise Closing(BAD_FRAME, "the first frame is to be a hello") from None
        if not isinstance(frame, Hello):
            await self._send(_error(None, "protocol", "the first frame is to be a hello"))
            raise Closing(BAD_FRAME, "the first frame is to be a hello")
        if frame.protocol != PROTOCOL:
            await self._send(
                _error(None, "protocol", f"this server speaks protocol {PROTOCOL}, the client {frame.protocol}")
            )
            raise Closing(BAD_FRAME, f"protocol {PROTOCOL} is spoken here")
        if not (self._known or self._service.access.knows(frame.token)):
            raise Closing(NOT_ALLOWED, "the token is not known" if frame.token else "a token is needed")
        if self._wire is not None:
            self._wire.allow(self._limits.message_size)
        self._outbox.put(
            Welcome(
                server=self._service.name,
                max_message_size=self._limits.message_size,
                max_subscriptions=self._limits.subscriptions,
            )
        )

    async def _next(self) -> tuple[FromClient, int]:
        """Return the next frame and the size of its message, when the client may send one."""
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1005), message.get("reason"))
        text: str | None = message.get("text")
        self._service.counts.received += len(text if text is not None else message["bytes"])
        await asyncio.sleep(self._bucket.take())
        if text is None:
            raise Unreadable(None, "a message is JSON in text; this one is binary")
        try:
            return _FRAMES.decode(text), len(text)
        except (msgspec.DecodeError, RecursionError) as error:
            raise Unreadable(_id_of(text), f"this is no frame of a client: {error}") from None

    async def _obey(self, frame: FromClient, size: int) -> None:
        match frame:
            case Ask():
                await self._room.enter(size)
                self._spawn(self._ask(frame, size))
            case Subscribe() | Listen():
                await self._follow(frame)
            case Ack():
                followed = self._subscription(frame.id)
                if followed.listens:
                    raise Unreadable(frame.id, "what is listened to is not acknowledged", InvalidInputError.code)
                await self._room.enter(size)
                self._acks[followed.name].add(self._spawn(self._ack(frame, followed, size)))
            case Unsubscribe():
                followed = self._subscription(frame.id)
                if acks := self._acks[followed.name]:
                    await asyncio.wait(acks)
                if self._subscriptions.get(frame.id) is followed:
                    self._outbox.forget(followed)
                    self._gone(followed)
                    self._outbox.put(Ended(id=frame.id, reason="unsubscribed"))
            case Hello():
                raise Unreadable(None, "hello was said before", "protocol")

    async def _ask(self, frame: Ask, size: int) -> None:
        try:
            answer = await self._service.desk.ask(
                frame.request, frame.data, frame.id, frame.timeout, lambda envelope: _answer(frame.id, envelope)
            )
            self._outbox.put(answer)
        except ReenactError as error:
            self._refuse(Refused(id=frame.id, code=error.code, message=str(error)))
        finally:
            self._room.leave(size)

    async def _follow(self, frame: Subscribe | Listen) -> None:
        if frame.id in self._subscriptions:
            raise Unreadable(frame.id, f"there is a subscription {frame.id!r} already", "already_exists")
        if len(self._subscriptions) >= self._limits.subscriptions:
            most = f"a connection has at most {self._limits.subscriptions} subscriptions"
            raise Unreadable(frame.id, most, "too_many_subscriptions")
        followed = Followed(frame.id, str(next(self._names)), listens=isinstance(frame, Listen))
        self._outbox.follow(followed)
        try:
            after = await self._add(followed.name, frame)
        except ReenactError as error:
            self._outbox.forget(followed)
            raise Unreadable(frame.id, str(error), error.code) from None
        self._subscriptions[frame.id] = followed
        self._acks[followed.name] = set()
        self._service.counts.subscriptions += 1
        self._outbox.put(Subscribed(id=frame.id, after=after))
        followed.told.set()

    async def _add(self, name: str, frame: Subscribe | Listen) -> int | None:
        match frame:
            case Subscribe():
                return await self._group.add(name, frame.topic, frame.client_id, frame.after)
            case Listen():
                await self._group.add_listener(name, frame.types, frame.after)
                return None

    async def _ack(self, frame: Ack, followed: Followed, size: int) -> None:
        try:
            await self._group.ack(followed.name, frame.cursor)
            self._outbox.put(Acked(id=frame.id, cursor=frame.cursor))
        except ReenactError as error:
            self._refuse(Refused(id=frame.id, code=error.code, message=str(error)))
        finally:
            self._room.leave(size)

    def _subscription(self, id_: str) -> Followed:
        followed = self._subscriptions.get(id_)
        if followed is None:
            raise Unreadable(id_, f"there is no subscription {id_!r}", "subscription_not_found")
        return followed

    def _gone(self, followed: Followed) -> None:
        """Let go of a subscription that has ended."""
        self._group.remove(followed.name)
        self._subscriptions.pop(followed.id, None)
        self._acks.pop(followed.name, None)
        self._service.counts.subscriptions -= 1

    def _refuse(self, refused: Refused) -> None:
        self._service.counts.refused[refused.code] += 1
        self._outbox.put(refused)

    async def _send(self, frame: bytes) -> None:
        await self._websocket.send_text(frame.decode())
        self._service.counts.sent += len(frame)

    def _spawn(self, work: Any) -> asyncio.Task[None]:  # noqa: ANN401 - a coroutine of ours
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _finish_acks(self) -> None:
        if acks := [task for tasks in self._acks.values() for task in tasks if not task.done()]:
            await asyncio.wait(acks, timeout=_LAST_ACKS)


async def _end(tasks: list[asyncio.Future[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _answer(id_: str, response: Envelope) -> bytes:
    return msgspec.json.encode(Answered(id=id_, response=response))


def _error(id_: str | None, code: str, message: str) -> bytes:
    return msgspec.json.encode(Refused(id=id_, code=code, message=message))


def _id_of(text: str) -> str | None:
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        found = _ANY.decode(text).get("id")
        return found if isinstance(found, str) else None
    return None
