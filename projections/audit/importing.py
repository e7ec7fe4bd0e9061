"""What a log still lacks of an export: found before anything is written, so that it is taken in or refused whole."""

from __future__ import annotations

from typing import Protocol

import msgspec

from reenact.domain.chain import Row
from reenact.domain.errors import HistoryDiffersError
from reenact.projections.audit.exported import ExportReader


class Standing(Protocol):
    """Where the streams of a log stand."""

    @property
    def name(self) -> str:
        """What messages call the log."""
        ...

    def stream_end(self, stream: str) -> tuple[int, int, bytes] | None:
        """Return the version of the stream's last event, or -1, its last cursor, and the digest of its last row.

        None if it has no rows.
        """
        ...

    def digest_at(self, stream: str, version: int) -> bytes | None:
        """Return the digest of the stream's row that holds the event of that version, if it is there."""
        ...

    def digest_at_cursor(self, stream: str, cursor: int) -> bytes | None:
        """Return the digest of the stream's row whose last announcement has the cursor, if there is one."""
        ...


class Lacking(msgspec.Struct):
    """What a log has already: of each stream so many of the rows of an export. The rest is lacking."""

    rows: dict[str, int] = {}
    ahead: set[str] = set()
    """The streams of which the log has more than the export."""
    passed: dict[str, int] = {}

    def lacks(self, row: Row) -> bool:
        """Return whether the log has yet to get the row; each is asked for once, in their order."""
        number = self.passed[row.stream] = self.passed.get(row.stream, 0) + 1
        return number > self.rows.get(row.stream, 0)


def look_at(reader: ExportReader, standing: Standing | None) -> Lacking:
    """Read the export to its end and return what the log lacks of it; None is a log that there is not yet.

    Raises:
        ExportUnusableError: the file is no whole and true export.
        HistoryDiffersError: the log has another history in the same place.
        StorageError: the log cannot be read.
    """
    comparison = _Comparison(standing)
    for item in reader.items():
        if isinstance(item, Row):
            comparison.take(item)
    return comparison.result()


class _Stream(msgspec.Struct):
    """A stream of an export beside the one in the log, which ends at `end`."""

    end: tuple[int, int, bytes] | None
    there: int = 0
    version: int = -1
    cursor: int = 0
    """Up to here the log has the rows."""
    is_met: bool = False
    """Whether the row with which the log's stream ends has passed."""
    last_event: Row | None = None
    last: Row | None = None


class _Comparison:
    """What the log has of each stream, held against what the export says of it."""

    def __init__(self, standing: Standing | None) -> None:
        self._standing = standing
        self._streams: dict[str, _Stream] = {}

    def take(self, row: Row) -> None:
        standing = self._standing
        if standing is None:
            return
        stream = self._streams.get(row.stream)
        if stream is None:
            stream = self._streams[row.stream] = _Stream(standing.stream_end(row.stream))
        if stream.end is None or stream.is_met:
            return
        version, cursor, digest = stream.end
        stream.is_met = row.digest == digest
        stream.version = stream.version if row.last_version is None else row.last_version
        stream.cursor = stream.cursor if row.last_cursor is None else row.last_cursor
        if not stream.is_met and (stream.version > version or stream.cursor > cursor):
            if row.version is not None and row.version <= version:
                raise _differs(standing, row, row.version, "the event there is another one")
            raise _differs(standing, row, cursor, f"what subscribers saw was packed otherwise around cursor {cursor}")
        stream.there += 1
        stream.last = row
        stream.last_event = row if row.count else stream.last_event

    def result(self) -> Lacking:
        """Return what is lacking, once all that the log has more of has been held against it."""
        ahead: set[str] = set()
        for name, stream in self._streams.items():
            if stream.end is not None and not stream.is_met:
                ahead.add(name)
                self._check_ahead(stream)
        return Lacking(rows={name: stream.there for name, stream in self._streams.items()}, ahead=ahead)

    def _check_ahead(self, stream: _Stream) -> None:
        """Refuse what the log does not have, though it has more than the export."""
        standing, event, last = self._standing, stream.last_event, stream.last
        if standing is None or last is None:
            return
        if event is not None and standing.digest_at(event.stream, stream.version) != event.digest:
            raise _differs(standing, event, event.version or 0, "the event there is another one")
        # Where rows were packed anew, none need end here any more.
        if last is not event and standing.digest_at_cursor(last.stream, stream.cursor) not in (last.digest, None):
            raise _differs(standing, last, last.cursor or 0, "subscribers saw something else")


def _differs(standing: Standing, row: Row, at: int, why: str) -> HistoryDiffersError:
    return HistoryDiffersError(standing.name, row.stream, at, why)
