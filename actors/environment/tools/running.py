"""Running what may take long, block, or not end at all, without holding up anything else."""

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

LINGER = 1.0
"""Seconds that a cancelled task is given for its clean-up before it is left alone."""

REST = 0.05
"""Seconds for which a thread waits for another call before it ends."""

_log = logging.getLogger("reenact.tools")
_abandoned: Final[set[asyncio.Task[object]]] = set()


class ExpiredError(Exception):
    """What was waited for did not end in time; it was given up."""


class EscapedError(Exception):
    """A tool raised what is not meant for its caller, such as `SystemExit`, which would have ended the loop."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(repr(error))
        self.error = error


async def awaited(work: Awaitable[T]) -> T:
    """Return what the awaitable returns; what would end the loop is raised as `EscapedError`."""
    try:
        return await work
    except (Exception, asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        raise EscapedError(error) from error


async def in_thread(call: Callable[[], T], name: str) -> T:
    """Return what the call returns, made on a thread that has nothing else to do, with a copy of the caller's context.

    Calls that never end keep no other one waiting, since there is no limit to such threads. Nobody waits for the thread
    once this is cancelled, and it does not keep the process from ending; its late result is dropped.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            settle = partial(_settle, done, context.run(call))
        except Exception as error:  # noqa: BLE001 - raised again where it is awaited
            escaped = isinstance(error, StopIteration)  # no future takes that one
            settle = partial(_fail, done, EscapedError(error) if escaped else error)
        except BaseException as error:  # noqa: BLE001 - likewise, as something that does not end the loop
            settle = partial(_fail, done, EscapedError(error))
        with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(settle)

    try:
        caller = _resting.pop()
    except IndexError:
        caller = _Caller()
    caller.make(run, name)
    return await done


class _Caller:
    """A thread that makes one call after the other, and ends when there is none for a while."""

    # `make` is called by whoever asks for a call, `_make_all` runs on the thread. While it rests, the caller is in
    # `_resting`, and the thread waits for `_gate`, which is opened once `_run` is there.

    def __init__(self) -> None:
        self._run: Callable[[], None] | None = None
        self._thread: threading.Thread | None = None
        self._gate = threading.Lock()
        self._gate.acquire()

    def make(self, run: Callable[[], None], name: str) -> None:
        """Make the call; nobody else may have one made until it rests."""
        self._run = run
        if self._thread is None:
            self._thread = threading.Thread(target=self._make_all, name=name, daemon=True)
            self._thread.start()
        else:
            self._thread.name = name
            self._gate.release()

    def _make_all(self) -> None:
        while self._run is not None:
            self._run()
            self._run = None
            _resting.append(self)
            if not self._gate.acquire(timeout=REST):
                try:
                    _resting.remove(self)
                except ValueError:  # somebody has taken it just now
                    self._gate.acquire()


_resting: Final[list[_Caller]] = []
"""The threads that rest. Whoever pops one has it for itself: popping is atomic."""
os.register_at_fork(after_in_child=_resting.clear)


def _settle(done: asyncio.Future[T], result: T) -> None:
    if not done.done():
        done.set_result(result)
    elif inspect.iscoroutine(result):
        result.close()


def _fail(done: asyncio.Future[T], raised: Exception) -> None:
    if not done.done():
        done.set_exception(raised)


async def within(seconds: float | None, work: Coroutine[object, object, T]) -> T:
    """Return what the coroutine returns, if it does so in time; None is without end.

    It runs as a task, which is cancelled when the time is over or when this is cancelled.

    Raises:
        ExpiredError: it did not.
        EscapedError: it cancelled itself.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((task,), timeout=seconds)
    except asyncio.CancelledError:
        await _given_up(task)
        raise
    if not task.done():
        await _given_up(task)
        raise ExpiredError
    if task.cancelled():
        raise EscapedError(asyncio.CancelledError("it cancelled itself"))
    return task.result()


async def _given_up(task: asyncio.Task[object]) -> None:
    """Cancel the task and give it a moment for its clean-up."""
    task.cancel()
    try:
        await asyncio.wait((task,), timeout=LINGER)
    finally:
        if not task.done():
            _log.warning("%s goes on after its cancellation, and is left alone", task.get_name())
            _abandoned.add(task)  # the loop itself does not keep it
            task.add_done_callback(_forgotten)
        elif not task.cancelled():
            task.exception()  # nobody else asks for it


def _forgotten(task: asyncio.Task[object]) -> None:
    _abandoned.discard(task)
    if not task.cancelled() and task.exception() is not None:
        _log.debug("%s has failed after it was given up", task.get_name(), exc_info=task.exception())
