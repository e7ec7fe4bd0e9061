"""Whatever strangers have written, what commands print is text: a terminal obeys none of it, and no line is forged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from reenact import Image, Runtime
from reenact.testing import MockEnvironmentFactory
from tests.cli.conftest import Run
from tests.inspector.hostile import HARM, NAME, write_hostile
from tests.inspector.test_hostile import ACTING
from tests.logs import execute, log_at

FORGED: Final = re.compile(r"^FORGED", re.MULTILINE)
SUPPOSED: Final = ("--max-turns", "1")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log in which every name, id and text is hostile."""
    path = tmp_path_factory.mktemp("hostile") / "hostile.db"
    write_hostile(log_at(path))
    return path


@pytest.mark.parametrize(
    "words",
    [
        ("sessions",),
        ("log",),
        ("log", "--session", NAME, "--lineage"),
        *(("log", "--why", str(position)) for position in (3, 6, 9, 12, 20, 28)),
        *(("show", f"{NAME}{ending}") for ending in ("", "asks", "branch")),
        ("diff", NAME, "8", "20"),
        ("diff", NAME, f"{NAME}branch"),
        ("verify",),
        ("replay",),
        ("replay", *SUPPOSED),
        *(("stats", "--by", by) for by in ("day", "model", "image", "tool", "session")),
        *(("stats", "--by", by, "--output-format", "csv") for by in ("model", "image", "tool", "session")),
        ("projections",),
        ("checkpoint",),
    ],
    ids=lambda words: " ".join(words)[:40].encode("ascii", "replace").decode(),
)
def test_nothing_that_strangers_have_written_is_obeyed_or_forges_a_line(
    run: Run, hostile: Path, words: tuple[str, ...]
) -> None:
    outcome = run(*words, "--db", str(hostile))

    assert outcome.out != ""
    for printed in (outcome.out, outcome.err):
        assert not ACTING.search(printed), ACTING.search(printed)
        assert not FORGED.search(printed), FORGED.search(printed)


@pytest.mark.parametrize("words", [("sessions",), ("log",), ("show", NAME), ("verify",), ("stats", "--by", "model")])
def test_in_json_it_is_data_and_nothing_that_moves_or_hides_what_a_person_sees(
    run: Run, hostile: Path, words: tuple[str, ...]
) -> None:
    outcome = run(*words, "--output-format", "json", "--db", str(hostile))

    assert all(outcome.objects)
    assert not ACTING.search(outcome.out), ACTING.search(outcome.out)


@pytest.mark.parametrize(
    "words",
    [
        ("show", HARM),
        ("diff", HARM, "1", "2"),
        ("branch", HARM),
        ("switch", HARM, HARM),
        ("forget", HARM),
        ("log", "--type", HARM),
        ("log", "--since", HARM),
        ("log", "--why", HARM),
        ("schedules", HARM),
        ("replay", HARM),
        ("export", "x.jsonl", "--session", HARM),
        ("export", "--html", HARM),
        ("import", HARM),
        ("rebuild", HARM),
        ("keys", f"{HARM}/ring"),
        ("sessions", "--db", f"{HARM}/log"),
        ("sessions", "--keys", HARM),
        ("-p", "Hello", "--resume", HARM),
        ("-p", "Hello", "--tools", HARM),
        (f"--{HARM}",),
        (HARM,),
    ],
    ids=lambda words: " ".join(words)[:30].encode("ascii", "replace").decode(),
)
@pytest.mark.parametrize("in_ci", [False, True], ids=["words", "lines"])
def test_an_error_quotes_what_it_was_given_as_text(
    run: Run, hostile: Path, words: tuple[str, ...], *, in_ci: bool
) -> None:
    named = () if "--db" in words or words[0] in ("keys", HARM, f"--{HARM}") else ("--db", str(hostile))

    outcome = run(*words, *named, **({"CI": "true"} if in_ci else {}))

    assert (outcome.code, outcome.out) == (2, "")
    assert not ACTING.search(outcome.err), ACTING.search(outcome.err)
    assert not FORGED.search(outcome.err), outcome.err


def test_a_log_that_was_changed_says_so_whatever_was_written_into_it(run: Run, tmp_path: Path) -> None:
    log = log_at(tmp_path / "log.db")
    with Runtime.open(log, environment=MockEnvironmentFactory(), synchronous="OFF") as runtime:
        runtime.containers.create(container_id="home")
        runtime.images.register(Image(id="chat"))
        runtime.ask("Hello", session=runtime.sessions.create("home", "chat", session_id="talk").id)
    execute(log, "UPDATE steps SET stream = ? WHERE stream = 'session/talk'", f"session/{HARM}")
    execute(log, "INSERT INTO timers VALUES (?, 1)", HARM)

    verified = run("verify", "--db", "log.db")

    assert verified.code == 1
    assert "findings" in verified.out
    assert not ACTING.search(verified.out)
    assert not FORGED.search(verified.out)
