"""Carries requests and replies between nodes, through a table of the shared database.

Each node has a thread and a connection for it. All messages handed over and received meanwhile are handled by one
statement, an *exchange*: it inserts the outgoing messages, notifies their receivers, deletes the messages that the last
exchange brought, and reads the next ones. A message is deleted only by the exchange after the one that read it, so that
none is lost when an answer of the database is; a receiver recognises a message that it reads a second time.

A request is sent once. Its sender is told the outcome exactly once: the reply, or an error that says whether the
request can have been carried out.
"""

from __future__ import annotations

import logging
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from selectors import EVENT_READ, DefaultSelector
from typing import TypeAlias

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from reenact.actors.journal.postgres.address import address_of
from reenact.actors.journal.postgres.append import VALUE_LIMIT
from reenact.actors.journal.postgres.connecting import KEEPALIVE, PLAIN, SET
from reenact.actors.journal.postgres.faults import translated
from reenact.actors.journal.vault import LOG, Vault
from reenact.actors.nodes.database import ImpatientConnection

# Seconds before reconnecting after a failed attempt: the first time, and at most.
_FIRST_PAUSE = 0.25
_LAST_PAUSE = 2.0
# Seconds between exchanges without a notification.
_POLL_SECONDS = 1.0
# Seconds that an answer of the database may take, and a new connection.
_PATIENCE = 10.0
_CONNECT_TIMEOUT = 5
# About how many bytes an exchange sends, and reads; a single message is sent however large it is.
_BATCH_BYTES = 16_000_000
_BATCH_ROWS = 1000

# Seconds by the database's clock. A request that was not read for `_GIVEN_UP` is given up by its sender; one whose
# sender has ended is deleted by any node, after `_FORGOTTEN`. A node that has not exchanged for `_LONGEST_ABSENCE` may
# have lost a reply in this way.
_GIVEN_UP = 60
_FORGOTTEN = 120
_LONGEST_ABSENCE = 30.0
# Seconds between a node's searches for such messages.
_SWEEP_SECONDS = 10.0

_SETTINGS = {
    **PLAIN,
    "synchronous_commit": "off",
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "2",
    "tcp_user_timeout": "4000",
    "lock_timeout": "0",
    "statement_timeout": "0",
    "idle_session_timeout": "0",
    # Statistics are always wrong for a table that fills and empties all the time. Only a plain index scan remembers
    # which of its entries belong to deleted messages.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
}

# Only the receiver of a message accesses it in an exchange, so exchanges do not wait for each other's rows. Numbers
# become visible slightly out of order, and a crash of the server resets them: the number alone does not identify a
# message.
_EXCHANGE = """
    WITH sent AS (
        INSERT INTO {schema}.messages (recipient, request, reply_to, body)
        SELECT recipient, request, reply_to, body FROM unnest(
            %(recipients)s::text[], %(requests)s::bigint[], %(reply_to)s::text[], %(bodies)b::bytea[]
        ) AS message (recipient, request, reply_to, body) RETURNING recipient
    ), notified AS (
        SELECT count(*) FROM (SELECT pg_notify(recipient, '') FROM (SELECT DISTINCT recipient FROM sent) AS receiver)
            AS notice
    ), known AS (
        SELECT number, request FROM unnest(%(numbers)s::bigint[], %(known)s::bigint[]) AS message (number, request)
    ), deleted AS (
        DELETE FROM {schema}.messages WHERE recipient = %(id)s AND number = ANY (%(numbers)s::bigint[])
        AND ((number, request) IN (SELECT number, request FROM known)) IS TRUE
    ), waiting AS (
        SELECT number, request, reply_to, body,
            sum(octet_length(body)) OVER (ORDER BY number) - octet_length(body) AS before
        FROM (
            SELECT number, request, reply_to, body FROM {schema}.messages
            WHERE recipient = %(id)s AND number > %(after)s
            AND (number, request) NOT IN (SELECT number, request FROM known)
            ORDER BY number LIMIT %(rows)s
        ) AS message
    )
    SELECT extract(epoch FROM clock_timestamp())::float8, number, request, reply_to, body
    FROM notified LEFT JOIN waiting ON before < %(batch)s ORDER BY number
"""
# Does not wait for locks: rows that another node is deleting are left to it.
_DELETE = """
    DELETE FROM {schema}.messages WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {schema}.messages WHERE {condition} LIMIT 1000 FOR UPDATE SKIP LOCKED
    )) RETURNING request, reply_to IS NOT NULL
"""
_TO_OR_FROM_THIS_NODE = "recipient = %(id)s OR reply_to = %(id)s"
_FROM_THIS_NODE = "reply_to = %(id)s"
_TO_NODES = "recipient = ANY (%(ids)s::text[])"
_OLD = f"""
    at < clock_timestamp() - interval '1 s' * CASE WHEN reply_to = %(id)s THEN {_GIVEN_UP} ELSE {_FORGOTTEN} END
"""

