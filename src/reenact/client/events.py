"""`runtime.events` of a remote runtime: handlers and subscriptions."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from reenact.actors.feed.consumers import check_cursor
from reenact.actors.feed.handlers import Handler, check_handler, check_session, check_type
from reenact.actors.feed.observable import Observable
from reenact.client.handlers import Handlers, RemoteListener
from reenact.client.link import Link
from reenact.client.subscription import RemoteSubscription
from reenact.domain.errors import InvalidInputError, SessionNotFoundError
from reenact.domain.messages import check_text
from reenact.domain.plain import is_sayable

R = TypeVar("R")


class RemoteEvents(Observable[RemoteListener]):
    """What happens, as it becomes durable, told by the server.

    Handlers, registered by `on` and `on_all`, are not called with requests and responses. They are called on one
    thread of the client, which waits for each. After the connection was lost, what the sessions that were heard of
    have had meanwhile comes first. What belongs to no session, or to one that was not heard of before, is missed
    then, and also when handlers are 10,000 events behind: `subscribe` misses nothing.
    """

    def __init__(self, link: Link, handlers: Handlers, client_id: str | None, timeout: float | None) -> None:
        self._link = link
        self._handlers = handlers
        self._client_id = client_id
        self._timeout = timeout
        self._late = f"the server did not answer within {timeout} s"

    def register(self, type: str | None, handler: Handler, session_id: str | None) -> RemoteListener:  # noqa: A002 - as there
        """See `Observable.register`.

        Raises:
            RequestTimeoutError: the server cannot be reached at present.
        """
        listener = self.begin(type, handler, session_id)
        self._settled(listener.standing, listener)
        return listener

    def begin(self, type: str | None, handler: Handler, session_id: str | None) -> RemoteListener:  # noqa: A002 - as there
        """Do as `on`, or as `on_all` if the type is None, but without waiting for the server: see `standing`."""
        if type is not None:
            check_type(type)
        return self._handlers.add(type, check_handler(handler), check_session(session_id))

    def subscribe(
        self, session_id: str, client_id: str | None = None, after: int | None = None, *, auto_ack: bool = True
    ) -> RemoteSubscription:
        """Follow a session under a name: what it was told, then what it is told, each event once and in order.

        It begins behind the cursor `after`; without it behind what was acknowledged under this name, in this session;
        or else with the first event. The name is the runtime's own `client_id` unless another is given.

        Unless `auto_ack` is false, events are acknowledged by themselves, many at a time, when one behind them is asked
        for: who ends in between is given the last ones again.

        Raises:
            SessionNotFoundError: no session has this id, or had it. One that was deleted can be followed to its end.
            InvalidInputError: `after` is no cursor of the session; the client id is blank, no text, or missing.
            RequestTimeoutError: the server cannot be reached at present.
            RuntimeClosedError: the runtime is closed.
        """
        return self._stand(self.follow(session_id, client_id, after, auto_ack=auto_ack))

    def stream(self, session_id: str, after: int = 0) -> RemoteSubscription:
        """Follow a session without a name: as `subscribe` does, from behind the cursor `after` on."""
        return self._stand(self.follow_unnamed(session_id, after))

    def follow(
        self, session_id: str, client_id: str | None, after: int | None, *, auto_ack: bool
    ) -> RemoteSubscription:
        """Do as `subscribe`, but without waiting for the server: see `standing`."""
        name = self._client_id if client_id is None else client_id
        if name is None:
            raise InvalidInputError(
                "subscribe needs a client id, here or in `Runtime.connect`; `stream` follows a session without one"
            )
        checked = check_text("the client id", name)
        begin = None if after is None else check_cursor("`after`", after)
        return self._open(session_id, checked, begin, auto_ack=auto_ack)

    def follow_unnamed(self, session_id: str, after: int) -> RemoteSubscription:
        """Do as `stream`, but without waiting for the server."""
        return self._open(session_id, None, check_cursor("`after`", after), auto_ack=False)

    def _open(self, session_id: str, client_id: str | None, after: int | None, *, auto_ack: bool) -> RemoteSubscription:
        if not is_sayable(session_id):
            raise SessionNotFoundError(session_id)
        subscription = RemoteSubscription(
            self._link, session_id, client_id, after, auto_ack=auto_ack, timeout=self._timeout
        )
        subscription.open()
        return subscription

    def _stand(self, subscription: RemoteSubscription) -> RemoteSubscription:
        subscription.cursor = self._settled(subscription.standing, subscription.unsubscribe)
        return subscription

    async def settled(self, standing: Future[R]) -> R:
        """Return what the server has said, without blocking the event loop."""
        return await self._link.result_async(standing, self._timeout, self._late)

    def _settled(self, standing: Future[R], end: Callable[[], object]) -> R:
        """Return what the server has said; end what does not stand."""
        try:
            return self._link.result(standing, self._timeout, self._late)
        except BaseException:
            end()
            raise
