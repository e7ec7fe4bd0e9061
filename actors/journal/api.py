"""The journal's promise: append-only streams, a feed beside them, and what is heard after a commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from reenact.domain.errors import LogUnusableError
from reenact.domain.stream.feed import Entry as Entry  # noqa: PLC0414 - part of the promise
from reenact.domain.stream.feed import Segment as Segment  # noqa: PLC0414 - likewise


class Derived(msgspec.Struct, frozen=True, gc=False):
    """Segments that are not stored: this version derives them from the events of their step, and from what it `needs`.

    That is in MessagePack.
    """

    version: int
    needs: bytes
    segments: tuple[Segment, ...]

    def __iter__(self) -> Iterator[Segment]:
        """Iterate over the segments."""
        return iter(self.segments)


Kept: TypeAlias = tuple[Segment, ...] | Derived
"""What a step announces in the feed of its topic: segments that are stored, or derived when they are read."""


class Publication(msgspec.Struct, frozen=True, gc=False):
    """What has become durable and may now be heard of.

    `first_cursor` is the cursor of the first entry; the others follow without holes. Both `topic` and
    `first_cursor` are None for what belongs to no topic and is not kept.
    """

    topic: str | None
    first_cursor: int | None
    segment: Segment


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """An event as the log holds it. `recorded_at` is microseconds since 1970-01-01 UTC.

    Whoever verifies a log is told whether something was taken out of the event; nobody else is. `cause` stands on the
    first event of a step that was appended with one: the step goes on until the stream's next event that has one. What
    `is_behind_forgotten` comes behind events that can be read by nobody, of its stream or, in the order of the log, of
    any.
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
    """What a row of the log holds of a topic's feed: the cursors `first_cursor` … `first_cursor + count - 1`.

    The row may hold events, too, which the last of these announce; so many of the segments are `derived` from them.
    What `is_behind_forgotten` comes behind what can be read by nobody.
    """

    topic: str
    first_cursor: int
    segments: tuple[Segment, ...]
    has_events: bool = False
    derived: int = 0
    is_behind_forgotten: bool = False

    @property
    def stored(self) -> tuple[Segment, ...]:
        """The segments that stand in the row."""
        return self.segments[: len(self.segments) - self.derived]


class WrittenRow(msgspec.Struct, frozen=True, gc=False):
    """A row by its number in the log: what its stream's feed has of it, or its events if these were asked for.

    If it cannot be read, `error` says why. `first_cursor` and `heard` are what its feed part ought to hold.
    """

    number: int
    stream: str
    first_cursor: int
    heard: int
    feed: FeedRow | None = None
    events: tuple[Recorded, ...] = ()
    error: LogUnusableError | None = None


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """What a stream adds up to at a version, encoded; `topic` names the form, and forms that nobody knows are skipped.

    It can be deleted at any time: the events say the same.
    """

    stream: str
    version: int
    topic: str
    state: bytes


class Mark(msgspec.Struct, frozen=True, gc=False):
    """How far a consumer of a topic has come: what is up to `cursor` is acknowledged.

    `at` is when that was last said, in microseconds since 1970-01-01 UTC.
    """

    topic: str
    client_id: str
    cursor: int
    at: int


class Remembered(msgspec.Struct, frozen=True, gc=False):
    """A request that has taken effect, so that the same one, sent again, takes none.

    `digest` is that of what was asked; `note` is what the answer is made from if it has to be given again; `at` is when
    it took effect, in microseconds since 1970-01-01 UTC.
    """

    id: str
    digest: bytes
    note: bytes
    at: int


class Link(msgspec.Struct, frozen=True, gc=False):
    """An event of a stream in the chain: where it stands, when it was recorded, and the digest of the row it is in.

    The digest says what the row and all before it in the stream are.
    """

    version: int
    position: int
    recorded_at: int
    digest: bytes


class Committed(msgspec.Struct, frozen=True, gc=False):
    """An append that is durable: the stream's version and the log's position after it."""

    version: int
    position: int


Outcome: TypeAlias = Committed | Exception
"""What became of an append: `Committed`, `ConflictError` or another `StorageError`, or `RequestReusedError`."""

Done: TypeAlias = Callable[[Outcome], None]


class Append(msgspec.Struct, frozen=True, gc=False):
    """One atomic step of a stream: all of its events and entries become durable together, or none.

    `after` is the stream's version that the events were decided on, `None` for a step that has no events and may
    come at any version. `kept` entries enter the feed of the topic, which is the stream itself; what is derived from
    the events is not stored beside them. `passing` entries are heard after those, and kept nowhere. `snapshot` takes
    the place of earlier ones of the stream. `due` is when the stream is to be woken next, in microseconds since
    1970-01-01 UTC: None for never, UNSET for what stands already.
    `remembered` is the request that the step carries out, if one is to be carried out once only. `cause` is the command
    that the events follow from, in its stored form; it is stored beside them.
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
    """An append-only history for each stream, and one global order over all of them."""

    def append(self, step: Append, done: Done) -> None:
        """Make the step durable, let it be heard of, then call `done` with the outcome, on the thread that writes.

        Returns at once. Steps of one stream take effect in the order in which they were handed over; once one is
        refused, all behind it are refused too until `recover` has been called for the stream. Only a step whose
        `remembered` request has taken effect before is as if it had not been handed over, whatever comes behind it: its
        outcome is `RequestReusedError`.

        Raises:
            RuntimeClosedError: the journal is closed; `done` is not called.
            ValueError: the step has events and no `after`; likewise.
        """
        ...

    def recover(self, stream: str, *, after: int = -1) -> list[Recorded]:
        """Wait for what is under way, accept steps of the stream again, and return its events with a version above.

        Raises:
            RuntimeClosedError: the journal is closed.
            RuntimeError: it was called from a listener or from `done`, and would wait for itself.
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
        """Return up to `limit` feed rows that hold cursors above `after`; the first row may begin before it."""
        ...

    def read_feed_backwards(self, topic: str) -> Iterator[FeedRow]:
        """Yield the topic's feed rows, the newest first, reading no more than is asked for."""
        ...

    def snapshot(self, stream: str) -> Snapshot | None:
        """Return the last snapshot of the stream, if it has one."""
        ...

    def snapshots(self, *, after: str = "", limit: int = 1000) -> list[Snapshot]:
        """Return the last snapshots of up to `limit` streams, in the order of their names, from behind `after`."""
        ...

    def delete_snapshots(self) -> None:
        """Delete the snapshots of all streams; returns when that is durable."""
        ...

    def due(self, *, after: int, until: int, limit: int = 1000) -> list[tuple[str, int]]:
        """Return up to `limit` streams that are to be woken in this time, `until` included, in its order."""
        ...

    def next_due(self, *, after: int) -> int | None:
        """Return the next time at which a stream is to be woken, if there is one."""
        ...

    def head(self) -> int:
        """Return the position of the last durable event, 0 if there is none."""
        ...

    def close(self) -> None:
        """Make durable what was handed over, then let go of the log. Idempotent."""
        ...


