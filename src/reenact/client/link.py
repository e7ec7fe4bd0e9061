"""Keeps a connection to a server; on each new connection, all senders are asked for the frames to send."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeAlias, TypeVar

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from reenact.client.asking import Answered, Batch, Events, PendingRequest, read_frame
from reenact.client.dialing import CLOSING, Dialer, ElsewhereError, Reconnect, UnintelligibleError, closing_error
from reenact.client.thread import ClientThread, closed, reject, resolve
from reenact.domain.errors import (
    AuthenticationError,
    ProtocolError,
    ReenactError,
    RequestReusedError,
    RequestTimeoutError,
    ServerUnreachableError,
)
from reenact.domain.stream.frames import BAD_FRAME, Acked, Ended, Refused, Subscribed, Welcome

T = TypeVar("T")
_BLAMES = frozenset({1003, 1007, 1008, 1009, BAD_FRAME})
"""Close codes with which a server rejects a frame that it was sent."""
_PAUSE = 1.0
"""Seconds between two attempts if the user's wait function has failed, or if the server could not read its log."""
_TENDING = 0.5
"""Seconds between two automatic acknowledgements of a subscription, and between checks for abandoned followers."""
LAST_WORDS = 5.0
"""Seconds in which, before the link ends, frames are sent and acknowledgements become durable."""
_log = logging.getLogger("reenact.client")

FollowerFrame: TypeAlias = Subscribed | Acked | Ended | Refused | Batch


class Follower:
    """A sender with ids, under which the server sends frames to it. Used on the link's thread."""

    queued = False
    _drops_events = False  # an event was dropped, and later ones are not accepted before it
    _is_full = False  # there was no room, and no signal of new room yet
    _is_postponed = False  # the server does not accept it any more on this connection
    _has_left = False  # no one wants events any more

    def __init__(self, link: Link) -> None:
        self._link = link

    def begin(self) -> None:
        """Note that there is a new connection."""
        self._drop()
        self._is_postponed = False

    def note_loss(self, *, blamed: bool) -> None:
        """Note that the connection is lost."""
        self._drop()

    def next_frame(self, welcome: Welcome) -> bytes | None:
        """Return the next frame to send on this connection, or None."""
        raise NotImplementedError

    def fail(self, error: ReenactError) -> None:
        """End because of an error: there will be no other connection."""
        raise NotImplementedError

    def resume(self) -> None:
        """Note that there is room again."""
        self._is_full = False
        self._link.queue_sender(self)

    def retry_later(self) -> None:
        """Ask again after a pause, on this connection: the server could not read its log."""
        self._drop()
        self._is_postponed = True
        asyncio.get_running_loop().call_later(_PAUSE, self._retry)

    def handle(self, frame: FollowerFrame) -> None:
        """Handle a frame, or one of its batches, for one of its ids."""
        raise NotImplementedError

    def acknowledge_handled(self) -> None:
        """Acknowledge the processed events, if this is done automatically."""

    def leave(self) -> None:
        """Send what is still to be sent, because the link is about to end."""
        raise NotImplementedError

    def has_unconfirmed(self) -> bool:
        """Return whether the link must wait before it ends, because an answer is pending."""
        return False

    def _drop(self) -> None:
        """Release the ids, which deliver nothing more."""
        raise NotImplementedError

    def _retry(self) -> None:
        self._is_postponed = False
        self._link.queue_sender(self)


Sender: TypeAlias = Follower | PendingRequest
"""An object with frames to send on every new connection."""


