"""An export as it is read: each line is checked, so that what is altered, cut off or made up is found and named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Final, NoReturn, Protocol, TypeAlias

import msgspec
from msgspec import UNSET

from reenact.domain.chain import DIGEST_SIZE, FEED_GENESIS, FeedRecord, Record, Timer
from reenact.domain.errors import ExportUnusableError, LogUnusableError
from reenact.projections.audit.api import OnProgress, Progress
from reenact.projections.audit.exporting import TOLD_EVERY, beginning_of
from reenact.projections.audit.forms import Forms, agree, named, time_of
from reenact.projections.audit.lines import (
    FORMAT,
    MOST_BYTES,
    End,
    EventLine,
    Header,
    Line,
    RowLine,
    TimerLine,
    decoded,
)

Item: TypeAlias = Record | FeedRecord | Timer
_NO_EXPORT: Final = "the file is no export; name one that `reenact export` has written"
_CUT: Final = "the file is cut off here; export again, or copy it again"

_decode_segments = msgspec.msgpack.Decoder(list[tuple[dict[str, str], list[tuple[str, int, msgspec.Raw]]]]).decode


class Source(Protocol):
    """A file that is open for reading, in binary mode, at its beginning."""

    def readline(self, size: int = -1, /) -> bytes:
        """Return the next line, or as many bytes of it."""
        ...

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes."""
        ...


