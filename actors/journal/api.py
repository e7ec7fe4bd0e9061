"""The interface of journals: append-only streams, their feeds, and the notifications after a commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from reenact.domain.errors import LogUnusableError
from reenact.domain.stream.feed import Entry as Entry  # noqa: PLC0414 - part of the interface
from reenact.domain.stream.feed import Segment as Segment  # noqa: PLC0414 - likewise


class Derived(msgspec.Struct, frozen=True, gc=False):
    """Segments that are not stored: this version derives them from the events of their step and from `needs`.

    `needs` is encoded in MessagePack.
    """

    version: int
    needs: bytes
    segments: tuple[Segment, ...]

    def __iter__(self) -> Iterator[Segment]:
        """Iterate over the segments."""
        return iter(self.segments)


Kept: TypeAlias = tuple[Segment, ...] | Derived
"""The announcements of a step in the feed of its topic: stored segments, or ones derived from events when read."""


class Publication(msgspec.Struct, frozen=True, gc=False):
    """A segment that has become durable and is published.

    `first_cursor` is the cursor of the first entry; the others follow without gaps. `topic` and `first_cursor` are both
    None for a transient segment, which belongs to no topic and is not stored.
    """

    topic: str | None
    first_cursor: int | None
    segment: Segment


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """An event as read from the log. `recorded_at` is microseconds since 1970-01-01 UTC.

    Only verification sets `is_redacted`, if something was removed from the event. `cause` is set on the first event of
    a step that was appended with one: the step extends to the stream's next event that has a cause.
    `is_behind_forgotten` is set if unreadable events precede this one, in its stream, or, when read in log order, in
    any stream.
    """

    stream: str
    version: int
    position: int
    recorded_at: int
    event: Any
    is_redacted: bool = False
    cause: bytes | None = None
    is_behind_forgotten: bool = False


class FeedRow(msgspec.Struct, frozen=True, gc=False):
    """The part of a topic's feed in one log row: the cursors `first_cursor` … `first_cursor + count - 1`.

    The row may also hold events, which its last segments announce; `derived` is the number of segments derived from
    them. `is_behind_forgotten` is set if unreadable rows precede this one.
    """

    topic: str
    first_cursor: int
    segments: tuple[Segment, ...]
    has_events: bool = False
    derived: int = 0
    is_behind_forgotten: bool = False

    @property
    def stored(self) -> tuple[Segment, ...]:
        """The segments that are stored in the row."""
        return self.segments[: len(self.segments) - self.derived]


class WrittenRow(msgspec.Struct, frozen=True, gc=False):
    """A row by its number in the log: its feed part, or its events if these were requested.

    If the row cannot be read, `error` says why. `first_cursor` and `heard` are those that the feed part must have.
    """

    number: int
    stream: str
    first_cursor: int
    heard: int
    feed: FeedRow | None = None
    events: tuple[Recorded, ...] = ()
    error: LogUnusableError | None = None


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """The encoded state of a stream at a version; `topic` names the form, and unknown forms are ignored.

    It can be deleted at any time, since the events give the same state.
    """

    stream: str
    version: int
    topic: str
    state: bytes


class Mark(msgspec.Struct, frozen=True, gc=False):
    """The progress of a consumer of a topic: it has acknowledged everything up to `cursor`.

    `at` is the time of the last acknowledgement, in microseconds since 1970-01-01 UTC.
    """

    topic: str
    client_id: str
    cursor: int
    at: int


class Remembered(msgspec.Struct, frozen=True, gc=False):
    """A request that has taken effect, so that the same request takes no effect when it is sent again.

    `digest` is the digest of the request's content; `note` is the data from which the response is built again; `at` is
    the time at which it took effect, in microseconds since 1970-01-01 UTC.
    """

    id: str
    digest: bytes
    note: bytes
    at: int


class Link(msgspec.Struct, frozen=True, gc=False):
    """An event's place in the hash chain: its version and position, its time, and the digest of its row.

    The digest covers the row and all rows before it in the stream.
    """

    version: int
    position: int
    recorded_at: int
    digest: bytes


class Committed(msgspec.Struct, frozen=True, gc=False):
    """The outcome of an append that is durable: the stream's version and the log's position after it."""

    version: int
    position: int


Outcome: TypeAlias = Committed | Exception
"""The outcome of an append: `Committed`, `ConflictError` or another `StorageError`, or `RequestReusedError`."""

Done: TypeAlias = Callable[[Outcome], None]


def raise_if_error(outcome: Outcome) -> None:
    """Raise the outcome if it is an error."""
    if isinstance(outcome, Exception):
        raise outcome


class Append(msgspec.Struct, frozen=True, gc=False):
    """One atomic step of a stream: all of its events and entries become durable together, or none.

    `after` is the stream's version that the events were decided on; it is None for a step without events that may come
    at any version. `kept` entries enter the feed of the topic, which is the stream itself; those derived from the
    events are not stored in addition. `passing` entries are published after those, and not stored. `snapshot` replaces
    the stream's earlier ones. `due` is when the stream is to be woken next, in microseconds since 1970-01-01 UTC: None
    means never, UNSET leaves the time unchanged. `remembered` is the request that the step carries out, if it must be
    carried out only once. `cause` is the command that led to the events, in its stored form; it is stored with them.
    """

    stream: str
    after: int | None
    recorded_at: int
    events: tuple[object, ...] = ()
    kept: Kept = ()
    passing: tuple[Segment, ...] = ()
    snapshot: Snapshot | None = None
    due: int | msgspec.UnsetType | None = msgspec.UNSET
    remembered: Remembered | None = None
    cause: bytes | None = None


class Journal(Protocol):
    """An append-only history per stream, and one global order of all events."""

    def append(self, step: Append, done: Done) -> None:
        """Make the step durable, publish its segments, then call `done` with the outcome, on the writing thread.

        Returns at once. Steps of one stream take effect in the order in which they were appended; once one is refused,
        all later ones are refused too, until `recover` is called for the stream. The exception is a step whose
        `remembered` request has taken effect before: its outcome is `RequestReusedError`, and later steps are not
        refused.

        Raises:
            RuntimeClosedError: the journal is closed; `done` is not called.
            ValueError: the step has events and no `after`; `done` is not called.
        """
        ...

    def recover(self, stream: str, *, after: int = -1) -> list[Recorded]:
        """Wait for pending steps, accept steps of the stream again, and return its events with a version above `after`.

        Raises:
            RuntimeClosedError: the journal is closed.
            RuntimeError: called from a listener or from `done`, where it would wait for itself.
            StorageError: the log cannot be written or read; steps of the stream are still refused.
        """
        ...

    def read(self, stream: str, *, after: int = 0) -> list[Recorded]:
        """Return the stream's events with a version above `after`."""
        ...

    def read_all(self, *, after: int = 0, limit: int = 1000) -> list[Recorded]:
        """Return up to `limit` events of all streams with a position above `after`, in the order of their positions."""
        ...

    def read_feed(self, topic: str, *, after: int = 0, limit: int = 1000) -> list[FeedRow]:
        """Return up to `limit` feed rows with cursors above `after`; the first row may begin before that."""
        ...

    def read_feed_backwards(self, topic: str) -> Iterator[FeedRow]:
        """Yield the topic's feed rows, newest first, reading them lazily."""
        ...

    def snapshot(self, stream: str) -> Snapshot | None:
        """Return the last snapshot of the stream, if it has one."""
        ...

    def snapshots(self, *, after: str = "", limit: int = 1000) -> list[Snapshot]:
        """Return the last snapshots of up to `limit` streams whose names come after `after`, in name order."""
        ...

    def delete_snapshots(self) -> None:
        """Delete the snapshots of all streams; returns when the deletion is durable."""
        ...

    def due(self, *, after: int, until: int, limit: int = 1000) -> list[tuple[str, int]]:
        """Return up to `limit` streams that are due after `after` and up to `until` inclusive, in the order of time."""
        ...

    def next_due(self, *, after: int) -> int | None:
        """Return the next time at which a stream is due, or None."""
        ...

    def head(self) -> int:
        """Return the position of the last durable event, 0 if there is none."""
        ...

    def close(self) -> None:
        """Make pending steps durable, then close the log. Idempotent."""
        ...


