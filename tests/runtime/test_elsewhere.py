"""What stands outside of the log: for whom the files are, and where nothing of what was said may stand."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx2
import pytest
from sqlalchemy import Column, Connection, MetaData, Table, Text, insert

from reenact import Audit, ConfigurationError, Image, KeyRing, Runtime, tool
from reenact._runtime import SharedRuntime
from reenact.audit import export_log
from reenact.domain.messages import Said
from reenact.projections import Projection, Row, on
from reenact.projections.events import MessageAccepted
from reenact.server import Server
from reenact.testing import MockEnvironmentFactory, MockEvent, RecordedEnvironment, wait_until
from tests.journal.server import QUICK, running_server
from tests.logs import log_at

SECRET = "pineapple"  # noqa: S105 - of a story
FILES = "it is about the files of a log"


class Heard(Projection):
    """What people have said."""

    name = "heard"
    version = 1
    tables = MetaData()
    heard = Table("heard", tables, Column("text", Text))

    @on(MessageAccepted)
    def accepted(self, write: Connection, event: MessageAccepted, row: Row) -> None:
        write.execute(insert(self.heard).values(text=repr(event.content)))


@tool(intervention="required")
def look_up(word: str) -> str:
    """Look up a word."""
    if word != SECRET:
        raise LookupError("there is no such word")
    return f"{word}: a fruit"


def model(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Ask for the tool, which a person lets run, then for a call that is rejected; then fail, then answer."""
    if conversation[-1].text == "Fail":
        yield MockEvent("text_delta", data={"text": f"The {SECRET}"})
        yield MockEvent("error", data={"type": "overloaded_error", "message": "later"})
        return
    answered = sum(said.role == "assistant" for said in conversation)
    if answered < 2:
        yield MockEvent("tool_call", data={"id": f"c{answered}", "name": "look_up", "input": {"word": SECRET}})
        yield MockEvent("message_stop", data={"stop_reason": "tool_use"})
        return
    yield MockEvent("text_delta", data={"text": f"I know about the {SECRET}."})
    yield MockEvent("message_stop")


def mock() -> MockEnvironmentFactory:
    return MockEnvironmentFactory("fruit", {"fruit": model}, delays=False)


def live_through(runtime: Runtime) -> None:
    """Do what people do: ask, approve, reject, send again, ask in vain, branch, close, and delete."""
    runtime.containers.create(container_id="c")
    runtime.images.register(Image(id="i", system_prompt=f"Keep the {SECRET}.", tools=(look_up,)))
    runtime.sessions.create("c", "i", session_id="s")
    wanted = {"session_id": "s", "content": f"The code is {SECRET}", "request_id": "r1"}
    for _ in range(2):
        runtime.request("message_send_request", wanted)
    (call,) = wait_until(runtime.agents.pending, what="the call waits") or runtime.agents.pending()
    runtime.agents.approve(call.id, arguments={"word": SECRET}, by="ada")
    wait_until(lambda: [one.id for one in runtime.agents.pending()] == ["c1"], what="the second call waits")
    runtime.agents.reject("c1", reason=f"not the {SECRET}", by="ada")
    wait_until(lambda: runtime.sessions.turns("s")[-1].outcome == "completed", what="the turn ends")
    runtime.ask("Fail", session="s")
    runtime.events.subscribe("s", "me").take()
    branch = runtime.sessions.branch("s").id
    runtime.agents.receive(runtime.sessions.run(branch), f"Once more: {SECRET}")
    runtime.sessions.delete(branch)


