"""What the kernel knows of a class of actors before the first of them is made."""

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
    """How an event is stored whose form has changed: `upcast[n]` turns the fields of version n into those of n + 1.

    The fields are a list in the order of their declaration; every version below `version` has its upcast.
    """

    type: type[msgspec.Struct]
    version: int = 1
    upcast: Mapping[int, Upcast] = MappingProxyType({})


StoredNames: TypeAlias = Mapping[str, type[msgspec.Struct] | Stored]
"""The names that events have in the log for ever: renaming a class loses no history."""


class Profile(msgspec.Struct, Generic[State, Command, Event], eq=False):
    """A class of actors: its name in the log, what it stores, what it waits for, and where streams of it begin."""

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
    events: frozenset[type] = frozenset()

    def __post_init__(self) -> None:
        """Gather the types of the events."""
        self.events = frozenset(form.type for form in self.forms)


AnyProfile: TypeAlias = Profile[Any, Any, Any]
"""That of a class which is known at run time alone, among those of others."""
