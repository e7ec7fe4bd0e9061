"""The asyncio twins of runtimes: the same methods as coroutines, which wait on threads, never on the event loop."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial, wraps
from typing import (
    TYPE_CHECKING,
    Concatenate,
    Generic,
    Literal,
    NoReturn,
    ParamSpec,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    Unpack,
    overload,
)

from reenact._runtime import Runtime
from reenact.actors.api.asking import Asker, AskSettings, Turns, Waiting
from reenact.actors.api.facades import Agents, Containers, Events, Images, Sessions
from reenact.actors.feed.consumers import check_cursor
from reenact.actors.feed.family import FamilyStream
from reenact.actors.feed.handlers import Handler
from reenact.actors.feed.observable import Observable
from reenact.actors.feed.subscription import EventIterator, Subscription
from reenact.actors.output import spec_of
from reenact.domain.content import Content
from reenact.domain.errors import RuntimeClosedError, TurnTimeoutError, opened_before_fork, tied_to_process
from reenact.domain.image import Image, OutputType
from reenact.domain.operations.table import RuntimeEvent
from reenact.domain.output import OutputSpec
from reenact.domain.plain import Json
from reenact.domain.session.told import Answer
from reenact.domain.stream.events import Envelope

if TYPE_CHECKING:
    from reenact.client.runtime import RemoteRuntime

    AnyRuntime: TypeAlias = Runtime | RemoteRuntime


class _Closable(Protocol):
    def close(self, timeout: float | None = None) -> None: ...


class _Awaited(Protocol):
    async def close(self) -> None: ...


P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
C = TypeVar("C", bound=_Closable)
A = TypeVar("A", bound=_Awaited)
_THREADS = 32
"""The number of concurrent calls of one runtime; further calls are queued."""


class Threads:
    """The threads on which the calls of one runtime run, so that the event loop is not blocked."""

    def __init__(self) -> None:
        self._closed = False
        self._process = os.getpid()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="reenact-async")

    async def call(self, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the method on a thread, and return its result or raise its exception."""
        if self._process != os.getpid():  # no thread of the pool exists here
            raise opened_before_fork("runtime")
        if self._closed:
            raise RuntimeClosedError("the runtime is closed; open it again to go on")
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(method, *args, **kwargs))

    def submit(self, method: Callable[[], R]) -> Future[R]:
        """Call the method on a thread, and return a future."""
        return self._pool.submit(method)

    def close(self) -> None:
        """Shut down the threads when they are idle, without waiting for them."""
        self._closed = True
        self._pool.shutdown(wait=False)


class Twin:
    """The asyncio twin of an object: it has coroutine methods of the same names."""

    def __init__(self, of: object, threads: Threads) -> None:
        self._of, self._threads = of, threads

    def __reduce__(self) -> NoReturn:
        raise tied_to_process(self)


def awaited(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[Twin, P], Coroutine[object, object, R]]:
    """Return the coroutine method of a twin that calls this method on a thread."""

    @wraps(method)
    async def call(self: Twin, /, *args: P.args, **kwargs: P.kwargs) -> R:
        of, threads = self._of, self._threads  # pyright: ignore[reportPrivateUsage]  # of a twin
        result: R = await threads.call(getattr(of, method.__name__), *args, **kwargs)
        return result

    return call


class AsyncContainers(Twin):
    """`Containers` with coroutine methods."""

    create = awaited(Containers.create)
    get = awaited(Containers.get)
    list = awaited(Containers.list)


class AsyncImages(Twin):
    """`Images` with coroutine methods."""

    register = awaited(Images.register)
    get = awaited(Images.get)
    list = awaited(Images.list)


class AsyncSessions(Twin):
    """`Sessions` with coroutine methods."""

    create = awaited(Sessions.create)
    branch = awaited(Sessions.branch)
    switch = awaited(Sessions.switch)
    get = awaited(Sessions.get)
    list_by_container = awaited(Sessions.list_by_container)
    delete = awaited(Sessions.delete)
    forget = awaited(Sessions.forget)
    run = awaited(Sessions.run)
    messages = awaited(Sessions.messages)
    turns = awaited(Sessions.turns)
    tool_calls = awaited(Sessions.tool_calls)
    usage = awaited(Sessions.usage)
    list = awaited(Sessions.list)


