"""Actors whose state is a fold over their stream: persist, then believe, and hold no thread in between."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from threading import get_ident
from typing import Any, Final, Generic

import msgspec
import pykka

from reenact.actors.journal.api import Append, Committed, Kept, Outcome, Remembered, Segment
from reenact.actors.kernel.alarms import Timer
from reenact.actors.kernel.context import ActorContext
from reenact.actors.kernel.declared import Command, Declared, Event, State
from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.lineage import Folding, fold, state_before
from reenact.actors.kernel.mailbox import DUE, PASSIVATE, SIGNALS, ChildFailed, Due, Envelope, Escalated, Passivate
from reenact.actors.kernel.pooled import SLICE
from reenact.domain.errors import (
    ConflictError,
    LogUnusableError,
    ReenactError,
    RequestReusedError,
    StorageError,
    UnstorableError,
)

RETRIES: Final = 3
"""How often a command is decided again because another writer was faster."""

_LOOKS: Final = 100
"""Streams with the same time among which one is looked for; if there are more, it is rather said once more."""

_log = logging.getLogger("reenact.kernel")


class _Step(msgspec.Struct, Generic[State, Command, Event], frozen=True, eq=False, gc=False):
    """What becomes true once the journal has it."""

    envelope: Envelope
    command: Command
    events: tuple[Event, ...]
    state: State
    retries: int
    fired: tuple[Timer[Command], ...] = ()
    due: int | None = None
    has_snapshot: bool = False


class _Word(Generic[State, Command, Event]):
    """What became of an append: it is heard at once on the thread that asks, on any other by way of a worker."""

    __slots__ = ("_actor", "_asking", "_step", "outcome")

    def __init__(self, actor: EventSourcedActor[State, Command, Event], step: _Step[State, Command, Event]) -> None:
        self._actor = actor
        self._step = step
        self._asking = get_ident()
        self.outcome: Outcome | None = None

    def __call__(self, outcome: Outcome) -> None:
        """Take the outcome; called once, on the thread that writes."""
        if self._asking == get_ident():
            self.outcome = outcome
        else:
            self._actor.take_up(self._step, outcome)

    def heard(self) -> Outcome | None:
        """Return the outcome if it is there; else it is heard by way of a worker, whatever thread writes."""
        self._asking = 0
        return self.outcome


class _Own(Envelope):
    """A command of the actor's own, such as the one of a timer."""

    timer: Timer[Any] | None = None


class _First(_Own):
    """One that comes before any message of others: if it cannot be recorded, the actor has not started."""


