"""Group commit: one thread writes what all others hand over; what arrives during one commit is the next batch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from queue import SimpleQueue

from reenact.actors.journal.api import Done, Listener, Outcome, Publication, Publisher
from reenact.actors.journal.batch import Batch, Distrust, refused_again
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.fence import Claims, Epochs, Fence
from reenact.actors.journal.heads import CheckedHeads, Heads
from reenact.actors.journal.requests import Request, Step
from reenact.actors.journal.store import DecideAgainError, Store
from reenact.domain.errors import RuntimeClosedError, StorageError

BATCH_LIMIT = 5000
"""The most requests that one transaction takes in."""

AT_ONCE = 500
"""The most requests of a transaction that those of the one before wait for, before they hear that theirs is over."""

ROUNDS = 8
"""How many transactions a thread that hands something over commits at most, before the writer's own takes over."""

HEADS_LIMIT = 50_000
"""The most streams whose ends are remembered for as long as they are written."""

_logger = logging.getLogger("reenact.journal")


class Writer:
    """The only one that writes to a log: a thread, or in its place whoever hands something over while it sleeps."""

    def __init__(
        self, store: Store, codec: EventCodec, *, listener: Listener | None, fence: Fence | None = None
    ) -> None:
        """Write into the store, which from now on nobody else may use; with a fence, to the shards that it names."""
        self._store = store
        self._codec = codec
        self._listener = listener
        self._publisher: Publisher | None = None
        self._heads = (CheckedHeads if store.foresees else Heads)(store, HEADS_LIMIT)
        self._refused: dict[str, StorageError] = {}
        self._claims = None if fence is None else Claims(fence)
        self._watchers: tuple[Callable[[int], None], ...] = ()
        # Held while something is handed over or taken.
        self._gate = threading.Lock()
        self._handed_over = _Pile()
        self._settling = _Pile()
        self._is_open = True
        # The thread sleeps until somebody opens this for it; it does so only when nothing is left to be settled.
        self._alarm = threading.Lock()
        self._alarm.acquire()
        self._is_asleep = False
        self._settler: int | None = None
        # What is durable, and not told yet: only who settles touches it.
        self._untold: list[tuple[Sequence[Request], Sequence[Outcome]]] = []
        self._thread = threading.Thread(target=self._run, name="reenact-journal", daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> None:
        """Hand a request over; its `done` is called once, with the outcome, on the thread that writes.

        Raises:
            RuntimeClosedError: the writer was told to end.
        """
        with self._gate:
            if not self._is_open:
                raise self._closed()
            self._handed_over.requests.append(request)
            if self._is_asleep:
                self._wake()

    def submit_with_next(self, request: Request) -> None:
        """Hand a request over as `submit` does, but wake nobody: `flush` or `settle` is to be called, or `submit`.

        Raises:
            RuntimeClosedError: the writer was told to end.
        """
        with self._gate:
            if not self._is_open:
                raise self._closed()
            self._handed_over.requests.append(request)

    def flush(self, then: Callable[[], object]) -> None:
        """Wake the writer if it sleeps although something was handed over; call `then` once that is settled.

        It is called on the thread that writes, or at once if everything was taken up already.
        """
        with self._gate:
            if self._handed_over.requests:
                self._handed_over.then.append(then)
                if self._is_asleep:
                    self._wake()
                return
        then()

    def settle(self) -> None:
        """Settle what was handed over on the current thread, if the writer sleeps.

        So one who writes alone does not wait for two changes of threads at each commit. What others hand over
        meanwhile is settled, too, for a few rounds. The caller must hold no lock that a `done` or a listener takes.
        """
        with self._gate:
            if not (self._is_asleep and self._handed_over.requests):
                return
            self._is_asleep = False
        try:
            for _ in range(ROUNDS):
                self._settle_next(waits=False)
                if not self._handed_over.requests:
                    self._tell()  # whoever hears of it may hand something over
                    if not self._handed_over.requests:
                        break
        finally:
            if self._untold:
                self._tell()
            with self._gate:
                if self._handed_over.requests or not self._is_open:
                    self._wake()
                else:
                    self._sleep()

    def wait(self, make: Callable[[Done], Request]) -> Outcome:
        """Hand over the request that is made for a `done`, and wait for its outcome."""
        self.forbid_own_thread()
        outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self.submit(make(outcomes.put))
        return outcomes.get()

    def owes_nothing(self, stream: str) -> bool:
        """Return whether all that was handed over for the stream is settled, and nothing of it stands refused."""
        with self._gate:
            if stream in self._refused:
                return False
            if self._is_asleep and not self._handed_over.requests:
                return True
            return not (self._handed_over.concerns(stream) or self._settling.concerns(stream))

    def trust(self, stream: str) -> None:
        """Accept steps of a stream for which nothing is owed: it is read from now on, in this epoch of its shard."""
        if self._claims is not None:
            self._claims.trust(stream)

    def publish_by(self, publisher: Publisher) -> None:
        """Have the publisher called in the place of the listener from now on; before anything is handed over."""
        self._publisher = publisher

    def watch(self, watcher: Callable[[int], None]) -> None:
        """Have `watcher` called with the log's position after each commit of events, on the thread that writes."""
        with self._gate:
            self._watchers = (*self._watchers, watcher)

    def unwatch(self, watcher: Callable[[int], None]) -> None:
        """Have it called no more. Idempotent."""
        with self._gate:
            self._watchers = tuple(other for other in self._watchers if other != watcher)

    def close(self) -> None:
        """Take no more requests and return when those taken are settled. Idempotent."""
        self.forbid_own_thread()
        with self._gate:
            self._is_open = False
            if self._is_asleep:
                self._wake()
        self._thread.join()

    def forbid_own_thread(self) -> None:
        """Refuse what would wait for itself.

        Raises:
            RuntimeError: this is the thread that writes.
        """
        if threading.get_ident() == self._settler:
            message = "a listener or `done` must return at once; it cannot wait for the journal"
            raise RuntimeError(message)

    def _closed(self) -> RuntimeClosedError:
        return RuntimeClosedError(f"the log {self._store.name} is closed")

    def _wake(self) -> None:
        self._is_asleep = False
        self._settler = None
        self._alarm.release()

    def _sleep(self) -> None:
        self._is_asleep = True
        self._settler = None
        self._settling = _NOTHING

    def _run(self) -> None:
        while self._settle_next(waits=True):
            pass

    def _settle_next(self, *, waits: bool) -> bool:
        """Settle what was handed over, having waited for it or not; return whether there was anything."""
        requests = self._take(waits=waits)
        if len(requests) > AT_ONCE:
            self._tell()
        for start in range(0, len(requests), BATCH_LIMIT):
            self._settle(requests[start : start + BATCH_LIMIT])
        for then in self._settling.then:
            _call(then)
        return bool(requests)

    def _take(self, *, waits: bool) -> list[Request]:
        """Return the requests in their order; if it waits, none means that none will come."""
        while True:
            if self._untold and not self._handed_over.requests:
                self._tell()
            with self._gate:
                self._settling, self._handed_over = self._handed_over, _Pile()
                self._settler = threading.get_ident()
                if self._settling.requests or not waits or not self._is_open:
                    return self._settling.requests
                self._sleep()
            self._alarm.acquire()

    def _settle(self, requests: Sequence[Request], past: frozenset[tuple[int, int]] = frozenset()) -> None:
        """Commit the requests together; if that fails, find those to blame by halves.

        `past` are shards, with epochs, that the store has found to be another node's.
        """
        try:
            number, position, is_as_left = self._store.begin()
        except Exception as error:  # noqa: BLE001 - whatever a store raises must not end the thread
            failure = self._store.fault(error)
            if self._store.was_taken_over():
                self._refused = Distrust(failure)
                self._heads.forget()
                self._settle(requests, past)
            else:
                self._refuse(requests, failure)
            return
        if not is_as_left:
            self._heads.forget()
        try:
            batch = self._commit(requests, number, position, past)
        except DecideAgainError as again:
            self._heads.forget()
            self._settle(requests, past | again.past)
            return
        except Exception as error:  # noqa: BLE001 - likewise what events raise, which hold anything
            failure = self._store.fault(error)
            is_in_reach = self._roll_back()
        else:
            self._report(batch, requests)
            return
        # What a store that is out of reach has made of the requests is unknown: they must not be tried again.
        if len(requests) == 1 or not is_in_reach:
            self._refuse(requests, failure)
        else:
            half = len(requests) // 2
            self._settle(requests[:half])
            self._settle(requests[half:])

    def _commit(
        self, requests: Sequence[Request], number: int, position: int, past: frozenset[tuple[int, int]]
    ) -> Batch:
        self._heads.expect(requests)
        epochs = None if self._claims is None else Epochs(self._claims, past)
        batch = Batch(
            self._store,
            self._heads,
            self._codec,
            number=number,
            position=position,
            refused=self._refused,
            epochs=epochs,
        )
        batch.take_in(requests)
        changes = batch.changes()
        self._store.commit(changes, self._tell)
        if changes.position != batch.position:
            batch.shift(changes)
        batch.rows = range(changes.number + 1 - (batch.number - number), changes.number + 1)
        self._refused = batch.refused
        if epochs is not None:
            epochs.commit()
        for key in batch.keys.values():
            key.row = None  # it is in the log
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
        """Tell each that it failed, and let no step of its stream overtake it."""
        self._tell()
        _logger.error("not recorded: %s", error)
        outcomes: list[Outcome] = []
        for request in requests:
            earlier = self._refused.setdefault(request.append.stream, error) if isinstance(request, Step) else error
            outcomes.append(error if earlier is error else refused_again(earlier))
        _tell_all(requests, outcomes)

    def _report(self, batch: Batch, requests: Sequence[Request]) -> None:
        if self._publisher is not None:
            _publish(partial(self._publisher, batch.rows), batch.publications)
        elif self._listener is not None and batch.publications:
            _publish(self._listener, batch.publications)
        if batch.has_events:
            for watcher in self._watchers:
                watcher(batch.position)
        self._untold.append((requests, batch.outcomes))

    def _tell(self) -> None:
        """Tell what is durable. If more is to be written, that is done while the disk is at work on it."""
        untold, self._untold = self._untold, []
        for requests, outcomes in untold:
            _tell_all(requests, outcomes)


class _Pile:
    """Requests in their order; which streams they concern is only looked at for those who ask."""

    __slots__ = ("_looked_at", "_streams", "requests", "then")

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.then: list[Callable[[], object]] = []
        """What is called when they are settled."""
        self._looked_at = 0
        self._streams: set[str | None] = set()

    def concerns(self, stream: str) -> bool:
        """Return whether one of the requests is about the stream, or may be about any."""
        requests = self.requests
        self._streams.update(request.stream for request in islice(requests, self._looked_at, None))
        self._looked_at = len(requests)
        return stream in self._streams or None in self._streams


_NOTHING = _Pile()


def _publish(listener: Callable[[list[Publication]], None], publications: list[Publication]) -> None:
    try:
        listener(publications)
    except BaseException:  # a cancellation, too, must not end the thread
        _logger.exception("a listener of the journal raised")


def _call(then: Callable[[], object]) -> None:
    try:
        then()
    except BaseException:  # as above
        _logger.exception("the callback of a flush raised")


def _tell_all(requests: Sequence[Request], outcomes: Sequence[Outcome]) -> None:
    for request, outcome in zip(requests, outcomes, strict=True):
        try:
            request.done(outcome)
        except BaseException:  # as above
            _logger.exception("the callback of an append raised")
