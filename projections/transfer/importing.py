"""Reads an export, checks each of its lines, and finds the rows that a log still lacks.

Nothing is written before the export was compared with the log's own history. An export can also be opened as a log in
memory.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from hashlib import blake2b
from io import BufferedIOBase
from typing import BinaryIO, NoReturn, Protocol, TypeAlias

import msgspec
from msgspec import UNSET

from reenact.domain.chain import DIGEST_SIZE, DataKey, Row, Timer
from reenact.domain.errors import ExportUnusableError, HistoryDiffersError, LogTooNewError, LogUnusableError
from reenact.domain.session.announce import TODAY, version_of
from reenact.domain.stream.feed import FeedPart, unpack_feed
from reenact.projections.cipher import ENCRYPTED, LearningCipher
from reenact.projections.log import InMemoryLog, InMemoryRow, OnProgress, Progress
from reenact.projections.transfer.exporting import REPORTED_EVERY, StreamEnds
from reenact.projections.transfer.lines import (
    FORMAT,
    MOST_BYTES,
    End,
    EventPart,
    Forms,
    Header,
    KeyLine,
    Line,
    RowLine,
    TimerLine,
    agree,
    decoded,
    events_of,
    named,
)

File: TypeAlias = BinaryIO | BufferedIOBase
Item: TypeAlias = DataKey | Row | Timer
_NO_EXPORT = "the file is not an export; name one that `reenact export` has written"
_OTHER_EVENT = "the event there is another one"
_FORGOTTEN = "session-forgotten:"
"""The beginning of the topic of the event with which a forgotten session ends."""
_CUT = "the file is cut off here; export again, or copy it again"


class ExportReader:
    """Reads an export once, from its beginning; without `forms` the types of the events are unknown.

    The items are valid only if it reaches the end: the last line tells whether anything was changed.
    """

    def __init__(
        self, file: File, name: str, *, forms: Forms | None = None, progress: OnProgress | None = None
    ) -> None:
        """Read the first line.

        Raises:
            ExportUnusableError: it is not the first line of an export.
            OSError: the file cannot be read.
        """
        self.name = name
        self._file = file
        self._forms = forms
        self._progress = progress
        self._digest = blake2b(digest_size=DIGEST_SIZE)
        self._line = 0
        self._here: RowLine | None = None
        self._current_forms: dict[str, bool] = {}
        self._counts = [0, 0, 0]
        self._keys = 0
        self._destroyed: set[str] = set()
        self._forgotten: set[str] = set()
        self._position = 0
        self._ends = StreamEnds()
        first = self._read()
        if not isinstance(first, Header):
            self._refuse(_NO_EXPORT)
        if first.format > FORMAT:
            self._refuse(f"the export has format {first.format}, newer than {FORMAT}; upgrade to read it")
        self.header = first

    def items(self) -> Iterator[Item]:
        """Yield the keys, then the rows, then the timers, in the order of the file.

        Raises:
            ExportUnusableError: the file is not a complete and intact export; the message names the line and the
                record.
            OSError: it cannot be read.
        """
        while not isinstance(line := self._read(), End):
            match line:
                case KeyLine() if not any(self._counts):
                    self._keys += 1
                    yield self._key(line)
                case RowLine() if not self._counts[2]:
                    self._here = line
                    self._counts[0] += len(line.events)
                    self._counts[1] += 1
                    yield self._row(line)
                case TimerLine():
                    self._counts[2] += 1
                    yield Timer(line.stream, line.due)
                case _:
                    self._refuse("a line of this kind does not belong here; export again")
            self._report_progress()
        self._check_end(line)

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
            self._refuse(_NO_EXPORT if self._line == 1 else f"this is not a line of an export ({error}); export again")
        if isinstance(line, End) and line.digest != self._digest.hexdigest():
            self._refuse("something before this line was changed since the export; export again, or copy it again")
        self._digest.update(text)
        return line

    def _key(self, line: KeyLine) -> DataKey:
        try:
            wrapped = None if line.wrapped is None else b64decode(line.wrapped, validate=True)
        except ValueError as error:
            self._refuse(f"the key is not formed as keys are ({error}); export again")
        if wrapped is None:
            self._destroyed.add(line.stream)
        return DataKey(line.id, line.stream, wrapped)

    def _row(self, line: RowLine) -> Row:
        try:
            row = line.row
        except ValueError as error:
            self._refuse(f"{error}; export again")
        if row.count:
            last = row.position + row.count - 1
            if not self._position < row.position <= last <= self.header.head:
                self._refuse(f"position {row.position} cannot follow {self._position}; export again")
            self._position = last
        problem = self._ends.take(row)
        if problem is not None:
            self._refuse(f"{problem}; export again")
        try:
            is_legible = row.feed is not None and not row.feed.startswith(ENCRYPTED)
            part = unpack_feed(row.feed or b"", row.stream, row.events) if is_legible else FeedPart()
            version_of(part.version or TODAY, f"row {row.cursor} of the feed of {row.stream!r}")
        except LogTooNewError as error:
            self._refuse(str(error))
        except (ValueError, RecursionError) as error:
            self._refuse(f"the row says what no feed does ({error}); export again")
        for event, (topic, state) in zip(line.events, events_of(row), strict=True):
            self._check_event(event, topic, state)
            if topic.startswith(_FORGOTTEN):
                self._forgotten.add(row.stream)
        return row

    def _check_event(self, part: EventPart, topic: str, state: bytes) -> None:
        """Refuse an unknown event, and one whose fields in the line differ from its bytes."""
        if self._forms is None:
            return
        if state.startswith(ENCRYPTED):
            if part.fields is not UNSET:
                self._refuse("its fields cannot be told from what is encrypted; export again")
            return
        try:
            _, event = self._forms.decode(topic, state)
        except LogUnusableError as error:
            self._refuse(str(error))
        # The fields of an event in an older form were written in the form of the exporting version, which may differ.
        if part.fields is UNSET or not self._is_current_form(topic, event):
            return
        try:
            is_same = agree(part.fields, named(event))
        except RecursionError:
            self._refuse("it is nested too deeply")
        if not is_same:
            self._refuse("its fields are not what its bytes say; export again")

    def _is_current_form(self, topic: str, event: object) -> bool:
        known = self._current_forms.get(topic)
        if known is None and self._forms is not None:
            known = self._current_forms[topic] = self._forms.encode(event, 0)[0] == topic
        return known is True

    def _check_end(self, end: End) -> None:
        header = self.header
        said = [[each.events, each.rows, each.timers, each.keys] for each in (header, end)]
        if said != [[*self._counts, self._keys]] * 2:
            self._refuse("the numbers of events, rows, timers and keys are not those that the file says; export again")
        if self._destroyed - self._forgotten:  # an import would destroy it in the log, too
            stream = min(self._destroyed - self._forgotten)
            self._refuse(f"a key was destroyed, and no event says that {stream!r} was forgotten; export again")
        self._line += 1
        if self._file.read(1):
            self._refuse("there is content after the end of the export; remove it, or export again")

    def _report_progress(self) -> None:
        header, done = self.header, sum(self._counts[1:])
        total = header.rows + header.timers
        if self._progress is not None and (done % REPORTED_EVERY == 0 or done == total):
            self._progress(Progress("reading", done, total))

    def _refuse(self, problem: str) -> NoReturn:
        stream = version = None
        if self._here is not None:
            stream, version = self._here.stream, self._here.version or self._here.cursor
        raise ExportUnusableError(self.name, self._line, problem, stream=stream, version=version) from None


class LogStreams(Protocol):
    """The state of a log's streams."""

    @property
    def name(self) -> str:
        """The log's name, as error messages show it."""
        ...

    def stream_end(self, stream: str) -> tuple[int, int, bytes] | None:
        """Return the version of the stream's last event, or -1, its last cursor, and the digest of its last row.

        Return None if it has no rows.
        """
        ...

    def digest_at(self, stream: str, version: int) -> bytes | None:
        """Return the digest of the stream's row with the event of that version, None if there is none."""
        ...

    def digest_at_cursor(self, stream: str, cursor: int) -> bytes | None:
        """Return the digest of the stream's row whose last announcement has the cursor, None if there is none."""
        ...


