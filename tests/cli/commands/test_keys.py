"""`reenact keys` and `forget`, and what commands make of an encrypted log: with its keys, with none, with others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Chat, Json, Run, ask, leave
from tests.logs import is_begun, log_at, stands_in

DB = ("--db", "secret.db")
KEYED = (*DB, "--keys", "ring.keys")
SECRET = "pineapple"  # noqa: S105 - of a story
OTHER = f"{'A' * 43}="
"""A key that has nothing to do with the log."""


@pytest.fixture
def ring(run: Run) -> str:
    """A key ring, as a name in the directory of the command."""
    assert run("keys", "ring.keys").code == 0
    return "ring.keys"


@pytest.fixture
def talk(run: Run, ring: str) -> str:
    """A session of an encrypted log."""
    said = run("-p", f"The {SECRET}", *KEYED, "--output-format", "json")
    assert said.code == 0
    return str(said.result["session_id"])


# --- Key rings --------------------------------------------------------------------------------------------------------


def test_a_key_ring_is_made_once_and_only_its_owner_can_read_it(run: Run, ring: str, tmp_path: Path) -> None:
    (before,) = (tmp_path / ring).read_text().splitlines()

    again = run("keys", ring)

    assert (again.code, again.out) == (2, "")
    assert "File exists" in again.err
    assert (tmp_path / ring).read_text() == f"{before}\n"
    assert (tmp_path / ring).stat().st_mode & 0o777 == 0o600
    assert before not in again.err


def test_a_key_is_added_and_what_there_was_is_still_read(run: Run, ring: str, talk: str, tmp_path: Path) -> None:
    rotated = run("keys", ring, "--rotate")
    second = run("-p", "Hello", *KEYED, "--output-format", "json").result["session_id"]

    assert (rotated.code, rotated.out) == (0, "")
    assert "has a new key" in rotated.err
    assert len((tmp_path / ring).read_text().splitlines()) == 2
    assert (tmp_path / ring).stat().st_mode & 0o777 == 0o600
    listed = run("sessions", *KEYED, "--output-format", "json").objects
    assert [one["id"] for one in listed] == [second, talk]


def test_a_ring_that_is_not_there_gets_no_key(run: Run, tmp_path: Path) -> None:
    refused = run("keys", "none.keys", "--rotate")

    assert (refused.code, refused.out) == (2, "")
    assert "`reenact keys` make" in refused.err
    assert not (tmp_path / "none.keys").exists()


# --- With keys, without, and with others ------------------------------------------------------------------------------

READING: list[tuple[str, ...]] = [
    ("sessions",),
    ("log",),
    ("log", "--why", "4"),
    ("show", "SESSION"),
    ("diff", "SESSION", "4", "6"),
    ("stats",),
    ("replay",),
    ("replay", "--max-turns", "1"),
    ("rebuild",),
    ("export", "page.html", "--html", "SESSION"),
    ("export", "plain.jsonl", "--redact-secrets"),
    ("export", "one.jsonl", "--session", "SESSION", "--redact-secrets"),
    ("branch", "SESSION"),
    ("switch", "SESSION", "chat"),
    ("forget", "SESSION"),
    ("-p", "Again"),
    ("-p", "Again", "--continue"),
]
WITHOUT: list[tuple[str, ...]] = [
    ("verify",),
    ("projections",),
    ("checkpoint", "--output", "ends.jsonl"),
    ("export", "all.jsonl"),
]


def words_of(words: tuple[str, ...], talk: str) -> tuple[str, ...]:
    return tuple(talk if word == "SESSION" else word for word in words)


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_what_is_read_needs_the_ring_of_the_log(run: Run, ring: str, talk: str, words: tuple[str, ...]) -> None:
    asked = words_of(words, talk)
    run("keys", "other.keys")

    without = run(*asked, *DB)
    wrong = run(*asked, *DB, "--keys", "other.keys")
    right = run(*asked, *KEYED)

    assert (without.code, without.out) == (2, "")
    assert "is encrypted; name its key ring" in without.err
    assert "--keys FILE" in without.err
    assert (wrong.code, wrong.out) == (3, "")
    assert "other.keys has no key" in wrong.err
    assert right.code in ((1,) if words[0] == "diff" else (0, 1) if "--max-turns" in words else (0,))
    assert SECRET not in without.err + wrong.err


@pytest.mark.parametrize("words", WITHOUT, ids=" ".join)
def test_what_needs_no_content_needs_no_keys(
    run: Run, ring: str, talk: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    without = run(*words, *DB)
    right = run(*words, *KEYED)

    assert (without.code, right.code) == (0, 0)
    assert SECRET not in without.out + right.out
    for name in ("ends.jsonl", "all.jsonl"):
        assert not (tmp_path / name).exists() or SECRET not in (tmp_path / name).read_text()


def test_failures_are_objects_in_json(run: Run, ring: str, talk: str) -> None:
    run("keys", "other.keys")

    without = run("-p", "Again", *DB, "--output-format", "json")
    wrong = run("-p", "Again", *DB, "--keys", "other.keys", "--output-format", "stream-json")
    none = run("-p", "Again", *DB, "--keys", "none.keys", "--output-format", "json")

    assert [(one.code, one.result["error"]["type"]) for one in (without, wrong, none)] == [
        (2, "log_encrypted"),
        (3, "wrong_key"),
        (2, "invalid_configuration"),
    ]


def test_a_ring_that_others_can_read_is_refused(run: Run, ring: str, talk: str, tmp_path: Path) -> None:
    (tmp_path / ring).chmod(0o644)

    refused = run("sessions", *KEYED)

    assert (refused.code, refused.out) == (2, "")
    assert "chmod 600" in refused.err


def test_the_environment_may_name_the_ring_or_hold_it(run: Run, ring: str, talk: str, tmp_path: Path) -> None:
    keys = (tmp_path / ring).read_text().strip()

    named = run("sessions", *DB, REENACT_KEYS=ring)
    held = run("sessions", *DB, REENACT_KEYS="env:RING", RING=keys)
    option = run("sessions", *DB, "--keys", "env:RING", RING=f"{OTHER} {keys}", REENACT_KEYS="nonsense")
    empty = run("sessions", *DB, "--keys", "env:RING")

    assert [one.code for one in (named, held, option)] == [0, 0, 0]
    assert len({one.out for one in (named, held, option)}) == 1
    assert (empty.code, empty.out) == (2, "")
    assert "the variable RING holds no key ring" in empty.err
    assert keys not in empty.err


def test_keys_of_the_environment_are_kept_from_what_the_log_of_errors_and_people_are_told(
    run: Run, ring: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
) -> None:
    keys = (tmp_path / ring).read_text().strip()

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError(f"with {keys}")

    monkeypatch.setattr("reenact.cli.chat.conversation.Conversation.ask", fail)
    failed = run("-p", "x", *DB, "--output-format", "json", REENACT_KEYS="env:RING", RING=keys)

    kept = Path(environ["HOME"], ".local/state/reenact/errors.log").read_text()
    assert failed.code == 1
    assert keys not in failed.out + failed.err + kept


def test_a_log_that_began_without_keys_is_encrypted_from_then_on(run: Run, ring: str, tmp_path: Path) -> None:
    plain = run("-p", "Good day", *DB, "--output-format", "json").result["session_id"]

    secret = run("-p", f"The {SECRET}", *KEYED, "--output-format", "json").result["session_id"]
    again = run("-p", f"The {SECRET}", "--resume", plain, *KEYED)

    assert again.code == 0
    assert not stands_in(SECRET.encode(), log_at(tmp_path / "secret.db"))
    assert run("-p", "Without", *DB).code == 2
    refused = run("forget", plain, *KEYED)
    assert (refused.code, refused.out) == (2, "")
    assert "recorded without keys, at least in part" in refused.err
    assert run("forget", secret, *KEYED).code == 0


def test_an_encrypted_export_is_taken_in_with_its_keys(run: Run, ring: str, talk: str, tmp_path: Path) -> None:
    run("keys", "other.keys")
    run("export", "log.jsonl", *DB)

    without = run("import", "log.jsonl", "--db", "copy.db")
    wrong = run("import", "log.jsonl", "--db", "copy.db", "--keys", "other.keys")
    right = run("import", "log.jsonl", "--db", "copy.db", "--keys", ring)

    assert [one.code for one in (without, wrong, right)] == [2, 3, 0]
    assert talk in run("sessions", "--db", "copy.db", "--keys", ring).out
    assert not stands_in(SECRET.encode(), log_at(tmp_path / "copy.db"))
    assert [run("replay", "log.jsonl", *keys).code for keys in ((), ("--keys", "other.keys"), ("--keys", ring))] == [
        2,
        3,
        0,
    ]


@pytest.mark.sqlite_only("a folder of files")
def test_histories_in_a_folder_are_replayed_with_the_keys(run: Run, ring: str, talk: str, tmp_path: Path) -> None:
    (tmp_path / "golden").mkdir()
    run("export", "golden/log.jsonl", *DB)
    (tmp_path / "secret.db").rename(tmp_path / "golden/log.db")

    replayed = run("replay", "golden", "--keys", ring)

    assert replayed.code == 0
    assert replayed.out.splitlines()[-1] == "2 histories, all as recorded"


@pytest.mark.parametrize(
    "words", [("export",), ("export", "--html", "SESSION"), ("checkpoint", "--output"), ("stats", "--plot")]
)
def test_nothing_takes_the_place_of_the_key_ring(
    run: Run, ring: str, talk: str, tmp_path: Path, words: tuple[str, ...]
) -> None:
    before = (tmp_path / ring).read_bytes()
    (tmp_path / "link").symlink_to(tmp_path / ring)

    for name in (ring, "link"):
        refused = run(*(talk if word == "SESSION" else word for word in words), name, *KEYED)
        assert (refused.code, refused.out) == (2, "")
        assert "is the log, or a file that belongs to it" in refused.err

    assert (tmp_path / ring).read_bytes() == before


# --- Forgetting -------------------------------------------------------------------------------------------------------


def forgotten(run: Run, ring: str, talk: str) -> Json:
    done = run("forget", talk, "--by", "ada", "--why", "asked for", *KEYED, "--output-format", "json")
    assert done.code == 0
    return done.result


def test_a_session_is_forgotten_and_its_id_printed(run: Run, ring: str, talk: str) -> None:
    done = run("forget", talk, "--by", "ada", *KEYED)
    again = run("forget", talk, "--by", "bob", *KEYED)

    assert (done.code, done.out) == (0, f"{talk}\n")
    assert (again.code, again.out) == (0, "")
    assert "had been forgotten" in again.err
    assert run("sessions", *KEYED).out.rstrip().endswith("(forgotten by ada)")


def test_what_was_forgotten_is_neither_shown_as_silence_nor_counted_as_replayed(run: Run, ring: str, talk: str) -> None:
    forgotten(run, ring, talk)

    assert "what was said was forgotten" in run("show", talk, *KEYED).out
    assert run("replay", *KEYED).out.rstrip().endswith("1 forgotten, and replayed up to there")


def test_as_json_it_is_the_session_with_who_has_forgotten_it_and_why(run: Run, ring: str, talk: str) -> None:
    session = forgotten(run, ring, talk)
    (listed,) = run("sessions", *KEYED, "--output-format", "json").objects

    assert session["id"] == talk
    assert (session["forgotten"]["by"], session["forgotten"]["why"]) == ("ada", "asked for")
    assert (listed["id"], listed["forgotten"], listed["messages"]) == (talk, session["forgotten"], 0)


def test_whoever_forgets_without_a_name_is_named_as_the_machine_knows_them(run: Run, ring: str, talk: str) -> None:
    done = run("forget", talk, *KEYED, "--output-format", "json", LOGNAME="eve", USER="eve")

    assert done.result["forgotten"]["by"] != ""
    assert done.result["forgotten"]["why"] == ""


def test_what_others_would_miss_is_refused_and_named_unless_they_go_with_it(run: Run, ring: str, talk: str) -> None:
    branch = run("branch", talk, *KEYED).out.strip()

    refused = run("forget", talk, *KEYED, "--output-format", "json")
    done = run("forget", talk, "--family", *KEYED)

    assert refused.code == 2
    assert f"{branch} would miss it; family=True, or --family on the command line, forgets them all" in refused.err
    assert set(done.out.split()) == {talk, branch}


def test_nobody_can_be_forgotten_twice_over_who_never_was(run: Run, ring: str, talk: str, tmp_path: Path) -> None:
    nobody = run("forget", "nobody", *KEYED)
    no_log = run("forget", "nobody", "--db", "none.db", "--keys", ring)

    assert (nobody.code, nobody.out) == (2, "")
    assert (no_log.code, no_log.out) == (2, "")
    assert not is_begun(log_at(tmp_path / "none.db"))


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("show", "SESSION"), 0, "Forgotten"),
        (("log", "--session", "SESSION"), 0, "session-forgotten"),
        (("log", "--why", "5"), 2, "its session was forgotten"),
        (("replay",), 0, "forgotten"),
        (("replay", "SESSION"), 0, "forgotten"),
        (("replay", "--max-turns", "1"), 0, "forgotten"),
        (("verify",), 0, "rows can be read by nobody"),
        (("branch", "SESSION"), 2, "was forgotten"),
        (("switch", "SESSION", "chat"), 2, "was forgotten"),
        (("export", "page.html", "--html", "SESSION"), 2, "was forgotten"),
        (("-p", "Hello", "--resume", "SESSION"), 2, "was forgotten"),
        (("-p", "Hello", "--continue"), 2, "there is no session to continue"),
        (("schedules", "SESSION"), 0, ""),
        (("diff", "SESSION", "3", "5"), 2, "begins at position"),
        (("stats",), 0, "turns       0"),
    ],
    ids=str,
)
def test_every_command_says_of_a_session_that_it_was_forgotten(
    run: Run, talk: str, words: tuple[str, ...], code: int, says: str
) -> None:
    forgotten(run, "ring.keys", talk)

    outcome = run(*words_of(words, talk), *KEYED)

    assert outcome.code == code, outcome.err
    assert says in (outcome.err if code else outcome.out)
    assert SECRET not in outcome.out + outcome.err


def test_the_newest_session_that_was_not_forgotten_is_continued(run: Run, ring: str, talk: str) -> None:
    second = run("-p", "Hello", *KEYED, "--output-format", "json").result["session_id"]
    forgotten(run, ring, second)

    gone_on = run("-p", "Again", "--continue", *KEYED, "--output-format", "json")

    assert (gone_on.code, gone_on.result["session_id"]) == (0, talk)


def test_a_chat_lists_and_resumes_what_was_not_forgotten(chat: Chat, run: Run, ring: str, talk: str) -> None:
    second = run("-p", "Hello", *KEYED, "--output-format", "json").result["session_id"]
    forgotten(run, ring, second)

    terminal = chat(*KEYED)
    listed = ask(terminal, "/sessions", SECRET)
    ask(terminal, f"/resume {second}", "was forgotten")
    ask(terminal, "/resume 1", f"Session {talk}")

    assert leave(terminal) == 0
    assert talk in listed
    assert second not in listed


def test_completion_offers_sessions_of_an_encrypted_log_without_what_was_said(
    run: Run, ring: str, talk: str, tmp_path: Path
) -> None:
    offered = run("show", "--db", str(tmp_path / "secret.db"), "", _REENACT_COMPLETE="bash")

    assert talk in offered.out
    assert SECRET not in offered.out
