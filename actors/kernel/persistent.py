"""Actors whose state is a fold over their stream: persist, then believe, and hold no thread in between."""

from __future__ import annotations

import inspect
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from types import FunctionType, MappingProxyType, NoneType
from typing import Any, ClassVar, Final, ForwardRef, Generic, NoReturn, TypeAlias, TypeVar, get_args, get_origin

import msgspec
import pykka

from reenact.actors.journal.api import Append, Committed, Outcome, Recorded, Segment
from reenact.actors.kernel.alarms import Timer
from reenact.actors.kernel.context import ActorContext
from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.mailbox import Envelope
from reenact.actors.kernel.pooled import SLICE, PooledActor
from reenact.actors.kernel.profile import Profile, SnapshotForm, Stored, StoredNames, stored_forms
from reenact.actors.kernel.signals import DUE, PASSIVATE, SIGNALS, ChildFailed, Due, Escalated, Passivate
from reenact.actors.kernel.supervision import Supervision
from reenact.domain.errors import ConflictError, LogUnusableError, ReenactError, UnstorableError

RETRIES: Final = 3
"""How often a command is decided again because another writer was faster."""

_LOOKS: Final = 100
"""Streams with the same time among which one is looked for; if there are more, it is rather said once more."""

_FUNCTIONS: Final = (
    *("decide", "evolve", "timers", "to_snapshot", "from_snapshot"),
    *("on_start", "on_recovered", "prepare", "announce", "on_committed", "reply", "can_passivate"),
    *("on_stop", "on_failure", "on_lost", "on_dead_letter", "on_child_failed"),
)
"""What a class may define, and the kernel calls."""

_log = logging.getLogger("reenact.kernel")

State = TypeVar("State")
Command = TypeVar("Command")
Event = TypeVar("Event")

Announcement: TypeAlias = tuple[tuple[Segment, ...], tuple[Segment, ...]]
"""What is to be heard of a step: the kept segments, and the passing ones."""


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


class _Own(Envelope):
    """A command of the actor's own, such as the one of a timer."""

    timer: Timer[Any] | None = None


class _First(_Own):
    """One that comes before any message of others: if it cannot be recorded, the actor has not started."""


