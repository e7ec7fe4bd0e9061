"""Implements the `eventsourcing` library's interfaces: PERSISTENCE_MODULE="reenact.actors.journal.recorder".

SQLITE_DBNAME is the file, SQLITE_SYNCHRONOUS the durability of a commit (FULL, NORMAL, OFF), and ORIGINATOR_ID_TYPE
whether ids are returned as UUIDs (uuid) or as stored (text). If POSTGRES_DBNAME is set, the log is in PostgreSQL, at
POSTGRES_HOST, POSTGRES_PORT, POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_SCHEMA, as for the library's own recorders,
with POSTGRES_SYNCHRONOUS as the durability of a commit.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Literal, TypeAlias, TypeVar
from urllib.parse import quote, urlencode
from uuid import UUID
from weakref import finalize

from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    InfrastructureFactory,
    IntegrityError,
    ListenNotifySubscription,
    Notification,
    OperationalError,
    ProcessRecorder,
    StoredEvent,
    Tracking,
    TrackingRecorder,
)
from eventsourcing.utils import Environment, EnvType, resolve_topic

from reenact.actors.journal.api import Committed, Synchronous
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.opening import require_driver
from reenact.actors.journal.requests import Encoded, Foreign
from reenact.actors.journal.seeking import MOST, Cells, seek
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.journal.stored import StoredJournal
from reenact.domain.errors import ConflictError, ReenactError, StorageError, opened_before_fork

IdType: TypeAlias = Literal["uuid", "text"]
Purpose: TypeAlias = Literal["events", "snapshots"]

_AnyRecorder = TypeVar("_AnyRecorder", bound="_Recorder")

_POSTGRES_SETTINGS = ("dbname", "host", "port", "user", "password", "schema")
"""The parameters of the URL that are settings, with the prefix POSTGRES_."""

_SNAPSHOTS = """
    SELECT originator_version, topic, state FROM stored_snapshots
    WHERE originator_id = ? AND originator_version > ? AND originator_version <= ?
    ORDER BY originator_version
"""


class _Recorder:
    """The use of the journal that all recorders share."""

    lease: JournalLease | None = None
    """Keeps the journal open if a factory has created the recorder, since the factory itself may be dropped."""

    def __init__(self, journal: StoredJournal, *, id_type: IdType = "uuid", purpose: Purpose = "events") -> None:
        """Record into the journal, which the caller must close."""
        self._journal = journal
        self._process = os.getpid()
        self._id_type: IdType = id_type
        self.purpose: Purpose = purpose

    def _check_process(self) -> None:
        """Raise `OperationalError` in a forked child, where the thread that writes does not exist."""
        if self._process != os.getpid():
            raise OperationalError(str(opened_before_fork("application")))

    def _insert(self, stored_events: Sequence[StoredEvent], tracking: Tracking | None) -> list[int]:
        """Make everything durable and return the positions of the events."""
        self._check_process()
        rows = tuple(
            Encoded(_stored_id(event.originator_id), event.originator_version, event.topic, event.state)
            for event in stored_events
        )
        events, snapshots = (rows, ()) if self.purpose == "events" else ((), rows)
        progress = (tracking.application_name, tracking.notification_id) if tracking else None
        try:
            outcome = self._journal.writer.wait(
                lambda done: Foreign(done, events=events, snapshots=snapshots, tracking=progress)
            )
        except ReenactError as error:
            raise OperationalError(str(error)) from error
        match outcome:
            case Committed(position=last):
                return list(range(last - len(events) + 1, last + 1))
            case ConflictError(stream=name, actual=seen) if progress is not None and name == progress[0]:
                message = f"of {name!r}, notification {progress[1]} was processed before: {seen} is the last that was"
                raise IntegrityError(message) from outcome
            case ConflictError():
                raise IntegrityError(str(outcome)) from outcome
            case _:
                raise OperationalError(str(outcome)) from outcome

    def _select(self, query: str, parameters: Sequence[str | int | bytes]) -> list[Cells]:
        try:
            return self._journal.select(query, parameters)
        except ReenactError as error:
            raise OperationalError(str(error)) from error

    def _given_id(self, stored: str) -> UUID | str:
        # Streams of this library's actors have names that are not UUIDs, whatever type the application's ids have.
        if self._id_type == "uuid":
            with suppress(ValueError):
                return UUID(stored)
        return stored


class JournalAggregateRecorder(_Recorder, AggregateRecorder):
    """Records events or snapshots of aggregates; the versions of an aggregate's events have no gaps."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **_: object) -> Sequence[int] | None:
        """Record all events or none.

        Raises:
            IntegrityError: a version is taken, or does not follow the previous one.
            OperationalError: the log cannot be written.
        """
        self._insert(stored_events, None)
        return None

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """Return the records of the aggregate within the bounds."""
        stream, above, until = _stored_id(originator_id), -1 if gt is None else gt, MOST if lte is None else lte
        found: Iterable[tuple[int, str, bytes]]
        if self.purpose == "snapshots":
            snapshots: list[tuple[int, str, bytes]] = self._select(_SNAPSHOTS, (stream, above, until))
            found = reversed(snapshots) if desc else snapshots
        else:
            events = seek(self._select, after=above, until=until, stream=stream, backwards=desc)
            found = ((version, topic, state) for _, version, _, topic, state, _ in events)
        return [StoredEvent(self._given_id(stream), *each) for each in islice(found, limit)]


