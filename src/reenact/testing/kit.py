"""Tests of event-sourced actors in the form given events, when a command, then events; also checks their invariants."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING, Generic, Protocol, Self

import msgspec

from reenact.actors.journal.api import Append, Outcome
from reenact.actors.journal.codec import EventCodec
from reenact.actors.kernel.alarms import Timer
from reenact.actors.kernel.context import ActorContext
from reenact.actors.kernel.persistent import EventSourcedActor
from reenact.actors.kernel.timers import earliest
from reenact.domain.errors import ReenactError
from reenact.testing.clock import ManualClock
from reenact.testing.faulty_journal import PATIENCE, FaultyJournal
from reenact.testing.portrait import ReplayError, differences, finding, portrait
from reenact.testing.stage import Stage, check_class

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Reply_co = TypeVar("Reply_co", covariant=True, default=object)
else:  # `typing.TypeVar` has no defaults before Python 3.13
    from typing import TypeVar

    Reply_co = TypeVar("Reply_co", covariant=True)

State = TypeVar("State")
State_co = TypeVar("State_co", covariant=True)
Command = TypeVar("Command")
Event = TypeVar("Event")
Event_contra = TypeVar("Event_contra", contravariant=True)

_NOTHING = "nothing"


class Result(Generic[State, Command, Event]):
    """The result of a step, with methods that check expectations; each returns the result, for chained calls."""

    def __init__(
        self,
        kit: EventSourcedTestKit[State, Command, Event],
        step: str,
        *,
        events: tuple[Event, ...],
        state: State,
        reply: object = None,
        refusal: ReenactError | None = None,
    ) -> None:
        self.events = events
        self.reply = reply
        self.refusal = refusal
        self.state = state
        self._kit = kit
        self._step = step

    def then(self, *events: Event) -> Self:
        """Expect exactly these events, in this order.

        Raises:
            AssertionError: there were other events, or a refusal.
        """
        if self.refusal is not None:
            raise AssertionError(f"{self._step}: refused with {self.refusal!r}, not {_list(events)}") from self.refusal
        wrong = differences(portrait(events, "events"), portrait(self.events, "events"), verb="expected, there is")
        if wrong:
            raise AssertionError(f"{self._step}: {_list(self.events)}, not {_list(events)}" + _lines(wrong))
        return self

    def then_nothing(self) -> Self:
        """Expect no event, and no refusal."""
        return self.then()

    def then_refused(self, refusal: type[ReenactError], **values: object) -> Self:
        """Expect a refusal of this type, with these values as its attributes.

        Raises:
            AssertionError: it was not refused, or differently.
        """
        if not isinstance(self.refusal, refusal):
            came = f"refused with {self.refusal!r}" if self.refusal is not None else _list(self.events)
            raise AssertionError(f"{self._step}: {came}, not refused with {refusal.__name__}") from self.refusal  # noqa: TRY004 - what was expected has not happened
        found = {name: getattr(self.refusal, name, _NOTHING) for name in values}
        wrong = differences(portrait(values, "it"), portrait(found, "it"), verb="expected, there is")
        if wrong:
            raise AssertionError(f"{self._step}: refused with {self.refusal!r}" + _lines(wrong)) from self.refusal
        return self

    def then_replied(self, reply: object) -> Self:
        """Expect this reply.

        Raises:
            AssertionError: there was another one, or a refusal.
        """
        if self.refusal is not None:
            raise AssertionError(f"{self._step}: refused with {self.refusal!r}, not {reply!r}") from self.refusal
        if self.reply != reply:
            raise AssertionError(f"{self._step}: the reply is {self.reply!r}, not {reply!r}")
        return self

    def then_state(self, state: State) -> Self:
        """Expect this state.

        Raises:
            AssertionError: the state is different.
        """
        wrong = differences(portrait(state, "state"), portrait(self.state, "state"), verb="expected, there is")
        if wrong:
            raise AssertionError(f"{self._step}: the state is {self.state!r}, not {state!r}" + _lines(wrong))
        return self

    def when(self, command: Command) -> Result[State, Command, Event]:
        """Continue with the next command."""
        return self._kit.when(command)

    def advance(self, seconds: float) -> Result[State, Command, Event]:
        """Continue after some time."""
        return self._kit.advance(seconds)


def _list(events: Sequence[object]) -> str:
    return ", ".join(map(repr, events)) or "no events"


def _lines(details: Sequence[str]) -> str:
    return "".join(f"\n  {detail}" for detail in details)


class Tested(Protocol[State_co, Command, Event_contra, Reply_co]):
    """An event-sourced actor, whose types are those of its methods: `EventSourcedActor` does not name its replies."""

    @property
    def state(self) -> State_co: ...
    def prepare(self, command: Command) -> Command: ...
    def on_committed(self, command: Command, events: tuple[Event_contra, ...]) -> None: ...
    def reply(self, command: Command, events: tuple[Event_contra, ...]) -> Reply_co: ...


class EventSourcedTestKit(Generic[State, Command, Event, Reply_co]):
    """Runs a real actor in a real system, on a log in a private directory, and checks everything that it does.

    `kit.given(Deposited(5)).when(Withdraw(3)).then(Withdrawn(3))`. After each step it checks that `decide`, `evolve`
    and `timers` are pure, that events come back from the log unchanged, that replaying the log gives the state of the
    actor, that a snapshot preserves the state, that nothing was done before it was durable, and that a new incarnation
    of the actor decides as the one before it; if something is wrong, the step raises a `ReplayError`. Use it as a
    context manager, `close` it, or use the fixture `kit_for`.
    """

    if not TYPE_CHECKING:

        def __class_getitem__(cls, _: object) -> type[EventSourcedTestKit]:
            """Accept three type arguments or four."""
            return cls

    def __init__(
        self,
        actor_class: type[Tested[State, Command, Event, Reply_co]],
        id: str = "test",  # noqa: A002 - the word users know it by
        *,
        clock: ManualClock | None = None,
        factory: Callable[[ActorContext], EventSourcedActor[State, Command, Event]] | None = None,
        effects: Callable[[], object] | None = None,
    ) -> None:
        """Set the class of the actor.

        Args:
            actor_class: the class.
            id: the id of the actor.
            clock: the clock of the system; by default a new `ManualClock`.
            factory: makes the actor from its context, if the class alone does not.
            effects: returns a value that shows the effects so far, such as a list of sent mails: it must not change
                before the events are durable.

        Raises:
            TypeError: it is not a class of event-sourced actors, or one of its declarations cannot work.
        """
        self._class = check_class(actor_class, "what EventSourcedTestKit tests")
        self._tested = actor_class
        self.clock = clock if clock is not None else ManualClock()
        self._id = id
        self._upcasts: set[tuple[str, int]] = set()
        self._stage = Stage(self._class, factory or self._class, clock=self.clock, effects=effects)
        # A kit that is never closed must not keep the process from ending.
        self.close = weakref.finalize(self, self._stage.close)

    def given(self, *events: Event) -> Self:
        """Append these events to the log, without a decision of the actor; the timers of the new state run.

        Raises:
            ReplayError: an event cannot be stored, or `evolve` raises on it.
        """
        self._stage.reference(self._id).stop(timeout=PATIENCE)
        state = self._examine(events)
        outcomes: SimpleQueue[Outcome] = SimpleQueue()
        version = self._stage.version(self._id)
        due = earliest(self._timers_of(state))
        self.journal.append(Append(self.stream, version, self.clock(), events, due=due), outcomes.put)
        outcome = outcomes.get(timeout=PATIENCE)
        if isinstance(outcome, Exception):
            raise outcome
        if due is not None:
            self._stage.system.alarms.hint(self.stream, due)
        self._settle()
        return self

    def when(self, command: Command) -> Result[State, Command, Event]:
        """Ask the actor the command, and return the result.

        Raises:
            ReplayError: a check failed.
            Exception: an exception of the actor that is not a refusal.
        """
        result, _ = self._asked(command)
        return result

    def ask(self, command: Command) -> Reply_co:
        """Ask the actor the command, check everything, and return the reply, or raise the refusal."""
        result, reply = self._asked(command)
        if result.refusal is not None:
            raise result.refusal
        return reply[0]

    def _asked(self, command: Command) -> tuple[Result[State, Command, Event], tuple[Reply_co, ...]]:
        """Do as `when`, and return the reply, too, if there is one."""
        replies: tuple[Reply_co, ...] = ()
        refusal: ReenactError | None = None
        failure: Exception | None = None
        self._stage.watch.replied(self.stream)
        version = self._stage.version(self._id)
        try:
            replies = (self._stage.system.actor(self._tested, self._id).ask(command, timeout=PATIENCE),)
        except ReenactError as error:
            refusal = error
        except Exception as error:  # noqa: BLE001 - raised below, unless a finding explains it
            failure = error
        try:
            self._settle()
        except ReplayError as error:
            raise error from (failure or refusal)
        if failure is not None:
            raise failure
        if replies:
            self._stage.remember(self._id, command, replies[0], version)
        after, until = self._stage.watch.replied(self.stream)
        recorded = self.journal.read(self.stream, after=after)
        events: tuple[Event, ...] = tuple(one.event for one in recorded if one.version <= until)
        reply = replies[0] if replies else None
        step = f"when {command!r}"
        return Result(self, step, events=events, reply=reply, refusal=refusal, state=self.state), replies

    def advance(self, seconds: float) -> Result[State, Command, Event]:
        """Advance the clock, so that timers go off, and return the result."""
        before = len(self.history)
        self.clock.advance(seconds)
        self._settle()
        return Result(self, f"after {seconds:g} seconds", events=self.history[before:], state=self.state)

    def restart(self) -> Self:
        """Restart the system from the log; the latest questions, which recorded nothing, are asked again.

        Raises:
            ReplayError: the state, or an answer, is not the same.
        """
        self._settle()
        before = portrait(self.state, "state")
        self._stage.restart()
        wrong = differences(before, portrait(self.state, "state"), verb="before the restart, after it")
        if wrong:
            raise ReplayError([finding(f"{self.stream} is not the same after a restart", wrong)])
        self._stage.ask_again()
        self._settle()
        return self

    def check(self) -> Self:
        """Check everything again, and the log's hash chain, and that each older version of an event has an example.

        Raises:
            ReplayError: something is wrong.
        """
        self._settle()
        self._stage.verify()
        untried = [
            f"{form.name!r}, version {version}"
            for form in self._class.profile().forms
            for version in range(1, form.version)
            if (form.name, version) not in self._upcasts
        ]
        if untried:
            raise ReplayError([finding("older versions of events have no example", untried, "give one to upcasts()")])
        return self

    def upcasts(self, name: str, *, version: int, fields: Sequence[object], becomes: Event) -> Self:
        """Check that an event which was stored in an older version, with these fields, is read as `becomes`.

        Raises:
            ReplayError: it is not.
        """
        codec = EventCodec(self._class.profile().forms)
        stored = f"{name!r} version {version} with {list(fields)!r}"
        advice = f"see the upcast of version {version} in {self._class.__name__}.events"
        try:
            _, event = codec.decode(f"{name}:{version}", msgspec.msgpack.encode((0, list(fields))))
        except ReenactError as error:
            raise ReplayError([finding(f"{stored} cannot be read", [str(error)], advice)]) from error
        wrong = differences(portrait(becomes, "event"), portrait(event, "event"), verb="expected, read is")
        if wrong:
            raise ReplayError([finding(f"{stored} becomes {event!r}", wrong, advice)])
        self._upcasts.add((name, version))
        return self

    @property
    def stream(self) -> str:
        """The name of the actor's stream."""
        return self._class.stream(self._id)

    @property
    def state(self) -> State:
        """The state of the actor; while it is not in memory, the state replayed from the log."""
        live = self._stage.live(self._id)
        replay = self._class.replay
        state: State = replay(self.journal.read(self.stream), self.journal) if live is None else live.state
        return state

    @property
    def history(self) -> tuple[Event, ...]:
        """The events of the actor, as they are read from the log."""
        return tuple(recorded.event for recorded in self.journal.read(self.stream))

    @property
    def timers(self) -> tuple[Timer[Command], ...]:
        """The timers that the actor has now."""
        return self._timers_of(self.state)

    @property
    def journal(self) -> FaultyJournal:
        """The journal, which can be told to fail."""
        return self._stage.journal

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _timers_of(self, state: object) -> tuple[Timer[Command], ...]:
        timers = self._class.profile().timers
        return () if timers is None else tuple(timers(state))

    def _examine(self, events: Sequence[Event]) -> object:
        """Return the state after the events."""
        found: list[str] = []
        examiner = self._stage.examiner(found.append)
        state: object = self.state
        for event in events:
            examiner.survives(event)
            if not found:
                try:
                    state = examiner.evolve(state, event)
                except Exception as error:
                    raise ReplayError(found) from error
        if found:
            raise ReplayError(found)
        return state

    def _settle(self) -> None:
        self._stage.system.settle()
        self._stage.check()
