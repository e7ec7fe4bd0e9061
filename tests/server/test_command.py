"""`reenact serve`, in a process of its own: how it begins, what it refuses, and how it ends."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import TypeAlias

import httpx2
import pytest
from websockets.sync.client import connect

import reenact
from reenact import MessageRefusedError
from reenact.cli import main
from tests.cli.conftest import KEY
from tests.cli.tools import FRIENDS, GUARDS
from tests.server.conftest import TOKEN
from tests.server.talk import PATIENCE, Talk, has_turned
from tests.started.forked import Forked
from tests.started.programs import INHERITED, Programs

_SAYS = "listening on "


class Served:
    """A process that serves."""

    def __init__(self, process: Forked) -> None:
        assert process.stdout is not None
        self.process = process
        line = process.stdout.readline()
        assert line.startswith(_SAYS), line
        self.url = line.removeprefix(_SAYS).strip()

    def end(self, *signals: signal.Signals) -> tuple[int, str]:
        """Send the signals; return the exit code and what was logged."""
        for number in signals:
            self.process.send_signal(number)
        _, logged = self.process.communicate(timeout=PATIENCE)
        return self.process.wait(), logged


Start: TypeAlias = Callable[..., Served]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {**inherited, "HOME": str(tmp_path), "PYTHONPATH": str(Path(reenact.__file__).parent.parent)}


@pytest.fixture
def start(environ: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Return what starts a server on a free port: `start("--mock", CI="1")`."""
    with ExitStack() as processes:

        def start(*arguments: str, **variables: str) -> Served:
            command = ["reenact", "serve", "--db", "log.db", "--port", "0", *arguments]
            process = Forked(command, {**environ, **variables}, tmp_path, stdout=PIPE, stderr=PIPE)
            processes.enter_context(process)
            processes.callback(process.kill)
            return Served(process)

        yield start


@contextmanager
def greeted_at(url: str) -> Generator[Talk]:
    with connect(f"{url.replace('http', 'ws', 1)}/ws") as connection:
        talk = Talk(connection)
        talk.hello()
        yield talk


def test_it_serves_until_it_is_told_to_end_and_goes_on_where_it_was(start: Start) -> None:
    served = start()
    with greeted_at(served.url) as talk:
        sent = talk.ask("message_send_request", image_id="chat", content="Hello")["result"]
        talk.subscribe("s", sent["session_id"], client_id="ada")
        seen = talk.follow("s", has_turned)
        talk.say("ack", id="s", cursor=10)
        talk.hear("acked")
        code, logged = served.end(signal.SIGTERM, signal.SIGTERM, signal.SIGINT)
        closed = talk.closing()

    again = start()
    with greeted_at(again.url) as talk:
        begun = talk.subscribe("s", sent["session_id"], client_id="ada")
        rest = talk.follow("s", lambda events: len(events) >= len(seen) - 10)

    assert (code, closed[0]) == (0, 1001)
    assert "the mock answers" in logged
    assert "ANTHROPIC_API_KEY" in logged
    assert begun["after"] == 10
    assert rest[: len(seen) - 10] == seen[10:]
    assert again.end(signal.SIGINT)[0] == 0


