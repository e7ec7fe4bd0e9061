"""Group commit: one thread writes what all others hand over; what arrives during one commit is the next batch."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from queue import SimpleQueue

from reenact.actors.journal.api import Done, Listener, Outcome, Publication
from reenact.actors.journal.batch import Batch, refused_again
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.faults import fault
from reenact.actors.journal.heads import Heads
from reenact.actors.journal.requests import Request, Step
from reenact.domain.errors import RuntimeClosedError, StorageError

BATCH_LIMIT = 5000
"""The most requests that one transaction takes in."""

HEADS_LIMIT = 50_000
"""The most streams, and topics, whose ends are remembered."""

_LAST_POSITION = "SELECT max(seq) FROM sqlite_sequence WHERE name = 'stored_events'"

_logger = logging.getLogger("reenact.journal")


class Writer:
    """The only thread that writes to a log."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        codec: EventCodec,
        *,
        path: str,
        listener: Listener | None,
    ) -> None:
        """Write over the connection, which from now on nobody else may use."""
        self._connection = connection
        self._codec = codec
        self._path = path
        self._listener = listener
        self._heads = Heads(connection, HEADS_LIMIT)
        self._position: int | None = None
        self._refused: dict[str, StorageError] = {}
        self._watchers: tuple[Callable[[int], None], ...] = ()
        self._queue: SimpleQueue[Request | None] = SimpleQueue()
        # Held while something is handed over, so that nothing comes behind the end mark.
        self._gate = threading.Lock()
        self._is_open = True
        self._accepted = 0
        self._settled = 0
        self._thread = threading.Thread(target=self._run, name="reenact-journal", daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> None:
        """Hand a request over; its `done` is called once, with the outcome, on the writer's thread.

        Raises:
            RuntimeClosedError: the writer was told to end.
        """
        with self._gate:
            if not self._is_open:
                message = f"the log {self._path} is closed"
                raise RuntimeClosedError(message)
            self._accepted += 1
            self._queue.put(request)

    def wait(self, make: Callable[[Done], Request]) -> Outcome:
        """Hand over the request that is made for a `done`, and wait for its outcome."""
        self.forbid_own_thread()
        outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self.submit(make(outcomes.put))
        return outcomes.get()

    def owes_nothing(self, stream: str) -> bool:
        """Return whether all that was handed over is settled, and nothing of the stream stands refused."""
        with self._gate:
            return self._is_open and self._accepted == self._settled and stream not in self._refused

    def watch(self, watcher: Callable[[int], None]) -> None:
        """Have `watcher` called with the log's position after each commit of events, on the writer's thread."""
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
            if self._is_open:
                self._is_open = False
                self._queue.put(None)
        self._thread.join()

    def forbid_own_thread(self) -> None:
        """Refuse what would wait for itself.

        Raises:
            RuntimeError: this is the writer's thread.
        """
        if threading.current_thread() is self._thread:
            message = "a listener or `done` must return at once; it cannot wait for the journal"
            raise RuntimeError(message)

    def _run(self) -> None:
        while self._settle_next():
            pass

    def _settle_next(self) -> bool:
        """Wait for requests and settle them; return whether there is more to come."""
        queue = self._queue
        requests: list[Request] = []
        request = queue.get()
        while request is not None:
            requests.append(request)
            if len(requests) == BATCH_LIMIT or queue.empty():
                break
            request = queue.get()
        if requests:
            self._settle(requests)
            self._settled += len(requests)
        return request is not None

    def _settle(self, requests: list[Request]) -> None:
        """Commit the requests together; if that fails, find those to blame by halves."""
        try:
            self._begin()
        except sqlite3.Error as error:
            self._refuse(requests, fault(error, self._path))
            return
        try:
            batch = self._commit(requests)
        except Exception as error:  # noqa: BLE001 - events hold anything, and whatever they raise must not end the thread
            self._roll_back()
            failure = fault(error, self._path)
        else:
            self._report(batch)
            return
        if len(requests) == 1:
            self._refuse(requests, failure)
        else:
            half = len(requests) // 2
            self._settle(requests[:half])
            self._settle(requests[half:])

    def _begin(self) -> None:
        self._leave_transaction()
        self._connection.execute("BEGIN IMMEDIATE")
        if self._position is None:
            last: int | None = self._connection.execute(_LAST_POSITION).fetchone()[0]
            self._position = last or 0

    def _commit(self, requests: list[Request]) -> Batch:
        batch = Batch(
            self._connection,
            self._heads,
            self._codec,
            position=self._position or 0,
            refused=self._refused,
        )
        for request in requests:
            batch.add(request)
        batch.write()
        self._connection.execute("COMMIT")
        self._position = batch.position
        self._refused = batch.refused
        self._heads.trim()
        return batch

    def _roll_back(self) -> None:
        self._heads.forget()
        self._position = None
        try:
            self._leave_transaction()
        except sqlite3.Error:
            _logger.exception("the transaction could not be rolled back; the next one tries again")

    def _leave_transaction(self) -> None:
        # Some errors have rolled it back already.
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _refuse(self, requests: list[Request], error: StorageError) -> None:
        """Tell each that it failed, and let no step of its stream overtake it."""
        _logger.error("not recorded: %s", error)
        reports: list[tuple[Done, Outcome]] = []
        for request in requests:
            if isinstance(request, Step):
                earlier = self._refused.setdefault(request.append.stream, error)
                reports.append((request.done, error if earlier is error else refused_again(earlier)))
            else:
                reports.append((request.done, error))
        _tell_all(reports)

    def _report(self, batch: Batch) -> None:
        if self._listener is not None and batch.publications:
            _publish(self._listener, batch.publications)
        if batch.has_events:
            for watcher in self._watchers:
                watcher(batch.position)
        _tell_all(batch.reports)


def _publish(listener: Listener, publications: list[Publication]) -> None:
    try:
        listener(publications)
    except BaseException:  # a cancellation, too, must not end the thread
        _logger.exception("a listener of the journal raised")


def _tell_all(reports: list[tuple[Done, Outcome]]) -> None:
    for done, outcome in reports:
        try:
            done(outcome)
        except BaseException:  # as above
            _logger.exception("whoever waited for an append raised")
