"""The tables that follow the log, on the command line: how they are, and making them anew."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from reenact import Image, Runtime
from reenact.cli.output.failures import ExitCode
from reenact.projections import Projection
from reenact.projections.errors import ProjectionFailedError
from reenact.testing import MockEnvironmentFactory
from tests.cli.conftest import Run

pytestmark = pytest.mark.sqlite_only("files, by their paths")

VIEWS = '''
from sqlalchemy import Column, Integer, MetaData, Table, Text, insert

from reenact.projections import Projection, on
from reenact.projections.events import ContainerCreated


class Containers(Projection):
    """The containers, in the order in which they were made."""

    name = "containers"
    tables = MetaData()
    containers = Table("containers", tables, Column("id", Text), Column("position", Integer, primary_key=True))

    @on(ContainerCreated)
    def add(self, write, event, row):
        if event.container_id in self.shunned():
            raise ValueError("not this one")
        write.execute(insert(self.containers).values(id=event.container_id, position=row.position))

    def shunned(self):
        return ()


class Shunning(Containers):
    """Those that it likes."""

    name = "shunning"

    def __init__(self, *shunned):
        self._shunned = shunned

    def shunned(self):
        return self._shunned


shunning = Shunning("c1")
'''


@pytest.fixture
def views(tmp_path: Path) -> Path:
    path = tmp_path / "views.py"
    path.write_text(VIEWS, encoding="utf-8")
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "agents.db"
    with Runtime.open(path, environment=MockEnvironmentFactory(), synchronous="OFF") as runtime:
        for number in range(3):
            runtime.containers.create(container_id=f"c{number}")
    return path


@pytest.fixture
def being_written(log: Path) -> Iterator[Runtime]:
    with Runtime.open(log, environment=MockEnvironmentFactory(), synchronous="OFF") as runtime:
        yield runtime


def test_the_tables_are_listed_with_their_lag(run: Run, log: Path) -> None:
    listed = run("projections", "--db", str(log))
    as_json = run("projections", "--db", str(log), "--output-format", "json").result

    assert (listed.code, listed.err) == (0, "")
    assert listed.out == f"reenact  version {as_json['version']}  position 3  lag 0  closed\n"
    assert (as_json["name"], as_json["health"], as_json["failure"], as_json["rebuild"]) == (
        "reenact",
        "closed",
        None,
        None,
    )


def test_they_are_listed_beside_whoever_writes(run: Run, log: Path, being_written: Runtime) -> None:
    being_written.images.register(Image(id="i"))
    being_written.images.get("i")

    status = run("projections", "--db", str(log), "--output-format", "json").result

    assert (status["position"], status["lag"], status["health"]) == (4, 0, "running")


def test_the_runtime_s_own_tables_are_made_anew(run: Run, log: Path) -> None:
    rebuilt = run("rebuild", "--db", str(log), "--output-format", "json")

    assert (rebuilt.code, rebuilt.err) == (0, "")
    assert (rebuilt.result["name"], rebuilt.result["position"]) == ("reenact", 3)
    assert Path(f"{log}.projections.2").exists()
    assert not Path(f"{log}.projections").exists()


def test_one_s_own_tables_are_made_and_made_anew(run: Run, log: Path, views: Path) -> None:
    for _ in range(2):
        rebuilt = run("rebuild", "containers", "--projections", str(views), "--db", str(log))
        assert (rebuilt.code, rebuilt.err) == (0, "")

    listed = run("projections", "--db", str(log)).out.splitlines()
    assert listed[1] == "containers  version 1  position 3  lag 0  closed"
    with closing(sqlite3.connect(f"{log}.views/containers.db.3")) as connection, connection:
        assert connection.execute("SELECT id FROM containers").fetchall() == [("c0",), ("c1",), ("c2",)]
    connection.close()


def test_one_that_cannot_go_on_is_named_with_its_event(run: Run, log: Path, views: Path) -> None:
    module: dict[str, object] = {}
    exec(compile(VIEWS, "views.py", "exec"), module)  # noqa: S102 - the text above
    projection = module["shunning"]
    assert isinstance(projection, Projection)
    with (
        Runtime.open(log, synchronous="OFF", projections=[projection]) as runtime,
        pytest.raises(ProjectionFailedError),
    ):
        runtime.projections.wait_for(timeout=60)

    listed = run("projections", "--db", str(log))
    status = run("projections", "--db", str(log), "--output-format", "json").objects[1]
    failed = run("rebuild", "shunning", "--projections", f"{views}:shunning", "--db", str(log))

    assert listed.code == 1
    assert "shunning  version 1  position 1  lag 2  stopped  ContainerCreated at 2 (container/c1): " in listed.out
    assert (status["failure"]["position"], status["failure"]["reason"]) == (2, "ValueError: not this one")
    assert failed.code == ExitCode.UNEXPECTED
    assert "the ContainerCreated at position 2" in failed.err


def test_a_rebuilding_that_was_cut_short_is_seen(run: Run, log: Path, being_written: Runtime) -> None:
    def stop(_: object) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        being_written.projections.rebuild(progress=stop)

    listed = run("projections", "--db", str(log))
    assert "running  new tables at 0 of 3\n" in listed.out


def test_what_another_program_has_open_is_for_that_to_rebuild(
    run: Run, log: Path, views: Path, being_written: Runtime
) -> None:
    own = run("rebuild", "--db", str(log))
    named = run("rebuild", "containers", "--projections", str(views), "--db", str(log))

    assert (own.code, named.code) == (2, 2)
    assert "is being written by" in own.err
    assert "or have it do this itself, by runtime.projections.rebuild()" in own.err
    assert "runtime.projections.rebuild('containers')" in named.err


def test_a_log_that_does_not_exist_is_not_begun(run: Run, tmp_path: Path) -> None:
    missing = run("rebuild", "--db", str(tmp_path / "none.db"))

    assert missing.code == 2
    assert "there is no log at" in missing.err
    assert list(tmp_path.glob("none*")) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("containers",), "say where the class of the projection 'containers' is: --projections FILE.py"),
        (("others", "--projections", "{views}"), "projection 'others' does not exist"),
        (("others", "--projections", "{views}:Nothing"), "has no 'Nothing'"),
        (("others", "--projections", "nowhere.py"), "--projections nowhere.py: "),
    ],
)
def test_a_projection_that_cannot_be_found_is_told(
    run: Run, log: Path, views: Path, arguments: tuple[str, ...], words: str
) -> None:
    given = [one.replace("{views}", str(views)) for one in arguments]

    told = run("rebuild", *given, "--db", str(log))

    assert told.code == 2
    assert words in told.err


def test_tables_that_cannot_be_read_are_told_and_made_anew_by_whoever_writes(run: Run, log: Path) -> None:
    Path(f"{log}.projections").write_bytes(b"These are not tables. " * 500)

    told = run("projections", "--db", str(log))
    rebuilt = run("rebuild", "--db", str(log))

    assert told.code == ExitCode.UNEXPECTED
    assert "the tables of 'reenact' cannot be read" in told.err
    assert rebuilt.code == 0
