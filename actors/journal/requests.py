"""What the writer is asked for: steps of streams, rows that others have encoded, and marks in the queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, TypeAlias

import msgspec

from reenact.actors.journal.api import Append, Done


class Step(msgspec.Struct, frozen=True, gc=False):
    """An append, and who waits for its outcome."""

    append: Append
    done: Done

    @property
    def stream(self) -> str:
        """The stream that it belongs to."""
        return self.append.stream


class Row(msgspec.Struct, frozen=True):
    """A record of a stream that somebody else has encoded."""

    stream: str
    version: int
    topic: str
    state: bytes


class Rows(msgspec.Struct, frozen=True):
    """Rows that become durable together; the outcome's position is that of the last event.

    `events` continue their streams, from version 0 or 1 on; `snapshots` stand at any version that is still free;
    `tracking` names a reader and the position that it has now seen, above the one it had seen before.
    """

    stream: ClassVar[None] = None  # it may be any
    done: Done
    events: tuple[Row, ...] = ()
    snapshots: tuple[Row, ...] = ()
    tracking: tuple[str, int] | None = None


class Recovery(msgspec.Struct, frozen=True):
    """A mark in the queue: steps of the stream that come behind it are accepted again."""

    stream: str
    done: Done


class Purge(msgspec.Struct, frozen=True):
    """All snapshots are to be deleted."""

    stream: ClassVar[None] = None  # it concerns all
    done: Done


Request: TypeAlias = Step | Rows | Recovery | Purge


def streams_of(requests: Iterable[Request]) -> Iterator[str]:
    """Yield the streams whose ends matter to the requests, each as often as it is named."""
    for request in requests:
        match request:
            case Step(append=append):
                yield append.stream
            case Recovery(stream=stream):
                yield stream
            case Rows(events=rows):
                for row in rows:
                    yield row.stream
            case Purge():
                pass


def topics_of(requests: Iterable[Request]) -> Iterator[str]:
    """Yield the topics whose feeds the requests continue, each as often as it is named."""
    for request in requests:
        if isinstance(request, Step) and request.append.kept:
            yield request.append.stream
