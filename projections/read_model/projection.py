"""The runtime's own tables: a writer that applies events in batches, and connections for readers.

A batch and its position are one transaction.
"""

from __future__ import annotations

import sqlite3
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import ClassVar, Final, TypeAlias

from reenact.domain.errors import RuntimeClosedError
from reenact.domain.session import SessionBranched
from reenact.projections.errors import ReadModelError
from reenact.projections.generations import NAME, connect_to_write, mark
from reenact.projections.log import Log, Row, stream_of
from reenact.projections.read_model import compiled
from reenact.projections.read_model import rows as tables
from reenact.projections.read_model.projectors import OF_CONVERSATION, open_before, project
from reenact.projections.read_model.rows import Changes, Conversing, Value
from reenact.projections.runner import MOMENT, Moving

_KEPT_OPEN: Final = 8


class Store:
    """The tables in a file. Each connection belongs to who opened it, whatever thread that is on at the time."""

    factory: ClassVar[type[sqlite3.Connection]] = sqlite3.Connection
    """What makes the connections."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def connect(self) -> sqlite3.Connection:
        """Return a connection, to be closed."""
        return connect_to_write(self.path, factory=self.factory)

    def make(self) -> None:
        """Make the tables in the file, which has none.

        Raises:
            ReadModelError: it cannot be written.
        """
        try:
            with closing(self.connect()) as connection:
                make_tables(connection)
        except sqlite3.Error as error:
            raise ReadModelError(f"the projections cannot be written to {self.path}: {error}") from error

    def close(self) -> None:
        """Let go of what is kept beyond the connections: nothing. Idempotent."""


class PrivateStore(Store):
    """Empty tables in memory, on one connection that all threads share."""

    def __init__(self) -> None:
        if sqlite3.threadsafety < 3:  # noqa: PLR2004 - DB-API: threads may share connections
            raise ReadModelError("this Python's sqlite3 was built without the serialised mode")
        super().__init__(Path(":memory:"))
        self._shared = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, factory=_Shared)
        make_tables(self._shared)

    def connect(self) -> sqlite3.Connection:
        """Return the connection; it stays open when it is closed, since others have it, too."""
        return self._shared

    def close(self) -> None:
        """Let go of the tables. Idempotent."""
        sqlite3.Connection.close(self._shared)


class _Shared(sqlite3.Connection):
    def close(self) -> None: ...


_Lent: TypeAlias = tuple[sqlite3.Connection, Store]


class Readers:
    """As many connections as there are readers at once, a few of which stay open for the next ones. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._free: deque[_Lent] = deque()
        self._closed = False
        self.failed = False
        """Whether a question could not be answered, which may be a fault of the tables."""

    def ask(self, question: str, values: Mapping[str, Value]) -> tuple[list[str], list[tuple[Value, ...]]]:
        """Return the names of the columns, and the rows that answer the question.

        Raises:
            ReadModelError: the tables cannot be read.
            RuntimeClosedError: the readers are closed.
        """
        if self._closed:
            raise RuntimeClosedError("the runtime is closed; open it again to go on")
        try:
            lent = self._take()
            try:
                found = lent[0].execute(question, values)
                return [name for name, *_ in found.description], found.fetchall()
            finally:
                self._give_back(lent)
        except sqlite3.Error as error:
            self.failed = True
            raise ReadModelError(f"the projections cannot be read: {error}") from error
        except UnicodeEncodeError:
            return [], []  # nothing has an id that is no Unicode

    def turn_to(self, store: Store) -> None:
        """Answer from these tables from now on; a question that is being answered is answered from the others."""
        self._store = store
        self.failed = False
        self._let_go(keep=0)

    def close(self) -> None:
        """Close the connections; a question that is being answered is answered. Idempotent."""
        self._closed = True
        self._let_go(keep=0)

    def _take(self) -> _Lent:
        store = self._store
        try:
            while (lent := self._free.pop())[1] is not store:
                lent[0].close()
        except IndexError:
            return store.connect(), store
        return lent

    def _give_back(self, lent: _Lent) -> None:
        if lent[1] is not self._store:
            lent[0].close()
            return
        self._free.append(lent)
        if self._closed or len(self._free) > _KEPT_OPEN:
            self._let_go(keep=0 if self._closed else _KEPT_OPEN)

    def _let_go(self, *, keep: int) -> None:
        while len(self._free) > keep:
            try:
                connection, _ = self._free.popleft()
            except IndexError:  # another thread was quicker
                return
            connection.close()


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables and their indices, empty; they are made when the row is there that says how far they are."""
    for statement in compiled.TABLES:
        connection.execute(statement)
    connection.execute(compiled.ADD_PROGRESS, (NAME, 0, "", compiled.VERSION, 0))


KEPT: Final = 16_384
"""So many conversations are remembered from one batch to the next; what is forgotten is read back when it is needed."""

_OF_CONVERSATION: Final = frozenset(OF_CONVERSATION)

_NOT_OF_THE_EVENTS: Final = (sqlite3.OperationalError, sqlite3.DatabaseError)
"""Locked, full, damaged: these types themselves. What derives from the second is about what was to be written."""


def suspect(store: Store) -> None:
    """Have the tables looked through when they are opened next; call it when no projection uses them."""
    with suppress(sqlite3.Error), closing(store.connect()) as connection:
        connection.execute(compiled.SAY_CLOSED, (0, NAME))


class Projection(Moving):
    """The tables of the runtime's own and how far they are."""

    batch = 2000  # with fewer, the same pages of the indices are written more often

    def __init__(self, log: Log, store: Store, number: int = 1) -> None:
        super().__init__(log, number)
        self._conversations: dict[str, Conversing] = {}
        self.is_closed = False
        try:
            with ExitStack() as undo:
                self._connection = undo.enter_context(closing(store.connect()))
                self._connection.execute(compiled.SAY_CLOSED, (0, NAME))
                self.position = self._reached()
                undo.pop_all()
        except sqlite3.Error as error:
            raise ReadModelError(f"the projections in {store.path} cannot be written: {error}") from error

    def close(self, *, intact: bool) -> None:
        """Let go of the tables, saying whether they can be relied on. Idempotent."""
        if self.is_closed:
            return
        try:
            if intact:
                self._connection.execute(compiled.SAY_CLOSED, (1, NAME))
        except sqlite3.Error:
            pass  # then they are looked through when they are opened again
        finally:
            self._connection.close()
            self.is_closed = True

    def _reached(self) -> int:
        found: tuple[int] | None = self._connection.execute(compiled.PROGRESS_OF, (NAME,)).fetchone()
        if found is None:
            raise ReadModelError("the row that says how far the projections are is gone")
        return found[0]

    def _apply(self, rows: Sequence[Row]) -> None:
        try:
            self.position = self._transact(rows)
        except BaseException as error:
            self._conversations.clear()  # they are ahead of the tables now
            with suppress(sqlite3.OperationalError):  # SQLite may have rolled back by itself
                self._connection.execute("ROLLBACK")
            if type(error) in _NOT_OF_THE_EVENTS:
                raise ReadModelError(f"the projections cannot be written: {error}") from error
            raise
        self._forget()

    def _transact(self, rows: Sequence[Row]) -> int:
        """Apply as many of the rows as there is time for, at least one; return the position of the last of them.

        Nothing is applied if another process has moved the tables on; then it is the position that it has reached.
        """
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        row = rows[-1]
        if not self._move(self.position, row):
            reached = self._reached()
            connection.execute("ROLLBACK")
            self._conversations.clear()  # they are behind the tables now
            return reached
        until = time.monotonic() + MOMENT
        changes = Changes()
        self._remember(rows)
        before = partial(open_before, self._log, self._conversations)
        for row in rows:
            project(changes, self._conversations, row, before)
            if time.monotonic() >= until:
                break
        if row is not rows[-1]:
            self._move(rows[-1].position, row)
        tables.write(connection, changes)
        connection.execute("COMMIT")
        return row.position

    def _remember(self, rows: Sequence[Row]) -> None:
        known = self._conversations
        streams = {row.stream: None for row in rows if type(row.event) in _OF_CONVERSATION}
        streams |= {stream_of(row.event.origin): None for row in rows if isinstance(row.event, SessionBranched)}
        missing: list[str] = []
        for stream in streams:
            conversation = known.pop(stream, None)
            if conversation is None:
                missing.append(stream)
            else:
                known[stream] = conversation  # at the end again: what was used last is forgotten last
        if missing:
            known.update(tables.load(self._connection, missing))

    def _forget(self) -> None:
        known = self._conversations
        for stream in list(islice(known, max(0, len(known) - KEPT))):
            del known[stream]

    def _move(self, origin: int, last: Row) -> bool:
        """Say that the tables, which are at the origin, hold everything up to this row; False if they are elsewhere."""
        return self._connection.execute(compiled.MOVE, (last.position, mark(last), NAME, origin)).rowcount == 1
