"""The asyncio twin of a runtime: the same names and results, awaited. Its calls wait on threads, never on the loop."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, ParamSpec, Protocol, Self, TypeAlias, TypeVar

from reenact._runtime import Runtime
from reenact.actors.asking import AwaitedTurn, Deadline, LocalTurns, check_asked, located, new_session, pending_of
from reenact.actors.feed.handlers import Handler, Registration
from reenact.actors.feed.retention import Compacted
from reenact.actors.feed.subscription import Subscription as Following
from reenact.domain.agent import AgentInfo
from reenact.domain.container import ContainerInfo
from reenact.domain.content import Content
from reenact.domain.errors import RuntimeClosedError, StorageError, TurnTimeoutError
from reenact.domain.events import Envelope
from reenact.domain.history import Answer, ToolCallInfo, TurnInfo, TurnLocation, UsageInfo
from reenact.domain.image import Image, ImageInfo
from reenact.domain.messages import Message
from reenact.domain.people import PendingCall
from reenact.domain.session import SessionInfo
from reenact.projections.own.projections import TIMEOUT, Projections, Which
from reenact.projections.status import ProjectionStatus

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from reenact._remote import AsyncRemoteRuntime
    from reenact.client.runtime import RemoteRuntime
    from reenact.projections.audit.api import OnProgress

    AnyRuntime: TypeAlias = Runtime | RemoteRuntime


class _Closable(Protocol):
    def close(self) -> None: ...


class _Awaited(Protocol):
    async def close(self) -> None: ...


P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=_Closable)
A = TypeVar("A", bound=_Awaited)
_THREADS: Final = 32
"""How many calls of one runtime may wait at a time; further ones queue."""


_LOOKS: Final = 0.25
"""Seconds after which a thread that waits for a loop looks whether it is still there."""


class Threads:
    """Runs the calls of one runtime beside the loop."""

    def __init__(self) -> None:
        self._closed = False
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="reenact-async")

    async def call(self, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what the method returns, or raise what it raises."""
        if self._closed:
            msg = "the runtime is closed; open it again to go on"
            raise RuntimeClosedError(msg)
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(method, *args, **kwargs))

    def submit(self, method: Callable[[], R]) -> Future[R]:
        """Have a thread run the method."""
        return self._pool.submit(method)

    def close(self) -> None:
        """Let the threads end."""
        self._closed = True
        self._pool.shutdown(wait=False)


class AsyncContainers:
    """`Containers`, awaited."""

    def __init__(self, runtime: AnyRuntime, threads: Threads) -> None:
        self._of, self._threads = runtime.containers, threads

    async def create(self, name: str | None = None, *, container_id: str | None = None) -> ContainerInfo:
        """See `Containers.create`."""
        return await self._threads.call(self._of.create, name, container_id=container_id)

    async def get(self, container_id: str) -> ContainerInfo | None:
        """See `Containers.get`."""
        return await self._threads.call(self._of.get, container_id)

    async def list(self) -> list[ContainerInfo]:
        """See `Containers.list`."""
        return await self._threads.call(self._of.list)


class AsyncImages:
    """`Images`, awaited."""

    def __init__(self, runtime: AnyRuntime, threads: Threads) -> None:
        self._of, self._threads = runtime.images, threads

    async def register(self, image: Image) -> ImageInfo:
        """See `Images.register`."""
        return await self._threads.call(self._of.register, image)

    async def get(self, image_id: str) -> ImageInfo | None:
        """See `Images.get`."""
        return await self._threads.call(self._of.get, image_id)

    async def list(self) -> list[ImageInfo]:
        """See `Images.list`."""
        return await self._threads.call(self._of.list)


