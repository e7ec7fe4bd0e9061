"""A remote runtime: the same facades and events, over a connection that is restored when it is lost."""

from __future__ import annotations

import math
import uuid
from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Literal, Self, TypeVar, overload

import msgspec

from reenact._lazy import resolve_types
from reenact.actors.api.asking import Asker, Asking
from reenact.actors.feed.consumers import check_cursor
from reenact.actors.feed.family import FamilyStream, cursors_of
from reenact.actors.feed.handlers import Handler, check_callable, check_handler, check_session, check_type
from reenact.actors.feed.observable import Observable
from reenact.actors.kernel.at_exit import AtExit
from reenact.client.asking import Answer, PendingRequest, encoded, of_builtin_type, read_envelope
from reenact.client.dialing import SCHEME, Dialer, RayHosts, Reconnect, ServerAddress, check_token, websocket_addresses
from reenact.client.handlers import Handlers, RemoteListener
from reenact.client.link import Link
from reenact.client.subscription import RemoteSubscription
from reenact.domain.content import plain_content
from reenact.domain.errors import (
    ConfigurationError,
    InvalidInputError,
    ProtocolError,
    ReenactError,
    ServerUnreachableError,
    SessionNotFoundError,
    UnknownCommandError,
    from_wire,
)
from reenact.domain.idempotency import given_fields
from reenact.domain.messages import check_text
from reenact.domain.operations.checks import checked
from reenact.domain.operations.images import travelling
from reenact.domain.operations.table import REQUESTS, ImageContent, Request, Response
from reenact.domain.plain import DEEPEST, can_be_id, check_id, is_mapping, plain, seconds_of
from reenact.domain.stream.events import Envelope


@dataclass(eq=False)
class RemoteEvents(Observable[RemoteListener]):
    """The events of a server's runtime, delivered once they are durable.

    Handlers, registered by `on` and `on_all`, do not receive requests and responses. They are called on one thread of
    the client, which waits for each. After a lost connection, handlers first receive what they missed of the sessions
    whose events they have received before. Events of no session, or of other sessions, are missed then, and so are
    events when handlers are 10,000 events behind: `subscribe` misses nothing.
    """

    _link: Link
    _handlers: Handlers
    _client_id: str | None
    _timeout: float | None

    def __post_init__(self) -> None:
        self._late = f"the server did not answer within {self._timeout} s"

    def register(self, type: str | None, handler: Handler, session_id: str | None) -> RemoteListener:  # noqa: A002 - as there
        """See `Observable.register`.

        Raises:
            RequestTimeoutError: the server cannot be reached at present.
        """
        listener = self.begin(type, handler, session_id)
        self._settled(listener.standing, listener)
        return listener

    def begin(
        self,
        type: str | None,  # noqa: A002 - as there
        handler: Handler,
        session_id: str | None,
        loop: AbstractEventLoop | None = None,
    ) -> RemoteListener:
        """Do as `on`, or as `on_all` if the type is None, but without waiting for the server: see `standing`."""
        if type is not None:
            check_type(type)
        (check_handler if loop is None else check_callable)(handler)
        return self._handlers.add(type, handler, check_session(session_id), loop)

    def subscribe(
        self, session_id: str, client_id: str | None = None, after: int | None = None, *, auto_ack: bool = True
    ) -> RemoteSubscription:
        """Follow a session under a name: its past events, then its new ones, each once and in order.

        The subscription begins after the cursor `after`; without it, after the last event acknowledged under this name
        in this session; or else with the first event. The name is the runtime's own `client_id` unless another is
        given.

        Unless `auto_ack` is false, events are acknowledged automatically, many at a time, when an event after them is
        requested: a consumer that ends in between receives the last ones again.

        Raises:
            SessionNotFoundError: no session has, or had, this id. A deleted session can be followed to its end.
            InvalidInputError: `after` is not a cursor of the session; the client id is blank, no text, or missing.
            RequestTimeoutError: the server cannot be reached at present.
            RuntimeClosedError: the runtime is closed.
        """
        return self._stand(self.follow(session_id, client_id, after, auto_ack=auto_ack))

    @overload
    def stream(self, session_id: str, after: int = 0) -> RemoteSubscription: ...
    @overload
    def stream(
        self, session_id: str, after: int | Mapping[str, int] = 0, *, children: Literal[True]
    ) -> FamilyStream: ...
    def stream(
        self, session_id: str, after: int | Mapping[str, int] = 0, *, children: bool = False
    ) -> RemoteSubscription | FamilyStream:
        """Follow a session without a name: as `subscribe` does, from after the cursor `after`.

        With `children`, the events of its child sessions are included; see `Events.stream`.
        """
        if not children:
            return self._stand(self.follow_unnamed(session_id, after))
        family, top = self.follow_family(session_id, after)
        self._settled(top.standing, family.unsubscribe)
        return family

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

    def follow_unnamed(self, session_id: str, after: object) -> RemoteSubscription:
        """Do as `stream`, but without waiting for the server."""
        return self._open(session_id, None, check_cursor("`after`", after), auto_ack=False)

    def follow_family(self, session_id: str, after: object) -> tuple[FamilyStream, RemoteSubscription]:
        """Do as `stream` with children, but without waiting for the server; also return the top's subscription."""
        followed: dict[str, RemoteSubscription] = {}

        def follow(id_: str, at: int) -> RemoteSubscription:
            followed[id_] = self.follow_unnamed(id_, at)
            return followed[id_]

        family = FamilyStream(follow, session_id, cursors_of(session_id, after))
        return family, followed[session_id]

    def _open(self, session_id: str, client_id: str | None, after: int | None, *, auto_ack: bool) -> RemoteSubscription:
        if not can_be_id(session_id):
            check_id("session_id", session_id)
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
        """Return the server's answer, without blocking the event loop."""
        return await self._link.result_async(standing, self._timeout, self._late)

    def _settled(self, standing: Future[R], end: Callable[[], object]) -> R:
        """Return the server's answer; call `end` if there is an error."""
        try:
            return self._link.result(standing, self._timeout, self._late)
        except BaseException:
            end()
            raise


