"""A node's part in the ownership of shards: a thread that renews its lease, claims shards and gives them back."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing
from uuid import uuid4

import psycopg

from reenact.actors.journal.postgres.address import address_of
from reenact.actors.journal.postgres.faults import translated
from reenact.actors.nodes.database import Database
from reenact.actors.nodes.protocol import Answer, Message, Node, Tenant, Timing

_logger = logging.getLogger("reenact.ownership")


class Ownership:
    """Owns a share of the shards of a log in PostgreSQL, beside other nodes.

    Its own thread talks to the database and calls the tenant. It continues until `close`, whatever the database does:
    failures are logged and retried.
    """

    def __init__(
        self,
        url: str,
        tenant: Tenant,
        *,
        address: str,
        timing: Timing | None = None,
        looked: Callable[[], object] | None = None,
    ) -> None:
        """Start to take part; `address` identifies the node for people.

        `looked` is called after each tick, on the thread that calls the tenant, since owners may have changed.

        Raises:
            ConfigurationError: the URL is invalid.
            StorageError: the server cannot be reached, refuses access, or does not hold such a log.
        """
        self.timing = timing or Timing()
        self._place = address_of(url)
        self._address = address
        self.node = Node(f"node_{uuid4().hex}", self.timing, tenant, time.monotonic)
        """What the node knows of the shards and of other nodes; its id is the owner in appends."""
        with translated(self._place.name):
            self._database: Database | None = self._connect()
            try:
                self.count = self._database.count()
            except BaseException:
                self._database.close()
                raise
        self._on_tick = looked
        self._is_failing = False
        self._drained = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reenact-ownership", daemon=True)
        self._thread.start()

    @property
    def has_share(self) -> bool:
        """Whether this node has its share of the shards, and its lease is still trusted. From any thread."""
        return self.node.has_share and self.node.is_trusted

    def drain(self, timeout: float) -> bool:
        """Give up all shards and claim no more; return whether all were given back within the timeout.

        Shards that have not been given back by then are lost when this is closed.
        """
        self.node.drains = True
        return self._drained.wait(timeout)

    def close(self) -> None:
        """Give everything back, and end. Idempotent."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        pause = 0.0
        while not self._ending.wait(pause):
            pause = self._run_tick()
        self._end()

    def _run_tick(self) -> float:
        """Run one tick, with a new connection if there is none; return the seconds until the next one."""
        had_connection = self._database is not None
        try:
            self._tick()
        except psycopg.Error as error:
            if not self._is_failing:
                _logger.warning("%s: the lease cannot be renewed now: %s", self._place.name, error)
            self._is_failing = True
            if self._database is not None and self._database.is_open:
                return self.timing.tick
            self._disconnect()
            return 0.0 if had_connection else self.timing.tick
        except Exception:
            _logger.exception("%s: shards could not be taken up or left; the next tick tries again", self._place.name)
            return self.timing.tick
        if self._is_failing:
            _logger.warning("%s: the lease is renewed again", self._place.name)
        self._is_failing = False
        if self._on_tick is not None:
            self._on_tick()
        if self.node.drains and self.node.owns_nothing:
            self._drained.set()
        return self.timing.tick

    def _tick(self) -> None:
        if self._database is None:
            self._database = self._connect()
        with closing(self.node.tick()) as tick:
            message: Message | None = next(tick)
            while message is not None:
                message = _send_answer(tick, self._database.send(message))

    def _connect(self) -> Database:
        return Database(self._place, self.node.id, self._address, self.timing)

    def _disconnect(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
            self.node.disconnected()

    def _end(self) -> None:
        """Give back the remaining shards if there is a connection; without one, other nodes take them over."""
        self.node.drains = True
        try:
            self.node.lose_all()
        except Exception:
            _logger.exception("%s: shards could not be dropped", self._place.name)
        if self._database is not None:
            self._run_tick()
        if self._database is not None:
            try:
                self._database.forget()
            except psycopg.Error as error:
                _logger.warning("%s: the node could not be deleted: %s", self._place.name, error)
            self._disconnect()


def _send_answer(tick: Generator[Message, Answer, None], answer: Answer) -> Message | None:
    try:
        return tick.send(answer)
    except StopIteration:
        return None
