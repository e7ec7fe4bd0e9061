"""The command, in this process or in one of its own, with nobody else's settings and files."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest

import reenact
from reenact.cli import main
from reenact.terminal import SpecialKey, TerminalEmulator
from reenact.testing import FakeMessagesAPI
from tests.cli.tools import Office
from tests.journal.server import DATABASE
from tests.logs import log_at, with_logs
from tests.started.programs import INHERITED, Programs

KEY = "sk-ant-this-is-a-secret"
PROMPT = ">"  # the blank behind it may be a movement of the cursor
PATIENCE = 60.0
"""Seconds that anything at a terminal may take."""
Json: TypeAlias = dict[str, Any]


@dataclass
class Outcome:
    """What became of a run of the command."""

    code: int
    out: str
    err: str

    @property
    def objects(self) -> list[Json]:
        """Standard output as lines of JSON."""
        return [msgspec.json.decode(line) for line in self.out.splitlines()]

    @property
    def result(self) -> Json:
        """The only line of standard output."""
        (result,) = self.objects
        return result


def ask(terminal: TerminalEmulator, line: str, answer: str | re.Pattern[str] = "Hello from mock!") -> str:
    """Type the line, wait for what is answered, and for the next prompt; return what was written up to the answer."""
    terminal.send_line(line)
    written = terminal.wait_for(answer)
    terminal.wait_for(PROMPT)
    return written


Run: TypeAlias = Callable[..., Outcome]
Chat: TypeAlias = Callable[..., TerminalEmulator]


def leave(terminal: TerminalEmulator) -> int | None:
    """Leave the chat with Ctrl+D; return the exit code."""
    terminal.send_key(SpecialKey.CTRL_D)
    return terminal.wait_for_exit().code


def logged(run: Run, event_type: str) -> list[Json]:
    """Return the events of this type that are in the log."""
    return run("log", "--type", event_type, "--output-format", "json").objects


def accepted(run: Run) -> list[tuple[str, str]]:
    """Return what was said in the log, and in which session."""
    return [(event["session_id"], event["data"]["content"][0]["text"]) for event in logged(run, "message-accepted")]


@pytest.fixture(autouse=True)
def _without_nohup() -> Iterator[None]:
    """Let SIGHUP end the command also where the tests run under `nohup`, which has it ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a user who has just come."""
    home = tmp_path / "home"
    home.mkdir()
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    own_log = {"REENACT_DB": log_at(home / ".local/share/reenact/reenact.db")} if DATABASE in os.environ else {}
    return {
        **inherited,
        "HOME": str(home),
        "PYTHONPATH": str(Path(reenact.__file__).parent.parent),
        "SSL_CERT_DIR": str(home),  # nobody shows a certificate here, and to load all of the system's takes long
        "TERM": "xterm",
        **own_log,
    }


@pytest.fixture
def run(
    environ: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Return what runs the command in this process: `run("-p", "Hello", stdin=b"…", MOCK_SCENARIO="…")`."""

    def run(*arguments: str, stdin: bytes = b"", **variables: str) -> Outcome:
        named = with_logs(arguments, tmp_path)
        with monkeypatch.context() as patch:
            for name in set(os.environ) - set(INHERITED):
                patch.delenv(name)
            for name, value in {**environ, **variables}.items():
                patch.setenv(name, value)
            patch.chdir(tmp_path)
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            capsys.readouterr()
            code = main(named)
            printed = capsys.readouterr()
            return Outcome(code, printed.out, printed.err)

    return run


@pytest.fixture
def command() -> list[str]:
    """Return how the command is started in a process of its own."""
    return [sys.executable, "-P", "-m", "reenact"]


@pytest.fixture
def start(environ: dict[str, str], command: list[str], tmp_path: Path) -> Run:
    """Return what runs the command in a process of its own."""

    def start(*arguments: str, stdin: bytes = b"", **variables: str) -> Outcome:
        done = subprocess.run(
            [*command, *with_logs(arguments, tmp_path)],
            input=stdin,
            capture_output=True,
            env={**environ, **variables},
            cwd=tmp_path,
            timeout=PATIENCE,
            check=False,
        )
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())

    return start


@pytest.fixture
def api() -> Iterator[FakeMessagesAPI]:
    """Return a Messages API that knows the key."""
    with FakeMessagesAPI(api_key=KEY) as api:
        yield api


@pytest.fixture
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send a request that failed again without a pause."""

    def at_once(_attempt: int, _wait: float | None, _chance: float) -> float:
        return 0.0

    monkeypatch.setattr("reenact.actors.environment.wire.driver.backoff", at_once)


@pytest.fixture
def claude(api: FakeMessagesAPI, environ: dict[str, str], no_backoff: None) -> FakeMessagesAPI:
    """Have that API answer all that the command asks."""
    environ |= {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": api.url}
    return api


@pytest.fixture
def chat(programs: Programs, environ: dict[str, str], tmp_path: Path) -> Iterator[Chat]:
    """Return what opens a chat and waits for its prompt, or for what `until` says."""
    with ExitStack() as chats:

        def chat(*arguments: str, until: str = PROMPT, cwd: Path = tmp_path, **variables: str) -> TerminalEmulator:
            terminal = chats.enter_context(
                TerminalEmulator(
                    "reenact",
                    with_logs(arguments, cwd),
                    env={**environ, **variables},
                    cwd=cwd,
                    cols=120,
                    timeout=PATIENCE,
                    spawner=programs.at_terminal,
                )
            )
            terminal.wait_for(until)
            return terminal

        yield chat


@pytest.fixture
def office(claude: FakeMessagesAPI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    """Return an agent that can send mail; what its tools add to the path of modules is gone with it."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    return Office(claude, tmp_path)