@pytest.fixture
def usual_umask() -> Iterator[None]:
    """What files others may read unless somebody has thought of them."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(directory: Path) -> dict[str, str]:
    """Return the modes of the files and directories below that somebody else may use, but for those with a number."""
    modes = {str(path.relative_to(directory)): path.stat().st_mode & 0o777 for path in directory.rglob("*")}
    return {name: oct(mode) for name, mode in modes.items() if mode & 0o077 and not name.endswith(".live")}


@pytest.mark.sqlite_only(FILES)
@pytest.mark.usefixtures("usual_umask")
@pytest.mark.parametrize("kind", [Runtime, SharedRuntime])
def test_every_file_of_a_log_is_its_owners_alone(tmp_path: Path, kind: type[Runtime]) -> None:
    log = tmp_path / "agents.db"
    with kind.open(log, environment=mock(), tools=[look_up], projections=[Heard()]) as runtime:
        live_through(runtime)
        runtime.projections.rebuild("reenact")
        runtime.projections.rebuild("heard")
        names = {path.name for path in tmp_path.rglob("*")}
        found = open_to_others(tmp_path)

    assert {"agents.db", "agents.db-wal", "agents.db.lock", "agents.db.views", "heard.db.2"} <= names
    assert any(name.startswith("agents.db.projections") for name in names)
    assert found == open_to_others(tmp_path) == {}


@pytest.mark.sqlite_only(FILES)
@pytest.mark.usefixtures("usual_umask")
def test_a_log_whose_owner_lets_others_read_it_stays_so(tmp_path: Path) -> None:
    log = tmp_path / "agents.db"
    for _ in range(2):
        with Runtime.open(log, environment=mock(), tools=[look_up]) as runtime:
            runtime.containers.create()
        log.chmod(0o640)

    assert log.stat().st_mode & 0o777 == 0o640


@pytest.mark.usefixtures("usual_umask")
def test_every_file_that_content_leaves_a_log_in_is_its_owners_alone(tmp_path: Path) -> None:
    log = log_at(tmp_path / "agents.db")
    recording = RecordedEnvironment.record(tmp_path / "recording.json", mock())
    with Runtime.open(log, environment=recording, tools=[look_up], synchronous="OFF") as runtime:
        live_through(runtime)
    export_log(log, tmp_path / "log.jsonl")
    with Audit.open(log) as audit:
        audit.checkpoint(tmp_path / "checkpoint.jsonl")
    KeyRing.generate(tmp_path / "ring.keys")

    written = ("recording.json", "log.jsonl", "checkpoint.jsonl", "ring.keys")
    assert all((tmp_path / name).stat().st_size > 0 for name in written)
    assert {name for name in open_to_others(tmp_path) if name in written} == set()
    assert SECRET in (tmp_path / "recording.json").read_text()
    assert SECRET in (tmp_path / "log.jsonl").read_text()
    assert SECRET not in (tmp_path / "checkpoint.jsonl").read_text()


@pytest.mark.sqlite_only(FILES)
def test_files_of_locks_say_which_process_it_is_and_nothing_else(tmp_path: Path) -> None:
    with SharedRuntime.open(tmp_path / "agents.db", environment=mock(), tools=[look_up]) as runtime:
        live_through(runtime)
        shared = (tmp_path / "agents.db.lock").read_bytes(), (tmp_path / "agents.db.sessions").read_bytes()
    with Runtime.open(tmp_path / "agents.db", environment=mock(), tools=[look_up]):
        alone = (tmp_path / "agents.db.lock").read_bytes()

    assert shared == (b"", b"")
    assert alone == str(os.getpid()).encode()


def test_what_is_logged_says_nothing_of_what_was_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "reenact")
    caplog.set_level(logging.DEBUG, "pykka")
    with Runtime.open(
        log_at(tmp_path / "agents.db"), environment=mock(), tools=[look_up], synchronous="OFF"
    ) as runtime:
        live_through(runtime)
        refused: list[Callable[[], object]] = [
            lambda: runtime.agents.receive("nobody", SECRET),
            lambda: runtime.agents.approve("nothing", arguments={"word": SECRET}),
            lambda: runtime.request("message_send_request", {"session_id": "s", "content": SECRET, "request_id": "r1"}),
        ]
        for refuse in refused:
            with pytest.raises(Exception, match=r"."):
                refuse()

    said = [record for record in caplog.records if record.name.startswith(("reenact", "pykka"))]
    assert said != []
    formatter = logging.Formatter()
    assert [text for text in map(formatter.format, said) if SECRET in text] == []


def test_the_numbers_of_a_server_say_nothing_of_what_was_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.INFO, "httpcore2")  # the client's own
    with (
        Runtime.open(log_at(tmp_path / "agents.db"), environment=mock(), tools=[look_up], synchronous="OFF") as runtime,
        Server(runtime) as server,
        httpx2.Client(base_url=server.url) as http,
    ):
        live_through(runtime)
        http.post("/v1/messages", json={"session_id": "s", "content": SECRET})
        http.post(f"/v1/sessions/{SECRET}/run")
        numbers = http.get("/metrics").text

    assert "reenact_http_responses_total" in numbers
    assert SECRET not in numbers
    of_server = [record for record in caplog.records if not record.name.startswith("http")]
    assert [record.getMessage() for record in of_server if SECRET in record.getMessage()] == []


@pytest.mark.parametrize("is_encrypted", [True, False])
def test_a_server_that_logs_its_statements_logs_what_was_said_unless_the_log_is_encrypted(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, *, is_encrypted: bool
) -> None:
    settings = f"{QUICK}log_statement = 'all'\nlog_min_duration_statement = 0\n"
    keys = KeyRing.generate(tmp_path / "ring.keys") if is_encrypted else None
    with running_server(tmp_path_factory.getbasetemp(), settings) as server:
        with Runtime.open(server.new_log(), environment=mock(), tools=[look_up], keys=keys) as runtime:
            live_through(runtime)
        # Bytes are logged in hexadecimal digits.
        logged = {*server.files_with(SECRET.encode()), *server.files_with(SECRET.encode().hex().encode())}

        assert "log" in server.files_with(b"arameters: $1 = ")
        assert ("log" in logged) == (not is_encrypted)


@pytest.mark.sqlite_only(FILES)
def test_a_key_ring_that_others_may_use_is_refused_and_says_what_to_do(tmp_path: Path) -> None:
    ring = KeyRing.generate(tmp_path / "ring.keys")

    for mode in (0o640, 0o604, 0o620, 0o601):
        ring.path.chmod(mode)
        with pytest.raises(ConfigurationError, match=f"chmod 600 {ring.path}"):
            KeyRing.file(ring.path)
    ring.path.chmod(0o400)

    assert isinstance(KeyRing.file(ring.path), type(ring))
