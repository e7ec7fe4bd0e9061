"""Whatever is done to a log, it is found, and named."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact import Runtime
from reenact.audit import Audit, Finding, verify_log
from reenact.domain.errors import LogTooNewError, LogUnusableError
from reenact.domain.session.state import SNAPSHOT_VERSION
from reenact.projections.log import Progress
from tests.examples import examples
from tests.verification.conftest import copied
from tests.verification.forging import rewrite, say_otherwise
from tests.verification.tampering import (
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


@pytest.mark.parametrize("table", ["steps", "requests"])
@given(data=st.data())
@settings(max_examples=examples(30))
def test_a_cell_that_was_changed_is_found(log: Path, checkpoint: Path, table: str, data: st.DataObject) -> None:
    found_and_named(log, checkpoint, change_a_cell, table, data)


@given(data=st.data())
@settings(max_examples=examples(30))
def test_a_row_that_was_removed_is_found(log: Path, checkpoint: Path, data: st.DataObject) -> None:
    found_and_named(log, checkpoint, remove_a_row, "steps", data)


@pytest.mark.parametrize("table", ["steps", "requests"])
@given(data=st.data())
@settings(max_examples=examples(30))
def test_cells_that_two_rows_have_exchanged_are_found(
    log: Path, checkpoint: Path, table: str, data: st.DataObject
) -> None:
    found_and_named(log, checkpoint, exchange_two_rows, table, data)


@pytest.mark.parametrize("table", ["steps", "requests"])
@given(data=st.data())
@settings(max_examples=examples(15))
def test_a_row_that_is_there_twice_is_found(log: Path, checkpoint: Path, table: str, data: st.DataObject) -> None:
    found_and_named(log, checkpoint, duplicate_a_row, table, data)


def found_and_named(log: Path, checkpoint: Path, tampering: Tampering, table: str, data: st.DataObject) -> None:
    with copied(log) as copy:
        before = dump(copy, table)
        names = tampered(copy, tampering, data, table)
        findings = verify_log(copy).findings
        if not findings:  # that takes somebody who remembers where rows stood, and nothing else may
            assert table == "steps"
            assert without(("number", "position"), dump(copy, table)) == without(("number", "position"), before)
            findings = verify_log(copy, checkpoint=checkpoint).findings
            if not findings:  # the rows of each stream come in the same order, and say the same
                assert without(("number",), dump(copy, table)) == without(("number",), before)
                return

    named = any(finding.kind in ("log", "file") or finding.name in names for finding in findings)
    assert named or is_cut_off(before, names, findings), (names, findings)


def is_cut_off(before: list[Cells], names: set[str], findings: tuple[Finding, ...]) -> bool:
    """Return whether the last row of the log is gone, of which the read model knows."""
    return before[-1]["stream"] in names and any(finding.kind == "read model" for finding in findings)


def dump(log: Path, table: str) -> list[Cells]:
    with closing(sqlite3.connect(log)) as connection:
        return rows_of(connection, table)


def without(columns: tuple[str, ...], rows: list[Cells]) -> list[tuple[object, ...]]:
    return sorted((tuple(cell for name, cell in row.items() if name not in columns) for row in rows), key=repr)


PUT_IN = {
    "timers": "INSERT INTO timers VALUES ('session/a', 17)",
    "timers of nobody": "INSERT INTO timers VALUES ('session/q', 17)",
    "snapshots": f"INSERT INTO stored_snapshots VALUES ('session/a', 2, 'session:{SNAPSHOT_VERSION}', x'80')",  # noqa: S608 - ours
    "snapshots of nobody": f"INSERT INTO stored_snapshots VALUES ('session/q', 2, 'session:{SNAPSHOT_VERSION}', x'80')",  # noqa: S608 - ours
    "readers": "INSERT INTO tracking VALUES ('reader', -1)",
    "consumers": "UPDATE consumers SET cursor = 1000 WHERE topic = 'session/a'",
    "consumers of nobody": "INSERT INTO consumers VALUES ('session/q', 'me', 1, 1)",
    "malformed consumers": "UPDATE consumers SET seen_at = 'now' WHERE topic = 'session/a'",
    "requests": "INSERT INTO requests VALUES ('r3', x'00', x'80', 17, x'00')",
    "rows of nobody": """
        INSERT INTO steps (number, stream, recorded_at, version, position, count, cursor, heard, digest, feed)
        SELECT 1000, 'session/q', 0, 0, max(position + count), 0, 1, 1, x'00', x'90' FROM steps
    """,
}


@pytest.mark.parametrize("what", PUT_IN)
def test_what_was_put_in_is_found(log: Path, what: str) -> None:
    with copied(log) as copy:
        with closing(sqlite3.connect(copy)) as connection, connection:
            assert connection.execute(PUT_IN[what]).rowcount == 1

        findings = verify_log(copy).findings

    assert len(findings) == 1
    assert findings[0].name.split("/")[:2] in (["session", "a"], ["session", "q"], ["reader"], ["r3"])


@pytest.mark.parametrize("table", ["agents", "calls", "containers", "images", "messages", "revisions", "sessions"])
@given(data=st.data())
@settings(max_examples=10)
def test_whatever_is_changed_in_the_read_model_is_found(log: Path, table: str, data: st.DataObject) -> None:
    with copied(log) as copy:
        change_any(Path(f"{copy}.projections"), table, data)

        verdict = verify_log(copy)

    assert [finding.name for finding in verdict.findings if finding.kind == "read model"] == [table]
    assert verdict.read_model == "differs"


def change_any(tables: Path, table: str, data: st.DataObject) -> None:
    with closing(sqlite3.connect(tables)) as connection, connection:
        columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
        count = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608 - ours
        key = connection.execute(
            f"SELECT * FROM {table} LIMIT 1 OFFSET ?",  # noqa: S608 - ours
            (data.draw(st.integers(0, count - 1), label="row"),),
        ).fetchone()
        where = " AND ".join(f"{name} IS ?" for name in columns)
        if data.draw(st.booleans(), label="remove"):
            connection.execute(f"DELETE FROM {table} WHERE {where}", key)  # noqa: S608 - ours
            return
        column = data.draw(st.sampled_from(columns), label="column")
        cell = key[columns.index(column)]
        other = cell + 1000 if isinstance(cell, int | float) else b"\x00" if isinstance(cell, bytes) else "other"
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (other, *key))  # noqa: S608 - ours


def test_a_row_of_the_read_model_is_named_with_its_columns(log: Path) -> None:
    with copied(log) as copy:
        with closing(sqlite3.connect(f"{copy}.projections")) as connection, connection:
            connection.execute("UPDATE sessions SET container_id = 'd', deleted_at = 5 WHERE id = 'b'")
            position = connection.execute("SELECT position FROM sessions WHERE id = 'b'").fetchone()[0]

        (finding,) = verify_log(copy).findings

    assert (finding.kind, finding.name, finding.at) == ("read model", "sessions", position)
    expected = f"the row with position {position} says something else than the log in container_id, deleted_at"
    assert finding.problem == expected


def test_tables_that_are_not_there_or_of_another_version_are_no_finding(log: Path) -> None:
    with copied(log) as copy:
        with closing(sqlite3.connect(f"{copy}.projections")) as connection, connection:
            connection.execute("UPDATE progress SET version = version + 1")
        of_another_version = verify_log(copy)
        Path(f"{copy}.projections").unlink()
        without = verify_log(copy)

    assert (of_another_version.findings, of_another_version.read_model) == ((), "not comparable")
    assert "read model: not comparable: they are of version" in of_another_version.text()
    assert (without.findings, without.read_model) == ((), "not there")


def test_tables_of_another_log_or_ahead_of_it_are_found(log: Path) -> None:
    with copied(log) as copy:
        with closing(sqlite3.connect(f"{copy}.projections")) as connection, connection:
            connection.execute("UPDATE progress SET mark = 'other'")
        of_another = verify_log(copy)
        with closing(sqlite3.connect(f"{copy}.projections")) as connection, connection:
            connection.execute("UPDATE progress SET position = 1000")
        ahead = verify_log(copy)
        Path(f"{copy}.projections").write_bytes(b"x" * 4096)
        damaged = verify_log(copy)

    for verdict in (of_another, ahead, damaged):
        assert [finding.kind for finding in verdict.findings] == ["read model"]
        assert verdict.read_model == "differs"


@pytest.mark.parametrize(
    "entry",
    [
        ("session/z", "text_delta", "text", "forged"),
        ("session/z", "message_start", "model", "forged"),
        ("session/a", "message_start", "message_id", "forged"),
        ("session/b", "tool_call", "input", {"amount": 300}),
        ("session/a", "message_stop", "stop_reason", "forged"),
    ],
)
def test_what_is_said_otherwise_in_rows_that_were_sealed_anew_is_found(
    log: Path, checkpoint: Path, entry: tuple[str, str, str, object]
) -> None:
    with copied(log) as copy:
        with closing(sqlite3.connect(copy)) as connection, connection:
            (topic,) = say_otherwise(connection, *entry)

        findings = verify_log(copy).findings
        held = verify_log(copy, checkpoint=checkpoint).findings

    assert [(finding.kind, finding.name) for finding in findings] == [("feed", topic)]
    assert {finding.name for finding in held} == {topic}


OF_THE_FILE = {
    "PRAGMA user_version = 0": "",
    "PRAGMA user_version = -1": "",
    "PRAGMA application_id = 7": "",
    "CREATE TRIGGER other AFTER INSERT ON steps BEGIN DELETE FROM consumers; END": "other",
    "CREATE VIEW other AS SELECT * FROM steps": "other",
    "CREATE TABLE other (one)": "other",
    "CREATE INDEX other ON steps (stream)": "other",
    "ALTER TABLE steps ADD COLUMN other": "steps",
    "ALTER TABLE steps DROP COLUMN seal": "steps",
    "ALTER TABLE steps RENAME COLUMN feed TO other": "steps",
    "ALTER TABLE requests DROP COLUMN proof": "requests",
    "ALTER TABLE steps RENAME TO other": "other",
    "DROP TABLE steps": "steps",
    "DROP INDEX timers_by_due": "timers_by_due",
    "DROP INDEX steps_by_stream": "steps_by_stream",
}


@pytest.mark.parametrize("statement", OF_THE_FILE)
def test_whatever_is_changed_of_what_the_file_is_is_found(log: Path, statement: str) -> None:
    with copied(log) as copy:
        with closing(sqlite3.connect(copy)) as connection, connection:
            connection.execute(statement)

        findings = verify_log(copy).findings

    assert OF_THE_FILE[statement] in {finding.name for finding in findings if finding.kind in ("file", "log")}


def test_a_table_that_a_view_stands_in_for_is_found(log: Path) -> None:
    with copied(log) as copy:
        with closing(sqlite3.connect(copy)) as connection, connection:
            connection.execute("ALTER TABLE steps RENAME TO kept")
            connection.execute("CREATE VIEW steps AS SELECT * FROM kept")

        findings = verify_log(copy).findings

    assert {"steps", "kept"} <= {finding.name for finding in findings if finding.kind == "file"}


@pytest.mark.timeout(60)
def test_a_view_without_end_in_the_place_of_a_table_is_found_and_not_read(log: Path) -> None:
    with copied(log) as copy:
        with closing(sqlite3.connect(copy)) as connection, connection:
            connection.execute("ALTER TABLE timers RENAME TO kept")
            connection.execute(
                "CREATE VIEW timers AS WITH RECURSIVE endless(due) AS (SELECT 1 UNION ALL SELECT due + 1 FROM endless) "
                "SELECT 's' AS stream, due FROM endless"
            )

        findings = verify_log(copy).findings

    assert {"timers", "kept"} <= {finding.name for finding in findings if finding.kind == "file"}


def test_a_changed_request_is_found_whatever_format_the_file_says_it_has(log: Path) -> None:
    with copied(log) as copy:
        with closing(sqlite3.connect(copy)) as connection, connection:
            connection.execute("PRAGMA user_version = 0")
            connection.execute("UPDATE requests SET note = x'90'")

        kinds = [finding.kind for finding in verify_log(copy).findings]

    assert {"file", "request"} == {*kinds}


def test_a_format_that_is_still_to_come_is_refused(log: Path) -> None:
    with copied(log) as copy:
        with closing(sqlite3.connect(copy)) as connection, connection:
            connection.execute("PRAGMA user_version = 2")

        with pytest.raises(LogTooNewError, match="newer than"):
            verify_log(copy)


def test_the_database_of_another_program_is_no_log_of_a_later_format(tmp_path: Path) -> None:
    path = tmp_path / "places.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA user_version = 75")

    problems = [finding.problem for finding in verify_log(path).findings]

    assert any("it is the database of something else" in problem for problem in problems)


@pytest.mark.parametrize("version", [-1, 0])
def test_a_file_that_says_it_has_an_earlier_format_is_not_opened(log: Path, version: int) -> None:
    with copied(log) as copy:
        with closing(sqlite3.connect(copy)) as connection, connection:
            connection.execute(f"PRAGMA user_version = {version}")

        with pytest.raises(LogUnusableError, match=f"says that it has format {version}"):
            Runtime.open(copy, synchronous="OFF")


OF_THE_TABLES = {
    "UPDATE progress SET position = 'x'": "progress",
    "UPDATE progress SET position = 1.5": "progress",
    "UPDATE progress SET position = -3": "progress",
    "UPDATE progress SET mark = x'00'": "progress",
    "UPDATE progress SET mark = 7": "progress",
    "UPDATE progress SET version = 'x'": "progress",
    "CREATE TRIGGER other AFTER INSERT ON messages BEGIN DELETE FROM messages; END": "other",
    "CREATE TABLE other (one)": "other",
    "ALTER TABLE messages ADD COLUMN other": "messages",
    "ALTER TABLE messages RENAME TO other": "messages",
    "DROP INDEX revisions_of_image": "revisions_of_image",
}


@pytest.mark.parametrize("statement", OF_THE_TABLES)
def test_whatever_is_changed_of_what_the_read_model_is_is_found(log: Path, statement: str) -> None:
    with copied(log) as copy:
        with closing(sqlite3.connect(f"{copy}.projections")) as connection, connection:
            connection.execute(statement)

        verdict = verify_log(copy)

    assert OF_THE_TABLES[statement] in {finding.name for finding in verdict.findings if finding.kind == "read model"}
    assert verdict.read_model == "differs"


@given(data=st.data())
@settings(max_examples=examples(25))
def test_no_cell_of_the_read_model_stops_the_audit(log: Path, data: st.DataObject) -> None:
    cell = data.draw(
        st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text() | st.binary()
    )
    with copied(log) as copy:
        with closing(sqlite3.connect(f"{copy}.projections")) as connection:
            table = data.draw(st.sampled_from(["progress", "messages", "calls", "sessions"]))
            columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
            column = data.draw(st.sampled_from(columns))
            with suppress(sqlite3.Error, UnicodeError), connection:
                connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = 1", (cell,))  # noqa: S608 - ours

        assert verify_log(copy).read_model in ("agrees", "differs", "not comparable")


def test_a_branch_whose_origin_was_rewritten_is_named(log: Path) -> None:
    with copied(log) as copy:
        with closing(sqlite3.connect(copy)) as connection, connection:
            ((number,),) = connection.execute("SELECT number FROM steps WHERE stream = 'session/a' AND version = 1")
            rewrite(connection, "session/a", number)

        findings = verify_log(copy).findings

    named = {finding.name: finding.problem for finding in findings}
    assert "cannot be decoded" in named["session/a"]
    assert "it branches off from" in named["session/z"]


def test_progress_is_told_by_phase(log: Path) -> None:
    told: list[Progress] = []

    with Audit.open(log) as audit:
        verdict = audit.verify(progress=told.append)

    assert list(dict.fromkeys(each.phase for each in told)) == ["file", "streams", "beside", "read model"]
    assert Progress("streams", verdict.rows, verdict.rows) in told
    assert told[-1] == Progress("read model", verdict.position, verdict.position)
