"""Connections for reading, lent to one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Generic, Protocol, TypeVar

from reenact.actors.journal.deadline import must_be_in_time, seconds_left
from reenact.domain.errors import RuntimeClosedError

AT_ONCE = 8
"""So many connections are open at most: a server has not enough for a thread each, and a process no use for more."""


class _Connection(Protocol):
    def close(self) -> None: ...


ConnectionT = TypeVar("ConnectionT", bound=_Connection)


class ReadPool(Generic[ConnectionT]):
    """A few connections, which are kept for the next readers; who comes when all are lent waits for one."""

    def __init__(
        self,
        connect: Callable[[], ConnectionT],
        name: str,
        *,
        translated: Callable[[str], AbstractContextManager[None]],
        is_usable: Callable[[ConnectionT], bool] = bool,
    ) -> None:
        """Open connections with `connect` when they are needed, and keep those that are still usable.

        `translated(name)` turns what is raised while one is lent into errors of ours.
        """
        self._connect = connect
        self._name = name
        self._translated = translated
        self._is_usable = is_usable
        self._idle: list[ConnectionT] = []
        self._lent = 0
        self._is_open = True
        self._lock = threading.Lock()
        self._returned = threading.Condition(self._lock)

    @property
    def name(self) -> str:
        """What messages call the log."""
        return self._name

    @contextmanager
    def connection(self) -> Generator[ConnectionT]:
        """Lend a connection.

        Raises:
            RuntimeClosedError: the pool is closed.
            StorageError: the log cannot be read.
        """
        connection = self.borrow()
        try:
            with self._translated(self._name):
                yield connection
        finally:
            self.give_back(connection)

    def clear(self) -> None:
        """Close what nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Lend no more, wait for what is lent, and close every connection. Idempotent."""
        with self._returned:
            self._is_open = False
            self._returned.notify_all()  # those who wait for a connection
            self._returned.wait_for(lambda: not self._lent)
        self.clear()

    def borrow(self) -> ConnectionT:
        """Return a connection that is to be given back; `connection` does both.

        Raises:
            ReadTooLongError: whoever reads has no time left, see `reading_for`.
            RuntimeClosedError: the pool is closed.
            StorageError: the log cannot be read.
        """
        must_be_in_time()
        with self._lock:
            while self._is_open and self._lent >= AT_ONCE:
                must_be_in_time()
                self._returned.wait(seconds_left())
            if not self._is_open:
                raise RuntimeClosedError(f"the log {self._name} is closed")
            self._lent += 1
            if self._idle:
                return self._idle.pop()
        try:
            with self._translated(self._name):
                return self._connect()
        except BaseException:
            self.give_back(None)
            raise

    def give_back(self, connection: ConnectionT | None) -> None:
        """Take back what was lent; None if it could not be."""
        with self._lock:
            self._lent -= 1
            if connection is not None and self._is_open and self._is_usable(connection):
                self._idle.append(connection)
                connection = None
            if self._is_open:
                self._returned.notify()
            else:
                self._returned.notify_all()
        if connection is not None:
            connection.close()
