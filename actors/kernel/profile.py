"""What the kernel knows of an actor class before it creates the first actor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeAlias

import msgspec

from reenact.actors.journal.codec import StoredForm, Upcast
from reenact.actors.kernel.alarms import Timer
from reenact.actors.kernel.lineage import Command, Event, Folding, State
from reenact.actors.kernel.snapshots import SnapshotForm
from reenact.actors.kernel.supervision import Supervision


class Stored(msgspec.Struct, frozen=True):
    """The stored form of an event type that has changed: `upcast[n]` turns the fields of version n into those of n + 1.

    The fields are a list in the order of their declaration; every version below `version` needs an upcast.
    """

    type: type[msgspec.Struct]
    version: int = 1
    upcast: Mapping[int, Upcast] = MappingProxyType({})


StoredNames: TypeAlias = Mapping[str, type[msgspec.Struct] | Stored]
"""The permanent names of events in the log: renaming a class loses no history."""


class Profile(msgspec.Struct, Generic[State, Command, Event], eq=False):
    """An actor class: its name in the log, its stored forms, its timers, and how its streams begin."""

    name: str
    category: str
    forms: tuple[StoredForm, ...]
    folding: Folding[State, Command, Event]
    snapshots: SnapshotForm[State] | None
    timers: Callable[[State], Iterable[Timer[Command]]] | None
    mailbox_limit: int | None
    supervision: Supervision | None
    may_be_none: bool
    remembers: bool
    quick_commands: frozenset[type]
    events: frozenset[type] = frozenset()

    def __post_init__(self) -> None:
        """Collect the event types."""
        self.events = frozenset(form.type for form in self.forms)


AnyProfile: TypeAlias = Profile[Any, Any, Any]
"""The profile of a class that is known only at run time."""
