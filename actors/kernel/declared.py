"""What is said of a class of event-sourced actors: its events and functions, and the hooks that it may override."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from types import FunctionType, MappingProxyType, NoneType
from typing import Any, ClassVar, ForwardRef, Generic, NoReturn, TypeAlias, TypeGuard, TypeVar, get_args, get_origin

import msgspec

from reenact.actors.journal.api import Journal, Kept, Recorded, Remembered, Segment
from reenact.actors.journal.codec import StoredForm
from reenact.actors.kernel.alarms import Timer
from reenact.actors.kernel.context import ActorContext
from reenact.actors.kernel.lineage import Command, Event, Folding, Origin, State
from reenact.actors.kernel.pooled import PooledActor
from reenact.actors.kernel.profile import Profile, Stored, StoredNames
from reenact.actors.kernel.snapshots import SnapshotForm
from reenact.actors.kernel.supervision import Supervision
from reenact.domain.errors import ReenactError

_FUNCTIONS = (
    *("decide", "evolve", "timers", "origin", "to_snapshot", "from_snapshot"),
    *("on_start", "on_restored", "on_recovered", "prepare", "announce", "cause", "remember", "on_committed", "reply"),
    *("can_passivate", "can_leave"),
    *("on_stop", "on_failure", "on_lost", "on_dead_letter", "on_child_failed"),
)
"""What a class may define, and the kernel calls."""


Announcement: TypeAlias = tuple[Kept, tuple[Segment, ...]]
"""What is to be heard of a step: the kept segments, and the passing ones."""


def _itself(state: State) -> State:
    return state


class Declared(PooledActor, Generic[State, Command, Event]):
    """What a subclass of `EventSourcedActor` gives, and the defaults of what it may leave out."""

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

    origin: Callable[[Command | Event], Origin | None] | None = None
    """Returns the history of another actor of the class that a stream goes on with, as an `Origin`; or None, for none.

    It is given the command that the stream is to begin with, and the event that it has begun with. Pure; a
    `staticmethod`. Where there is one, `decide` and `evolve` are given the state after that history in place of the
    initial one, by the command and the event alike. The history stands where it stands: nothing of it is copied.
    """

    snapshot_every: ClassVar[int | None] = None
    """After how many events a snapshot is taken with them. What is stored is encoded and decoded by msgspec."""

    snapshot_version: ClassVar[int] = 1
    """To be raised when states mean something else than before: earlier snapshots are skipped from then on."""

    snapshot_type: ClassVar[object] = None
    """The type of what `to_snapshot` returns, if that is not a state."""

    to_snapshot: Callable[[State], object] = staticmethod(_itself)
    """Returns what is stored of a state, by default itself; a `staticmethod`."""

    from_snapshot: Callable[..., State] = staticmethod(_itself)  # pyright: ignore[reportAssignmentType] - of any type
    """Returns the state of which this was stored, by default itself; a `staticmethod`."""

    mailbox_limit: ClassVar[int | None] = None
    """How many messages may wait; whoever sends one more gets a `MailboxFullError`."""

    supervision: ClassVar[Supervision | None] = None
    """How the actor is cared for when it fails. None: it ends, and the next message starts it again."""

    context: ActorContext
    """Who the actor is, and what it stands on."""

    state: State
    """What the actor knows: all that is durable."""

    version: int
    """That of its stream."""

    @classmethod
    def stream(cls, id: str) -> str:  # noqa: A002 - the word users know it by
        """Return the name of the stream of the actor with this id."""
        return f"{cls.category or cls.__name__}/{id}"

    @classmethod
    def start(cls, *args: object, **kwargs: object) -> NoReturn:  # noqa: ARG003 - pykka's own signature
        """Refuse: without a system there is no journal to start from."""
        raise TypeError(f"{cls.__name__} is event-sourced: ActorSystem.actor() starts it")

    def on_restored(self, state: State) -> State:
        """Return the state to go on with, given one that comes from a snapshot: by default itself.

        It may be one that reads from the log, when it is asked, what the snapshot does not hold.
        """
        return state

    @classmethod
    def profile(cls) -> Profile[State, Command, Event]:
        """Return what the kernel has to know of the class.

        Raises:
            TypeError: something that the class declares cannot work.
        """
        category = cls.category or cls.__name__
        if not isinstance(category, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's own
            raise TypeError(f"{cls.__name__}.category must be a text, not {category!r:.100}")
        if "/" in category:
            raise TypeError(f"the category {category!r} of {cls.__name__} must not contain a slash")
        if not isinstance(cls.events, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's own
            raise TypeError(f"{cls.__name__}.events must map the names of events in the log to their types")
        for name, kind in cls.events.items():
            if not _can_be_stored(name, kind):
                raise TypeError(f"{cls.__name__}.events must map texts to types or Stored, not {name!r} to {kind!r}")
            if isinstance(kind, Stored) and (wrong := _wrong_with(kind.version, kind.upcast)):
                raise TypeError(f"{cls.__name__}.events[{name!r}]: {wrong}")
        for name in ("mailbox_limit", "snapshot_every"):
            count: object = getattr(cls, name)
            if not (count is None or _is_count(count)):
                raise TypeError(f"{cls.__name__}.{name} must be an int above zero, not {count!r:.100}")
        cls._check_functions()
        may_be_none = cls.initial is None or NoneType in get_args(_state_type(cls))
        snapshots = cls._snapshot_form(category)
        remembers = any("remember" in vars(one) for one in cls.__mro__[: cls.__mro__.index(Declared)])
        return Profile(
            cls.__name__,
            category,
            tuple(_stored_form(name, kind) for name, kind in cls.events.items()),
            cls._folding(),
            snapshots,
            cls.timers,
            cls.mailbox_limit,
            cls.supervision,
            may_be_none,
            remembers,
        )

    @classmethod
    def _folding(cls) -> Folding[State, Command, Event]:
        return Folding(cls.stream, cls.initial, cls.evolve, cls.origin)

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
        for name, count in (("decide", 2), ("evolve", 2), ("timers", 1), ("origin", 1)):
            function = inspect.getattr_static(cls, name)
            if isinstance(function, FunctionType) and len(inspect.signature(function).parameters) == count:
                raise TypeError(f"{cls.__name__}.{name} takes no self; write {name} = staticmethod({name})")

    @classmethod
    def _snapshot_form(cls, category: str) -> SnapshotForm[State] | None:
        every = cls.snapshot_every
        if every is None:
            return None
        topic = f"{category}:{cls.snapshot_version}"
        kind = cls.snapshot_type or _state_type(cls) or type(cls.initial)
        form: SnapshotForm[State] = SnapshotForm(topic, every, kind, cls.to_snapshot, cls.from_snapshot)
        form.check(cls.initial)
        return form

    @classmethod
    def replay(cls, history: Iterable[Recorded], journal: Journal | None = None) -> State:
        """Return the state after the events of a stream, from its first one on.

        The journal is needed where streams go on with the history of others.

        Raises:
            LogUnusableError: `evolve` raises; the error names the position. Or the history that the stream goes on
                with is not in the journal, or not what it was.
        """
        return cls._folding().replay(list(history), journal)

    def on_recovered(self) -> Sequence[Command]:
        """Return commands to be handled before any other, now that the state is read from the log.

        If one cannot be recorded, the actor has not started: whoever waits gets the error.
        """
        return ()

    def prepare(self, command: Command) -> Command:
        """Return the command with what only this actor knows; or refuse it, like `decide`.

        Called once for each time that the command is decided, with the state that it is decided on. One that raises
        `Postponed` has the command decided later.
        """
        return command

    def evolve_all(self, state: State, events: tuple[Event, ...]) -> State:
        """Return the state after the events that `decide` has returned: for one that has worked it out already."""
        return reduce(self.evolve, events, state)

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

    def cause(self, command: Command, events: tuple[Event, ...]) -> bytes | None:
        """Return the command in the form in which the log is to store it with what follows from it; None for not.

        It comes back as the `cause` of the first of the events when they are read. What an event says need not be
        stored again: whoever reads the cause has the events, too.
        """
        return None

    def remember(
        self, command: Command, events: tuple[Event, ...], after: State, recorded_at: int
    ) -> Remembered | None:
        """Return the request that the command carries out, if it is to be carried out once, and None if not.

        It becomes durable together with the events, also with none: then the command takes as long as one that has
        some. If a request of this id stands in the log already, the command is refused with a `RequestReusedError`, and
        nothing is recorded; `journal.remembered(id)` tells what came of it the first time.
        """
        return None

    def on_committed(self, command: Command, events: tuple[Event, ...]) -> None:
        """Act on what has become true: tell others, start what was decided. The state is the new one."""

    def reply(self, command: Command, events: tuple[Event, ...]) -> tuple[Event, ...] | Any:  # noqa: ANN401
        """Return what the asker gets, by default the events; they are durable.

        What a subclass says that it returns is what type checkers take the reply of `Reference.ask` for.
        """
        # `| Any` lets a subclass return anything, without making the events that it returns otherwise anything, too.
        return events

    def on_dead_letter(self, command: Command, refusal: ReenactError) -> None:
        """Hear that a command was refused that was told, so that nobody waits for the answer."""

    def on_lost(self, error: Exception) -> None:
        """Hear that the journal has failed. This incarnation ends; the next reads what was really recorded.

        A `ShardMovedError` says that another node has the stream now, and recovers the actor; `on_stop` comes next.
        """

    def on_child_failed(self, child: object, error: Exception) -> None:
        """Hear that a child has ended for good, because it failed and its supervision ends there.

        The child is a `Reference`, or that of pykka for one without a log.
        """

    def can_passivate(self) -> bool:
        """Return whether the actor may leave memory when it is idle. One with children never does."""
        return True

    def can_leave(self) -> bool:
        """Return whether the actor may go to another node when it is idle; its children end with it.

        It is asked after each message, once its stream is handed off. `ask_to_leave` has it asked once more.
        """
        return True


def is_sequence(returned: object) -> bool:
    """Return whether a hook may have meant it as a sequence: text is not taken for one of characters."""
    return isinstance(returned, Iterable) and not isinstance(returned, str | bytes)


def _stored_form(name: str, kind: type[msgspec.Struct] | Stored) -> StoredForm:
    stored = kind if isinstance(kind, Stored) else Stored(kind)
    return StoredForm(name, stored.type, stored.version, stored.upcast)


def _can_be_stored(name: object, kind: object) -> bool:
    return isinstance(name, str) and isinstance(kind.type if isinstance(kind, Stored) else kind, type)


def _wrong_with(version: object, upcasts: object) -> str | None:
    """Return what is wrong with how an event is stored, or None."""
    if not _is_count(version):
        return f"the version must be an int above zero, not {version!r:.100}"
    if not _is_mapping(upcasts):
        return f"upcast must map versions to functions, not be {upcasts!r:.100}"
    for earlier, upcast in upcasts.items():
        if not callable(upcast):
            return f"the upcast of version {earlier!r} must be a function, not {upcast!r:.100}"
    return None


def _is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    return isinstance(value, Mapping)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _state_type(actor_class: type) -> object:
    """Return what the class names as its State, if that is more than a variable or `Any`; a union is not a type."""
    for base in actor_class.__mro__:
        for named in vars(base).get("__orig_bases__", ()):
            if Declared in getattr(get_origin(named), "__bases__", ()):  # it is EventSourcedActor
                state = get_args(named)[0]
                return None if isinstance(state, (TypeVar, ForwardRef)) or state in (Any, object) else state
    return None