@runtime_checkable
class FeedJournal(Protocol):
    """The additional data of a journal with feeds: the progress of consumers, and the requests carried out."""

    def feed_end(self, topic: str) -> int:
        """Return the last cursor of the topic's feed, 0 if it is empty."""
        ...

    def acknowledge(self, marks: Sequence[Mark], done: Done) -> None:
        """Record the progress of consumers, then call `done` on the writing thread. Returns at once.

        A cursor never goes back: of two marks of a consumer, the higher cursor and the later time are kept.

        Raises:
            RuntimeClosedError: the journal is closed; `done` is not called.
        """
        ...

    def mark(self, topic: str, client_id: str) -> Mark | None:
        """Return the mark of the consumer, or None if it has none."""
        ...

    def marks(self, topic: str) -> list[Mark]:
        """Return the marks of the topic's consumers, in the order of their ids."""
        ...

    def forget_marks(self, *, before: int, keep: Collection[tuple[str, str]] = ()) -> int:
        """Delete the marks that were last updated before that time, except for the (topic, client id) pairs in `keep`.

        Returns their number, once the deletion is durable.
        """
        ...

    def remembered(self, request_id: str) -> Remembered | None:
        """Return the request if it has taken effect.

        Raises:
            StorageError: the log cannot be read, or the request was forgotten together with its session.
        """
        ...

    def forget_requests(self, *, before: int) -> int:
        """Delete the requests that took effect before that time; returns their number, once the deletion is durable."""
        ...

    def replace_feed(self, topic: str, first_cursor: int, last_cursor: int, segments: Sequence[Segment]) -> None:
        """Replace the rows that hold exactly these cursors by one row; returns when that is durable.

        The new segments say less than the stored ones, under the same cursors. Only the last of the rows may hold
        events; these stay, with what is derived from them. The new row is sealed: `verify` detects its change, removal
        or move as for any other row.

        Raises:
            RuntimeClosedError: the journal is closed.
            ValueError: no rows hold exactly these cursors, or one with events is not the last.
            StorageError: the log cannot be written, or the rows have been changed.
        """
        ...

    def stale_feeds(self, *, after: int, limit: int = 1000) -> list[tuple[int, str, int]]:
        """Return up to `limit` feed rows after a row number, in the order in which they were written, oldest first.

        Each as its row number, its topic and the time it was recorded, in microseconds since 1970-01-01 UTC. Sealed
        rows are omitted.
        """
        ...


