"""The fixtures `terminal` and `cli`, as the test run of a user sees them."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from xml.etree import ElementTree as ET

import pytest

from reenact.terminal.fixture import programs
from reenact.terminal.fixture.programs import name_of
from tests.docs.pages import ROOT, blocks

pytest_plugins = ["pytester"]
for name in ("fixture.programs", "screen.drawing", "screen.engine"):
    # These are imported when they are needed. A test run within this one forgets what was imported since it began, and
    # would read the declarations of the engine's library each time.
    importlib.import_module(f"reenact.terminal.{name}")


@pytest.fixture
def user(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Return the directory of a user who has only this plugin."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return pytester


def run(user: pytest.Pytester, tests: str, *arguments: str) -> pytest.RunResult:
    """Run the tests in this process."""
    user.makepyfile(test_user=dedent(tests))
    basetemp = f"--basetemp={user.path / 'temporary'}"
    return user.runpytest_inprocess("-p", "reenact.terminal.plugin", "-p", "no:cacheprovider", basetemp, *arguments)


PASSING = """
import os
from pathlib import Path

import pytest

from reenact.terminal import FixtureOptions, MockFixture, MockResponse

left = []


def test_a_program_runs_in_surroundings_of_its_own(terminal, terminal_fixture):
    before = dict(os.environ), os.getcwd()
    terminal_fixture.create_file("notes.txt", "one\\n")
    shell = terminal("/bin/sh", "-c", "cat notes.txt; echo $HOME $PWD; cat", cols=200, rows=5)
    shell.wait_for("one\\n" + terminal_fixture.env["HOME"])
    shell.wait_for(str(terminal_fixture.get_temp_dir()))
    assert (shell.screen.columns, shell.timeout) == (200, 12.5)
    assert before == (dict(os.environ), os.getcwd())
    left.extend([shell, terminal_fixture.env["HOME"]])


def test_nothing_is_left_of_it(terminal):
    shell, home = left
    assert not shell.is_running
    assert not Path(home).exists()
    assert "one" in shell.get_output()


def test_the_command_at_a_terminal_and_without(cli):
    at_terminal = cli("at-terminal")
    at_terminal.wait_for("at-terminal")
    without = cli.run("without", input="x")
    assert (without.stdout, without.stderr, without.exit_status.code) == ("without", "", 0)
    assert cli.command[0] == "printf"


@pytest.mark.parametrize("text", ["Hi", "Ho"])
class TestWithOptions:
    @pytest.fixture
    def terminal_options(self, text):
        return FixtureOptions(env={"TEXT": text}, mocks=MockFixture(api_responses=[MockResponse(text=text)]))

    def test_options_are_a_fixture(self, terminal, text, terminal_fixture):
        terminal("/bin/sh", "-c", "echo $TEXT $ANTHROPIC_BASE_URL").wait_for(f"{text} http://127.0.0.1:")
        assert terminal_fixture.api.requests == []


class TestOfAUserWithOtherIdeas:
    @pytest.fixture
    def terminal(self):
        return "an airport"

    def test_the_users_fixture_wins_and_ours_do_not_mind(self, terminal, cli):
        assert terminal == "an airport"
        assert cli.run("fine").stdout == "fine"
"""


def test_programs_run_in_the_surroundings_of_a_test_and_leave_nothing(user: pytest.Pytester) -> None:
    user.makeini("[pytest]\nterminal_command = printf %s\nterminal_timeout = 12.5\n")

    done = run(user, PASSING)

    done.assert_outcomes(passed=6)
    done.stdout.no_fnmatch_line("*terminal: *")


FAILING = """
def test_fails(terminal, cli):
    shell = terminal("/bin/sh", "-c", "printf '\\\\033[31mred\\\\033[0m \\\\007'; cat", cols=30, rows=5)
    shell.wait_for("red")
    terminal("/bin/echo", "the second one").wait_for_exit()
    assert cli.run("told").stdout == "not this"
