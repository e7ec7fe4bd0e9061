"""Worker pool: few threads run many actors; an actor with work is queued, and a free worker runs it."""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from queue import Empty, SimpleQueue
from typing import Protocol

from reenact.domain.errors import DeadlockError, RuntimeClosedError

_SPARE_TIMEOUT = 1.0
"""Seconds after which a surplus worker ends."""

_log = logging.getLogger("reenact.kernel")


class Runnable(Protocol):
    """A unit of work for a worker."""

    def run(self) -> None:
        """Do the work that is there now, and return soon."""


class Place(Protocol):
    """A worker pool or an event loop that runs actors."""

    may_block: bool
    """Whether a thread that runs actors may wait for a reply."""

    @property
    def may_write(self) -> bool:
        """Whether the thread that is running an actor may wait for the disk."""
        ...

    def blocked(self) -> AbstractContextManager[None]:
        """Let the current thread block inside without holding up other actors, or raise `DeadlockError`."""
        ...

    def submit(self, work: Runnable) -> None:
        """Run `work` soon, after all work submitted before, or raise `RuntimeClosedError`."""

    def enter(self, actor: object) -> None:
        """Keep a reference to the actor until it leaves."""

    def leave(self, actor: object) -> None:
        """Drop the reference to the actor."""


class _ThreadState(threading.local):
    """The state of the current thread: for which place it runs actors, and the mailboxes it runs, nested by asks."""

    pool: Place | None = None

    def __init__(self) -> None:
        self.running: list[object] = []
        self.is_main = threading.current_thread() is threading.main_thread()
        # A signal handler may interrupt the main thread anywhere, even in the middle of an append: it runs no actors.
        self.runs_actors = not self.is_main

    def runs_on(self, *places: Place) -> bool:
        """Return whether the thread belongs to one of these places, or runs an actor on behalf of one that asks."""
        return bool(self.running) or any(self.pool is place for place in places)


here = _ThreadState()


