"""The points between a command and its last consequence at which a process may be killed, and what kills it there.

The runtime itself has no code for this: while a `crash_at` is active, existing functions are wrapped. These are the
stores and submit functions of writers that are opened, the calls of toolboxes, and the transactions of the read model
and of engines.
"""

from __future__ import annotations

import inspect
import os
import signal
import threading
from collections.abc import Callable, Collection, Coroutine, Generator, Mapping
from contextlib import ExitStack, contextmanager
from enum import Enum
from functools import partial, wraps
from typing import NoReturn, ParamSpec, TypeAlias, TypeVar, overload
from unittest import mock

import msgspec
from sqlalchemy import Engine, event

from reenact.actors.environment.tools.arguments import ToolContext
from reenact.actors.environment.tools.outcome import ToolOutcome
from reenact.actors.environment.tools.toolbox import Toolbox
from reenact.actors.journal.api import Done, Listener, Outcome
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.fence import Fence
from reenact.actors.journal.requests import Recovery, Request, Step
from reenact.actors.journal.seeking import unpack
from reenact.actors.journal.store import STEP, Changes, Store
from reenact.actors.journal.writer import Writer
from reenact.projections.log import Row
from reenact.projections.read_model.projection import ReadModelTables

P = ParamSpec("P")
R = TypeVar("R")

_BEGIN = ("BEGIN IMMEDIATE", "BEGIN")
_COMMIT = "COMMIT"
_OUTCOME = "tool-result"
"""The event in a session's stream that records the outcome of a tool's call."""

_NOTHING = "nothing of the command"
_UNSENT = (
    "It is as if the command had never been sent: its sender got no reply, and can send it again. Earlier durable data "
    "is unchanged, and an unfinished turn is ended or resumed, as the runtime is configured."
)
_UNKNOWN = (
    "The outcome is unknown. A resumed turn runs an idempotent tool once more, with the same key. Any other tool is "
    "not run again, and the model is told that the outcome is unknown; with `close`, so are idempotent ones."
)
_COUNTS = (
    "The command counts, although its sender got no reply: a request that is sent again under its id is answered, but "
    "not carried out again. Subscribers get what was not published, under its cursors."
)
_KEPT = (
    "What was acknowledged is durable: accepted messages wait or are answered; creations, deletions, decisions and "
    "acknowledgements stay."
)
_BEHIND = "The next opening applies the missing events before it returns, so that the tables agree with the log."


class CrashPoint(Enum):
    """A point at which a process may be killed: `ends` says when, `durable` what the log has then, `promised` the rest.

    What is appended, committed and published is a step of an actor, some deltas of an answer, an acknowledgement of a
    consumer, or a row that replaces compacted ones: every kind of write.
    """

    BEFORE_APPEND = (
        "between command and append: the events of a command are decided, and about to be handed to the journal",
        _NOTHING,
        _UNSENT,
    )
    BEFORE_COMMIT = (
        "between append and commit: the journal's writer has begun a transaction, but written nothing yet",
        _NOTHING,
        _UNSENT,
    )
    IN_COMMIT = (
        "in the commit: every row is written, and the transaction is about to be committed",
        _NOTHING,
        _UNSENT,
    )
    AFTER_COMMIT = (
        "between commit and publish: the transaction is durable, but not published",
        "the whole transaction: events, feed, snapshots, timers, answers to requests",
        _COUNTS,
    )
    AFTER_PUBLISH = (
        "between publish and reply: subscribers may have the events, but the sender of the command has no reply yet",
        "the whole transaction",
        "As above; every event that a subscriber has received is in the log, unchanged, under the same cursor.",
    )
    AFTER_REPLY = (
        "after the reply: the program was promised something, and has reported it (`Reporter.say`)",
        "all that was promised",
        _KEPT,
    )
    BEFORE_EFFECT = (
        "before the effect: the start of the tool is recorded, and it is about to run",
        "the intent (`tool-started`)",
        _UNKNOWN,
    )
    AFTER_EFFECT = (
        "after the effect: the tool has run, but its outcome was not reported",
        "the intent; the effect itself, outside",
        _UNKNOWN,
    )
    BEFORE_OUTCOME = (
        "before the append of the outcome: the tool's outcome is about to be handed to the journal",
        "the intent; the effect itself, outside",
        _UNKNOWN,
    )
    AFTER_OUTCOME = (
        "after the commit of the outcome: the tool's outcome is durable, but not published",
        "the intent and the outcome (`tool-result`)",
        "The tool is not run again. The model is told the outcome, by the resumed turn or when it is asked next.",
    )
    BEFORE_PROJECTION = (
        "before the projection: the read model has begun a transaction to apply events",
        "the events, without their rows in the tables",
        _BEHIND,
    )
    IN_PROJECTION = (
        "in the projection: rows and position are written, and the transaction is about to be committed",
        "the events, without their rows in the tables",
        _BEHIND,
    )
    AFTER_PROJECTION = (
        "after the projection: the tables have the events, but nobody has read them",
        "the events, and their rows together with the position",
        "No event is applied twice.",
    )

    def __init__(self, ends: str, durable: str, promised: str) -> None:
        self.ends = ends
        self.durable = durable
        self.promised = promised
        self.__doc__ = f"Killed {ends}.\n\nDurable: {durable}.\n\n{promised}"

    def __repr__(self) -> str:
        return f"<CrashPoint {self.name}>"


