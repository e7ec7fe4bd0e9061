"""Runs a system's asyncio event loop on its own thread, and actors on that loop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractContextManager
from contextvars import Context
from threading import get_ident
from typing import Never, TypeAlias

from reenact.actors.kernel.pool import Runnable, WorkerPool, blocking_on_loop, default_pool, here
from reenact.domain.errors import RuntimeClosedError

_Ready: TypeAlias = list[tuple[selectors.SelectorKey, int]]
"""The descriptors that are ready, with their event masks."""

_log = logging.getLogger(__name__)
_GRACE_SECONDS = 2.0
_MOST_ROUNDS = 10
_LONGEST_PAUSE = 0.05
_EXTRA_CALLS = 16
"""How many calls handed over while a round is being run still belong to that round."""


class EventLoopThread:
    """An asyncio event loop on its own thread, started on first use.

    Closing it cancels the running tasks and waits for their clean-up. A task that is already being cancelled is not
    cancelled a second time at once, so that its clean-up can wait for something; if it has not ended after `grace`
    seconds, it is.
    """

    def __init__(self, *, grace: float = _GRACE_SECONDS) -> None:
        self._grace = grace
        # Protects the fields below, down to `_after_round`. Re-entrant, since the handler of a signal may call the loop
        # while the main thread does.
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._selector: _Selector | None = None
        self._thread: threading.Thread | None = None
        self._thread_id: int | None = None
        self._closed = False
        self._calls: deque[Callable[[], object]] = deque()
        self._is_asleep = False
        self._has_selected = False
        self._after_round: list[Callable[[], object]] = []
        # Only the loop's thread changes these, but for the last one: the thread that has committed sets it.
        self._is_committing = self._is_pausing = False
        self._commit_began = self._commit_ended = 0.0
        self._held: list[Callable[[], object]] = []
        # asyncio holds its tasks by weak references: without this set, a task that waits only for an object it has
        # created itself would be garbage-collected.
        self._tasks: set[asyncio.Task[None]] = set()
        self._spawned: set[Future[None]] = set()

    @property
    def tasks(self) -> int:
        """The number of running coroutines that were passed to `run` on the loop's thread."""
        return len(self._tasks)

    @property
    def is_idle(self) -> bool:
        """Whether no function waits to be called, and no coroutine that was passed to `run` or `spawn` is running."""
        return not (self._tasks or self._spawned or self._calls)

    def call(self, function: Callable[[], object]) -> None:
        """Call the function on the loop's thread, after those handed over earlier. May be called from any thread.

        Raises:
            RuntimeClosedError: the loop is closed.
            OSError: the process has no file descriptors left for the loop.
            RuntimeError: no thread can be started.
        """
        if get_ident() == self._thread_id:
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
                # Outside the lock: sending releases the interpreter lock, and other threads would wait for our lock
                # until it is back.
                self._selector.wake()
        except BaseException:
            # A signal such as Ctrl+C came in between: without this, other threads would rely on a wake-up that never
            # happened.
            self._is_asleep = True
            raise

    def after_round(self, function: Callable[[], object]) -> None:
        """Call the function once, after the calls handed over to the loop so far. Only for the loop's own thread."""
        if self._closed:  # there may be no further round
            function()
            return
        if function not in self._after_round:
            self._after_round.append(function)

    def call_between_commits(self, function: Callable[[], object]) -> None:
        """Call the function at once, or, if a commit is in progress for the loop, on the loop's thread after it.

        The loop pauses after a commit for as long as the commit took. So the busier the machine is, the more concurrent
        calls go into one commit. May be called from any thread.

        Raises:
            RuntimeClosedError: the loop is closed, and the function would have had to wait.
        """
        if not self._is_committing:
            function()
        elif get_ident() == self._thread_id:
            self._held.append(function)
        else:
            self.call(functools.partial(self.call_between_commits, function))

    def commit_begins(self) -> None:
        """Hold back the functions passed to `call_between_commits`. Only for the loop's own thread."""
        if not self._is_committing:
            self._is_committing = True
            self._commit_began = time.monotonic()

    def commit_is_over(self) -> None:
        """Call the held-back functions after a pause as long as the commit took. May be called from any thread."""
        self._commit_ended = time.monotonic()
        with contextlib.suppress(RuntimeClosedError):  # the tasks that were held back are being cancelled
            self.call(self._pause_after_commit)

    def spawn(self, work: Coroutine[object, Never, None]) -> Future[None]:
        """Run the coroutine as a task; cancelling the future cancels the task. May be called from any thread.

        Raises:
            RuntimeClosedError: the loop is closed; the coroutine is closed, too.
            OSError: the process has no file descriptors left for the loop; the coroutine is closed, too.
            RuntimeError: no thread can be started; the coroutine is closed, too.
        """
        with self._lock:
            try:
                loop = self._open()
            except BaseException:
                work.close()
                raise
            # Which thread spawns it is chance, so it sees no context variables of that thread.
            future = Context().run(asyncio.run_coroutine_threadsafe, work, loop)
        self._spawned.add(future)
        future.add_done_callback(self._spawned.discard)
        return future

    def run(self, work: Coroutine[object, Never, None]) -> Future[None] | asyncio.Task[None]:
        """Run the coroutine as `spawn` does; on the loop's own thread, create the task directly."""
        if get_ident() != self._thread_id:
            return self.spawn(work)
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def close(self) -> None:
        """Cancel the running tasks, wait for their clean-up and end the thread. Idempotent; blocks until done."""
        with self._lock:
            loop, thread = self._loop, self._thread
            was_closed, self._closed = self._closed, True  # before the loop stops: the tasks that end with it read this
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
        """Wait for descriptors, as the event loop does in each round; if there are functions to call, call those."""
        ready: _Ready = []
        # Each select releases the interpreter lock: while there are calls, it happens only every other round.
        self._has_selected = not (self._calls and self._has_selected)
        if self._has_selected:
            # Set the flag before checking for calls; `call` adds its function before it reads the flag, so one of the
            # two sees the other.
            self._is_asleep = timeout is None or timeout > 0
            ready = select(0 if self._calls or self._after_round else timeout)
            self._is_asleep = False
        for _ in range(len(self._calls) + _EXTRA_CALLS):
            if not self._calls:
                break
            _call(self._calls.popleft())
        if self._after_round:
            functions, self._after_round = self._after_round, []
            for function in functions:
                _call(function)
        return ready

    def _pause_after_commit(self) -> None:
        if self._is_committing and not self._is_pausing:  # else another commit has ended already and the pause runs
            self._is_pausing = True
            # The loop may have had to wait for the interpreter lock since the commit ended: that is part of the pause.
            pause = min(self._commit_ended - self._commit_began, _LONGEST_PAUSE)
            left = self._commit_ended + pause - time.monotonic()
            asyncio.get_running_loop().call_later(max(0.0, left), self._end_pause)

    def _end_pause(self) -> None:
        # Two rounds later, so that tasks whose timers are due in the same round report in time for the next commit.
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: loop.call_soon(self._call_held))

    def _call_held(self) -> None:
        self._is_committing = self._is_pausing = False
        held, self._held = self._held, []
        for function in held:
            _call(function)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        self._thread_id = get_ident()
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            loop.run_until_complete(self._end_tasks())
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            self._thread_id = None  # another thread may get the same identifier
            asyncio.set_event_loop(None)
            loop.close()

    async def _end_tasks(self) -> None:
        await _begin_all_tasks()
        for task in _other_tasks():
            if not task.cancelling():
                task.cancel()
        await _wait_for_tasks(self._grace)
        for task in _other_tasks():
            task.cancel()
        await _wait_for_tasks(self._grace)
        for task in _other_tasks():
            _log.error("%r ignores its cancellation and is abandoned", task)
        executor = asyncio.get_running_loop().shutdown_default_executor()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(executor, self._grace)


