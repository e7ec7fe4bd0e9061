"""The runtime's own projection: it applies events in batches; a batch and its position are one transaction."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import islice
from typing import Final

from reenact.domain.session import SessionBranched
from reenact.projections.errors import ReadModelError
from reenact.projections.generations import NAME, mark
from reenact.projections.log import Log, Row, stream_of
from reenact.projections.read_model import compiled
from reenact.projections.read_model import rows as tables
from reenact.projections.read_model.connections import Store
from reenact.projections.read_model.projectors import OF_CONVERSATION, open_before, project
from reenact.projections.read_model.rows import Changes, Conversing
from reenact.projections.runner import MOMENT, Moving

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
