"""The start of the command line: whole runs of `reenact`, and a chat until its prompt.

The other side is an empty Python program, started alternately with ours. The mock answers at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final, TypeAlias

from bench.measure import Goal, Line, Sample, Workload, at_most, must
from reenact import Image, Runtime
from reenact.terminal import SpecialKey, TerminalEmulator
from reenact.testing import MockEnvironmentFactory

TRIES: Final = 10
SESSIONS: Final = 100
PATIENCE: Final = 30.0

Home: TypeAlias = Path
"""Where the log and all files of a user are."""


def workloads(*, quick: bool) -> Sequence[Workload]:
    """Return what is measured."""
    tries = 2 if quick else TRIES
    sessions = SESSIONS // (10 if quick else 1)
    return [
        _compared("reenact --version", _run("--version", says="reenact "), tries),
        _compared("reenact --help", _run("--help", says="Exit codes"), tries, at_most(160)),
        _compared("reenact -p Hello, in a new log", _answered, tries, at_most(400)),
        _compared("a chat, until its prompt", _prompted, tries),
        _compared(f"reenact sessions, of {sessions}", _listed(sessions), tries),
    ]


def _compared(name: str, side: Callable[[Home], float], tries: int, goal: Goal | None = None) -> Workload:
    """Return a workload of one line, which starts ours and Python alternately."""

    def measure(directory: Path, _number: int) -> Sequence[Sample]:
        pairs = [(side(directory), _timed([sys.executable, "-c", "pass"], directory, "")) for _ in range(tries)]
        return (Sample(median(ours for ours, _ in pairs), median(bare for _, bare in pairs)),)

    return Workload((Line(name, "ms", "python -c pass", goal),), measure)


def _run(*arguments: str, says: str) -> Callable[[Home], float]:
    return lambda home: _timed([*_COMMAND, *arguments], home, says)


def _answered(home: Home) -> float:
    log = home / "new.db"
    took = _timed([*_COMMAND, "-p", "Hello", "--db", str(log)], home, "Hello from mock!")
    for path in home.glob("new.db*"):
        path.unlink()
    return took


def _prompted(home: Home) -> float:
    begun = time.perf_counter()
    with TerminalEmulator([*_COMMAND], env=_environment(home), cwd=home, timeout=PATIENCE) as terminal:
        terminal.wait_for("Session ses_")
        terminal.wait_for(">")
        took = _milliseconds(begun)
        terminal.send_key(SpecialKey.CTRL_D)
        must(terminal.wait_for_exit().success, "the chat ends by itself")
    return took


def _listed(sessions: int) -> Callable[[Home], float]:
    def side(home: Home) -> float:
        log = home / "sessions.db"
        if not log.exists():
            _fill(log, sessions)
        return _timed([*_COMMAND, "sessions", "--db", str(log)], home, f"Question {sessions - 1}\n")

    return side


_COMMAND: Final = (sys.executable, "-m", "reenact")


def _timed(command: Sequence[str], home: Home, says: str) -> float:
    """Return the milliseconds that the command takes; check that it succeeds and prints this."""
    begun = time.perf_counter()
    done = subprocess.run(  # noqa: S603 - ours
        command, env=_environment(home), cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    took = _milliseconds(begun)
    must(says in done.stdout, f"{' '.join(command)} says {says!r}")
    return took


def _milliseconds(begun: float) -> float:
    return (time.perf_counter() - begun) * 1000


def _environment(home: Home) -> Mapping[str, str]:
    """Return the environment of a new user, outside of CI, with the mock as the model."""
    inherited = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
    return {**inherited, "HOME": str(home), "MOCK_LLM": "true"}


def _fill(log: Path, sessions: int) -> None:
    """Create a log in which each session has a question and an answer."""
    ended = threading.Semaphore(0)
    with Runtime.open(log, environment=MockEnvironmentFactory()) as runtime:
        runtime.events.on("turn_completed", lambda _event: ended.release())
        runtime.containers.create(container_id="default")
        runtime.images.register(Image(id="chat"))
        for number in range(sessions):
            session = runtime.sessions.create("default", "chat")
            runtime.agents.receive(runtime.sessions.run(session.id), f"Question {number}")
            ended.acquire()
