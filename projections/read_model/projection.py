"""The projection of the runtime's own tables: a writer that applies events in batches, and connections for readers.

A batch and its position are written in one transaction.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from reenact.domain.errors import KeyRingError, RuntimeClosedError
from reenact.domain.session.state import SessionBranched
from reenact.projections.cipher import opened
from reenact.projections.errors import ReadModelError
from reenact.projections.log import Log, Row, stream_of
from reenact.projections.read_model import rows as tables
from reenact.projections.read_model.projectors import OF_CONVERSATION, open_before, project
from reenact.projections.read_model.rows import Changes, Connection, ConversationState, Value
from reenact.projections.read_model.sqlite_store import SqliteStore
from reenact.projections.runner import MOMENT, ProjectionTables

if TYPE_CHECKING:
    from reenact.projections.read_model.postgres_store import PostgresStore

Store: TypeAlias = "SqliteStore | PostgresStore"
"""The tables of one generation. Its string form is their location, for messages."""

AT_ONCE = 8
"""The number of concurrent queries, each on a connection; a database server cannot serve one for each thread."""

_TRIES = 3
"""How often a query is tried when the connection is lost, or the tables are replaced."""


_Lent: TypeAlias = "tuple[Connection, Store]"


class Readers:
    """A pool of connections for readers, which stay open; a reader waits while all are in use. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._free: deque[_Lent] = deque()
        self._turns = threading.Semaphore(AT_ONCE)
        self._closed = False
        self.failed = False
        """Whether a query has failed, which may be due to damaged tables."""
        self.follow: Callable[[], object] = lambda: None
        """Called when the tables were deleted; it switches to those that replaced them."""

    def ask(self, question: str, values: Mapping[str, Value]) -> tuple[list[str], list[tuple[Value, ...]]]:
        """Return the names of the columns, and the rows of the query.

        Raises:
            ReadModelError: the tables cannot be read.
            RuntimeClosedError: the readers are closed.
        """
        for left in reversed(range(_TRIES)):
            if self._closed:
                raise RuntimeClosedError("the runtime is closed; open it again to go on")
            store, is_asked = self._store, False
            try:
                with self._turns:
                    lent = self._borrow()
                    try:
                        is_asked = True
                        found = lent[0].execute(question, values)
                        names = [str(column[0]) for column in found.description or ()]
                        rows = found.fetchall()
                    finally:
                        self._give_connection_back(lent)
                return names, list(opened(rows, store.cipher))
            except store.faults as error:
                is_replaced = store is not self._store  # by tables of this process, which has deleted these
                if not (left and (is_replaced or (is_asked and store.is_worth_another_try(error)))):
                    self.failed = True
                    raise ReadModelError(f"the projections cannot be read: {error}") from error
                self._close_free()
                if store.is_gone(error):
                    self.follow()
            except UnicodeEncodeError:
                break
        return [], []  # no row has an id that is not valid Unicode

    def switch_to(self, store: Store) -> None:
        """Read from these tables from now on; queries under way finish on the previous ones."""
        self._store = store
        self.failed = False
        self._close_free()

    def close(self) -> None:
        """Close the connections; queries under way finish first. Idempotent."""
        self._closed = True
        self._close_free()

    def _borrow(self) -> _Lent:
        store = self._store
        try:
            while (lent := self._free.pop())[1] is not store:
                lent[0].close()
        except IndexError:
            return store.connect(), store
        return lent

    def _give_connection_back(self, lent: _Lent) -> None:
        if lent[1] is not self._store:
            lent[0].close()
            return
        self._free.append(lent)
        if self._closed:
            self._close_free()

    def _close_free(self) -> None:
        with suppress(IndexError):  # the pool is empty
            while True:
                self._free.popleft()[0].close()


KEPT = 16_384
"""How many conversations are cached between batches; others are read from the tables when needed."""


def suspect(store: Store) -> None:
    """Have the tables checked when they are opened next; call it when no projection uses them."""
    with suppress(store.faults), closing(store.connect()) as connection:
        store.record_closed(connection, 0)


