"""Sends the spans of a log to a collector: a projection whose position advances once they are accepted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

import msgspec
from sqlalchemy import Column, MetaData, Table, Text, delete, insert, select
from sqlalchemy.exc import DBAPIError

from reenact.domain.errors import (
    ConfigurationError,
    LogEncryptedError,
    ServerUnreachableError,
    StorageError,
    WrongKeyError,
)
from reenact.projections.errors import ProjectionFailedError, ReadModelError
from reenact.projections.log import AuditedLog, Row
from reenact.projections.views.declared import Projection
from reenact.projections.views.hosted import OwnPlace, UserProjection, UserTables
from reenact.projections.views.transactions import Replaced, is_passing, move_progress, trouble
from reenact.tracing.log_spans import LogSpans
from reenact.tracing.metrics import Sums, added, as_text, from_text
from reenact.tracing.spans import Span

NAME: Final = "tracing"
BATCH = 500
"""The number of events that are read at a time; their spans are sent before more are read."""
Send: TypeAlias = Callable[[Sequence[Span], Sums, Row, int], None]
"""Sends spans, the sums up to and including them, the log's first event, and the position before them."""
_TABLES = MetaData()
_SUMS = Table("sums", _TABLES, Column("sums", Text, nullable=False))

_HINTS = {
    401: "it wants credentials; OTEL_EXPORTER_OTLP_HEADERS has them",
    403: "the credentials in OTEL_EXPORTER_OTLP_HEADERS may not do this",
    404: "nothing takes this there; is it an address for OTLP over HTTP, and for metrics, if these are sent?",
}


class CollectorUnreachableError(ReadModelError, ServerUnreachableError):
    """The collector does not answer, or cannot accept anything now; nothing is lost, and it is tried again."""

    code = "collector_unreachable"


class CollectorRefusedError(ProjectionFailedError, ConfigurationError):
    """The collector rejects the kind of data, the credentials, or the address; `status` is the HTTP status.

    Nothing is lost: the rejected data begins at the position, and is sent when the cause is removed.
    """

    code = "collector_refused"

    def __init__(self, collector: str, status: int, position: int = 0) -> None:
        super().__init__(position, "", "", f"{collector} answers {status}")
        hint = _HINTS.get(status, "is it an address for OTLP over HTTP, and is what is sent not too large for it?")
        self.args = (f"the collector {collector} refuses what it is sent, with HTTP status {status}: {hint}",)
        self.reason = str(self.args[0])
        self.collector = collector
        self.status = status

    def again(self) -> CollectorRefusedError:
        """Return a new error of the same content, for the next caller."""
        return CollectorRefusedError(self.collector, self.status, self.position)


class SentSpans(Projection):
    """The position up to which spans are sent, and the sums of the metrics up to there, which later sums continue."""

    name = NAME
    tables = _TABLES


class _Batch(msgspec.Struct, frozen=True):
    """The spans and sums of some events of the log; `after` is the position before them, `last` the last of them."""

    after: int
    last: Row
    spans: tuple[Span, ...]
    sums: Sums