R = TypeVar("R")
_BYTES = (bytes, bytearray, memoryview)
_SHORTEST = 5.0
"""Seconds that each request for a question may take although the question has less: it may have no time at all."""


@dataclass(eq=False)
class Caller:
    """Sends requests, and waits for their answers, over as many connections as necessary. Thread-safe.

    `timeout`, in seconds, applies to requests without one of their own; None means no limit.
    """

    _link: Link
    _timeout: float | None

    def __call__(self, request: Request[R]) -> R:
        """Return the result of the request, or raise the error with which it was answered.

        Requests that can be refused without the server are refused with the server's errors.
        """
        if request.changes:
            self._link.check_open()
        sound = checked(request)
        if sound is None:
            absent: R = msgspec.convert(request.absent, request.result)
            return absent
        given = given_fields(sound)
        image = sound.get("image")
        if isinstance(image, ImageContent):
            given["image"] = travelling(image)
        return _read(sound, self._ask(sound.event_type, given, self._timeout, None).outcome.result)

    def limited(self, timeout: float) -> Caller:
        """Return a caller whose requests take no longer than this timeout, either, but for `_SHORTEST`."""
        seconds = max(timeout, _SHORTEST)
        return Caller(self._link, seconds if self._timeout is None else min(seconds, self._timeout))

    def request(self, type_: object, data: object, timeout: object) -> Envelope[Response]:
        """Return the response to a request. See `LocalRuntime.request`, also for the errors."""
        if not isinstance(type_, str) or type_ not in REQUESTS:
            raise UnknownCommandError(type_, REQUESTS)
        if not is_mapping(data):
            raise InvalidInputError(
                f"the data of a request must be a mapping of its fields' names to values, not {type(data).__name__}"
            )
        given = {**data}
        request_id = given.pop("request_id", None)
        if request_id is not None:
            check_text("the request's id", request_id)
        if "content" in given:
            given["content"] = plain_content(given["content"])
        answer = self._ask(type_, _plain(type_, given), seconds_of(timeout), request_id)
        return read_envelope(answer.response)

    def _ask(self, request: str, data: object, timeout: float | None, request_id: object) -> Answer:
        id_ = request_id if isinstance(request_id, str) else str(uuid.uuid4())
        asked = PendingRequest(id_, request, _encoded(request, encoded, data), timeout)
        self._link.ask(asked)
        try:
            late = f"{request} was not answered within {timeout} s; it may have happened all the same"
            answer = self._link.result(asked.answer, timeout, late)
        finally:
            self._link.forget(asked)
        refusal = answer.outcome.error
        if refusal is not None:
            raise from_wire(refusal.code, refusal.message, refusal.details)
        return answer


def _read(request: Request[R], result: msgspec.Raw) -> R:
    try:
        read: R = msgspec.json.decode(result, type=request.result)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ProtocolError(
            f"the server answered a {request.event_type} with what is not an answer to it: {error}"
        ) from None
    return read


