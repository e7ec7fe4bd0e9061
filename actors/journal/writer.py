"""Group commit: one thread writes the requests of all others; those that arrive during a commit are the next batch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from queue import SimpleQueue

from reenact.actors.journal.api import Done, Listener, Outcome, Publication, Publisher
from reenact.actors.journal.batch import Batch, UnrecoveredStreams, refused_again
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.fence import Claims, Epochs, Fence
from reenact.actors.journal.heads import CheckedHeads, Heads
from reenact.actors.journal.requests import Request, Step
from reenact.actors.journal.store import DecideAgainError, Store
from reenact.domain.errors import RuntimeClosedError, StorageError

BATCH_LIMIT = 5000
"""The most requests in one transaction."""

AT_ONCE = 500
"""If a transaction has more requests than this, the previous one's outcomes are reported before it is prepared."""

ROUNDS = 8
"""How many transactions a submitting thread commits at most, before the writer's own thread takes over."""

HEADS_LIMIT = 50_000
"""How many streams' ends are cached at least, if as many are written."""

_logger = logging.getLogger("reenact.journal")


class Writer:
    """The only writer of a log: a thread, or, while it sleeps, a thread that submits requests."""

    def __init__(
        self, store: Store, codec: EventCodec, *, listener: Listener | None, fence: Fence | None = None
    ) -> None:
        """Write to the store, for exclusive use; with a fence, only to the shards that it allows."""
        self._store = store
        self._codec = codec
        self._listener = listener
        self._publisher: Publisher | None = None
        self._heads = (CheckedHeads if store.foresees else Heads)(store, HEADS_LIMIT)
        self._refused: dict[str, StorageError] = {}
        self._claims = None if fence is None else Claims(fence)
        self._watchers: tuple[Callable[[int], None], ...] = ()
        # Protects the queues and flags below; held while requests are added or taken.
        self._lock = threading.Lock()
        self._queued = _RequestQueue()
        self._settling = _RequestQueue()
        self._is_open = True
        # The thread sleeps until another one releases this; that happens only when nothing is left to settle.
        self._wakeup = threading.Lock()
        self._wakeup.acquire()
        self._is_asleep = False
        self._settling_thread: int | None = None
        # Durable requests whose outcomes are not reported yet; used only by the thread that settles.
        self._unreported: list[tuple[Sequence[Request], Sequence[Outcome]]] = []
        self._thread = threading.Thread(target=self._run, name="reenact-journal", daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> None:
        """Queue a request; its `done` is called once, with the outcome, on the writing thread.

        Raises:
            RuntimeClosedError: the writer has been closed.
        """
        with self._lock:
            if not self._is_open:
                raise self._closed()
            self._queued.requests.append(request)
            if self._is_asleep:
                self._wake()

    def submit_with_next(self, request: Request) -> None:
        """Queue a request like `submit`, but wake no thread: the caller must call `flush`, `settle` or `submit`.

        Raises:
            RuntimeClosedError: the writer has been closed.
        """
        with self._lock:
            if not self._is_open:
                raise self._closed()
            self._queued.requests.append(request)

    def flush(self, then: Callable[[], object]) -> None:
        """Wake the writer if it sleeps while requests are queued; call `then` once they are settled.

        `then` is called on the writing thread, or at once if no requests are queued.
        """
        with self._lock:
            if self._queued.requests:
                self._queued.then.append(then)
                if self._is_asleep:
                    self._wake()
                return
        then()

    def settle(self) -> None:
        """Settle the queued requests on the current thread, if the writer sleeps.

        A thread that writes alone then does not wait for two thread switches at each commit. Requests that others add
        meanwhile are settled, too, for a few rounds. The caller must hold no lock that a `done` or a listener takes.
        """
        with self._lock:
            if not (self._is_asleep and self._queued.requests):
                return
            self._is_asleep = False
        try:
            for _ in range(ROUNDS):
                self._settle_next(waits=False)
                if not self._queued.requests:
                    self._report_outcomes()  # its callbacks may submit further requests
                    if not self._queued.requests:
                        break
        finally:
            if self._unreported:
                self._report_outcomes()
            with self._lock:
                if self._queued.requests or not self._is_open:
                    self._wake()
                else:
                    self._sleep()

    def wait(self, make: Callable[[Done], Request]) -> Outcome:
        """Submit the request that `make` creates for a `done` callback, and wait for its outcome."""
        self.forbid_own_thread()
        outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self.submit(make(outcomes.put))
        return outcomes.get()

    def is_settled(self, stream: str) -> bool:
        """Return whether all requests for the stream are settled, and none of them is refused."""
        with self._lock:
            if stream in self._refused:
                return False
            if self._is_asleep and not self._queued.requests:
                return True
            return not (self._queued.concerns(stream) or self._settling.concerns(stream))

    def trust(self, stream: str) -> None:
        """Accept steps of a settled stream: the caller reads it from now on, in this epoch of its shard."""
        if self._claims is not None:
            self._claims.trust(stream)

    def publish_by(self, publisher: Publisher) -> None:
        """Call the publisher instead of the listener from now on; to be called before the first request."""
        self._publisher = publisher

    def watch(self, watcher: Callable[[int], None]) -> None:
        """Call `watcher` with the log's position after each commit with events, on the writing thread."""
        with self._lock:
            self._watchers = (*self._watchers, watcher)

    def unwatch(self, watcher: Callable[[int], None]) -> None:
        """Stop calling the watcher. Idempotent."""
        with self._lock:
            self._watchers = tuple(other for other in self._watchers if other != watcher)

    def close(self) -> None:
        """Accept no more requests, and return when those accepted are settled. Idempotent."""
        self.forbid_own_thread()
        with self._lock:
            self._is_open = False
            if self._is_asleep:
                self._wake()
        self._thread.join()

    def forbid_own_thread(self) -> None:
        """Reject calls that would wait for themselves.

        Raises:
            RuntimeError: the current thread is the writing thread.
        """
        if threading.get_ident() == self._settling_thread:
            message = "a listener or `done` must return at once; it cannot wait for the journal"
            raise RuntimeError(message)

    def _closed(self) -> RuntimeClosedError:
        return RuntimeClosedError(f"the log {self._store.name} is closed")

    def _wake(self) -> None:
        self._is_asleep = False
        self._settling_thread = None
        self._wakeup.release()

    def _sleep(self) -> None:
        self._is_asleep = True
        self._settling_thread = None
        self._settling = _NO_REQUESTS

    def _run(self) -> None:
        while self._settle_next(waits=True):
            pass

    def _settle_next(self, *, waits: bool) -> bool:
        """Settle the queued requests, waiting for some if `waits`; return whether there were any."""
        requests = self._take(waits=waits)
        if len(requests) > AT_ONCE:
            self._report_outcomes()
        for start in range(0, len(requests), BATCH_LIMIT):
            self._settle(requests[start : start + BATCH_LIMIT])
        for then in self._settling.then:
            _call_then(then)
        return bool(requests)

    def _take(self, *, waits: bool) -> list[Request]:
        """Return the queued requests in order; if `waits`, an empty list means that the writer is closed."""
        while True:
            if self._unreported and not self._queued.requests:
                self._report_outcomes()
            with self._lock:
                self._settling, self._queued = self._queued, _RequestQueue()
                self._settling_thread = threading.get_ident()
                if self._settling.requests or not waits or not self._is_open:
                    return self._settling.requests
                self._sleep()
            self._wakeup.acquire()

    def _settle(self, requests: Sequence[Request], lost_shards: frozenset[tuple[int, int]] = frozenset()) -> None:
        """Commit the requests together; if that fails, bisect them to isolate the ones that fail.

        `lost_shards` are shards, with epochs, that the store has found to belong to other nodes.
        """
        try:
            number, position, is_unchanged = self._store.begin()
        except Exception as error:  # noqa: BLE001 - an exception of a store must not end the thread
            failure = self._store.fault(error)
            if self._store.was_taken_over():
                self._refused = UnrecoveredStreams(failure)
                self._heads.forget()
                self._settle(requests, lost_shards)
            else:
                self._refuse(requests, failure)
            return
        if not is_unchanged:
            self._heads.forget()
        try:
            batch = self._commit(requests, number, position, lost_shards)
        except DecideAgainError as again:
            self._heads.forget()
            self._settle(requests, lost_shards | again.past)
            return
        except Exception as error:  # noqa: BLE001 - likewise an exception from events, which may hold anything
            failure = self._store.fault(error)
            is_reachable = self._roll_back()
        else:
            self._publish_batch(batch, requests)
            return
        # If the store cannot be reached, the outcome of the requests is unknown: they must not be tried again.
        if len(requests) == 1 or not is_reachable:
            self._refuse(requests, failure)
        else:
            half = len(requests) // 2
            self._settle(requests[:half])
            self._settle(requests[half:])

    def _commit(
        self, requests: Sequence[Request], number: int, position: int, lost_shards: frozenset[tuple[int, int]]
    ) -> Batch:
        self._heads.expect(requests)
        epochs = None if self._claims is None else Epochs(self._claims, lost_shards)
        batch = Batch(
            self._store,
            self._heads,
            self._codec,
            number=number,
            position=position,
            refused=self._refused,
            epochs=epochs,
        )
        batch.process(requests)
        changes = batch.changes()
        self._store.commit(changes, self._report_outcomes)
        if changes.position != batch.position:
            batch.shift(changes)
        batch.rows = range(changes.number + 1 - (batch.number - number), changes.number + 1)
        self._refused = batch.refused
        if epochs is not None:
            epochs.commit()
        for key in batch.keys.values():
            key.row = None  # it is in the log now
        self._heads.trim()
        return batch

    def _roll_back(self) -> bool:
        self._heads.forget()
        try:
            return self._store.roll_back()
        except Exception:
            _logger.exception("the transaction could not be rolled back; the next one tries again")
            return True

    def _refuse(self, requests: Sequence[Request], error: StorageError) -> None:
        """Report the failure to each request, and refuse later steps of its stream."""
        self._report_outcomes()
        _logger.error("not recorded: %s", error)
        outcomes: list[Outcome] = []
        for request in requests:
            earlier = self._refused.setdefault(request.append.stream, error) if isinstance(request, Step) else error
            outcomes.append(error if earlier is error else refused_again(earlier))
        _call_done(requests, outcomes)

    def _publish_batch(self, batch: Batch, requests: Sequence[Request]) -> None:
        if self._publisher is not None:
            _publish(partial(self._publisher, batch.rows), batch.publications)
        elif self._listener is not None and batch.publications:
            _publish(self._listener, batch.publications)
        if batch.has_events:
            for watcher in self._watchers:
                watcher(batch.position)
        self._unreported.append((requests, batch.outcomes))

    def _report_outcomes(self) -> None:
        """Report the outcomes of durable requests; ahead of another batch, the disk is busy with it meanwhile."""
        untold, self._unreported = self._unreported, []
        for requests, outcomes in untold:
            _call_done(requests, outcomes)


class _RequestQueue:
    """Requests in order; the streams they concern are determined only on demand."""

    __slots__ = ("_scanned", "_streams", "requests", "then")

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.then: list[Callable[[], object]] = []
        """Callbacks for when they are settled."""
        self._scanned = 0
        self._streams: set[str | None] = set()

    def concerns(self, stream: str) -> bool:
        """Return whether a request concerns the stream, or may concern any."""
        requests = self.requests
        self._streams.update(request.stream for request in islice(requests, self._scanned, None))
        self._scanned = len(requests)
        return stream in self._streams or None in self._streams


_NO_REQUESTS = _RequestQueue()


def _publish(listener: Callable[[list[Publication]], None], publications: list[Publication]) -> None:
    try:
        listener(publications)
    except BaseException:  # not even a cancellation may end the thread
        _logger.exception("a listener of the journal raised")


def _call_then(then: Callable[[], object]) -> None:
    try:
        then()
    except BaseException:  # as above
        _logger.exception("the callback of a flush raised")


def _call_done(requests: Sequence[Request], outcomes: Sequence[Outcome]) -> None:
    for request, outcome in zip(requests, outcomes, strict=True):
        try:
            request.done(outcome)
        except BaseException:  # as above
            _logger.exception("the callback of an append raised")