class Crash(msgspec.Struct, frozen=True):
    """A crash: the process is killed when it reaches the point for the `nth` time.

    `of` counts only what has this name: the stored name of an event for points around appends and commits, the name of
    a tool or function for those around effects. For points around outcomes it is the event with the outcome,
    `tool-result` by default.

    Raises:
        TypeError: `point` is not a `CrashPoint`.
        ValueError: `nth` is below one.
    """

    point: CrashPoint
    nth: int = 1
    of: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.point, CrashPoint):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's own
            raise TypeError(f"a crash is at a CrashPoint, such as CrashPoint.AFTER_COMMIT, not at {self.point!r}")
        if self.nth < 1:
            raise ValueError(f"a point is reached for the first time, or later: nth is {self.nth!r}, and not below 1")

    @property
    def counted(self) -> str | None:
        """The name that is counted, or None if all are."""
        is_outcome = self.point in {CrashPoint.BEFORE_OUTCOME, CrashPoint.AFTER_OUTCOME}
        return _OUTCOME if self.of is None and is_outcome else self.of

    def __str__(self) -> str:
        of = "" if self.of is None else f" of {self.of}"
        return f"{self.point.name}{of}, time {self.nth}"


class Fuse:
    """Counts how often the point of a crash is reached, and kills the process at the right time. Thread-safe."""

    def __init__(self, crash: Crash, *, armed: bool = True) -> None:
        """Set the crash; points are counted only while the fuse is `armed`."""
        self._crash = crash
        self._armed = armed
        self._lock = threading.Lock()
        self._reached = 0

    @property
    def reached(self) -> int:
        """How often the point was reached."""
        return self._reached

    def arm(self) -> None:
        """Count points from now on."""
        self._armed = True

    def disarm(self) -> None:
        """Count no more points."""
        self._armed = False

    def reach(self, point: CrashPoint, names: Callable[[], Collection[str]] | None = None) -> None:
        """Count a point that is reached, by something with these names; kill the process if it is the crash's."""
        if not self._armed or point is not self._crash.point:
            return
        counted = self._crash.counted
        if counted is not None and (names is None or counted not in names()):
            return
        with self._lock:
            self._reached += 1
            if self._reached == self._crash.nth:
                die()


