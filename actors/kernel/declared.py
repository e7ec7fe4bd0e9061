"""What a class of event-sourced actors declares: its events, its functions, and the hooks it may override."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from types import FunctionType, MappingProxyType, NoneType
from typing import Any, ClassVar, ForwardRef, Generic, NoReturn, TypeAlias, TypeVar, get_args, get_origin

import msgspec

from reenact._signature import signature_of
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
from reenact.domain.plain import is_mapping

_FUNCTIONS = (
    *("decide", "evolve", "timers", "origin", "to_snapshot", "from_snapshot"),
    *("on_start", "on_restored", "on_recovered", "prepare", "announce", "cause", "remember", "on_committed", "reply"),
    *("can_passivate", "can_leave"),
    *("on_stop", "on_failure", "on_lost", "on_dead_letter", "on_child_failed"),
)
"""Names that a class may define and the kernel calls."""


Announcement: TypeAlias = tuple[Kept, tuple[Segment, ...]]
"""The announcements of one step: the kept segments and the transient ones."""


def _itself(state: State) -> State:
    return state


class Declared(PooledActor, Generic[State, Command, Event]):
    """The declarations of a subclass of `EventSourcedActor`, and the defaults of the optional ones."""

    category: ClassVar[str] = ""
    """The first part of the stream names, `<category>/<id>`; it must never change. By default the name of the class."""

    events: ClassVar[StoredNames] = MappingProxyType({})
    """The names under which events are stored, with their types: frozen array-like structs, such as `Event`."""

    initial: State
    """The state before the first event. An immutable value."""

    decide: Callable[[State, Command], Sequence[Event]]
    """Returns the events that follow from a command, or refuses it with a `ReenactError`. Pure; a `staticmethod`."""

    evolve: Callable[[State, Event], State]
    """Returns the state after an event. Pure; a `staticmethod`."""

    timers: Callable[[State], Iterable[Timer[Command]]] | None = None
    """Returns the timers that the state waits for. Pure; a `staticmethod`.

    When a timer is due, the actor is given its command, even after a restart and if no message was sent: at least once,
    and at most once per incarnation. A command that has an effect must change the state so that the timer is removed or
    has another time. A timer that is removed before its turn is ignored. The class must be registered with the system.
    """

    origin: Callable[[Command | Event], Origin | None] | None = None
    """Returns the history of another actor of the class that a stream continues, as an `Origin`, or None.

    It is called with the first command of the stream, and with the first event of the stream. Pure; a `staticmethod`.
    If it returns an origin, `decide` and `evolve` get the state after that history in place of the initial one; the
    command and the event must give the same origin. Nothing of the history is copied.
    """

    snapshot_every: ClassVar[int | None] = None
    """The number of events after which a snapshot is taken. msgspec encodes and decodes it."""

    snapshot_version: ClassVar[int] = 1
    """The version of the snapshots. Raise it when states change their meaning: earlier snapshots are then ignored."""

    snapshot_type: ClassVar[object] = None
    """The type of what `to_snapshot` returns, if it is not the type of the state."""

    to_snapshot: Callable[[State], object] = staticmethod(_itself)
    """Returns the stored form of a state, by default the state itself; a `staticmethod`."""

    from_snapshot: Callable[..., State] = staticmethod(_itself)  # pyright: ignore[reportAssignmentType] - of any type
    """Returns the state from its stored form, by default the stored value itself; a `staticmethod`."""

    quick_commands: ClassVar[frozenset[type]] = frozenset()
    """The types of commands of which neither the decision nor what follows from it blocks.

    What the main thread sends is handled on a worker, since a signal may interrupt the main thread. Commands of these
    types go to the system's event loop instead if that is idle and the actor is in memory, which saves a change of
    threads if the actor works with that loop.
    """

    mailbox_limit: ClassVar[int | None] = None
    """How many messages may wait; the sender of one more gets a `MailboxFullError`."""

    supervision: ClassVar[Supervision | None] = None
    """How the actor is supervised when it fails. None: it ends, and the next message starts it again."""

    context: ActorContext
    """The actor's identity and the services of its system."""

    state: State
    """The actor's state after all its durable events."""

    version: int
    """The version of the actor's stream."""

    @classmethod
    def stream(cls, id: str) -> str:  # noqa: A002 - the word users know it by
        """Return the name of the stream of the actor with this id."""
        return f"{cls.category or cls.__name__}/{id}"

    @classmethod
    def start(cls, *args: object, **kwargs: object) -> NoReturn:  # noqa: ARG003 - pykka's own signature
        """Raise TypeError: an event-sourced actor needs a system with a journal."""
        raise TypeError(f"{cls.__name__} is event-sourced: ActorSystem.actor() starts it")

    def on_restored(self, state: State) -> State:
        """Return the state to continue with, given the one from the snapshot; by default the same.

        The returned state may read what the snapshot does not hold from the log on demand.
        """
        return state

    @classmethod
    def profile(cls) -> Profile[State, Command, Event]:
        """Return the profile of the class for the kernel.

        Raises:
            TypeError: a declaration of the class is invalid.
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
            cls.quick_commands,
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
            if isinstance(function, FunctionType) and len(signature_of(function).parameters) == count:
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
        """Return the state after the given events, which start at the stream's first one.

        The journal is needed if the stream continues the history of another one.

        Raises:
            LogUnusableError: `evolve` raises; the error names the position. Or the history that the stream continues is
                missing from the journal, or has changed.
        """
        return cls._folding().replay(list(history), journal)

    def on_recovered(self) -> Sequence[Command]:
        """Return commands to handle before any other, after the state was read from the log.

        If one of them cannot be recorded, the actor has not started, and waiting senders get the error.
        """
        return ()

    def prepare(self, command: Command) -> Command:
        """Return the command, completed with what only this actor knows, or refuse it like `decide`.

        Called each time the command is decided, before `decide` and with the same state. If it raises `Postponed`, the
        command is decided later.
        """
        return command

    def evolve_all(self, state: State, events: tuple[Event, ...]) -> State:
        """Return the state after the events that `decide` returned; override it if the state is already computed."""
        return reduce(self.evolve, events, state)

    def announce(
        self,
        command: Command,
        before: State,
        events: tuple[Event, ...],
        after: State,
        recorded_at: int,
    ) -> Announcement:
        """Return the segments to publish once, and only if, the events are durable."""
        return (), ()

    def cause(self, command: Command, events: tuple[Event, ...]) -> bytes | None:
        """Return the command in the form in which the log stores it with its events, or None to store no command.

        When the events are read, the first of them has it as its `cause`. It need not repeat what the events contain: a
        reader of the cause has the events, too.
        """
        return None

    def remember(
        self, command: Command, events: tuple[Event, ...], after: State, recorded_at: int
    ) -> Remembered | None:
        """Return the request that the command carries out, if it must be carried out only once; else None.

        The request becomes durable together with the events, even if there are none: the command then takes as long as
        one that has events. If the log already has a request with this id, the command is refused with a
        `RequestReusedError` and nothing is recorded; `journal.remembered(id)` returns the outcome of the first time.
        """
        return None

    def on_committed(self, command: Command, events: tuple[Event, ...]) -> None:
        """Act on durable events: notify others, start what was decided. `self.state` is the new state."""

    def reply(self, command: Command, events: tuple[Event, ...]) -> tuple[Event, ...] | Any:  # noqa: ANN401
        """Return the reply to the sender, by default the events, which are durable.

        Type checkers take a subclass's return type as the type of the reply of `Reference.ask`.
        """
        # `| Any` lets a subclass return any type, while this method's own return value keeps its type.
        return events

    def on_dead_letter(self, command: Command, refusal: ReenactError) -> None:
        """Called when a command was refused whose sender does not wait for a reply."""

    def on_lost(self, error: Exception) -> None:
        """Called when the journal has failed. This incarnation ends; the next one reads what was really recorded.

        A `ShardMovedError` means that another node has taken over the stream and recovers the actor; `on_stop` is
        called next.
        """

    def on_child_failed(self, child: object, error: Exception) -> None:
        """Called when a child has failed and its supervision has ended it for good.

        The child is a `Reference`, or pykka's reference for an actor without a log.
        """

    def can_passivate(self) -> bool:
        """Return whether the actor may be removed from memory when it is idle. An actor with children never is."""
        return True

    def can_leave(self) -> bool:
        """Return whether the actor may move to another node when it is idle; its children end with it.

        Called after each message once its stream is being handed off. `ask_to_leave` makes the kernel call it again.
        """
        return True


def is_sequence(returned: object) -> bool:
    """Return whether a hook's return value is a sequence; text and bytes do not count as one."""
    return isinstance(returned, Iterable) and not isinstance(returned, str | bytes)


