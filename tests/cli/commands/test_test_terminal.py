"""`reenact test-terminal`: what is run, printed and written, and the exit code that comes of it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from reenact.terminal import SpecialKey
from reenact.testing import wait_until
from tests.cli.conftest import PATIENCE, Chat, Outcome, Run

GOOD = "{name: greets, command: echo hello, expectedExitCode: 0, script: [{wait: hello}]}"
BAD = "{name: fails, command: [sh, -c, 'echo some words; exit 1'], expectedExitCode: 0}"
SKIPPED = "{name: waits for a fix, command: 'false', expectedExitCode: 0, skip: not yet}"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Return a file with a test that passes, one that fails, and one that is skipped."""
    file = tmp_path / "suite.yaml"
    file.write_text(f"suite: talks\ntests:\n- {GOOD}\n- {BAD}\n- {SKIPPED}\n")
    return file


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """Return a file with a test that passes."""
    file = tmp_path / "good.yaml"
    file.write_text(GOOD)
    return file


def refused(outcome: Outcome, said: str) -> None:
    """Assert that it could not be done at all, for a reason that is said."""
    assert outcome.code == 2
    assert outcome.out == ""
    assert said in outcome.err


def test_it_exits_with_0_if_all_pass_and_says_which(run: Run, good: Path) -> None:
    outcome = run("test-terminal", str(good))

    assert outcome.code == 0
    assert "greets" in outcome.out
    assert "1 passed" in outcome.out
    assert outcome.err == ""


def test_it_exits_with_1_if_any_fails_and_says_why(run: Run, suite: Path) -> None:
    outcome = run("test-terminal", str(suite))

    assert outcome.code == 1
    assert "the program ended with exit code 1, not with exit code 0" in outcome.out
    assert "some words" in outcome.out
    assert "not yet" in outcome.out


def test_it_exits_with_1_if_a_test_could_not_be_carried_out(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"command": "/no/such/program"}')

    outcome = run("test-terminal", "a.json")

    assert outcome.code == 1
    assert "/no/such/program" in outcome.out


def test_it_exits_with_0_if_all_that_is_left_is_skipped(run: Run, suite: Path) -> None:
    assert run("test-terminal", str(suite), "--filter", "WAITS for").code == 0


@pytest.mark.parametrize("text", ["Greets", "TALKS GREETS"])
def test_a_filter_leaves_what_has_the_text_in_its_name(run: Run, suite: Path, text: str) -> None:
    outcome = run("test-terminal", str(suite), "--filter", text)

    assert outcome.code == 0
    assert "fails" not in outcome.out


def test_reports_are_written_where_they_are_wanted(run: Run, suite: Path, tmp_path: Path) -> None:
    reports = ["--report", "junit=out/a=b.xml", "--report", "json=r.json", "--report", "html=r.html"]

    outcome = run("test-terminal", str(suite), *reports)

    assert outcome.code == 1
    cases = ET.parse(tmp_path / "out" / "a=b.xml").iter("testcase")  # noqa: S314 - we have written it
    assert [case.get("name") for case in cases] == ["greets", "fails", "waits for a fix"]
    assert "some words" in json.dumps(json.loads((tmp_path / "r.json").read_text()))
    assert (tmp_path / "r.html").read_text().lower().startswith("<!doctype html>")


def test_reports_are_written_although_nobody_reads_what_is_printed(
    command: list[str], environ: dict[str, str], good: Path, tmp_path: Path
) -> None:
    reading, writing = os.pipe()
    os.close(reading)

    with os.fdopen(writing, "wb") as nobody:
        started = [*command, "test-terminal", str(good), "--report", "junit=out.xml"]
        code = subprocess.run(
            started, stdout=nobody, env=environ, cwd=tmp_path, timeout=PATIENCE, check=False
        ).returncode

    assert code == 141
    assert "greets" in (tmp_path / "out.xml").read_text()


