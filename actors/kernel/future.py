"""The future of a reply: a pykka future without a condition variable of its own."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from queue import Full
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

import pykka

from reenact.actors.kernel.pool import here, waiting, waiting_for_itself
from reenact.domain.plain import seconds_of

T = TypeVar("T")

_log = logging.getLogger("reenact.kernel")

ExcInfo: TypeAlias = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]


class PooledFuture(pykka.Future[T]):
    """A future that is cheap until a thread waits for it, and that supports callbacks."""

    # Class attributes hold the defaults: pykka's own constructor would set each of them on every instance.
    _set: bool = False
    _value: Any = None  # a T, or the None of `set()`
    _exc_info: ExcInfo | None = None
    _hook: Callable[[float | None], T] | None = None
    _callbacks: list[Callable[[PooledFuture[T]], object]] | None = None
    asked: object = None
    """The mailbox of the actor that is to reply, if that actor is itself the one that asks."""
    _hook_lock: threading.RLock

    def __init__(self) -> None:  # the fields of pykka's constructor are not used here
        # Orders setting the value against adding a callback. Callbacks run outside the lock, on the thread that sets
        # the value, or at once if it is set. `_set` is written last, so that it may be read without the lock.
        self._lock = threading.Lock()

    def get(self, *, timeout: float | None = None) -> T:
        """Wait for the value and return it, or raise the exception.

        Raises:
            pykka.Timeout: neither was set within `timeout` seconds.
            DeadlockError: the current thread is running the actor that is to reply, which would wait for itself.
        """
        if not self._set:
            if self.asked is not None and timeout is None and any(self.asked is one for one in here.running):
                raise waiting_for_itself()
            hook = self._hook
            if hook is not None:
                self._call_hook(hook, timeout)
            else:
                self._wait(timeout)
        if self._exc_info is not None:
            kind, error, traceback = self._exc_info
            raise (error or (kind or RuntimeError)()).with_traceback(traceback)
        value: T = self._value
        return value

    def __await__(self) -> Generator[None, None, T]:
        """Wait without blocking the asyncio loop, then return the value or raise the exception.

        A future with a get hook is computed on a thread of the loop's executor.
        """
        if not self._set:
            import asyncio  # noqa: PLC0415 - a caller that awaits has imported it already

            loop = asyncio.get_running_loop()
            if self._hook is not None:
                return (yield from loop.run_in_executor(None, self.get))
            came: asyncio.Future[None] = loop.create_future()

            def settle() -> None:
                if not came.done():  # the awaiting task may have been cancelled
                    came.set_result(None)

            def wake(_: object) -> None:
                with suppress(RuntimeError):  # the loop is closed, so no task waits
                    loop.call_soon_threadsafe(settle)

            self.add_done_callback(wake)
            yield from came
        return self.get()

    def set(self, value: T | None = None) -> None:
        """Set the value.

        Raises:
            queue.Full: the future has a value, an exception or a get hook already.
        """
        self._resolve(value, None)

    def set_exception(self, exc_info: ExcInfo | None = None) -> None:
        """Set an exception, by default the one being handled.

        Raises:
            queue.Full: the future has a value, an exception or a get hook already.
        """
        kind, error, traceback = exc_info or sys.exc_info()
        self._resolve(None, (kind, error, traceback))

    def fail(self, error: BaseException) -> None:
        """Set this exception."""
        self._resolve(None, (type(error), error, error.__traceback__))

    def set_get_hook(self, func: Callable[[float | None], T]) -> None:
        """Make `get` call the function, once, and return its result."""
        with self._lock:
            if self._set:
                raise Full
            self._hook_lock = threading.RLock()
            self._hook = func

    def done(self) -> bool:
        """Return whether `get` would return or raise at once."""
        return self._set

    def failed(self) -> bool:
        """Return whether an exception is set."""
        return self._exc_info is not None

    def add_done_callback(self, callback: Callable[[PooledFuture[T]], object]) -> None:
        """Call the callback once the future is set: on the thread that sets it, or at once if it is set already.

        Raises:
            TypeError: the future has a get hook, which computes the value only when `get` is called.
        """
        with self._lock:
            if self._hook is not None:
                raise TypeError("a future with a get hook never calls back")
            if not self._set:
                if self._callbacks is None:
                    self._callbacks = [callback]
                else:
                    self._callbacks.append(callback)
                return
        callback(self)

    def _resolve(self, value: T | None, exc_info: ExcInfo | None) -> None:
        with self._lock:
            if self._set or self._hook is not None:
                raise Full
            self._value = value
            self._exc_info = exc_info
            self._set = True
            callbacks = self._callbacks
            self._callbacks = None
        if callbacks is not None:
            for callback in callbacks:
                try:
                    callback(self)
                except Exception:  # noqa: BLE001 - the thread that sets the reply is not responsible for it
                    _log.exception("a callback of a future has failed")

    def _call_hook(self, hook: Callable[[float | None], T], timeout: float | None) -> None:
        if not self._hook_lock.acquire(blocking=False):
            with waiting():
                self._hook_lock.acquire()
        try:
            if not self._set:
                self._value = hook(timeout)
                self._set = True
        finally:
            self._hook_lock.release()

    def _wait(self, timeout: float | None) -> None:
        seconds = seconds_of(timeout)
        gate = threading.Lock()
        gate.acquire()

        def release(_: object) -> None:
            gate.release()
            here.has_woken = True

        self.add_done_callback(release)
        with waiting():
            came = gate.acquire(timeout=-1 if seconds is None else seconds)
        if not came:
            with self._lock:
                if self._callbacks is not None:
                    self._callbacks.remove(release)
            raise pykka.Timeout(f"{timeout} seconds")
