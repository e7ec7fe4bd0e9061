"""Runs test cases in parallel, retries failed ones, and reports them in the order of the file."""

from __future__ import annotations

import re
import shlex
import signal
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from reenact.terminal.cases.controller import InteractionController, TimeLimit
from reenact.terminal.cases.loading import CaseFile, TerminalTestCase
from reenact.terminal.cases.steps import InteractionResult, InteractionScript, InteractionStep
from reenact.terminal.config import TerminalTestConfig
from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType, invalid
from reenact.terminal.fixture.fixture import TestFixture
from reenact.terminal.fixture.options import FixtureContext, FixtureOptions
from reenact.terminal.report.results import TestResult, TestSuiteResult
from reenact.terminal.screen.model import Screen
from reenact.terminal.session.emulator import TerminalEmulator
from reenact.terminal.session.recording import Recording, save_evidence
from reenact.terminal.session.spawning import ExitStatus
from reenact.terminal.text import end_of, one_line

_SHOWN = 200_000
"""Maximum number of characters of the output that a result keeps, from its end."""
_GRACE = 0.25
"""Seconds after a test's timeout until its program is killed, in case a step is blocked writing to it."""
_WITHOUT_VERDICT = frozenset(
    {
        TerminalTestErrorType.PTY_CREATE_FAILED,
        TerminalTestErrorType.PROCESS_START_FAILED,
        TerminalTestErrorType.FIXTURE_SETUP_FAILED,
        TerminalTestErrorType.SCRIPT_EXECUTION_ERROR,
        TerminalTestErrorType.INVALID_CONFIG,
    }
)
"""Errors that say nothing about the program, so that the test has no verdict."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an attempt, with its recording and its last screen."""

    result: TestResult
    recording: Recording | None = None
    screen: Screen | None = None


