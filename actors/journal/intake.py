"""Rows of another log, taken in as they are: each must continue its stream's chain."""

from __future__ import annotations

from reenact.actors.journal.chain import Row
from reenact.actors.journal.heads import Head, Heads
from reenact.actors.journal.requests import Intake
from reenact.domain.errors import ConflictError, LogUnusableError, StorageError


def refusal_of(intake: Intake, heads: Heads) -> StorageError | None:
    """Return what forbids the rows; all of them are looked at before any is taken in."""
    ends: dict[str, Head] = {}
    for row in intake.rows:
        end = ends.get(row.stream) or heads.get(row.stream)
        version, cursor, digest = end
        # A stream that another library has begun may start at 0.
        if row.version is not None and row.version != version + 1 and (version, row.version) != (-1, 1):
            return ConflictError(row.stream, row.version - 1, max(0, version))
        if row.cursor is not None and row.cursor != cursor + 1:
            return ConflictError(row.stream, row.cursor - 1, cursor)
        if not row.follows(digest):
            what = "a row of the feed" if row.version is None else f"event {row.version}"
            message = f"{what} of {row.stream!r} does not follow what the log holds"
            return LogUnusableError(f"{message}; verify where it comes from, and where it goes")
        ends[row.stream] = end_of(row, end)
    return None


def end_of(row: Row, before: Head) -> Head:
    """Return where a stream ends with the row, which comes behind that end."""
    version, cursor = row.last_version, row.last_cursor
    return before[0] if version is None else version, before[1] if cursor is None else cursor, row.digest