class WorkerPool:
    """Worker threads that are started when there is work, and end when no actor is left.

    Unless they are daemons, live actors keep the process running until they are stopped, as pykka's do.
    """

    may_block = True
    may_write = True

    def __init__(self, workers: int = 2, *, daemons: bool = False) -> None:
        if type(workers) is not int:
            raise TypeError(f"workers={workers!r:.100} must be a whole number")
        if workers < 1:
            raise ValueError(f"a pool needs at least one worker, not {workers}")
        self._target_workers = workers
        self._daemons = daemons
        # `_lock` protects the list of threads and the number of running ones. A thread that submits work reads that
        # number without the lock, after it has queued the work; a worker decrements it before it looks at the queue for
        # the last time: so at least one of them sees the other. `_end_lock` protects `_is_end_queued`, and is taken
        # inside `_lock`. `_lock` is re-entrant, since the handler of a signal may submit work while the main thread
        # does.
        self._queue: SimpleQueue[Runnable | None] = SimpleQueue()
        self._lock = threading.RLock()
        self._threads: list[threading.Thread] = []
        self._running = 0
        self._live: dict[int, object] = {}  # by identity: an actor may define its own `__eq__`, or have no hash
        self._end_lock = threading.Lock()
        self._is_end_queued = False  # whether the None that ends workers is in the queue; there is never a second one
        self._closed = False

    def submit(self, work: Runnable) -> None:
        """Run `work` on a worker soon, after all work submitted before.

        Raises:
            RuntimeClosedError: the pool is closed.
        """
        if self._closed:
            raise RuntimeClosedError("the worker pool is closed")
        self._queue.put(work)
        if self._running < self._target_workers:
            self._start_worker()

    def enter(self, actor: object) -> None:
        """Keep a reference to the actor, and the workers running, until it leaves."""
        self._live[id(actor)] = actor

    def leave(self, actor: object) -> None:
        """Drop the reference to the actor; when the last one leaves, the workers end."""
        self._live.pop(id(actor), None)
        if self._live:
            return
        with self._end_lock:
            if self._is_end_queued:
                return
            self._is_end_queued = True
        self._queue.put(None)

    def live(self) -> list[object]:
        """Return the actors that have entered and not left."""
        return list(self._live.values())

    def __len__(self) -> int:
        return len(self._live)

    @contextmanager
    def blocked(self) -> Generator[None]:
        """Start a spare worker in place of the current one, which is about to block."""
        with self._lock:
            self._running -= 1
        try:
            if self._running < self._target_workers:
                self._start_worker()
            yield
        finally:
            with self._lock:
                self._running += 1

    def close(self) -> None:
        """End the workers after the work queued so far, and wait for them; live actors no longer run. Idempotent."""
        self._closed = True
        self._queue.put(None)
        for thread in list(self._threads):
            thread.join()

    def _start_worker(self) -> None:
        with self._lock:
            # The pool may have been closed meanwhile, perhaps by the submitted work: then the work is done.
            if self._closed or self._running >= self._target_workers:
                return
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            name = f"reenact-worker-{len(self._threads)}"
            thread = threading.Thread(target=self._work, name=name, daemon=self._daemons)
            try:
                thread.start()
            except RuntimeError:  # such as in a program that is exiting (Python 3.12)
                if not self._threads:
                    raise
                return  # the existing threads do the work
            self._threads.append(thread)
            self._running += 1

    def _work(self) -> None:
        here.pool = self
        while True:
            try:
                work = self._queue.get(timeout=_SPARE_TIMEOUT if self._running > self._target_workers else None)
            except Empty:
                if self._end_if_spare():
                    return
                continue
            if work is None:
                if self._end_if_unused():
                    return
                continue
            try:
                work.run()
            except BaseException:  # noqa: BLE001 - a worker must survive it
                _log.critical("an actor's turn ended in a way that the kernel does not know", exc_info=True)

    def _end_if_spare(self) -> bool:
        with self._lock:
            if self._running <= self._target_workers:
                return False
            return self._try_to_end()

    def _end_if_unused(self) -> bool:
        with self._lock:
            with self._end_lock:
                if self._live and not self._closed:
                    self._is_end_queued = False
                    return False
            ends = self._try_to_end()
            # Passed on to the other workers, including one that returns from blocking later; or queued again, to be
            # read after the work that is queued.
            self._queue.put(None)
            return ends

    def _try_to_end(self) -> bool:
        # Decrement before looking at the queue: a submitting thread does both in the opposite order, so one sees the
        # other.
        self._running -= 1
        if self._queue.empty() or self._closed:
            return True
        self._running += 1
        return False


_NOTHING_TO_HOLD_UP = nullcontext()


def waiting() -> AbstractContextManager[None]:
    """Return a context manager within which the current thread may block without holding up the actors it runs.

    Raises:
        DeadlockError: the current thread is that of an event loop on which actors run.
    """
    return _NOTHING_TO_HOLD_UP if here.pool is None else here.pool.blocked()


def refuse_on_loop() -> None:
    """Refuse a blocking ask before anything is sent.

    Raises:
        DeadlockError: the current thread is that of an event loop on which actors run.
    """
    if here.pool is not None and not here.pool.may_block:
        raise blocking_on_loop()


def blocking_on_loop() -> DeadlockError:
    """Return the error for a call that would block an event loop on which actors run."""
    message = (
        "a blocking ask or get holds up every actor on this event loop; await ask_async(…), or the future, or tell"
    )
    return DeadlockError(message)


def waiting_for_itself() -> DeadlockError:
    """Return the error for an actor that asks itself and waits."""
    return DeadlockError("an actor that waits for its own reply waits for ever; let it tell itself")


@functools.cache
def default_pool() -> WorkerPool:
    """Return the default pool for actors that are started outside any system."""
    return WorkerPool()


os.register_at_fork(after_in_child=default_pool.cache_clear)  # its threads stay with the parent
