"""The runtime's own tables: a writer that applies events in batches, and connections for readers.

A batch and its position are one transaction.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import islice
from typing import ClassVar, Protocol, TypeAlias

from reenact.domain.errors import KeyRingError, RuntimeClosedError
from reenact.domain.session.state import SessionBranched
from reenact.projections.cipher import Cipher, opened
from reenact.projections.errors import ReadModelError
from reenact.projections.log import Log, Row, stream_of
from reenact.projections.read_model import rows as tables
from reenact.projections.read_model.projectors import OF_CONVERSATION, open_before, project
from reenact.projections.read_model.rows import Changes, Connection, Conversing, Value
from reenact.projections.runner import MOMENT, Moving

AT_ONCE = 8
"""So many questions are asked at once, each on a connection; a database's server has not enough for a thread each."""

_TRIES = 3
"""How often a question is asked when the connection is lost, or the tables are replaced."""


class Store(Protocol):
    """The tables of one generation, in a database of whatever kind. Its name is its place, for messages."""

    @property
    def number(self) -> int:
        """Which generation it is."""
        ...

    faults: ClassVar[type[Exception]]
    """What the connections raise when something is wrong."""
    cipher: Cipher | None
    """Encrypts the content of the tables, if there is one."""

    def connect(self) -> Connection:
        """Return a connection, to be closed."""
        ...

    def close(self) -> None:
        """Let go of what is kept beyond the connections. Idempotent."""
        ...

    def begin(self, connection: Connection, origin: int, last: Row) -> tuple[Connection, bool]:
        """Begin a transaction with a `move`, on the connection, or on another one if it is lost; return which.

        Nobody else moves the tables until it ends, if it has moved them.
        """
        ...

    def ask(self, connection: Connection, question: str, keys: Collection[str | int]) -> list[tuple[Value, ...]]:
        """Return the rows that answer a question about some keys."""
        ...

    def reached(self, connection: Connection) -> int:
        """Return how far the tables are.

        Raises:
            ReadModelError: they do not say so.
        """
        ...

    def move(self, connection: Connection, origin: int, last: Row) -> bool:
        """Say that the tables, which are at the origin, hold everything up to this row.

        Return False if they are elsewhere, or others have taken their place.
        """
        ...

    def write(self, connection: Connection, changes: Changes) -> None:
        """Write the rows."""
        ...

    def roll_back(self, connection: Connection) -> None:
        """End the transaction, if there is one, with nothing changed."""
        ...

    def say_closed(self, connection: Connection, closed: int) -> None:
        """Say whether the tables can be relied on when they are opened next."""
        ...

    def is_of_the_store(self, error: BaseException) -> bool:
        """Return whether a fault has nothing to do with what was to be written."""
        ...

    def is_worth_another_try(self, error: BaseException) -> bool:
        """Return whether a question that failed is asked again, on another connection."""
        ...

    def is_gone(self, error: BaseException) -> bool:
        """Return whether the tables are not there any more."""
        ...

    def successor(self) -> Store | None:
        """Return the tables that another process has put in the place of these, None if none has.

        Raises:
            ProjectionReplacedError: they are of another version.
            ReadModelError: the database cannot be read.
        """
        ...


_Lent: TypeAlias = tuple[Connection, Store]


class Readers:
    """A few connections, which stay open for the next readers; who asks when all are in use waits. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._free: deque[_Lent] = deque()
        self._turns = threading.Semaphore(AT_ONCE)
        self._closed = False
        self.failed = False
        """Whether a question could not be answered, which may be a fault of the tables."""
        self.follow: Callable[[], object] = lambda: None
        """Called when the tables are gone; turns to those that have taken their place."""

    def ask(self, question: str, values: Mapping[str, Value]) -> tuple[list[str], list[tuple[Value, ...]]]:
        """Return the names of the columns, and the rows that answer the question.

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
                    lent = self._take()
                    try:
                        is_asked = True
                        found = lent[0].execute(question, values)
                        names = [str(column[0]) for column in found.description or ()]
                        rows = found.fetchall()
                    finally:
                        self._give_back(lent)
                return names, list(opened(rows, store.cipher))
            except store.faults as error:
                if not (left and is_asked and store.is_worth_another_try(error)):
                    self.failed = True
                    raise ReadModelError(f"the projections cannot be read: {error}") from error
                self._let_go()
                if store.is_gone(error):
                    self.follow()
            except UnicodeEncodeError:
                break
        return [], []  # nothing has an id that is not Unicode

    def turn_to(self, store: Store) -> None:
        """Answer from these tables from now on; a question that is being answered is answered from the others."""
        self._store = store
        self.failed = False
        self._let_go()

    def close(self) -> None:
        """Close the connections; a question that is being answered is answered. Idempotent."""
        self._closed = True
        self._let_go()

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
        if self._closed:
            self._let_go()

    def _let_go(self) -> None:
        with suppress(IndexError):  # there are no more
            while True:
                self._free.popleft()[0].close()