def test_a_full_disk_is_the_error_when_results_cannot_be_printed(
    run: Run, good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("reenact.terminal.report.generator.write_console", fail)

    outcome = run("test-terminal", str(good))

    assert outcome.code == 1
    assert "standard output cannot be written: No space left on device" in outcome.err


def test_a_configuration_says_which_reports_are_written(run: Run, good: Path, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("reporting: {formats: [console, junit, json], outputDir: there}")

    outcome = run("test-terminal", str(good), "--config", "config.yaml")

    assert outcome.code == 0
    assert sorted(file.name for file in (tmp_path / "there").iterdir()) == ["junit.xml", "report.json"]


def test_a_file_of_tests_may_say_that_itself(run: Run, good: Path, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"config: {{reporting: {{formats: [junit], outputDir: a}}}}\ntests: [{GOOD}]")
    (tmp_path / "b.yaml").write_text(f"config: {{reporting: {{formats: [junit], outputDir: b}}}}\ntests: [{GOOD}]")

    assert run("test-terminal", str(good), "a.yaml").code == 0
    refused(run("test-terminal", "a.yaml", "b.yaml"), "a.yaml and b.yaml do not agree on reporting; say it in one file")

    assert (tmp_path / "a" / "junit.xml").exists()


def test_retries_and_keep_are_passed_on(run: Run, suite: Path, tmp_path: Path) -> None:
    outcome = run(
        "test-terminal", str(suite), "--retries", "2", "--workers", "1", "--keep", "kept", "--report", "json=r"
    )

    assert outcome.code == 1
    assert sorted(file.suffix for file in (tmp_path / "kept").iterdir()) == [".cast", ".svg"]
    report = json.loads((tmp_path / "r").read_text())
    assert '"attempts": 3' in json.dumps(report)


def test_the_command_of_tests_that_name_none_may_be_given(run: Run, tmp_path: Path) -> None:
    program = tmp_path / "my program"
    program.write_text('#!/bin/sh\necho "$0 $*"\n')
    program.chmod(0o755)
    (tmp_path / "a.yaml").write_text(
        "config: {cliCommand: 'false'}\n"
        "tests:\n"
        f"- {{name: ours, cliArgs: [c], script: [{{wait: '{program} a b c'}}]}}\n"
        "- {name: theirs, command: echo theirs, script: [{wait: theirs}]}\n"
    )

    assert run("test-terminal", "a.yaml").code == 1
    assert run("test-terminal", "a.yaml", "--command", "'./my program' 'a b'").code == 0
    assert run("test-terminal", "a.yaml", "--command", "'my program' 'a b'").code == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Missing argument 'FILE ...'"),
        (["nowhere.yaml"], "nowhere.yaml: No such file or directory"),
        (["."], "the name of the file is to end with .yaml, .yml, .json"),
        (["good.yaml", "--config", "nowhere.yaml"], "nowhere.yaml: No such file or directory"),
        (["good.yaml", "--config", "good.yaml"], "unknown field name; expected one of cliCommand,"),
        (
            ["good.yaml", "--report", "pdf=x"],
            "--report must be FORMAT=PATH, with one of junit, html, json, console, not 'pd",
        ),
        (["good.yaml", "--report", "junit"], "--report must be FORMAT=PATH"),
        (["good.yaml", "--workers", "0"], "--workers"),
        (["good.yaml", "--retries", "-1"], "--retries"),
        (["good.yaml", "--filter", "bad"], "there is no test in these files with 'bad' in its name"),
        (["none.yaml"], "there is no test in these files"),
        (["good.yaml", "--command", "'"], "--command: this is not a command line: no closing quotation"),
        (["good.yaml", "--keep", "good.yaml/x"], "good.yaml/x: nothing can be kept there: Not a directory"),
        (["bad.yaml"], "bad.yaml: line 1: script[0].wait.wiat: unknown field"),
    ],
)
def test_it_exits_with_2_if_there_is_nothing_that_can_be_done(
    run: Run, good: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "none.yaml").write_text("tests: []")
    (tmp_path / "bad.yaml").write_text("script: [{wait: {wiat: x}}]")

    refused(run("test-terminal", *arguments), said)


@pytest.mark.parametrize("place", ["good.yaml/x", ".", "di\x1br"])
def test_a_report_that_cannot_be_written_is_found_before_anything_is_run(
    run: Run, good: Path, tmp_path: Path, place: str
) -> None:
    (tmp_path / "di\x1br").mkdir()
    good.write_text("{name: leaves a file, command: 'touch ${HERE}/ran'}")

    outcome = run("test-terminal", str(good), "--report", f"json={place}")

    refused(outcome, f"the report cannot be written to {place!r}")
    assert not (tmp_path / "ran").exists()


