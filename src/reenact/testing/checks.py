"""What must be true of an actor whenever it is at rest: each check returns what it finds wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from reenact.actors.journal.api import Journal, Recorded
from reenact.actors.kernel.profile import Profile
from reenact.testing.examiner import IN_PLACE, PURE
from reenact.testing.findings import finding
from reenact.testing.portrait import differences, portrait
from reenact.testing.watch import AnyActor
from reenact.testing.witness import witness

_EVOLVE_ONLY: Final = (
    "a state comes from evolve and nothing else, once for each event, and evolve depends on nothing but its arguments"
)
_SNAPSHOT: Final = (
    "what to_snapshot returns must hold everything, and come back as snapshot_type or as the state's type"
)
_EQUAL: Final = "a timer is known by its value: give its command an __eq__, such as that of a frozen dataclass"


def live_is_replayed(actor: AnyActor, history: Sequence[Recorded]) -> Iterator[str]:
    """Check that the log says what the live actor believes."""
    who, kind = actor.context.stream, type(actor)
    believed = [recorded for recorded in history if recorded.version <= actor.version]
    if (believed[-1].version if believed else 0) != actor.version:
        yield finding(f"{who} believes to be at version {actor.version}, and its log has {len(believed)} events")
        return
    try:
        replayed = kind.replay(believed, actor.context.journal)
    except Exception as error:  # noqa: BLE001 - a function of the user's
        yield finding(f"the history of {who} cannot be replayed", [str(error)])
        return
    wrong = differences(portrait(actor.state, "state"), portrait(replayed, "state"), verb="live, replayed")
    if wrong:
        yield finding(f"the live {who} is not what its log says", wrong, _EVOLVE_ONLY)


def snapshot_keeps(actor: AnyActor) -> Iterator[str]:
    """Check that the state comes back from a snapshot as it went in."""
    form = actor.context.profile.snapshots
    if form is None:
        return
    who, state = actor.context.stream, actor.state
    before = portrait(state, "state")
    acts: list[str] = []
    try:
        with witness(acts):
            restored = form.restored(form.taken(who, actor.version, state))
    except Exception as error:  # noqa: BLE001 - a function of the user's
        yield finding(f"no snapshot can be taken of {state!r}", [repr(error)], _SNAPSHOT)
        return
    if restored is None:
        yield finding(f"the snapshot of {state!r} cannot be read again", advice=_SNAPSHOT)
    elif lost := differences(before, portrait(restored[0], "state")):
        yield finding(f"a snapshot of {who} does not keep its state", lost, _SNAPSHOT)
    if acts:
        yield finding("to_snapshot or from_snapshot does more than return", [f"it {act}" for act in acts], PURE)
    if changed := differences(before, portrait(state, "state")):
        yield finding("to_snapshot changes the state that it is given", changed, IN_PLACE)


def snapshot_is_replayed(
    kind: type[AnyActor], profile: Profile[Any], journal: Journal, stream: str, history: Sequence[Recorded]
) -> Iterator[str]:
    """Check that the snapshot in the log, if there is one, is what the events before it add up to."""
    snapshot = journal.snapshot(stream)
    restored = None if snapshot is None or profile.snapshots is None else profile.snapshots.restored(snapshot)
    if snapshot is None or restored is None:
        return
    before = [recorded for recorded in history if recorded.version <= snapshot.version]
    replayed = kind.replay(before, journal)
    wrong = differences(portrait(restored[0], "state"), portrait(replayed, "state"), verb="in the snapshot, replayed")
    if wrong:
        yield finding(f"the snapshot of {stream} at version {snapshot.version} is not what the events say", wrong)


def timers_are_pure(actor: AnyActor) -> Iterator[str]:
    """Check that what the actor waits for is said by its state alone."""
    timers = actor.context.profile.timers
    if timers is None:
        return
    before = portrait(actor.state, "state")
    acts: list[str] = []
    with witness(acts):
        first = tuple(timers(actor.state))
    if acts:
        yield finding(f"timers does more than return, for {actor.state!r}", [f"it {act}" for act in acts], PURE)
    elif other := differences(portrait(first, "it"), portrait(tuple(timers(actor.state)), "it"), verb="is now"):
        yield finding(f"timers returns something else when it is called again, for {actor.state!r}", other, PURE)
    elif first != tuple(timers(actor.state)):
        yield finding(f"timers are not equal when they are made again, for {actor.state!r}", advice=_EQUAL)
    if changed := differences(before, portrait(actor.state, "state")):
        yield finding("timers changes the state that it is given", changed, IN_PLACE)


def log_is(
    journal: Journal, expected: dict[str, list[Any]], acknowledged: Iterable[tuple[str, int, Any]]
) -> Iterator[str]:
    """Check that the log holds what became durable, in its order, and what was acknowledged, each exactly once."""
    found: dict[str, list[Any]] = {}
    for recorded in journal.read_all(limit=1_000_000_000):
        found.setdefault(recorded.stream, []).append(recorded.event)
    if wrong := differences(portrait(expected, "log"), portrait(found, "log"), verb="was written, read is"):
        yield finding("the log does not hold what was written to it", wrong)
    for stream, version, event in acknowledged:
        history = found.get(stream, [])
        durable = history[version - 1] if version <= len(history) else None
        if lost := differences(
            portrait(event, "event"), portrait(durable, "event"), verb="was acknowledged, recorded is"
        ):
            yield finding(f"version {version} of {stream} is not the event that was acknowledged", lost)