KEPT = 16_384
"""So many conversations are remembered from one batch to the next; what is forgotten is read back when it is needed."""


def suspect(store: Store) -> None:
    """Have the tables looked through when they are opened next; call it when no projection uses them."""
    with suppress(store.faults), closing(store.connect()) as connection:
        store.say_closed(connection, 0)


class Projection(Moving):
    """The tables of the runtime's own and how far they are."""

    batch = 2000  # with fewer, the same pages of the indices are written more often

    def __init__(self, log: Log, store: Store, turn_to: Callable[[Store], object] = lambda _: None) -> None:
        """Take the tables; `turn_to` has others be read, which another process has put in their place.

        Raises:
            ReadModelError: they cannot be read or written.
        """
        super().__init__(log, store.number)
        self._store = store
        self._turn_to = turn_to
        self._conversations: dict[str, Conversing] = {}
        self.is_closed = False
        try:
            with ExitStack() as undo:
                self._connection = undo.enter_context(closing(store.connect()))
                store.say_closed(self._connection, 0)
                self.position = store.reached(self._connection)
                undo.pop_all()
        except store.faults as error:
            raise ReadModelError(f"the projections in {store} cannot be written: {error}") from error

    def close(self, *, intact: bool) -> None:
        """Let go of the tables, saying whether they can be relied on. Idempotent."""
        if self.is_closed:
            return
        try:
            if intact:
                self._store.say_closed(self._connection, 1)
        except self._store.faults:
            pass  # then they are looked through when they are opened again
        finally:
            self._connection.close()
            self.is_closed = True

    def follow(self) -> bool:
        """Go on with the tables that another process has put in the place of these; return whether there are such.

        They are brought up to where these are before anybody reads them: who has waited for a position finds it there.

        Raises:
            ProjectionReplacedError: they are of another version.
            ReadModelError: they cannot be read, or not be brought up to these; the kind says why.
        """
        store = self._store.successor()
        if store is None:
            return False
        successor = Projection(self._log, store)
        try:
            while successor.position < self.position and successor.advance():
                pass
            self._turn_to(successor._store)
        except BaseException:
            successor.close(intact=True)
            raise
        self._connection.close()
        self._conversations = successor._conversations
        self._store, self._connection = successor._store, successor._connection
        self.number, self.position = successor.number, successor.position
        return True

    def look(self) -> None:
        """Take up how far another process has brought the tables, or those that have taken their place."""
        store = self._store
        try:
            reached = store.reached(self._connection)
        except store.faults as error:
            if store.is_gone(error) and self.follow():
                return
            self._connection.close()
            with suppress(store.faults):  # else the next look finds that this one is closed
                self._connection = store.connect()
            raise ReadModelError(f"the projections cannot be read: {error}") from error
        if reached != self.position:
            self._conversations.clear()  # they are behind the tables now
            self.position = reached
        else:
            self.follow()

    def begin(self, last: Row) -> bool:
        """Begin a transaction that moves the tables to this row; return whether they were where this has left them."""
        self._connection, has_moved = self._store.begin(self._connection, self.position, last)
        return has_moved

    def commit(self) -> None:
        """End the transaction."""
        self._connection.execute("COMMIT")

    def _apply(self, rows: Sequence[Row]) -> None:
        store = self._store
        try:
            self.position = self._transact(rows)
        except BaseException as error:
            self._conversations.clear()  # they are ahead of the tables now
            store.roll_back(self._connection)
            if store.is_gone(error) and self.follow():
                return
            if store.is_of_the_store(error) or isinstance(error, KeyRingError):
                raise ReadModelError(f"the projections cannot be written: {error}") from error
            raise
        self._forget()

    def _transact(self, rows: Sequence[Row]) -> int:
        """Apply as many of the rows as there is time for, at least one; return the position of the last of them.

        Nothing is applied if another process has moved the tables on; then it is the position that it has reached.
        """
        store = self._store
        row = rows[-1]
        has_moved = self.begin(row)
        connection = self._connection
        if not has_moved:
            reached = store.reached(connection)
            store.roll_back(connection)
            self._conversations.clear()  # they are behind the tables now
            return self.position if reached == self.position and self.follow() else reached
        until = time.monotonic() + MOMENT
        changes = Changes()
        self._remember(rows)
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

    def _remember(self, rows: Sequence[Row]) -> None:
        known = self._conversations
        streams = {row.stream: None for row in rows if type(row.event) in OF_CONVERSATION}
        streams |= {stream_of(row.event.origin): None for row in rows if isinstance(row.event, SessionBranched)}
        missing: list[str] = []
        for stream in streams:
            conversation = known.pop(stream, None)
            if conversation is None:
                missing.append(stream)
            else:
                known[stream] = conversation  # at the end again: what was used last is forgotten last
        if missing:
            known.update(tables.load(partial(self._store.ask, self._connection), missing))

    def _forget(self) -> None:
        known = self._conversations
        for stream in list(islice(known, max(0, len(known) - KEPT))):
            del known[stream]