class AsyncSessions:
    """`Sessions`, awaited."""

    def __init__(self, runtime: AnyRuntime, threads: Threads) -> None:
        self._of, self._threads = runtime.sessions, threads

    async def create(self, container_id: str, image_id: str, *, session_id: str | None = None) -> SessionInfo:
        """See `Sessions.create`."""
        return await self._threads.call(self._of.create, container_id, image_id, session_id=session_id)

    async def branch(
        self,
        session_id: str,
        *,
        at: int | None = None,
        edit: Content | None = None,
        model: str | None = None,
        system_prompt: str | None = None,
        image_id: str | None = None,
        new_session_id: str | None = None,
    ) -> SessionInfo:
        """See `Sessions.branch`."""
        return await self._threads.call(
            self._of.branch,
            session_id,
            at=at,
            edit=edit,
            model=model,
            system_prompt=system_prompt,
            image_id=image_id,
            new_session_id=new_session_id,
        )

    async def get(self, session_id: str) -> SessionInfo | None:
        """See `Sessions.get`."""
        return await self._threads.call(self._of.get, session_id)

    async def list_by_container(self, container_id: str) -> list[SessionInfo]:
        """See `Sessions.list_by_container`."""
        return await self._threads.call(self._of.list_by_container, container_id)

    async def delete(self, session_id: str) -> bool:
        """See `Sessions.delete`."""
        return await self._threads.call(self._of.delete, session_id)

    async def run(self, session_id: str) -> str:
        """See `Sessions.run`."""
        return await self._threads.call(self._of.run, session_id)

    async def messages(self, session_id: str) -> list[Message]:
        """See `Sessions.messages`."""
        return await self._threads.call(self._of.messages, session_id)

    async def turns(self, session_id: str) -> list[TurnInfo]:
        """See `Sessions.turns`."""
        return await self._threads.call(self._of.turns, session_id)

    async def tool_calls(self, session_id: str) -> list[ToolCallInfo]:
        """See `Sessions.tool_calls`."""
        return await self._threads.call(self._of.tool_calls, session_id)

    async def usage(self, session_id: str) -> UsageInfo:
        """See `Sessions.usage`."""
        return await self._threads.call(self._of.usage, session_id)

    async def list(
        self,
        *,
        container_id: str | None = None,
        waiting: bool | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> list[SessionInfo]:
        """See `Sessions.list`."""
        return await self._threads.call(
            self._of.list, container_id=container_id, waiting=waiting, after=after, limit=limit
        )


class AsyncAgents:
    """`Agents`, awaited."""

    def __init__(self, runtime: AnyRuntime, threads: Threads) -> None:
        self._of, self._turns, self._threads = runtime.agents, runtime.turns, threads

    async def get(self, agent_id: str) -> AgentInfo | None:
        """See `Agents.get`."""
        return await self._threads.call(self._of.get, agent_id)

    async def pending(self, agent_id: str | None = None, *, session_id: str | None = None) -> list[PendingCall]:
        """See `Agents.pending`."""
        return await self._threads.call(self._of.pending, agent_id, session_id=session_id)

    async def approve(
        self,
        call_id: str | PendingCall,
        *,
        session_id: str | None = None,
        agent_id: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        digest: str | None = None,
        by: str | None = None,
    ) -> str | None:
        """See `Agents.approve`."""
        return await self._threads.call(
            self._of.approve,
            call_id,
            session_id=session_id,
            agent_id=agent_id,
            arguments=arguments,
            digest=digest,
            by=by,
        )

    async def reject(
        self,
        call_id: str | PendingCall,
        reason: str = "",
        *,
        resume: bool = True,
        session_id: str | None = None,
        agent_id: str | None = None,
        by: str | None = None,
    ) -> str | None:
        """See `Agents.reject`."""
        return await self._threads.call(
            self._of.reject, call_id, reason, resume=resume, session_id=session_id, agent_id=agent_id, by=by
        )

    async def respond(
        self,
        call_id: str | PendingCall,
        value: object,
        *,
        session_id: str | None = None,
        agent_id: str | None = None,
        by: str | None = None,
    ) -> str | None:
        """See `Agents.respond`."""
        return await self._threads.call(
            self._of.respond, call_id, value, session_id=session_id, agent_id=agent_id, by=by
        )

    async def list(self) -> list[AgentInfo]:
        """See `Agents.list`."""
        return await self._threads.call(self._of.list)

    async def receive(self, agent_id: str, message: Content) -> str:
        """See `Agents.receive`."""
        if isinstance(self._turns, LocalTurns):
            turn_id = await self._turns._receive_async(agent_id, message)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # its twin
            if turn_id is not None:
                return turn_id
        return await self._threads.call(self._of.receive, agent_id, message)

    async def interrupt(self, agent_id: str) -> None:
        """See `Agents.interrupt`."""
        await self._threads.call(self._of.interrupt, agent_id)

    async def destroy(self, agent_id: str) -> None:
        """See `Agents.destroy`."""
        await self._threads.call(self._of.destroy, agent_id)


class _Followed(Protocol):
    def unsubscribe(self) -> None: ...
    def __aiter__(self) -> AsyncIterator[Envelope]: ...


class _Streams(Protocol):
    def stream(self, session_id: str, after: int = 0) -> Subscribing[Any]: ...


class AsyncTurns:
    """`Turns`, awaited: a turn is waited for on the loop, and by no thread."""

    def __init__(self, runtime: AnyRuntime, threads: Threads, events: _Streams) -> None:
        self._of, self._agents, self._threads, self._events = runtime.turns, runtime.agents, threads, events

    async def locate(self, turn_id: str) -> TurnLocation | None:
        """See `Turns.locate`."""
        return await self._threads.call(self._of.locate, turn_id)

    async def wait(self, turn_id: str, timeout: float | None = None) -> Answer:  # noqa: ASYNC109 - as there
        """See `Turns.wait`."""
        deadline = Deadline(timeout)
        turn = AwaitedTurn(located(turn_id, await self.locate(turn_id)))
        return await self._follow(turn, self._events.stream(turn.session_id, turn.after), deadline, None)

    async def _begin(self, session_id: str, content: Content) -> tuple[AwaitedTurn, Subscribing[Any]]:
        """Send the message to the session's agent; return its turn, and the events that those of it are among."""
        if isinstance(self._of, LocalTurns):
            begun = await self._of._begin_async(session_id, content)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # its twin
            if begun is not None:
                turn, events = begun
                return turn, Subscribing(partial(_made, events))
        turn = await self._threads.call(self._of._send, session_id, content)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # its twin
        return turn, self._events.stream(turn.session_id, turn.after)

    async def _follow(
        self, turn: AwaitedTurn, following: Subscribing[Any], deadline: Deadline, on_event: Handler | None
    ) -> Answer:
        limit = asyncio.timeout(deadline.left)
        try:
            async with limit, following as events:
                async for envelope in events:
                    if turn.hear(envelope) and on_event is not None:
                        result = on_event(envelope)
                        if inspect.isawaitable(result):
                            await result
                    if turn.has_ended:
                        break
                else:
                    raise turn.over()
        except TimeoutError:
            if limit.expired():
                raise TurnTimeoutError(turn.turn_id) from None
            raise
        return turn.answer(await self._threads.call(pending_of, turn, self._agents) if turn.waits else ())


class AsyncSubscription:
    """A subscription of an asyncio caller: call it to unsubscribe, or leave its `with` block; it may be awaited too."""

    def __init__(self, subscription: Registration) -> None:
        self._subscription = subscription

    def __call__(self) -> None:
        """Unsubscribe. Idempotent."""
        self._subscription()

    def __await__(self) -> Generator[None, None, Self]:
        """Return the subscription itself, at once."""
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


F = TypeVar("F", bound=_Followed)


class Subscribing(Generic[F]):
    """A subscription that is still to be made: await it, enter its `async with` block, or iterate over it at once.

    Each of these makes one of its own. Whoever awaits it has to end it, with `unsubscribe`.
    """

    def __init__(self, make: Callable[[], Coroutine[Any, Any, F]]) -> None:
        self._make = make
        self._made: list[F] = []

    def __await__(self) -> Generator[Any, None, F]:
        return self._make().__await__()

    async def __aenter__(self) -> F:
        made = await self._make()
        self._made.append(made)
        return made

    async def __aexit__(self, *exc: object) -> None:
        self._made.pop().unsubscribe()

    async def __aiter__(self) -> AsyncIterator[Envelope]:
        subscription = await self._make()
        try:
            async for envelope in subscription:
                yield envelope
        finally:
            subscription.unsubscribe()


class AsyncEvents:
    """`Events` for asyncio: handlers are plain or coroutine functions and run on the loop that subscribed them."""

    def __init__(self, runtime: Runtime, threads: Threads) -> None:
        self._of, self._threads = runtime.events, threads

    def on(
        self,
        type: str,  # noqa: A002 - the word users know it by
        handler: Handler,
        *,
        session_id: str | None = None,
    ) -> AsyncSubscription:
        """See `Events.on`. Each event is handled to its end before the next begins."""
        return AsyncSubscription(self._of.on(type, on_loop(handler), session_id=session_id))

    def on_all(self, handler: Handler, *, session_id: str | None = None) -> AsyncSubscription:
        """See `Events.on_all`."""
        return AsyncSubscription(self._of.on_all(on_loop(handler), session_id=session_id))

    def subscribe(
        self, session_id: str, client_id: str, after: int | None = None, *, auto_ack: bool = False
    ) -> Subscribing[Following]:
        """See `Events.subscribe`: iterate with `async for`, acknowledge with `aack`."""
        return Subscribing(
            lambda: self._threads.call(self._of.subscribe, session_id, client_id, after, auto_ack=auto_ack)
        )

    def stream(self, session_id: str, after: int = 0) -> Subscribing[Following]:
        """See `Events.stream`: iterate with `async for`."""
        return Subscribing(lambda: self._threads.call(self._of.stream, session_id, after))

    async def compact(self) -> Compacted:
        """See `Events.compact`."""
        return await self._threads.call(self._of.compact)


class _EnteredAsync:
    """Says to who writes `with` that it is `async with`."""

    def __enter__(self) -> NoReturn:
        raise TypeError("a runtime for asyncio is entered by `async with`; for `with`, there is Runtime")

    def __exit__(self, *exc: object) -> None: ...


class Opening(_EnteredAsync, Generic[A]):
    """What `AsyncRuntime.open` and its like return: await it, or enter it."""

    def __init__(
        self, make: Callable[[], C], wrap: Callable[[C, Threads], A], give_up: Callable[[], object] | None = None
    ) -> None:
        self._open = partial(_open, make, wrap, give_up)
        self._opened: A | None = None

    def __await__(self) -> Generator[Any, None, A]:
        return self._open().__await__()

    async def __aenter__(self) -> A:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(self, *exc: object) -> None:
        if self._opened is not None:
            await self._opened.close()


async def _open(make: Callable[[], C], wrap: Callable[[C, Threads], A], give_up: Callable[[], object] | None) -> A:
    threads = Threads()
    opening = threads.submit(make)
    try:
        return wrap(await asyncio.wrap_future(opening), threads)
    except BaseException:
        if give_up is not None:
            give_up()
        opening.add_done_callback(_close_unwanted)  # cancelled: nobody else will close what is being opened
        threads.close()
        raise


class AsyncFacades(_EnteredAsync):
    """What asyncio callers have of any runtime, here or at the other end of a connection."""

    def __init__(self, runtime: AnyRuntime, threads: Threads, events: _Streams) -> None:
        self._of = runtime
        self._threads = threads
        self.containers = AsyncContainers(runtime, threads)
        self.images = AsyncImages(runtime, threads)
        self.sessions = AsyncSessions(runtime, threads)
        self.agents = AsyncAgents(runtime, threads)
        self.turns = AsyncTurns(runtime, threads, events)

    async def ask(
        self,
        content: Content,
        *,
        session: str | None = None,
        image: Image | str | None = None,
        container: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as there
        on_event: Handler | None = None,
    ) -> Answer:
        """See `Runtime.ask`. `on_event` is a plain or a coroutine function, and runs on the loop."""
        deadline = Deadline(timeout)
        check_asked(content, session, image, container, on_event)
        if session is None:
            session = await self._threads.call(new_session, self._of, image, container)
        turn, events = await self.turns._begin(session, content)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # of this module
        return await self.turns._follow(turn, events, deadline, on_event)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # likewise

    async def request(self, type: str, data: Mapping[str, Any], timeout: float | None = 30) -> Envelope:  # noqa: A002, ASYNC109
        """See `Runtime.request`."""
        return await self._threads.call(self._of.request, type, data, timeout)

    async def close(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as there
        """See `Runtime.close`. Idempotent."""
        try:
            await asyncio.to_thread(self._of.close, timeout)
        finally:
            self._threads.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


class AsyncProjections:
    """`Projections`, awaited."""

    def __init__(self, projections: Projections, threads: Threads) -> None:
        self._of, self._threads = projections, threads

    async def wait_for(
        self,
        position: int | None = None,
        timeout: float = TIMEOUT,  # noqa: ASYNC109 - as there
        *,
        of: Which | None = None,
    ) -> None:
        """See `Projections.wait_for`."""
        await self._threads.call(self._of.wait_for, position, timeout, of=of)

    async def read(self, projection: Which, ask: Callable[[Connection], R]) -> R:
        """Return what the function answers, which is given a connection on a thread; see `Projections.read`."""

        def reading() -> R:
            with self._of.read(projection) as connection:
                return ask(connection)

        return await self._threads.call(reading)

    async def status(self) -> list[ProjectionStatus]:
        """See `Projections.status`."""
        return await self._threads.call(self._of.status)

    async def rebuild(self, projection: Which | None = None, *, progress: OnProgress | None = None) -> None:
        """See `Projections.rebuild`; `progress` is called on a thread."""
        await self._threads.call(self._of.rebuild, projection, progress=progress)

    async def retry(self, projection: Which) -> None:
        """See `Projections.retry`."""
        await self._threads.call(self._of.retry, projection)


class AsyncRuntime(AsyncFacades):
    """A `Runtime` for asyncio callers. `async with AsyncRuntime.open(path) as runtime`, or `await` and `close` it."""

    def __init__(self, runtime: Runtime, threads: Threads | None = None) -> None:
        if threads is None:
            raise TypeError("AsyncRuntime is not called; use `async with AsyncRuntime.open(path) as runtime`")
        self.events = AsyncEvents(runtime, threads)
        super().__init__(runtime, threads, self.events)
        self._runtime = runtime
        self.projections = AsyncProjections(runtime.projections, threads)

    @classmethod
    def open(cls, path: str | os.PathLike[str], **settings: Any) -> Opening[AsyncRuntime]:  # noqa: ANN401 - those of Runtime.open
        """Open a runtime with the settings, and the errors, of `Runtime.open`."""
        return Opening(partial(Runtime.open, path, **settings), AsyncRuntime)

    @classmethod
    def in_memory(cls, **settings: Any) -> Opening[AsyncRuntime]:  # noqa: ANN401 - those of Runtime.in_memory
        """Open a runtime with the settings of `Runtime.in_memory`."""
        return Opening(partial(Runtime.in_memory, **settings), AsyncRuntime)

    @staticmethod
    def connect(url: str, **settings: Any) -> Opening[AsyncRemoteRuntime]:  # noqa: ANN401 - those of Runtime.connect
        """Connect to a runtime with the settings, and the errors, of `Runtime.connect`."""
        from reenact._remote import AsyncRemoteRuntime  # noqa: PLC0415 - when it is needed
        from reenact.client.runtime import RemoteRuntime  # noqa: PLC0415 - when it is needed

        first: Future[None] = Future()
        return Opening(partial(RemoteRuntime.connect, url, first=first, **settings), AsyncRemoteRuntime, first.cancel)

    @property
    def failure(self) -> StorageError | None:
        """See `Runtime.failure`."""
        return self._runtime.failure

    @property
    def position(self) -> int:
        """See `Runtime.position`."""
        return self._runtime.position

    @property
    def lag(self) -> int:
        """See `Runtime.lag`."""
        return self._runtime.lag

    async def check_ready(self, timeout: float) -> None:  # noqa: ASYNC109 - as there
        """See `Runtime.check_ready`."""
        await self._threads.call(self._runtime.check_ready, timeout)

    async def recover(self) -> None:
        """See `Runtime.recover`."""
        await self._threads.call(self._runtime.recover)


async def _made(following: Following) -> Following:
    return following


def _close_unwanted(opening: Future[C]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def on_loop(handler: Handler) -> Handler:
    """Return a handler for a subscription's thread that has this one run on the present loop, and waits for it."""
    loop = asyncio.get_running_loop()

    async def handle(envelope: Envelope) -> None:
        result = handler(envelope)
        if inspect.isawaitable(result):
            await result

    def pass_on(envelope: Envelope) -> None:
        work = handle(envelope)
        try:
            handled = asyncio.run_coroutine_threadsafe(work, loop)
        except RuntimeError:  # the loop is closed: nobody is there to hear it
            work.close()
            raise
        while not handled.done():
            wait((handled,), timeout=_LOOKS)
            if loop.is_closed() and not handled.done():  # it was closed before it came to that: it never will
                handled.cancel()
                work.close()
                msg = "the event loop was closed while a handler was to run on it"
                raise RuntimeError(msg)
        handled.result()

    return pass_on