@runtime_checkable
class FeedJournal(Protocol):
    """What a journal with feeds keeps beside them: how far consumers have come, and what has been carried out."""

    def feed_end(self, topic: str) -> int:
        """Return the last cursor of the topic's feed, 0 if it has none."""
        ...

    def acknowledge(self, marks: Sequence[Mark], done: Done) -> None:
        """Record how far consumers have come, then call `done` on the thread that writes. Returns at once.

        A cursor never goes back: of two marks of a consumer the higher cursor and the later time stand.

        Raises:
            RuntimeClosedError: the journal is closed; `done` is not called.
        """
        ...

    def mark(self, topic: str, client_id: str) -> Mark | None:
        """Return how far the consumer has come, None if nobody knows it."""
        ...

    def marks(self, topic: str) -> list[Mark]:
        """Return how far the topic's consumers have come, by their ids."""
        ...

    def forget_marks(self, *, before: int, keep: Collection[tuple[str, str]] = ()) -> int:
        """Delete the marks that were last said before that time, but for those of the (topic, client id) in `keep`.

        Returns how many they were, once that is durable.
        """
        ...

    def remembered(self, request_id: str) -> Remembered | None:
        """Return the request if it has taken effect, and has not been forgotten."""
        ...

    def forget_requests(self, *, before: int) -> int:
        """Delete what took effect before that time; returns how many they were, once that is durable."""
        ...

    def replace_feed(self, topic: str, first_cursor: int, last_cursor: int, segments: Sequence[Segment]) -> None:
        """Put one row in place of the rows that hold exactly these cursors; returns when that is durable.

        Its segments say less than those that stand in the rows, under the same cursors. Only the last of the rows may
        hold events, which stay, with what is derived from them. The new row is sealed: `verify` finds it changed,
        removed or moved, as any other.

        Raises:
            RuntimeClosedError: the journal is closed.
            ValueError: no rows hold exactly these cursors, or one of them has events and is not the last.
            StorageError: the log cannot be written, or the rows are not as they were written.
        """
        ...

    def stale_feeds(self, *, after: int, limit: int = 1000) -> list[tuple[int, str, int]]:
        """Return up to `limit` feed rows behind a place, in the order in which they were written, the oldest first.

        Each as its place, its topic and when it was recorded, in microseconds since 1970-01-01 UTC. Those that are
        sealed are left out.
        """
        ...


@runtime_checkable
class ChainedJournal(Protocol):
    """A journal whose records are chained, so that a stream can name the history of another one and go on with it."""

    def link(self, stream: str, version: int) -> Link | None:
        """Return the event of this version, None if there is none."""
        ...

    def link_at(self, stream: str, position: int) -> Link | None:
        """Return the stream's last event up to the position of the log, None if there is none."""
        ...

    def read_until(self, stream: str, version: int, *, after: int = -1) -> list[Recorded]:
        """Return the stream's events with a version above `after` and up to `version`, which is included."""
        ...


@runtime_checkable
class SettlingJournal(Protocol):
    """A journal that can gather steps, and work on the thread of whoever appends, so that no other has to be woken."""

    def append_with_next(self, step: Append, done: Done) -> None:
        """Do as `append`, but wake nobody: whoever calls this calls `flush` or `settle` soon.

        What is appended until then becomes durable together.

        Raises:
            RuntimeClosedError: the journal is closed; `done` is not called.
            ValueError: the step has events and no `after`; likewise.
        """
        ...

    def flush(self, then: Callable[[], object]) -> None:
        """Have what was handed over written, and `then` called once it is settled, on any thread. Returns at once."""
        ...

    def settle(self) -> None:
        """Write what was handed over on the current thread, if nobody is writing; else whoever is does it.

        Each `done` may have been called when this returns. The caller must hold no lock that a `done` or a listener
        takes.
        """
        ...


Synchronous: TypeAlias = Literal["FULL", "NORMAL", "OFF"]
"""What an acknowledged append survives: a loss of power (FULL), a crash of the process (NORMAL, OFF)."""

Listener: TypeAlias = Callable[[Iterable[Publication]], None]
"""Hears each commit once, on the thread that writes, before `done` is called; must return at once and not raise."""

Publisher: TypeAlias = Callable[[range, Sequence[Publication]], None]
"""Does what a `Listener` does, and is given the numbers of the rows that the commit has written."""