class _Selector(selectors.DefaultSelector):
    """A selector whose waiting is controlled by the event loop's thread, so that `call` need not wake a busy loop."""

    def __init__(self, wait: Callable[[Callable[[float | None], _Ready], float | None], _Ready]) -> None:
        super().__init__()
        self._wait = wait
        self._woken, self._waker = socket.socketpair()
        self._woken.settimeout(0)
        self._waker.settimeout(0)
        self.register(self._woken, selectors.EVENT_READ)

    def wake(self) -> None:
        """Make `select` return; may be called from any thread."""
        with contextlib.suppress(OSError):  # `select` is about to return, or the selector is closed
            self._waker.send(b"\0")

    def select(self, timeout: float | None = None) -> _Ready:
        """Return the ready descriptors, waiting at most `timeout` seconds."""
        return self._wait(self._ready_now, timeout)

    def close(self) -> None:
        """Close the selector and its socket pair. Idempotent."""
        super().close()
        self._woken.close()
        self._waker.close()

    def _ready_now(self, timeout: float | None) -> _Ready:
        ready = super().select(timeout)
        for place, (key, _) in enumerate(ready):
            if key.fileobj is self._woken:
                self._woken.recv(4096)
                del ready[place]
                break
        return ready


class LoopPlace:
    """Runs actors on an event loop, as a worker pool does on worker threads."""

    may_block = False

    def __init__(self, loop: EventLoopThread, workers: WorkerPool) -> None:
        """Run actors on `loop`; `workers` keeps count of these actors, and runs them if the loop cannot."""
        self.loop = loop
        self.workers = workers

    @property
    def may_write(self) -> bool:
        """Whether the current thread, the loop's, may wait for the disk, since it holds up one task at most."""
        return self.loop.tasks <= 2  # noqa: PLR2004 - one that appends, and one that a commit may hold up

    def submit(self, work: Runnable) -> None:
        """Run `work` on the loop soon, or on a worker if the loop is closed or cannot be started.

        Raises:
            RuntimeClosedError: the worker pool is closed, too.
        """
        try:
            self.loop.call(functools.partial(self._run, work))
        except (RuntimeClosedError, RuntimeError, OSError):
            self.workers.submit(work)

    def blocked(self) -> AbstractContextManager[None]:
        """Refuse to block.

        Raises:
            DeadlockError: always.
        """
        raise blocking_on_loop()

    def enter(self, actor: object) -> None:
        """Keep a reference to the actor until it leaves."""
        self.workers.enter(actor)

    def leave(self, actor: object) -> None:
        """Drop the reference to the actor."""
        self.workers.leave(actor)

    def _run(self, work: Runnable) -> None:
        here.pool = self
        work.run()


@functools.cache
def default_place() -> LoopPlace:
    """Return the default event loop for actors that are started outside any system."""
    return LoopPlace(EventLoopThread(), default_pool())


os.register_at_fork(after_in_child=default_place.cache_clear)  # its thread stays with the parent


def _closed() -> RuntimeClosedError:
    return RuntimeClosedError("the runtime is closed; nothing can reach the outside world any more")


def _call(function: Callable[[], object]) -> None:
    try:
        function()
    except BaseException:  # noqa: BLE001 - the loop must survive it
        _log.critical("a call on the event loop has failed", exc_info=True)


def _other_tasks() -> set[asyncio.Task[object]]:
    return asyncio.all_tasks() - {asyncio.current_task()}


async def _begin_all_tasks() -> None:
    """Let each task take its first step: a task that is cancelled before that never runs its clean-up."""
    seen: set[asyncio.Task[object]] = set()
    for _ in range(_MOST_ROUNDS):
        tasks = _other_tasks()
        if tasks <= seen:
            return
        seen |= tasks
        await asyncio.sleep(0)


async def _wait_for_tasks(seconds: float) -> None:
    tasks = _other_tasks()
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)
