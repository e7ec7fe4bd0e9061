"""Terminals for programs that misbehave, and the proof that nothing of them is left."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from reenact.terminal.session.emulator import TerminalEmulator
from reenact.testing import wait_until

OURS = "BROKEN_PROGRAM"


class Opening(Protocol):
    """Starts a program at a terminal that is disposed of when the test ends."""

    def __call__(self, *command: str, timeout: float = 60.0, max_output: int = 1024 * 1024) -> TerminalEmulator:
        """Start it."""
        ...


@pytest.fixture
def sign() -> str:
    """Return the value of a variable in the environment of all programs of the test."""
    return secrets.token_hex(8)


@pytest.fixture
def left(sign: str) -> Callable[[], list[int]]:
    """Return who tells which processes of the test live, wherever they belong by now."""
    return lambda: [pid for pid in _processes() if _has_variable(pid, f"{OURS}={sign}".encode())]


@pytest.fixture(autouse=True)
def nothing_is_left_behind(left: Callable[[], list[int]]) -> Iterator[None]:
    """Fail the test of which a process, a child not taken note of, or an open descriptor is left."""
    descriptors, children = _descriptors(), _children()

    yield

    wait_until(lambda: not left(), what="the end of all processes that were started")
    assert _children() - children == set(), "a child was not taken note of"
    assert _descriptors() - descriptors == set()


@pytest.fixture
def opened(sign: str, nothing_is_left_behind: None) -> Iterator[Opening]:
    """Lend what starts programs."""
    terminals: list[TerminalEmulator] = []

    def opening(*command: str, timeout: float = 60.0, max_output: int = 1024 * 1024) -> TerminalEmulator:
        terminal = TerminalEmulator(command, env={OURS: sign}, timeout=timeout, max_output=max_output)
        terminals.append(terminal)
        return terminal.start()

    yield opening

    for terminal in terminals:
        terminal.dispose()


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _has_variable(pid: int, setting: bytes) -> bool:
    try:
        return setting in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _children() -> set[int]:
    return {pid for pid in _processes() if _parent_of(pid) == os.getpid()}


def _parent_of(pid: int) -> int | None:
    try:
        line = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return int(line.rpartition(")")[2].split()[1])


def _descriptors() -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add((entry.name, str(entry.readlink())))
        except OSError:  # the one by which the directory is read
            continue
    return found
