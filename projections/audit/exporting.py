"""A log as the lines of an export: which streams come along, and that nothing leaves that is not as it was written."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from hashlib import blake2b
from typing import Final, Protocol, TypeVar

import msgspec

from reenact.domain.chain import DIGEST_SIZE, FEED_GENESIS, STREAM_GENESIS, FeedRecord, Record, Timer
from reenact.domain.errors import LogUnusableError, SessionNotFoundError, UnstorableError
from reenact.domain.session import SessionBranched, SessionCreated
from reenact.projections.audit.api import OnProgress, Progress
from reenact.projections.audit.forms import Forms, named, time_of
from reenact.projections.audit.history import stream_of
from reenact.projections.audit.lines import (
    FORMAT,
    MOST_BYTES,
    End,
    Header,
    Line,
    TimerLine,
    encoded,
    event_line,
    row_line,
)

TOLD_EVERY: Final = 1000
"""Progress is told once for so many lines."""

_Record = TypeVar("_Record", Record, FeedRecord)


class RawLog(Protocol):
    """A log's records at one moment; `streams` are those that are asked for, None for all, and `topics` likewise."""

    @property
    def name(self) -> str:
        """What messages call the log."""
        ...

    def head(self) -> int:
        """Return the position of the last event, 0 if there is none."""
        ...

    def count_events(self, streams: Sequence[str] | None = None) -> int:
        """Return how many events there are."""
        ...

    def count_rows(self, topics: Sequence[str] | None = None) -> int:
        """Return how many rows of feeds there are."""
        ...

    def events(self, streams: Sequence[str] | None = None) -> Generator[Record]:
        """Yield the events in the order of their positions."""
        ...

    def rows(self, topics: Sequence[str] | None = None) -> Iterator[FeedRecord]:
        """Yield the rows of feeds by topic and cursor."""
        ...

    def timers(self, streams: Sequence[str] | None = None) -> Iterator[Timer]:
        """Yield when streams are to be woken, by stream."""
        ...


