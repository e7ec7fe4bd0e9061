"""Runs code that may take long, block, or never end, without blocking anything else."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Final, TypeVar

T = TypeVar("T")

CLEANUP_SECONDS = 1.0
"""Seconds that a cancelled task has for its clean-up before it is abandoned."""

IDLE_SECONDS = 0.05
"""Seconds for which an idle thread waits for another call before it ends."""

_log = logging.getLogger("reenact.tools")
_abandoned: Final[set[asyncio.Task[object]]] = set()


class ExpiredError(Exception):
    """The awaited work did not end in time, and was given up."""


class EscapedError(Exception):
    """A tool raised an exception that would end the event loop, such as `SystemExit`."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(repr(error))
        self.error = error


async def awaited(work: Awaitable[T]) -> T:
    """Return the awaitable's result; an exception that would end the loop is raised as `EscapedError`."""
    try:
        return await work
    except (Exception, asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        raise EscapedError(error) from error


async def wait_for_cancellation() -> None:
    """Wait until this task is cancelled."""
    await asyncio.get_running_loop().create_future()


async def in_thread(call: Callable[[], T], name: str) -> T:
    """Return the call's result; the call runs on a thread of its own, with a copy of the caller's context.

    There is no limit to such threads, so calls that never end do not delay others. When this is cancelled, the thread
    is not waited for, and its late result is dropped; it does not keep the process from ending.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            settle = partial(_set_result, done, context.run(call))
        except Exception as error:  # noqa: BLE001 - raised again where it is awaited
            escaped = isinstance(error, StopIteration)  # a future does not accept that one
            settle = partial(_fail, done, EscapedError(error) if escaped else error)
        except BaseException as error:  # noqa: BLE001 - likewise, as an exception that does not end the loop
            settle = partial(_fail, done, EscapedError(error))
        with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(settle)

    try:
        caller = _idle_callers.pop()
    except IndexError:
        caller = _CallerThread()
    caller.make(run, name)
    return await done


class _CallerThread:
    """A thread that makes one call after the other, and ends when there is no other for a while."""

    # `make` is called by the thread that wants a call made; `_work` runs on the worker thread. An idle caller is in
    # `_idle_callers`, and its worker thread waits for `_gate`, which is released once `_run` is set.

    def __init__(self) -> None:
        self._run: Callable[[], None] | None = None
        self._thread: threading.Thread | None = None
        self._gate = threading.Lock()
        self._gate.acquire()

    def make(self, run: Callable[[], None], name: str) -> None:
        """Make the call; no one else may use this caller until it is idle again."""
        self._run = run
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._thread.start()
        else:
            self._thread.name = name
            self._gate.release()

    def _work(self) -> None:
        while self._run is not None:
            self._run()
            self._run = None
            _idle_callers.append(self)
            if not self._gate.acquire(timeout=IDLE_SECONDS):
                try:
                    _idle_callers.remove(self)
                except ValueError:  # another thread has taken this caller just now
                    self._gate.acquire()


_idle_callers: Final[list[_CallerThread]] = []
"""The idle threads. A thread that pops one owns it: popping is atomic."""
os.register_at_fork(after_in_child=_idle_callers.clear)


def _set_result(done: asyncio.Future[T], result: T) -> None:
    if not done.done():
        done.set_result(result)
    elif inspect.iscoroutine(result):
        result.close()


def _fail(done: asyncio.Future[T], raised: Exception) -> None:
    if not done.done():
        done.set_exception(raised)


async def within(seconds: float | None, work: Coroutine[object, object, T]) -> T:
    """Return the coroutine's result, if it ends in time; a limit of None means no limit.

    It runs as a task, which is cancelled when the time is over or when this is cancelled.

    Raises:
        ExpiredError: it did not end in time.
        EscapedError: it cancelled itself, or raised `GeneratorExit`.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((task,), timeout=seconds)
    except asyncio.CancelledError:
        await _cancel_and_wait(task)
        raise
    if not task.done():
        await _cancel_and_wait(task)
        raise ExpiredError
    if task.cancelled():
        raise EscapedError(asyncio.CancelledError("it cancelled itself"))
    if isinstance(raised := task.exception(), GeneratorExit):
        raise EscapedError(raised) from raised
    return task.result()


async def _cancel_and_wait(task: asyncio.Task[object]) -> None:
    """Cancel the task and give it a moment for its clean-up."""
    task.cancel()
    try:
        await asyncio.wait((task,), timeout=CLEANUP_SECONDS)
    finally:
        if not task.done():
            _log.warning("%s goes on after its cancellation, and is left alone", task.get_name())
            _abandoned.add(task)  # the loop keeps only a weak reference
            task.add_done_callback(_on_abandoned_end)
        elif not task.cancelled():
            task.exception()  # mark it as retrieved


def _on_abandoned_end(task: asyncio.Task[object]) -> None:
    _abandoned.discard(task)
    if not task.cancelled() and task.exception() is not None:
        _log.debug("%s has failed after it was given up", task.get_name(), exc_info=task.exception())