class EventSourcedActor(Declared[State, Command, Event]):
    """An actor that records what follows from a command before it believes, does or says anything.

    A subclass gives `events`, `initial`, `decide` and `evolve`, and overrides the hooks it needs. Hooks run one at a
    time, on a worker, and must not block for long. An `ActorSystem` starts it; commands reach it by a `Reference`.
    """

    touched: int = 0
    _opening: deque[Envelope] | None = None
    _under_way: _Step[State, Command, Event] | None = None
    _outcome: Outcome | None = None
    _failure: tuple[Exception | None, bool] | None = None
    _fired: tuple[Timer[Command], ...] = ()
    _due: int | msgspec.UnsetType | None = msgspec.UNSET  # what the log has, if that is known
    _snapshot_at: int = 0

    def __init__(self, context: ActorContext) -> None:
        self._assemble(context.mailbox)
        self.context = context
        self.state: State = self.initial
        self.version = 0

    # Its life: recover, take one command at a time, end.

    def begin(self) -> None:
        """Take over the mailbox, which is held, and go to work on the current thread."""
        pool = self._mailbox.pool
        pool.enter(self)
        self._mailbox.open(pool, self)
        self._turn(None)

    def ask_to_leave(self) -> None:
        """Ask the actor to leave memory as soon as it has nothing to do; an idle one may do so on this thread."""
        if not self._over:
            envelope = Envelope(PASSIVATE)
            # Whoever brings in many actors is held up by those who leave: the workers alone might not keep up.
            if not self._mailbox.handled_here(envelope):
                self._mailbox.offer(envelope)

    def _begin(self) -> None:
        self._begun = True
        self.context.system.residents.enter(self)
        try:
            self.on_start()
            self._recover()
            opening = list(map(_First, self.on_recovered()))
            if self.context.profile.timers is not None:
                opening += self._first_timers()
            if opening:
                self._opening = deque(opening)
        except Exception as error:  # noqa: BLE001 - whoever waits is told
            is_refusal = isinstance(error, ReenactError) and not isinstance(error, StorageError)
            _log.log(
                logging.DEBUG if is_refusal else logging.ERROR, "%s cannot start", self.context.stream, exc_info=error
            )
            self._failure = error, True
            self._leave()
        except BaseException as error:  # noqa: BLE001 - it must not reach other actors or the worker
            self._failure = None, True
            self._end(error)

    def _leave(self) -> None:
        self.context.system.residents.leave(self)
        self._depart()  # the mailbox stays open, for the next incarnation

    def _recover(self) -> None:
        journal, stream, snapshots = self.context.journal, self.context.stream, self.context.profile.snapshots
        state: State = self.initial
        version = None
        if snapshots is None:
            recorded = journal.recover(stream)
        else:
            snapshot = journal.snapshot(stream)
            known = None if snapshot is None else snapshots.restored(snapshot)
            version = None if snapshot is None or known is None else snapshot.version
            # The event that the snapshot was taken with is read again: it must be there.
            recorded = journal.recover(stream, after=-1 if version is None else version - 1)
            if known is not None and version is not None and recorded and recorded[0].version == version:
                state = self.on_restored(known[0])
                self._snapshot_at = version
                del recorded[0]
            elif version is not None:
                _log.error("the snapshot of %s stands at version %d, which is not there", stream, version)
                recorded, version = journal.recover(stream), None
        last = recorded[-1].version if recorded else version or 0
        # A stream that another library has begun may start at 0.
        before = version if version is not None else min(recorded[0].version, 1) - 1 if recorded else 0
        if last - before != len(recorded):
            raise LogUnusableError(f"stream {stream!r} has holes below version {last}; verify the log")
        if version is None and recorded and self.context.profile.origin is not None:
            state = state_before(self._folds(), journal, stream, recorded[0].event, recorded[0].position)
        self.state = fold(self.evolve, state, recorded)
        self.version = last
        self._due = msgspec.UNSET

    def _folds(self) -> Folding[State]:
        return Folding(self.initial, self.evolve, self.context.profile.origin, self.stream)

    def _turn(self, envelope: Envelope | None) -> None:
        elapsed = self.context.system.residents.elapsed
        if elapsed is not None:
            self.touched = elapsed()
        outcome, step = self._outcome, self._under_way
        if not self._begun:
            self._begin()
        elif outcome is not None and step is not None:
            self._outcome = self._under_way = None
            if self._settles(step, outcome):
                return
        left = SLICE if envelope is None else 1
        while left and not self._over:
            if self._opening:
                envelope = self._opening.popleft()
            elif envelope is None:
                envelope = self._mailbox.next()
                if envelope is None:
                    return
            if self._suspends(envelope):
                return
            envelope = None
            left -= 1
        if self._over:
            error, never_began = self._failure or (None, False)
            self.context.home.ended(error, never_began)
        elif self._opening:
            self._mailbox.again()
        else:
            self._mailbox.let_go()

    def _suspends(self, envelope: Envelope, retries: int = RETRIES) -> bool:
        """Handle the message; return True if the journal is asked and will have a worker go on from there.

        From then on another worker may be at it already: nothing of this actor is to be touched any more.
        """
        if type(envelope.message) in SIGNALS:
            try:
                return self._obey(envelope)
            except Exception as error:  # noqa: BLE001 - a hook of the user's; it is this actor's failure
                _fail_quietly(envelope, error)
                self._break(error)
            except BaseException as error:  # noqa: BLE001 - it must not reach other actors or the worker
                _fail_quietly(envelope, error)
                self._end(error)
            return False
        try:
            if type(envelope) is not Envelope and isinstance(envelope, _Own) and self._is_past(envelope):
                return False
            if self.version or self.context.profile.origin is None:
                command, events, recorded = self._weighs(envelope, retries)
            else:
                command, events, recorded = self._weighs_the_first(envelope, retries)
            if recorded is None:
                _answer(envelope, self.reply(command, events) if envelope.reply_to else None)
                return self._lets_pass(envelope)
            step, append = recorded
        except ReenactError as refusal:
            self._refuse(envelope, refusal)
            return self._lets_pass(envelope)
        except Exception as error:  # noqa: BLE001 - the asker's to know, or this actor's failure; nothing has changed
            self._fail_command(envelope, error)
            return self._lets_pass(envelope)
        except BaseException as error:  # noqa: BLE001 - it must not reach other actors or the worker
            if isinstance(envelope, _First):
                self._failure = None, True
            self._end(error)
            _fail(self.context, envelope, pykka.ActorDeadError(f"{self} stopped before it could reply: {error!r}"))
        else:
            return self._asks(step, append)
        return False

    def _asks(self, step: _Step[State, Command, Event], append: Append) -> bool:
        """Have the journal record the step; return True if its outcome is yet to come."""
        word = _Word(self, step)
        try:
            self.context.system.append(append, word)
        except Exception as error:  # noqa: BLE001 - nothing was handed over
            self._lose(step.envelope, error)
            return False
        outcome = word.heard()
        return True if outcome is None else self._settles(step, outcome)

    def _weighs(
        self, envelope: Envelope, retries: int
    ) -> tuple[Command, tuple[Event, ...], tuple[_Step[State, Command, Event], Append] | None]:
        """Decide on the message; return what follows, and what is to become of it, None if that is nothing."""
        command = self.prepare(envelope.message)
        decided = self.decide(self.state, command)
        events = decided if isinstance(decided, tuple) else self._listed(command, decided)
        known = self.context.profile.events
        for event in events:
            if type(event) not in known:
                self._must_be_known(event)
        if not events and not self.context.profile.remembers:
            return command, events, None
        return command, events, self._step(envelope, command, events, retries)

    def _weighs_the_first(
        self, envelope: Envelope, retries: int
    ) -> tuple[Command, tuple[Event, ...], tuple[_Step[State, Command, Event], Append] | None]:
        """Do the same before the stream has begun: it may go on with the history of another one."""
        self.state = state_before(self._folds(), self.context.journal, self.context.stream, envelope.message)
        try:
            return self._weighs(envelope, retries)
        finally:
            self.state = self.initial  # nothing is believed before it is durable

    def _listed(self, command: Command, decided: Sequence[Event]) -> tuple[Event, ...]:
        if not _is_sequence(decided):
            raise TypeError(
                f"{type(self).__name__}.decide returned {decided!r:.100} for {type(command).__name__}; "
                "it returns a sequence of events, () for none"
            )
        return tuple(decided)

    def _must_be_known(self, event: Event) -> None:
        if self.context.profile.events:
            raise TypeError(
                f"{type(self).__name__}.decide returned {event!r:.100}, and {type(self).__name__}.events "
                f"has no name for {type(event).__name__}"
            )

    def _step(
        self,
        envelope: Envelope,
        command: Command,
        events: tuple[Event, ...],
        retries: int,
    ) -> tuple[_Step[State, Command, Event], Append] | None:
        """Return what is believed once it is durable, and what is to become durable; None if that is nothing."""
        state = self.evolve_all(self.state, events)
        context = self.context
        stream, profile = context.stream, context.profile
        if state is None and not profile.may_be_none:
            raise TypeError(f"{type(self).__name__}.evolve returned None for {events[-1]!r:.100}; it returns the state")
        now = context.system.clock()
        if type(now) is not int:
            raise TypeError(
                f"the clock returned {now!r}; it tells the time as an int, microseconds since 1970-01-01 UTC"
            )
        remembered = self._remembered(command, events, state, now) if profile.remembers else None
        kept: Kept = ()
        passing: tuple[Segment, ...] = ()
        cause: bytes | None = None
        if events:
            kept, passing = self.announce(command, self.state, events, state, now)
            cause = self.cause(command, events)
        elif remembered is None:
            return None
        if profile.timers is None and profile.snapshots is None:
            step = _Step(envelope, command, events, state, retries)
            return step, Append(stream, self.version, now, events, kept, passing, remembered=remembered, cause=cause)
        due: int | msgspec.UnsetType | None = msgspec.UNSET
        fired: tuple[Timer[Command], ...] = ()
        next_due = None
        if profile.timers is not None:
            waiting = tuple(profile.timers(state))
            fired = self._fired
            if isinstance(envelope, _Own) and envelope.timer is not None:
                fired = (*fired, envelope.timer)
            fired = tuple(timer for timer in fired if timer in waiting)
            next_due = _earliest(timer for timer in waiting if timer not in fired)
            if next_due != self._due:
                due = next_due
        snapshot = None
        version = self.version + len(events)
        if profile.snapshots is not None and version - self._snapshot_at >= profile.snapshots.every:
            snapshot = profile.snapshots.taken(stream, version, state)
        append = Append(stream, self.version, now, events, kept, passing, snapshot, due, remembered, cause)
        return _Step(envelope, command, events, state, retries, fired, next_due, snapshot is not None), append

    def _remembered(self, command: Command, events: tuple[Event, ...], state: State, now: int) -> Remembered | None:
        remembered = self.remember(command, events, state, now)
        if not isinstance(remembered, Remembered | None):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's own
            raise TypeError(
                f"{type(self).__name__}.remember returned {remembered!r:.100} for {type(command).__name__}; "
                "it returns a Remembered, or None"
            )
        return remembered

    def _obey(self, envelope: Envelope) -> bool:
        """Do what the kernel says; return True if the journal is asked."""
        match envelope.message:
            case Passivate():
                if self._mailbox.empty() and not self.context.has_children and self.can_passivate():
                    self._stop()
            case Due():
                is_asked = self._wakes(envelope)
                _answer(envelope, None)
                return is_asked
            case ChildFailed(child=child, error=error):
                self.on_child_failed(child, error)
            case Escalated(error=error):
                self._break(error)
            case _:
                self._stop()
                _answer(envelope, None)
        return False

    def _refuse(self, envelope: Envelope, refusal: ReenactError) -> None:
        if envelope.reply_to is not None:
            envelope.reply_to.fail(refusal)
            return
        _log.debug("%s refused %r: %s", self, envelope.message, refusal)
        self.context.dead_letter(envelope.message, refusal)
        self._let_hear(partial(self.on_dead_letter, envelope.message, refusal), "a dead letter")

    def _fail_command(self, envelope: Envelope, error: Exception) -> None:
        _fail(self.context, envelope, error)
        if envelope.reply_to is None and self.context.is_supervised:
            self._break(error)

    def _break(self, error: Exception) -> None:
        """End this incarnation by a failure."""
        _log.error("%s has failed", self.context.stream, exc_info=error)
        self._failure = error, False
        self._leave()
        self._let_hear(partial(self.on_failure, type(error), error, error.__traceback__), "its failure")

    def _let_hear(self, hook: Callable[[], object], what: str) -> None:
        """Call a hook that only hears: what it raises is logged and no more, unless it quits."""
        try:
            hook()
        except Exception:  # noqa: BLE001 - nobody waits for it
            _log.exception("%s failed to hear of %s", self, what)
        except BaseException as error:  # noqa: BLE001 - it must not reach other actors or the worker
            if not self._over:
                self._end(error)

    # Its timers.

    def _waiting(self) -> list[Timer[Command]]:
        """Return what is waited for, but for timers that have had their turn in this incarnation."""
        timers = self.context.profile.timers
        return [] if timers is None else [timer for timer in timers(self.state) if timer not in self._fired]

    def _ripe(self) -> list[Timer[Command]]:
        """Return the timers whose time has come, in its order."""
        now = self.context.clock()
        return sorted((timer for timer in self._waiting() if timer.at <= now), key=lambda timer: timer.at)

    def _is_past(self, own: _Own) -> bool:
        """Return whether the state waits for the timer no more, because of what came before it."""
        timer = own.timer
        if timer is None:
            return False
        waiting = self._waiting()
        if timer in waiting:
            return False
        command: object = timer.command
        kind = type(command)
        is_like = any(other.at == timer.at and type(other.command) is kind for other in waiting)
        if is_like and not _is_compared_as_a_value(kind):
            error = TypeError(
                f"a timer's command is compared as a value, and {kind.__name__} has no __eq__; give it one"
            )
            _log.error("a timer of %s cannot be recognised, and has no turn: %s", self.context.stream, error)
            self.context.dead_letter(timer.command, error)
        return True

    def _first_timers(self) -> list[_First]:
        """Return what the timers have to say at the start."""
        ripe = self._ripe()
        if ripe:
            return [_First(timer.command, None, timer) for timer in ripe]
        due = _earliest(self._waiting())
        if due is None:
            return []
        # The class may wait for something else than it did when the last event was recorded.
        if (self.context.stream, due) not in self.context.journal.due(after=due - 1, until=due, limit=_LOOKS):
            return [_First(DUE)]
        self._due = due
        return []

    def _wakes(self, envelope: Envelope) -> bool:
        """Take up the timers whose time has come; if there are none, the log is wrong, or the clock was set back."""
        ripe = self._ripe()
        if ripe:
            self._opening = deque(_Own(timer.command, None, timer) for timer in ripe)
            return False
        return self._waits_anew(envelope, self._fired)

    def _lets_pass(self, envelope: Envelope) -> bool:
        """Have a timer wake this actor no more whose command had no effect; its next incarnation tries it again."""
        if self._over or not isinstance(envelope, _Own) or envelope.timer is None:
            return False
        try:
            return self._waits_anew(envelope, (*self._fired, envelope.timer))
        except Exception as error:  # noqa: BLE001 - `timers`, or a comparison of commands, raises: no turn may end so
            self._failure = error, isinstance(envelope, _First)
            self._leave()
            self._let_hear(partial(self.on_failure, type(error), error, error.__traceback__), "its failure")
            return False

    def _waits_anew(self, cause: Envelope, fired: tuple[Timer[Command], ...]) -> bool:
        """Have the log say when the actor is to be woken next; return True if the journal is asked, as `_suspends`."""
        self._fired = fired
        due = _earliest(self._waiting())
        if due == self._due:
            if due is not None:
                self.context.system.alarms.hint(self.context.stream, due)
            return False
        kind = _First if isinstance(cause, _First) else Envelope
        envelope = kind(DUE, PooledFuture())  # nobody waits, and what was said to `cause` stands
        step: _Step[State, Command, Event] = _Step(envelope, cause.message, (), self.state, 0, fired, due)
        # After this version: what another writer has added since would say another time.
        return self._asks(step, Append(self.context.stream, self.version, self.context.clock(), due=due))

    # What became of a step.

    def take_up(self, step: _Step[State, Command, Event], outcome: Outcome) -> None:
        """Have a worker go on with the step; called on the thread that writes."""
        self._under_way, self._outcome = step, outcome
        mailbox = self._mailbox
        mailbox.pool.submit(mailbox)

    def _settles(self, step: _Step[State, Command, Event], outcome: Outcome) -> bool:
        """Take up what the journal reports; return True if it is asked again."""
        if isinstance(outcome, Committed):
            self._believe(step, outcome)
            return False
        if isinstance(outcome, ConflictError):
            return self._decide_again(step, outcome)
        if isinstance(outcome, UnstorableError) and self._can_go_on(step.envelope):
            self._fail_command(step.envelope, outcome)
            return self._lets_pass(step.envelope)
        if isinstance(outcome, RequestReusedError):
            self._refuse(step.envelope, outcome)
            return self._lets_pass(step.envelope)
        if not self._over:
            self._lose(step.envelope, outcome)
        return False

    def _can_go_on(self, envelope: Envelope) -> bool:
        """Make up for a step that was refused for what it held: nothing is wrong with the log, or with the actor."""
        try:
            self._recover()
        except Exception as error:  # noqa: BLE001 - without its history the actor cannot go on
            self._lose(envelope, error)
            return False
        return True

    def _believe(self, step: _Step[State, Command, Event], committed: Committed) -> None:
        self.state, self.version = step.state, committed.version
        if step.has_snapshot:
            self._snapshot_at = committed.version
        if self.context.profile.timers is not None:
            self._fired, before, self._due = step.fired, self._due, step.due
            if step.due is not None and step.due != before:
                self.context.system.alarms.hint(self.context.stream, step.due)
        if step.envelope.message is DUE:
            return  # a time was noted, and that is all
        failure: Exception | None = None
        try:
            if step.events:  # else it was only remembered
                self.on_committed(step.command, step.events)
        except Exception as error:  # noqa: BLE001 - what is recorded stands
            _log.exception("%s recorded %r and failed to act on it", self, step.events)
            failure = error
        except BaseException as error:  # noqa: BLE001 - it must not reach other actors or the worker
            self._end(error)
        if step.envelope.reply_to is not None:
            try:
                reply = self.reply(step.command, step.events)
            except Exception as error:  # noqa: BLE001 - the asker's to know
                _fail(self.context, step.envelope, error)
            except BaseException as error:  # noqa: BLE001 - it must not reach other actors or the worker
                if not self._over:
                    self._end(error)
                _fail_quietly(step.envelope, error)
            else:
                _answer(step.envelope, reply)
        if failure is not None and self.context.is_supervised:
            self._break(failure)

    def _decide_again(self, step: _Step[State, Command, Event], conflict: ConflictError) -> bool:
        try:
            self._recover()
        except Exception as error:  # noqa: BLE001 - without its history the actor cannot go on
            self._lose(step.envelope, error)
            return False
        if step.retries:
            return self._suspends(step.envelope, step.retries - 1)
        if isinstance(step.envelope, _First):
            self._lose(step.envelope, conflict)
        else:
            _fail(self.context, step.envelope, conflict)
            if self.context.profile.timers is not None:
                self.context.system.alarms.later(self.context.stream)
        return False

    def _lose(self, envelope: Envelope, error: Exception) -> None:
        # If it is the actor's own first command, it did not even get as far as the first message.
        self._failure = error, isinstance(envelope, _First)
        self._leave()
        self._let_hear(partial(self.on_lost, error), "what it has lost")
        _fail(self.context, envelope, error)
        if self.context.profile.timers is not None:
            self.context.system.alarms.later(self.context.stream)