_CLOSED = "the relay is closed"
_ENDED = "the other node has ended"

_logger = logging.getLogger("reenact.relay")


class RelayError(Exception):
    """A request got no reply."""


class NotSentError(RelayError):
    """The request was not sent: it has not been and will not be carried out."""


class OutcomeUnknownError(RelayError):
    """The request may have been sent, and a reply is no longer accepted: it is unknown whether it was carried out."""


Serve: TypeAlias = Callable[[bytes, Callable[[bytes], None]], None]
Done: TypeAlias = Callable[[bytes | RelayError], None]


@dataclass(frozen=True, slots=True, eq=False)
class _Message:
    """A message to send: a request with its callback, or a reply."""

    recipient: str
    request: int
    body: bytes
    done: Done | None


class Relay:
    """Sends requests to other nodes and serves theirs.

    Its own thread talks to the database, and calls `serve` and `done`. It continues until `close`, whatever the
    database does. When the connection is lost, pending requests fail with an error. Requests made while there is no
    connection fail at once: the caller knows better how long to keep trying.
    """

    def __init__(self, url: str, node_id: str, serve: Serve, vault: Vault | None = None) -> None:
        """Start to send and to serve; `node_id` must never have been another node's.

        `serve` is called for each request, with a function that sends the reply: once, from any thread. It must not
        block. With a vault, messages are encrypted with the log's key.

        Raises:
            ConfigurationError: the URL is invalid.
            StorageError: the server cannot be reached, refuses access, or does not hold such a log.
        """
        self._address = address_of(url)
        self._id = node_id
        self._serve = serve
        self._vault = vault if vault is not None and vault.has_ring else None
        # Held only while something is handed over.
        self._lock = threading.Lock()
        self._outgoing: deque[_Message] = deque()
        self._ended_nodes: set[str] = set()
        self._is_open = True
        # The fields below belong to the thread. Sent requests that are not done, by their number, with their node.
        self._pending_requests: dict[int, tuple[str, Done]] = {}
        # Messages that the last exchange brought: each by its number in the table, and that of its request.
        self._read_messages: list[tuple[int, int]] = []
        self._is_notified = False
        self._is_failing = False
        # The time of the last exchange, by the database's clock, and of the last sweep, by the local clock.
        self._exchanged_at: float | None = None
        self._swept_at = 0.0
        # The highest number read so far, up to the last sweep, and up to the one before. Exchanges read after the
        # latter, to skip rows that were deleted long ago but are kept for an old transaction.
        self._read = self._read_before = self._floor = 0
        with translated(self._address.name):
            self._connection: ImpatientConnection | None = self._connect()
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="reenact-relay", daemon=True)
        self._thread.start()

    def ask(self, node_id: str, body: bytes, done: Done) -> None:
        """Send a request, and call `done` once: with the reply, or with an error. May be called from any thread.

        `done` is called on the relay's thread and must not block; if the relay is closed, it is called at once.
        """
        if len(body) > VALUE_LIMIT:
            done(NotSentError(f"a request of {len(body)} bytes is too large to be sent, {VALUE_LIMIT} are the most"))
        elif not self._enqueue(_Message(node_id, secrets.randbits(63), self._sealed(body), done)):
            done(NotSentError(f"the request was not sent: {_CLOSED}"))

    def gone(self, node_ids: Collection[str]) -> None:
        """Record that these nodes have ended, and will read no more requests. May be called from any thread."""
        with self._lock:
            if self._is_open:
                self._ended_nodes.update(node_ids)
                self._wake_sender.send(b".")

    def close(self) -> None:
        """Send the replies handed over so far, fail the pending requests, and end. Idempotent."""
        with self._lock:
            if self._is_open:
                self._is_open = False
                self._wake_sender.send(b".")
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _reply(self, recipient: str, request: int, body: bytes) -> None:
        if len(body) > VALUE_LIMIT:
            raise ValueError(f"a reply of {len(body)} bytes is too large to be sent, {VALUE_LIMIT} are the most")
        self._enqueue(_Message(recipient, request, self._sealed(body), None))

    def _sealed(self, body: bytes) -> bytes:
        return body if self._vault is None else self._vault.seal(LOG, body)

    def _enqueue(self, message: _Message) -> bool:
        """Let the thread send the message; return False if the relay is closed."""
        with self._lock:
            if self._is_open:
                if not self._outgoing:
                    self._wake_sender.send(b".")
                self._outgoing.append(message)
            return self._is_open

    # All methods from here on run on the thread.

    def _run(self) -> None:
        with DefaultSelector() as selector:
            selector.register(self._wake_receiver, EVENT_READ)
            pause = 0.0
            while self._is_open:
                try:
                    self._exchange_until_closed(selector)
                except Exception as error:  # noqa: BLE001 - whatever it is, it is logged and retried
                    # The first time, reconnect at once: a server that has restarted is back soon.
                    pause = min(max(2 * pause, _FIRST_PAUSE), _LAST_PAUSE) if self._is_failing else 0.0
                    self._handle_lost_connection(error)
                    self._wait_to_reconnect(selector, pause)
        self._end()

    def _exchange_until_closed(self, selector: DefaultSelector) -> None:
        """Exchange messages until the relay is closed; raise when the connection is lost."""
        connection = self._connection = self._connection or self._connect()
        # Kept, since a lost connection no longer has a descriptor.
        descriptor = connection.fileno()
        selector.register(descriptor, EVENT_READ)
        try:
            while self._is_open:
                self._handle_ended_nodes(connection)
                after = self._floor
                if time.monotonic() - self._swept_at >= _SWEEP_SECONDS:
                    self._sweep(connection)
                    # Occasionally from the beginning, for messages that became visible late.
                    after = 0
                self._is_notified = False
                is_cut_short = self._exchange(connection, self._next_batch(), after)
                self._receive_notifications(connection)
                if not (is_cut_short or self._is_notified or self._outgoing or self._ended_nodes):
                    self._wait(selector, _POLL_SECONDS)
                    # Before anything is sent: a connection that is lost by now sends nothing.
                    self._receive_notifications(connection)
        finally:
            selector.unregister(descriptor)

    def _wait(self, selector: DefaultSelector, timeout: float) -> None:
        if any(key.fileobj is self._wake_receiver for key, _ in selector.select(timeout)):
            self._wake_receiver.recv(4096)

    def _receive_notifications(self, connection: ImpatientConnection) -> None:
        """Receive notifications that came outside of answers; raise when the connection is lost."""
        connection.pgconn.consume_input()
        while connection.pgconn.notifies():
            self._is_notified = True

    def _connect(self) -> ImpatientConnection:
        conninfo = make_conninfo("", **KEEPALIVE | conninfo_to_dict(self._address.conninfo))
        connection = ImpatientConnection.connect(conninfo, autocommit=True, connect_timeout=_CONNECT_TIMEOUT)
        connection.limit = _PATIENCE
        connection.add_notify_handler(self._on_notification)
        try:
            connection.execute(SET, (list(_SETTINGS), list(_SETTINGS.values())))
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._id)))
            # Requests sent over the last connection were failed with an unknown outcome: those that were not read are
            # deleted.
            self._delete(connection, _FROM_THIS_NODE)
        except BaseException:
            connection.close()
            raise
        self._exchanged_at = None
        self._read = self._read_before = self._floor = 0
        return connection

    def _on_notification(self, _: psycopg.Notify) -> None:
        self._is_notified = True

    def _next_batch(self) -> list[_Message]:
        size = 0
        batch: list[_Message] = []
        with self._lock:
            while self._outgoing and size < _BATCH_BYTES:
                batch.append(self._outgoing.popleft())
                size += len(batch[-1].body)
        return batch

    def _exchange(self, connection: ImpatientConnection, batch: list[_Message], after: int) -> bool:
        """Send the messages, and receive those numbered above `after`; return whether there may be more."""
        self._pending_requests |= {
            message.request: (message.recipient, message.done) for message in batch if message.done
        }
        try:
            now, messages = self._execute(connection, batch, after)
        except BaseException:
            # A reply that arrives twice is ignored the second time.
            with self._lock:
                self._outgoing.extendleft(message for message in reversed(batch) if message.done is None)
            raise
        if self._is_failing:
            self._is_failing = False
            _logger.warning("%s: requests are sent to other nodes again", self._address.name)
        self._read_messages = [(number, request) for number, request, _, _ in messages]
        self._read = max(self._read, *(number for number, _ in self._read_messages), 0)
        for _, request, reply_to, body in messages:
            self._handle_message(request, reply_to, body)
        if self._exchanged_at is not None and now - self._exchanged_at > _LONGEST_ABSENCE:
            sent_now = {message.request for message in batch}
            late = [request for request in self._pending_requests if request not in sent_now]
            self._fail(late, "replies may have been deleted while this node did not look for them")
        self._exchanged_at = now
        return len(messages) == _BATCH_ROWS or sum(len(body) for *_, body in messages) >= _BATCH_BYTES

    def _execute(
        self, connection: ImpatientConnection, batch: list[_Message], after: int
    ) -> tuple[float, list[tuple[int, int, str | None, bytes]]]:
        parameters = {
            "id": self._id,
            "after": after,
            "batch": _BATCH_BYTES,
            "rows": _BATCH_ROWS,
            "recipients": [message.recipient for message in batch],
            "requests": [message.request for message in batch],
            "reply_to": [self._id if message.done else None for message in batch],
            "bodies": [message.body for message in batch],
            "numbers": [number for number, _ in self._read_messages],
            "known": [request for _, request in self._read_messages],
        }
        query = _EXCHANGE.format(schema=self._address.schema).encode()
        rows = connection.execute(query, parameters, prepare=True, binary=True).fetchall()
        # One row may hold only the time.
        return rows[0][0], [row[1:] for row in rows if row[1] is not None]

    def _handle_message(self, request: int, reply_to: str | None, body: bytes) -> None:
        try:
            if self._vault is not None:
                body = self._vault.opened(body) or b""
            if reply_to is None:
                _, done = self._pending_requests.pop(request, (None, None))
                if done is not None:
                    done(body)
            elif self._is_open:
                self._serve(body, partial(self._reply, reply_to, request))
        except Exception:
            _logger.exception("a message of another node could not be taken")

    def _fail(self, requests: Collection[int], why: str) -> None:
        """Fail the requests with an unknown outcome."""
        for request in requests:
            _, done = self._pending_requests.pop(request, (None, None))
            if done is not None:
                _call_done(done, OutcomeUnknownError(f"nobody knows whether the request was carried out: {why}"))

    def _refuse(self, messages: Collection[_Message], why: str) -> None:
        for message in messages:
            if message.done is not None:
                _call_done(message.done, NotSentError(f"the request was not sent: {why}"))

    def _handle_ended_nodes(self, connection: ImpatientConnection) -> None:
        with self._lock:
            gone, self._ended_nodes = self._ended_nodes, set()
            unsent = [message for message in self._outgoing if message.recipient in gone]
            if unsent:
                self._outgoing = deque(message for message in self._outgoing if message.recipient not in gone)
        if gone:
            self._refuse(unsent, _ENDED)
            self._fail([request for request, (node_id, _) in self._pending_requests.items() if node_id in gone], _ENDED)
            self._delete(connection, _TO_NODES, ids=list(gone))

    def _sweep(self, connection: ImpatientConnection) -> None:
        """Delete messages that have not been read for long."""
        self._swept_at = time.monotonic()
        self._floor, self._read_before = self._read_before, self._read
        self._fail(self._delete(connection, _OLD), "the other node has not read it, and may do so just now")

    def _delete(self, connection: ImpatientConnection, condition: str, **parameters: object) -> list[int]:
        """Delete messages that no other node is deleting, and return the numbers of the requests among them."""
        query = _DELETE.format(schema=self._address.schema, condition=condition).encode()
        rows = connection.execute(query, {"id": self._id, **parameters}).fetchall()
        return [request for request, is_request in rows if is_request]

    def _handle_lost_connection(self, error: Exception) -> None:
        """Handle the loss of the connection: the last messages may have taken effect or not."""
        why = " ".join(str(error).split())
        if not isinstance(error, psycopg.Error):
            _logger.error("%s: requests could not be sent to other nodes", self._address.name, exc_info=error)
        elif not self._is_failing:
            _logger.warning("%s: no requests are sent to other nodes now: %s", self._address.name, why)
        self._is_failing = True
        self._disconnect()
        self._fail(list(self._pending_requests), f"the connection to {self._address.name} was lost: {why}")

    def _wait_to_reconnect(self, selector: DefaultSelector, pause: float) -> None:
        """Wait before the next attempt to connect, and refuse requests meanwhile."""
        until = time.monotonic() + pause
        while self._is_open and (left := until - time.monotonic()) > 0:
            with self._lock:
                unsent = [message for message in self._outgoing if message.done]
                self._outgoing = deque(message for message in self._outgoing if not message.done)
            self._refuse(unsent, f"{self._address.name} cannot be reached")
            self._wait(selector, left)

    def _end(self) -> None:
        self._refuse(self._outgoing, _CLOSED)
        self._outgoing = deque(message for message in self._outgoing if not message.done)
        if self._connection is not None:
            try:
                while self._outgoing:
                    self._exchange(self._connection, self._next_batch(), self._floor)
                self._delete(self._connection, _TO_OR_FROM_THIS_NODE)
            except Exception as error:  # noqa: BLE001 - whatever it is, closing must not be held up
                _logger.warning("%s: the last replies may not have been sent: %s", self._address.name, error)
            self._disconnect()
        self._fail(list(self._pending_requests), _CLOSED)
        self._wake_receiver.close()
        self._wake_sender.close()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _call_done(done: Done, error: RelayError) -> None:
    try:
        done(error)
    except Exception:
        _logger.exception("the failure of a request to another node could not be reported to its sender")
