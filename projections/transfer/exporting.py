"""Writes a log, or some of its sessions with everything they depend on, as the lines of an export."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from hashlib import blake2b
from typing import Protocol

import msgspec

from reenact.domain.chain import BEGINNING, DIGEST_SIZE, GENESIS, DataKey, Row, Timer
from reenact.domain.chain import End as StreamEnd
from reenact.domain.children import ChildStarted
from reenact.domain.errors import LogUnusableError, SessionNotFoundError, UnstorableError
from reenact.domain.image import ImageRegistered
from reenact.domain.session.agent import HandoverRequested, ImageChanged
from reenact.domain.session.state import SessionBranched, SessionCreated, SessionForgotten
from reenact.domain.tools import is_object
from reenact.projections.cipher import ENCRYPTED, Cipher
from reenact.projections.log import OnProgress, Progress, stream_of
from reenact.projections.transfer.lines import (
    FORMAT,
    MOST_BYTES,
    End,
    Forms,
    Header,
    KeyLine,
    Line,
    TimerLine,
    encoded,
    events_of,
    named,
    row_line,
)
from reenact.projections.transfer.redacting import Redactor

REPORTED_EVERY = 1000
"""The number of lines between two reports of progress."""
_OF_IMAGES = SessionCreated | SessionBranched | SessionForgotten | HandoverRequested | ImageChanged
_LINKS = frozenset(
    {
        "session-created",
        "session-branched",
        "session-forgotten",
        "handover-requested",
        "image-changed",
        "child-started",
    }
)
"""The stored names of the events of sessions that name other streams; each session that can be read has one."""
_OF_IMAGE = frozenset({"image-registered"})
_encode = msgspec.msgpack.Encoder().encode


class RawLog(Protocol):
    """A log's rows in one consistent state; `streams` are the requested ones, None for all."""

    @property
    def name(self) -> str:
        """The log's name, as error messages show it."""
        ...

    def head(self) -> int:
        """Return the position of the last event, 0 if there is none."""
        ...

    def count_events(self, streams: Sequence[str] | None = None) -> int:
        """Return the number of events."""
        ...

    def count_rows(self, streams: Sequence[str] | None = None) -> int:
        """Return the number of rows."""
        ...

    def rows(self, streams: Sequence[str] | None = None) -> Generator[Row]:
        """Yield the rows in the order in which they were written."""
        ...

    def timers(self, streams: Sequence[str] | None = None) -> Iterator[Timer]:
        """Yield the timers, by stream."""
        ...

    def keys(self, streams: Sequence[str] | None = None) -> Iterator[DataKey]:
        """Yield the data keys of the streams, and those of content without a key of its own, by their ids."""
        ...


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an export; `redacted` is the number of rows that the redaction policy has changed."""

    sessions: tuple[str, ...] | None
    events: int
    rows: int
    redacted: int


class Export:
    """One export of a log; without `forms` the types of the events are unknown."""

    def __init__(
        self,
        log: RawLog,
        *,
        forms: Forms | None,
        software: str,
        exported_at: datetime,
        sessions: Sequence[str] | None = None,
        redacting: Redactor | None = None,
        feeds: bool = True,
        family: bool = False,
        progress: OnProgress | None = None,
        cipher: Cipher | None = None,
    ) -> None:
        """Prepare to export these sessions with all they depend on, everything if None; with families, if requested.

        Encrypted content is exported as it is, with its key, unless the export is redacted: then the `cipher` decrypts
        it.

        Raises:
            SessionNotFoundError: a session is not in the log.
            LogUnusableError: the log was changed.
            RedactionError: the policy cannot be applied to these sessions.
        """
        self._log = log
        self._forms = forms
        self._redacting = redacting
        self._progress = progress
        self._cipher = cipher
        self._streams = (
            None if sessions is None or forms is None else _streams_to_export(log, forms, sessions, family, cipher)
        )
        self._feeds = feeds
        self._redacted = 0
        # Forgotten content cannot be exported decrypted: the export must say that its key was destroyed.
        self._keys = [key for key in log.keys(self._streams) if redacting is None or key.wrapped is None]
        self.header = Header(
            format=FORMAT,
            software=software,
            exported_at=exported_at,
            head=log.head(),
            sessions=None if sessions is None else tuple(sessions),
            redacted=redacting is not None,
            feeds=feeds,
            events=log.count_events(self._streams),
            rows=self._count_rows(),
            timers=sum(1 for _ in log.timers(self._streams)),
            keys=len(self._keys),
        )

    @property
    def result(self) -> Exported:
        """The content of the export, complete once all lines were yielded."""
        header = self.header
        return Exported(sessions=header.sessions, events=header.events, rows=header.rows, redacted=self._redacted)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines, each with its line end.

        Raises:
            StorageError: the log cannot be read.
            LogUnusableError: it was changed; the message names the record.
            UnstorableError: a record is too long for a line.
            RedactionError: the policy cannot be applied.
        """
        digest = blake2b(digest_size=DIGEST_SIZE)
        for line in self._lines_before_end():
            text = encoded(line)
            if len(text) > MOST_BYTES:
                raise UnstorableError(
                    f"{self._log.name}: a record is longer than {MOST_BYTES} bytes, too long to leave"
                )
            digest.update(text)
            yield text
        header = self.header
        counts = {name: getattr(header, name) for name in ("events", "rows", "timers", "keys")}
        yield encoded(End(**counts, digest=digest.hexdigest()))

    def _lines_before_end(self) -> Iterator[Line]:
        yield self.header
        for key in self._keys:
            wrapped = None if key.wrapped is None else b64encode(key.wrapped).decode()
            yield KeyLine(id=key.id, stream=key.stream, wrapped=wrapped)
        total = self.header.rows
        for done, line in enumerate(self._rows(), 1):
            yield line
            if self._progress is not None and (done % REPORTED_EVERY == 0 or done == total):
                self._progress(Progress("rows", done, total))
        for timer in self._log.timers(self._streams):
            yield TimerLine(stream=timer.stream, due=timer.due)

    def _rows(self) -> Iterator[Line]:
        ends = StreamEnds()
        left: dict[str, bytes] = {}
        redacting = self._redacting
        for row in self._log.rows(self._streams):
            what = f"event {row.version} of {row.stream!r}" if row.count else f"what was heard of {row.stream!r}"
            previous, behind = ends.previous(row), left.get(row.stream, GENESIS)
            if ends.take(row) is not None:
                raise self._damaged(what)
            leaving = row
            if redacting is not None:
                if row.stream not in left:
                    redacting.check_name(row.stream)
                legible = row if row.key is None or self._cipher is None else _opened_row(row, previous, self._cipher)
                if legible is not None:
                    leaving = self._without_removed(redacting, legible, previous, what)
                    self._redacted += leaving is not legible
            if not (self._feeds or row.count):
                continue
            if not self._feeds and (row.heard or behind != previous):
                leaving = leaving.replaced(
                    previous, behind=behind, cause=leaving.cause, events=leaving.events, feed=None, cursor=0, heard=0
                )
            left[row.stream] = row.digest
            yield self._line(leaving, what)

    def _without_removed(self, redacting: Redactor, row: Row, previous: bytes, what: str) -> Row:
        try:
            return redacting.row(row, previous)
        except msgspec.DecodeError as error:
            raise self._damaged(what) from error

    def _line(self, row: Row, what: str) -> Line:
        try:
            return row_line(row, [(topic, state, self._fields(topic, state)) for topic, state in events_of(row)])
        except ValueError as error:
            raise self._damaged(what) from error

    def _fields(self, topic: str, state: bytes) -> dict[str, object] | None:
        if self._forms is None or state.startswith(ENCRYPTED):
            return None
        try:
            fields = named(self._forms.decode(topic, state)[1])
        except RecursionError:  # it is nested deeper than what a runtime records, and is exported without
            return None
        return fields if is_object(fields) else None

    def _count_rows(self) -> int:
        if self._feeds:
            return self._log.count_rows(self._streams)
        return sum(1 for row in self._log.rows(self._streams) if row.count)

    def _damaged(self, what: str) -> LogUnusableError:
        message = f"{self._log.name}: {what}, or something before it, is not as it was written; nothing was exported"
        return LogUnusableError(f"{message}: verify the log, and restore a copy of it")