class ReadModelTables(ProjectionTables):
    """The runtime's own tables and their position."""

    batch = 2000  # smaller batches would write the same pages of the indices more often

    def __init__(self, log: Log, store: Store, switch_to: Callable[[Store], object] = lambda _: None) -> None:
        """Take the tables; `switch_to` switches readers to tables with which another process has replaced them.

        Raises:
            ReadModelError: they cannot be read or written.
        """
        super().__init__(log, store.number)
        self._store = store
        self._switch_to = switch_to
        self._conversations: dict[str, ConversationState] = {}
        self.is_closed = False
        try:
            with ExitStack() as undo:
                self._connection: Connection = undo.enter_context(closing(store.connect()))
                store.record_closed(self._connection, 0)
                self.position = store.reached(self._connection)
                undo.pop_all()
        except store.faults as error:
            raise ReadModelError(f"the projections in {store} cannot be written: {error}") from error

    def close(self, *, intact: bool) -> None:
        """Close the tables, recording whether they are intact. Idempotent."""
        if self.is_closed:
            return
        try:
            if intact:
                self._store.record_closed(self._connection, 1)
        except self._store.faults:
            pass  # the tables are then checked when they are opened again
        finally:
            self._connection.close()
            self.is_closed = True

    def follow(self) -> bool:
        """Continue with the tables with which another process has replaced these; return whether there are any.

        They are moved to the position of these before anybody reads them, so that a reader who has waited for a
        position finds it there.

        Raises:
            ProjectionReplacedError: they are of another version.
            ReadModelError: they cannot be read, or cannot be moved to that position; the class says why.
        """
        store = self._store.successor()
        if store is None:
            return False
        successor = ReadModelTables(self._log, store)
        try:
            while successor.position < self.position and successor.advance():
                pass
            self._switch_to(successor._store)
        except BaseException:
            successor.close(intact=True)
            raise
        self._connection.close()
        self._conversations = successor._conversations
        self._store, self._connection = successor._store, successor._connection
        self.number, self.position = successor.number, successor.position
        return True

    def adopt_position(self) -> None:
        """Take over the position to which another process has moved the tables, or continue with their replacement."""
        store = self._store
        try:
            reached = store.reached(self._connection)
        except store.faults as error:
            if store.is_gone(error) and self.follow():
                return
            self._connection.close()
            with suppress(store.faults):  # otherwise the next look finds the closed connection
                self._connection = store.connect()
            raise ReadModelError(f"the projections cannot be read: {error}") from error
        if reached != self.position:
            self._conversations.clear()  # the cached conversations are behind the tables now
            self.position = reached
        else:
            self.follow()

    def begin(self, last: Row) -> bool:
        """Begin a transaction that moves the tables to this row; return whether they were at the expected position."""
        self._connection, has_moved = self._store.begin(self._connection, self.position, last)
        return has_moved

    def commit(self) -> None:
        """Commit the transaction."""
        self._connection.execute("COMMIT")

    def _apply(self, rows: Sequence[Row]) -> None:
        store = self._store
        try:
            self.position = self._apply_in_transaction(rows)
        except BaseException as error:
            self._conversations.clear()  # the cached conversations are ahead of the tables now
            store.roll_back(self._connection)
            if store.is_gone(error) and self.follow():
                return
            if store.is_of_the_store(error) or isinstance(error, KeyRingError):
                raise ReadModelError(f"the projections cannot be written: {error}") from error
            raise
        self._evict_conversations()

    def _apply_in_transaction(self, rows: Sequence[Row]) -> int:
        """Apply as many of the rows as time allows, at least one; return the position of the last of them.

        If another process has moved the tables, nothing is applied, and the position that it has reached is returned.
        """
        store = self._store
        row = rows[-1]
        has_moved = self.begin(row)
        connection = self._connection
        if not has_moved:
            reached = store.reached(connection)
            store.roll_back(connection)
            self._conversations.clear()  # the cached conversations are behind the tables now
            return self.position if reached == self.position and self.follow() else reached
        until = time.monotonic() + MOMENT
        changes = Changes()
        self._load_conversations(rows)
        before = partial(open_before, self._log, self._conversations)
        for row in rows:
            project(changes, self._conversations, row, before)
            if time.monotonic() >= until:
                break
        if row is not rows[-1]:
            store.move(connection, rows[-1].position, row)
        store.write(connection, changes)
        self.commit()
        return row.position

    def _load_conversations(self, rows: Sequence[Row]) -> None:
        known = self._conversations
        streams = {row.stream: None for row in rows if type(row.event) in OF_CONVERSATION}
        streams |= {stream_of(row.event.origin): None for row in rows if isinstance(row.event, SessionBranched)}
        missing: list[str] = []
        for stream in streams:
            conversation = known.pop(stream, None)
            if conversation is None:
                missing.append(stream)
            else:
                known[stream] = conversation  # to the end of the dict: the least recently used are evicted first
        if missing:
            known.update(tables.load(partial(self._store.ask, self._connection), missing))

    def _evict_conversations(self) -> None:
        known = self._conversations
        for stream in list(islice(known, max(0, len(known) - KEPT))):
            del known[stream]
