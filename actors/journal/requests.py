"""The requests to the writer: steps of streams, rows encoded elsewhere, and maintenance operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, TypeAlias

import msgspec

from reenact.actors.journal.api import Append, Committed, Done, Mark, Remembered
from reenact.actors.journal.store import SideTable
from reenact.domain.chain import DataKey, Row, Timer


class Step(msgspec.Struct, frozen=True):
    """An append, with the callback for its outcome."""

    append: Append
    done: Done

    @property
    def stream(self) -> str:
        """The stream of the step."""
        return self.append.stream


class Encoded(msgspec.Struct, frozen=True):
    """An event or a snapshot in encoded form, from another program."""

    stream: str
    version: int
    topic: str
    state: bytes


class Foreign(msgspec.Struct, frozen=True):
    """Events and snapshots that become durable together; the outcome's position is that of the last event.

    `events` continue their streams, from version 0 or 1 on; `snapshots` may have any free version; `tracking` names a
    reader and its new position, which must be above the previous one.
    """

    stream: ClassVar[None] = None  # may concern any stream
    done: Done
    events: tuple[Encoded, ...] = ()
    snapshots: tuple[Encoded, ...] = ()
    tracking: tuple[str, int] | None = None


class Forgetting(msgspec.Struct, frozen=True):
    """The last steps of streams, which become durable together; the streams' data keys are destroyed at the same time.

    Each step comes at whatever version its stream has, and is encrypted with the log's key, since it outlives the
    stream's.
    """

    stream: ClassVar[None] = None  # may concern any stream
    steps: tuple[Append, ...]
    done: Done
    remembered: Remembered | None = None


class Recovery(msgspec.Struct, frozen=True):
    """A marker in the queue: later steps of the stream are accepted again."""

    stream: str
    done: Done


class Purge(msgspec.Struct, frozen=True):
    """Deletes all snapshots."""

    stream: ClassVar[None] = None  # concerns all streams
    done: Done


class Marking(msgspec.Struct, frozen=True):
    """Records the progress of consumers."""

    stream: ClassVar[str] = ""  # concerns no stream
    marks: tuple[Mark, ...]
    done: Done


class Deletion(msgspec.Struct, frozen=True):
    """Deletes those of the rows with these keys that are from before the time, from one of the tables beside the steps.

    A key is the topic and the client id of a consumer, or the id of a request. The outcome is `Deleted`.
    """

    stream: ClassVar[str] = ""  # concerns no stream
    table: SideTable
    keys: Sequence[tuple[str, ...]]
    before: int
    done: Done


class Deleted(Committed, frozen=True, gc=False):
    """A deletion of `count` rows that is durable."""

    count: int


class Replacement(msgspec.Struct, frozen=True):
    """Replaces the topic's rows that hold exactly these cursors by one row with these encoded segments.

    The outcome is a ValueError if there are no such rows.
    """

    topic: str
    first_cursor: int
    last_cursor: int
    segments: msgspec.Raw
    done: Done

    @property
    def stream(self) -> str:
        """The stream of the topic."""
        return self.topic


UNDER_WAY = "reenact: an import"
"""The reader name under which the first row of an import in several parts is tracked; 0 once it is complete."""


class RowImport(msgspec.Struct, frozen=True):
    """Imports rows of another log unchanged, all together, each after the row that it follows.

    They get new row numbers, and their events new positions, in the given order. The outcome is a ConflictError if a
    stream does not end where its first row here begins, and a LogUnusableError if a row has been changed. With `more`
    to come, the log is marked as unfinished until an intake without it.
    """

    stream: ClassVar[None] = None  # may concern any stream
    done: Done
    rows: tuple[Row, ...] = ()
    timers: tuple[Timer, ...] = ()
    keys: tuple[DataKey, ...] = ()
    more: bool = False


Other: TypeAlias = RowImport | Foreign | Forgetting | Recovery | Purge | Marking | Deletion | Replacement
"""Any request that is not a step."""

Request: TypeAlias = Step | Other


def streams_of(requests: Iterable[Request]) -> Iterator[str]:
    """Yield the streams whose ends the requests need, with repetitions."""
    for request in requests:
        match request:
            case Step(append=append):
                yield append.stream
            case Recovery(stream=stream):
                yield stream
            case Forgetting(steps=steps):
                for step in steps:
                    yield step.stream
            case Foreign(events=events):
                for event in events:
                    yield event.stream
            case RowImport(rows=rows):
                for row in rows:
                    yield row.stream
            case Purge() | Marking() | Deletion() | Replacement():
                pass


def remembered_of(requests: Iterable[Request]) -> Iterator[str]:
    """Yield the ids of the requests that must be carried out only once."""
    for request in requests:
        if isinstance(request, Step) and request.append.remembered is not None:
            yield request.append.remembered.id