class AsyncAgents(Twin):
    """`Agents` with coroutine methods. A live agent receives messages on the event loop, without a thread."""

    def __init__(self, of: Agents, threads: Threads, asker: Asker) -> None:
        super().__init__(of, threads)
        self._agents = of
        self._asker = asker

    get = awaited(Agents.get)
    pending = awaited(Agents.pending)
    approve = awaited(Agents.approve)
    reject = awaited(Agents.reject)
    respond = awaited(Agents.respond)
    schedule = awaited(Agents.schedule)
    schedules = awaited(Agents.schedules)
    cancel_schedule = awaited(Agents.cancel_schedule)
    list = awaited(Agents.list)
    interrupt = awaited(Agents.interrupt)
    destroy = awaited(Agents.destroy)

    async def receive(self, agent_id: str, message: Content, *, output: OutputType | None = None) -> str:
        """See `Agents.receive`."""
        spec = spec_of(output)
        turn_id = await self._asker.receive(agent_id, message, spec)
        if turn_id is None:
            turn_id = await self._threads.call(self._agents.receive, agent_id, message, output=spec)
        return turn_id


_Follow: TypeAlias = "Callable[[str, int], Subscribing[EventIterator]]"


class OnLoop(Waiting):
    """Waits on an event loop, on which handlers are called, too; only blocking functions are called on a thread."""

    def __init__(self, agents: AsyncAgents, threads: Threads, follow: _Follow) -> None:
        self._receive, self._threads, self._follow_later = agents.receive, threads, follow

    async def call(self, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._threads.call(method, *args, **kwargs)

    async def receive(self, agent_id: str, message: Content, output: OutputSpec | None) -> str:
        return await self._receive(agent_id, message, output=output)

    async def stream(self, session_id: str, after: int) -> EventIterator:
        events: EventIterator = await self._follow_later(session_id, after)
        return events

    async def next(self, events: EventIterator, timeout: float | None) -> Envelope | None:  # noqa: ASYNC109 - `within` has it
        try:
            return await events.__anext__()
        except StopAsyncIteration:
            return None

    async def tell(self, handler: Handler, envelope: Envelope) -> None:
        await _handle(handler, envelope)

    async def within(self, timeout: float | None, turn_id: str, work: Coroutine[object, object, R]) -> R:  # noqa: ASYNC109 - as there
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                return await work
        except TimeoutError:
            if limit.expired():
                raise TurnTimeoutError(turn_id) from None
            raise


class AsyncTurns(Twin):
    """`Turns` with coroutine methods; waiting for a turn uses the event loop, and no thread."""

    def __init__(self, of: Turns, threads: Threads, asker: Asker, on_loop: OnLoop) -> None:
        super().__init__(of, threads)
        self._asker = asker
        self._on_loop = on_loop

    locate = awaited(Turns.locate)

    @overload
    async def wait(
        self,
        turn_id: str,
        timeout: float | None = None,  # noqa: ASYNC109 - as there
        *,
        output: type[T],
    ) -> Answer[T]: ...
    @overload
    async def wait(
        self,
        turn_id: str,
        timeout: float | None = None,  # noqa: ASYNC109 - as there
        *,
        output: Mapping[str, object] | OutputSpec | None = None,
    ) -> Answer: ...
    async def wait(
        self,
        turn_id: str,
        timeout: float | None = None,  # noqa: ASYNC109 - as there
        *,
        output: object = None,
    ) -> Answer[object]:
        """See `Turns.wait`."""
        return await self._asker.limited(timeout).wait(self._on_loop, turn_id, timeout, output)


class AsyncSubscription:
    """A subscription of an asyncio caller. To unsubscribe, call it or leave its `with` block; it may be awaited too."""

    def __init__(self, subscription: Callable[[], object]) -> None:
        self._subscription = subscription

    def __call__(self) -> None:
        """Unsubscribe. Idempotent."""
        self._subscription()

    def __await__(self) -> Generator[object, None, Self]:
        """Return the subscription at once."""
        yield from ()
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self()


F_co = TypeVar("F_co", bound=EventIterator, covariant=True)


class Subscribing(Generic[F_co]):
    """A subscription that is not made yet: await it, enter its `async with` block, or iterate over it at once.

    Each of these makes a separate subscription. Whoever awaits it has to end it, with `unsubscribe`.
    """

    def __init__(self, make: Callable[[], Coroutine[object, object, F_co]]) -> None:
        self._make = make
        self._made: list[F_co] = []

    def __await__(self) -> Generator[object, None, F_co]:
        return self._make().__await__()

    async def __aenter__(self) -> F_co:
        made = await self._make()
        self._made.append(made)
        return made

    async def __aexit__(self, *exc: object) -> None:
        await self._made.pop().__aexit__(*exc)

    def __aiter__(self) -> AsyncIterator[RuntimeEvent]:
        return _Iterating(self._make)


class _Iterating(Generic[F_co]):
    """Iterates over a subscription that it makes itself.

    It is not a generator, because the event loop would close that some time after the iteration was left. This object
    drops its subscription at once, so that the next subscriber continues after the events that were processed.
    """

    def __init__(self, make: Callable[[], Coroutine[object, object, F_co]]) -> None:
        self._make = make
        self._events: AsyncIterator[RuntimeEvent] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RuntimeEvent:
        if self._events is None:
            self._events = aiter(await self._make())
        return await anext(self._events)


class AsyncEvents(Twin, Observable[AsyncSubscription]):
    """`Events` for asyncio: handlers are plain or coroutine functions and run on the event loop that subscribed them.

    An event is handled completely before the next one.
    """

    def __init__(self, of: Events, threads: Threads) -> None:
        super().__init__(of, threads)
        self._events = of

    def register(self, type: str | None, handler: Handler, session_id: str | None) -> AsyncSubscription:  # noqa: A002 - as there
        """See `Observable.register`."""
        return AsyncSubscription(self._events.register(type, handler, session_id, asyncio.get_running_loop()))

    def subscribe(
        self, session_id: str, client_id: str, after: int | None = None, *, auto_ack: bool = False
    ) -> Subscribing[Subscription]:
        """See `Events.subscribe`: iterate with `async for`, acknowledge with `aack`."""
        return Subscribing(
            lambda: self._threads.call(self._events.subscribe, session_id, client_id, after, auto_ack=auto_ack)
        )

    @overload
    def stream(self, session_id: str, after: int = 0) -> Subscribing[Subscription]: ...
    @overload
    def stream(
        self, session_id: str, after: int | Mapping[str, int] = 0, *, children: Literal[True]
    ) -> Subscribing[FamilyStream]: ...
    def stream(
        self, session_id: str, after: int | Mapping[str, int] = 0, *, children: bool = False
    ) -> Subscribing[Subscription] | Subscribing[FamilyStream]:
        """See `Events.stream`: iterate with `async for`."""
        if children:
            return Subscribing(lambda: self._threads.call(self._events.stream, session_id, after, children=True))
        begin = check_cursor("`after`", after)
        return Subscribing(lambda: self._threads.call(self._events.stream, session_id, begin))

    compact = awaited(Events.compact)


class _EnteredAsync:
    """Rejects `with`, and says to use `async with`."""

    def __enter__(self) -> NoReturn:
        raise TypeError(
            "this is for asyncio, and entered by `async with`; for `with`, there are Runtime and ActorSystem"
        )

    def __exit__(self, *exc: object) -> None: ...


class Opening(_EnteredAsync, Generic[A]):
    """The result of `AsyncRuntime.open` and the like: await it, or enter it with `async with`."""

    def __init__(
        self, make: Callable[[], C], wrap: Callable[[C, Threads], A], give_up: Callable[[], object] | None = None
    ) -> None:
        self._open = partial(_open, make, wrap, give_up)
        self._opened: A | None = None

    def __await__(self) -> Generator[object, None, A]:
        return self._open().__await__()

    async def __aenter__(self) -> A:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(self, *exc: object) -> None:
        if self._opened is not None:
            await self._opened.close()

    if not TYPE_CHECKING:  # type checkers know the attributes

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(f"there is no {name!r} yet: await what `open` returned, or enter it by `async with`")


def opening(make: Callable[P, C], twin: Callable[[], Callable[[C, Threads], A]]) -> Callable[P, Opening[A]]:
    """Return a function that opens the twin of what `make` opens, with the same arguments and errors."""

    @wraps(make)
    def open_twin(*args: P.args, **kwargs: P.kwargs) -> Opening[A]:
        return Opening(partial(make, *args, **kwargs), twin())

    return open_twin


async def _open(make: Callable[[], C], wrap: Callable[[C, Threads], A], give_up: Callable[[], object] | None) -> A:
    threads = Threads()
    opening = threads.submit(make)
    try:
        return wrap(await asyncio.wrap_future(opening), threads)
    except BaseException:
        if give_up is not None:
            give_up()
        opening.add_done_callback(_close_unwanted)  # cancelled: no one else would close it once it is open
        threads.close()
        raise


class ClosingTwin(Twin):
    """The asyncio twin of an object that must be closed: `close` it, or leave its `async with` block."""

    def __init__(self, of: _Closable, threads: Threads) -> None:
        super().__init__(of, threads)
        self._close = of.close

    async def close(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - that of `close`
        """Close the object, as its `close` does. Idempotent."""
        try:
            await asyncio.to_thread(self._close, timeout)
        finally:
            self._threads.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


class AsyncFacades(ClosingTwin, _EnteredAsync):
    """The asyncio facades of a runtime, local or remote."""

    def __init__(self, runtime: AnyRuntime, threads: Threads, follow: _Follow) -> None:
        super().__init__(runtime, threads)
        self.containers = AsyncContainers(runtime.containers, threads)
        self.images = AsyncImages(runtime.images, threads)
        self.sessions = AsyncSessions(runtime.sessions, threads)
        self.agents = AsyncAgents(runtime.agents, threads, runtime.asker)
        self._asker = runtime.asker
        self._on_loop = OnLoop(self.agents, threads, follow)
        self.turns = AsyncTurns(runtime.turns, threads, runtime.asker, self._on_loop)

    @overload
    async def ask(
        self,
        content: Content,
        *,
        session: str | None = None,
        image: Image | str | None = None,
        output: type[T],
        **settings: Unpack[AskSettings],
    ) -> Answer[T]: ...
    @overload
    async def ask(
        self,
        content: Content,
        *,
        session: str | None = None,
        image: Image | str | None = None,
        output: Mapping[str, object] | OutputSpec,
        **settings: Unpack[AskSettings],
    ) -> Answer[Json]: ...
    @overload
    async def ask(
        self,
        content: Content,
        *,
        session: None = None,
        image: Image[T],
        output: None = None,
        **settings: Unpack[AskSettings],
    ) -> Answer[T]: ...
    @overload
    async def ask(
        self,
        content: Content,
        *,
        session: str | None = None,
        image: Image | str | None = None,
        output: None = None,
        **settings: Unpack[AskSettings],
    ) -> Answer: ...
    async def ask(
        self,
        content: Content,
        *,
        session: str | None = None,
        image: Image | str | None = None,
        container: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as there
        on_event: Handler | None = None,
        output: object = None,
    ) -> Answer[object]:
        """See `Runtime.ask`. `on_event` is a plain or a coroutine function, and runs on the loop."""
        return await self._asker.limited(timeout).ask(
            self._on_loop,
            content,
            session=session,
            image=image,
            container=container,
            timeout=timeout,
            on_event=on_event,
            output=output,
        )

    request = awaited(Runtime.request)


def _close_unwanted(opening: Future[C]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


async def _handle(handler: Handler, envelope: Envelope) -> None:
    result = handler(envelope)
    if result is not None and inspect.isawaitable(result):  # most handlers return None, and run for each delta
        await result
