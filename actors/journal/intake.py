"""Records of another log, taken in as they are: each must continue its stream's chain, or its feed's."""

from __future__ import annotations

from reenact.actors.journal.chain import STREAM_GENESIS
from reenact.actors.journal.heads import Head, Heads
from reenact.actors.journal.requests import Intake
from reenact.domain.errors import ConflictError, LogUnusableError, StorageError


def refusal_of(intake: Intake, heads: Heads) -> StorageError | None:
    """Return what forbids the records; all of them are looked at before any is taken in."""
    return _refusal_of_events(intake, heads) or _refusal_of_rows(intake, heads)


def _refusal_of_events(intake: Intake, heads: Heads) -> StorageError | None:
    ends: dict[str, Head] = {}
    for record in intake.events:
        version, digest = ends.get(record.stream) or heads.streams.get(record.stream)
        # A stream that another library has begun may start at 0.
        if record.version != version + 1 and (digest != STREAM_GENESIS or record.version != 0):
            return ConflictError(record.stream, record.version - 1, version)
        if not record.follows(digest):
            return _altered(f"event {record.version} of {record.stream!r}")
        ends[record.stream] = (record.version, record.digest)
    return None


def _refusal_of_rows(intake: Intake, heads: Heads) -> StorageError | None:
    ends: dict[str, Head] = {}
    for row in intake.rows:
        cursor, digest = ends.get(row.topic) or heads.topics.get(row.topic)
        if row.first_cursor != cursor + 1:
            return ConflictError(row.topic, row.first_cursor - 1, cursor)
        if not row.follows(digest):
            return _altered(f"row {row.first_cursor} of the feed of {row.topic!r}")
        ends[row.topic] = (row.last_cursor, row.digest)
    return None


def _altered(what: str) -> LogUnusableError:
    return LogUnusableError(f"{what} does not follow what the log holds; verify where it comes from, and where it goes")
