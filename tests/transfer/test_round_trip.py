"""What was exported and imported is what it was, for any history."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact import Runtime
from reenact._runtime import codec
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.journal.stored import StoredJournal
from reenact.actors.journal.verify import verify
from reenact.audit import Redaction, export_log, import_log, open_export
from reenact.domain.chain import DataKey, Timer
from reenact.domain.chain import Row as LogRow
from reenact.domain.errors import LogUnusableError, StorageFullError
from reenact.projections.log import AuditedLog, Progress, Row
from reenact.testing import MockEnvironmentFactory
from tests.examples import examples
from tests.journal.server import Server
from tests.logs import log_at
from tests.projections.histories import Step, play, steps
from tests.transfer.logs import compact, contents, write


@contextmanager
def folder() -> Generator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


@settings(max_examples=examples(20))
@given(chosen=steps, merged=st.lists(st.integers(0, 12), max_size=3))
def test_an_import_exported_again_is_the_same_export(chosen: list[Step], merged: list[int]) -> None:
    with folder() as there:
        write(play(chosen).log, there / "one.db", deltas=["He", "llo"])
        compact(there / "one.db", merged)

        export_log(there / "one.db", there / "one.jsonl")
        imported = import_log(there / "one.jsonl", there / "two.db", synchronous="OFF")
        export_log(there / "two.db", there / "two.jsonl")

        assert contents(there / "two.jsonl") == contents(there / "one.jsonl")
        assert imported.events == imported.position
        assert verify(there / "two.db") == []


@settings(max_examples=examples(20))
@given(chosen=steps)
def test_an_export_that_is_opened_is_the_log_that_it_is_of(chosen: list[Step]) -> None:
    with folder() as there:
        write(play(chosen).log, there / "one.db")
        export_log(there / "one.db", there / "one.jsonl")

        opened = open_export(there / "one.jsonl")

        with SqliteJournal.open(there / "one.db", codec(), read_only=True) as journal:
            events = journal.read_all(limit=100_000)
            assert opened.head() == journal.head()
            for event, held in zip(events, opened.read_all(limit=100_000), strict=True):
                assert (held.stream, held.version, held.position) == (event.stream, event.version, event.position)
                assert (held.recorded_at, held.event) == (event.recorded_at, event.event)
            for stream in {event.stream for event in events}:
                assert [e.version for e in opened.read(stream, after=2)] == [
                    e.version for e in journal.read(stream, after=2)
                ]


def test_an_opened_export_finds_what_the_log_finds(tmp_path: Path) -> None:
    world = play([])
    world.say("a", "more")
    write(world.log, tmp_path / "one.db")
    export_log(tmp_path / "one.db", tmp_path / "one.jsonl")
    opened = open_export(tmp_path / "one.jsonl")

    with SqliteJournal.open(tmp_path / "one.db", codec(), read_only=True) as journal:
        since = world.log.first + 3000
        questions: list[Callable[[AuditedLog], Sequence[Row]]] = [
            lambda log: log.find(stream="session/a"),
            lambda log: log.find(stream="session/a", after_version=1, until_version=3),
            lambda log: log.find(names=["message-accepted"]),
            lambda log: log.find(after=2, until=4),
            lambda log: log.find(backwards=True, limit=2),
            lambda log: log.find(since=since),
            lambda log: log.find(before=since),
            lambda log: log.find(stream="nobody"),
        ]
        for number, find in enumerate(questions):
            assert [row.position for row in find(opened)] == [row.position for row in find(journal)], number
    assert list(opened.streams()) == ["session/a", "session/b"]


@pytest.fixture
def one(tmp_path: Path) -> Path:
    """A log with two sessions, and its export beside it."""
    world = play([])
    for number in range(6):
        world.say("a", f"question {number}")
    write(world.log, tmp_path / "one.db", deltas=["x"])
    export_log(tmp_path / "one.db", tmp_path / "one.jsonl")
    return tmp_path


@pytest.mark.parametrize("done", [0, 1, 2, 3])
def test_an_import_that_was_cut_short_goes_on_when_it_is_done_again(
    one: Path, done: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_rows = StoredJournal.import_rows
    calls: list[int] = []

    def fail_at_last(
        journal: StoredJournal,
        *,
        rows: Sequence[LogRow] = (),
        timers: Sequence[Timer] = (),
        keys: Sequence[DataKey] = (),
        more: bool = False,
    ) -> int:
        if len(calls) == done:
            raise StorageFullError("no space is left")
        calls.append(1)
        return import_rows(journal, rows=rows, timers=timers, keys=keys, more=more)

    monkeypatch.setattr("reenact._transfer.MOST_RECORDS", 4)
    with monkeypatch.context() as patch:
        patch.setattr(StoredJournal, "import_rows", fail_at_last)
        with pytest.raises(StorageFullError):
            import_log(one / "one.jsonl", one / "two.db")
    found = [finding.problem for finding in verify(one / "two.db")]
    assert found == (["an import was cut short; import the same export again, and it goes on"] if done else [])
    if done:
        with pytest.raises(LogUnusableError, match="import the same export again"):
            Runtime.open(log_at(one / "two.db"), environment=MockEnvironmentFactory())

    imported = import_log(one / "one.jsonl", one / "two.db")

    assert imported.rows_there == 4 * done
    assert verify(one / "two.db") == []
    export_log(one / "two.db", one / "two.jsonl")
    assert contents(one / "two.jsonl") == contents(one / "one.jsonl")


def test_an_import_that_was_cut_short_is_finished_by_no_export_that_lacks_what_it_has_brought(
    one: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(told: Progress) -> None:
        if told.phase == "writing" and told.done >= 12:
            raise KeyboardInterrupt

    log = log_at(one / "two.db")
    with monkeypatch.context() as patch:
        patch.setattr("reenact._transfer.MOST_RECORDS", 4)
        with pytest.raises(KeyboardInterrupt):
            import_log(one / "one.jsonl", log, progress=cut)
    write(play([]).log, one / "shorter.db", deltas=["x"])
    export_log(one / "shorter.db", one / "shorter.jsonl")
    export_log(one / "one.db", one / "b.jsonl", sessions=["b"])

    for other in ("b.jsonl", "shorter.jsonl"):
        with pytest.raises(LogUnusableError, match="does not go on with 'session/a'; import the same export again"):
            import_log(one / other, log)
        assert [finding.kind for finding in verify(log)] == ["log"]

    export_log(one / "one.db", one / "again.jsonl")
    import_log(one / "again.jsonl", log)
    assert verify(log) == []


def test_a_log_goes_through_a_database_and_back(one: Path, server: Server) -> None:
    url = server.new_log()

    first = import_log(one / "one.jsonl", url)
    again = import_log(one / "one.jsonl", url)
    exported = export_log(url, one / "two.jsonl", redaction=Redaction(values=("question 2",)))
    import_log(one / "two.jsonl", one / "two.db")

    assert (first.events, again.events) == (exported.events, 0)
    assert exported.redacted > 0
    assert "question 2" not in (one / "two.jsonl").read_text("utf-8")
    assert verify(url) == verify(one / "two.db") == []
    assert import_log(one / "two.jsonl", url).events == 0


def test_what_is_there_already_is_left_out(one: Path) -> None:
    first = import_log(one / "one.jsonl", one / "two.db")
    before = (one / "two.db").read_bytes()

    again = import_log(one / "one.jsonl", one / "two.db")

    assert (again.events, again.rows) == (0, 0)
    assert (again.events_there, again.rows_there) == (first.events, first.rows)
    assert len((one / "two.db").read_bytes()) == len(before)


def test_a_log_that_has_gone_on_takes_an_older_export_of_it_for_known(one: Path) -> None:
    imported = import_log(one / "one.jsonl", one / "one.db")

    assert imported.events == 0
    world = play([])
    for number in range(9):
        world.say("a", f"question {number}")
    write(world.log, one / "longer.db", deltas=["x"])
    assert import_log(one / "one.jsonl", one / "longer.db").events == 0
    export_log(one / "longer.db", one / "longer.jsonl")
    assert import_log(one / "longer.jsonl", one / "one.db").events == 3


def test_progress_is_told_to_the_end(one: Path) -> None:
    told: list[tuple[str, int, int | None]] = []

    exported = export_log(
        one / "one.db", one / "two.jsonl", progress=lambda each: told.append((each.phase, each.done, each.total))
    )
    import_log(
        one / "two.jsonl", one / "two.db", progress=lambda each: told.append((each.phase, each.done, each.total))
    )

    total = exported.rows
    assert told == [("rows", total, total), ("reading", total, total), ("writing", total, total)]


def test_an_export_may_go_to_a_pipe_that_is_named_as_a_shell_names_it(tmp_path: Path) -> None:
    write(play([]).log, tmp_path / "one.db")
    export_log(tmp_path / "one.db", tmp_path / "one.jsonl")
    reading, writing = os.pipe()

    export_log(tmp_path / "one.db", f"/dev/fd/{writing}")
    os.close(writing)

    with open(reading, "rb") as pipe:  # noqa: PTH123 - a descriptor has no path
        assert len(pipe.readlines()) == len((tmp_path / "one.jsonl").read_bytes().splitlines())
