"""The one asyncio loop on which everything that waits for the outside world runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any

from reenact.domain.errors import RuntimeClosedError

_log = logging.getLogger(__name__)
_GRACE_SECONDS = 2.0
_MOST_GENERATIONS = 10


class OutsideLoop:
    """An asyncio loop on a thread of its own, started when it is first needed.

    Closing it cancels what runs and waits for the clean-up. A task that is being cancelled already is not cancelled a
    second time, so that its clean-up may wait for something; what has not ended `grace` seconds later is.
    """

    def __init__(self, *, grace: float = _GRACE_SECONDS) -> None:
        self._grace = grace
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def spawn(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        """Run the coroutine as a task; cancelling the future cancels the task. May be called from any thread.

        Raises:
            RuntimeClosedError: the loop is closed; the coroutine is closed, too.
            OSError: there are no descriptors left for the loop; likewise.
            RuntimeError: there can be no more threads; likewise.
        """
        with self._lock:
            if not self._closed:
                try:
                    loop = self._loop or self._start()
                except BaseException:
                    work.close()
                    raise
                return asyncio.run_coroutine_threadsafe(work, loop)
        work.close()
        msg = "the runtime is closed; nothing can reach the outside world any more"
        raise RuntimeClosedError(msg)

    def close(self) -> None:
        """Cancel what runs, wait for its clean-up and end the thread. Idempotent; returns when it is done."""
        with self._lock:
            loop, thread = self._loop, self._thread
            if not self._closed and loop is not None:
                loop.call_soon_threadsafe(loop.stop)
            self._closed = True
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _start(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._run, args=(loop,), name="reenact-outside", daemon=True)
        try:
            thread.start()
        except BaseException:
            loop.close()
            raise
        self._loop, self._thread = loop, thread
        return loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            loop.run_until_complete(self._end_tasks())
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
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


def _others() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {asyncio.current_task()}


async def _all_begun() -> None:
    """Let each task take its first step: one that is cancelled before that never gets to its clean-up."""
    seen: set[asyncio.Task[Any]] = set()
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
