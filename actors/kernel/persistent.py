"""Actors whose state is a fold over their stream: persist, then believe, and hold no thread in between."""

from __future__ import annotations

import dataclasses
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from typing import Any, Final, Generic, NoReturn, TypeAlias, TypeVar

import msgspec
import pykka

from reenact.actors.journal.api import Append, Committed, Journal, Outcome, Recorded, Segment
from reenact.actors.kernel.mailbox import Envelope, Mailbox
from reenact.actors.kernel.pool import WorkerPool
from reenact.actors.kernel.pooled import SLICE, PooledActor
from reenact.domain.errors import ConflictError, LogUnusableError, ReenactError

RETRIES: Final = 3
"""How often a command is decided again because another writer was faster."""

_log = logging.getLogger("reenact.kernel")

State = TypeVar("State")
Command = TypeVar("Command")
Event = TypeVar("Event")

Announcement: TypeAlias = tuple[tuple[Segment, ...], tuple[Segment, ...]]
"""What is to be heard of a step: the kept segments, and the passing ones."""

Clock: TypeAlias = Callable[[], int]
"""Tells the time: microseconds since 1970-01-01 UTC."""


@dataclasses.dataclass(frozen=True, slots=True)
class ActorContext:
    """Who an actor is and what it stands on; its system makes it, and the constructor hands it on."""

    id: str
    stream: str
    journal: Journal
    clock: Clock
    pool: WorkerPool
    mailbox: Mailbox
    ended: Callable[[], None]


class _Step(msgspec.Struct, Generic[State, Command, Event], frozen=True, eq=False):
    """What becomes true once the journal has it."""

    envelope: Envelope
    command: Command
    events: tuple[Event, ...]
    state: State
    retries: int


