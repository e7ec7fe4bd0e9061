"""Asking the tables: SQLAlchemy's text, on the driver's own connection, for a get is to cost microseconds."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from sqlalchemy import Engine
from sqlalchemy.pool import PoolProxiedConnection

from reenact.domain.errors import RuntimeClosedError
from reenact.projections.errors import ReadModelError
from reenact.projections.statements import Statement, Value

_KEPT_OPEN: Final = 8

_Lent: TypeAlias = tuple[sqlite3.Connection, PoolProxiedConnection, Engine]


class Readers:
    """As many connections as there are readers at once, a few of which stay open for the next ones. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
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

    def turn_to(self, engine: Engine) -> None:
        """Answer from these tables from now on; a question that is being answered is answered from the others."""
        self._engine = engine
        self.failed = False
        self._let_go(keep=0)

    def close(self) -> None:
        """Close the connections; a question that is being answered is answered. Idempotent."""
        self._closed = True
        self._let_go(keep=0)

    def _take(self) -> _Lent:
        engine = self._engine
        try:
            while (lent := self._free.pop())[2] is not engine:
                lent[1].close()
        except IndexError:
            pooled = engine.raw_connection()
            driver = pooled.driver_connection
            assert isinstance(driver, sqlite3.Connection)
            return driver, pooled, engine
        return lent

    def _give_back(self, lent: _Lent) -> None:
        if lent[2] is not self._engine:
            lent[1].close()
            return
        self._free.append(lent)
        if self._closed or len(self._free) > _KEPT_OPEN:
            self._let_go(keep=0 if self._closed else _KEPT_OPEN)

    def _let_go(self, *, keep: int) -> None:
        while len(self._free) > keep:
            try:
                _, pooled, _ = self._free.popleft()
            except IndexError:  # another thread was quicker
                return
            pooled.close()