class MissingRows(msgspec.Struct):
    """The number of rows that a log has already of each stream of an export; it lacks the rest."""

    rows: dict[str, int] = {}
    ahead: set[str] = set()
    """The streams of which the log has more than the export."""
    passed: dict[str, int] = {}

    def lacks(self, row: Row) -> bool:
        """Return whether the log lacks the row; call it once for each row, in order."""
        number = self.passed[row.stream] = self.passed.get(row.stream, 0) + 1
        return number > self.rows.get(row.stream, 0)


class _StreamComparison(msgspec.Struct):
    """A stream of an export compared with that in the log, which ends at `end`."""

    end: tuple[int, int, bytes] | None
    there: int = 0
    version: int = -1
    cursor: int = 0
    """The log has the rows up to this cursor."""
    is_met: bool = False
    """Whether the last row of the log's stream was found in the export."""
    last_event: Row | None = None
    last: Row | None = None


def compare_with_log(reader: ExportReader, log: LogStreams | None) -> MissingRows:
    """Read the export to its end, and return what the log lacks of it; `log` is None for a new log.

    Raises:
        ExportUnusableError: the file is not a complete and intact export.
        HistoryDiffersError: the log has a different history of a stream.
        StorageError: the log cannot be read.
    """
    streams: dict[str, _StreamComparison] = {}
    ahead: set[str] = set()
    for row in reader.items():
        if log is not None and isinstance(row, Row):
            if row.stream not in streams:
                streams[row.stream] = _StreamComparison(log.stream_end(row.stream))
            _compare(log, streams[row.stream], row)
    for name, stream in streams.items():
        if log is not None and stream.end is not None and not stream.is_met:
            ahead.add(name)
            _check_ahead(log, stream)
    return MissingRows(rows={name: stream.there for name, stream in streams.items()}, ahead=ahead)