def _is_compared_as_a_value(kind: type) -> bool:
    return next(base for base in kind.__mro__ if "__eq__" in vars(base)) is not object


def _is_sequence(decided: object) -> bool:
    return isinstance(decided, Iterable) and not isinstance(decided, (str, bytes))


def _earliest(timers: Iterable[Timer[Any]]) -> int | None:
    return min((timer.at for timer in timers), default=None)


def fail_all(context: ActorContext, error: Exception) -> None:
    """Answer everything that waits now: what the kernel says with success, all else with the error."""
    mailbox = context.mailbox
    for _ in range(len(mailbox)):
        envelope = mailbox.get()
        if type(envelope.message) not in SIGNALS:
            _fail(context, envelope, error)
        elif isinstance(envelope.message, Due) and envelope.reply_to is not None:
            envelope.reply_to.fail(error)
        else:
            _answer(envelope, None)


def _answer(envelope: Envelope, reply: object) -> None:
    if envelope.reply_to is not None:
        envelope.reply_to.set(reply)


def _fail_quietly(envelope: Envelope, error: BaseException) -> None:
    """Tell whoever waits; the message itself was nobody's, or has been handled."""
    if envelope.reply_to is not None:
        if not isinstance(error, Exception):
            error = pykka.ActorDeadError(f"the actor stopped before it could reply: {error!r}")
        envelope.reply_to.fail(error)


def _fail(context: ActorContext, envelope: Envelope, error: BaseException) -> None:
    if envelope.reply_to is not None:
        envelope.reply_to.fail(error)
    else:
        _log.error("a command that was told has failed: %.200r", envelope.message, exc_info=error)
        context.dead_letter(envelope.message, error)
