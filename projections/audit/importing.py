"""What a log still lacks of an export: found before anything is written, so that it is taken in or refused whole."""

from __future__ import annotations

from typing import Protocol

import msgspec

from reenact.domain.chain import FeedRecord, Record
from reenact.domain.errors import HistoryDiffersError
from reenact.projections.audit.exported import ExportReader


class Standing(Protocol):
    """Where the streams and the feeds of a log stand."""

    @property
    def name(self) -> str:
        """What messages call the log."""
        ...

    def stream_end(self, stream: str) -> tuple[int, bytes] | None:
        """Return the version and the digest of the stream's last event, if it has one."""
        ...

    def digest_at(self, stream: str, version: int) -> bytes | None:
        """Return the digest of the stream's event of that version, if it is there."""
        ...

    def topic_end(self, topic: str) -> tuple[int, bytes] | None:
        """Return the last cursor of the topic's feed and the digest of the row that holds it, if it has one."""
        ...

    def row_digest_at(self, topic: str, cursor: int) -> bytes | None:
        """Return the digest of the row of the topic's feed that ends with the cursor, if one does."""
        ...


class Lacking(msgspec.Struct):
    """What a log has already: of each stream the last version, of each feed the last cursor. The rest is lacking."""

    versions: dict[str, int] = {}
    cursors: dict[str, int] = {}
    ahead: set[str] = set()
    """The streams of which the log has more than the export."""

    def lacks(self, item: Record | FeedRecord) -> bool:
        """Return whether the log has yet to get it."""
        if isinstance(item, Record):
            return item.version > self.versions.get(item.stream, -1)
        return item.last_cursor > self.cursors.get(item.topic, 0)


def look_at(reader: ExportReader, standing: Standing | None) -> Lacking:
    """Read the export to its end and return what the log lacks of it; None is a log that there is not yet.

    Raises:
        ExportUnusableError: the file is no whole and true export.
        HistoryDiffersError: the log has other events, or other rows of a feed, in the same places.
        StorageError: the log cannot be read.
    """
    comparison = _Comparison(standing)
    for item in reader.items():
        if isinstance(item, Record):
            comparison.take_event(item)
        elif isinstance(item, FeedRecord):
            comparison.take_row(item)
    return comparison.result()


class _Comparison:
    """What the log has of each stream and feed, held against what the export says of it."""

    def __init__(self, standing: Standing | None) -> None:
        self._standing = standing
        self._streams: dict[str, tuple[int, bytes] | None] = {}
        self._topics: dict[str, tuple[int, bytes] | None] = {}
        self._stream_ends: dict[str, tuple[int, bytes]] = {}
        self._topic_ends: dict[str, tuple[int, bytes]] = {}

    def take_event(self, record: Record) -> None:
        standing = self._standing
        if standing is None:
            return
        if record.stream not in self._streams:
            self._streams[record.stream] = standing.stream_end(record.stream)
        end = self._streams[record.stream]
        if end is None:
            return
        if record.version == end[0] and record.digest != end[1]:
            raise HistoryDiffersError(standing.name, record.stream, record.version, "the event there is another one")
        if record.version <= end[0]:
            self._stream_ends[record.stream] = (record.version, record.digest)

    def take_row(self, row: FeedRecord) -> None:
        standing = self._standing
        if standing is None:
            return
        if row.topic not in self._topics:
            self._topics[row.topic] = standing.topic_end(row.topic)
        end = self._topics[row.topic]
        if end is None:
            return
        if row.first_cursor <= end[0] < row.last_cursor:
            why = f"what subscribers saw was packed otherwise around cursor {end[0]}"
            raise HistoryDiffersError(standing.name, row.topic, row.first_cursor, why)
        if row.last_cursor == end[0] and row.digest != end[1]:
            why = "subscribers saw something else"
            raise HistoryDiffersError(standing.name, row.topic, row.first_cursor, why)
        if row.last_cursor <= end[0]:
            self._topic_ends[row.topic] = (row.last_cursor, row.digest)

    def result(self) -> Lacking:
        """Return what is lacking, once all that the log has more of has been held against it."""
        standing = self._standing
        if standing is None:
            return Lacking()
        ahead: set[str] = set()
        for stream, (version, digest) in self._stream_ends.items():
            end = self._streams[stream]
            if end is None or version == end[0]:
                continue
            ahead.add(stream)
            if standing.digest_at(stream, version) != digest:
                raise HistoryDiffersError(standing.name, stream, version, "the event there is another one")
        for topic, (cursor, digest) in self._topic_ends.items():
            # Where rows were packed anew, none need end here any more.
            if standing.row_digest_at(topic, cursor) not in (digest, None):
                raise HistoryDiffersError(standing.name, topic, cursor, "subscribers saw something else")
        return Lacking(
            versions={stream: end[0] for stream, end in self._streams.items() if end is not None},
            cursors={topic: end[0] for topic, end in self._topics.items() if end is not None},
            ahead=ahead,
        )
