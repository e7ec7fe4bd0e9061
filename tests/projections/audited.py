"""A log in memory as an audit reads one, and random histories in it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeGuard

from reenact.domain.history.causes import AnyCommand, read_cause
from reenact.domain.history.stored import STORED
from reenact.domain.session.state import SessionEvent
from tests.projections.histories import ListLog, Recorded, Step, World, play

NAMES: dict[type, str] = {kind: name for name, kind in STORED.items()}


class AuditedList(ListLog):
    """A log that is a list; its streams have the names that a runtime gives them."""

    def append(self, stream: str, *events: object, cause: bytes | None = None) -> int:
        return super().append(stream.replace("-", "/", 1), *events, cause=cause)

    def read(self, stream: str, *, after: int = 0) -> Sequence[Recorded]:
        return [row for row in self.rows if row.stream == stream and row.version > after]

    def nearest(self, position: int, *, backwards: bool = False) -> int | None:
        positions = [row.position for row in self.rows if backwards == (row.position <= position)]
        return max(positions, default=None) if backwards else min(positions, default=None)

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
    ) -> Sequence[Recorded]:
        fitting = [
            row
            for row in self.rows
            if row.position > after
            and (until is None or row.position <= until)
            and stream in (None, row.stream)
            and row.version > after_version
            and (until_version is None or row.version <= until_version)
            and (not names or NAMES.get(type(row.event), "") in names)
            and (since is None or row.recorded_at >= since)
            and (before is None or row.recorded_at < before)
        ]
        return fitting[:: -1 if backwards else 1][:limit]


def events_of(rows: Sequence[Recorded]) -> list[SessionEvent]:
    """Return the events of a session's history."""
    events = [row.event for row in rows if _is_of_session(row.event)]
    assert len(events) == len(rows)
    return events


def decided(rows: Sequence[Recorded]) -> list[tuple[type[AnyCommand] | None, list[SessionEvent]]]:
    """Return the steps of a session's history: the type of each one's command, and its events."""
    steps: list[tuple[type[AnyCommand] | None, list[SessionEvent]]] = []
    for row, event in zip(rows, events_of(rows), strict=True):
        if row.cause is not None:
            steps.append((read_cause(row.cause).kind, []))
        steps[-1][1].append(event)
    return steps


def _is_of_session(event: object) -> TypeGuard[SessionEvent]:
    return type(event) in NAMES


def played(chosen: Sequence[Step]) -> World:
    """Return the world after the steps, with a log that can be audited."""
    world = World(AuditedList())
    world.create_container("x")
    world.create("a", "x")
    world.create("b", "y")
    world.run("a")
    world.say("a")
    return play(chosen, world)
