"""A log is looked at page by page, while it grows."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.actors.journal import chain_pass
from reenact.actors.journal.chain_pass import ChainPass
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.journal.verify import Finding, evidence_of, verify
from tests.journal.conftest import postgres_log
from tests.journal.support import CODEC, Added, Log, Values, commit, said, step, tamper

PAGES = (1, 2, 5, 1000)
__all__ = ["postgres_log"]


@pytest.fixture(scope="module")
def whole() -> Generator[Path]:
    """A small log that every test copies."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "log.db")
        with SqliteJournal.open(path, CODEC) as journal:
            for version in range(4):
                for stream in ("s1", "s2", "s3"):
                    commit(journal, step(stream, version, Added(version), kept=[said("a", "b")]))
                commit(journal, step("s2", None, kept=[said("c")]))
        yield path


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(whole, tmp_path / "copy.db"))


def looked_at(log: Path | str, rows: int, begun: ChainPass | None = None) -> ChainPass:
    """Return the pass at the end of the log."""
    one = ChainPass(rows) if begun is None else begun
    with evidence_of(log) as evidence:
        while one.advance(evidence, lambda: None):
            pass
    one.end()
    return one


@pytest.mark.parametrize("rows", PAGES)
def test_a_log_that_nobody_touched_is_whole_up_to_its_end(whole: Path, rows: int) -> None:
    one = looked_at(whole, rows)

    assert one.findings == []
    assert (one.number, one.position) == (16, 12)


@pytest.mark.parametrize("rows", PAGES)
def test_it_goes_on_with_what_is_written_meanwhile(log: Log, rows: int) -> None:
    with log.open() as journal:
        commit(journal, step("s1", 0, Added(1)), step("s2", 0, Added(1), kept=[said("a")]))
        one = looked_at(log.url, rows)
        assert one.position == 2

        commit(journal, step("s1", 1, Added(2), Added(3), kept=[said("b")]))
        commit(journal, step("s2", None, kept=[said("c")]))
        looked_at(log.url, rows, one)

    assert one.findings == []
    assert (one.number, one.position) == (4, 4)


def test_it_says_which_streams_it_has_looked_at_up_to_where(whole: Path) -> None:
    one = ChainPass(5)

    with evidence_of(whole) as evidence:
        assert one.advance(evidence, lambda: None) == {"s1": 4, "s2": 3, "s3": 3}


@given(data=st.data(), rows=st.sampled_from(PAGES))
def test_what_verify_finds_wrong_with_a_row_is_found(whole: Path, data: st.DataObject, rows: int) -> None:
    column = data.draw(st.sampled_from(("recorded_at", "version", "position", "count", "cursor", "heard")))
    number, value = data.draw(st.integers(1, 16)), data.draw(st.integers(-2, 20))
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(shutil.copy(whole, Path(directory, "copy.db")))
        # A version that is taken already cannot even be forged.
        with contextlib.suppress(sqlite3.IntegrityError):
            tamper(copy, f"UPDATE steps SET {column} = ? WHERE number = ?", value, number)  # noqa: S608 - ours

            found = looked_at(copy, rows).findings

            assert bool(found) == bool(verify(copy))


@pytest.mark.parametrize("column", ["digest", "events", "feed", "stream"])
@pytest.mark.parametrize("value", [b"\x91\x92\xa1a\xa1b", "text", 3, "\x00"])
@pytest.mark.parametrize("rows", PAGES)
def test_a_row_that_holds_something_else_is_found(copy: Path, column: str, value: Values, rows: int) -> None:
    tamper(copy, f"UPDATE steps SET {column} = ? WHERE number = 6", value)  # noqa: S608 - ours

    assert looked_at(copy, rows).findings


@pytest.mark.parametrize("rows", PAGES)
def test_the_first_row_of_a_stream_that_was_changed_is_named_and_none_behind_it(copy: Path, rows: int) -> None:
    tamper(copy, "UPDATE steps SET recorded_at = recorded_at + 1 WHERE number = 5")

    assert looked_at(copy, rows).findings == [
        Finding("stream", "s1", 2, "the row or the one before it was changed", 4),
    ]


@pytest.mark.parametrize("rows", PAGES)
def test_a_row_that_was_removed_leaves_a_hole(copy: Path, rows: int) -> None:
    tamper(copy, "DELETE FROM steps WHERE number = 5")

    problem = "position 4 is missing: the next row has position 5"
    assert Finding("log", "", 4, problem, 5) in looked_at(copy, rows).findings


def test_findings_that_are_too_many_are_counted(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_pass, "MOST", 2)
    tamper(copy, "UPDATE steps SET recorded_at = recorded_at + 1 WHERE number < 4")

    one = looked_at(copy, 1000)

    assert len(one.findings) == 2
    assert one.more == 1


def test_a_page_holds_no_more_than_so_many_bytes(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_pass, "SIZE", 1)
    one = ChainPass()

    with evidence_of(copy) as evidence:
        one.advance(evidence, lambda: None)

    assert one.number == 1
