"""A pool of read connections, each lent to one thread at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Generic, Protocol, TypeVar

from reenact.actors.journal.deadline import must_be_in_time, seconds_left
from reenact.domain.errors import RuntimeClosedError

AT_ONCE = 8
"""The most connections that are open: a server cannot offer one per thread, and a process has no use for more."""


_PATIENCE = 2.0
"""Seconds that closing waits for the connections that are lent; each is closed when it is given back."""


class _Connection(Protocol):
    def close(self) -> None: ...


ConnectionT = TypeVar("ConnectionT", bound=_Connection)


class ReadPool(Generic[ConnectionT]):
    """A few connections, which are kept for further readers; when all are lent, a reader waits for one."""

    def __init__(
        self,
        connect: Callable[[], ConnectionT],
        name: str,
        *,
        translated: Callable[[str], AbstractContextManager[None]],
        is_usable: Callable[[ConnectionT], bool] = bool,
    ) -> None:
        """Open connections with `connect` on demand, and keep those that are still usable.

        `translated(name)` translates exceptions raised while a connection is lent into this library's errors.
        """
        self._connect = connect
        self.name = name
        """The log's name, as error messages show it."""
        self._translated = translated
        self._is_usable = is_usable
        self._idle: list[ConnectionT] = []
        self._parents: list[ConnectionT] = []
        self._is_open = True
        self._begin()

    def _begin(self) -> None:
        """Begin without connections, also in a forked child: those that it inherits must not be used, nor closed."""
        self._process = os.getpid()
        self._parents += self._idle
        self._idle = []
        self._borrowed_count = 0
        self._lock = threading.Lock()
        self._returned = threading.Condition(self._lock)

    @contextmanager
    def connection(self) -> Generator[ConnectionT]:
        """Lend a connection.

        Raises:
            RuntimeClosedError: the pool is closed.
            StorageError: the log cannot be read.
        """
        connection = self.borrow()
        try:
            with self._translated(self.name):
                yield connection
        finally:
            self.give_back(connection)

    def clear(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Lend no more connections, wait for the lent ones, and close all. Idempotent."""
        if self._process != os.getpid():
            self._begin()
        with self._returned:
            self._is_open = False
            self._returned.notify_all()  # wakes the readers that wait for a connection
            # Not for ever: a connection is never given back if Ctrl+C comes right before that.
            self._returned.wait_for(lambda: not self._borrowed_count, _PATIENCE)
        self.clear()

    def borrow(self) -> ConnectionT:
        """Return a connection that the caller must give back; `connection` does both.

        Raises:
            ReadTooLongError: the reader's time limit has passed, see `reading_for`.
            RuntimeClosedError: the pool is closed.
            StorageError: the log cannot be read.
        """
        must_be_in_time()
        if self._process != os.getpid():
            self._begin()
        is_lent = False
        try:
            with self._lock:
                while self._is_open and self._borrowed_count >= AT_ONCE:
                    must_be_in_time()
                    self._returned.wait(seconds_left())
                if not self._is_open:
                    raise RuntimeClosedError(f"the log {self.name} is closed")  # noqa: TRY301 - nothing is lent yet
                self._borrowed_count += 1
                is_lent = True
                if self._idle:
                    return self._idle.pop()
            with self._translated(self.name):
                return self._connect()
        except BaseException:
            if is_lent:
                self.give_back(None)
            raise

    def give_back(self, connection: ConnectionT | None) -> None:
        """Return a borrowed connection to the pool; None if it could not be opened."""
        with self._lock:
            self._borrowed_count -= 1
            if connection is not None and self._is_open and self._is_usable(connection):
                self._idle.append(connection)
                connection = None
            if self._is_open:
                self._returned.notify()
            else:
                self._returned.notify_all()
        if connection is not None:
            connection.close()