class JournalApplicationRecorder(JournalAggregateRecorder, ApplicationRecorder):
    """Records events of aggregates in one global order, and lets subscribers follow them."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **_: object) -> Sequence[int] | None:
        """Record all events or none, and return their positions; raises as the aggregate recorder does."""
        return self._insert(stored_events, None)

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """Return events within the bounds, in the order of their positions."""
        first = 0 if start is None else start if inclusive_of_start else start + 1
        events = seek(self._select, after=max(0, first - 1), until=MOST if stop is None else stop)
        found = (
            Notification(self._given_id(stored), version, topic, state, position)
            for stored, version, position, topic, state, _ in events
            if not topics or topic in topics
        )
        return list(islice(found, limit))

    def max_notification_id(self) -> int | None:
        """Return the position of the last event, None if there is none."""
        return self._journal.head() or None

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> JournalSubscription:
        """Follow the events after position `gt`; use the result as a context manager."""
        return JournalSubscription(self, gt=gt, topics=topics)

    def listen(self, subscription: JournalSubscription) -> None:
        """Wake the subscription after each commit."""
        self._check_process()
        self._journal.watch(subscription.wake)

    def unlisten(self, subscription: JournalSubscription) -> None:
        """Stop waking the subscription. Idempotent."""
        self._journal.unwatch(subscription.wake)


class JournalSubscription(ListenNotifySubscription[JournalApplicationRecorder]):
    """Iterates over events as they are committed; between commits it sleeps."""

    def __init__(self, recorder: JournalApplicationRecorder, gt: int | None = None, topics: Sequence[str] = ()) -> None:
        """Follow the recorder's events."""
        super().__init__(recorder=recorder, gt=gt, topics=topics)
        recorder.listen(self)
        # Commits during the set-up have not woken it.
        self.wake()

    def wake(self, _position: int = 0) -> None:
        """Check for new events."""
        self._has_been_notified.set()

    def stop(self) -> None:
        """End the iteration."""
        super().stop()
        self._recorder.unlisten(self)


class JournalTrackingRecorder(_Recorder, TrackingRecorder):
    """Records the progress of readers of other logs."""

    def insert_tracking(self, tracking: Tracking) -> None:
        """Record the reader's position.

        Raises:
            IntegrityError: the reader has already reached it.
            OperationalError: the log cannot be written.
        """
        self._insert((), tracking)

    def max_tracking_id(self, application_name: str) -> int | None:
        """Return the reader's last position, None if it has none."""
        query = "SELECT notification_id FROM tracking WHERE application_name = ?"
        rows: list[tuple[int]] = self._select(query, (application_name,))
        return rows[0][0] if rows else None


