"""A process that is killed while it rebuilds tables leaves what was read as it was, and the next one goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import PIPE

import pytest

from reenact import Image, Runtime
from reenact.projections import Projections
from reenact.projections.generations import Generations
from reenact.projections.log import Log
from reenact.projections.read_model.projection import ReadModelTables, Store
from reenact.projections.views.files import Files
from reenact.testing import MockEnvironmentFactory, wait_until
from tests.projections.histories import ListLog, Recorded
from tests.started.forked import Forked
from tests.views.child import ANOTHER
from tests.views.support import Words, counted, found, say

WORDS = "abcde" * 6


def kill_while_it_rebuilds(*arguments: str, at_line: int) -> int:
    """Run the child, kill it when it has said so many lines, and return how far it said it was."""
    line = ""
    with Forked(["tests.views.child", *arguments], stdin=PIPE, stdout=PIPE) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        for number in range(at_line):
            if number:
                child.stdin.write("\n")
                child.stdin.flush()
            line = child.stdout.readline()
        child.kill()
    assert child.returncode == -9
    return int(line)


class NotingLog(ListLog):
    """A log that notes where it was read from."""

    def __init__(self) -> None:
        super().__init__()
        self.read_after: list[int] = []

    def read_all(self, *, after: int, limit: int) -> Sequence[Recorded]:
        self.read_after.append(after)
        return super().read_all(after=after, limit=limit)


def test_tables_of_a_user_s_own_are_gone_on_with_where_it_was_killed(tmp_path: Path) -> None:
    log = NotingLog()
    say(log, *WORDS)
    directory = tmp_path / "views"
    reached = kill_while_it_rebuilds("own", str(directory), WORDS, at_line=4)
    place = Files(directory)
    begun = place.of("words").progress_of(2).position
    place.close()
    assert 0 < begun == reached < len(WORDS)

    with Projections.open(directory, log, [Words()]) as projections:
        assert found(projections, Words) == (30, counted(log.rows))
        wait_until(lambda: projections._hosted["words"]._place.numbers() == [2])
        assert found(projections, Words) == (30, counted(log.rows))

    # Those with an odd number before them ask whether the event at a position is the one that is meant.
    assert [after for after in log.read_after if after < 29] == [begun - 1, begun]


def test_the_runtime_s_own_tables_are_gone_on_with_where_it_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, tables = write_containers(tmp_path)
    reached = kill_while_it_rebuilds("runtime", str(path), at_line=3)
    assert Generations(tables).current() == tables

    begun = note_beginnings(monkeypatch)
    with Runtime.open(path) as runtime:
        assert len(runtime.containers.list()) == 20
        wait_until(lambda: Generations(tables).numbers() == [2])
        assert len(runtime.containers.list()) == 20
        assert runtime.projections.status()[0].lag == 0

    assert 0 < begun[1] == reached < 21


def test_tables_of_another_version_are_gone_on_with_where_it_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, tables = write_containers(tmp_path)
    reached = kill_while_it_rebuilds("version", str(path), at_line=2)
    assert Generations(tables).current() == tables

    monkeypatch.setattr("reenact.projections.read_model.compiled.VERSION", ANOTHER)
    begun = note_beginnings(monkeypatch)
    with Runtime.open(path) as runtime:
        assert len(runtime.containers.list()) == 20
        assert Generations(tables).numbers() == [2]

    assert 0 < begun[0] == reached < 21


def write_containers(directory: Path) -> tuple[Path, Path]:
    """Write a log, and return where it is, and where its tables are."""
    path = directory / "agents.db"
    with Runtime.open(path, environment=MockEnvironmentFactory(delays=False), synchronous="OFF") as runtime:
        runtime.images.register(Image(id="chat"))
        for number in range(20):
            runtime.containers.create(container_id=f"c{number:02d}")
    return path, Path(f"{path}.projections")


def note_beginnings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of where tables are when they are opened from now on."""
    begun: list[int] = []
    begin = ReadModelTables.__init__

    def note(tables: ReadModelTables, log: Log, store: Store, switch_to: Callable[[Store], object]) -> None:
        begin(tables, log, store, switch_to)
        begun.append(tables.position)

    monkeypatch.setattr(ReadModelTables, "__init__", note)
    return begun
