"""Few threads for many actors: whoever has something to do is queued, and a free worker takes it."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from queue import Empty, SimpleQueue
from typing import Protocol

from reenact.domain.errors import DeadlockError, RuntimeClosedError

_IDLE = 1.0
"""Seconds after which a worker that is one too many goes home."""

_log = logging.getLogger("reenact.kernel")


class Runnable(Protocol):
    """Something a worker can spend a moment on."""

    def run(self) -> None:
        """Do what is to be done now, and return soon."""


class Place(Protocol):
    """Where actors run: on workers, or on an event loop."""

    may_block: bool
    """Whether a thread that runs actors may wait for a reply."""

    @property
    def may_write(self) -> bool:
        """Whether the thread that runs an actor now may wait for the disk."""
        ...

    def blocked(self) -> AbstractContextManager[None]:
        """Let the current thread wait inside without holding up other actors, or raise `DeadlockError`."""
        ...

    def submit(self, work: Runnable) -> None:
        """Have `work` run soon, after all that was submitted before, or raise `RuntimeClosedError`."""

    def enter(self, actor: object) -> None:
        """Keep the actor until it leaves."""

    def leave(self, actor: object) -> None:
        """Let the actor go."""


class _Here(threading.local):
    """What the current thread is: where it runs actors, if it does, and whom it runs, each asked by the one before."""

    pool: Place | None = None

    def __init__(self) -> None:
        self.running: list[object] = []
        self.is_main = threading.current_thread() is threading.main_thread()
        # A signal may interrupt the main thread anywhere, also in the middle of an append: it runs no actors.
        self.runs_actors = not self.is_main

    def runs_on(self, *places: Place) -> bool:
        """Return whether the thread is one of these places', or runs an actor in whose stead somebody asks."""
        return bool(self.running) or any(self.pool is place for place in places)


here = _Here()


class WorkerPool:
    """Worker threads that are started when there is work, and end when nobody is left to work for.

    Unless they are daemons, actors that live keep the process running until they are stopped, as pykka's do.
    """

    may_block = True
    may_write = True

    def __init__(self, workers: int = 2, *, daemons: bool = False) -> None:
        if type(workers) is not int:
            raise TypeError(f"workers={workers!r:.100} must be a whole number")
        if workers < 1:
            raise ValueError(f"a pool needs at least one worker, not {workers}")
        self._wanted = workers
        self._daemons = daemons
        # `_lock` protects the threads and how many of them run; whoever submits work looks at that number without it,
        # after the work is in the queue, and a worker counts itself out before it looks at the queue for the last time:
        # so one of both sees. `_door` protects `_dismissed`, and is the inner one of the two.
        self._ready: SimpleQueue[Runnable | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._running = 0
        self._live: dict[int, object] = {}  # by identity: an actor may say itself what it equals, or have no hash
        self._door = threading.Lock()
        self._dismissed = False  # whether the None that sends workers home is in the queue; there is never a second
        self._closed = False

    def submit(self, work: Runnable) -> None:
        """Have a worker run `work` soon, after all that was submitted before.

        Raises:
            RuntimeClosedError: the pool is closed.
        """
        if self._closed:
            raise RuntimeClosedError("the worker pool is closed")
        self._ready.put(work)
        if self._running < self._wanted:
            self._grow()

    def enter(self, actor: object) -> None:
        """Keep the actor, and the workers, until it leaves."""
        self._live[id(actor)] = actor

    def leave(self, actor: object) -> None:
        """Let the actor go; the workers go with the last one."""
        self._live.pop(id(actor), None)
        if self._live:
            return
        with self._door:
            if self._dismissed:
                return
            self._dismissed = True
        self._ready.put(None)

    def live(self) -> list[object]:
        """Return the actors that have entered and not left."""
        return list(self._live.values())

    def __len__(self) -> int:
        return len(self._live)

    @contextmanager
    def blocked(self) -> Generator[None]:
        """Let a spare worker take the place of the current one, which is about to wait."""
        with self._lock:
            self._running -= 1
        try:
            if self._running < self._wanted:
                self._grow()
            yield
        finally:
            with self._lock:
                self._running += 1

    def close(self) -> None:
        """End the workers after what is queued now, and wait for them; who still lives stands still. Idempotent."""
        self._closed = True
        self._ready.put(None)
        for thread in list(self._threads):
            thread.join()

    def _grow(self) -> None:
        with self._lock:
            # It may have been closed since, perhaps by what was submitted: then the work is done.
            if self._closed or self._running >= self._wanted:
                return
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            name = f"reenact-worker-{len(self._threads)}"
            thread = threading.Thread(target=self._work, name=name, daemon=self._daemons)
            try:
                thread.start()
            except RuntimeError:  # as in a program that ends (Python 3.12)
                if not self._threads:
                    raise
                return  # those that there are do the work
            self._threads.append(thread)
            self._running += 1

    def _work(self) -> None:
        here.pool = self
        while True:
            try:
                work = self._ready.get(timeout=_IDLE if self._running > self._wanted else None)
            except Empty:
                if self._goes_home_idle():
                    return
                continue
            if work is None:
                if self._goes_home_last():
                    return
                continue
            try:
                work.run()
            except BaseException:  # noqa: BLE001 - a worker outlives it
                _log.critical("an actor's turn ended in a way that the kernel does not know", exc_info=True)

    def _goes_home_idle(self) -> bool:
        with self._lock:
            if self._running <= self._wanted:
                return False
            return self._goes_home()

    def _goes_home_last(self) -> bool:
        with self._lock:
            with self._door:
                if self._live and not self._closed:
                    self._dismissed = False
                    return False
            gone = self._goes_home()
            # Passed on to the others, also to one that comes back from waiting only later; or to come again, after
            # the work that is queued.
            self._ready.put(None)
            return gone

    def _goes_home(self) -> bool:
        # Counted out before the queue is looked at: whoever submits looks the other way round, so one of both sees.
        self._running -= 1
        if self._ready.empty() or self._closed:
            return True
        self._running += 1
        return False


_ALONE = nullcontext()


def waiting() -> AbstractContextManager[None]:
    """Return inside what the current thread may wait without holding up other actors, if it runs some.

    Raises:
        DeadlockError: it is that of their event loop.
    """
    return _ALONE if here.pool is None else here.pool.blocked()


def refuse_on_loop() -> None:
    """Refuse a blocking ask before anything is sent.

    Raises:
        DeadlockError: the current thread is that of an event loop on which actors run.
    """
    if here.pool is not None and not here.pool.may_block:
        raise blocking_on_loop()


def blocking_on_loop() -> DeadlockError:
    """Return the error for who would hold up an event loop on which actors run."""
    message = (
        "a blocking ask or get holds up every actor on this event loop; await ask_async(…), or the future, or tell"
    )
    return DeadlockError(message)


def waiting_for_itself() -> DeadlockError:
    """Return the error for an actor that asks itself and waits."""
    return DeadlockError("an actor that waits for its own reply waits for ever; let it tell itself")


@functools.cache
def default_pool() -> WorkerPool:
    """Return the pool for actors that are started outside of any system."""
    return WorkerPool()
