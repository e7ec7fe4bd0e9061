"""The `eventsourcing` library's `ProjectionRunner`: one event, one transaction, into the tables of ours."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from eventsourcing.application import Application
from eventsourcing.dispatch import singledispatchmethod
from eventsourcing.persistence import JSONTranscoder, Mapper, StoredEvent, Tracking
from eventsourcing.projection import Projection, ProjectionRunner
from eventsourcing.sqlite import SQLiteTrackingRecorder

from bench.handwritten import Handwritten, Value
from bench.measure import must
from reenact.actors.journal.codec import EventCodec, StoredForm
from reenact.actors.journal.seeking import cells_of
from reenact.domain.history.stored import STORED


class Sessions(Application[Any]):
    """The projected log: one of the library with our events, in memory, since its SQLite has no subscriptions."""


class SessionEvent(msgspec.Struct, frozen=True):
    """One of our events, with the fields that the library requires."""

    originator_id: str
    originator_version: int
    recorded_at: int
    event: object


class SessionMapper(Mapper[Any]):
    """Decodes events as fast as ours does."""

    def __init__(self, **_: object) -> None:
        super().__init__(JSONTranscoder())
        self._codec = EventCodec(StoredForm(name, kind) for name, kind in STORED.items())

    def to_domain_event(self, stored_event: StoredEvent) -> SessionEvent:
        """Decode the event."""
        recorded_at, event = self._codec.decode(stored_event.topic, stored_event.state)
        return SessionEvent(str(stored_event.originator_id), stored_event.originator_version, recorded_at, event)


class View(SQLiteTrackingRecorder):
    """The tables, and the position of the projection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as the base class
        super().__init__(*args, **kwargs)
        self._projector = Handwritten()

    def set_synchronous(self, synchronous: str) -> None:
        """Change SQLite's setting from the library's default, FULL; it writes over one connection."""
        with self.datastore.get_connection(commit=True) as connection:
            connection.cursor().execute(f"PRAGMA synchronous = {synchronous}")

    def write(self, event: SessionEvent, tracking: Tracking) -> None:
        """Write the rows of the event and its position in one transaction."""
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, tracking)

            def execute(statement: str, values: Sequence[Value]) -> None:
                cursor.execute(statement, values)

            position = tracking.notification_id
            self._projector.project(execute, event.originator_id, position, event.recorded_at, event.event)


class SessionsProjection(Projection[View]):
    """Passes each event to the view."""

    last: ClassVar[int] = 0
    done: ClassVar[threading.Event] = threading.Event()

    @singledispatchmethod
    def process_event(self, domain_event: SessionEvent, tracking: Tracking) -> None:
        self.view.write(domain_event, tracking)
        if tracking.notification_id == SessionsProjection.last:
            SessionsProjection.done.set()


def stock_projection(log: Path, tables: Path, synchronous: str) -> float:
    """Let the library's runner project the same events; return the seconds."""
    environment = {
        "SESSIONS_PERSISTENCE_MODULE": "eventsourcing.popo",
        "SESSIONS_MAPPER_TOPIC": f"{__name__}:{SessionMapper.__name__}",
        "SESSIONSPROJECTION_PERSISTENCE_MODULE": "eventsourcing.sqlite",
        "SESSIONSPROJECTION_SQLITE_DBNAME": str(tables),
    }
    with closing(sqlite3.connect(log)) as connection:
        rows = connection.execute(
            "SELECT stream, version, position, cause, events FROM steps WHERE count > 0 ORDER BY number"
        )
        stored = [StoredEvent(stream, version, topic, state) for stream, version, _, topic, state, _ in cells_of(rows)]
    SessionsProjection.last = len(stored)
    SessionsProjection.done.clear()
    with ProjectionRunner(
        application_class=Sessions, projection_class=SessionsProjection, view_class=View, env=environment
    ) as runner:
        runner.view.set_synchronous(synchronous)
        begun = time.perf_counter()
        runner.app.recorder.insert_events(stored)
        must(SessionsProjection.done.wait(600), "the stock runner has seen all")
        return time.perf_counter() - begun
