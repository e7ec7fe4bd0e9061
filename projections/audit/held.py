"""An export that is opened as a log, in memory: for looking and replaying, without a log to take it in."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from reenact.domain.chain import Row
from reenact.projections.audit.exported import ExportReader
from reenact.projections.audit.exporting import events_of
from reenact.projections.audit.forms import Forms


class HeldEvent(msgspec.Struct, frozen=True, gc=False):
    """An event where it stood in the log. `recorded_at` is microseconds since 1970-01-01 UTC."""

    stream: str
    version: int
    position: int
    recorded_at: int
    event: Any
    name: str
    """The stored name of the event."""
    cause: bytes | None


class HeldLog:
    """A log that is held in memory, at the positions that its events had; it keeps the promise of `AuditedLog`."""

    def __init__(self, events: Sequence[HeldEvent], head: int) -> None:
        """Take the events in the order of their positions."""
        self._events = events
        self._positions = [event.position for event in events]
        self._head = head
        self._streams: dict[str, list[HeldEvent]] = {}
        for event in events:
            self._streams.setdefault(event.stream, []).append(event)

    def read(self, stream: str, *, after: int = 0) -> Sequence[HeldEvent]:
        """Return the stream's events with a version above `after`."""
        return [event for event in self._streams.get(stream, ()) if event.version > after]

    def read_all(self, *, after: int = 0, limit: int = 1000) -> Sequence[HeldEvent]:
        """Return up to `limit` events with a position above `after`, in the order of their positions."""
        first = bisect_right(self._positions, after)
        return self._events[first : first + limit]

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
    ) -> Sequence[HeldEvent]:
        """Return up to `limit` events that fit every condition, as `AuditedLog` promises."""
        events = self._events if stream is None else self._streams.get(stream, ())
        fitting = (
            event
            for event in (reversed(events) if backwards else events)
            if after < event.position <= (event.position if until is None else until)
            and after_version < event.version <= (event.version if until_version is None else until_version)
            and (not names or event.name in names)
            and (since is None or event.recorded_at >= since)
            and (before is None or event.recorded_at < before)
        )
        return list(islice(fitting, limit))

    def nearest(self, position: int, *, backwards: bool = False) -> int | None:
        """Return the next position above this one that has an event, or the last one up to it; None if none has."""
        above = bisect_right(self._positions, position)
        if backwards:
            return self._positions[above - 1] if above else None
        return self._positions[above] if above < len(self._positions) else None

    def head(self) -> int:
        """Return the position of the log's last event when it was exported."""
        return self._head

    def streams(self) -> Iterator[str]:
        """Yield the names of the streams, in the order of their first events."""
        yield from self._streams


def hold(reader: ExportReader, forms: Forms) -> HeldLog:
    """Return the log that an export says.

    Raises:
        ExportUnusableError: the file is no whole and true export.
        LogUnusableError: it holds an event that nobody knows.
        OSError: it cannot be read.
    """
    events: list[HeldEvent] = []
    for item in reader.items():
        if not isinstance(item, Row):
            continue
        for index, (topic, state) in enumerate(events_of(item)):
            recorded_at, event = forms.decode(topic, state)
            version, position = (item.version or 0) + index, (item.position or 0) + index
            name = topic.rpartition(":")[0]
            cause = None if index else item.cause
            events.append(HeldEvent(item.stream, version, position, recorded_at, event, name, cause))
    return HeldLog(events, reader.header.head)