def _stored_form(name: str, kind: type[msgspec.Struct] | Stored) -> StoredForm:
    stored = kind if isinstance(kind, Stored) else Stored(kind)
    return StoredForm(name, stored.type, stored.version, stored.upcast)


def _can_be_stored(name: object, kind: object) -> bool:
    return isinstance(name, str) and isinstance(kind.type if isinstance(kind, Stored) else kind, type)


def _wrong_with(version: object, upcasts: object) -> str | None:
    """Return what is wrong with the version or the upcasts of a stored event, or None."""
    if not _is_count(version):
        return f"the version must be an int above zero, not {version!r:.100}"
    if not is_mapping(upcasts):
        return f"upcast must map versions to functions, not be {upcasts!r:.100}"
    for earlier, upcast in upcasts.items():
        if not callable(upcast):
            return f"the upcast of version {earlier!r} must be a function, not {upcast!r:.100}"
    return None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _state_type(actor_class: type) -> object:
    """Return the class's State type argument, or None if it is a type variable, `Any` or `object`. May be a union."""
    for base in actor_class.__mro__:
        for named in vars(base).get("__orig_bases__", ()):
            if Declared in getattr(get_origin(named), "__bases__", ()):  # the base is EventSourcedActor
                state = get_args(named)[0]
                return None if isinstance(state, (TypeVar, ForwardRef)) or state in (Any, object) else state
    return None
