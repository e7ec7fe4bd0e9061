"""The asyncio twin of a runtime in another process."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from typing import Literal, Self, overload

from reenact._aio import AsyncFacades, AsyncSubscription, Subscribing, Threads
from reenact.actors.feed.consumers import check_cursor
from reenact.actors.feed.family import FamilyStream
from reenact.actors.feed.handlers import Handler
from reenact.actors.feed.observable import Observable
from reenact.client.handlers import RemoteListener
from reenact.client.runtime import RemoteEvents, RemoteRuntime
from reenact.client.subscription import RemoteSubscription
from reenact.domain.errors import ReenactError


class AsyncRemoteListener(AsyncSubscription):
    """A handler of an asyncio caller. To unsubscribe, call it or leave its `with` or `async with` block.

    Await it, or enter its `async with` block, to be sure that it receives all events published from then on.
    """

    def __init__(self, listener: RemoteListener, events: RemoteEvents) -> None:
        super().__init__(listener)
        self._standing = listener.standing
        self._events = events

    def __await__(self) -> Generator[object, None, Self]:
        return self._subscribed().__await__()

    async def __aenter__(self) -> Self:
        return await self._subscribed()

    async def _subscribed(self) -> Self:
        try:
            await self._events.settled(self._standing)
        except BaseException:
            self()
            raise
        return self


class AsyncRemoteEvents(Observable[AsyncRemoteListener]):
    """`RemoteEvents` for asyncio: handlers, plain or coroutine functions, run on the event loop that subscribed them.

    An event is handled completely before the next one.
    """

    def __init__(self, runtime: RemoteRuntime) -> None:
        self._of = runtime.events

    def register(self, type: str | None, handler: Handler, session_id: str | None) -> AsyncRemoteListener:  # noqa: A002 - as there
        """See `Observable.register`."""
        return AsyncRemoteListener(self._of.begin(type, handler, session_id, asyncio.get_running_loop()), self._of)

    def subscribe(
        self, session_id: str, client_id: str | None = None, after: int | None = None, *, auto_ack: bool = True
    ) -> Subscribing[RemoteSubscription]:
        """See `RemoteEvents.subscribe`: iterate with `async for`, acknowledge with `aack`."""
        return Subscribing(lambda: self._subscribed(self._of.follow(session_id, client_id, after, auto_ack=auto_ack)))

    @overload
    def stream(self, session_id: str, after: int = 0) -> Subscribing[RemoteSubscription]: ...
    @overload
    def stream(
        self, session_id: str, after: int | Mapping[str, int] = 0, *, children: Literal[True]
    ) -> Subscribing[FamilyStream]: ...
    def stream(
        self, session_id: str, after: int | Mapping[str, int] = 0, *, children: bool = False
    ) -> Subscribing[RemoteSubscription] | Subscribing[FamilyStream]:
        """See `RemoteEvents.stream`: iterate with `async for`."""
        if children:
            return Subscribing(lambda: self._all_subscribed(*self._of.follow_family(session_id, after)))
        begin = check_cursor("`after`", after)
        return Subscribing(lambda: self._subscribed(self._of.follow_unnamed(session_id, begin)))

    async def _all_subscribed(self, family: FamilyStream, top: RemoteSubscription) -> FamilyStream:
        try:
            await self._of.settled(top.standing)
        except BaseException:
            family.unsubscribe()
            raise
        return family

    async def _subscribed(self, subscription: RemoteSubscription) -> RemoteSubscription:
        try:
            subscription.cursor = await self._of.settled(subscription.standing)
        except BaseException:
            subscription.unsubscribe()
            raise
        return subscription


class AsyncRemoteRuntime(AsyncFacades):
    """The result of `AsyncRuntime.connect`."""

    def __init__(self, runtime: RemoteRuntime, threads: Threads) -> None:
        self.events = AsyncRemoteEvents(runtime)
        super().__init__(runtime, threads, self.events.stream)
        self._remote = runtime

    @property
    def failure(self) -> ReenactError | None:
        """See `RemoteRuntime.failure`."""
        return self._remote.failure