class JournalProcessRecorder(JournalTrackingRecorder, JournalApplicationRecorder, ProcessRecorder):
    """Records events together with the position up to which their source was read."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **others: object) -> Sequence[int] | None:
        """Record all events or none, with the reader's position in `tracking`, if given; raises as the others do."""
        match others.get("tracking"):
            case Tracking() | None as tracking:
                return self._insert(stored_events, tracking)
            case other:
                message = f"tracking must be a Tracking, not {other!r}"
                raise TypeError(message)


class JournalFactory(InfrastructureFactory[JournalTrackingRecorder]):
    """Creates the recorders of one log."""

    def __init__(self, env: Environment | EnvType | None) -> None:
        """Read the settings; the first recorder opens the log.

        Raises:
            OSError: a setting is missing or invalid.
        """
        super().__init__(env)
        self._id_type: IdType = _id_type(self.env.get("ORIGINATOR_ID_TYPE", "uuid"))
        is_in_postgres = bool(self.env.get("POSTGRES_DBNAME"))
        self._path = None if is_in_postgres else _path(self.env.get("SQLITE_DBNAME"))
        self._synchronous: Synchronous = self._synchronous_setting(
            "POSTGRES_SYNCHRONOUS" if is_in_postgres else "SQLITE_SYNCHRONOUS"
        )
        self._lease: JournalLease | None = None

    def aggregate_recorder(self, purpose: str = "events") -> AggregateRecorder:
        """Return a recorder of events or of snapshots; raises as `application_recorder` does."""
        if purpose not in ("events", "snapshots"):
            message = f"a log has events and snapshots, and no {purpose!r}"
            raise ValueError(message)
        recorder = self._make(JournalAggregateRecorder)
        recorder.purpose = "events" if purpose == "events" else "snapshots"
        return recorder

    def application_recorder(self) -> ApplicationRecorder:
        """Return a recorder of the events of an application.

        Raises:
            ConfigurationError: the PostgreSQL driver is not installed.
            StorageError: the log cannot be opened.
        """
        return self._make(self._recorder_class(self.APPLICATION_RECORDER_TOPIC, JournalApplicationRecorder))

    def tracking_recorder(
        self, tracking_recorder_class: type[JournalTrackingRecorder] | None = None
    ) -> JournalTrackingRecorder:
        """Return a recorder of readers' progress; raises `TypeError`, and what `application_recorder` raises."""
        given: type = tracking_recorder_class or self._recorder_class(
            self.TRACKING_RECORDER_TOPIC, JournalTrackingRecorder
        )
        if not issubclass(given, JournalTrackingRecorder):
            message = (
                f"{given.__qualname__} is not a subclass of JournalTrackingRecorder; give the view the module that it "
                "is made for, in the setting PERSISTENCE_MODULE with the projection's name before it"
            )
            raise TypeError(message)
        return self._make(given)

    def process_recorder(self) -> ProcessRecorder:
        """Return a recorder of events with their source positions; raises as `application_recorder` does."""
        return self._make(self._recorder_class(self.PROCESS_RECORDER_TOPIC, JournalProcessRecorder))

    def close(self) -> None:
        """Release the lease on the log; the last release makes pending events durable and closes it. Idempotent."""
        if self._lease is not None:
            self._lease.release()

    def _make(self, recorder_class: type[_AnyRecorder]) -> _AnyRecorder:
        lease = self._open()
        recorder = recorder_class(lease.journal, id_type=self._id_type)
        recorder.lease = lease
        return recorder

    def _open(self) -> JournalLease:
        if self._lease is None:
            lease = (
                self._open_postgres() if self._path is None else lease_file(self._path, synchronous=self._synchronous)
            )
            try:
                lease.journal.check_finished()
            except StorageError:
                lease.release()
                raise
            self._lease = lease
        return self._lease

    def _open_postgres(self) -> JournalLease:
        require_driver()
        from reenact.actors.journal.postgres.journal import PostgresJournal  # noqa: PLC0415 - an extra

        settings = {name: self.env.get(f"POSTGRES_{name.upper()}") for name in _POSTGRES_SETTINGS}
        stated = urlencode({key: value for key, value in settings.items() if value}, quote_via=quote)
        url = f"postgresql:///?{stated}"
        journal = PostgresJournal.open(url, EventCodec(()), synchronous=self._synchronous, shared=True)
        return JournalLease(journal, journal.close)

    def _synchronous_setting(self, key: str) -> Synchronous:
        match self.env.get(key, "FULL"):
            case "FULL" | "NORMAL" | "OFF" as synchronous:
                return synchronous
            case other:
                raise OSError(f"{key} must be 'FULL', 'NORMAL' or 'OFF', not {other!r}")

    def _recorder_class(self, key: str, default: type[_AnyRecorder]) -> type[_AnyRecorder]:
        """Return the class named in the environment, which must be the default class or a subclass."""
        topic = self.env.get(key)
        if not topic:
            return default
        named: object = resolve_topic(topic)
        if isinstance(named, type) and issubclass(named, default):
            return named
        message = f"{key} names {topic}, which is not a subclass of {default.__qualname__}"
        raise OSError(message)


