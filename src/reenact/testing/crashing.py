"""Kills the process at a point between a command and its last consequence, by wrapping existing functions.

The runtime itself has no code for this: while a `crash_at` is active, the stores and submit functions of writers that
are opened and the calls of toolboxes are wrapped, and so are the transactions of the read model and of engines.
"""

from __future__ import annotations

import inspect
import os
import signal
import threading
from collections.abc import Callable, Collection, Coroutine, Generator, Mapping
from contextlib import ExitStack, contextmanager
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
from reenact.testing.crash_points import Crash, CrashPoint

P = ParamSpec("P")
R = TypeVar("R")

_BEGIN = ("BEGIN IMMEDIATE", "BEGIN")
_COMMIT = "COMMIT"


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
