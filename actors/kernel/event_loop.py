"""The asyncio event loop of a system, on a thread of its own, and the place that it is for actors."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractContextManager
from threading import get_ident
from typing import Never, TypeAlias

from reenact.actors.kernel.pool import Runnable, WorkerPool, blocking_on_loop, default_pool, here
from reenact.domain.errors import RuntimeClosedError

_Ready: TypeAlias = list[tuple[selectors.SelectorKey, int]]
"""The descriptors that are ready, and for what."""

_log = logging.getLogger(__name__)
_GRACE_SECONDS = 2.0
_MOST_GENERATIONS = 10
_LONGEST_REST = 0.05
_MORE = 16
"""So many calls that others hand over while they are made belong to the same round."""


class EventLoopThread:
    """An asyncio event loop on a thread of its own, started when it is first needed.

    Closing it cancels what runs and waits for the clean-up. A task that is being cancelled already is not cancelled a
    second time, so that its clean-up may wait for something; what has not ended `grace` seconds later is.
    """

    def __init__(self, *, grace: float = _GRACE_SECONDS) -> None:
        self._grace = grace
        # Protects what follows, up to the functions for after the round.
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._selector: _Selector | None = None
        self._thread: threading.Thread | None = None
        self._ident: int | None = None
        self._closed = False
        self._calls: deque[Callable[[], object]] = deque()
        self._is_asleep = False
        self._has_looked = False
        self._after_round: list[Callable[[], object]] = []
        # Only the loop's thread changes these.
        self._is_committing = self._is_resting = False
        self._commit_began = 0.0
        self._held: list[Callable[[], object]] = []
        # asyncio refers to its tasks weakly: one that only waits for what it has made itself would be collected.
        self._tasks: set[asyncio.Task[None]] = set()
        self._spawned: set[Future[None]] = set()

    @property
    def tasks(self) -> int:
        """How many coroutines run that were handed to `run` on the loop's thread."""
        return len(self._tasks)

    def call(self, function: Callable[[], object]) -> None:
        """Call the function on the loop's thread, after those handed over before. May be called from any thread.

        Raises:
            RuntimeClosedError: the loop is closed.
            OSError: there are no descriptors left for the loop.
            RuntimeError: there can be no more threads.
        """
        if get_ident() == self._ident:
            if self._closed:
                raise _closed()
            self._calls.append(function)
            return
        try:
            with self._lock:
                self._open()
                self._calls.append(function)
                is_asleep, self._is_asleep = self._is_asleep, False
            if is_asleep and self._selector is not None:
                # Without the lock: this gives the interpreter lock away, and others would wait until it is back.
                self._selector.wake()
        except BaseException:
            # A signal came in between, such as Ctrl+C: others would rely on a call that was never made.
            self._is_asleep = True
            raise

    def after_round(self, function: Callable[[], object]) -> None:
        """Call the function once, after what was handed over to the loop until now. Only for the loop's own thread."""
        if self._closed:  # there may be no other round
            function()
            return
        if function not in self._after_round:
            self._after_round.append(function)

    def call_between_commits(self, function: Callable[[], object]) -> None:
        """Call the function: at once, or on the loop's thread soon after the commit that is under way for the loop.

        There is a rest after a commit that is as long as that took. So the busier the machine is, the more of what many
        say at the same time goes into one commit. May be called from any thread.

        Raises:
            RuntimeClosedError: the loop is closed, and it would have had to wait.
        """
        if not self._is_committing:
            function()
        elif get_ident() == self._ident:
            self._held.append(function)
        else:
            self.call(functools.partial(self.call_between_commits, function))

    def commit_begins(self) -> None:
        """Hold back what `call_between_commits` is given. Only for the loop's own thread."""
        if not self._is_committing:
            self._is_committing = True
            self._commit_began = asyncio.get_running_loop().time()

    def commit_is_over(self) -> None:
        """Call what was held back after as long again as the commit took. May be called from any thread."""
        with contextlib.suppress(RuntimeClosedError):  # who was held back is being cancelled
            self.call(self._rest)

    def spawn(self, work: Coroutine[object, Never, None]) -> Future[None]:
        """Run the coroutine as a task; cancelling the future cancels the task. May be called from any thread.

        Raises:
            RuntimeClosedError: the loop is closed; the coroutine is closed, too.
            OSError: there are no descriptors left for the loop; likewise.
            RuntimeError: there can be no more threads; likewise.
        """
        with self._lock:
            try:
                loop = self._open()
            except BaseException:
                work.close()
                raise
            future = asyncio.run_coroutine_threadsafe(work, loop)
        self._spawned.add(future)
        future.add_done_callback(self._spawned.discard)
        return future

    def run(self, work: Coroutine[object, Never, None]) -> Future[None] | asyncio.Task[None]:
        """Do as `spawn`; on the loop's own thread, start the task without a detour."""
        if get_ident() != self._ident:
            return self.spawn(work)
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def close(self) -> None:
        """Cancel what runs, wait for its clean-up and end the thread. Idempotent; returns when it is done."""
        with self._lock:
            loop, thread = self._loop, self._thread
            was_closed, self._closed = self._closed, True  # before the loop stops: what ends with it looks at this
            if not was_closed and loop is not None:
                loop.call_soon_threadsafe(loop.stop)
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _open(self) -> asyncio.AbstractEventLoop:
        if self._closed:
            raise _closed()
        return self._loop or self._start()

    def _start(self) -> asyncio.AbstractEventLoop:
        selector = _Selector(self._wait)
        try:
            loop = asyncio.SelectorEventLoop(selector)
        except BaseException:
            selector.close()
            raise
        thread = threading.Thread(target=self._run, args=(loop,), name="reenact-loop", daemon=True)
        try:
            thread.start()
        except BaseException:
            loop.close()
            raise
        self._loop, self._selector, self._thread = loop, selector, thread
        return loop

    def _wait(self, select: Callable[[float | None], _Ready], timeout: float | None) -> _Ready:
        """Wait as the event loop does once a round, unless there is something to call; then call it."""
        ready: _Ready = []
        # Each look at the descriptors gives the interpreter lock away: while there are calls, it is every other round.
        self._has_looked = not (self._calls and self._has_looked)
        if self._has_looked:
            # Before it is looked whether there is something: `call` does both the other way round.
            self._is_asleep = timeout is None or timeout > 0
            ready = select(0 if self._calls or self._after_round else timeout)
            self._is_asleep = False
        for _ in range(len(self._calls) + _MORE):
            if not self._calls:
                break
            _call(self._calls.popleft())
        if self._after_round:
            functions, self._after_round = self._after_round, []
            for function in functions:
                _call(function)
        return ready

    def _rest(self) -> None:
        if self._is_committing and not self._is_resting:  # no other commit that was under way has ended before
            self._is_resting = True
            loop = asyncio.get_running_loop()
            took = loop.time() - self._commit_began
            loop.call_later(min(took, _LONGEST_REST), self._call_held)

    def _call_held(self) -> None:
        self._is_committing = self._is_resting = False
        held, self._held = self._held, []
        for function in held:
            _call(function)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ident = get_ident()
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            loop.run_until_complete(self._end_tasks())
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            self._ident = None  # another thread may get the same one
            asyncio.set_event_loop(None)
            loop.close()

    async def _end_tasks(self) -> None:
        await _all_begun()
        for task in _others():
            if not task.cancelling():
                task.cancel()
        await _ended(self._grace)
        for task in _others():
            task.cancel()
        await _ended(self._grace)
        for task in _others():
            _log.error("%r ignores its cancellation and is abandoned", task)
        executor = asyncio.get_running_loop().shutdown_default_executor()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(executor, self._grace)