def _compare(log: LogStreams, stream: _StreamComparison, row: Row) -> None:
    """Refuse a row at whose place the log has a different one."""
    if stream.end is None or stream.is_met:
        return
    version, cursor, digest = stream.end
    if stream.last is not None and (stream.version, stream.cursor) == (version, cursor):
        raise HistoryDiffersError(log.name, row.stream, version, "the record there is another one")
    stream.is_met = row.digest == digest
    stream.version, stream.cursor, _ = row.end((stream.version, stream.cursor, digest))
    if not stream.is_met and (stream.version > version or stream.cursor > cursor):
        if row.count and row.version <= version:
            raise HistoryDiffersError(log.name, row.stream, row.version, _OTHER_EVENT)
        problem = f"what subscribers saw was packed otherwise around cursor {cursor}"
        raise HistoryDiffersError(log.name, row.stream, cursor, problem)
    stream.there += 1
    stream.last = row
    stream.last_event = row if row.count else stream.last_event


def _check_ahead(log: LogStreams, stream: _StreamComparison) -> None:
    """Refuse the export if the log, which has more of the stream, does not have the export's last row."""
    event, last = stream.last_event, stream.last
    if event is not None and log.digest_at(event.stream, stream.version) != event.digest:
        raise HistoryDiffersError(log.name, event.stream, event.version, _OTHER_EVENT)
    # If rows were repacked, none may end at this cursor any more.
    if (
        last is not None
        and last is not event
        and log.digest_at_cursor(last.stream, stream.cursor) not in (last.digest, None)
    ):
        raise HistoryDiffersError(log.name, last.stream, last.cursor, "subscribers saw something else")


def log_of(reader: ExportReader, forms: Forms, cipher: LearningCipher) -> InMemoryLog:
    """Return the log in an export, without forgotten events; its keys are added to the cipher.

    Raises:
        ExportUnusableError: the file is not a complete and intact export.
        LogUnusableError: it holds an unknown event.
        StorageError: it is encrypted, and cannot be decrypted now.
        OSError: it cannot be read.
    """
    events: list[InMemoryRow] = []
    for item in reader.items():
        if isinstance(item, DataKey):
            cipher.learn(item)
        elif isinstance(item, Row):
            first = None if item.cause is None else cipher.opened(item.cause)
            for index, (topic, state) in enumerate(events_of(item)):
                legible = cipher.opened(state)
                if legible is not None:
                    recorded_at, event = forms.decode(topic, legible)
                    version, position = (item.version or 0) + index, (item.position or 0) + index
                    cause = None if index else first
                    events.append(InMemoryRow(item.stream, version, position, recorded_at, event, cause))
    return InMemoryLog(events, reader.header.head)