class StreamEnds:
    """The ends of the streams of an export, updated with each row."""

    def __init__(self) -> None:
        self._ends: dict[str, StreamEnd] = {}

    def previous(self, row: Row) -> bytes:
        """Return the digest of the previous row of the same stream."""
        return self._ends.get(row.stream, BEGINNING)[2]

    def take(self, row: Row) -> str | None:
        """Take the next row of a stream; return None, or why it cannot be the next one."""
        end = self._ends.get(row.stream, BEGINNING)
        missing = row.missing(end)
        if missing is not None:
            return "{} {} of the stream is missing".format(*missing)
        if not row.follows(end[2]):
            return "the row, or the one before it, is not as it was written"
        self._ends[row.stream] = row.end(end)
        return None


def _streams_to_export(
    log: RawLog,
    forms: Forms,
    sessions: Sequence[str],
    family: bool,  # noqa: FBT001 - a value
    cipher: Cipher | None,
) -> list[str]:
    """Return the streams of the sessions, of those they branch off from, and of all their containers and images.

    Images that these images name, to call them or to hand over to them, are included. With the family, also the
    sessions that called them, and all child sessions, as far as they are in the log.
    """
    needed: dict[str, None] = {}
    images: dict[str, None] = {}
    waiting = list(reversed(sessions))
    relatives: set[str] = set()
    while waiting:
        session_id = waiting.pop()
        stream = stream_of(session_id)
        if stream in needed:
            continue
        events = _events_of(log, forms, stream, _LINKS, cipher)
        if not events:
            if session_id in relatives:
                continue
            raise SessionNotFoundError(session_id)
        needed[stream] = None
        for event in events:
            if isinstance(event, SessionCreated | SessionBranched | SessionForgotten):
                needed[f"container/{event.container_id}"] = None
            if isinstance(event, _OF_IMAGES):
                images[event.image_id] = None
            if isinstance(event, SessionBranched):
                waiting.append(event.origin)
            if family:
                found = _relatives_in(event)
                relatives.update(found)
                waiting += found
    return [*needed, *_image_streams(log, forms, list(images), cipher)]


