"""Listens for the commits of all processes and calls watchers."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from selectors import EVENT_READ, DefaultSelector

import psycopg

from reenact.actors.journal.postgres.address import Address
from reenact.actors.journal.postgres.connecting import KEEPALIVE, Connection, channel_of, connect

# Seconds before reconnecting: the first time, and at most.
_FIRST_PAUSE = 0.25
_LAST_PAUSE = 2.0

_logger = logging.getLogger("reenact.journal")


class Listening:
    """Calls watchers after commits with the end of the log, and with 0 when commits may have been missed.

    It has its own thread and connection, from the first watcher on.
    """

    def __init__(self, address: Address, writer: str | None = None) -> None:
        """Listen at the address; `writer` is the name of this process's writer, if it has one."""
        self._address = address
        self._writer = writer
        self._watchers: tuple[Callable[[int], None], ...] = ()
        self._row_watchers: tuple[Callable[[int], None], ...] = ()
        self._gate = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_disconnected = False
        # Becomes readable when the thread must end.
        self._end_receiver, self._end_sender = socket.socketpair()

    def watch(self, watcher: Callable[[int], None]) -> None:
        """Call `watcher` from now on, with the position of the last event, after each commit with events."""
        with self._gate:
            self._watchers = (*self._watchers, watcher)
            self._start_thread()

    def unwatch(self, watcher: Callable[[int], None]) -> None:
        """Stop calling the watcher. Idempotent."""
        with self._gate:
            self._watchers = tuple(other for other in self._watchers if other != watcher)

    def watch_rows(self, watcher: Callable[[int], None]) -> None:
        """Call `watcher` from now on, with the number of the last row, after commits of other writers."""
        with self._gate:
            self._row_watchers = (*self._row_watchers, watcher)
            self._start_thread()

    def unwatch_rows(self, watcher: Callable[[int], None]) -> None:
        """Stop calling the watcher. Idempotent."""
        with self._gate:
            self._row_watchers = tuple(other for other in self._row_watchers if other != watcher)

    def close(self) -> None:
        """End the thread and the connection."""
        self._end_sender.close()
        if self._thread is not None:
            self._thread.join()
        self._end_receiver.close()

    def _start_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="reenact-listening", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        with DefaultSelector() as selector:
            selector.register(self._end_receiver, EVENT_READ)
            pause = _FIRST_PAUSE
            while not selector.select(pause if self._is_disconnected else 0):
                try:
                    with connect(self._address, **KEEPALIVE) as connection:
                        self._receive(connection, selector)
                except psycopg.Error as error:
                    if not self._is_disconnected:
                        why = " ".join(str(error).split())
                        _logger.warning(
                            "%s: notifications of commits are not received now: %s", self._address.name, why
                        )
                    pause = min(2 * pause, _LAST_PAUSE) if self._is_disconnected else _FIRST_PAUSE
                    self._is_disconnected = True

    def _receive(self, connection: Connection, selector: DefaultSelector) -> None:
        """Report commits until the end; raise when the connection is lost."""
        connection.execute(f"LISTEN {channel_of(self._address)}".encode())
        self._is_disconnected = False
        self._notify_missed()
        # Kept, since a lost connection no longer has a descriptor.
        descriptor = connection.fileno()
        selector.register(descriptor, EVENT_READ)
        try:
            while all(key.fileobj == descriptor for key, _ in selector.select()):
                for notice in connection.notifies(timeout=0):
                    self._notify(notice.payload)
        finally:
            selector.unregister(descriptor)

    def _notify(self, notice: str) -> None:
        number, _, rest = notice.partition(" ")
        writer, _, position = rest.partition(" ")
        try:
            row, event = int(number), int(position or "0")
        except ValueError:  # any client can send notifications
            self._notify_missed()
            return
        if event:
            for watcher in self._watchers:
                watcher(event)
        if writer != self._writer:
            for watcher in self._row_watchers:
                watcher(row)

    def _notify_missed(self) -> None:
        for watcher in (*self._watchers, *self._row_watchers):
            watcher(0)