class RunningAttempts:
    """The attempts that run: each registers here, and all can be cancelled at once.

    Attributes:
        is_cancelled: whether the run was cancelled.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._attempts: dict[TerminalEmulator, TimeLimit] = {}
        self.is_cancelled = False

    def cancel(self) -> None:
        """Kill the programs, which ends the steps that wait for them, and let no further attempt run."""
        with self._lock:
            self.is_cancelled = True
            for terminal, limit in self._attempts.items():
                limit.cancel()
                _kill(terminal)

    @contextmanager
    def registered(self, terminal: TerminalEmulator, limit: TimeLimit) -> Generator[None]:
        """Register an attempt for the `with` block; its program is killed after its time limit."""
        timer = threading.Timer(limit.seconds + _GRACE, _kill, [terminal])
        timer.name = "reenact-terminal-limit"
        with self._lock:
            self._attempts[terminal] = limit
            if self.is_cancelled:
                limit.cancel()
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            with self._lock:
                del self._attempts[terminal]


def attempt(case: TerminalTestCase, suite: CaseFile, running: RunningAttempts) -> Attempt:
    """Run the test once. All errors are reported in the result."""
    began = time.monotonic()
    made = Attempt(result=TestResult(name=case.name, suite=suite.name, status="error", duration=0))
    error = kind = stack = None
    try:
        with TestFixture(_options(case, suite.config)) as context:
            made = _in_fixture(case, suite, context, running)
    except TerminalTestError as failure:
        error, kind = "\n\n".join([str(failure), *getattr(failure, "__notes__", ())]), failure.type
    except Exception as failure:  # noqa: BLE001 - an unforeseen error fails only this test
        error, stack = f"{type(failure).__name__}: {failure}", traceback.format_exc()
    result = made.result
    if error is not None:
        result = replace(
            result,
            status="error" if result.status == "passed" else result.status,
            error=error if result.error is None else f"{result.error}\n\n{error}",
            error_type=result.error_type or kind,
            stack=stack,
        )
    return replace(made, result=replace(result, duration=time.monotonic() - began))


def _options(case: TerminalTestCase, config: TerminalTestConfig) -> FixtureOptions:
    options = case.fixture or FixtureOptions()
    return replace(options, env={**config.default_env, **options.env})


def _in_fixture(case: TerminalTestCase, suite: CaseFile, context: FixtureContext, running: RunningAttempts) -> Attempt:
    config = suite.config
    seconds = config.global_timeout if case.timeout is None else case.timeout
    size = case.size or config.default_terminal_size
    terminal = TerminalEmulator(
        case.command or tuple(shlex.split(config.cli_command)),
        case.cli_args,
        cwd=context.temp_dir,
        env=context.env,
        cols=size.cols,
        rows=size.rows,
        timeout=min(seconds, config.global_timeout),
    )
    limit = TimeLimit(seconds)
    try:
        with running.registered(terminal, limit):
            played = InteractionController(terminal).execute(_to_the_end(case), limit)
        screen = None if terminal.pid is None else terminal.screen
    finally:
        terminal.dispose()
    return Attempt(
        result=_result(case, suite.name, played, screen),
        recording=None if screen is None else terminal.recording,
        screen=screen,
    )


def _to_the_end(case: TerminalTestCase) -> InteractionScript:
    """Return the script, with a wait for the end of the program if the test expects a certain end."""
    steps = case.script.steps
    matters = case.expected_exit_code is not None or case.expected_signal is not None
    if not matters or (steps and steps[-1].type == "waitForExit"):
        return case.script
    return replace(case.script, steps=(*steps, InteractionStep.wait_for_exit()))


def _kill(terminal: TerminalEmulator) -> None:
    with suppress(TerminalTestError):  # it has not been started
        terminal.kill("SIGKILL")


def _result(case: TerminalTestCase, suite: str, played: InteractionResult, screen: Screen | None) -> TestResult:
    errors = [
        f"step {number}, {result.step}: {result.error}"
        for number, result in enumerate(played.steps, 1)
        if not result.success
    ]
    if not played.steps and played.error is not None:
        errors.append(played.error)
    kind = played.error_type
    ended = _unexpected_end(case, played.exit_status)
    # An earlier error is the better explanation, since the program may have been killed because of it.
    if ended is not None and (not errors or played.error_type is TerminalTestErrorType.ASSERTION_FAILED):
        errors.append(ended)
        kind = TerminalTestErrorType.ASSERTION_FAILED
    blameless = played.error_type in _WITHOUT_VERDICT
    return TestResult(
        name=case.name,
        suite=suite,
        status="passed" if not errors else "error" if blameless else "failed",
        duration=played.total_duration,
        error="\n\n".join(errors) or None,
        error_type=kind,
        output=_kept_output(played.output),
        screen=None if screen is None else screen.text,
        assertions=tuple(result.assertion for result in played.steps if result.assertion is not None),
    )


def _kept_output(output: str) -> str:
    end, missing = end_of(output, _SHOWN)
    return f"(the output before this is left out)\n{end}" if missing else end


def _unexpected_end(case: TerminalTestCase, status: ExitStatus | None) -> str | None:
    if case.expected_exit_code is not None:
        wanted = ExitStatus(code=case.expected_exit_code)
    elif case.expected_signal is not None:
        wanted = ExitStatus(signal=signal.Signals[case.expected_signal])
    else:
        return None
    return None if status in (None, wanted) else f"the program ended with {status}, not with {wanted}"


_LONGEST = 80


def _with_evidence(made: Attempt, stem: Path) -> TestResult:
    """Save the evidence of an attempt; return its result with the paths, or with the reason why there are none."""
    result = made.result
    if made.recording is None or made.screen is None:
        return result
    try:
        files = save_evidence(made.recording, made.screen, stem)
    except OSError as error:
        said = f"{result.error}\n\n{stem}.cast and {stem.name}.svg could not be written: {error.strerror}"
        return replace(result, error=said)
    return replace(result, attachments=(*result.attachments, *map(str, files)))


def _file_name(text: str) -> str:
    """Return a name that every file system accepts."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:_LONGEST]


Progress: TypeAlias = Callable[[TestResult], object]
"""Called with each test result, in order of completion, on the thread that called `run_cases`."""
DEFAULT_SUITE = "terminal"
_NOT_ONLY = "another test says `only`"
_CONFIG = TerminalTestConfig()


class _Finished(NamedTuple):
    """The result of a test, with its start and its end."""

    result: TestResult
    began: float | None = None
    ended: float | None = None