Factory = JournalFactory


def _stored_id(given: UUID | str) -> str:
    return given.hex if isinstance(given, UUID) else given


def _path(value: str | None) -> str:
    if not value or ":memory:" in value or value.startswith("file:"):
        message = f"SQLITE_DBNAME must be the path of a file, not {value!r}"
        raise OSError(message)
    return value


def _id_type(value: str | None) -> IdType:
    match value:
        case "uuid" | "text":
            return value
        case _:
            message = f"ORIGINATOR_ID_TYPE must be 'uuid' or 'text', not {value!r}"
            raise OSError(message)


class JournalLease:
    """Keeps a journal open until the lease is released or garbage-collected."""

    def __init__(self, journal: StoredJournal, release: Callable[[], object]) -> None:
        """Call `release` once, when the lease ends, unless it ends in a forked child."""
        self.journal = journal
        self._release = partial(_release_unless_forked, os.getpid(), release)
        # The garbage collector may run on any thread, with any lock held, so closing is left to a thread of its own.
        self._abandoned = finalize(self, _start, self._release)
        # Not at exit: the process ends, and its locks with it.
        self._abandoned.atexit = False

    def release(self) -> None:
        """End the lease. Idempotent."""
        if self._abandoned.detach() is not None:
            self._release()


@dataclass
class _OpenFile:
    journal: SqliteJournal
    synchronous: Synchronous
    leases: int = 0


_open_files: dict[tuple[int, str], _OpenFile] = {}
"""By process id, since a forked child inherits this, and by path."""
_lock = threading.Lock()
"""Protects `_open_files`. Held while a file is opened or closed, so that a thread that opens it again waits."""


def lease_file(path: str, *, synchronous: Synchronous) -> JournalLease:
    """Return a lease of the log in the file, opening it if necessary; the last lease closes it.

    Raises:
        OSError: the file is open with a different `synchronous`.
        LogLockedError: another process, or a runtime or an actor system of this one, is writing the log.
        StorageError: the log cannot be opened.
    """
    key = os.getpid(), os.path.realpath(path)
    with _lock:
        file = _open_files.get(key)
        if file is None:
            file = _OpenFile(SqliteJournal.open(path, EventCodec(()), synchronous=synchronous), synchronous)
            _open_files[key] = file
        elif file.synchronous != synchronous:
            message = f"{path} is open in this process with {file.synchronous!r}; {synchronous!r} has to be the same"
            raise OSError(message)
        file.leases += 1
    return JournalLease(file.journal, partial(_release, key))


def _release(key: tuple[int, str]) -> None:
    with _lock:
        file = _open_files[key]
        file.leases -= 1
        if not file.leases:
            del _open_files[key]
            file.journal.close()


def _release_unless_forked(process: int, release: Callable[[], object]) -> None:
    if process == os.getpid():
        release()


def _start(release: Callable[[], object]) -> None:
    threading.Thread(target=release, name="reenact-journal-close", daemon=True).start()
