"""Who runs test cases: several at a time, again if they fail, and tells of them in the order of the file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import msgspec

from reenact.terminal.cases.attempt import Ongoing, attempt
from reenact.terminal.cases.case import TerminalTestCase
from reenact.terminal.cases.keeping import Keeper
from reenact.terminal.cases.loading import CaseFile
from reenact.terminal.config import TerminalTestConfig
from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType
from reenact.terminal.report.results import TestResult, TestSuiteResult

Progress: TypeAlias = Callable[[TestResult], object]
"""Told of each test when it is over, in the order in which they end, on the thread that called `run_cases`."""
DEFAULT_SUITE: Final = "terminal"
_NOT_ASKED_FOR: Final = "another test says `only`"
_CONFIG: Final = TerminalTestConfig()


class _Planned(NamedTuple):
    """A test that is to be run, or not."""

    case: TerminalTestCase
    suite: str
    config: TerminalTestConfig
    retries: int
    number: int
    skipped: str | None


class _Done(NamedTuple):
    """What became of a test, and when it was run."""

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
    """Run the tests and return what became of them: a suite for each file, and one for tests that are in none.

    Each attempt has a fixture and a terminal of its own; nothing of this process is changed by any. If this is
    interrupted, as by Ctrl+C, all programs are ended and all that was set up is removed before that goes on.

    Args:
        cases: tests, or files of them, which have a configuration of their own.
        config: what holds for tests that are in no file, and how many are run at the same time.
        workers: how many tests are run at the same time; None for what the configuration says.
        retries: how often a test is tried again that has failed, unless it says that itself; the last attempt counts.
        progress: told of each test when it is over.
        keep: a directory for the recording and the last screen of tests that fail, as `.cast` and `.svg`.

    Raises:
        TerminalTestError: `INVALID_CONFIG`: an argument cannot be, or the directory cannot be made.
    """
    workers = config.parallel.workers if workers is None else workers
    if workers < 1:
        raise _invalid(f"workers is 1 or more, not {workers}")
    if retries < 0:
        raise _invalid(f"retries is 0 or more, not {retries}")
    suites = list(_suites(cases, config))
    planned = list(_planned(suites, retries))
    done = _run(planned, workers, progress, None if keep is None else Keeper(keep))
    return tuple(_collected(suites, done))


def _suites(cases: Iterable[TerminalTestCase | CaseFile], config: TerminalTestConfig) -> Iterator[CaseFile]:
    """Yield files as they are, and what stands between them as files of its own."""
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


def asked_for(files: Sequence[CaseFile]) -> tuple[CaseFile, ...]:
    """Return the files; if tests in any of them say `only`, and are not skipped, all others are skipped for that."""
    if not any(case.only and not case.skip for file in files for case in file.cases):
        return tuple(files)
    return tuple(
        msgspec.structs.replace(file, cases=tuple(_skipped_without_only(case) for case in file.cases)) for file in files
    )


def _skipped_without_only(case: TerminalTestCase) -> TerminalTestCase:
    return case if case.only or case.skip else msgspec.structs.replace(case, skip=_NOT_ASKED_FOR)


def _planned(suites: Sequence[CaseFile], retries: int) -> Iterator[_Planned]:
    number = 0
    for suite in asked_for(suites):
        for case in suite.cases:
            number += 1
            skipped: str | None = None
            if case.skip:
                skipped = case.skip if isinstance(case.skip, str) else ""
            tries = retries if case.retries is None else case.retries
            yield _Planned(case, suite.name, suite.config, tries, number, skipped)


def _run(
    planned: Sequence[_Planned], workers: int, progress: Progress | None, keeper: Keeper | None
) -> dict[int, _Done]:
    done: dict[int, _Done] = {}
    ongoing = Ongoing()
    tell = progress or _nobody_listens
    for plan in planned:
        if plan.skipped is not None:
            done[plan.number] = _skipped(plan)
            tell(done[plan.number].result)
    pool = ThreadPoolExecutor(workers, thread_name_prefix="reenact-terminal-tests")
    try:
        futures: dict[Future[_Done], int] = {
            pool.submit(_tried, plan, ongoing, keeper): plan.number for plan in planned if plan.skipped is None
        }
        for future in as_completed(futures):
            done[futures[future]] = future.result()
            tell(future.result().result)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        ongoing.call_off()
        raise
    finally:
        pool.shutdown()
    return done


def _tried(plan: _Planned, ongoing: Ongoing, keeper: Keeper | None) -> _Done:
    """Try the test until it passes, or was tried often enough."""
    began = time.time()
    clock = time.monotonic()
    attempts = 1
    made = attempt(plan.case, plan.suite, plan.config, ongoing)
    while made.result.status != "passed" and attempts <= plan.retries and not ongoing.is_off:
        attempts += 1
        made = attempt(plan.case, plan.suite, plan.config, ongoing)
    result = msgspec.structs.replace(made.result, attempts=attempts)
    if keeper is not None and result.status != "passed":
        result = keeper.kept(msgspec.structs.replace(made, result=result), plan.number)
    return _Done(result, began, began + time.monotonic() - clock)


def _skipped(plan: _Planned) -> _Done:
    result = TestResult(
        name=plan.case.name, suite=plan.suite, status="skipped", duration=0, reason=plan.skipped or None
    )
    return _Done(result)


def _collected(suites: Iterable[CaseFile], done: dict[int, _Done]) -> Iterator[TestSuiteResult]:
    number = 0
    for suite in suites:
        own = [done[number + index] for index in range(1, len(suite.cases) + 1)]
        number += len(suite.cases)
        began = min((one.began for one in own if one.began is not None), default=None)
        ended = max((one.ended for one in own if one.ended is not None), default=None)
        yield TestSuiteResult(
            name=suite.name,
            tests=tuple(one.result for one in own),
            duration=0 if began is None or ended is None else ended - began,
            started=began,
        )


def _nobody_listens(result: TestResult) -> None:
    """Do nothing."""


def _invalid(problem: str) -> TerminalTestError:
    return TerminalTestError(TerminalTestErrorType.INVALID_CONFIG, problem)
