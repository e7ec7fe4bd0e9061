"""Starts programs as `python -m …` and `python program.py` do, without waiting for their imports each time."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import reenact

if TYPE_CHECKING:
    from reenact.terminal.session.spawning import Spawner

MOTHER = Path(__file__).with_name("mother.py")
SLOW = (
    "anthropic",
    "anyio._backends._asyncio",
    "httpcore2",
    "mcp",
    "openai",
    "psycopg",
    "pyghostty",
    "reenact.actors.environment.claude.environment",
    "reenact.actors.environment.openai.provider",
    "reenact.actors.environment.tools.mcp.session",
    "reenact.actors.sharding.node",
    "reenact.audit",
    "reenact.cli.chat.chat",
    "reenact.cli.extensions.extended",
    "reenact.cli.chat.talk",
    "reenact.cli.serve",
    "reenact.client.runtime",
    "reenact.inspector",
    "reenact.server.serving",
    "reenact.testing",
    "reenact.tracing.collector",
    "ruamel.yaml",
    "truststore",
)
"""What takes the longest to import, and does nothing else."""
INHERITED = ("PATH", "LANG", "LC_ALL", "TMPDIR")
WHERE = "TESTS_PROGRAMS"
"""The variable with the address of the process that starts them, while there is one."""
PATIENCE = 60.0


class Started:
    """A program that was started: what matters of `subprocess.Popen`."""

    def __init__(self, told: int) -> None:
        self._told = os.fdopen(told, "rb", buffering=0)
        self._line = b""
        self.returncode: int | None = None
        pid = self._next(PATIENCE)
        assert pid is not None, "no program was started"
        self.pid = pid

    def poll(self) -> int | None:
        """Return the exit code, or None as long as the program runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the program and return its exit code."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("a program that was started", timeout or 0.0)
        return code

    def terminate(self) -> None:
        """Ask the program to end, if it has not."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            self.returncode = self._next(timeout)
            if self.returncode is not None:
                self._told.close()
        return self.returncode

    def _next(self, timeout: float | None) -> int | None:
        while not self._line.endswith(b"\n"):
            if not select.select([self._told], [], [], timeout)[0]:
                return None
            said = self._told.read(1)
            assert said, "the process that programs are started from has gone"
            self._line += said
        number, self._line = int(self._line), b""
        return number


class Programs:
    """Starts programs from one process, which has made their imports."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link

    def close(self) -> None:
        """Start none any more; those that run go on."""
        self._link.close()

    def at_terminal(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, terminal: int) -> Started:
        """Start the command, whose name is the first of these, at a terminal: a `Spawner`."""
        assert argv[0] == "reenact", "programs of other kinds are not started here"
        return self._start(list(argv), env, cwd or Path.cwd(), [terminal] * 3)

    def beside_terminal(self, *, reads: int | None = None, writes: int | None = None) -> Spawner:
        """Return what starts the command at a terminal, but with these descriptors as its standard input and output."""

        def start(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, terminal: int) -> Started:
            standard = [terminal if reads is None else reads, terminal if writes is None else writes, terminal]
            return self._start(list(argv), env, cwd or Path.cwd(), standard)

        return start

    def run(self, program: Path, env: Mapping[str, str], cwd: Path, timeout: float) -> subprocess.CompletedProcess[str]:
        """Run the file with nothing to read, and every warning an error; return what it has printed."""
        return self._run([str(program)], env, cwd, timeout, is_file=True)

    def command(
        self, arguments: Sequence[str], env: Mapping[str, str], cwd: Path, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run the command with these arguments and nothing to read; return what it has printed."""
        return self._run(["reenact", *arguments], env, cwd, timeout, is_file=False)

    def start(
        self,
        arguments: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        standard: Sequence[int | None],
        before: Sequence[str] = (),
    ) -> Started:
        """Start the command, which talks through these descriptors; a stream that is None is closed.

        `before` names functions of the tests, `MODULE:NAME`, that are called in its process first.
        """
        with Path(os.devnull).open("rb") as nothing:
            given = [nothing.fileno() if one is None else one for one in standard]
            closed = [number for number, one in enumerate(standard) if one is None]
            return self._start(["reenact", *arguments], env, cwd, given, closed=closed, before=before)

    def module(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, standard: Sequence[int]) -> Started:
        """Start the module of this name with these arguments, which talks through these descriptors."""
        return self._start(list(argv), env, cwd, list(standard), finds_beside=True)

    def _run(
        self, argv: list[str], env: Mapping[str, str], cwd: Path, timeout: float, *, is_file: bool
    ) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, Path(os.devnull).open("rb") as nothing:
            program = self._start(argv, env, cwd, [nothing.fileno(), out.fileno(), err.fileno()], is_file=is_file)
            code = program.wait(timeout)
            printed: list[str] = []
            for stream in (out, err):
                stream.seek(0)
                printed.append(stream.read().decode())
        return subprocess.CompletedProcess(argv, code, *printed)

    def _start(
        self,
        argv: list[str],
        env: Mapping[str, str],
        cwd: Path,
        standard: list[int],
        *,
        is_file: bool = False,
        finds_beside: bool = False,
        closed: Sequence[int] = (),
        before: Sequence[str] = (),
    ) -> Started:
        order = {
            "argv": argv,
            "env": dict(env),
            "cwd": str(cwd),
            "is_file": is_file,
            "finds_beside": is_file or finds_beside,
            "closed": closed,
            "before": before,
        }
        told, telling = os.pipe()
        try:
            socket.send_fds(self._link, [json.dumps(order).encode()], [*standard, telling])
        finally:
            os.close(telling)
        return Started(told)


@contextmanager
def starting_programs() -> Generator[Programs]:
    """Start the process that starts them; it is gone at the end, also if we are killed.

    In the block, other processes find it by a variable of the environment.
    """
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environ = {name: os.environ[name] for name in INHERITED if name in os.environ}
    with (
        tempfile.TemporaryDirectory() as directory,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
        closing(ours),
        mock.patch.dict(os.environ, {WHERE: f"{directory}/programs"}),
    ):
        listener.bind(os.environ[WHERE])
        listener.listen()
        descriptors = its.fileno(), listener.fileno()
        process = subprocess.Popen(
            [sys.executable, "-P", str(MOTHER), *map(str, descriptors), *SLOW],
            env={**environ, "PYTHONPATH": str(Path(reenact.__file__).parent.parent)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=descriptors,
            start_new_session=True,
        )
        with process:
            its.close()
            try:
                yield Programs(ours)
            finally:
                ours.shutdown(socket.SHUT_RDWR)


@cache
def shared_programs() -> Programs:
    """Return what starts programs for all processes of this run of tests."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.connect(os.environ[WHERE])
    return Programs(link)