def test_however_often_and_late_it_is_told_to_end_it_ends_well(start: Start) -> None:
    served = start()
    served.process.send_signal(signal.SIGTERM)
    numbers = itertools.cycle((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    while served.process.poll() is None:
        served.process.send_signal(next(numbers))
        time.sleep(0.001)

    assert served.end()[0] == 0


def test_a_turn_that_runs_is_interrupted_by_the_end(start: Start) -> None:
    served = start("--scenario", "long-stream")
    with greeted_at(served.url) as talk:
        sent = talk.ask("message_send_request", image_id="chat", content="Hello")["result"]
        talk.subscribe("s", sent["session_id"])
        talk.follow("s", lambda events: any(event["type"] == "text_delta" for event in events))
        code, _ = served.end(signal.SIGTERM)

    again = start()
    turns = httpx2.get(f"{again.url}/v1/sessions/{sent['session_id']}/turns").json()["result"]

    assert code == 0
    assert [turn["outcome"] for turn in turns] == ["interrupted"]


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_whoever_has_started_it_is_told_when_clients_can_come(start: Start, kind: str) -> None:
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as directory,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor,
    ):
        address = f"{directory}/notify" if kind == "path" else f"@{directory}"
        supervisor.bind(address.replace("@", "\0"))
        supervisor.settimeout(PATIENCE)
        served = start(NOTIFY_SOCKET=address)

        told = supervisor.recv(100)

    assert told == b"READY=1"
    assert served.end(signal.SIGTERM)[0] == 0


def test_a_provider_of_the_user_s_own_answers_who_asks_a_server(
    start: Start, environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "friends").mkdir()
    (tmp_path / "friends/friends.py").write_text(FRIENDS)
    served = start("--provider", "friends:Friend", PYTHONPATH=f"{environ['PYTHONPATH']}{os.pathsep}{tmp_path}/friends")

    with reenact.Runtime.connect(served.url) as runtime:
        answer = runtime.ask("Hello")

    assert answer.text == "Hello from a friend"
    assert "friends:Friend answers" in served.end(signal.SIGTERM)[1]


def test_guards_of_the_user_s_own_refuse_messages_to_a_server(start: Start, tmp_path: Path) -> None:
    (tmp_path / "guards.py").write_text(GUARDS)
    served = start("--guards", "guards.py")

    with reenact.Runtime.connect(served.url) as runtime:
        answer = runtime.ask("Hello")
        with pytest.raises(MessageRefusedError, match="guard 'calm' refuses the message: do not shout"):
            runtime.ask("HELLO", session=answer.session_id)

    assert answer.text
    assert served.end(signal.SIGTERM)[0] == 0


def test_a_supervisor_that_is_gone_is_not_told(start: Start, tmp_path: Path) -> None:
    served = start(NOTIFY_SOCKET=str(tmp_path / "gone"))

    assert served.end(signal.SIGTERM)[0] == 0


def test_in_a_build_all_that_is_logged_is_a_json_line(start: Start) -> None:
    served = start(CI="true")

    _, logged = served.end(signal.SIGTERM)

    lines = [json.loads(line) for line in logged.splitlines()]
    assert any("mock" in line["message"] for line in lines)


def test_the_tokens_of_a_file_open_it_and_others_who_may_read_it_are_told_of(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o644)
    served = start("--host", "0.0.0.0", "--token-file", "tokens", "--origin", "https://app.example")  # noqa: S104 - that is tried
    url = served.url.replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - likewise

    closed = httpx2.get(f"{url}/v1/agents")
    opened = httpx2.get(
        f"{url}/v1/agents", headers={"Authorization": f"Bearer {TOKEN}", "Origin": "https://app.example"}
    )

    assert (closed.status_code, opened.status_code) == (401, 200)
    assert "chmod 600" in served.end(signal.SIGTERM)[1]


def test_a_log_that_is_served_is_served_once(
    start: Start, environ: dict[str, str], programs: Programs, tmp_path: Path
) -> None:
    start()

    second = programs.command(["serve", "--db", "log.db", "--port", "0"], environ, tmp_path, PATIENCE)

    assert second.returncode == 2
    assert "log.db is being written by process" in second.stderr
    assert second.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--host", "0.0.0.0"), "a token is needed"),  # noqa: S104 - that is what is refused
        (("--host", "nowhere.invalid"), "nowhere.invalid"),
        (("--port", "65536"), "65535"),
        (("--port", "x"), "--port"),
        (("--token-file", "nowhere"), "nowhere"),
        (("--origin", "*"), "origin"),
        (("--scenario", "nonsense"), "nonsense"),
        (("--max-turns", "0"), "--max-turns"),
        (("--max-cost", "1", "--model", "of-my-own"), "--price"),
        (("--keep-deltas", "-1"), "--keep-deltas"),
        (("--keep-consumers", "nan"), "--keep-consumers"),
        (("--policy", "nowhere"), "nowhere"),
        (("--tools", "nowhere.py"), "nowhere.py"),
        (("--db", "."), "Is a directory"),
    ],
)
def test_what_cannot_be_served_is_said(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: tuple[str, ...],
    why: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("REENACT_DB", str(tmp_path / "log.db"))

    if "--max-cost" in arguments:  # the mock costs nothing
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-x")

    code = main(["serve", *arguments])

    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert why in printed.err


def test_a_port_in_use_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, start: Start
) -> None:
    served = start()
    monkeypatch.setenv("HOME", str(tmp_path))

    code = main(["serve", "--db", str(tmp_path / "other.db"), "--port", served.url.rpartition(":")[2]])

    assert code == 2
    assert "port" in capsys.readouterr().err


def test_a_server_that_ends_by_itself_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("uvicorn.Server.startup", fail)
    monkeypatch.setattr("reenact.cli.serve.LOOK_AROUND", 0.01)

    code = main(["serve", "--db", str(tmp_path / "log.db"), "--port", "0"])

    assert code == 1
    assert "the server has ended" in capsys.readouterr().err


def test_claude_answers_if_there_is_a_key(start: Start) -> None:
    served = start("--model", "claude-x", ANTHROPIC_API_KEY=KEY)

    _, logged = served.end(signal.SIGTERM)

    assert "Claude (claude-x) answers" in logged
    assert KEY not in logged


def test_the_mock_can_be_asked_for_beside_a_key(start: Start) -> None:
    served = start("--mock", ANTHROPIC_API_KEY=KEY)

    assert "the mock answers" in served.end(signal.SIGTERM)[1]


def test_help_loads_no_server() -> None:
    loaded = subprocess.run(
        [sys.executable, "-P", "-X", "importtime", "-m", "reenact", "serve", "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(Path(reenact.__file__).parent.parent)},
    )

    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in loaded.stderr.splitlines()}
    assert "--token-file" in loaded.stdout
    assert "typer" in imported
    assert imported & {"starlette", "uvicorn", "websockets", "asyncio", "sqlalchemy"} == set()


def test_no_thread_of_a_command_that_was_refused_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    before = set(threading.enumerate())

    main(["serve", "--db", str(tmp_path / "log.db"), "--host", "0.0.0.0"])  # noqa: S104 - that is what is refused

    assert set(threading.enumerate()) <= before
