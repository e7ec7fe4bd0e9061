"""What the writer is asked for: steps of streams, rows that others have encoded, and marks in the queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, TypeAlias

import msgspec

from reenact.actors.journal.api import Append, Committed, Done, Mark, Remembered
from reenact.domain.chain import DataKey, Row, Timer


class Step(msgspec.Struct, frozen=True, gc=False):
    """An append, and who waits for its outcome."""

    append: Append
    done: Done

    @property
    def stream(self) -> str:
        """The stream that it belongs to."""
        return self.append.stream


class Encoded(msgspec.Struct, frozen=True):
    """An event, or a snapshot, that somebody else has encoded."""

    stream: str
    version: int
    topic: str
    state: bytes


class Foreign(msgspec.Struct, frozen=True):
    """Events and snapshots that become durable together; the outcome's position is that of the last event.

    `events` continue their streams, from version 0 or 1 on; `snapshots` stand at any version that is still free;
    `tracking` names a reader and the position that it has now seen, above the one it had seen before.
    """

    stream: ClassVar[None] = None  # it may be any
    done: Done
    events: tuple[Encoded, ...] = ()
    snapshots: tuple[Encoded, ...] = ()
    tracking: tuple[str, int] | None = None


class Forgetting(msgspec.Struct, frozen=True):
    """The last steps of streams, which become durable together; their data keys are destroyed with it.

    Each comes at whatever version its stream has, and is encrypted with the log's key, as it outlives the stream's.
    """

    stream: ClassVar[None] = None  # it may be any
    steps: tuple[Append, ...]
    done: Done
    remembered: Remembered | None = None


class Recovery(msgspec.Struct, frozen=True):
    """A mark in the queue: steps of the stream that come behind it are accepted again."""

    stream: str
    done: Done


class Purge(msgspec.Struct, frozen=True):
    """All snapshots are to be deleted."""

    stream: ClassVar[None] = None  # it concerns all
    done: Done


class Marking(msgspec.Struct, frozen=True, gc=False):
    """Consumers have come so far."""

    stream: ClassVar[str] = ""  # it is about none
    marks: tuple[Mark, ...]
    done: Done


class MarkDeletion(msgspec.Struct, frozen=True):
    """The marks of these consumers, by topic and client id, are to be deleted if they were last said before the time.

    The outcome is `Deleted`.
    """

    stream: ClassVar[str] = ""  # it is about none
    consumers: Sequence[tuple[str, str]]
    before: int
    done: Done


class RequestDeletion(msgspec.Struct, frozen=True):
    """Of these requests those are to be deleted that took effect before the time. The outcome is `Deleted`."""

    stream: ClassVar[str] = ""  # it is about none
    ids: Sequence[str]
    before: int
    done: Done


class Deleted(Committed, frozen=True, gc=False):
    """A deletion that is durable, of so many rows."""

    count: int


class Replacement(msgspec.Struct, frozen=True):
    """One row, with these encoded segments, takes the place of those of the topic that hold exactly these cursors.

    The outcome is a ValueError if there are none.
    """

    topic: str
    first_cursor: int
    last_cursor: int
    segments: msgspec.Raw
    done: Done

    @property
    def stream(self) -> str:
        """The stream that the topic is of."""
        return self.topic


UNDER_WAY = "reenact: an import"
"""Among the readers, this one stands at the first row of an import that takes several intakes, and at 0 behind it."""


class Intake(msgspec.Struct, frozen=True):
    """Rows of another log become part of this one together, as they are, each behind the one that it follows.

    They get new numbers, and their events new positions, in the order given. The outcome is a ConflictError if a stream
    does not end where its first one here begins, and a LogUnusableError if one is not as it was written. If there is
    `more` to come, the log says so until there is none.
    """

    stream: ClassVar[None] = None  # they may be of any
    done: Done
    rows: tuple[Row, ...] = ()
    timers: tuple[Timer, ...] = ()
    keys: tuple[DataKey, ...] = ()
    more: bool = False


Other: TypeAlias = (
    Intake | Foreign | Forgetting | Recovery | Purge | Marking | MarkDeletion | RequestDeletion | Replacement
)
"""Whatever is not a step."""

Request: TypeAlias = Step | Other


def streams_of(requests: Iterable[Request]) -> Iterator[str]:
    """Yield the streams whose ends matter to the requests, each as often as it is named."""
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
            case Intake(rows=rows):
                for row in rows:
                    yield row.stream
            case Purge() | Marking() | MarkDeletion() | RequestDeletion() | Replacement():
                pass


def remembered_of(requests: Iterable[Request]) -> Iterator[str]:
    """Yield the ids of what is to be carried out once only."""
    for request in requests:
        if isinstance(request, Step) and request.append.remembered is not None:
            yield request.append.remembered.id