"""


def test_a_test_that_fails_tells_what_was_shown_and_keeps_it(user: pytest.Pytester) -> None:
    user.makeini("[pytest]\nterminal_command = printf %s\nterminal_keep = kept/here\n")

    done = run(user, FAILING)

    done.assert_outcomes(failed=1)
    (kept,) = (user.path / "kept" / "here").iterdir()
    done.stdout.fnmatch_lines(
        [
            "*- terminal: /bin/sh -c *",
            "it is still running",
            "its screen, 30 by 5, the cursor in row 0, column 4:",
            "| red",
            "its output:",
            "> red \\x07",
            f"kept: {kept}/1-sh.cast",
            f"kept: {kept}/1-sh.svg",
            "*- terminal: /bin/echo 'the second one' -*",
            "it has ended: exit code 0",
            "| the second one",
            "*- command: *printf %s told -*",
            "it has ended: exit code 0",
            "its standard output:",
            "> told",
            "its standard error is empty",
        ]
    )
    assert kept.name.startswith("test_user.py-test_fails-")
    assert sorted(path.name for path in kept.iterdir()) == ["1-sh.cast", "1-sh.svg", "2-echo.cast", "2-echo.svg"]
    header, *events = (json.loads(line) for line in (kept / "1-sh.cast").read_text().splitlines())
    assert header["version"] == 3
    assert "red" in "".join(data for _, code, data in events if code == "o")
    assert "red" in "".join(ET.parse(kept / "1-sh.svg").getroot().itertext())  # noqa: S314 - of our own making


SHELL = """
import pytest

from reenact.terminal import AssertionMatcher


@pytest.fixture
def shell(terminal):
    return terminal("/bin/sh", "-c", "echo ready; cat", timeout=0.1)
"""
FAILURES = {
    'shell.get_by_text("done").expect_visible()': "ExpectationError: expected 'done' to be visible",
    'shell.get_by_text("done").text': "WaitTimeoutError: timed out after 0.1 s waiting for 'done' to be visible",
    'shell.wait_for("done")': "WaitTimeoutError: timed out after 0.1 s waiting for 'done'",
    'shell.expect_screen("done")': "ExpectationError: the screen of '/bin/sh' is not as expected",
    'shell.send_key("no such")': "TerminalTestError: key: there is no key 'no such'",
    'shell.wait_for("done", timeout=-1)': "TerminalTestError: timeout must be a number of seconds",
    "shell.resize(0, 0)": "TerminalTestError: cols is 0",
    'terminal("/no/such")': "TerminalTestError: '/no/such' was not started",
    'terminal.run(("/no/such",))': "TerminalTestError: '/no/such' was not started",
    'terminal.run(("/bin/sleep", "60"), timeout=0.1)': "WaitTimeoutError: '/bin/sleep' did not end in time",
    'terminal_fixture.read_file("no such")': "ExpectationError: the file 'no such' cannot be read",
    'AssertionMatcher().check("a", "b")': "TerminalTestError: options is str, and must be AssertionOptions",
}
"""Lines of tests, and the errors that they are shown with."""


def test_a_failure_is_shown_at_the_line_of_the_test_without_frames_of_the_kit(user: pytest.Pytester) -> None:
    tests = [f"def test_{at}(shell, terminal, terminal_fixture):\n    {line}" for at, line in enumerate(FAILURES)]

    done = run(user, "\n\n\n".join([SHELL, *tests]))
    full = run(user, "\n\n\n".join([SHELL, tests[0]]), "--full-trace")

    done.assert_outcomes(failed=len(FAILURES))
    for line, error in FAILURES.items():
        done.stdout.fnmatch_lines([f">       {line}", f"E       *{error}*", "test_user.py:*Error"])
    done.stdout.no_fnmatch_line("*reenact/terminal/*.py:*")
    done.stdout.no_fnmatch_line("*/concurrent/futures/*")
    done.stdout.no_fnmatch_line("*/subprocess.py:*")
    full.stdout.fnmatch_lines(["*reenact/terminal/*.py:*"])


def test_an_unforeseen_error_of_the_kit_is_shown_with_its_place(
    user: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.terminal.session.locator._pattern_text", None)

    done = run(user, f"{SHELL}\n\ndef test_it(shell):\n    shell.get_by_text('done')")

    done.stdout.fnmatch_lines([">       shell.get_by_text('done')", "*reenact/terminal/session/locator.py:*"])


def test_what_is_kept_is_beside_the_temporary_files_of_pytest_unless_told(user: pytest.Pytester) -> None:
    done = run(user, "def test_fails(terminal):\n    terminal('/bin/cat')\n    assert False\n")

    done.assert_outcomes(failed=1)
    assert [path.name for path in (user.path / "temporary" / "terminal").rglob("*.svg")] == ["1-cat.svg"]


def test_a_program_that_resists_its_end_fails_no_test(user: pytest.Pytester) -> None:
    stubborn = "trap : HUP TERM; echo ready; while :; do sleep 1000; done"

    done = run(user, f"def test_passes(terminal):\n    terminal('/bin/sh', '-c', {stubborn!r}).wait_for('ready')\n")

    done.assert_outcomes(passed=1)


FAILING_AROUND = """
import pytest