class EventSourcedActor(PooledActor, Generic[State, Command, Event]):
    """An actor that records what follows from a command before it believes, does or says anything.

    A subclass gives `initial`, `decide` and `evolve`, and overrides the hooks it needs. Hooks run one at a time, on a
    worker, and must not block for long. An `ActorSystem` starts it; commands reach it through a `Reference`.
    """

    initial: State
    """The state before the first event."""

    decide: Callable[[State, Command], Sequence[Event]]
    """Returns what follows from a command, or refuses it with a `ReenactError`. Pure; a `staticmethod`."""

    evolve: Callable[[State, Event], State]
    """Returns the state as it is once the event has happened. Pure; a `staticmethod`."""

    def __init__(self, context: ActorContext) -> None:
        self._assemble(context.mailbox)
        self._pool = context.pool
        self.context = context
        self.state: State = self.initial
        self.version = 0
        self._opening: deque[Command] | None = None
        self._first: Envelope | None = None
        self._reported: tuple[_Step[State, Command, Event], Outcome] | None = None

    @classmethod
    def stream(cls, id: str) -> str:  # noqa: A002 - the word users know it by
        """Return the name of the stream of the actor with this id."""
        return id

    @classmethod
    def start(cls, *args: Any, **kwargs: Any) -> NoReturn:  # noqa: ANN401, ARG003 - pykka's own signature
        """Refuse: without a system there is no journal to start from."""
        raise TypeError(f"{cls.__name__} is event-sourced: ActorSystem.actor() starts it")

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

    # Its life: recover, take one command at a time, end.

    def begin(self) -> None:
        """Take over the mailbox, which is held, and go to work on the current thread."""
        self._pool.enter(self)
        self._mailbox.open(self._pool, self._turn)
        self._turn(None)

    def _begin(self) -> None:
        self._begun = True
        try:
            self.on_start()
            self._recover()
            opening = self.on_recovered()
            if opening:
                self._opening = deque(opening)
        except Exception as error:  # noqa: BLE001 - whoever waits is told
            _log.error("%s cannot start", self, exc_info=error)
            self._leave()
            fail_all(self._mailbox, error)
        except BaseException as error:  # noqa: BLE001 - it must not reach other actors or the worker
            self._end(error)

    def _leave(self) -> None:
        self._depart()  # the mailbox stays open, for the next incarnation

    def _recover(self) -> None:
        recorded = self.context.journal.recover(self.context.stream)
        self.state = self._fold(recorded)
        self.version = recorded[-1].version if recorded else 0

    def _fold(self, history: Iterable[Recorded]) -> State:
        state = self.initial
        evolve = self.evolve
        for recorded in history:
            try:
                state = evolve(state, recorded.event)
            except Exception as error:
                raise LogUnusableError(
                    f"stream {recorded.stream!r} cannot be replayed: version {recorded.version} at position "
                    f"{recorded.position} ({type(recorded.event).__name__}) raised {error!r}"
                ) from error
        return state

    def _turn(self, envelope: Envelope | None) -> None:
        if not self._begun:
            self._begin()
        elif self._reported is not None:
            step, outcome = self._reported
            self._reported = None
            if self._settles(step, outcome):
                return
        left = SLICE if envelope is None else 1
        while left and not self._over:
            if self._opening:
                self._first = envelope = Envelope(self._opening.popleft())
            elif envelope is None:
                envelope = self._mailbox.next()
                if envelope is None:
                    return
            if self._suspends(envelope):
                return
            envelope = None
            left -= 1
        if self._over:
            self.context.ended()
        elif self._opening:
            self._mailbox.again()
        else:
            self._mailbox.let_go()

    def _suspends(self, envelope: Envelope, retries: int = RETRIES) -> bool:
        """Handle the message; return True if the journal is asked and will have a worker go on from there.

        From then on another worker may be at it already: nothing of this actor is to be touched any more.
        """
        if envelope.stops:
            self._stop()
            _answer(envelope, None)
            return False
        try:
            command = self.prepare(envelope.message)
            events = tuple(self.decide(self.state, command))
            if not events:
                _answer(envelope, self.reply(command, events) if envelope.reply_to else None)
                return False
            state = reduce(self.evolve, events, self.state)
            now = self.context.clock()
            kept, passing = self.announce(command, self.state, events, state, now)
            append = Append(self.context.stream, self.version, now, events, kept, passing)
        except ReenactError as refusal:
            self._refuse(envelope, refusal)
        except Exception as error:  # noqa: BLE001 - the asker's to know; nothing has changed
            _fail(envelope, error)
        except BaseException as error:  # noqa: BLE001 - it must not reach other actors or the worker
            self._end(error)
            _fail(envelope, pykka.ActorDeadError(f"{self} stopped before it could reply: {error!r}"))
        else:
            step = _Step(envelope, command, events, state, retries)
            try:
                self.context.journal.append(append, partial(self._hear, step))
            except Exception as error:  # noqa: BLE001 - nothing was handed over
                self._lose(envelope, error)
            else:
                return True
        return False

    def _refuse(self, envelope: Envelope, refusal: ReenactError) -> None:
        if envelope.reply_to is not None:
            envelope.reply_to.fail(refusal)
            return
        _log.debug("%s refused %r: %s", self, envelope.message, refusal)
        try:
            self.on_dead_letter(envelope.message, refusal)
        except Exception:  # noqa: BLE001 - nobody waits for it
            _log.exception("%s failed to hear of a dead letter", self)

    # What became of a step.

    def _hear(self, step: _Step[State, Command, Event], outcome: Outcome) -> None:
        # On the journal's thread: only leave word.
        self._reported = step, outcome
        self._mailbox.again()

    def _settles(self, step: _Step[State, Command, Event], outcome: Outcome) -> bool:
        """Take up what the journal reports; return True if it is asked again."""
        if isinstance(outcome, Committed):
            self._believe(step, outcome)
            return False
        if isinstance(outcome, ConflictError):
            return self._decide_again(step, outcome)
        self._lose(step.envelope, outcome)
        return False

    def _believe(self, step: _Step[State, Command, Event], committed: Committed) -> None:
        self.state, self.version = step.state, committed.version
        try:
            self.on_committed(step.command, step.events)
        except Exception:  # noqa: BLE001 - what is recorded stands
            _log.exception("%s recorded %r and failed to act on it", self, step.events)
        except BaseException as error:  # noqa: BLE001 - it must not reach other actors or the worker
            self._end(error)
        if step.envelope.reply_to is None:
            return
        try:
            reply = self.reply(step.command, step.events)
        except Exception as error:  # noqa: BLE001 - the asker's to know
            _fail(step.envelope, error)
        else:
            _answer(step.envelope, reply)

    def _decide_again(self, step: _Step[State, Command, Event], conflict: ConflictError) -> bool:
        try:
            self._recover()
        except Exception as error:  # noqa: BLE001 - without its history the actor cannot go on
            self._lose(step.envelope, error)
            return False
        if step.retries:
            return self._suspends(step.envelope, step.retries - 1)
        _fail(step.envelope, conflict)
        return False

    def _lose(self, envelope: Envelope, error: Exception) -> None:
        self._leave()
        try:
            self.on_lost(error)
        except Exception:  # noqa: BLE001 - it ends in any case
            _log.exception("%s failed to hear that it was lost", self)
        _fail(envelope, error)
        if envelope is self._first:
            # It did not even get as far as the first message. The next incarnation would fare the same at once, so
            # those who wait are told, and the one that the next message starts tries again.
            fail_all(self._mailbox, error)


def fail_all(mailbox: Mailbox, error: Exception) -> None:
    """Answer everything that waits now: a stop with success, all else with the error."""
    for _ in range(len(mailbox)):
        envelope = mailbox.get()
        if envelope.stops:
            _answer(envelope, None)
        else:
            _fail(envelope, error)


def _answer(envelope: Envelope, reply: object) -> None:
    if envelope.reply_to is not None:
        envelope.reply_to.set(reply)


def _fail(envelope: Envelope, error: BaseException) -> None:
    if envelope.reply_to is not None:
        envelope.reply_to.fail(error)
    else:
        _log.error("a command that was told has failed: %r", envelope.message, exc_info=error)
