"""Whether a log is what was written, asked on the command line."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.cli.conftest import Run

pytestmark = pytest.mark.sqlite_only("files, by their paths")


@pytest.fixture
def talk(run: Run, tmp_path: Path) -> Path:
    """Talk once, and return where the log is."""
    path = tmp_path / "talk.db"
    run("--db", str(path), "-p", "Hello")
    return path


def tamper(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement).rowcount == 1


def test_a_log_that_is_whole_is_a_success(run: Run, talk: Path) -> None:
    asked = run("verify", "--db", str(talk))

    assert asked.code == 0
    assert asked.out.startswith("nothing is wrong: ")
    assert "read model: agrees" in asked.out


READING = (
    ("verify",),
    ("checkpoint",),
    ("sessions",),
    ("log",),
    ("log", "--why", "1"),
    ("show", "s"),
    ("diff", "s@1", "s@2"),
    ("export", "-"),
    ("replay",),
    ("replay", "s"),
    ("projections",),
    ("rebuild",),
    ("branch", "s"),
)


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_a_log_that_is_not_there_is_not_read_and_not_made(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    nope, folder = tmp_path / "nope.db", tmp_path / "folder"
    folder.mkdir()

    asked = run(*command, "--db", str(nope))
    of_a_folder = run(*command, "--db", str(folder))

    assert asked.code == of_a_folder.code == 2
    assert f"there is no log at {nope};" in asked.err
    assert "Is a directory" in of_a_folder.err
    assert not nope.exists()


def test_what_is_wrong_is_printed_and_makes_a_failure(run: Run, talk: Path) -> None:
    tamper(talk, "UPDATE steps SET events = x'00' WHERE position = 4")

    asked = run("verify", "--db", str(talk))
    as_json = run("verify", "--db", str(talk), "--output-format", "json")

    assert (asked.code, as_json.code) == (1, 1)
    assert "(position 4): the row or the one before it was changed" in asked.out
    verdict = msgspec.json.decode(as_json.out)
    assert {finding["position"] for finding in verdict["findings"] if finding["kind"] == "stream"} == {4}


def test_a_checkpoint_finds_what_was_cut_off(run: Run, talk: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    written = run("checkpoint", "--db", str(talk), "--output", str(kept))
    printed = run("checkpoint", "--db", str(talk))
    tamper(talk, "DELETE FROM steps WHERE number = (SELECT max(number) FROM steps)")

    asked = run("verify", "--db", str(talk), "--checkpoint", str(kept))

    assert (written.code, written.out) == (0, "")
    assert printed.out.splitlines()[1:-1] == kept.read_text().splitlines()[1:-1]
    assert asked.code == 1
    assert "at the checkpoint, and now ends at" in asked.out


def test_what_was_written_of_a_checkpoint_is_said_as_json(run: Run, talk: Path, tmp_path: Path) -> None:
    written = run("checkpoint", "--db", str(talk), "--output", str(tmp_path / "kept"), "--output-format", "json")
    printed = run("checkpoint", "--db", str(talk), "--output-format", "json")

    head, *_, foot = map(msgspec.json.decode, (tmp_path / "kept").read_text().splitlines())
    wanted = {name: value for name, value in (head | foot).items() if name not in ("line", "format")}
    assert msgspec.json.decode(written.out) == wanted
    assert msgspec.json.decode(printed.out.splitlines()[0])["position"] == wanted["position"]
    assert (written.code, written.err) == (0, "")


def test_a_checkpoint_to_a_dash_goes_to_standard_output(run: Run, talk: Path) -> None:
    printed = run("checkpoint", "--db", str(talk), "--output", "-")

    assert [msgspec.json.decode(line)["line"] for line in printed.out.splitlines()][-1] == "digest"
    assert not Path("-").exists()


def test_what_is_no_checkpoint_is_a_wrong_argument(run: Run, talk: Path) -> None:
    asked = run("verify", "--db", str(talk), "--checkpoint", str(talk))

    assert asked.code == 2
    assert "is not a checkpoint" in asked.err


def test_there_is_nothing_to_verify_before_the_first_conversation(run: Run) -> None:
    assert run("verify").code == 0
    assert "there is no log yet" in run("checkpoint").err


def test_a_log_that_is_named_and_is_none_is_a_wrong_argument(run: Run, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("hello" * 100)

    assert run("verify", "--db", str(tmp_path / "missing.db")).code == 2
    assert run("verify", "--db", str(tmp_path / "other.txt")).code == 2