@pytest.fixture
def ready(terminal):
    terminal("/bin/echo", "in the setup").wait_for("ready")


@pytest.fixture
def tidy(terminal):
    yield terminal
    assert False


def test_one(ready):
    pass


def test_other(tidy):
    tidy("/bin/echo", "in the test").wait_for("test")
"""


def test_what_fails_before_and_behind_a_test_is_told_too(user: pytest.Pytester) -> None:
    done = run(user, FAILING_AROUND)

    done.assert_outcomes(passed=1, errors=2)
    done.stdout.fnmatch_lines(["*ERROR at setup*", "| in the setup", "*ERROR at teardown*", "| in the test"])


def test_a_test_that_neither_passes_nor_fails_tells_nothing(user: pytest.Pytester) -> None:
    skipped = "import pytest\n\ndef test_it(terminal):\n    terminal('/bin/cat')\n    pytest.skip()\n"

    done = run(user, skipped)

    done.assert_outcomes(skipped=1)
    assert not (user.path / "temporary" / "terminal").exists()


def test_what_cannot_be_told_or_kept_hides_no_failure(user: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise ZeroDivisionError

    user.makeini("[pytest]\nterminal_keep = test_user.py/below\n")
    failing = "def test_fails(terminal):\n    terminal('/bin/cat')\n    assert 1 == 2\n"

    not_kept = run(user, failing)
    monkeypatch.setattr(programs, "_tail", fail)
    not_told = run(user, failing)

    why = "nothing could be kept of it: */test_user.py/below/*: Not a directory"
    not_kept.stdout.fnmatch_lines(["*assert 1 == 2", "*terminal: /bin/cat*", why])
    not_told.stdout.fnmatch_lines(["*assert 1 == 2", "*what it showed cannot be told: ZeroDivisionError*"])


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("terminal_command = a 'b", 'terminal_command: "a \'b" is not a command line'),
        ("terminal_command =", "terminal_command: '' names no program"),
        ("terminal_timeout = soon", "terminal_timeout ('soon')"),
        ("terminal_timeout = -1", "terminal_timeout ('-1')"),
    ],
)
def test_a_setting_that_is_none_is_named(user: pytest.Pytester, setting: str, complaint: str) -> None:
    user.makeini(f"[pytest]\n{setting}\n")

    done = run(user, "def test_it(cli): ...\n")

    done.assert_outcomes(errors=1)
    assert complaint in done.stdout.str()


def test_nothing_is_imported_before_a_fixture_is_asked_for() -> None:
    look = """
    import sys

    before = set(sys.modules)  # what measures coverage, for one
    import pytest
    import reenact.testing.plugin
    known = set(sys.modules)
    import reenact.terminal.plugin
    print(*sorted(set(sys.modules) - known - before))
    """

    done = subprocess.run(
        [sys.executable, "-c", dedent(look)],
        env={"PYTHONPATH": str(Path(programs.__file__).parents[3])},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert done.stdout.split() == ["reenact.terminal", "reenact.terminal.plugin"]


def test_the_tests_of_the_page_pass(user: pytest.Pytester) -> None:
    settings, tests = (
        block for block in blocks(ROOT / "docs" / "terminal-fixtures.md") if block.language in {"ini", "py"}
    )
    user.makeini(settings.text)

    done = run(user, tests.text)

    done.assert_outcomes(passed=3)


def test_names_of_directories_are_those_of_one_test() -> None:
    names = [name_of(test) for test in ("a.py::test[x/y]", "a.py::test[x:y]", "a.py::test[" + "é" * 500, "../..", "")]

    assert len(set(names)) == len(names)
    assert all(name.isascii() and len(name) < 100 and "/" not in name and name[0] not in ".-" for name in names[:-2])
