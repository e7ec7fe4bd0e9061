"""The client's thread, with an asyncio loop of its own, and how other threads call functions on it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, InvalidStateError
from typing import Final, TypeVar

from reenact.domain.errors import RuntimeClosedError

T = TypeVar("T")
NAME: Final = "reenact-client"
_GRACE: Final = 1.0
"""Seconds that a look-up of a host's name may still take when all else has ended."""


class ClientThread:
    """Runs one coroutine to its end, and the calls of functions that come meanwhile."""

    def __init__(self, work: Callable[[], Coroutine[object, object, object]]) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._ended = False
        begun = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(work, begun), name=NAME, daemon=True)
        self._thread.start()
        begun.wait()  # what is called from now on finds the coroutine at its first `await` or further

    def call(self, function: Callable[..., None], *given: object) -> None:
        """Have the function called on the thread, soon, in the order of these calls.

        Raises:
            RuntimeClosedError: the thread has ended.
        """
        with self._lock:
            if not self._ended:
                self._loop.call_soon_threadsafe(function, *given)
                return
        raise closed()

    def join(self) -> None:
        """Wait until the coroutine has come to its end, and all that it began."""
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
    """Return the error of what comes after the end."""
    return RuntimeClosedError("the runtime is closed; connect again to go on")


def resolve(future: Future[T], value: T) -> None:
    """Let the future have this result, unless it is done, or nobody wants it any more."""
    with contextlib.suppress(InvalidStateError):
        future.set_result(value)


def reject(future: Future[T], error: Exception) -> None:
    """Let the future have this error, unless it is done, or nobody wants it any more."""
    with contextlib.suppress(InvalidStateError):
        future.set_exception(error)
