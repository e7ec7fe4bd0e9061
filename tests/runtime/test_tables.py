"""The tables of a log are read beside the processes that write it, whatever becomes of these."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reenact import Image
from reenact._runtime import SharedRuntime
from reenact.audit import export_log, import_log
from reenact.projections.read_model.reader_tables import ReaderTables
from reenact.testing import CrashTest, MockEnvironmentFactory, wait_until
from tests.logs import log_at
from tests.projections.opened import reader_tables_of
from tests.runtime.test_sharing import ask, hold
from tests.runtime.witness import PATIENCE


def outcomes(tables: ReaderTables) -> list[object]:
    return [outcome for (outcome,) in tables.query("SELECT outcome FROM turns ORDER BY position")]


def furnish(log: str) -> None:
    with SharedRuntime.open(log, environment=MockEnvironmentFactory(delays=False)) as runtime:
        runtime.containers.create(container_id="c")
        runtime.images.register(Image(id="i"))
        runtime.sessions.create("c", "i", session_id="theirs")
        ask(runtime, "theirs")
        runtime.agents.destroy(runtime.agents.list()[0].id)


def test_tables_are_read_while_another_process_writes_and_after_it_was_killed(log: str) -> None:
    furnish(log)
    with reader_tables_of(log) as tables, CrashTest() as other:
        before = outcomes(tables), tables.lag()

        def meanwhile(said: Sequence[list[Any]]) -> bool:
            tables.refresh()
            wait_until(lambda: outcomes(tables) == ["completed", None], PATIENCE)
            assert not tables.is_private
            return bool(said)

        other.run_until_killed(hold, log, until=meanwhile)
        tables.refresh()
        after = outcomes(tables)
        with SharedRuntime.open(log, environment=MockEnvironmentFactory(delays=False)) as runtime:
            wait_until(lambda: not runtime.agents.list(), PATIENCE)
            ask(runtime, "theirs")
        tables.refresh()

        assert before == (["completed"], 0)
        assert after == ["completed", None]
        assert outcomes(tables) == ["completed", "interrupted", "completed"]
        assert tables.lag() == 0


def test_an_imported_log_has_no_tables_yet_and_is_read_all_the_same(log: str, tmp_path: Path) -> None:
    furnish(log)
    imported = log_at(tmp_path / "imported.db")
    export_log(log, tmp_path / "log.jsonl")
    import_log(tmp_path / "log.jsonl", imported)

    with reader_tables_of(imported) as tables:
        assert tables.is_private
        assert (outcomes(tables), tables.lag()) == (["completed"], 0)
