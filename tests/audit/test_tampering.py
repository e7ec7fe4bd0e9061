"""Whatever is done to a log, it is found, and named."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.audit import verify_log
from tests.audit.conftest import copied
from tests.audit.tampering import (
    Cells,
    Tampering,
    change_a_cell,
    duplicate_a_row,
    exchange_two_rows,
    remove_a_row,
    rows_of,
    tampered,
)


def test_a_log_that_nobody_touched_is_whole(log: Path) -> None:
    verdict = verify_log(log)

    assert verdict.findings == ()
    assert verdict.meaning == "sessions"
    assert verdict.read_model == "agrees"


@pytest.mark.parametrize("table", ["stored_events", "feed", "requests", "sqlite_sequence"])
@given(data=st.data())
@settings(max_examples=30)
def test_a_cell_that_was_changed_is_found(log: Path, checkpoint: Path, table: str, data: st.DataObject) -> None:
    found_and_named(log, checkpoint, change_a_cell, table, data)


@pytest.mark.parametrize("table", ["stored_events", "feed", "sqlite_sequence"])
@given(data=st.data())
@settings(max_examples=15)
def test_a_row_that_was_removed_is_found(log: Path, checkpoint: Path, table: str, data: st.DataObject) -> None:
    found_and_named(log, checkpoint, remove_a_row, table, data)


@pytest.mark.parametrize("table", ["stored_events", "feed", "requests"])
@given(data=st.data())
@settings(max_examples=30)
def test_cells_that_two_rows_have_exchanged_are_found(
    log: Path, checkpoint: Path, table: str, data: st.DataObject
) -> None:
    found_and_named(log, checkpoint, exchange_two_rows, table, data)


@pytest.mark.parametrize("table", ["stored_events", "feed", "requests"])
@given(data=st.data())
@settings(max_examples=15)
def test_a_row_that_is_there_twice_is_found(log: Path, checkpoint: Path, table: str, data: st.DataObject) -> None:
    found_and_named(log, checkpoint, duplicate_a_row, table, data)


def found_and_named(log: Path, checkpoint: Path, tampering: Tampering, table: str, data: st.DataObject) -> None:
    with copied(log) as copy:
        before = dump(copy, table)
        names = tampered(copy, tampering, data, table)
        findings = verify_log(copy).findings
        if not findings:  # that takes somebody who remembers where records stood, and nothing else may
            assert table == "stored_events"
            assert without_positions(dump(copy, table)) == without_positions(before)
            findings = verify_log(copy, checkpoint=checkpoint).findings

    assert any(finding.kind in ("log", "file") or finding.name in names for finding in findings), (names, findings)


def dump(log: Path, table: str) -> list[Cells]:
    with closing(sqlite3.connect(log)) as connection:
        return rows_of(connection, table)


def without_positions(rows: list[Cells]) -> list[tuple[object, ...]]:
    return sorted((tuple(cell for name, cell in row.items() if name != "rowid") for row in rows), key=repr)
