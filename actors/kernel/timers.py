"""The timers of one incarnation: those the state waits for, those that have had their turn, and the time in the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, Generic, NoReturn

import msgspec

from reenact.actors.kernel.alarms import Timer
from reenact.actors.kernel.context import ActorContext
from reenact.actors.kernel.declared import is_sequence
from reenact.actors.kernel.lineage import Command, State
from reenact.actors.kernel.mailbox import DUE, Envelope

_MOST_STREAMS_SEARCHED = 100
"""How many streams with the same due time are searched for this one; if there are more, the time is recorded again."""


_log = logging.getLogger("reenact.kernel")


class Own(Envelope):
    """A command that the actor sends itself, such as that of a timer."""

    timer: Timer[Any] | None = None  # untyped, like the message: its actor knows the type


class First(Own):
    """A command handled before any message from outside: if it cannot be recorded, the actor has not started."""


class Waiting(Generic[State, Command]):
    """The timers an actor waits for. Used by the holder of its mailbox, so by one thread at a time."""

    __slots__ = ("_context", "due", "fired", "timers")

    def __init__(self, context: ActorContext, timers: Callable[[State], Iterable[Timer[Command]]]) -> None:
        self._context = context
        self.timers = timers
        self.fired: tuple[Timer[Command], ...] = ()
        """The timers that have had their turn in this incarnation, and that the state still has."""
        self.due: int | msgspec.UnsetType | None = msgspec.UNSET
        """The time in the log at which the actor is to be woken, or UNSET if unknown."""

    def timers_of(self, state: State) -> tuple[Timer[Command], ...]:
        """Return the timers of the state.

        Raises:
            TypeError: `timers` does not return a sequence.
            Exception: what `timers` raises.
        """
        returned = self.timers(state)
        try:
            return tuple(returned)
        except TypeError:  # a user's generator may raise it as well
            if not is_sequence(returned):
                self._raise_no_timer(returned)
            raise

    def check(self, timers: Iterable[Timer[Command]]) -> None:
        """Check that everything `timers` has returned is a timer.

        Raises:
            TypeError: something is not a timer.
        """
        for timer in timers:
            if not isinstance(timer, Timer):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's own
                self._raise_no_timer(timer)

    def _raise_no_timer(self, returned: object) -> NoReturn:
        name = self._context.profile.name
        raise TypeError(f"{name}.timers returned {returned!r:.100}; it returns a sequence of Timers, () for none")

    def left(self, state: State) -> list[Timer[Command]]:
        """Return the timers that have not had their turn.

        Raises:
            TypeError: `timers` does not return timers.
        """
        timers = self.timers_of(state)
        self.check(timers)
        return [timer for timer in timers if timer not in self.fired]

    def due_timers(self, state: State) -> list[Timer[Command]]:
        """Return the due timers, in order of time."""
        now = self._context.clock()
        return sorted((timer for timer in self.left(state) if timer.at <= now), key=lambda timer: timer.at)

    def after(self, envelope: Envelope) -> tuple[Timer[Command], ...]:
        """Return the timers that will have had their turn once this message is handled."""
        return (*self.fired, envelope.timer) if isinstance(envelope, Own) and envelope.timer is not None else self.fired

    def is_past(self, timer: Timer[Command] | None, state: State) -> bool:
        """Return whether the state no longer waits for the timer, because of an earlier command."""
        if timer is None:
            return False
        left = self.left(state)
        if timer in left:
            return False
        command: object = timer.command
        kind = type(command)
        is_like = any(other.at == timer.at and type(other.command) is kind for other in left)
        if is_like and not _has_value_equality(kind):
            error = TypeError(
                f"a timer's command is compared as a value, and {kind.__name__} has no __eq__; give it one"
            )
            _log.error("a timer of %s cannot be recognised, and has no turn: %s", self._context.stream, error)
            self._context.dead_letter(timer.command, error)
        return True

    def first(self, state: State, *, is_new: bool = False) -> list[First]:
        """Return the first commands of a recovered actor: its due timers', or one to record its due time.

        The log has no due time for a new actor.
        """
        due_timers = self.due_timers(state)
        if due_timers:
            return [First(timer.command, None, timer) for timer in due_timers]
        due = earliest(self.left(state))
        if due is None:
            self.due = None if is_new else msgspec.UNSET
            return []
        # The class may have other timers than when the last event was recorded.
        context = self._context
        if (context.stream, due) not in context.journal.due(after=due - 1, until=due, limit=_MOST_STREAMS_SEARCHED):
            return [First(DUE)]
        self.due = due
        return []

    def forget_due(self) -> None:
        """Forget the due time that the log holds: another writer may have changed it."""
        self.due = msgspec.UNSET

    def noted(self, envelope: Envelope, fired: tuple[Timer[Command], ...], due: int | None) -> None:
        """Record what has become durable for this message, and schedule the actor's next wake-up."""
        self.fired, before, self.due = fired, self.due, due
        # A timer's command may lead to another timer at the same time, which is already in the log.
        has_fired = isinstance(envelope, Own) and envelope.timer is not None
        if due is not None and (due != before or has_fired):
            self._context.system.alarms.hint(self._context.stream, due)


def earliest(timers: Iterable[Timer[Command]]) -> int | None:
    """Return the time of the earliest of the timers."""
    return min((timer.at for timer in timers), default=None)


def _has_value_equality(kind: type) -> bool:
    return next(base for base in kind.__mro__ if "__eq__" in vars(base)) is not object