class Link:
    """Keeps a connection until it is closed. Any thread may call its methods, unless they name the link's thread."""

    _welcome: Welcome | None = None
    _end_error: ReenactError | None = None
    _progress = False
    _closing = False
    _task: asyncio.Task[None] | None = None

    def __init__(self, dialer: Dialer, reconnect: Reconnect, first: Future[None] | None = None) -> None:
        self.failure: ReenactError | None = ServerUnreachableError(f"{dialer.address} has not answered yet")
        """The reason for which there is no connection; None while there is one."""
        self.first: Future[None] = Future() if first is None else first
        """Done with the first connection, or with the error for which there will be none."""
        self.abandoned: deque[Follower] = deque()
        """Followers without a consumer. Finalizers append to it, since they may run at any point and must not block;
        the link's thread ends these followers."""
        self.address = dialer.address
        self._dialer = dialer
        self._reconnect = reconnect
        self._requests: dict[str, list[PendingRequest]] = {}
        self._followers: dict[Follower, None] = {}
        self._routes: dict[str, Follower] = {}
        self._ids = itertools.count(1)
        self._queue: deque[Sender] = deque()
        self._wake = asyncio.Event()
        self._leaving = asyncio.Event()
        self._thread = ClientThread(self._run)

    def call(self, function: Callable[..., None], *given: object) -> None:
        """Call the function on the link's thread, after earlier calls; see `ClientThread.call`."""
        self._thread.call(function, *given)

    def ask(self, asked: PendingRequest) -> None:
        """Send the request, on as many connections as necessary; `asked.answer` is settled when it is answered."""
        self._thread.call(self._ask, asked)

    def forget(self, asked: PendingRequest) -> None:
        """Stop sending the request."""
        with contextlib.suppress(ReenactError):
            self._thread.call(self._forget, asked)

    def result(self, answer: Future[T], timeout: float | None, late: str) -> T:
        """Return the server's answer; wait at most `timeout` seconds for it.

        Raises:
            RequestTimeoutError: it did not arrive in time, with the message `late`.
        """
        try:
            return answer.result(timeout)
        except TimeoutError as error:
            raise self._late(error, late) from None

    async def result_async(self, answer: Future[T], timeout: float | None, late: str) -> T:  # noqa: ASYNC109 - as there
        """Do the same as `result` without blocking the event loop."""
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.wrap_future(answer)
        except TimeoutError as error:
            raise self._late(error, late) from None

    def _late(self, error: TimeoutError, late: str) -> TimeoutError:
        if isinstance(error, ReenactError):  # the server's own timeout
            return error
        why = "" if self.failure is None else f": {self.failure}"
        return RequestTimeoutError(f"{late}{why}")

    def check_open(self) -> None:
        """Raise `RuntimeClosedError` once the link has begun to close."""
        if self._closing:
            raise closed()

    def close(self) -> None:
        """Send what is still to be sent, if there is a connection, and end; return when this is done. Idempotent.

        Acknowledgements are then durable, unless the server does not confirm them within seconds.
        """
        self._closing = True
        with contextlib.suppress(ReenactError):
            self._thread.call(self._leave)
        self._thread.join()

    def add(self, follower: Follower) -> None:
        """Add the follower, if it is not added yet. On the link's thread."""
        self._end_abandoned()
        if self._end_error is not None:
            follower.fail(_copy_of(self._end_error))
        elif follower not in self._followers:
            self._followers[follower] = None
            if self._welcome is not None:
                follower.begin()
                self.queue_sender(follower)

    def remove(self, follower: Follower) -> None:
        """Remove the follower. On the link's thread."""
        self._followers.pop(follower, None)

    def queue_sender(self, sender: Sender) -> None:
        """Queue the sender to be asked for its next frame. On the link's thread."""
        if self._welcome is not None and not sender.queued:
            sender.queued = True
            self._queue.append(sender)
            self._wake.set()

    def take_id(self, follower: Follower) -> str:
        """Return a new id for the follower on this connection. On the link's thread."""
        id_ = str(next(self._ids))
        self._routes[id_] = follower
        return id_

    def drop_id(self, id_: str) -> None:
        """Release an id: frames for it are ignored. On the link's thread."""
        self._routes.pop(id_, None)

    def _end_abandoned(self) -> None:
        while self.abandoned:
            self.abandoned.popleft().leave()

    async def _tend_followers(self) -> None:
        while True:
            await asyncio.sleep(_TENDING)
            self._end_abandoned()
            for follower in tuple(self._followers):
                follower.acknowledge_handled()

    def _ask(self, asked: PendingRequest) -> None:
        same = self._requests.setdefault(asked.id, [])
        if self._end_error is not None:
            asked.fail(_copy_of(self._end_error))
        elif same and (same[0].request, same[0].data) != (asked.request, asked.data):
            asked.fail(RequestReusedError(asked.id))
        else:
            same.append(asked)
            self.queue_sender(asked)

    def _forget(self, asked: PendingRequest) -> None:
        self._requests[asked.id] = [other for other in self._requests.get(asked.id, ()) if other is not asked]
        if not self._requests[asked.id]:
            del self._requests[asked.id]

    def _leave(self) -> None:
        if self._leaving.is_set() or self._task is None:
            return
        for follower in tuple(self._followers):
            follower.leave()
        self._leaving.set()
        if self._welcome is None:
            self._task.cancel()

    async def _run(self) -> None:
        self._task = asyncio.current_task()
        clearing = asyncio.ensure_future(self._tend_followers())
        try:
            await self._keep()
        except ReenactError as error:
            self._end(error)
            await self._leaving.wait()
        finally:
            clearing.cancel()
            self._end(closed())

    async def _keep(self) -> None:
        """Keep a connection until the link ends, or no connection is possible."""
        failures = 0
        while not self._leaving.is_set():
            try:
                socket, welcome = await self._dialer.dial()
                failures = 0 if await self._use(socket, welcome) else failures
            except (UnintelligibleError, ServerUnreachableError) as error:
                self.failure = error
                if isinstance(error, UnintelligibleError | ElsewhereError) and not self.first.done():
                    raise
            except (AuthenticationError, ProtocolError):
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, the next attempt may succeed
                _log.exception("an attempt to reach %s failed", self._dialer.address)
                self.failure = ServerUnreachableError(f"the attempt to reach {self._dialer.address} failed: {error!r}")
            if not self._leaving.is_set():
                _log.debug("reconnecting, after %d failures: %s", failures, self.failure)
                await self._pause(failures)
            failures += 1

    async def _pause(self, failures: int) -> None:
        try:
            await self._reconnect.wait(self._reconnect.delay(failures))
        except Exception:  # noqa: BLE001 - it is the user's function
            _log.exception("computing the delay before reconnecting failed; it is %s s now", _PAUSE)
            await asyncio.sleep(_PAUSE)

    async def _use(self, socket: ClientConnection, welcome: Welcome) -> bool:
        """Use the connection until it is lost or the link ends; return whether the server has sent anything on it."""
        try:
            self._begin(welcome)
        except BaseException:
            self._welcome = None
            socket.transport.abort()
            raise
        talking = [asyncio.ensure_future(work) for work in (self._receive_all(socket), self._send_all(socket, welcome))]
        tasks = [*talking, asyncio.ensure_future(self._wait_for_leave())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if self._leaving.is_set():
                self._wake.set()
                await asyncio.wait(talking, timeout=LAST_WORDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            self._welcome = None
            await _close(socket)
        for end in ends:
            if isinstance(end, Exception):
                self._note_loss(end)
                break
        return self._progress

    def _begin(self, welcome: Welcome) -> None:
        self.failure = None
        self._progress = False
        self._routes.clear()
        self._queue.clear()
        self._welcome = welcome
        for sender in self._senders():
            sender.queued = False
            sender.begin()
            self.queue_sender(sender)
        resolve(self.first, None)

    def _note_loss(self, why: Exception) -> None:
        """Notify all senders that the connection is lost; raise an error after which there can be no other."""
        blamed = isinstance(why, ConnectionClosed) and why.rcvd is not None and why.rcvd.code in _BLAMES
        match why:
            case ConnectionClosed():
                error = closing_error(why, self._dialer.address)
            case ReenactError():
                error = why
            case _:
                error = ProtocolError(f"the connection to {self._dialer.address} failed: {why!r}")
        _log.log(
            logging.INFO if isinstance(error, ServerUnreachableError) else logging.WARNING,
            "%s",
            error,
            exc_info=None if isinstance(why, ConnectionClosed | ReenactError) else why,
        )
        self.failure = error
        for sender in self._senders():
            sender.note_loss(blamed=blamed)
        if isinstance(error, AuthenticationError):
            raise error

    def _end(self, error: ReenactError) -> None:
        reject(self.first, error)
        self.failure = self._end_error = error
        senders = self._senders()
        self._followers.clear()
        self._requests.clear()
        for sender in senders:
            sender.fail(_copy_of(error))

    async def _wait_for_leave(self) -> None:
        await self._leaving.wait()

    async def _send_all(self, socket: ClientConnection, welcome: Welcome) -> None:
        """Send frames until the link is to end, nothing is left to send, and no follower waits for an answer."""
        while True:
            while self._queue:
                sender = self._queue.popleft()
                sender.queued = False
                frame = sender.next_frame(welcome)
                if frame is not None:
                    self.queue_sender(sender)
                    await socket.send(frame, text=True)
            if self._leaving.is_set() and not any(follower.has_unconfirmed() for follower in self._followers):
                return
            self._wake.clear()
            await self._wake.wait()

    async def _receive_all(self, socket: ClientConnection) -> None:
        while True:
            message = await socket.recv(decode=False)
            self._receive(message)
            self._progress = True
            if self._leaving.is_set():
                self._wake.set()

    def _receive(self, message: bytes) -> None:
        frame = read_frame(message)
        match frame:
            case None:
                _log.debug("the server sent a frame that this version does not know: %.200r", message)
            case Answered():
                for asked in tuple(self._requests.get(frame.id, ())):
                    asked.handle(frame.response)
                    self._settle(asked)
            case Events():
                for batch in frame.batches:
                    if follower := self._routes.get(batch.id):
                        follower.handle(batch)
            case Refused(id=None):
                _log.warning("the server refused a frame: %s: %s", frame.code, frame.message)
            case Refused(id=str(id_)) if id_ in self._requests:
                for asked in tuple(self._requests[id_]):
                    asked.refuse(frame)
                    self._settle(asked)
            case Welcome():
                raise ProtocolError("the server sent a second welcome")
            case _:
                if follower := self._routes.get(frame.id or ""):
                    follower.handle(frame)

    def _settle(self, asked: PendingRequest) -> None:
        if asked.answer.done():
            self._forget(asked)

    def _senders(self) -> tuple[Sender, ...]:
        return (*self._followers, *(asked for same in self._requests.values() for asked in same))


async def _close(socket: ClientConnection) -> None:
    try:
        async with asyncio.timeout(CLOSING):
            await socket.close()
    except (TimeoutError, OSError):
        pass
    finally:
        socket.transport.abort()


def _copy_of(error: ReenactError) -> ReenactError:
    """Return a copy of the error, so that its receivers do not share a traceback."""
    return type(error)(*error.args)
