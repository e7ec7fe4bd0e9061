"""Bad input: a typed error each time, and nothing lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reenact import (
    AgentNotFoundError,
    ContainerNotFoundError,
    Image,
    ImageNotFoundError,
    InvalidInputError,
    InvalidMessageError,
    LogTooNewError,
    LogUnusableError,
    NotFoundError,
    ReenactError,
    Runtime,
    SessionNotFoundError,
    UnknownCommandError,
    UnknownScenarioError,
)
from reenact.actors.journal.verify import verify
from reenact.testing import MockEnvironmentFactory
from tests.logs import drop_tables, execute
from tests.runtime.conftest import Open
from tests.runtime.witness import Ears, check

UNKNOWN = ["", "nobody", "\ud800", "a\0b", "x" * 100_000]


@pytest.mark.parametrize("id_", UNKNOWN, ids=lambda id_: repr(id_)[:10])
def test_unknown_ids_are_not_found(runtime: Runtime, agent: str, id_: str) -> None:
    refusals: list[tuple[type[NotFoundError], Callable[[], object]]] = [
        (ContainerNotFoundError, lambda: runtime.sessions.create(id_, "i")),
        (ContainerNotFoundError, lambda: runtime.sessions.list_by_container(id_)),
        (ImageNotFoundError, lambda: runtime.sessions.create("c", id_)),
        (SessionNotFoundError, lambda: runtime.sessions.run(id_)),
        (SessionNotFoundError, lambda: runtime.sessions.messages(id_)),
        (AgentNotFoundError, lambda: runtime.agents.receive(id_, "Hello")),
    ]

    for error, call in refusals:
        with pytest.raises(error) as refusal:
            call()
        assert refusal.value.id == id_

    assert runtime.containers.get(id_) is None
    assert runtime.images.get(id_) is None
    assert runtime.sessions.get(id_) is None
    assert runtime.agents.get(id_) is None
    assert runtime.sessions.delete(id_) is False
    runtime.agents.interrupt(id_)
    runtime.agents.destroy(id_)
    check(runtime)


@pytest.mark.parametrize(
    "message",
    ["", " \n", "x" * 50_000_000, "a\ud800b", b"bytes", None],
    ids=["empty", "blank", "50 MB", "surrogate", "bytes", "none"],
)
def test_an_invalid_message_is_refused_and_nothing_is_recorded(runtime: Runtime, agent: str, message: str) -> None:
    with pytest.raises(InvalidMessageError):
        runtime.agents.receive(agent, message)
    with pytest.raises(InvalidInputError):
        runtime.request("message_send_request", {"agent_id": agent, "content": message})

    assert runtime.sessions.messages("s") == []
    assert check(runtime)["s"].turns == {}


def test_the_largest_message_is_answered(runtime: Runtime, agent: str) -> None:
    ears = Ears(runtime)
    question = "x" * (10 * 1024 * 1024)

    runtime.agents.receive(agent, question)

    ears.wait("turn_completed")
    assert [message.text for message in runtime.sessions.messages("s")] == [question, "Hello from mock!"]


@pytest.mark.parametrize("text", ["", " ", "\ud800", "a\0b", "x" * 1025], ids=lambda text: repr(text)[:10])
def test_an_unusable_id_or_name_is_refused(runtime: Runtime, text: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: runtime.containers.create(text),
        lambda: runtime.containers.create(container_id=text),
        lambda: runtime.images.register(Image(id=text)),
        lambda: runtime.images.register(Image(name=text)),
        lambda: runtime.sessions.create("c", "i", session_id=text),
        lambda: runtime.request("container_create_request", {"name": text}),
    ]

    for call in calls:
        with pytest.raises(InvalidInputError):
            call()

    assert len(runtime.containers.list()) == len(runtime.images.list()) == 1
    assert runtime.sessions.list_by_container("c") == []


@pytest.mark.parametrize(
    "data", [{}, {"container_id": 7}, {"container_id": "c", "colour": "red"}, {"container_id": None}, {1: 2}]
)
def test_a_request_that_does_not_fit_is_refused(runtime: Runtime, data: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        runtime.request("container_get_request", data)


def test_an_unknown_request_is_refused(runtime: Runtime) -> None:
    with pytest.raises(UnknownCommandError):
        runtime.request("container_get_response", {})


def test_an_unknown_scenario_is_refused_with_those_that_are_known() -> None:
    mock = MockEnvironmentFactory()

    with pytest.raises(UnknownScenarioError) as refusal:
        mock.set_scenario("nonsense")
    with pytest.raises(UnknownScenarioError):
        MockEnvironmentFactory("nonsense")

    assert (refusal.value.name, "default" in refusal.value.known) == ("nonsense", True)


# Files that are not logs, or no longer.


@pytest.fixture
def told(opened: Open, log: str) -> str:
    """A log with two containers and one answered message, which is closed."""
    runtime = opened()
    runtime.containers.create(container_id="c")
    runtime.images.register(Image(id="i", system_prompt="x" * 50_000))
    runtime.sessions.create("c", "i", session_id="s")
    ears = Ears(runtime)
    runtime.agents.receive(runtime.sessions.run("s"), "Hello")
    ears.wait("turn_completed")
    runtime.close()
    return log


@pytest.mark.parametrize("content", [b"not a database\n", b"\0" * 4096, b"SQLite format 3\0", b"S"])
@pytest.mark.sqlite_only("bytes of the file")
def test_a_file_that_is_no_database_is_left_as_it_is(log: str, opened: Open, content: bytes) -> None:
    path = Path(log)
    path.write_bytes(content)

    with pytest.raises(LogUnusableError):
        opened()

    assert path.read_bytes() == content


@pytest.mark.sqlite_only("bytes of the file")
def test_the_database_of_something_else_is_left_as_it_is(log: str, opened: Open) -> None:
    execute(log, "CREATE TABLE theirs (x)")
    content = Path(log).read_bytes()

    with pytest.raises(LogUnusableError):
        opened()

    assert Path(log).read_bytes() == content


@pytest.mark.sqlite_only("a file's place")
def test_a_directory_is_no_log(tmp_path: Path, opened: Open) -> None:
    with pytest.raises(LogUnusableError):
        opened(str(tmp_path))


@pytest.mark.sqlite_only("a file's place")
def test_a_directory_that_is_not_there_is_no_place_for_a_log(tmp_path: Path, opened: Open) -> None:
    with pytest.raises(LogUnusableError):
        opened(str(tmp_path / "nowhere" / "agents.db"))


@pytest.mark.sqlite_only("bytes of the file")
@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
def test_a_truncated_log_is_refused(told: str, opened: Open, part: float) -> None:
    content = Path(told).read_bytes()
    Path(told).write_bytes(content[: int(len(content) * part)])

    with pytest.raises(LogUnusableError):
        opened()


@pytest.mark.sqlite_only("bytes of the file")
@pytest.mark.usefixtures("decided_otherwise")
def test_a_log_with_a_corrupt_page_is_refused_or_found_out(told: str, opened: Open, tmp_path: Path) -> None:
    content = Path(told).read_bytes()
    pages = len(content) // 4096
    for page in range(1, pages):
        corrupt = tmp_path / f"{page}" / "agents.db"
        corrupt.parent.mkdir()
        corrupt.write_bytes(content[: page * 4096] + b"\xff" * 4096 + content[(page + 1) * 4096 :])

        try:
            runtime = opened(str(corrupt))
            said = [message.text for message in runtime.sessions.messages("s")]
            runtime.close()
            found = verify(corrupt)
        except ReenactError:
            continue
        assert found or said == ["Hello", "Hello from mock!"], f"page {page} of {pages} is gone and nobody noticed"


@pytest.mark.sqlite_only("bytes of the file")
def test_the_projections_of_a_damaged_file_are_made_anew(told: str, opened: Open) -> None:
    Path(f"{told}.projections").write_bytes(b"\xff" * 5000)

    runtime = opened()

    assert [message.text for message in runtime.sessions.messages("s")] == ["Hello", "Hello from mock!"]
    check(runtime)


def test_a_log_without_its_projections_makes_them_anew(told: str, opened: Open) -> None:
    drop_tables(told)

    assert len(opened().sessions.messages("s")) == 2


@pytest.mark.sqlite_only("files that are exchanged")
def test_the_projections_of_another_log_are_not_believed(told: str, opened: Open, tmp_path: Path) -> None:
    other = str(tmp_path / "other.db")
    runtime = opened(other)
    for number in range(20):
        runtime.containers.create(container_id=f"other-{number}")
    runtime.containers.list()
    runtime.close()
    shutil.copy(f"{other}.projections", f"{told}.projections")

    runtime = opened()

    assert [container.id for container in runtime.containers.list()] == ["c"]
    check(runtime)


@pytest.mark.sqlite_only("a number in the file")
def test_a_log_of_a_newer_version_is_refused_and_left_as_it_is(told: str, opened: Open) -> None:
    ((version,),) = execute(told, "PRAGMA user_version")
    execute(told, "PRAGMA user_version = 99")

    with pytest.raises(LogTooNewError):
        opened()

    execute(told, f"PRAGMA user_version = {version}")
    assert len(opened().sessions.messages("s")) == 2


@pytest.mark.usefixtures("decided_otherwise")
def test_an_event_of_a_newer_version_is_refused(told: str, opened: Open) -> None:
    rows = execute(told, "SELECT number, events FROM steps WHERE events IS NOT NULL")
    ((number, events),) = [row for row in rows if b"turn-started:1" in row[1]]
    newer = events.replace(b"turn-started:1", b"turn-started:9")
    execute(told, "UPDATE steps SET events = ? WHERE number = ?", newer, number)
    drop_tables(told)

    with pytest.raises(ReenactError):
        opened().sessions.run("s")


@pytest.mark.usefixtures("decided_otherwise")
def test_a_changed_record_is_found(told: str) -> None:
    execute(told, "UPDATE steps SET events = events || ? WHERE stream = 'session/s'", b"\0")

    assert verify(told) != []
