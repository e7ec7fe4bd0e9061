"""What becomes of tests whose programs misbehave: status, kind and words of the verdict, from what runs tests."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from reenact.terminal.cases.loading import TerminalTestCase
from reenact.terminal.cases.runner import run_cases
from reenact.terminal.cases.steps import script_of
from reenact.terminal.config import TerminalTestConfig
from reenact.terminal.errors import TerminalTestErrorType as Kind
from reenact.terminal.report.generator import ReportGenerator
from reenact.terminal.report.results import Status, TestResult
from tests.terminal.broken.conftest import OURS
from tests.terminal.broken.test_broken_programs import DAEMON
from tests.terminal.report.html_rules import Page
from tests.terminal.report.junit_rules import violations
from tests.terminal.session.programs import shell

SOON: Final = 0.2


class Broken(NamedTuple):
    """A program, what a test makes of it, and what is to be said of that."""

    program: tuple[str, ...]
    steps: list[Mapping[str, object]]
    status: Status
    kind: Kind | None = None
    says: str = ""
    """What is said about it, as a pattern; nothing for a test that passes."""
    exit_code: int | None = None
    signal: str | None = None
    timeout: float | None = None


BROKEN: Final = {
    "hangs": Broken(
        ("sleep", "1000"),
        [{"wait": "ready", "timeout": SOON}],
        "failed",
        Kind.TIMEOUT,
        r"timed out after 0\.2 s waiting for 'ready' from 'sleep'\nnothing was shown",
    ),
    "hangs until the time of the test is over": Broken(
        shell("echo started; sleep 1000"),
        [{"wait": "started"}, {"wait": "ready"}],
        "failed",
        Kind.TIMEOUT,
        r"step \d, .*the time limit of 0\.4 s is over: (timed out after \S+ s waiting for |the step was not begun)",
        timeout=0.4,
    ),
    "floods": Broken(
        ("yes", "flood"),
        [{"wait": "flood"}, {"wait": "the end", "timeout": SOON}],
        "failed",
        Kind.TIMEOUT,
        r"waiting for 'the end' from 'yes'\nthis was shown(?s:.*)flood",
    ),
    "is killed": Broken(
        shell("printf going; kill -KILL $$"),
        [{"wait": "arrived"}],
        "failed",
        Kind.PROCESS_EXITED,
        r"has ended \(SIGKILL\) while waiting for 'arrived'\nthis was shown:\ngoing",
    ),
    "is killed, as was expected": Broken(
        shell("ulimit -c 0; printf going; kill -SEGV $$"), [{"wait": "going"}], "passed", signal="SIGSEGV"
    ),
    "is killed where an exit code was expected": Broken(
        shell("kill -TERM $$"),
        [],
        "failed",
        Kind.ASSERTION_FAILED,
        "ended with SIGTERM, not with exit code 143",
        exit_code=143,
    ),
    "prints every byte": Broken(
        shell("head -c 20000 /dev/urandom; printf '\\000\\001\\033[\\377\\033\\\\\\033[0m mark'"),
        [{"assert": {"type": "contains", "expected": "no such text"}}, {"wait": "mark"}, {"waitForExit": {}}],
        "failed",
        Kind.ASSERTION_FAILED,
        "no such text",
    ),
    "is deaf to signals": Broken(
        shell("trap '' HUP INT TERM; echo deaf; while :; do sleep 1000; done"),
        [{"wait": "deaf"}, {"sendKey": "ctrl+c"}, {"waitForExit": {"timeout": SOON}}],
        "failed",
        Kind.TIMEOUT,
        "waiting for its end(?s:.*)deaf",
    ),
    "leaves a daemon": Broken(
        (sys.executable, "-S", "-c", DAEMON), [{"wait": "parent is done"}], "passed", exit_code=0
    ),
    "closes its streams": Broken(
        shell("echo bye; exec 0<&- 1>&- 2>&-; exec sleep 1000"),
        [{"wait": "bye"}, {"wait": "more", "timeout": SOON}],
        "failed",
        Kind.TIMEOUT,
        "waiting for 'more'",
    ),
    "ends with much in flight": Broken(
        shell("head -c 262144 /dev/zero | tr '\\0' x; printf end; exit 7"), [{"wait": "xend"}], "passed", exit_code=7
    ),
    "is cut short": Broken(
        shell(r"printf 'ok \342\202\033[3'"),
        [{"wait": "€"}],
        "failed",
        Kind.PROCESS_EXITED,
        "exit code 0.*\nthis was shown:\nok \ufffd",
    ),
    "leaves its terminal in disorder": Broken(
        shell("stty raw -echo; printf '\\033[?1049h\\033[?25l'; exit 2"),
        [{"wait": "$ "}],
        "failed",
        Kind.PROCESS_EXITED,
        r"\(exit code 2\)",
    ),
    "asks for the cursor": Broken(
        shell("stty raw -echo; printf 'abc\\033[6n'; head -c 6 | tr '\\033' '^'"),
        [{"wait": "^[1;4R"}],
        "passed",
        exit_code=0,
    ),
    "never reads": Broken(
        shell("stty raw -echo; echo ready; exec sleep 1000"),
        [{"wait": "ready"}, {"send": "x" * 500_000}],
        "failed",
        Kind.TIMEOUT,
        r"\d+ of 500000 bytes went|step 1, .*the time limit of 3 s is over",  # a busy machine comes no further
        timeout=3.0,
    ),
    "ends before its prompt": Broken(
        shell("echo 'no configuration'; exit 3"),
        [{"wait": "> ", "timeout": 1000}],
        "failed",
        Kind.PROCESS_EXITED,
        r"has ended \(exit code 3\) while waiting for '> '\nthis was shown:\nno configuration",
    ),
    "has another exit code": Broken(
        shell("echo fine; exit 1"),
        [{"wait": "fine"}],
        "failed",
        Kind.ASSERTION_FAILED,
        "ended with exit code 1, not with exit code 0",
        exit_code=0,
    ),
    "stops itself": Broken(
        shell("echo before; kill -STOP $$; echo after"),
        [{"wait": "before"}, {"wait": "after", "timeout": SOON}],
        "failed",
        Kind.TIMEOUT,
        "waiting for 'after'",
    ),
    "prints a huge line": Broken(
        shell("head -c 1000000 /dev/zero | tr '\\0' x; printf end"), [{"wait": "xend"}], "passed", exit_code=0
    ),
    "is typed to after its end": Broken(
        ("true",),
        [{"waitForExit": {}}, {"sendLine": "hello"}],
        "failed",
        Kind.PROCESS_EXITED,
        "has ended",
    ),
    "does not exist": Broken(
        ("no-such-program",), [{"wait": "x"}], "error", Kind.PROCESS_START_FAILED, "there is no such command in PATH"
    ),
    "is a directory": Broken(("/",), [{"wait": "x"}], "error", Kind.PROCESS_START_FAILED, "not executable"),
}


def verdict(result: TestResult) -> str:
    """Return what there is to say against the verdict; nothing, if it is right."""
    wanted = BROKEN[result.name]
    if (result.status, result.error_type) != (wanted.status, wanted.kind):
        return f"{result.status} ({result.error_type}): {result.error}"
    if wanted.says:
        return "" if re.search(wanted.says, (result.error or "").replace("\r\n", "\n")) else f"it says {result.error}"
    return "" if result.error is None else f"it says {result.error}"


def test_each_program_that_misbehaves_has_its_verdict_in_every_report_and_leaves_nothing(
    sign: str, left: Callable[[], list[int]]
) -> None:
    cases = [
        TerminalTestCase(
            name=name,
            command=broken.program,
            script=script_of(broken.steps),
            expected_exit_code=broken.exit_code,
            expected_signal=broken.signal,
            timeout=broken.timeout,
        )
        for name, broken in BROKEN.items()
    ]

    (suite,) = run_cases(cases, TerminalTestConfig(default_env={OURS: sign}), workers=4)

    assert {result.name: said for result in suite.tests if (said := verdict(result))} == {}
    assert left() == []
    generator = ReportGenerator()
    assert violations(generator.generate_junit([suite])) == []
    assert Page(generator.generate_html([suite])).wrong == []
    failed = [name for name, broken in BROKEN.items() if broken.status != "passed"]
    assert f"{len(failed)} of {len(BROKEN)}" in generator.generate_html([suite])


@pytest.mark.parametrize(("retries", "status"), [(1, "failed"), (2, "passed")])
def test_a_program_that_fails_now_and_then_passes_if_it_is_tried_often_enough(
    retries: int, status: Status, tmp_path: Path
) -> None:
    again = f'echo >> {tmp_path}/times; [ "$(wc -l < {tmp_path}/times)" -ge 3 ]'
    case = TerminalTestCase(name="unsure", command=shell(again), script=script_of([]), expected_exit_code=0)

    (suite,) = run_cases([case], retries=retries)

    (result,) = suite.tests
    assert (result.status, result.attempts) == (status, retries + 1)
