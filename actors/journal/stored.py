"""The base of all stored journals: passes requests to the writer, reads rows and decodes them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import Self

from reenact.actors.journal.api import Append, Done, Link, Recorded, Remembered, Snapshot, raise_if_error
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.requests import UNDER_WAY, Forgetting, Purge, Recovery, RowImport, Step
from reenact.actors.journal.seeking import HEARD_AT, MOST, NUMBER_AT, PAGE, Cells, cells_of, heard_at, seek, unpack
from reenact.actors.journal.store import LAST, NEWEST_FIRST, Reader
from reenact.actors.journal.stored_feeds import StoredFeeds
from reenact.actors.journal.writer import Writer
from reenact.domain.chain import DataKey, End, Row, Timer
from reenact.domain.errors import LogUnusableError, StorageError

_ROW = "SELECT version, position, events, digest FROM steps WHERE stream = ?"
_READ_LINK = f"{_ROW} AND version <= ? AND count > 0 ORDER BY version DESC LIMIT 1"
_READ_LINK_AT = f"{_ROW} AND position <= ? AND count > 0 ORDER BY version DESC LIMIT 1"
_RUNTIMES_FIRST = frozenset({"container-created", "image-registered"})
"""Stored names of the events with which the log of a `Runtime` begins."""

FIRST_EVENTS = "SELECT events FROM steps WHERE count > 0 ORDER BY number LIMIT 1"
_READ_TRACKING = "SELECT notification_id FROM tracking WHERE application_name = ?"
_READ_UNFINISHED = """
    SELECT DISTINCT stream FROM steps, tracking
    WHERE application_name = ? AND notification_id > 0 AND number >= notification_id
"""
_SNAPSHOTS = "SELECT originator_id, originator_version, topic, state FROM stored_snapshots"
_READ_SNAPSHOT = f"{_SNAPSHOTS} WHERE originator_id = ? ORDER BY originator_version DESC LIMIT 1"
_READ_SNAPSHOTS = """
    SELECT originator_id, originator_version, topic, state FROM stored_snapshots AS one
    WHERE originator_id > ? AND originator_version = (
        SELECT max(originator_version) FROM stored_snapshots WHERE originator_id = one.originator_id
    )
    ORDER BY originator_id LIMIT ?
"""
# A row imported from a decrypted export has the id of a key that is not in this log.
_READ_PLAIN = "SELECT 1 FROM steps WHERE stream = ? AND (key IS NULL OR key NOT IN (SELECT id FROM keys)) LIMIT 1"
_READ_DUE = "SELECT stream, due FROM timers WHERE due > ? AND due <= ? ORDER BY due, stream LIMIT ?"
_READ_NEXT_DUE = "SELECT min(due) FROM timers WHERE due > ?"
_READ_HEAD = "SELECT position + count - 1 FROM steps ORDER BY number DESC LIMIT 1"
_READ_LAST = f"SELECT position + count - 1 FROM steps WHERE number = {NUMBER_AT}"  # noqa: S608 - ours
_READ_NEXT = f"SELECT position FROM steps WHERE number > {NUMBER_AT} AND count > 0 ORDER BY number LIMIT 1"  # noqa: S608 - ours
_READ_LAST_EVENT = f"""
    SELECT version + count - 1, digest FROM steps WHERE stream = ? AND version <= ? {NEWEST_FIRST} LIMIT 1
"""  # noqa: S608 - ours
_READ_LAST_HEARD = f"""
    SELECT cursor + heard - 1, digest FROM steps WHERE stream = ? AND heard > 0 AND (version, cursor) = {HEARD_AT}