class Redacting(Protocol):
    """What is taken out on the way; each record comes with the digest of the one before it."""

    def check_name(self, name: str) -> None:
        """Raise `RedactionError` if a name that has to stay holds what must not leave."""
        ...

    def event(self, record: Record, previous: bytes) -> Record:
        """Return the event as it may leave."""
        ...

    def row(self, record: FeedRecord, previous: bytes) -> FeedRecord:
        """Return the row as it may leave."""
        ...


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What an export holds; `redacted` is how many events and rows say less than the log does."""

    sessions: tuple[str, ...] | None
    events: int
    rows: int
    redacted: int


class Export:
    """One export of a log; `forms` None is one of which nobody knows the types of the events."""

    def __init__(
        self,
        log: RawLog,
        *,
        forms: Forms | None,
        software: str,
        exported_at: datetime,
        sessions: Sequence[str] | None = None,
        redacting: Redacting | None = None,
        feeds: bool = True,
        progress: OnProgress | None = None,
    ) -> None:
        """Prepare to export these sessions with all that they need, everything if None.

        Raises:
            SessionNotFoundError: a session is not in the log.
            LogUnusableError: the log is not as it was written.
            RedactionError: the policy does not go with these sessions.
        """
        self._log = log
        self._forms = forms
        self._redacting = redacting
        self._progress = progress or _nobody
        self._streams = None if sessions is None or forms is None else _needed(log, forms, sessions)
        self._topics: Sequence[str] | None = self._streams if feeds else ()
        self._redacted = 0
        self._written = 0
        timers = sum(1 for _ in log.timers(self._streams))
        self.header = Header(
            format=FORMAT,
            software=software,
            exported_at=exported_at,
            head=log.head(),
            sessions=None if sessions is None else tuple(sessions),
            redacted=redacting is not None,
            feeds=feeds,
            events=log.count_events(self._streams),
            rows=log.count_rows(self._topics),
            timers=timers,
        )

    @property
    def result(self) -> Exported:
        """What was exported, once all lines are."""
        header = self.header
        return Exported(sessions=header.sessions, events=header.events, rows=header.rows, redacted=self._redacted)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines, each with its end.

        Raises:
            StorageError: the log cannot be read.
            LogUnusableError: it is not as it was written; the message names the record.
            UnstorableError: a record is too long for a line.
            RedactionError: the policy cannot be carried out.
        """
        digest = blake2b(digest_size=DIGEST_SIZE)
        for line in self._before_the_end():
            text = encoded(line)
            if len(text) > MOST_BYTES:
                raise UnstorableError(
                    f"{self._log.name}: a record is longer than {MOST_BYTES} bytes, too long to leave"
                )
            digest.update(text)
            yield text
        header = self.header
        yield encoded(End(events=header.events, rows=header.rows, timers=header.timers, digest=digest.hexdigest()))

    def _before_the_end(self) -> Iterator[Line]:
        yield self.header
        yield from self._events()
        yield from self._rows()
        for timer in self._log.timers(self._streams):
            yield TimerLine(stream=timer.stream, due=timer.due)

    def _events(self) -> Iterator[Line]:
        ends: dict[str, tuple[int, bytes]] = {}
        redacting = self._redacting
        for record in self._counted("events", self._log.events(self._streams), self.header.events):
            end = ends.get(record.stream)
            version, previous = end or beginning_of(record)
            if record.version != version + 1 or not record.follows(previous):
                raise self._damaged(f"event {record.version} of {record.stream!r}")
            ends[record.stream] = (record.version, record.digest)
            leaving = record
            if redacting is not None:
                if end is None:
                    redacting.check_name(record.stream)
                leaving = redacting.event(record, previous)
                self._redacted += leaving is not record
            recorded_at, event = (
                (None, None) if self._forms is None else self._forms.decode(leaving.topic, leaving.state)
            )
            yield event_line(
                leaving,
                recorded_at=None if recorded_at is None else time_of(recorded_at),
                fields=None if event is None else named(event),
            )

    def _rows(self) -> Iterator[Line]:
        topic, cursor, previous = "", 0, FEED_GENESIS
        for record in self._counted("feeds", self._log.rows(self._topics), self.header.rows):
            if record.topic != topic:
                topic, cursor, previous = record.topic, 0, FEED_GENESIS
            if record.first_cursor != cursor + 1 or not record.follows(previous):
                raise self._damaged(f"row {record.first_cursor} of the feed of {topic!r}")
            leaving = record
            if self._redacting is not None:
                leaving = self._redacting.row(record, previous)
                self._redacted += leaving is not record
            cursor, previous = record.last_cursor, record.digest
            yield row_line(leaving)

    def _counted(self, phase: str, records: Iterable[_Record], total: int) -> Iterator[_Record]:
        for done, record in enumerate(records, 1):
            yield record
            if done % TOLD_EVERY == 0 or done == total:
                self._progress(Progress(phase, done, total))

    def _damaged(self, what: str) -> LogUnusableError:
        message = f"{self._log.name}: {what}, or what stood before it, is not as it was written; nothing was exported"
        return LogUnusableError(f"{message}: verify the log, and restore a copy of it")


def beginning_of(record: Record) -> tuple[int, bytes]:
    """Return what stands before the first event of a stream; one that another library has begun may start at 0."""
    return -1 if record.version == 0 else 0, STREAM_GENESIS


def _needed(log: RawLog, forms: Forms, sessions: Sequence[str]) -> list[str]:
    """Return the streams of the sessions, of what they branch off from, and of all their containers and images."""
    needed: dict[str, None] = {}
    waiting = list(reversed(sessions))
    while waiting:
        session_id = waiting.pop()
        stream = stream_of(session_id)
        if stream in needed:
            continue
        with closing(log.events([stream])) as records:
            first = next(records, None)
        if first is None:
            raise SessionNotFoundError(session_id)
        needed[stream] = None
        _, event = forms.decode(first.topic, first.state)
        if isinstance(event, SessionCreated | SessionBranched):
            needed[f"container/{event.container_id}"] = needed[f"image/{event.image_id}"] = None
        if isinstance(event, SessionBranched):
            waiting.append(event.origin)
    return list(needed)


def _nobody(progress: Progress) -> None:
    """Tell nobody."""