class EventSourcedActor(PooledActor, Generic[State, Command, Event]):
    """An actor that records what follows from a command before it believes, does or says anything.

    A subclass gives `events`, `initial`, `decide` and `evolve`, and overrides the hooks it needs. Hooks run one at a
    time, on a worker, and must not block for long. An `ActorSystem` starts it; commands reach it by a `Reference`.
    """

    category: ClassVar[str] = ""
    """The first part of the names of the streams, `<category>/<id>`, for ever. By default the name of the class."""

    events: ClassVar[StoredNames] = MappingProxyType({})
    """The names under which events are stored, and their types: frozen array-like structs, such as `Event`."""

    initial: State
    """The state before the first event. An immutable value."""

    decide: Callable[[State, Command], Sequence[Event]]
    """Returns what follows from a command, or refuses it with a `ReenactError`. Pure; a `staticmethod`."""

    evolve: Callable[[State, Event], State]
    """Returns the state as it is once the event has happened. Pure; a `staticmethod`."""

    timers: Callable[[State], Iterable[Timer[Command]]] | None = None
    """Returns what the state waits for. Pure; a `staticmethod`.

    When the time of a timer has come, the actor is given its command, also after a restart, even if nobody has sent
    anything: at least once, and once at most while it lives. A command that has an effect changes the state so that
    the timer is gone from it, or stands at another time. A timer that is gone before its turn comes is not heard of.
    The class must be registered with the system.
    """

    snapshot_every: ClassVar[int | None] = None
    """After how many events a snapshot is taken with them. What is stored is encoded and decoded by msgspec."""

    snapshot_version: ClassVar[int] = 1
    """To be raised when states mean something else than before: earlier snapshots are skipped from then on."""

    snapshot_type: ClassVar[Any] = None
    """The type of what `to_snapshot` returns, if that is not a state."""

    mailbox_limit: ClassVar[int | None] = None
    """How many messages may wait; whoever sends one more gets a `MailboxFullError`."""

    supervision: ClassVar[Supervision | None] = None
    """How the actor is cared for when it fails. None: it ends, and the next message starts it again."""

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

    @classmethod
    def stream(cls, id: str) -> str:  # noqa: A002 - the word users know it by
        """Return the name of the stream of the actor with this id."""
        return f"{cls.category or cls.__name__}/{id}"

    @classmethod
    def start(cls, *args: Any, **kwargs: Any) -> NoReturn:  # noqa: ANN401, ARG003 - pykka's own signature
        """Refuse: without a system there is no journal to start from."""
        raise TypeError(f"{cls.__name__} is event-sourced: ActorSystem.actor() starts it")

    @staticmethod
    def to_snapshot(state: Any) -> Any:  # noqa: ANN401 - a State, which a static method cannot name
        """Return what is stored of a state, by default itself."""
        return state

    @staticmethod
    def from_snapshot(stored: Any) -> Any:  # noqa: ANN401 - likewise
        """Return the state of which this was stored, by default itself."""
        return stored

    @classmethod
    def profile(cls) -> Profile[State]:
        """Return what the kernel has to know of the class.

        Raises:
            TypeError: something that the class declares cannot work.
        """
        category = cls.category or cls.__name__
        if "/" in category:
            raise TypeError(f"the category {category!r} of {cls.__name__} must not contain a slash")
        if not isinstance(cls.events, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's own
            raise TypeError(f"{cls.__name__}.events must map the names of events in the log to their types")
        for name, kind in cls.events.items():
            if not _can_be_stored(name, kind):
                raise TypeError(f"{cls.__name__}.events must map texts to types or Stored, not {name!r} to {kind!r}")
        if cls.mailbox_limit is not None and cls.mailbox_limit < 1:
            raise TypeError(f"{cls.__name__}.mailbox_limit must be above zero, not {cls.mailbox_limit}")
        cls._check_functions()
        may_be_none = cls.initial is None or NoneType in get_args(_state_type(cls))
        snapshots = cls._snapshot_form(category)
        return Profile(category, stored_forms(cls.events), snapshots, cls.timers, may_be_none=may_be_none)

    @classmethod
    def _check_functions(cls) -> None:
        for name in ("initial", "decide", "evolve"):
            if not hasattr(cls, name):
                raise TypeError(
                    f"{cls.__name__} has no {name}; an event-sourced actor needs initial, decide and evolve"
                )
        if not isinstance(cls.supervision, Supervision | None):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's own
            raise TypeError(f"{cls.__name__}.supervision must be a Supervision, not {cls.supervision!r}")
        for name in _FUNCTIONS:
            if inspect.iscoroutinefunction(getattr(cls, name)):
                raise TypeError(f"{cls.__name__}.{name} must not be async: nobody would await it")
        for name, count in (("decide", 2), ("evolve", 2), ("timers", 1)):
            function = inspect.getattr_static(cls, name)
            if isinstance(function, FunctionType) and len(inspect.signature(function).parameters) == count:
                raise TypeError(f"{cls.__name__}.{name} takes no self; write {name} = staticmethod({name})")

    @classmethod
    def _snapshot_form(cls, category: str) -> SnapshotForm[State] | None:
        every = cls.snapshot_every
        if every is None:
            return None
        if every < 1:
            raise TypeError(f"{cls.__name__}.snapshot_every must be above zero, not {every}")
        topic = f"{category}:{cls.snapshot_version}"
        kind = cls.snapshot_type or _state_type(cls) or type(cls.initial)
        form: SnapshotForm[State] = SnapshotForm(topic, every, kind, cls.to_snapshot, cls.from_snapshot)
        form.check(cls.initial)
        return form

    @classmethod
    def replay(cls, history: Iterable[Recorded]) -> State:
        """Return the state after the events, from the first one on.

        Raises:
            LogUnusableError: `evolve` raises; the error names the position.
        """
        return _fold(cls.evolve, cls.initial, history)

    def on_recovered(self) -> Sequence[Command]:
        """Return commands to be handled before any other, now that the state is read from the log.

        If one cannot be recorded, the actor has not started: whoever waits gets the error.
        """
        return ()

    def prepare(self, command: Command) -> Command:
        """Return the command with what only this actor knows; or refuse it, like `decide`.

        Called once for each time that the command is decided, with the state that it is decided on.
        """
        return command

    def announce(
        self,
        command: Command,
        before: State,
        events: tuple[Event, ...],
        after: State,
        recorded_at: int,
    ) -> Announcement:
        """Return what is to be heard of the events when, and only when, they are durable."""
        return (), ()

    def on_committed(self, command: Command, events: tuple[Event, ...]) -> None:
        """Act on what has become true: tell others, start what was decided. The state is the new one."""

    def reply(self, command: Command, events: tuple[Event, ...]) -> Any:  # noqa: ANN401 - any reply
        """Return what the asker gets, by default the events; they are durable."""
        return events

    def on_dead_letter(self, command: Command, refusal: ReenactError) -> None:
        """Hear that a command was refused that was told, so that nobody waits for the answer."""

    def on_lost(self, error: Exception) -> None:
        """Hear that the journal has failed. This incarnation ends; the next reads what was really recorded."""

    def on_child_failed(self, child: Any, error: Exception) -> None:  # noqa: ANN401 - a Reference or an ActorRef
        """Hear that a child has ended for good, because it failed and its supervision ends there."""

    def can_passivate(self) -> bool:
        """Return whether the actor may leave memory when it is idle. One with children never does."""
        return True

    # Its life: recover, take one command at a time, end.

    def begin(self) -> None:
        """Take over the mailbox, which is held, and go to work on the current thread."""
        pool = self._mailbox.pool
        pool.enter(self)
        self._mailbox.open(pool, self)
        self._turn(None)

    def ask_to_leave(self) -> None:
        """Ask the actor to leave memory as soon as it has nothing to do."""
        if not self._over:
            self._mailbox.offer(Envelope(PASSIVATE))

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
            _log.error("%s cannot start", self.context.stream, exc_info=error)
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
        state, version = self.initial, None
        if snapshots is None:
            recorded = journal.recover(stream)
        else:
            snapshot = journal.snapshot(stream)
            known = None if snapshot is None else snapshots.restored(snapshot)
            version = None if snapshot is None or known is None else snapshot.version
            # The event that the snapshot was taken with is read again: it must be there.
            recorded = journal.recover(stream, after=-1 if version is None else version - 1)
            if known is not None and version is not None and recorded and recorded[0].version == version:
                state = known[0]
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
        self.state = _fold(self.evolve, state, recorded)
        self.version = last
        self._due = msgspec.UNSET

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
            command = self.prepare(envelope.message)
            decided = self.decide(self.state, command)
            events = decided if isinstance(decided, tuple) else self._listed(command, decided)
            known = self.context.profile.events
            for event in events:
                if type(event) not in known:
                    self._must_be_known(event)
            if not events:
                _answer(envelope, self.reply(command, events) if envelope.reply_to else None)
                return self._lets_pass(envelope)
            step, append = self._step(envelope, command, events, retries)
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
            try:
                self._under_way = step
                self.context.system.append(append, self._hear)
            except Exception as error:  # noqa: BLE001 - nothing was handed over
                self._lose(envelope, error)
            else:
                return True
        return False

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
    ) -> tuple[_Step[State, Command, Event], Append]:
        """Return what is believed once it is durable, and what is to become durable."""
        state = self.evolve(self.state, events[0]) if len(events) == 1 else reduce(self.evolve, events, self.state)
        context = self.context
        stream, profile = context.stream, context.profile
        if state is None and not profile.may_be_none:
            raise TypeError(f"{type(self).__name__}.evolve returned None for {events[-1]!r:.100}; it returns the state")
        now = context.system.clock()
        if type(now) is not int:
            raise TypeError(
                f"the clock returned {now!r}; it tells the time as an int, microseconds since 1970-01-01 UTC"
            )
        kept, passing = self.announce(command, self.state, events, state, now)
        if profile.timers is None and profile.snapshots is None:
            step = _Step(envelope, command, events, state, retries)
            return step, Append(stream, self.version, now, events, kept, passing)
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
        append = Append(stream, self.version, now, events, kept, passing, snapshot, due)
        return _Step(envelope, command, events, state, retries, fired, next_due, snapshot is not None), append

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
                self.context.system.alarms.hint(due)
            return False
        kind = _First if isinstance(cause, _First) else Envelope
        envelope = kind(DUE, PooledFuture())  # nobody waits, and what was said to `cause` stands
        step: _Step[State, Command, Event] = _Step(envelope, cause.message, (), self.state, 0, fired, due)
        try:
            # After this version: what another writer has added since would say another time.
            append = Append(self.context.stream, self.version, self.context.clock(), due=due)
            self._under_way = step
            self.context.system.append(append, self._hear)
        except Exception as error:  # noqa: BLE001 - nothing was handed over
            self._lose(envelope, error)
            return False
        return True

    # What became of a step.

    def _hear(self, outcome: Outcome) -> None:
        # On the thread that writes, which may be this worker's own: only leave word.
        self._outcome = outcome
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
                self.context.system.alarms.hint(step.due)
        if not step.events:
            return  # a time was noted, and that is all
        failure: Exception | None = None
        try:
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


def _can_be_stored(name: object, kind: object) -> bool:
    return isinstance(name, str) and isinstance(kind.type if isinstance(kind, Stored) else kind, type)


def _state_type(actor_class: type[Any]) -> Any:  # noqa: ANN401 - unions and the like are no types
    """Return what the class names as its State, if that is more than a variable or `Any`."""
    for base in actor_class.__mro__:
        for named in vars(base).get("__orig_bases__", ()):
            if get_origin(named) is EventSourcedActor:
                state = get_args(named)[0]
                return None if isinstance(state, (TypeVar, ForwardRef)) or state in (Any, object) else state
    return None


def _fold(evolve: Callable[[State, Any], State], state: State, history: Iterable[Recorded]) -> State:
    for recorded in history:
        try:
            state = evolve(state, recorded.event)
        except Exception as error:
            raise LogUnusableError(
                f"stream {recorded.stream!r} cannot be replayed: version {recorded.version} at position "
                f"{recorded.position} ({type(recorded.event).__name__}) raised {error!r}"
            ) from error
    return state


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
        _log.error("a command that was told has failed: %r", envelope.message, exc_info=error)
        context.dead_letter(envelope.message, error)
