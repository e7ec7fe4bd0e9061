"""Records side effects of a function: reading a clock, using randomness, opening a file, sending a message."""

# The methods are used for their code, whatever their types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import _socket
import dis
import gc
import random
import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import date
from queue import SimpleQueue
from types import CodeType, FrameType, FunctionType
from typing import Final, TypeAlias

import pykka

from reenact.actors.kernel.context import ActorContext, Reference
from reenact.actors.kernel.mailbox import Mailbox
from reenact.actors.kernel.pooled import PooledRef
from reenact.testing.clock import ManualClock

Acts: TypeAlias = list[str]
"""The observed side effects, as text: "reads the clock (time.time)"."""

_CLOCKS = frozenset(
    f"{name}{suffix}"
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime")
    for suffix in ("", "_ns")
)
_CONVERTERS = {"localtime": 1, "gmtime": 1, "ctime": 1, "asctime": 1, "strftime": 2}
"""Functions that convert a given time, and read the clock only if they are called with fewer arguments."""
_DATES = frozenset({"now", "utcnow", "today"})
_CHANCE = frozenset({"urandom", "getrandom", "generate_time_safe"})
_ACTS = {
    ("_thread", "start_new_thread"): "starts a thread",
    ("_thread", "start_joinable_thread"): "starts a thread",
    ("_posixsubprocess", "fork_exec"): "starts a process",
    ("posix", "posix_spawn"): "starts a process",
    ("posix", "system"): "starts a process",
    ("posix", "fork"): "starts a process",
    ("posix", "getpid"): "asks for the number of the process",
    ("posix", "write"): "writes to a file",
    ("posix", "unlink"): "removes a file",
    ("posix", "remove"): "removes a file",
}
_METHODS = {
    (SimpleQueue, "put"): "puts something into a queue",
    (_socket.socket, "send"): "sends something over a socket",
    (_socket.socket, "sendall"): "sends something over a socket",
    (_socket.socket, "sendto"): "sends something over a socket",
    (_socket.socket, "connect"): "connects a socket",
}
_GLOBAL_CHANCE: Final[object] = getattr(
    random.random, "__self__", None
)  # a seeded generator of one's own is not random
_UNSEEN = ("logging", "importlib._bootstrap", "reenact.testing.witness")
"""Modules whose acts are not counted: a log record has the time and lines of files, an import happens only once."""


def _code(function: object) -> CodeType:
    assert isinstance(function, FunctionType)
    return function.__code__


_TELLS = "tells another actor something"
_ASKS = "asks another actor"
_CLOCK = "reads the clock (context.clock)"
_BY_CODE = {
    _code(Reference.tell): _TELLS,
    _code(PooledRef.tell): _TELLS,
    _code(pykka.ActorRef.tell): _TELLS,
    _code(Reference.ask): _ASKS,
    _code(Reference.ask_future): _ASKS,
    _code(PooledRef.ask): _ASKS,
    _code(pykka.ActorRef.ask): _ASKS,
    _code(ActorContext.schedule): "schedules a command",
    _code(ActorContext.child): "calls for a child",
    _code(ActorContext.spawn): "starts an actor",
    _code(ManualClock.__call__): _CLOCK,
}
_HANDLED_HERE = _code(Mailbox.handled_here)

SENDS = (frozenset(_BY_CODE.values()) | {*_ACTS.values(), *_METHODS.values()}) - {_ASKS, _CLOCK}
"""Acts that affect other actors. Asking may be a mere question, and there is a place to read the clock."""


@contextmanager
def witness(acts: Acts) -> Generator[None]:
    """Record the acts of the current thread in this block that a pure function does not perform.

    If another profiler is active on the thread, it is not replaced, and nothing is recorded.
    """
    if sys.getprofile() is not None:
        yield
        return

    elsewhere = 0  # how many other actors are being asked, which answer on this same thread

    def see(frame: FrameType, what: str, function: object) -> None:
        nonlocal elsewhere
        if what in ("call", "return") and frame.f_code is _HANDLED_HERE:
            elsewhere += 1 if what == "call" else -1
        elif elsewhere:
            return
        elif what == "call":
            note(frame, _BY_CODE.get(frame.f_code))
        elif what == "c_call":
            note(frame, _outside(frame, function))

    def note(frame: FrameType, act: str | None) -> None:
        if act is not None and act not in acts and not _innocent(frame):
            acts.append(act)

    sys.setprofile(see)
    try:
        yield
    finally:
        sys.setprofile(None)


def _innocent(frame: FrameType) -> bool:
    """Return whether the act is not the function's own, but the garbage collector's, an import's or a log record's."""
    if frame.f_code in (getattr(callback, "__code__", None) for callback in gc.callbacks):
        return True
    caller: FrameType | None = frame
    while caller is not None:
        module = str(caller.f_globals.get("__name__"))
        if module.startswith(_UNSEEN) or module.startswith("reenact.testing."):
            return module.startswith(_UNSEEN)
        caller = caller.f_back
    return False


def _arguments(frame: FrameType) -> int:
    """Return the number of arguments of the call that the frame is at."""
    here = (one.arg for one in dis.get_instructions(frame.f_code) if one.offset == frame.f_lasti)
    return next(here, None) or 0


def _outside(frame: FrameType, function: object) -> str | None:
    """Return the act that this call of a built-in function is, or None if it may be pure."""
    name: str = getattr(function, "__name__", "")
    module: object = getattr(function, "__module__", None)
    owner: object = getattr(function, "__self__", None)
    if (module == "time" and (name in _CLOCKS or _arguments(frame) < _CONVERTERS.get(name, 0))) or (
        name in _DATES and isinstance(owner, type) and issubclass(owner, date)
    ):
        return f"reads the clock ({owner.__name__ if isinstance(owner, type) else module}.{name})"
    if isinstance(module, str) and (module, name) in _ACTS:
        return _ACTS[module, name]
    for (kind, method), act in _METHODS.items():
        if name == method and isinstance(owner, kind):
            return act
    if owner is _GLOBAL_CHANCE or name in _CHANCE:
        return f"leaves something to chance ({name})"
    if name == "sleep" and module == "time":
        return "sleeps"
    if name == "open" and module in ("_io", "io", "posix", "nt"):
        return "opens a file"
    return None
