"""The client's thread, and the buffer between that thread and the consumers of events."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import Generic, TypeVar

from reenact.domain.errors import ReenactError, RuntimeClosedError, opened_before_fork

NAME = "reenact-client"
_GRACE = 1.0
"""Seconds in which a pending look-up of a host name may still end after everything else has."""


class ClientThread:
    """Runs one coroutine to its end, and functions that are passed to it meanwhile."""

    _ended = False

    def __init__(self, work: Callable[[], Coroutine[object, object, object]]) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._process = os.getpid()
        begun = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(work, begun), name=NAME, daemon=True)
        self._thread.start()
        begun.wait()  # calls from now on find the coroutine at its first `await` or later

    def call(self, function: Callable[..., None], *given: object) -> None:
        """Call the function on the thread, soon, in the order of the calls of this method.

        Raises:
            RuntimeClosedError: the thread has ended, or was not forked with this process.
        """
        if self._process != os.getpid():
            raise opened_before_fork("connection")
        with self._lock:
            if not self._ended:
                self._loop.call_soon_threadsafe(function, *given)
                return
        raise closed()

    def join(self) -> None:
        """Wait until the coroutine, and all tasks that it started, have ended."""
        self._thread.join()

    def _run(self, work: Callable[[], Coroutine[object, object, object]], begun: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            task = self._loop.create_task(work())
            self._loop.call_soon(begun.set)
            with contextlib.suppress(asyncio.CancelledError):
                self._loop.run_until_complete(task)
        finally:
            with self._lock:
                self._ended = True
            self._loop.run_until_complete(_wind_up())
            asyncio.set_event_loop(None)
            self._loop.close()


async def _wind_up() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.get_running_loop().shutdown_default_executor(), _GRACE)


def closed() -> RuntimeClosedError:
    """Return the error for calls after the end."""
    return RuntimeClosedError("the runtime is closed; connect again to go on")


def resolve(future: Future[T], value: T) -> None:
    """Set the future's result, unless it is done or cancelled."""
    with contextlib.suppress(InvalidStateError):
        future.set_result(value)


def reject(future: Future[T], error: Exception) -> None:
    """Set the future's exception, unless it is done or cancelled."""
    with contextlib.suppress(InvalidStateError):
        future.set_exception(error)


T = TypeVar("T")


class Buffer(Generic[T]):
    """Holds up to `most` events, and up to `most_bytes` of them and one event more. Thread-safe.

    The server keeps further events. When there is room again after an event was rejected, `on_room` is called, on the
    thread that takes an event.
    """

    error: ReenactError | None = None
    """The error because of which no more events come, if there is one."""
    dealt_with = 0
    """The cursor of the last event that the consumer has processed; all up to there may be acknowledged."""
    _bytes = 0
    _has_rejected = False
    _is_ended = False

    # The link's thread offers events and ends the buffer; the consumer's thread, or a task of its loop, takes events
    # and waits. `_changed` protects the events and the waiters. `dealt_with` is written by the consumer alone and only
    # grows: the link's thread reads it without the lock, and at worst acknowledges a little less.

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self.on_room: Callable[[], None] = lambda: None
        self._events: deque[tuple[T, int]] = deque()
        self._changed = threading.Condition()
        self._watchers: list[Callable[[], object]] = []

    @property
    def is_done(self) -> bool:
        """Whether no event is left, and no more come."""
        with self._changed:
            return self._is_ended and not self._events

    def offer(self, event: T, size: int) -> bool:
        """Add an event of `size` bytes, or return False if there is no room for it. On the link's thread."""
        with self._changed:
            if len(self._events) >= self._most or self._bytes >= self._most_bytes:
                self._has_rejected = True
                return False
            if not self._is_ended:
                self._events.append((event, size))
                self._bytes += size
                self._wake()
            return True

    def end(self, error: ReenactError | None) -> None:
        """Note that no more events come, and the error that is the reason, if any. On the link's thread."""
        with self._changed:
            if not self._is_ended:
                self._is_ended = True
                self.error = None if isinstance(error, RuntimeClosedError) else error
            self._wake()

    def close(self) -> None:
        """Drop all events, accept no more, and wake waiting consumers."""
        with self._changed:
            self._is_ended = True
            self.error = None
            self._events.clear()
            self._bytes = 0
            self._wake()

    def pop(self) -> T | None:
        """Take the next event, if there is one."""
        with self._changed:
            if not self._events:
                return None
            event, size = self._events.popleft()
            self._bytes -= size
            has_room = len(self._events) <= self._most // 2 and self._bytes <= self._most_bytes // 2
            is_enough, self._has_rejected = self._has_rejected and has_room, self._has_rejected and not has_room
        if is_enough:
            with contextlib.suppress(RuntimeClosedError):
                self.on_room()
        return event

    def wait(self, seconds: float | None) -> bool:
        """Wait for an event or the end; return False if neither came in time."""
        with self._changed:
            return bool(self._changed.wait_for(lambda: self._events or self._is_ended, seconds))

    async def wait_async(self) -> None:
        """Do the same as `wait` for asyncio, without a timeout."""
        more = asyncio.Event()
        stop_watching = self.watch(partial(_call_on, asyncio.get_running_loop(), more.set))
        try:
            await more.wait()
        finally:
            stop_watching()

    def watch(self, watcher: Callable[[], object]) -> Callable[[], object]:
        """Call the watcher once, when there is an event, or the end; return a function that removes it."""
        with self._changed:
            if self._events or self._is_ended:
                watcher()
            else:
                self._watchers.append(watcher)
        return partial(self._forget, watcher)

    def _forget(self, watcher: Callable[[], object]) -> None:
        with self._changed, contextlib.suppress(ValueError):  # it has been called
            self._watchers.remove(watcher)

    def _wake(self) -> None:
        self._changed.notify_all()
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher()


def _call_on(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: no one waits there any more
        loop.call_soon_threadsafe(function)
