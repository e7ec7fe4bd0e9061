"""Test cases that are run: what becomes of each, again and again, several at a time, and what is left behind."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.terminal.cases.controller import InteractionController
from reenact.terminal.cases.loading import CaseFile, TerminalTestCase
from reenact.terminal.cases.runner import attempt, run_cases
from reenact.terminal.cases.steps import script_of
from reenact.terminal.config import Parallel, TerminalSize, TerminalTestConfig
from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType
from reenact.terminal.fixture.fixture import TestFixture
from reenact.terminal.fixture.options import FixtureOptions, MockFixture
from reenact.terminal.report.results import TestResult, TestSuiteResult
from reenact.testing import wait_until
from tests.terminal.raising import raises

PREFIX = f"reenact-cases-{os.getpid()}-"
Json: TypeAlias = Any
CONFIG = TerminalTestConfig()
DEFAULTS: dict[str, Json] = {"fixture": FixtureOptions(temp_dir_prefix=PREFIX), "timeout": 20.0}


def case(name: str, line: str = "read line", steps: Sequence[object] = (), **fields: Json) -> TerminalTestCase:
    """Return a test of a line of the shell."""
    return TerminalTestCase(
        name=name,
        command=("/bin/sh", "-c", line),
        script=script_of(list(steps), name=name),
        **{**DEFAULTS, **fields},
    )


def with_env(**env: str) -> FixtureOptions:
    return FixtureOptions(temp_dir_prefix=PREFIX, env=env)


def result_of(one: TerminalTestCase, config: TerminalTestConfig = CONFIG, **options: Json) -> TestResult:
    """Run a test alone."""
    ((result,),) = (suite.tests for suite in run_cases([one], config, **options))
    return result


def left_behind() -> list[Path]:
    """Return the directories of fixtures that are still there."""
    return list(Path(tempfile.gettempdir()).glob(f"{PREFIX}*"))


def test_a_test_passes_if_its_script_does_and_the_program_ends_as_expected() -> None:
    (suite,) = run_cases(
        [
            case("a talk", "read name; echo Hello, $name", [{"sendLine": "Ada"}, {"wait": "Hello, Ada"}]),
            case("an exit code", "exit 3", expected_exit_code=3),
            case("a signal", "kill -TERM $$", expected_signal="SIGTERM"),
            case("an end that was waited for", "exit 4", ["waitForExit"], expected_exit_code=4),
            case("still running", "read line"),
        ]
    )

    assert [(test.name, test.status, test.error) for test in suite.tests] == [
        ("a talk", "passed", None),
        ("an exit code", "passed", None),
        ("a signal", "passed", None),
        ("an end that was waited for", "passed", None),
        ("still running", "passed", None),
    ]
    assert suite.name == "terminal"
    assert suite.passed == 5
    assert suite.tests[0].output == "Ada\r\nHello, Ada\r\n"
    assert suite.tests[0].screen == "Ada\nHello, Ada"
    assert left_behind() == []


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (case("x", "exit 1", expected_exit_code=0), "the program ended with exit code 1, not with exit code 0"),
        (case("x", "kill -KILL $$", expected_exit_code=137), "ended with SIGKILL, not with exit code 137"),
        (case("x", "exit 15", expected_signal="SIGTERM"), "ended with exit code 15, not with SIGTERM"),
        (case("x", "echo a", [{"wait": "b"}], expected_exit_code=0), "step 1, wait 'b': "),
        (case("x", "read a", [{"wait": "b", "timeout": 0}]), "step 1, wait 'b': "),
        (
            case("x", "read a", timeout=0.2, expected_exit_code=0),
            "step 1, waitForExit: the time limit of 0.2 s is over",
        ),
        (case("x", "read a", [{"delay": 60}], timeout=0.1), "step 1, delay 60: the time limit of 0.1 s is over"),
        (
            case("x", "stty raw; printf ready; exec sleep 60", [{"wait": "ready"}, {"send": "x" * 100_000}], timeout=4),
            "step 2, send 'xxx",
        ),
    ],
)
def test_a_test_fails_if_the_program_does_anything_else(one: TerminalTestCase, said: str) -> None:
    result = result_of(one)

    assert result.status == "failed"
    assert said in (result.error or "")
    assert left_behind() == []


def test_all_failed_assertions_are_told_and_the_wrong_exit_code_too() -> None:
    steps = ["waitForExit", {"assert": {"contains": "b"}}, {"assert": {"contains": "a"}}, {"assert": {"contains": "c"}}]

    result = result_of(case("x", "echo a; exit 1", steps, expected_exit_code=0))

    said = (result.error or "").split("\n\n")
    assert said[0].startswith("step 2, assert contains 'b': ")
    assert said[1].startswith("step 4, assert contains 'c': ")
    assert said[2] == "the program ended with exit code 1, not with exit code 0"
    assert [assertion.passed for assertion in result.assertions] == [False, True, False]


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (TerminalTestCase(name="x", command=("/no/such/program",), script=script_of([])), "/no/such/program"),
        (case("x", fixture=FixtureOptions(mocks=MockFixture(filesystem={"../x": ""}))), "../x"),
        (case("x", fixture=FixtureOptions(env={"A=B": ""})), "A=B"),
    ],
)
def test_it_is_an_error_if_nothing_could_be_tested(one: TerminalTestCase, said: str) -> None:
    result = result_of(one)

    assert result.status == "error"
    assert said in (result.error or "")


class _NotRemovable(TestFixture):
    """Cannot be taken down once it was set up, or says so."""

    def teardown(self) -> None:
        was_set_up = self._context is not None
        super().teardown()
        if was_set_up:
            raise TerminalTestError(TerminalTestErrorType.FIXTURE_TEARDOWN_FAILED, "this could not be removed: x")


def test_it_is_an_error_if_the_fixture_of_a_test_that_passed_cannot_be_taken_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{attempt.__module__}.TestFixture", _NotRemovable)

    passed, failed = run_cases([case("passes"), case("fails", "exit 1", expected_exit_code=0)])[0].tests

    assert (passed.status, passed.error) == ("error", "this could not be removed: x")
    assert failed.status == "failed"
    assert (failed.error or "").endswith("not with exit code 0\n\nthis could not be removed: x")


def test_what_nobody_has_thought_of_is_the_error_of_one_test(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr(InteractionController, "execute", broken)

    result = result_of(case("x"))

    assert (result.status, result.error) == ("error", "ZeroDivisionError: of all things")
    assert "in broken" in (result.stack or "")
    assert left_behind() == []


ONCE = 'if [ -e "$SEEN" ]; then echo again; else : >"$SEEN"; echo first; exit 1; fi'


def test_a_test_that_fails_is_tried_again_and_its_last_attempt_counts(tmp_path: Path) -> None:
    flaky = case("flaky", ONCE, expected_exit_code=0, fixture=with_env(SEEN=str(tmp_path / "seen")))

    result = result_of(flaky, retries=3)

    assert (result.status, result.attempts, result.output) == ("passed", 2, "again\r\n")


@pytest.mark.parametrize(("own", "of_run", "attempts"), [(None, 0, 1), (None, 2, 3), (1, 0, 2), (0, 2, 1)])
def test_a_test_says_itself_how_often_it_is_tried_or_the_run_does(own: int | None, of_run: int, attempts: int) -> None:
    result = result_of(case("fails", "exit 1", expected_exit_code=0, retries=own), retries=of_run)

    assert (result.status, result.attempts) == ("failed", attempts)


def test_each_attempt_has_a_fixture_of_its_own(tmp_path: Path) -> None:
    line = 'ls -A; : >mark; pwd >>"$PLACES"; exit 1'
    fixture = with_env(PLACES=str(tmp_path / "places"))

    result = result_of(case("x", line, expected_exit_code=0, fixture=fixture), retries=2)

    assert result.output == ""
    assert len(set((tmp_path / "places").read_text().splitlines())) == 3


def test_skipped_tests_are_not_run_and_say_why() -> None:
    (suite,) = run_cases([case("a", skip="on Mondays"), case("b", skip=True), case("c", skip=False)])

    assert [(test.name, test.status, test.reason) for test in suite.tests] == [
        ("a", "skipped", "on Mondays"),
        ("b", "skipped", None),
        ("c", "passed", None),
    ]


def test_if_some_tests_say_only_then_only_they_are_run_in_all_files() -> None:
    first = CaseFile(name="first", cases=(case("a"), case("b", only=True)))
    second = CaseFile(name="second", cases=(case("c"), case("d", only=True, skip=True)))

    suites = run_cases([first, second])

    assert [(suite.name, [test.status for test in suite.tests]) for suite in suites] == [
        ("first", ["skipped", "passed"]),
        ("second", ["skipped", "skipped"]),
    ]
    assert suites[1].tests[0].reason == "another test says `only`"
    assert suites[1].started is None
    assert suites[1].duration == 0


def test_if_all_that_say_only_are_skipped_the_others_are_run() -> None:
    (suite,) = run_cases([case("a"), case("b", only=True, skip=True)])

    assert [test.status for test in suite.tests] == ["passed", "skipped"]


def test_results_come_in_the_order_of_the_tests_whichever_ends_first(tmp_path: Path) -> None:
    gate = str(tmp_path / "gate")
    os.mkfifo(gate)
    told: list[str] = []

    (suite,) = run_cases(
        [
            case("waits", 'read line <"$GATE"', expected_exit_code=0, fixture=with_env(GATE=gate)),
            case("opens", 'echo >"$GATE"', expected_exit_code=0, fixture=with_env(GATE=gate)),
            case("not run", skip=True),
        ],
        workers=2,
        progress=lambda result: told.append(result.name),
    )

    assert [test.name for test in suite.tests] == ["waits", "opens", "not run"]
    assert [test.status for test in suite.tests] == ["passed", "passed", "skipped"]
    assert sorted(told) == ["not run", "opens", "waits"]


def test_no_more_tests_than_workers_are_run_at_the_same_time(tmp_path: Path) -> None:
    line = 'mkdir "$LOCK" && : && rmdir "$LOCK"'
    alone = [
        case(str(number), line, expected_exit_code=0, fixture=with_env(LOCK=str(tmp_path / "lock")))
        for number in range(4)
    ]

    suites = [
        *run_cases(alone, workers=1),
        *run_cases(alone, TerminalTestConfig(parallel=Parallel(enabled=False, max_workers=4))),
    ]

    assert [suite.passed for suite in suites] == [4, 4]


def test_the_configuration_gives_command_environment_size_and_time() -> None:
    config = TerminalTestConfig(
        cli_command="/bin/sh -c 'stty size; echo \"$A $B $0\"; read line'",
        default_env={"A": "a", "B": "b"},
        default_terminal_size=TerminalSize(50, 7),
        global_timeout=2.0,
    )
    one = TerminalTestCase(
        name="x", script=script_of([{"wait": "!"}]), cli_args=("zero",), fixture=FixtureOptions(env={"B": "bb"})
    )

    result = result_of(one, config)

    assert result.output == "7 50\r\na bb zero\r\n"
    assert (result.error or "").startswith("step 1, wait '!': the time limit of 2 s is over: ")


def test_requirement_10_3_what_a_failing_program_showed_is_kept_with_a_recording_and_a_picture(tmp_path: Path) -> None:
    cases = [
        case("fails / badly!", "echo some words; exit 1", expected_exit_code=0),
        case("passes", "echo other words"),
        TerminalTestCase(name="never began", command=("/no/such/program",), script=script_of([])),
    ]

    failed, passed, broken = run_cases(cases, keep=tmp_path / "kept" / "here")[0].tests

    assert failed.output == "some words\r\n"
    assert failed.screen == "some words"
    cast, picture = (Path(name) for name in failed.attachments)
    assert (cast.name, picture.name) == ("001-terminal-fails-badly.cast", "001-terminal-fails-badly.svg")
    header, *events = [msgspec.json.decode(line) for line in cast.read_text().splitlines()]
    assert header["version"] == 3
    assert "".join(data for _, code, data in events if code == "o") == "some words\r\n"
    assert "some words" in picture.read_text().replace("\u00a0", " ")
    assert passed.attachments == broken.attachments == ()
    assert len(list((tmp_path / "kept" / "here").iterdir())) == 2


def test_what_cannot_be_kept_is_said_and_no_result_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("reenact.terminal.session.recording.Recording.save", full)

    result = result_of(case("x", "exit 1", expected_exit_code=0), keep=tmp_path)

    assert result.status == "failed"
    assert (result.error or "").endswith("001-terminal-x.svg could not be written: No space left on device")
    assert result.attachments == ()


def test_a_long_output_is_kept_to_its_end() -> None:
    result = result_of(case("x", "head -c 300000 /dev/zero | tr '\\0' x; printf end", ["waitForExit"]))

    note, _, output = (result.output or "").partition("\n")
    assert note == "(the output before this is left out)"
    assert len(output) == 200_000
    assert output.endswith("xend")


def test_a_long_output_is_cut_between_its_lines() -> None:
    red = "yes $(printf '\\033[31mred\\033[0m') | head -n 30000"
    result = result_of(case("x", red, ["waitForExit"]))

    assert set((result.output or "").splitlines()) == {"(the output before this is left out)", "\x1b[31mred\x1b[0m"}


@pytest.mark.parametrize(
    ("options", "problem"),
    [({"workers": 0}, "workers must be 1 or more, not 0"), ({"retries": -1}, "retries must be 0 or more, not -1")],
)
def test_arguments_that_cannot_be_are_refused(options: Json, problem: str) -> None:
    with raises(TerminalTestErrorType.INVALID_CONFIG, problem):
        run_cases([case("x")], **options)


def test_a_directory_that_cannot_be_made_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(TerminalTestError, match="file/kept: nothing can be kept there: Not a directory"):
        run_cases(
            [case("x", ': >"$RAN"', fixture=with_env(RAN=str(tmp_path / "ran")))], keep=tmp_path / "file" / "kept"
        )

    assert not (tmp_path / "ran").exists()


def test_an_interrupt_ends_every_program_and_removes_every_fixture_before_it_goes_on(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    fixture = with_env(PIDS=str(pids), BEGUN=str(tmp_path / "begun"))
    line = 'echo $$ >>"$PIDS"; read line'
    long = [case(f"long {number}", line, [{"wait": "never"}], fixture=fixture) for number in range(3)]
    threads = set(threading.enumerate())

    def interrupt(_: TestResult) -> None:
        wait_until(lambda: pids.exists() and len(pids.read_text().splitlines()) == 3)
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_cases(
            [case("short", "exit 0"), *long, case("never begun", ': >"$BEGUN"', fixture=fixture)],
            workers=3,
            retries=5,
            progress=interrupt,
        )

    assert time.monotonic() - began < 30
    assert [_is_there(int(pid)) for pid in pids.read_text().split()] == [False] * 3
    assert not (tmp_path / "begun").exists()
    assert left_behind() == []
    assert set(threading.enumerate()) <= threads


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_requirement_10_2_the_reported_duration_is_that_of_the_test() -> None:
    before = time.monotonic()
    (suite,) = run_cases([case("a", steps=[{"delay": 0.2}]), case("b", steps=[{"delay": 0.1}])], workers=1)
    elapsed = time.monotonic() - before

    first, second = suite.tests
    assert first.duration >= 0.2
    assert second.duration >= 0.1
    assert first.duration + second.duration <= suite.duration <= elapsed


PROGRAM = """
for place in "$HOME" "$TMPDIR" "$XDG_DATA_HOME" .; do printf %s "$ID" >"$place/mark"; done
: >"$MEETING/$ID"
while set -- "$MEETING"/*; [ $# -lt "$COUNT" ]; do sleep 0.005; done
for place in "$HOME" "$TMPDIR" "$XDG_DATA_HOME" .; do cat "$place/mark"; echo "" "$place/"*; done
printf '%s' "$OWN" >own; cat own given; pwd; echo "[$OTHER]"
"""
"""Leaves its mark everywhere, waits until all others have done so, and looks at what it finds."""

words = st.text("ab é'\"$`\\*;", max_size=8)


@settings(max_examples=10, deadline=None)
@given(owns=st.lists(st.tuples(words, words), min_size=2, max_size=4))
def test_property_20_parallel_test_isolation(owns: list[tuple[str, str]]) -> None:
    """Property 20: Parallel Test Isolation (requirements 9.5)."""
    ours, cwd = dict(os.environ), Path.cwd()

    with tempfile.TemporaryDirectory() as meeting:
        cases = [
            case(
                f"test {number}",
                PROGRAM,
                expected_exit_code=0,
                fixture=FixtureOptions(
                    temp_dir_prefix=PREFIX,
                    env={
                        "ID": str(number),
                        "OWN": own,
                        "MEETING": meeting,
                        "COUNT": str(len(owns)),
                        f"OTHER{number}": "x",
                    },
                    mocks=MockFixture(filesystem={"given": file}),
                ),
            )
            for number, (own, file) in enumerate(owns)
        ]
        (suite,) = run_cases(cases, workers=len(cases))

    assert [test.error for test in suite.tests] == [None] * len(owns)
    found = [(test.output or "").replace("\r\n", "\n").split("\n") for test in suite.tests]
    homes: set[str] = set()
    for number, (own, file) in enumerate(owns):
        home, tmp, data, here, last, other, end = found[number]
        project = last.removeprefix(own + file)
        root = project.rpartition("/")[0]
        homes.add(root)
        assert home == f"{number} {root}/home/mark"
        assert tmp == f"{number} {root}/tmp/mark"  # noqa: S108 - the directory is the test's own
        assert data == f"{number} {root}/home/.local/share/mark"
        assert here == f"{number} ./given ./mark"
        assert (other, end) == ("[]", "")
    assert len(homes) == len(owns)
    assert left_behind() == []
    assert dict(os.environ) == ours
    assert Path.cwd() == cwd


def test_a_suite_is_told_when_it_began() -> None:
    before = time.time()

    suites: tuple[TestSuiteResult, ...] = run_cases([case("a"), CaseFile(name="s", cases=(case("b"),)), case("c")])

    assert [suite.name for suite in suites] == ["terminal", "s", "terminal"]
    assert all(suite.started is not None and before <= suite.started <= time.time() for suite in suites)
