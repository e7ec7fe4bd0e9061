"""The command line on a log in PostgreSQL: every command, and no word of its password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from reenact import Runtime
from reenact.cli.output.failures import ExitCode
from reenact.testing import MockEnvironmentFactory
from tests.cli.conftest import Chat, Outcome, Run, ask
from tests.journal.guarded import SECRET, guarded_server, url_of
from tests.journal.server import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for these tests, on which some users may not do everything."""
    yield from guarded_server(tmp_path_factory)


@pytest.fixture
def url(server: Server) -> str:
    """A log that has not begun, of a user with a password."""
    return url_of(server, "guarded", SECRET, server.new_log().rpartition("=")[2])


def test_every_command_takes_a_log_in_postgresql(run: Run, url: str, tmp_path: Path) -> None:
    def does(*arguments: str, code: int = ExitCode.SUCCESS, log: str = url) -> Outcome:
        done = run(*arguments, REENACT_DB=log)
        assert (done.code, SECRET in done.out + done.err) == (code, False), done.err
        return done

    asked = does("-p", "Hello", "--output-format", "json").result
    session = asked["session_id"]
    assert does("--continue", "-p", "Again", "--output-format", "json").result["session_id"] == session
    assert does("--resume", session, "-p", "Again").out == "Hello from mock!\n"
    (listed,) = does("sessions", "--output-format", "json").objects
    assert (listed["id"], listed["messages"]) == (session, 6)
    branch = does("branch", session).out.strip()

    assert does("log", "--session", session, "--type", "message-accepted").out.count("Again") == 2
    assert "The session was created" in does("log", "--why", "3").out
    assert "Hello from mock!" in does("show", session).out
    assert "messages[1] added" in does("diff", session, "3", "12", code=1).out
    assert "2 histories, all as recorded" in does("replay").out
    checkpoint = str(tmp_path / "checkpoint.jsonl")
    does("checkpoint", "--output", checkpoint)
    verdict = does("verify", "--checkpoint", checkpoint, "--output-format", "json").result
    assert (verdict["findings"], verdict["read_model"]) == ([], "agrees")
    does("rebuild")
    (status,) = does("projections", "--output-format", "json").objects
    assert (status["name"], status["lag"], status["health"]) == ("reenact", 0, "closed")

    copy = f"{url}_copy"
    exported, bad = tmp_path / "log.jsonl", tmp_path / "bad.jsonl"
    does("export", str(exported))
    bad.write_bytes(exported.read_bytes()[:-10])
    does("import", str(bad), log=copy, code=ExitCode.USAGE)
    does("sessions", log=copy, code=ExitCode.USAGE)  # a file that is refused leaves no log behind
    does("rebuild", log=copy, code=ExitCode.USAGE)
    imported = does("import", str(exported), "--output-format", "json", log=copy).result
    assert imported["log"].startswith("postgresql://guarded@")
    assert imported["events"] == verdict["position"]
    assert does("replay", log=copy).out == does("replay").out

    assert '"postgresql://…"' in does("settings").out
    offered = run("show", "", REENACT_DB=url, _REENACT_COMPLETE="bash").out
    assert offered.split("\n") == ["words", f"{branch}\t", f"{session}\tHello", ""]


def test_a_log_is_followed_although_its_server_goes_away(
    run: Run, server: Server, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create(name: str) -> None:
        with Runtime.open(url, environment=MockEnvironmentFactory()) as runtime:
            runtime.containers.create(container_id=name)

    steps = iter((server.stop, lambda: None, server.start, lambda: create("second")))

    def take_step_instead(_seconds: float) -> None:
        step = next(steps, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    create("first")
    monkeypatch.setattr("reenact.cli.commands.log.pause", take_step_instead)
    done = run("log", "--follow", "--type", "container-created", "--db", url)

    assert (done.code, done.out.count("container/first"), done.out.count("container/second")) == (130, 1, 1)
    assert done.err.count("waiting for the log") == 1
    assert SECRET not in done.err


def test_what_a_chat_tells_to_come_back_with_has_no_password(chat: Chat, url: str) -> None:
    terminal = chat("--db", url)
    ask(terminal, "Hello")
    terminal.send_line("/exit")

    assert terminal.wait_for_exit().code == 0

    said = " ".join(terminal.get_output().split())
    assert SECRET not in said
    assert "postgresql://guarded@/postgres?host=" in said.replace(" ", "")


def test_a_log_that_nobody_is_let_into_is_a_failure_of_its_kind(run: Run, server: Server, url: str) -> None:
    run("-p", "Hello", "--db", url)
    other = url_of(server, "guarded", "hush-hush", "log")
    powerless = url_of(server, "powerless", "", "new")
    read_only = f"{url}&options=-c%20default_transaction_read_only%3Don"
    failures = {
        other: (ExitCode.AUTHENTICATION, "log_access_denied"),
        powerless: (ExitCode.USAGE, "log_unusable"),
        read_only: (ExitCode.USAGE, "log_unusable"),
    }

    for log, expected in failures.items():
        done = run("-p", "Hello", "--output-format", "json", "--db", log)
        assert (done.code, done.result["error"]["type"]) == expected
        assert "hush" not in done.out + done.err
    assert run("sessions", "--db", read_only).code == ExitCode.SUCCESS  # a standby can be read


def test_the_user_s_settings_can_name_it(run: Run, url: str, environ: dict[str, str]) -> None:
    folder = Path(environ["HOME"], ".reenact")
    folder.mkdir()
    (folder / "settings.json").write_bytes(msgspec.json.encode({"db": url}))

    assert run("-p", "Hello").code == ExitCode.SUCCESS
    assert len(run("sessions", "--db", url).out.splitlines()) == 1
