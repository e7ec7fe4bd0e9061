"""The registry of actor classes: categories, profiles and factories."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard

import msgspec

from reenact.actors.journal.api import Journal, Snapshot
from reenact.actors.journal.codec import EventCodec
from reenact.actors.kernel.context import ActorContext
from reenact.actors.kernel.persistent import AnyActor, EventSourcedActor
from reenact.actors.kernel.profile import AnyProfile

_PAGE = 256


class Mismatch(msgspec.Struct, frozen=True):
    """A snapshot that differs from the state that its stream's events produce at that version."""

    stream: str
    version: int
    problem: str


class ActorClasses:
    """The registered classes of event-sourced actors. Only one thread at a time may call `register`."""

    def __init__(self, codec: EventCodec | None) -> None:
        """Register the classes' event types with the codec; without a codec, classes need not declare event types."""
        self.profiles: dict[type, AnyProfile] = {}  # each of a different class: no type expresses that
        """The profile of each registered class."""
        self._codec = codec
        self._factories: dict[type, Callable[[ActorContext], object]] = {}
        self._categories: dict[str, type] = {}
        self.have_timers = False
        """Whether a registered class has timers."""

    def register(self, actor_class: type, factory: Callable[[ActorContext], object] | None) -> bool:
        """Register a class and return whether it is new; see `ActorSystem.register`."""
        if not isinstance(actor_class, type):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's own
            raise TypeError(f"{actor_class!r:.100} is not an EventSourcedActor; give the class")
        if not _is_event_sourced(actor_class):
            raise TypeError(
                f"{actor_class.__name__} is not an EventSourcedActor; ActorSystem.start() starts other actors"
            )
        if factory is not None or actor_class not in self._factories:
            self._factories[actor_class] = factory or actor_class
        if actor_class in self.profiles:
            return False
        profile = actor_class.profile()
        other = self._categories.get(profile.category)
        if other is not None:
            raise ValueError(_same_category(actor_class, other, profile.category))
        if self._codec is not None:
            if not profile.forms:
                raise TypeError(
                    f"{actor_class.__name__}.events names no events; give each a name in the log, "
                    'such as events = {"deposited": Deposited}'
                )
            for form in profile.forms:
                self._codec.register(form)
        self._categories[profile.category] = actor_class
        self.profiles[actor_class] = profile
        self.have_timers = self.have_timers or profile.timers is not None
        return True

    def of_stream(self, stream: str) -> type | None:
        """Return the class of the actor whose stream this is, if it is registered."""
        return self._categories.get(stream.partition("/")[0])

    def make(self, actor_class: type, context: ActorContext) -> Callable[[], None]:
        """Create an actor and return the function that starts it."""
        actor = self._factories[actor_class](context)
        held = getattr(actor, "context", None)  # `vars` would give each actor a dict of its own
        if not isinstance(actor, EventSourcedActor):
            raise TypeError(f"the factory of {actor_class.__name__} returned {actor!r:.100}; it returns the actor")
        if held is not context:
            raise TypeError(f"{actor_class.__name__} was made without super().__init__(context)")
        return actor.begin

    def mismatches(self, journal: Journal) -> list[Mismatch]:
        """Return the snapshots that differ from the replayed events; see `ActorSystem.check_snapshots`."""
        found: list[Mismatch] = []
        after = ""
        while page := journal.snapshots(after=after, limit=_PAGE):
            for snapshot in page:
                actor_class = self.of_stream(snapshot.stream)
                problem = None if actor_class is None else _problem_of(snapshot, self.profiles[actor_class], journal)
                if problem is not None:
                    found.append(Mismatch(snapshot.stream, snapshot.version, problem))
            after = page[-1].stream
        return found


def _same_category(actor_class: type, other: type, category: str) -> str:
    if (actor_class.__module__, actor_class.__qualname__) == (other.__module__, other.__qualname__):
        return (
            f"{other.__name__} has been defined anew, and this system knows it as it was, under the category "
            f"{category!r}; open a new system, or give the new class another category"
        )
    return (
        f"{actor_class.__name__} and {other.__name__} both have the category {category!r}; "
        "the streams of two classes must not mix: give one of them another category"
    )


def _is_event_sourced(kind: type) -> TypeGuard[type[AnyActor]]:
    return issubclass(kind, EventSourcedActor)


def _problem_of(snapshot: Snapshot, profile: AnyProfile, journal: Journal) -> str | None:
    """Replay the events and return what is wrong with the snapshot, or None."""
    if profile.snapshots is None or snapshot.topic != profile.snapshots.topic:
        return None
    history = [recorded for recorded in journal.read(snapshot.stream, after=-1) if recorded.version <= snapshot.version]
    if not history or history[-1].version != snapshot.version:
        return f"the stream has no version {snapshot.version}"
    return profile.snapshots.difference(snapshot, profile.folding.replay(history, journal))
