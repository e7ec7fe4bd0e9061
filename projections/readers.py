"""Asking the tables: each question on a connection of its own, of which a few stay open."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from reenact.domain.errors import RuntimeClosedError
from reenact.projections.connections import Store
from reenact.projections.errors import ReadModelError
from reenact.projections.statements import Statement, Value

_KEPT_OPEN: Final = 8

_Lent: TypeAlias = tuple[sqlite3.Connection, Store]


class Readers:
    """As many connections as there are readers at once, a few of which stay open for the next ones. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._free: deque[_Lent] = deque()
        self._closed = False
        self.failed = False
        """Whether a question could not be answered, which may be a fault of the tables."""

    def ask(self, question: Statement, values: Mapping[str, Value]) -> list[tuple[Any, ...]]:
        """Return the rows that answer the question.

        Raises:
            ReadModelError: the tables cannot be read.
            RuntimeClosedError: the readers are closed.
        """
        if self._closed:
            raise RuntimeClosedError("the runtime is closed; open it again to go on")
        try:
            lent = self._take()
            try:
                return lent[0].execute(question.sql, question.bind(values)).fetchall()
            finally:
                self._give_back(lent)
        except sqlite3.Error as error:
            self.failed = True
            raise ReadModelError(f"the projections cannot be read: {error}") from error
        except UnicodeEncodeError:
            return []  # nothing has an id that is no Unicode

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