def _image_streams(log: RawLog, forms: Forms, waiting: list[str], cipher: Cipher | None) -> dict[str, None]:
    """Return the streams of the images, and of the images that they name."""
    found: dict[str, None] = {}
    while waiting:
        stream = f"image/{waiting.pop()}"
        if stream not in found and (events := _events_of(log, forms, stream, _OF_IMAGE, cipher)):
            found[stream] = None
            waiting += [image for event in events if isinstance(event, ImageRegistered) for image in _named_in(event)]
    return found


def _named_in(event: ImageRegistered) -> list[str]:
    """Return the images that this one calls or hands over to."""
    definition = event.definition
    handovers = [tool.handover.image for tool in definition.tools if tool.handover is not None]
    return [*(agent.image_id for agent in definition.agents), *handovers]


def _events_of(log: RawLog, forms: Forms, stream: str, types: Collection[str], cipher: Cipher | None) -> list[object]:
    """Return the events of the stream that have these stored names."""
    with closing(log.rows([stream])) as rows:
        return [
            forms.decode(topic, state)[1]
            for row in rows
            for topic, state in _legible_events(row, cipher)
            if topic.partition(":")[0] in types
        ]


def _relatives_in(event: object) -> Sequence[str]:
    """Return the parent or child session that the event names."""
    match event:
        case SessionCreated(parent=parent) | SessionBranched(parent=parent) if parent is not None:
            return [parent.session_id]
        case ChildStarted(child_id=child_id):
            return [child_id]
        case _:
            return []


def _legible_events(row: Row, cipher: Cipher | None) -> Iterator[tuple[str, bytes]]:
    """Yield the events of the row that were not forgotten."""
    try:
        events = events_of(row)
    except ValueError as error:
        told = f"the row at position {row.position} of {row.stream!r} holds no events ({error}); nothing was exported"
        raise LogUnusableError(f"{told}: verify the log, and restore a copy of it") from error
    for topic, state in events:
        legible = state if cipher is None else cipher.opened(state)
        if legible is not None:
            yield topic, legible


def _opened_row(row: Row, previous: bytes, cipher: Cipher) -> Row | None:
    """Return the row with its parts decrypted, and sealed; None if its key was destroyed.

    `previous` is the digest of the row before it.

    Raises:
        ValueError: its events are not packed as events are.
        StorageError: its key is not available now, or the row was changed.
    """
    cause, feed = (None if part is None else cipher.opened(part) for part in (row.cause, row.feed))
    pairs = [(topic, cipher.opened(state)) for topic, state in events_of(row)]
    is_lost = (cause is None and row.cause is not None) or (feed is None and row.feed is not None)
    if is_lost or any(state is None for _, state in pairs):
        return None
    events = _encode(pairs) if pairs else row.events
    return row.replaced(previous, cause=cause, events=events, feed=feed, cursor=row.cursor, heard=row.heard)