class _Selector(selectors.DefaultSelector):
    """Waits for descriptors in the way that the event loop's thread says: `call` need not wake a loop that is busy."""

    def __init__(self, wait: Callable[[Callable[[float | None], _Ready], float | None], _Ready]) -> None:
        super().__init__()
        self._wait = wait
        self._woken, self._waker = socket.socketpair()
        self._woken.settimeout(0)
        self._waker.settimeout(0)
        self.register(self._woken, selectors.EVENT_READ)

    def wake(self) -> None:
        """Have `select` return; from any thread."""
        with contextlib.suppress(OSError):  # it is about to return, or closed
            self._waker.send(b"\0")

    def select(self, timeout: float | None = None) -> _Ready:
        """Return the descriptors that are ready, at the latest after so many seconds."""
        return self._wait(self._ready, timeout)

    def close(self) -> None:
        """Let go of everything. Idempotent."""
        super().close()
        self._woken.close()
        self._waker.close()

    def _ready(self, timeout: float | None) -> _Ready:
        ready = super().select(timeout)
        for place, (key, _) in enumerate(ready):
            if key.fileobj is self._woken:
                self._woken.recv(4096)
                del ready[place]
                break
        return ready


class LoopPlace:
    """Where actors run on an event loop: what a worker pool is to pooled actors."""

    may_block = False

    def __init__(self, loop: EventLoopThread, workers: WorkerPool) -> None:
        """Run actors on the loop; `workers` count them among theirs, and run them when the loop cannot."""
        self.loop = loop
        self.workers = workers

    @property
    def may_write(self) -> bool:
        """Whether the current thread, the loop's, may wait for the disk: nothing else is under way on the loop."""
        return self.loop.tasks <= 1

    def submit(self, work: Runnable) -> None:
        """Have the loop run `work` soon; a worker does if the loop is closed, or cannot be started.

        Raises:
            RuntimeClosedError: the workers are gone, too.
        """
        try:
            self.loop.call(functools.partial(self._run, work))
        except (RuntimeClosedError, RuntimeError, OSError):
            self.workers.submit(work)

    def blocked(self) -> AbstractContextManager[None]:
        """Refuse to wait.

        Raises:
            DeadlockError: always.
        """
        raise blocking_on_loop()

    def enter(self, actor: object) -> None:
        """Keep the actor until it leaves."""
        self.workers.enter(actor)

    def leave(self, actor: object) -> None:
        """Let the actor go."""
        self.workers.leave(actor)

    def _run(self, work: Runnable) -> None:
        here.pool = self
        work.run()


@functools.cache
def default_place() -> LoopPlace:
    """Return the place for actors that are started outside of any system."""
    return LoopPlace(EventLoopThread(), default_pool())


def _closed() -> RuntimeClosedError:
    return RuntimeClosedError("the runtime is closed; nothing can reach the outside world any more")


def _call(function: Callable[[], object]) -> None:
    try:
        function()
    except BaseException:  # noqa: BLE001 - the loop outlives it
        _log.critical("a call on the event loop has failed", exc_info=True)


def _others() -> set[asyncio.Task[object]]:
    return asyncio.all_tasks() - {asyncio.current_task()}


async def _all_begun() -> None:
    """Let each task take its first step: one that is cancelled before that never gets to its clean-up."""
    seen: set[asyncio.Task[object]] = set()
    for _ in range(_MOST_GENERATIONS):
        tasks = _others()
        if tasks <= seen:
            return
        seen |= tasks
        await asyncio.sleep(0)


async def _ended(seconds: float) -> None:
    tasks = _others()
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)