class ExportReader:
    """Reads an export once, from its beginning; `forms` None is for one whose events' types nobody knows.

    What it yields is good only if it comes to its end: the last line tells whether anything was changed.
    """

    def __init__(
        self, file: Source, name: str, *, forms: Forms | None = None, progress: OnProgress | None = None
    ) -> None:
        """Read the first line.

        Raises:
            ExportUnusableError: it is not that of an export.
            OSError: the file cannot be read.
        """
        self.name = name
        self._file = file
        self._forms = forms
        self._progress = progress
        self._digest = blake2b(digest_size=DIGEST_SIZE)
        self._line = 0
        self._here: Record | FeedRecord | Timer | None = None
        self._todays: dict[str, bool] = {}
        self._counts = [0, 0, 0]
        first = self._read()
        if not isinstance(first, Header):
            self._refuse(_NO_EXPORT)
        if first.format > FORMAT:
            self._refuse(f"the export has format {first.format}, newer than {FORMAT}; upgrade to read it")
        self.header = first

    def items(self) -> Iterator[Item]:
        """Yield the events, then the rows of feeds, then the timers, as an export has them.

        Raises:
            ExportUnusableError: the file is no whole and true export; the message names the line and the record.
            OSError: it cannot be read.
        """
        check_event, check_row = self._event_checks(), self._row_checks()
        while not isinstance(line := self._read(), End):
            match line:
                case EventLine():
                    self._count(0)
                    yield check_event(line)
                case RowLine():
                    self._count(1)
                    yield check_row(line)
                case TimerLine():
                    self._count(2)
                    yield Timer(line.stream, line.due)
                case _:
                    self._refuse("a line of this kind cannot stand here; export again")
            self._tell()
        self._check_end(line)

    def _count(self, kind: int) -> None:
        if any(self._counts[kind + 1 :]):
            self._refuse("a line of this kind cannot stand here; export again")
        self._counts[kind] += 1

    def _read(self) -> Line:
        self._line += 1
        self._here = None
        text = self._file.readline(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            self._refuse(f"the line is longer than {MOST_BYTES} bytes; no export has such a line")
        if not text.endswith(b"\n"):
            self._refuse(_NO_EXPORT if self._line == 1 else _CUT)
        try:
            line = decoded(text[:-1])
        except ValueError as error:
            self._refuse(_NO_EXPORT if self._line == 1 else f"this is no line of an export ({error}); export again")
        if isinstance(line, End) and line.digest != self._digest.hexdigest():
            self._refuse("what stands before this line was changed since the export; export again, or copy it again")
        self._digest.update(text)
        return line

    def _event_checks(self) -> Callable[[EventLine], Record]:
        ends: dict[str, tuple[int, bytes]] = {}
        last = 0

        def check(line: EventLine) -> Record:
            nonlocal last
            record = self._here = self._record(line)
            if not last < record.position <= self.header.head:
                self._refuse(f"position {record.position} cannot stand behind {last}; export again")
            last = record.position
            version, previous = ends.get(record.stream) or beginning_of(record)
            if record.version != version + 1:
                self._refuse(f"version {version + 1} of the stream is missing; export again")
            if not record.follows(previous):
                self._refuse("the event, or the one before it, is not as it was written; export again")
            ends[record.stream] = (record.version, record.digest)
            self._check_said(line, record)
            return record

        return check

    def _row_checks(self) -> Callable[[RowLine], FeedRecord]:
        topic, cursor, previous = "", 0, FEED_GENESIS

        def check(line: RowLine) -> FeedRecord:
            nonlocal topic, cursor, previous
            record = self._here = self._row(line)
            if record.topic != topic:
                if record.topic < topic:
                    self._refuse("the feeds do not come in the order of their names; export again")
                topic, cursor, previous = record.topic, 0, FEED_GENESIS
            if record.first_cursor != cursor + 1:
                self._refuse(f"cursor {cursor + 1} of the feed is missing; export again")
            if not record.follows(previous):
                self._refuse("the row, or the one before it, is not as it was written; export again")
            try:
                _decode_segments(record.segments)
            except (ValueError, RecursionError) as error:
                self._refuse(f"the row says what no feed does ({error}); export again")
            cursor, previous = record.last_cursor, record.digest
            return record

        return check

    def _record(self, line: EventLine) -> Record:
        try:
            return line.record
        except ValueError as error:
            self._refuse(f"{error}; export again", stream=line.stream, version=line.version)

    def _row(self, line: RowLine) -> FeedRecord:
        try:
            return line.record
        except ValueError as error:
            self._refuse(f"{error}; export again", stream=line.topic, version=line.first_cursor)

    def _check_said(self, line: EventLine, record: Record) -> None:
        """Refuse an event that nobody knows, and one of which the line says something else than its bytes do."""
        if self._forms is None:
            return
        try:
            recorded_at, event = self._forms.decode(record.topic, record.state)
        except LogUnusableError as error:
            self._refuse(str(error))
        if line.recorded_at is not UNSET and line.recorded_at != time_of(recorded_at):
            self._refuse("its time is not the one that its bytes say; export again")
        # An event of an older form was shown in that of the version that exported it, whichever that was.
        if line.fields is not UNSET and self._is_todays(record.topic, event) and not agree(line.fields, named(event)):
            self._refuse("its fields are not what its bytes say; export again")

    def _is_todays(self, topic: str, event: object) -> bool:
        known = self._todays.get(topic)
        if known is None and self._forms is not None:
            known = self._todays[topic] = self._forms.encode(event, 0)[0] == topic
        return known is True

    def _check_end(self, end: End) -> None:
        header = self.header
        said = [[header.events, header.rows, header.timers], [end.events, end.rows, end.timers]]
        if said != [self._counts, self._counts]:
            self._refuse("the numbers of events, rows and timers are not those that the file says; export again")
        self._line += 1
        if self._file.read(1):
            self._refuse("something stands behind the end of the export; remove it, or export again")

    def _tell(self) -> None:
        header, done = self.header, sum(self._counts)
        total = header.events + header.rows + header.timers
        if self._progress is not None and (done % TOLD_EVERY == 0 or done == total):
            self._progress(Progress("reading", done, total))

    def _refuse(self, problem: str, *, stream: str | None = None, version: int | None = None) -> NoReturn:
        here = self._here
        if isinstance(here, Record):
            stream, version = here.stream, here.version
        elif isinstance(here, FeedRecord):
            stream, version = here.topic, here.first_cursor
        raise ExportUnusableError(self.name, self._line, problem, stream=stream, version=version) from None
