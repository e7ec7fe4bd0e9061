"""Ends a program with all processes that descend from it, also those that have left its session."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from reenact.terminal.session.pty import TerminalId
from reenact.terminal.session.spawning import MARK
from reenact.testing.clock import polled

GRACE = 0.5
"""Seconds that processes have to react to a signal before the next one is sent."""
HANG_UP_TERMINATE_KILL = (signal.SIGHUP, signal.SIGTERM, signal.SIGKILL)
KILL = (signal.SIGKILL,)
_PROC = Path("/proc")
_HAS_PROC = sys.platform == "linux"
_ROUNDS = 20


class ProcessEntry(NamedTuple):
    """A process in the kernel's process list; `started` is in clock ticks since boot."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    started: int

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs, and is not a zombie."""
        return self.state not in {"Z", "X", "x"}


@dataclass
class ProcessTree:
    """The process that was started, and all processes that descend from it.

    Attributes:
        pid: the id of the process, which is the leader of its own session.
        mark: a value in the environment of all of them.
        has_ended: returns whether the process has ended and was reaped.
        foreground: returns the process group in the foreground of the terminal.
        terminal: returns the terminal while it is open; later its path may belong to another one.
    """

    pid: int
    mark: str
    has_ended: Callable[[], bool]
    foreground: Callable[[], int | None]
    terminal: Callable[[], TerminalId | None] = lambda: None
    _started: int = field(init=False)
    _known: set[tuple[int, int]] = field(init=False, default_factory=set[tuple[int, int]])

    def __post_init__(self) -> None:
        entry = _entry(self.pid) if _HAS_PROC else None
        self._started = entry.started if entry is not None else 0

    def end(self, signals: Iterable[signal.Signals] = HANG_UP_TERMINATE_KILL) -> None:
        """Send the signals to all of them one after another, each with time to react, until no process is left."""
        for number in signals:
            # A process may have started another one before it was killed.
            for _ in range(_ROUNDS if number is signal.SIGKILL else 1):
                if not self._send(number):
                    return

    def record_members(self) -> None:
        """Record the members while the terminal still identifies them."""
        if _HAS_PROC:
            self._members()

    def _send(self, number: signal.Signals) -> bool:
        members = self._members() if _HAS_PROC else None
        if members is None:
            return self._send_to_groups(number)
        for member in members:
            _signal(member.pid, number)
        polled(lambda: not any(_is_alive(member) for member in members), GRACE)
        return bool(members)

    def _send_to_groups(self, number: signal.Signals) -> bool:
        groups = {self.foreground(), None if self.has_ended() else self.pid} - {None, os.getpgrp()}
        for group in groups:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group or self.pid, number)
                os.killpg(group or self.pid, signal.SIGCONT)
        return bool(groups) and not polled(self.has_ended, GRACE)

    def _members(self) -> list[ProcessEntry]:
        """Return the live members: descendants, session, groups, and other processes with the mark or the terminal."""
        entries = {
            entry.pid: entry for entry in _entries() if entry.started >= self._started and entry.pid != os.getpid()
        }
        # After the process has ended, its number may belong to an unrelated process, unless it still names a session.
        is_reused = self.has_ended() and self.pid in entries
        ids = set[int]() if is_reused else {self.pid}
        groups = (ids | {self.foreground()}) - {os.getpgrp()}
        found = {
            entry.pid
            for entry in entries.values()
            if entry.pid in ids
            or entry.session in ids
            or entry.group in groups
            or (entry.pid, entry.started) in self._known
            or _is_marked(entry.pid, self.mark)
        }
        found |= self._users_of_terminal(entries)
        found |= _descendants(found, entries.values())
        # Parents before children, since a parent may react to the end of its child by exiting.
        members = sorted((entries[pid] for pid in found), key=lambda entry: (entry.pid != self.pid, entry.started))
        self._known |= {(entry.pid, entry.started) for entry in members}
        return [entry for entry in members if entry.is_alive]

    def _users_of_terminal(self, pids: Iterable[int]) -> set[int]:
        """Return the processes with the terminal as a standard stream: they were started there, even if they left."""
        terminal_id = self.terminal()
        found = set[int]() if terminal_id is None else {pid for pid in pids if _uses_terminal(pid, terminal_id)}
        return found if self.terminal() == terminal_id else set()


def _descendants(ancestors: set[int], entries: Iterable[ProcessEntry]) -> set[int]:
    children: dict[int, list[int]] = {}
    for entry in entries:
        children.setdefault(entry.parent, []).append(entry.pid)
    found: set[int] = set()
    left = list(ancestors)
    while left:
        for child in children.get(left.pop(), ()):
            if child not in found:
                found.add(child)
                left.append(child)
    return found


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
        if number is not signal.SIGKILL:
            os.kill(pid, signal.SIGCONT)  # a stopped process reacts to no other signal


def _is_alive(member: ProcessEntry) -> bool:
    entry = _entry(member.pid)
    return entry is not None and entry.started == member.started and entry.is_alive


def _entries() -> Iterator[ProcessEntry]:
    for name in os.listdir(_PROC):  # noqa: PTH208 - avoids thousands of path objects
        if name.isdecimal() and (entry := _entry(int(name))) is not None:
            yield entry


def _entry(pid: int) -> ProcessEntry | None:
    try:
        line = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The name, in parentheses, may contain anything, also blanks and parentheses.
    state, parent, group, session, *rest = line[line.rindex(b")") + 2 :].split()
    return ProcessEntry(pid, state.decode(), int(parent), int(group), int(session), int(rest[15]))


def _is_marked(pid: int, mark: str) -> bool:
    try:
        environ = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return any(
        line.startswith(f"{MARK}=".encode()) and mark.encode() in line.split(b"=", 1)[1].split(b":")
        for line in environ.split(b"\0")
    )


def _uses_terminal(pid: int, terminal: TerminalId) -> bool:
    """Return whether one of its standard streams is the terminal. Forks of this process have it open elsewhere."""
    for stream in (_PROC / str(pid) / "fd" / number for number in "012"):
        with suppress(OSError):
            # The path alone could be that of a terminal in a container.
            if str(stream.readlink()) == terminal.path and TerminalId.of(stream, terminal.path) == terminal:
                return True
    return False