def _plain(request: str, data: object) -> object:
    """Return the data as plain values; raise for values that JSON would silently change: NaN, and bytes."""
    given = _encoded(
        request, partial(msgspec.to_builtins, builtin_types=_BYTES, str_keys=True, enc_hook=of_builtin_type), data
    )
    return plain(request, given, 2 * DEEPEST)  # the server checks how deep a field may be nested


def _encoded(request: str, encode: Callable[[object], R], data: object) -> R:
    try:
        return encode(data)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInputError(f"the data of {request} cannot be sent as JSON: {error}") from None


class RemoteAsker(Asker):
    """Asks the agents of a server; each request for a question takes no longer than the question may."""

    def __init__(self, runtime: RemoteRuntime, caller: Caller) -> None:
        super().__init__(runtime)
        self._follow = runtime.events.stream
        self._caller = caller

    def limited(self, timeout: object) -> Asker:
        """Return the asker for a question with this timeout."""
        seconds = seconds_of(timeout)
        return self if seconds is None else Asker(Asking(self._caller.limited(seconds), self._follow, self))


class RemoteRuntime(Asking):
    """The return value of `Runtime.connect`. Use it as a context manager, or `close` it."""

    def __init__(self, link: Link, client_id: str | None, timeout: float | None) -> None:
        self._link = link
        self._handlers = Handlers(link)
        self._caller = caller = Caller(link, timeout)
        self.events = RemoteEvents(link, self._handlers, client_id, timeout)
        self._at_exit = AtExit(f"the connection to {link.address}", self.close)
        super().__init__(caller, self.events.stream, RemoteAsker(self, caller))

    @classmethod
    def connect(
        cls,
        url: str | Sequence[str],
        *,
        token: str | None = None,
        client_id: str | None = None,
        timeout: float | None = 30.0,
        heartbeat: float = 10.0,
        reconnect: Reconnect | None = None,
        first: Future[None] | None = None,
    ) -> Self:
        """Connect to one of the servers; see `Runtime.connect`. Cancelling `first`, on any thread, ends it at once."""
        seconds = seconds_of(timeout)
        name = None if client_id is None else check_text("the client id", client_id)
        again = reconnect or Reconnect()
        link = Link(Dialer(_places(url, check_token(token)), _seconds(heartbeat), again.chance), again, first)
        try:
            link.first.result(seconds)
        except TimeoutError:
            why = link.failure
            link.close()
            raise ServerUnreachableError(f"no server within {timeout} s: {why}") from None
        except BaseException:
            link.close()
            raise
        return cls(link, name, seconds)

    @property
    def failure(self) -> ReenactError | None:
        """Why there is no connection at present; None if there is one.

        Unless it is an `AuthenticationError` or a `ProtocolError`, connecting is retried until the runtime is closed.
        """
        return self._link.failure

    def request(self, type: str, data: Mapping[str, object], timeout: float | None = 30) -> Envelope[Response]:  # noqa: A002
        """Have the server carry out a request of the command protocol; return its response.

        `data` has the parameters of the facade's method by name; the result is in `.data.result`. `timeout` is in
        seconds. If the data has a `request_id`, a request that is sent again, also by another client or after a crash,
        is not carried out a second time.

        Raises:
            UnknownCommandError: there is no such request; see `reenact.events.REQUESTS`.
            InvalidInputError: the data does not fit it.
            RequestTimeoutError: no answer came in time; the request may still be carried out.
            ReenactError: any error that the facade's method raises.
        """
        return self._caller.request(type, data, timeout)

    def close(self, timeout: float | None = None) -> None:
        """Acknowledge what has been processed, and end the subscriptions and the connection. Idempotent.

        The server goes on. Handlers receive the events that have arrived before this returns. After `timeout` seconds
        it returns in any case, and logs a warning that names what has not ended.
        """
        if timeout is not None:
            self._at_exit.close_within(timeout)
            return
        self._link.close()
        self._handlers.close()
        self._at_exit.closed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _places(url: object, token: str | None) -> Sequence[ServerAddress] | RayHosts:
    if not isinstance(url, str) or not url.startswith(SCHEME):
        return [ServerAddress(address, token) for address in websocket_addresses(url)]
    if token is not None:
        raise ConfigurationError("Ray knows the token of the hosts that it runs; give none with a ray:// address")
    return RayHosts.at(url)


def _seconds(heartbeat: object) -> float:
    if isinstance(heartbeat, int | float) and not isinstance(heartbeat, bool) and 0 < heartbeat < math.inf:
        return heartbeat
    raise ConfigurationError(f"heartbeat must be a number of seconds above 0, not {heartbeat!r}")


resolve_types()
