"""Shells complete the command line: options, commands, values, sessions and files, at once, and whatever is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reenact.terminal import SpecialKey, TerminalEmulator
from tests.cli.conftest import PATIENCE, Outcome, Run
from tests.examples import examples

HOSTILE = "About $(touch owned) `touch owned`; touch owned\x1b[2J 'apples'\n\t\"x"
PLAIN = re.compile(r"[A-Za-z0-9_.=-]+")
Complete: TypeAlias = Callable[..., dict[str, str]]
Shell: TypeAlias = Callable[[str], TerminalEmulator]


@pytest.fixture
def complete(run: Run) -> Complete:
    """Return what completes the last of these words: `complete("log", "--ty")`; the choices, and words about them."""

    def complete(*words: str, **variables: str) -> dict[str, str]:
        lines = completed(run(*words, **{"_REENACT_COMPLETE": "bash", **variables}))
        return dict(line.split("\t") for line in lines[1:])

    return complete


def completed(done: Outcome) -> list[str]:
    assert (done.code, done.err) == (0, "")
    return done.out.splitlines()


@pytest.mark.parametrize(
    ("words", "choices"),
    [
        (["--out"], "--output-format"),
        (["--output-format", ""], "text json stream-json"),
        (["--output-format", "j"], "json"),
        (["--output-format=s"], "--output-format=stream-json"),
        (["--output-format", "=", "s"], "stream-json"),  # as bash takes it apart
        (["--output-format", "="], "text json stream-json"),
        (["lo"], "log"),
        (["--db", "x.db", "se"], "sessions serve settings"),
        (["log", "--output-format", ""], "text json"),
        (["log", "--type", "turn-f"], "turn-failed"),
        (["log", "--type", "turn_f"], "turn_failed"),
        (["log", "-f", "--rev"], "--reverse"),
        (["extensions", "t"], "trust"),
        (["extensions", "trust", "--un"], "--untrust"),
        (["completion", ""], "bash zsh fish"),
        (["completion", "bash", ""], ""),
        (["help", "verif"], "verify"),
        (["--model", ""], ""),
        (["-p", ""], ""),
        (["-px", "--cont"], "--continue"),
        (["--", "--cont"], ""),
        (["--resume=x", "--resu"], ""),
        (["--nonsense", "--vers"], "--version"),
        (["nonsense", ""], ""),
    ],
    ids=" ".join,
)
def test_what_may_be_typed_is_offered(complete: Complete, words: list[str], choices: str) -> None:
    assert complete(*words).keys() == set(choices.split())


def test_every_command_and_option_is_offered_with_words_about_it(complete: Complete) -> None:
    commands, options = complete(""), complete("-")

    assert {"sessions", "log", "help", "completion", "settings"} <= commands.keys()
    assert {"--print", "-p", "--allowed-tools", "--help", "-h"} <= options.keys()
    assert not {"--allow-tool", "--max-steps"} & options.keys(), "former spellings are not told of"
    assert all((commands | options).values())


def test_what_was_given_is_offered_again_only_if_it_may_be_given_again(complete: Complete) -> None:
    offered = complete("--model", "x", "--tools", "x.py", "--continue", "-").keys()

    assert "--tools" in offered
    assert not {"--model", "--continue", "-c"} & offered


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["--policy", ""], "files"),
        (["--tools", "x"], "files"),
        (["--db", ""], "files"),
        (["export", ""], "files"),
        (["test-terminal", "a.yaml", "b"], "files"),
        (["replay", "x"], "files"),
        (["--model", ""], "words"),
        (["show", ""], "words"),
        ([""], "words"),
    ],
    ids=" ".join,
)
def test_files_are_offered_where_files_are_meant(run: Run, words: list[str], kind: str) -> None:
    assert completed(run(*words, _REENACT_COMPLETE="bash"))[0] == kind


@pytest.mark.parametrize(
    "words",
    [["--resume", ""], ["-r", "ses"], ["--resume=ses"], ["show", ""], ["branch", ""], ["diff", ""], ["replay", ""]],
    ids=" ".join,
)
def test_sessions_are_offered_with_their_first_words(run: Run, complete: Complete, words: list[str]) -> None:
    session = run("-p", "About apples", "--output-format", "json").result["session_id"]

    offered = complete(*words)

    assert {value.removeprefix("--resume="): about for value, about in offered.items()} == {session: "About apples"}


@pytest.mark.parametrize(
    "words", [["schedules", "--cancel", ""], ["stats", "--container", ""], ["stats", "--image", ""]], ids=" ".join
)
def test_sessions_are_not_offered_where_something_else_is_meant(run: Run, complete: Complete, words: list[str]) -> None:
    run("-p", "About apples")

    assert complete(*words) == {}


def test_sessions_are_those_of_the_log_that_is_meant(run: Run, complete: Complete, environ: dict[str, str]) -> None:
    named = run("-p", "One", "--db", "one.db", "--output-format", "json").result["session_id"]
    by_settings = run("-p", "Two", "--db", "two.db", "--output-format", "json").result["session_id"]
    Path(environ["HOME"], ".reenact").mkdir()
    Path(environ["HOME"], ".reenact", "settings.json").write_text('{"db": "~/../two.db"}')

    assert complete("--db", "one.db", "--resume", "").keys() == {named}
    assert complete("--db", "one.db", "show", "").keys() == {named}
    assert complete("show", "", REENACT_DB="one.db").keys() == {named}
    assert complete("show", "").keys() == {by_settings}


def test_completing_changes_no_file(run: Run, complete: Complete, tmp_path: Path) -> None:
    run("-p", "Hello", "--db", "x.db")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}

    complete("--db", "x.db", "--resume", "")
    run("completion", "bash")

    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("words", [["--resume", ""], ["show", ""]])
def test_whatever_is_wrong_nothing_is_said(run: Run, words: list[str], environ: dict[str, str], tmp_path: Path) -> None:
    run("-p", "Hello", "--db", "broken.db")
    Path(tmp_path, "broken.db.projections").write_text("a shopping list\n" * 100)
    folder = Path(environ["HOME"], ".reenact")
    folder.mkdir()

    for log in ("missing.db", "broken.db", ".", "postgresql://me:secret@host/log", "\udcff"):
        assert completed(run(*words, _REENACT_COMPLETE="bash", REENACT_DB=log)) == ["words"]
    (folder / "settings.json").write_text("{")
    assert completed(run(*words, _REENACT_COMPLETE="bash")) == ["words"]


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.sampled_from(["-", "--", "-p", "--db", "log", "=", "--type", "-x", "é\udcff", "a b", ""])))
def test_any_line_can_be_completed_and_only_plain_words_are_offered(run: Run, words: list[str]) -> None:
    lines = completed(run(*words, _REENACT_COMPLETE="zsh"))

    assert lines[0] in {"words", "files"}
    assert all(PLAIN.fullmatch(line.partition("\t")[0]) for line in lines[1:])


def test_words_that_mean_something_to_a_shell_or_a_terminal_are_shown_as_escapes(run: Run, complete: Complete) -> None:
    session = run("-p", HOSTILE, "--output-format", "json").result["session_id"]

    (about,) = complete("--resume", session).values()

    assert about.isprintable()
    assert "\\u001b" in about


def test_completing_waits_for_nothing_that_is_not_needed(command: list[str], environ: dict[str, str]) -> None:
    heavy = {"anthropic", "prompt_toolkit", "pykka", "rich", "sqlalchemy"}
    loaded = [command[0], "-P", "-X", "importtime", *command[2:], "--resume", ""]

    done = subprocess.run(
        loaded, capture_output=True, text=True, env={**environ, "_REENACT_COMPLETE": "bash"}, check=True, timeout=60
    )

    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert done.stdout == "words\n"
    assert imported & heavy == set()
    assert "typer" in imported, "the list of what is imported must be one"


@pytest.fixture
def directory(tmp_path: Path, environ: dict[str, str]) -> Path:
    """Return a directory to work in; the command is on the path."""
    program = tmp_path / "bin" / "reenact"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m reenact "$@"\n')
    program.chmod(0o755)
    environ["PATH"] = f"{program.parent}{os.pathsep}{environ['PATH']}"
    working = tmp_path / "working"
    working.mkdir()
    return working


STARTED = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(reenact completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'eval "$(reenact completion zsh)"'),
    "fish": (
        ["fish", "--no-config", "-i", "-C", "function fish_prompt; echo -n '$ '; end"],
        "reenact completion fish | source",
    ),
}
READY, PROMPT = "ready to complete", "$ "


@pytest.fixture
def shell(directory: Path, environ: dict[str, str]) -> Iterator[Shell]:
    """Return what starts a shell that completes."""
    with ExitStack() as shells:

        def shell(name: str) -> TerminalEmulator:
            if shutil.which(name) is None:
                pytest.skip(f"{name} is not installed, so what it makes of the script cannot be seen")
            argv, line = STARTED[name]
            terminal = shells.enter_context(
                TerminalEmulator(argv, env={**environ, "PS1": PROMPT}, cwd=directory, cols=120, timeout=PATIENCE)
            )
            terminal.send_line(f"{line} && echo {READY.replace(' ', '_')} | tr _ ' '")
            terminal.wait_for(READY)
            terminal.wait_for(PROMPT)
            return terminal

        yield shell


@pytest.mark.parametrize("name", STARTED)
def test_a_shell_completes_what_is_typed(shell: Shell, directory: Path, name: str) -> None:
    (directory / "my policy.json").write_text("{}")
    terminal = shell(name)

    for typed, whole in (
        ("reenact --out", "reenact --output-format"),
        ("reenact --output-format=j", "reenact --output-format=json"),
        ("reenact verif", "reenact verify"),
        ("reenact --policy my", r"reenact --policy my\ policy.json"),
    ):
        terminal.write(f"{typed}\t")
        terminal.get_by_text(whole).expect_visible()
        terminal.send_key(SpecialKey.CTRL_U)


def test_sessions_are_listed_with_their_first_words_and_nothing_of_these_is_run(
    run: Run, shell: Shell, directory: Path, environ: dict[str, str]
) -> None:
    sessions = [
        run("-p", text, "--db", "working/log.db", "--output-format", "json").result["session_id"]
        for text in (HOSTILE, "About pears")
    ]
    environ["REENACT_DB"] = "log.db"
    terminal = shell("bash")

    terminal.write("reenact --resume \t")
    terminal.get_by_text("reenact --resume ses_").expect_visible()
    terminal.write("\t\t")
    terminal.wait_for("About $(touch owned) `touch owned`; touch owned")

    listed = terminal.get_stripped_output()
    assert "About pears" in listed
    assert all(session in listed for session in sessions)
    assert not (directory / "owned").exists()