def test_a_file_that_is_given_twice_is_run_once(run: Run, good: Path) -> None:
    outcome = run("test-terminal", str(good), "good.yaml", "./good.yaml")

    assert outcome.code == 0
    assert "1 passed, 0 failed" in outcome.out


def test_only_is_said_of_all_files_before_any_are_filtered(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "tests:\n"
        "- {name: first, command: 'false', expectedExitCode: 0}\n"
        "- {name: second, command: 'true', expectedExitCode: 0, only: true}\n"
    )

    outcome = run("test-terminal", "a.yaml", "--filter", "first")

    assert outcome.code == 0
    assert "another test says `only`" in outcome.out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "tests: [{name: a, command: cat, expectedExitCode: 300}]",
            "tests[0]: expectedExitCode must be from 0 to 255, not 300",
        ),
        (
            "tests: [{name: a, command: cat, expectedExitCode: -1}]",
            "tests[0]: expectedExitCode must be from 0 to 255, not -1",
        ),
        ("{name: a, command: cat, timeout: 1e300}", "timeout must be a number of seconds above 0, 86,400"),
        ("{name: a, command: cat, timeout: " + "9" * 400 + "}", "line 1: timeout: the number 999"),
        ("{name: a, command: cat, timeout: " + "9" * 5000 + "}", "line 1, column 34: the number has 5,000 digits"),
        (
            "{name: a, command: cat, script: [{delay: 1e10}]}",
            "script[0]: a step delay: value must be a number of seconds",
        ),
        ('tests: [{name: a, command: cat},\n {name: b, command: ["a\\0b"]}]', "line 2: tests[1]: no program"),
        ('tests: [{name: a, cliArgs: ["a\\0b"]}]', "line 1: tests[0]: no program takes NUL"),
        ("{name: a, fixture: {tempDirPrefix: a/b}}", "line 1: fixture: tempDirPrefix"),
        ("{name: a, fixture: {mocks: {filesystem: {../x: y}}}}", "line 1: fixture: filesystem: '../x' has `..` in it"),
        ("{name: a, fixture: {env: {A=B: y}}}", "line 1: fixture: env: 'A=B' cannot be the name of a variable"),
        ('{name: a, command: cat, "\\e]0;x\\a": 1}', r"unknown field \x1b]0;x\x07"),
    ],
)
def test_what_could_never_be_run_is_refused_with_its_place(run: Run, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.yaml").write_text(text)

    outcome = run("test-terminal", "a.yaml")

    refused(outcome, said)
    assert outcome.err.rstrip("\n").isprintable()


def test_the_name_of_a_file_drives_no_terminal(run: Run) -> None:
    refused(run("test-terminal", "a\x1b]0;x\x07.yaml"), r"a\x1b]0;x\x07.yaml: No such file")


def test_without_the_extra_it_says_what_to_install(run: Run, good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "reenact.terminal.screen.engine", None)

    refused(run("test-terminal", str(good)), "pip install 'reenact[terminal]'")


def test_in_ci_problems_are_lines_of_json_and_the_report_is_plain(run: Run, suite: Path) -> None:
    failed = run("test-terminal", str(suite), CI="true")
    broken = run("test-terminal", "nowhere.yaml", CI="true")

    assert failed.code == 1
    assert "\x1b" not in failed.out + failed.err
    assert json.loads(broken.err)["type"] == "invalid_configuration"


def test_help_waits_for_no_terminal(start: Run) -> None:
    outcome = start("test-terminal", "--help")

    assert outcome.code == 0
    assert "--report FORMAT=PATH" in " ".join(outcome.out.split())


def test_people_see_how_far_it_is_and_ctrl_c_ends_every_program(chat: Chat, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    (tmp_path / "a.yaml").write_text(
        "tests:\n"
        "- {name: short, command: 'true'}\n"
        '- {name: long, command: [sh, -c, "echo $$ >\\"$0/pid\\"; read line", "${HERE}"],\n'
        "   script: [{wait: never}], timeout: 60}\n"
    )

    terminal = chat("test-terminal", "a.yaml", until="tests: 1 of 2")
    wait_until(lambda: pid.exists() and pid.read_text().endswith("\n"))
    terminal.send_key(SpecialKey.CTRL_C)

    assert terminal.wait_for_exit().code == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
