"""Checks the streams of a log against their actor classes: events, snapshots and timers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from reenact.actors.journal.api import Chain, Recorded, Snapshot
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.examination import Deviation
from reenact.actors.kernel.lineage import Command, Event, State
from reenact.actors.kernel.persistent import AnyActor
from reenact.actors.kernel.profile import Profile
from reenact.domain.chain import Passed


class ActorsInspection:
    """Replays the streams of the given actor classes: each once, and once more for each stream that branches off it."""

    def __init__(
        self, actor_classes: Iterable[type[AnyActor]], now: int, log_with: Callable[[EventCodec], Chain]
    ) -> None:
        """Inspect these classes. `now` is microseconds since 1970-01-01 UTC; `log_with` opens the log with a codec.

        Raises:
            TypeError: something that a class declares cannot work.
            ValueError: two classes have a stored name in common, or an event type is not fit to be stored.
        """
        profiles = [actor_class.profile() for actor_class in actor_classes]
        self._profiles = {profile.category: profile for profile in profiles}
        self._now = now
        self.codec = EventCodec(form for profile in profiles for form in profile.forms)
        """Decodes the events of these classes."""
        self._log = log_with(self.codec)

    def knows(self, stream: str) -> bool:
        """Return whether the stream belongs to an actor of one of the classes."""
        return stream.partition("/")[0] in self._profiles

    def inspect(
        self,
        stream: str,
        rows: Iterator[Passed[Recorded]],
        snapshots: Iterator[Snapshot],
        due: int | None,
    ) -> Iterator[Deviation]:
        """Yield the deviations of rows, snapshots and due time from the replayed events."""
        profile = self._profiles[stream.partition("/")[0]]
        folding = profile.folding
        state = folding.initial
        snapshot = next(snapshots, None)
        is_first = True
        for recorded in chain.from_iterable(row.events for row in rows):
            if type(recorded.event) not in profile.events:
                problem = f"{type(recorded.event).__name__} is not an event of {profile.name}"
                yield "stream", recorded.version, problem, recorded.position
                return
            try:
                if is_first:
                    state = folding.state_before(self._log, stream, recorded.event, recorded.position)
                    is_first = False
                state = folding.evolve(state, recorded.event)
            except Exception as error:  # noqa: BLE001 - a user's function
                yield "stream", recorded.version, f"it cannot be replayed: {error!r:.200}", recorded.position
                return
            while snapshot is not None and snapshot.version <= recorded.version:
                form, found = profile.snapshots, None
                if form is not None and snapshot.version == recorded.version:
                    found = form.difference(snapshot, state)
                if found is not None:
                    yield "snapshot", snapshot.version, found, None
                snapshot = next(snapshots, None)
        if due not in self._possible_due_times(profile, state):
            yield "timer", due or 0, "the state does not wait for this time", None

    def _possible_due_times(self, profile: Profile[State, Command, Event], state: State) -> set[int | None]:
        """Return the due times that are consistent with the state.

        That is the earliest time that the state waits for; a timer that is due may have had its turn without effect.
        """
        possible: set[int | None] = set()
        waits = profile.timers(state) if profile.timers is not None else ()
        for at in sorted({timer.at for timer in waits}):
            possible.add(at)
            if at > self._now:
                return possible
        return possible | {None}