def run_cases(
    cases: Iterable[TerminalTestCase | CaseFile],
    config: TerminalTestConfig = _CONFIG,
    *,
    workers: int | None = None,
    retries: int = 0,
    progress: Progress | None = None,
    keep: Path | None = None,
) -> tuple[TestSuiteResult, ...]:
    """Run the tests and return their results: a suite for each file, and one for tests that are in no file.

    Each attempt has a fixture and a terminal of its own; none changes anything of this process. If the call is
    interrupted, for example by Ctrl+C, all programs are killed and all fixtures removed before the exception is raised.

    Args:
        cases: tests, or files of tests, which have their own configuration.
        config: the configuration of tests that are in no file, and the number of parallel tests.
        workers: maximum number of parallel tests; None for the configuration's.
        retries: how often a failed test is tried again unless it has its own number; the last attempt counts.
        progress: called with the result of each test.
        keep: a directory for the recording and the last screen of failed tests, as `.cast` and `.svg`.

    Raises:
        TerminalTestError: an argument is invalid, or the directory cannot be created (`INVALID_CONFIG`).
    """
    workers = config.parallel.workers if workers is None else workers
    if workers < 1:
        raise invalid(f"workers must be 1 or more, not {workers}")
    if retries < 0:
        raise invalid(f"retries must be 0 or more, not {retries}")
    if keep is not None:
        try:
            keep.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise invalid(one_line(f"{keep}: nothing can be kept there: {error.strerror}")) from error
    suites = list(_suites(cases, config))
    done = _run(apply_only(suites), workers, retries, progress, keep)
    return tuple(_suite_results(suites, done))


def _suites(cases: Iterable[TerminalTestCase | CaseFile], config: TerminalTestConfig) -> Iterator[CaseFile]:
    """Yield the files unchanged, and the tests between them as files of their own."""
    loose: list[TerminalTestCase] = []
    for one in cases:
        if isinstance(one, TerminalTestCase):
            loose.append(one)
            continue
        if loose:
            yield CaseFile(name=DEFAULT_SUITE, cases=tuple(loose), config=config)
            loose.clear()
        yield one
    if loose:
        yield CaseFile(name=DEFAULT_SUITE, cases=tuple(loose), config=config)


def apply_only(files: Sequence[CaseFile]) -> tuple[CaseFile, ...]:
    """Return the files; if a test that is not skipped has `only`, all tests without it are marked as skipped."""
    if not any(case.only and not case.skip for file in files for case in file.cases):
        return tuple(files)

    def only(case: TerminalTestCase) -> TerminalTestCase:
        return case if case.only or case.skip else replace(case, skip=_NOT_ONLY)

    return tuple(replace(file, cases=tuple(map(only, file.cases))) for file in files)


def _run(
    suites: Sequence[CaseFile], workers: int, retries: int, progress: Progress | None, keep: Path | None
) -> list[_Finished]:
    running = RunningAttempts()
    every = [(suite, case) for suite in suites for case in suite.cases]
    done: dict[int, _Finished] = {}

    def finish(number: int, one: _Finished) -> None:
        done[number] = one
        if progress is not None:
            progress(one.result)

    pool = ThreadPoolExecutor(workers, thread_name_prefix="reenact-terminal-tests")
    futures: dict[Future[_Finished], int] = {}
    try:
        for number, (suite, case) in enumerate(every):
            if case.skip:
                reason = case.skip if isinstance(case.skip, str) else None
                skipped = TestResult(name=case.name, suite=suite.name, status="skipped", duration=0, reason=reason)
                finish(number, _Finished(skipped))
                continue
            stem = None if keep is None else keep / _file_name(f"{number + 1:03} {suite.name} {case.name}")
            often = retries if case.retries is None else case.retries
            futures[pool.submit(_run_with_retries, case, suite, often, running, stem)] = number
        for future in as_completed(futures):
            finish(futures[future], future.result())
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        running.cancel()
        raise
    finally:
        pool.shutdown()
    return [done[number] for number in range(len(every))]


def _run_with_retries(
    case: TerminalTestCase, suite: CaseFile, retries: int, running: RunningAttempts, stem: Path | None
) -> _Finished:
    """Run the test until it passes or has no retries left; save the evidence of a failed last attempt at `stem`."""
    began, clock = time.time(), time.monotonic()
    attempts, made = 1, attempt(case, suite, running)
    while made.result.status != "passed" and attempts <= retries and not running.is_cancelled:
        attempts, made = attempts + 1, attempt(case, suite, running)
    made = replace(made, result=replace(made.result, attempts=attempts))
    result = made.result if stem is None or made.result.status == "passed" else _with_evidence(made, stem)
    return _Finished(result, began, began + time.monotonic() - clock)


def _suite_results(suites: Iterable[CaseFile], done: Sequence[_Finished]) -> Iterator[TestSuiteResult]:
    rest = iter(done)
    for suite in suites:
        own = list(islice(rest, len(suite.cases)))
        began = min((one.began for one in own if one.began is not None), default=None)
        ended = max((one.ended for one in own if one.ended is not None), default=None)
        yield TestSuiteResult(
            name=suite.name,
            tests=tuple(one.result for one in own),
            duration=0 if began is None or ended is None else ended - began,
            started=began,
        )
