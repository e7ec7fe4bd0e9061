"""The commands that let a log leave and come in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reenact.actors.journal.verify import verify
from tests.cli.conftest import Chat, Run
from tests.logs import log_at

SECRET = "sk-ant-api03-abcdefghijkl"  # noqa: S105 - it opens nothing


@pytest.fixture
def talked(run: Run, tmp_path: Path) -> list[str]:
    """Talk twice in a log of its own; return the sessions."""
    return [
        run("--db", "here.db", "-p", text, "--output-format", "json").result["session_id"]
        for text in (f"Use {SECRET}", "Hello")
    ]


def test_a_log_goes_from_one_place_to_another(run: Run, talked: list[str], tmp_path: Path) -> None:
    exported = run("export", "all.jsonl", "--db", "here.db")
    imported = run("import", "all.jsonl", "--db", "there.db")
    again = run("import", "all.jsonl", "--db", "there.db")

    assert exported.code == imported.code == again.code == 0
    assert exported.out.startswith("all.jsonl: ")
    assert "0 new events, 0 new rows; " in again.out
    assert exported.err == imported.err == ""
    assert verify(log_at(tmp_path / "there.db")) == []
    assert sorted(run("sessions", "--db", "there.db", "--output-format", "json").out.splitlines()) == sorted(
        run("sessions", "--db", "here.db", "--output-format", "json").out.splitlines()
    )


@pytest.mark.sqlite_only("files, by their paths")
def test_what_was_done_is_an_object(run: Run, talked: list[str]) -> None:
    exported = run("export", "one.jsonl", "--session", talked[1], "--db", "here.db", "--output-format", "json").result
    imported = run("import", "one.jsonl", "--db", "there.db", "--output-format", "json").result

    assert exported["sessions"] == [talked[1]]
    assert exported["file"] == "one.jsonl"
    assert (imported["log"], imported["events"], imported["rows"]) == ("there.db", exported["events"], exported["rows"])


def test_an_export_goes_through_a_pipe(run: Run, talked: list[str], tmp_path: Path) -> None:
    exported = run("export", "-", "--no-feeds", "--db", "here.db")
    imported = run("import", "-", "--db", "there.db", stdin=exported.out.encode())

    assert [json.loads(line)["type"] for line in exported.out.splitlines()[:2]] == ["header", "row"]
    assert not any("feed" in json.loads(line) for line in exported.out.splitlines())
    assert "standard output: " in exported.err
    assert imported.code == 0
    assert verify(log_at(tmp_path / "there.db")) == []


def test_secrets_do_not_leave(run: Run, talked: list[str], tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text('{"fields": ["answer-recorded.content"]}')
    (tmp_path / "key").write_bytes(b"a key\n")

    run("export", "a.jsonl", "--redact-secrets", "--db", "here.db")
    told = run("export", "b.jsonl", "--redact", "policy.json", "--hash-key", "key", "--db", "here.db").out

    a, b = ((tmp_path / name).read_text() for name in ("a.jsonl", "b.jsonl"))
    assert SECRET not in a + b
    assert "[redacted: api-key]" in a
    assert "[redacted: api-key " in b
    assert '"answer-recorded:1"' in b
    assert "[redacted: field " in b
    assert "of them say less than the log" in told


@pytest.mark.usefixtures("talked")
def test_an_export_does_not_go_to_a_terminal_which_would_obey_what_is_in_it(chat: Chat) -> None:
    terminal = chat("export", "-", "--db", "here.db", until="standard output is a terminal")

    assert terminal.wait_for_exit().code == 2
    assert '"header"' not in terminal.get_output()


@pytest.mark.sqlite_only("files, by their paths")
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("export", "a.jsonl", "--hash-key", "key"), "--redact-secrets"),
        (("export", "-", "--output-format", "json"), "standard output has the export"),
        (("export", "a.jsonl", "--session", "nobody", "--db", "here.db"), "'nobody' does not exist"),
        (("export", "a.jsonl", "--redact", "none.json", "--db", "here.db"), "none.json cannot be read"),
        (
            ("export", "a.jsonl", "--redact-secrets", "--hash-key", "none", "--db", "here.db"),
            "the key none: it cannot be read",
        ),
        (("export", "a.jsonl", "--db", "none.db"), "none.db; check the path"),
        (("export", "here.db", "--db", "here.db"), "is the log, or a file that belongs to it"),
        (("export", ".", "--db", "here.db"), "is a directory"),
        (("import", "none.jsonl"), "No such file"),
        (("import", "here.db", "--db", "there.db"), "line 1: the file is not an export"),
    ],
)
def test_what_cannot_be_done_is_said_and_leaves_nothing(
    run: Run, talked: list[str], tmp_path: Path, arguments: tuple[str, ...], why: str
) -> None:
    def there() -> list[str]:  # but for what SQLite keeps beside a log that was read
        return sorted(path.name for path in tmp_path.iterdir() if not path.name.endswith(("-shm", "-wal")))

    before = there()

    outcome = run(*arguments)

    assert outcome.code == 2
    assert why in outcome.err
    assert outcome.out == "" or outcome.result["success"] is False
    assert there() == before


def test_a_link_that_leads_in_a_circle_is_not_replaced(run: Run, talked: list[str], tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")

    refused = run("export", "circle", "--db", "here.db")

    assert (refused.code, refused.out) == (2, "")
    assert "symbolic links" in refused.err
    assert (tmp_path / "circle").is_symlink()


def test_a_changed_export_is_refused_with_the_line(run: Run, talked: list[str], tmp_path: Path) -> None:
    run("export", "a.jsonl", "--db", "here.db")
    path = tmp_path / "a.jsonl"
    path.write_text(path.read_text().replace('"Hello"', '"Hallo"'))

    outcome = run("import", "a.jsonl", "--db", "there.db", "--output-format", "json")

    assert outcome.code == 2
    assert outcome.result["error"]["type"] == "export_unusable"
    assert "a.jsonl, line " in outcome.result["error"]["message"]
    assert not (tmp_path / "there.db").exists()


@pytest.mark.sqlite_only("the user's own file")
def test_without_a_name_the_log_is_the_users_own(run: Run) -> None:
    run("-p", "Hello")
    run("export", "a.jsonl")

    assert "0 new events" in run("import", "a.jsonl").out
    assert "0 new events" in run("import", "a.jsonl", REENACT_DB="").out


def test_a_session_goes_into_a_page_for_people(run: Run, talked: list[str], tmp_path: Path) -> None:
    told = run("export", "talk.html", "--html", talked[1], "--db", "here.db")
    again = run("export", "-", "--html", talked[1], "--db", "here.db")
    named = run("export", "--html", talked[1], "--db", "here.db")

    page = (tmp_path / "talk.html").read_text()
    assert told.out == f"talk.html: session {talked[1]}, {len(page.encode())} bytes\n"
    assert page.startswith("<!doctype html>")
    assert "Hello from mock!" in page
    assert again.out.startswith("<!doctype html>")
    assert named.out.startswith(f"{talked[1]}.html: ")
    assert (tmp_path / f"{talked[1]}.html").read_text().startswith("<!doctype html>")


@pytest.mark.sqlite_only("files, by their paths")
@pytest.mark.parametrize("own", ["here.db", "here.db.lock"])
def test_a_page_does_not_take_the_place_of_the_log(run: Run, talked: list[str], tmp_path: Path, own: str) -> None:
    before = (tmp_path / "here.db").read_bytes()

    refused = run("export", own, "--html", talked[1], "--db", "here.db")

    assert (refused.code, refused.out) == (2, "")
    assert f"{own} is the log, or a file that belongs to it; name another file for the page" in refused.err
    assert (tmp_path / "here.db").read_bytes() == before


def test_a_page_is_of_one_session_as_it_is(run: Run, talked: list[str], tmp_path: Path) -> None:
    missing = run("export", "talk.html", "--html", "nobody", "--db", "here.db")
    less = run("export", "talk.html", "--html", talked[0], "--redact-secrets", "--db", "here.db")

    assert missing.code == 2
    assert "session 'nobody' does not exist" in missing.err
    assert less.code == 2
    assert "--html writes one session as it is" in less.err
    assert not (tmp_path / "talk.html").exists()


def test_a_family_is_that_of_a_session(run: Run, talked: list[str]) -> None:
    refused = run("export", "one.jsonl", "--family", "--db", "here.db")
    exported = run("export", "one.jsonl", "--family", "--session", talked[0], "--db", "here.db")

    assert (refused.code, exported.code) == (2, 0)
    assert "--family is that of a session" in refused.err