class _Position(UserTables):
    """The position up to which spans are sent. One batch is held in memory until the collector has accepted it."""

    def __init__(
        self,
        projection: Projection,
        place: OwnPlace,
        log: AuditedLog,
        number: int,
        *,
        send: Send,
        content: bool,
        stream: str | None,
    ) -> None:
        super().__init__(projection, place, log, number)
        self._audited = log
        self._stream = stream
        self._send = send
        self._spans = LogSpans(log, content=content)
        self._beginning: Row | None = None
        self._batch: _Batch | None = None
        self._sums: Sums = {}
        self._reached: int | None = None  # the position up to which `_spans` and `_sums` have got events

    def advance(self, limit: int | None = None) -> bool:
        """Send the spans of further events, then advance the position; return whether there were any events.

        Raises:
            CollectorRefusedError: the collector rejects them.
            CollectorUnreachableError: the collector cannot accept anything now.
            LogEncryptedError, WrongKeyError: there is no key ring for the log here, or that of another log.
            ProjectionFailedError: the log has lost something that an event needs.
            ReadModelError: the log cannot be read, or the position cannot be written.
        """
        batch = self._batch
        if batch is None or batch.after != self.position:
            batch = self._batch = self._next(BATCH if limit is None else limit)
        if batch is None:
            return False
        assert self._beginning is not None  # there are events, so the log has a first one
        self._send(batch.spans, batch.sums, self._beginning, batch.after)
        self._record_progress(batch)
        return True

    def _next(self, limit: int) -> _Batch | None:
        try:
            rows = self._audited.find(after=self.position, stream=self._stream, limit=limit)
            self._beginning = self._beginning or next(iter(self._log.read_all(after=0, limit=1)), None)
        except (LogEncryptedError, WrongKeyError):
            raise
        except StorageError as error:
            raise ReadModelError(f"the log cannot be read: {error}") from error
        if not rows:
            return None
        if self._reached != self.position:  # the first batch, or another process has sent some meanwhile
            self._spans.forget()
            self._sums = self._stored_sums()
        self._reached = None
        spans, last = self._spans_of(rows)
        self._sums, self._reached = added(self._sums, spans), last.position
        return _Batch(self.position, last, tuple(spans), self._sums)

    def _spans_of(self, rows: Sequence[Row]) -> tuple[list[Span], Row]:
        """Return the spans of the events before the first one that fails, and the last event before it."""
        spans: list[Span] = []
        last: Row | None = None
        for row in rows:
            try:
                spans.extend(self._spans.of([row]))
            except Exception as error:
                self._spans.forget()
                if last is None:
                    raise self._failed(row, error) from error
                break
            last = row
        assert last is not None  # there are rows
        return spans, last

    def _record_progress(self, batch: _Batch) -> None:
        try:
            with self._place.writing(self.number) as connection:
                is_ours = move_progress(connection, batch.after, batch.last)
                if is_ours and batch.spans:
                    connection.execute(delete(_SUMS))
                    connection.execute(insert(_SUMS).values(sums=as_text(batch.sums)))
        except Replaced:
            self._follow()
        except DBAPIError as error:
            if is_passing(error):
                raise trouble(error) from error
            raise
        else:
            self.position = batch.last.position if is_ours else self._place.progress_of(self.number).position
            self._batch = None

    def _stored_sums(self) -> Sums:
        try:
            with self._place.writing(self.number) as connection:
                found = connection.execute(select(_SUMS.c.sums)).scalar()
        except DBAPIError as error:
            raise trouble(error) from error
        return {} if found is None else from_text(found)


class Sending(UserProjection):
    """Sends the spans of a log to a collector, on a thread of its own once it is started. Thread-safe."""

    def __init__(
        self,
        place: OwnPlace,
        log: AuditedLog,
        send: Send,
        *,
        content: bool,
        stream: str | None = None,
        look: float | None = None,
        is_leader: Callable[[], bool] | None = None,
    ) -> None:
        """Read the position at the place, or begin with the first event of the log, or of the one stream.

        `look` and `is_leader` are as for any projection.

        Raises:
            ReadModelError: the place cannot be read or written, or the log cannot be read.
        """
        self._open_at = partial(_Position, SentSpans(), place, log, send=send, content=content, stream=stream)
        super().__init__(SentSpans(), place, log, look=look, is_leader=is_leader)

    @property
    def failure(self) -> ReadModelError | None:
        """The error that stops it, or None."""
        return None if self._runner is None else self._runner.failure

    def catch_up(self) -> None:
        """Send everything up to the log's present end; raises as `wait_for` does, with no timeout and no retries."""
        if self._runner is not None:
            self._runner.catch_up()

    def _open(self, number: int) -> UserTables:
        return self._open_at(number)