@runtime_checkable
class Chain(Protocol):
    """The histories of streams, with the digests of their records."""

    def link(self, stream: str, version: int) -> Link | None:
        """Return the link of the event with this version, None if there is none."""
        ...

    def read_until(self, stream: str, version: int, *, after: int = -1) -> list[Recorded]:
        """Return the stream's events with a version above `after` and up to `version` inclusive."""
        ...


@runtime_checkable
class ChainedJournal(Chain, Protocol):
    """A journal with hash-chained records, so that a stream can refer to the history of another and continue it."""

    def link_at(self, stream: str, position: int) -> Link | None:
        """Return the link of the stream's last event up to this log position, None if there is none."""
        ...


@runtime_checkable
class SettlingJournal(Protocol):
    """A journal that can batch steps and write them on the appending thread, so that no other thread must be woken."""

    def append_with_next(self, step: Append, done: Done) -> None:
        """Append like `append`, but wake no thread: the caller must call `flush` or `settle` soon.

        All steps appended until then become durable together.

        Raises:
            RuntimeClosedError: the journal is closed; `done` is not called.
            ValueError: the step has events and no `after`; `done` is not called.
        """
        ...

    def flush(self, then: Callable[[], object]) -> None:
        """Start writing the pending steps, and call `then` when that is finished, on any thread. Returns at once."""
        ...

    def settle(self) -> None:
        """Write the pending steps on the current thread, or leave them to the thread that is writing.

        Each `done` may have been called when this returns. The caller must hold no lock that a `done` or a listener
        takes.
        """
        ...


Synchronous: TypeAlias = Literal["FULL", "NORMAL", "OFF"]
"""What acknowledged appends survive: a power failure (FULL), a crash of the process (NORMAL, OFF)."""

Listener: TypeAlias = Callable[[Iterable[Publication]], None]
"""Called once per commit, on the writing thread, before `done` is called; must return at once and not raise."""

Publisher: TypeAlias = Callable[[range, Sequence[Publication]], None]
"""Like a `Listener`, but also gets the numbers of the rows that the commit has written."""