def die() -> NoReturn:
    """End this process at once, as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)
    while True:  # until the signal arrives
        signal.pause()


_in_force: list[Fuse] = []


@contextmanager
def crash_at(point: CrashPoint, nth: int = 1, *, of: str | None = None, armed: bool = True) -> Generator[Fuse]:
    """Kill this process when something that is opened in the block reaches the point for the nth time.

    A `Runtime` or an `ActorSystem` has to be opened in the block; a log that is open already is not affected. See
    `Crash` for what is counted. Yields the counter: with `armed=False` it begins when its `arm` is called.

    Raises:
        ValueError: `nth` is below one.
    """
    fuse = Fuse(Crash(point, nth, of), armed=armed)
    with ExitStack() as undo:
        undo.enter_context(mock.patch.object(Writer, "__init__", _opening(fuse, Writer.__init__)))
        undo.enter_context(mock.patch.object(Toolbox, "call", _calling(fuse, Toolbox.call)))
        undo.enter_context(mock.patch.object(ReadModelTables, "begin", _beginning(fuse, ReadModelTables.begin)))
        undo.enter_context(mock.patch.object(ReadModelTables, "commit", _committing(fuse, ReadModelTables.commit)))
        _listen_to_engines(fuse, undo)
        _in_force.append(fuse)
        undo.callback(_in_force.remove, fuse)
        undo.callback(fuse.disarm)
        yield fuse


@overload
def effect(function: Callable[P, Coroutine[object, object, R]]) -> Callable[P, Coroutine[object, object, R]]: ...


@overload
def effect(function: Callable[P, R]) -> Callable[P, R]: ...


def effect(function: Callable[P, object]) -> Callable[P, object]:
    """Return the function, plain or a coroutine function, with the points before and after an effect around it.

    It is for effects of your own actors; the tools of a runtime have these points already. While no `crash_at` is
    active, the result behaves like the function.
    """
    name = getattr(function, "__name__", "effect")

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def run_async(*args: P.args, **kwargs: P.kwargs) -> object:
            _reach(CrashPoint.BEFORE_EFFECT, name)
            result = await function(*args, **kwargs)
            _reach(CrashPoint.AFTER_EFFECT, name)
            return result

        return run_async

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> object:
        _reach(CrashPoint.BEFORE_EFFECT, name)
        result = function(*args, **kwargs)
        _reach(CrashPoint.AFTER_EFFECT, name)
        return result

    return run


def _reach(point: CrashPoint, name: str) -> None:
    for fuse in _in_force:
        fuse.reach(point, lambda: (name,))


# The journal: submitted requests, commits, and their callbacks.


def _opening(fuse: Fuse, begin: Callable[..., None]) -> Callable[..., None]:
    def begin_wrapped(
        self: Writer, store: Store, codec: EventCodec, *, listener: Listener | None, fence: Fence | None = None
    ) -> None:
        vars(store).update(commit=partial(_commit, fuse, store.commit))
        begin(self, store, codec, listener=listener, fence=fence)
        vars(self).update(
            submit=partial(_hand_over, fuse, codec, self.submit),
            submit_with_next=partial(_hand_over, fuse, codec, self.submit_with_next),
        )

    return begin_wrapped


def _hand_over(fuse: Fuse, codec: EventCodec, submit: Callable[[Request], None], request: Request) -> None:
    if not isinstance(request, Recovery):
        names = partial(_names_of, request, codec)
        fuse.reach(CrashPoint.BEFORE_APPEND, names)
        fuse.reach(CrashPoint.BEFORE_OUTCOME, names)
        request = msgspec.structs.replace(request, done=partial(_report_outcome, fuse, names, request.done))
    submit(request)


def _report_outcome(fuse: Fuse, names: Callable[[], Collection[str]], done: Done, outcome: Outcome) -> None:
    if not isinstance(outcome, Exception):
        fuse.reach(CrashPoint.AFTER_PUBLISH, names)
    done(outcome)


def _commit(
    fuse: Fuse, commit: Callable[[Changes, Callable[[], None]], None], changes: Changes, meanwhile: Callable[[], None]
) -> None:
    def names() -> Collection[str]:
        packed = changes.steps[STEP.index("events") :: len(STEP)]
        return [_name(topic) for events in packed if isinstance(events, bytes) for topic, _ in unpack(events)]

    def at_the_end() -> None:
        meanwhile()
        fuse.reach(CrashPoint.IN_COMMIT, names)

    fuse.reach(CrashPoint.BEFORE_COMMIT, names)
    commit(changes, at_the_end)
    fuse.reach(CrashPoint.AFTER_COMMIT, names)
    fuse.reach(CrashPoint.AFTER_OUTCOME, names)


def _names_of(request: Request, codec: EventCodec) -> Collection[str]:
    events = request.append.events if isinstance(request, Step) else ()
    return [_name(codec.encode(one, 0)[0]) for one in events]


def _name(topic: str) -> str:
    return topic.rpartition(":")[0]


# Tools.

_Call: TypeAlias = Callable[..., Coroutine[object, object, ToolOutcome]]


def _calling(fuse: Fuse, call: _Call) -> _Call:
    async def call_wrapped(
        self: Toolbox,
        name: str,
        arguments: Mapping[str, object],
        context: ToolContext | None = None,
        **rest: object,
    ) -> ToolOutcome:
        fuse.reach(CrashPoint.BEFORE_EFFECT, lambda: (name,))
        outcome = await call(self, name, arguments, context, **rest)
        fuse.reach(CrashPoint.AFTER_EFFECT, lambda: (name,))
        return outcome

    return call_wrapped


# The tables.


def _beginning(fuse: Fuse, begin: Callable[[ReadModelTables, Row], bool]) -> Callable[[ReadModelTables, Row], bool]:
    def begin_wrapped(self: ReadModelTables, last: Row) -> bool:
        has_moved = begin(self, last)
        fuse.reach(CrashPoint.BEFORE_PROJECTION)
        return has_moved

    return begin_wrapped


def _committing(fuse: Fuse, commit: Callable[[ReadModelTables], None]) -> Callable[[ReadModelTables], None]:
    def commit_wrapped(self: ReadModelTables) -> None:
        fuse.reach(CrashPoint.IN_PROJECTION)
        commit(self)
        fuse.reach(CrashPoint.AFTER_PROJECTION)

    return commit_wrapped


def _listen_to_engines(fuse: Fuse, undo: ExitStack) -> None:
    def before(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement == _COMMIT:
            fuse.reach(CrashPoint.IN_PROJECTION)

    def after(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement in _BEGIN:
            fuse.reach(CrashPoint.BEFORE_PROJECTION)
        elif statement == _COMMIT:
            fuse.reach(CrashPoint.AFTER_PROJECTION)

    for name, listener in (("before_cursor_execute", before), ("after_cursor_execute", after)):
        event.listen(Engine, name, listener)
        undo.callback(event.remove, Engine, name, listener)
