"""One step of an actor: the decision on a command, what the journal records of it, and its outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic

import msgspec

from reenact.actors.journal.api import Append, Derived, Kept, Remembered, Segment
from reenact.actors.kernel.alarms import Timer
from reenact.actors.kernel.declared import Announcement, Declared, is_sequence
from reenact.actors.kernel.lineage import Command, Event, State
from reenact.actors.kernel.mailbox import Envelope
from reenact.actors.kernel.timers import Waiting, earliest

RETRIES = 3
"""How often a command is decided again after another writer appended first."""


class Step(msgspec.Struct, Generic[State, Command, Event], frozen=True, eq=False):
    """The changes that take effect once the journal has recorded them."""

    envelope: Envelope
    command: Command
    events: tuple[Event, ...]
    state: State
    retries: int
    fired: tuple[Timer[Command], ...] = ()
    due: int | None = None
    has_snapshot: bool = False


class Postponed(Exception):
    """Raised by `prepare`: the command is to be decided later, in the form that `begin` provides.

    `begin` gets two functions: one sends the later command, with the same sender waiting, and one fails it with an
    error. It must call one of the two, once, on any thread. Other commands are handled meanwhile.
    """

    def __init__(self, begin: Callable[[Callable[[object], None], Callable[[Exception], None]], None]) -> None:
        super().__init__()
        self.begin = begin


def events_of(actor: Declared[State, Command, Event], command: Command) -> tuple[Event, ...]:
    """Return the events that the actor decides on for the command.

    Raises:
        TypeError: `decide` returned no sequence of events, or an event without a name.
        Exception: what `decide` raises.
    """
    decided = actor.decide(actor.state, command)
    events = decided if isinstance(decided, tuple) else _check_sequence(actor, command, decided)
    known = actor.context.profile.events
    if known:
        for event in events:
            if type(event) not in known:
                name = type(actor).__name__
                raise TypeError(
                    f"{name}.decide returned {event!r:.100}, and {name}.events has no name for {type(event).__name__}"
                )
    return events


def _check_sequence(
    actor: Declared[State, Command, Event], command: Command, decided: Sequence[Event]
) -> tuple[Event, ...]:
    if not is_sequence(decided):
        raise TypeError(
            f"{type(actor).__name__}.decide returned {decided!r:.100} for {type(command).__name__}; "
            "it returns a sequence of events, () for none"
        )
    return tuple(decided)


def step_of(
    actor: Declared[State, Command, Event],
    waiting: Waiting[State, Command] | None,
    snapshot_at: int,
    envelope: Envelope,
    command: Command,
    *,
    events: tuple[Event, ...],
    retries: int,
) -> tuple[Step[State, Command, Event], Append] | None:
    """Return the step, whose state takes effect once durable, and its append; None if there is nothing to record.

    Raises:
        TypeError: a function of the actor returns a value of the wrong type.
        Exception: what a function of the actor raises.
    """
    before, context = actor.state, actor.context
    state = actor.evolve_all(before, events)
    stream, profile = context.stream, context.profile
    if state is None and not profile.may_be_none:
        raise TypeError(f"{type(actor).__name__}.evolve returned None for {events[-1]!r:.100}; it returns the state")
    now = context.system.clock()
    if type(now) is not int:
        raise TypeError(f"the clock returned {now!r}; it tells the time as an int, microseconds since 1970-01-01 UTC")
    remembered: Remembered | None = None
    if profile.remembers:
        remembered = actor.remember(command, events, state, now)
        if remembered is not None and not isinstance(remembered, Remembered):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's own
            raise TypeError(
                f"{type(actor).__name__}.remember returned {remembered!r:.100} for {type(command).__name__}; "
                "it returns a Remembered, or None"
            )
    kept: Kept = ()
    passing: tuple[Segment, ...] = ()
    cause: bytes | None = None
    if events:
        kept, passing = _announced_by(actor, command, before, events=events, after=state, now=now)
        cause = actor.cause(command, events)
        if cause is not None and not isinstance(cause, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]  # likewise
            raise TypeError(
                f"{type(actor).__name__}.cause returned {cause!r:.100} for {type(command).__name__}; "
                "it returns bytes, or None"
            )
    elif remembered is None:
        return None
    version = actor.version
    if waiting is None and profile.snapshots is None:
        step = Step(envelope, command, events, state, retries)
        return step, Append(stream, version, now, events, kept, passing, remembered=remembered, cause=cause)
    due: int | msgspec.UnsetType | None = msgspec.UNSET
    fired: tuple[Timer[Command], ...] = ()
    next_due = None
    if waiting is not None:
        timers = waiting.timers_of(state)
        if timers:
            fired = tuple(timer for timer in waiting.after(envelope) if timer in timers)
            try:
                next_due = earliest(timer for timer in timers if timer not in fired)
            except AttributeError:
                waiting.check(timers)
                raise
        if next_due != waiting.due:
            due = next_due
    snapshot, reached = None, version + len(events)
    is_due = profile.snapshots is not None and reached - snapshot_at >= profile.snapshots.every
    if is_due and profile.snapshots is not None:
        snapshot = profile.snapshots.taken_if_possible(stream, reached, state)
    append = Append(stream, version, now, events, kept, passing, snapshot, due, remembered, cause)
    return Step(envelope, command, events, state, retries, fired, next_due, is_due), append


def _announced_by(
    actor: Declared[State, Command, Event],
    command: Command,
    before: State,
    *,
    events: tuple[Event, ...],
    after: State,
    now: int,
) -> Announcement:
    announced = actor.announce(command, before, events, after, now)
    if announced == _NOTHING:
        return announced
    try:
        kept, passing = announced
        _check_segments((*(() if isinstance(kept, Derived) else kept), *passing))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{type(actor).__name__}.announce returned {announced!r:.100} for {type(command).__name__}; "
            "it returns the kept segments and the passing ones, two tuples of Segments, ((), ()) for none"
        ) from error
    return announced


_NOTHING: Announcement = ((), ())


def _check_segments(announced: Iterable[object]) -> None:
    for each in announced:
        if not isinstance(each, Segment):
            raise TypeError(f"{each!r:.100} is not a Segment")
