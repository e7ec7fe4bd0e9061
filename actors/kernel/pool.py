"""Worker pool: few threads run many actors; an actor with work is queued, and a worker runs it."""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from queue import Empty, SimpleQueue
from time import perf_counter, sleep
from typing import Protocol

from reenact.domain.errors import DeadlockError, RuntimeClosedError

_SPARE_TIMEOUT = 1.0
"""Seconds after which a surplus worker ends."""
_CHECK = 0.002
"""Seconds between two checks of the leaders' progress; if there is none because they block, a worker joins them."""
_LONGEST_TURN = 0.05
"""Seconds without progress after which it joins them also if they compute."""
_QUICK = 0.001
"""A worker that has joined rests again after work that took fewer seconds, if the others make progress."""
_SHORT = 0.0001
"""After work that took more seconds a worker yields the interpreter to a thread that it has woken before."""
_ROUND = 0.002
"""Seconds after which a round ends, though work is queued."""

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
    leads = False
    """Whether the thread is a worker that takes work from its pool's queue."""
    has_joined = False
    """Whether it leads because another one is held up."""
    has_woken = False
    """Whether it has just woken a thread that waited for a reply."""
    yields = False
    """Whether it is to yield the interpreter to such a thread after its next longer work."""
    has_to_check = False
    """Whether threads that submit work have not seen yet that it is busy."""
    taken = 0
    """How much work was taken when it joined, and by itself since."""

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

    One worker leads: it does all work, as Python runs one thread at a time and two would take turns at each statement
    of a database. The others rest. One of them joins when work is queued and the leaders make no progress with it.

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
        # `_lock` protects the list of threads, the numbers of running, leading and resting ones, and `_is_watched`. A
        # thread that submits work reads whether somebody must be called without the lock, after it has queued the work;
        # a worker that leaves the lead, or stops watching, first changes what that thread reads, and then looks at the
        # queue: so at least one of them sees the other. `_end_lock` protects `_is_end_queued`, and is taken inside
        # `_lock`; that is re-entrant, since the handler of a signal may submit work while the main thread does.
        self._queue: SimpleQueue[Runnable | None] = SimpleQueue()  # leaders take from it
        self._calls: SimpleQueue[None] = SimpleQueue()  # wakes a resting worker; one too many is harmless
        self._lock = threading.RLock()
        self._threads: list[threading.Thread] = []
        self._running = 0  # without those that are blocked
        self._leading = 0
        self._resting = 0  # or watching
        self._is_busy = False  # whether the leaders may be at work; cleared only by the last one
        self._is_watched = False  # whether a worker watches, or will as soon as it has read its call
        self._taken = 0  # changes whenever work is taken
        self._after_round: list[Callable[[], object]] = []
        self._round_ends = 0.0
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
        if not self._leading or (self._is_busy and not self._is_watched):
            self._call_worker()

    def prepare(self) -> None:
        """Start a worker if there is none, since Python 3.12 starts no thread for a program that is exiting."""
        if not self._threads:
            self._call_worker()

    @property
    def has_work(self) -> bool:
        """Whether work is queued."""
        return not self._queue.empty()

    def after_round(self, function: Callable[[], object]) -> None:
        """Call the function once the queued work is done, or 2 ms have passed; at once if none is queued.

        Only for a worker; it calls the function at once, too, if no other one could when the next work blocks.
        """
        has_others = self._resting or self._running < self._target_workers
        if not (here.leads and has_others) or self._queue.empty():
            function()
            return
        if not self._after_round:
            self._round_ends = perf_counter() + _ROUND
        if function not in self._after_round:
            self._after_round.append(function)
        if not self._is_watched:
            self._call_worker()

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
        if not self._leading and self._resting:
            self._calls.put(None)

    def live(self) -> list[object]:
        """Return the actors that have entered and not left."""
        return list(self._live.values())

    def __len__(self) -> int:
        return len(self._live)

    @contextmanager
    def blocked(self) -> Generator[None]:
        """Let another worker lead in place of the current one, which is about to block."""
        if here.leads:
            self._end_round()
        with self._lock:
            self._running -= 1
            self._leave_lead()
        try:
            if not (self._queue.empty() or (self._leading and self._is_watched)):
                self._call_worker()
            yield
        finally:
            with self._lock:
                self._running += 1
                if not self._leading:
                    self._lead()

    def close(self) -> None:
        """End the workers after the work queued so far, and wait for them; live actors no longer run. Idempotent."""
        self._closed = True
        self._queue.put(None)
        self._calls.put(None)
        for thread in list(self._threads):
            thread.join()

    def _call_worker(self) -> None:
        """Wake a resting worker, or start one if that is allowed."""
        with self._lock:
            if self._resting:
                self._calls.put(None)
                self._is_watched = True
                return
            if self._running >= self._target_workers or self._closed:
                return
            # An interrupt in a comprehension leaves this block with the lock held in Python 3.12 and 3.13.
            self._threads = list(filter(threading.Thread.is_alive, self._threads))
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
            self._is_watched = True

    def _work(self) -> None:
        here.pool = self
        while self._rest():
            self._end_round()
            here.has_to_check, here.yields = True, False
            while here.leads:
                try:
                    work = self._queue.get_nowait()
                except Empty:
                    if self._after_round:
                        self._end_round()
                        continue
                    if self._leaves():
                        break
                    work = self._wait_for_work()
                self._note_taken()
                if work is not None:
                    self._run(work)
                    continue
                self._end_round()
                if self._end_if_unused():
                    return

    def _wait_for_work(self) -> Runnable | None:
        self._is_busy = here.yields = False
        work = self._queue.get()
        self._is_busy = here.has_to_check = True
        return work

    def _note_taken(self) -> None:
        self._taken += 1
        here.taken += 1
        if here.has_to_check:
            here.has_to_check = False
            if not (self._queue.empty() or self._is_watched):
                self._call_worker()

    def _run(self, work: Runnable) -> None:
        yields, has_joined = here.yields, here.has_joined
        begun = perf_counter() if yields or has_joined else 0.0
        try:
            work.run()
        except BaseException:  # noqa: BLE001 - a worker must survive it
            _log.critical("an actor's turn ended in a way that the kernel does not know", exc_info=True)
        if yields and perf_counter() - begun > _SHORT:
            here.yields = False
            sleep(0)  # yields the interpreter, for which the woken thread would otherwise wait 5 ms
        if here.has_woken:
            here.yields, here.has_woken = True, False
        if self._after_round and perf_counter() >= self._round_ends:
            self._end_round()
        if here.has_joined and perf_counter() - begun < _QUICK:
            self._leaves()

    def _end_round(self) -> None:
        while self._after_round:
            try:
                function = self._after_round.pop()
            except IndexError:  # another leader has taken it
                return
            try:
                function()
            except BaseException:  # noqa: BLE001 - likewise
                _log.critical("the end of a round of work has failed", exc_info=True)

    def _rest(self) -> bool:
        """Rest until this worker must lead; return False if it ends."""
        with self._lock:
            self._resting += 1
        while not self._watch():
            is_spare = self._running > self._target_workers
            try:
                self._calls.get(timeout=_SPARE_TIMEOUT if is_spare else None)
            except Empty:
                if self._ends_as_spare():
                    return False
        return True

    def _ends_as_spare(self) -> bool:
        with self._lock:
            ends = self._calls.empty() and self._running > self._target_workers
            if ends:
                self._running -= 1
                self._resting -= 1
            return ends

    def _watch(self) -> bool:
        """Lead as soon as nobody does, or the leaders make no progress; return False when there is nothing to do."""
        taken, blocked_checks, unchanged = self._taken, 0, 0.0
        while True:
            with self._lock:
                if not self._leading:
                    self._join()
                    return True
                self._is_watched = False
                if self._has_nothing_to_do():
                    return False
                self._is_watched = True
            begun = perf_counter()
            try:
                self._calls.get(timeout=_CHECK)
                continue
            except Empty:
                passed = perf_counter() - begun
            # If nobody had the interpreter lock when the time was over, the leaders, if they have done little, are
            # blocked outside Python. Twice, since they may just be giving it to each other.
            is_slow = self._taken - taken < self._leading * _CHECK / _QUICK
            blocked_checks = blocked_checks + 1 if is_slow and passed < 2 * _CHECK else 0
            unchanged = unchanged + passed if taken == self._taken else 0.0
            taken = self._taken
            if blocked_checks > 1 or unchanged > _LONGEST_TURN:
                with self._lock:
                    self._join()
                here.has_joined, here.taken = True, self._taken
                return True

    def _join(self) -> None:
        self._lead()
        self._resting -= 1
        self._is_watched = False

    def _has_nothing_to_do(self) -> bool:
        return self._queue.empty() and not self._after_round

    def _lead(self) -> None:
        self._is_busy = True
        self._leading += 1
        here.leads = True

    def _leave_lead(self) -> None:
        if here.leads:
            self._leading -= 1
            here.leads = False
            here.has_joined = False

    def _leaves(self) -> bool:
        """Leave the lead if others lead and make progress; return whether it was left."""
        with self._lock:
            if self._leading == 1:
                here.has_joined = False
                return False
            if here.has_joined and self._taken <= here.taken:
                return False
            self._leave_lead()
            return True

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
            if ends and self._resting:
                self._calls.put(None)
            return ends

    def _try_to_end(self) -> bool:
        # Decrement before looking at the queue: a submitting thread does both in the opposite order, so one sees the
        # other.
        self._running -= 1
        self._leave_lead()
        if self._queue.empty() or self._closed:
            return True
        self._running += 1
        self._lead()
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
        "a blocking call holds up every actor on this event loop; await ask_async(…), or the future, or tell; "
        "a tool or a guard that calls a Runtime has to be a plain function, or await an AsyncRuntime"
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