"""  # noqa: S608 - ours


class StoredJournal(StoredFeeds):
    """An append-only history per stream, with one global order of all events.

    It implements `api.Journal`, `api.FeedJournal`, `api.ChainedJournal` and `api.SettlingJournal`. Open one of its
    subclasses, and close it, or use it as a context manager.
    """

    def __init__(self, *, codec: EventCodec, reader: Reader, writer: Writer | None, cleanup: ExitStack) -> None:
        """Use what `open` has prepared; without a writer the log can only be read."""
        super().__init__(codec, reader, writer)
        self._cleanup = cleanup
        self._closing = threading.Lock()

    def __enter__(self) -> Self:
        """Return the journal itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the journal."""
        self.close()

    def append(self, step: Append, done: Done) -> None:
        """Make the step durable, as described in `api.Journal`.

        Raises:
            RuntimeClosedError: the journal is closed.
            StorageError: the log was opened for reading only.
            ValueError: the step has events, but no version `after` which they come.
        """
        if step.after is None and step.events:
            raise _version_missing_error()
        if self.codec.vault is not None:
            self.codec.vault.prepare(step.stream)
        (self._writer or self.writer).submit(Step(step, done))

    def append_with_next(self, step: Append, done: Done) -> None:
        """Append like `append`, but wake no thread; see `api.SettlingJournal`.

        Raises:
            RuntimeClosedError: the journal is closed.
            StorageError: the log was opened for reading only.
            ValueError: the step has events, but no version `after` which they come.
        """
        if step.after is None and step.events:
            raise _version_missing_error()
        if self.codec.vault is not None:
            self.codec.vault.prepare(step.stream)
        (self._writer or self.writer).submit_with_next(Step(step, done))

    def flush(self, then: Callable[[], object]) -> None:
        """Start writing the pending steps, and call `then` when that is finished."""
        if self._writer is None:
            then()
        else:
            self._writer.flush(then)

    def settle(self) -> None:
        """Write the pending steps on the current thread, unless another thread is writing."""
        if self._writer is not None:
            self._writer.settle()

    def recover(self, stream: str, *, after: int = -1) -> list[Recorded]:
        """Wait for pending steps, accept steps of the stream again, and return its events above version `after`."""
        if self.writer.is_settled(stream):
            self.writer.trust(stream)
        else:
            raise_if_error(self.writer.wait(lambda done: Recovery(stream, done)))
        return self.read(stream, after=after)

    def read(self, stream: str, *, after: int = 0) -> list[Recorded]:
        """Return the stream's events with a version above `after`."""
        return list(self._read(after, stream))

    def read_all(self, *, after: int = 0, limit: int = 1000) -> list[Recorded]:
        """Return up to `limit` events of all streams with a position above `after`, in the order of their positions."""
        return list(islice(self._read(after), limit))

    def find(
        self,
        *,
        after: int = 0,
        until: int | None = None,
        stream: str | None = None,
        after_version: int = 0,
        until_version: int | None = None,
        names: Collection[str] = (),
        since: int | None = None,
        before: int | None = None,
        backwards: bool = False,
        limit: int = 1000,
    ) -> list[Recorded]:
        """Return up to `limit` events that match all conditions, in order or `backwards`, decoding no others.

        Matching events have a position above `after` and up to `until` inclusive; if a stream is named, they belong to
        it and have such versions; `names` are stored names without versions, and all match if there are none. `since`
        and `before` bound the time of recording, in microseconds since 1970-01-01 UTC. To search a long log for few
        events, search a range of positions at a time.

        Raises:
            LogTooNewError, LogUnusableError: a matching event cannot be decoded.
        """
        codec = self.codec
        first = b"" if since is None else codec.beginning(since)
        last = None if before is None else codec.beginning(before)
        until, until_version = MOST if until is None else until, MOST if until_version is None else until_version
        low, high = (after, until) if stream is None else (after_version, until_version)
        events = seek(
            self._reader.select,
            after=low,
            until=high,
            stream=stream,
            backwards=backwards,
            page=min(max(limit, 2), PAGE),
        )
        fitting = (
            cells
            for cells in events
            if after < cells[2] <= until
            and after_version < cells[1] <= until_version
            and (not names or cells[3].rpartition(":")[0] in names)
            and ((since is None and before is None) or codec.is_between(cells[4], first, last))
        )
        return list(islice(codec.readable(fitting), min(limit, MOST)))

    def nearest(self, position: int, *, backwards: bool = False) -> int | None:
        """Return the next position above this one that has an event, or backwards the last one up to it, or None."""
        last = self._select_number(_READ_LAST, position if backwards else min(position + 1, MOST)) or 0
        if backwards:
            return min(position, last) or None
        return position + 1 if last > position else self._select_number(_READ_NEXT, position)

    def read_until(self, stream: str, version: int, *, after: int = -1) -> list[Recorded]:
        """Return the stream's events with a version above `after` and up to `version` inclusive."""
        return list(self._read(after, stream, version))

    def link(self, stream: str, version: int) -> Link | None:
        """Return the link of the event with this version, None if there is none."""
        link = self._read_link(_READ_LINK, stream, lambda cells: cells[1] <= version, version)
        return link if link is not None and link.version == version else None

    def link_at(self, stream: str, position: int) -> Link | None:
        """Return the link of the stream's last event up to this log position, None if there is none."""
        return self._read_link(_READ_LINK_AT, stream, lambda cells: cells[2] <= position, position)

    def snapshot(self, stream: str) -> Snapshot | None:
        """Return the last snapshot of the stream, or None; a damaged one without a version is ignored."""
        rows: list[tuple[str, int, str, bytes]] = self._reader.select(_READ_SNAPSHOT, (stream,))
        return self._snapshot(*rows[0]) if rows and type(rows[0][1]) is int else None

    def snapshots(self, *, after: str = "", limit: int = 1000) -> list[Snapshot]:
        """Return the last snapshots of up to `limit` streams whose names come after `after`, in name order."""
        rows: list[tuple[str, int, str, bytes]] = self._reader.select(_READ_SNAPSHOTS, (after, limit))
        return [self._snapshot(*row) for row in rows]

    def delete_snapshots(self) -> None:
        """Delete the snapshots of all streams; returns when the deletion is durable.

        Raises:
            RuntimeClosedError: the journal is closed.
            StorageError: the log cannot be written, or was opened for reading only.
        """
        raise_if_error(self.writer.wait(Purge))

    def import_rows(
        self,
        *,
        rows: Sequence[Row] = (),
        timers: Sequence[Timer] = (),
        keys: Sequence[DataKey] = (),
        more: bool = False,
    ) -> int:
        """Import rows of another log unchanged, all together; return the log's position once that is durable.

        The keys of encrypted rows are imported with them. Each row must continue its stream; events get new positions,
        in this order. They are not published. With `more` to come, the log is marked as unfinished until the last part.

        Raises:
            RuntimeClosedError: the journal is closed.
            ConflictError: a stream has a different end.
            LogUnusableError: a row has been changed.
            StorageError: the log cannot be written, or was opened for reading only.
        """
        outcome = self.writer.wait(lambda done: RowImport(done, tuple(rows), tuple(timers), tuple(keys), more))
        if isinstance(outcome, Exception):
            raise outcome
        return outcome.position

    def forget(self, steps: Sequence[Append], remembered: Remembered | None = None) -> int:
        """Record the last steps of streams and destroy their data keys, together; return the log's position.

        After that, nothing recorded earlier in the streams can be read. `steps` have events; `remembered` is the
        request for it.

        Raises:
            RuntimeClosedError: the journal is closed.
            RequestReusedError: the request has taken effect before.
            StorageError: the log cannot be written, was opened for reading only, or has no key ring.
        """
        vault = self.codec.vault
        if vault is None or not vault.has_ring:
            raise StorageError(f"{self.name} was opened without a key ring, and nothing in it can be forgotten")
        outcome = self.writer.wait(lambda done: Forgetting(tuple(steps), done, remembered))
        for step in steps:
            vault.forget(step.stream)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome.position

    def is_encrypted(self, stream: str) -> bool:
        """Return whether all rows of the stream are encrypted, so that it can be forgotten."""
        return self.codec.vault is not None and not self._reader.select(_READ_PLAIN, (stream,))

    def keys(self) -> list[DataKey]:
        """Return the data keys of the log in wrapped form."""
        return [] if self.codec.vault is None else self.codec.vault.all()

    def is_unfinished(self) -> bool:
        """Return whether an import into the log was interrupted, so that part of it is missing."""
        rows: list[tuple[int]] = self._reader.select(_READ_TRACKING, (UNDER_WAY,))
        return bool(rows and rows[0][0])

    def check_finished(self) -> None:
        """Raise `LogUnusableError` if an import was interrupted: the streams that it has begun look complete."""
        if self.is_unfinished():
            raise LogUnusableError(f"an import into {self.name} was cut short; import the same export again, to go on")

    def unfinished(self) -> set[str]:
        """Return the streams of which an interrupted import has written rows."""
        rows: list[tuple[str]] = self._reader.select(_READ_UNFINISHED, (UNDER_WAY,))
        return {stream for (stream,) in rows}

    def due(self, *, after: int, until: int, limit: int = 1000) -> list[tuple[str, int]]:
        """Return up to `limit` streams that are due after `after` and up to `until` inclusive, in the order of time."""
        return self._reader.select(_READ_DUE, (after, until, limit))

    def next_due(self, *, after: int) -> int | None:
        """Return the next time at which a stream is due, or None."""
        rows: list[tuple[int | None]] = self._reader.select(_READ_NEXT_DUE, (after,))
        return rows[0][0]

    def head(self) -> int:
        """Return the position of the last durable event, 0 if there is none."""
        return self._select_number(_READ_HEAD) or 0

    def stream_end(self, stream: str) -> End | None:
        """Return the end of the stream, None if it has no rows."""
        rows: list[End] = self._reader.select(LAST, (stream,))
        return rows[0] if rows else None

    def digest_at(self, stream: str, version: int) -> bytes | None:
        """Return the digest of the row that holds the stream's event with this version, or None."""
        rows: list[tuple[int, bytes]] = self._reader.select(_READ_LAST_EVENT, (stream, version))
        return rows[0][1] if rows and rows[0][0] >= version else None

    def digest_at_cursor(self, stream: str, cursor: int) -> bytes | None:
        """Return the digest of the stream's row whose last announcement has this cursor, or None."""
        rows: list[tuple[int, bytes]] = self._reader.select(_READ_LAST_HEARD, (stream, *heard_at(stream, cursor)))
        return rows[0][1] if rows and rows[0][0] == cursor else None

    def watch(self, watcher: Callable[[int], None]) -> None:
        """Call `watcher` with the log's position after each commit with events; it must return at once.

        The position is 0 when commits may have been missed.
        """
        self.writer.watch(watcher)

    def unwatch(self, watcher: Callable[[int], None]) -> None:
        """Stop calling the watcher. Idempotent."""
        self.writer.unwatch(watcher)

    def select(self, query: str, parameters: Sequence[str | int | bytes]) -> list[Cells]:
        """Return rows of the log's tables, undecoded; the query is in SQLite's dialect.

        Raises:
            RuntimeClosedError: the journal is closed.
            StorageError: the log cannot be read.
        """
        return self._reader.select(query, parameters)

    def close(self) -> None:
        """Make pending steps durable, then close the log. Idempotent."""
        if self._writer is not None:
            self._writer.forbid_own_thread()
        with self._closing:
            self._cleanup.close()

    def _read(self, after: int, stream: str | None = None, until: int = MOST) -> Iterator[Recorded]:
        return self.codec.readable(seek(self._reader.select, after=after, until=until, stream=stream))

    def _snapshot(self, stream: str, version: int, topic: str, state: bytes) -> Snapshot:
        return Snapshot(stream, version, topic, self.codec.opened(state))

    def _read_link(self, query: str, stream: str, fits: Callable[[Cells], bool], number: int) -> Link | None:
        rows: list[Cells] = self._reader.select(query, (stream, number))
        if not rows:
            return None
        version, position, events, digest = rows[0]
        *_, last = filter(fits, cells_of([(stream, version, position, None, events)]))
        recorded = self.codec.recorded(last)
        if type(digest) is not bytes:
            raise LogUnusableError(f"event {recorded.version} of {stream!r} has no digest; verify the log")
        return Link(recorded.version, recorded.position, recorded.recorded_at, digest)

    def _select_number(self, query: str, *numbers: int) -> int | None:
        rows: list[tuple[object]] = self._reader.select(query, numbers)
        found = rows[0][0] if rows else None
        if not isinstance(found, int | None):
            raise LogUnusableError(f"{self.name}: there is no position {found!r} in a log; verify it")
        return found


def check_owner(rows: Sequence[Cells], name: str, codec: EventCodec, *, closed: bool) -> None:
    """Raise `LogUnusableError` if the log's first row, as read by `FIRST_EVENTS`, has events of other actors.

    A codec that is not `closed` learns its types as actors start. Still, the log of a runtime accepts no other actors.
    """
    topic = _first_topic(rows)
    if topic is not None and not codec.knows(topic) and (closed or topic.partition(":")[0] in _RUNTIMES_FIRST):
        message = (
            f"{name} is the log of other actors: it begins with an event of type {topic!r}; open it with the program "
            "that wrote it, or choose another place"
        )
        raise LogUnusableError(message)


def _first_topic(rows: Sequence[Cells]) -> str | None:
    """Return the stored name of the first event, if there is one that can be read."""
    try:
        return unpack(rows[0][0])[0][0] if rows else None
    except (ValueError, TypeError, IndexError):  # the readers of the events report the error
        return None


def _version_missing_error() -> ValueError:
    return ValueError("a step with events must say after which version of its stream they come")
