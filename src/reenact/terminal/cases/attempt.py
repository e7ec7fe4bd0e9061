"""One attempt at a test: in a fixture of its own, at a terminal of its own, and what became of it."""

from __future__ import annotations

import shlex
import signal
import threading
import time
import traceback
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

import msgspec

from reenact.terminal.cases.case import TerminalTestCase
from reenact.terminal.config import TerminalTestConfig
from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType
from reenact.terminal.fixture.fixture import TestFixture
from reenact.terminal.fixture.options import FixtureContext, FixtureOptions
from reenact.terminal.report.results import Status, TestResult
from reenact.terminal.screen.model import Screen
from reenact.terminal.screen.recording import Recording
from reenact.terminal.script.controller import InteractionController
from reenact.terminal.script.limit import TimeLimit
from reenact.terminal.script.steps import InteractionResult, InteractionScript, InteractionStep
from reenact.terminal.session.emulator import TerminalEmulator
from reenact.terminal.status import ExitStatus

_SHOWN: Final = 200_000
"""Characters of the output that a result keeps, the last ones."""
_GRACE: Final = 0.25
"""Seconds after the end of its time at which a program is killed that what was typed still waits for."""
_NOT_ITS_FAULT: Final = frozenset(
    {
        TerminalTestErrorType.PTY_CREATE_FAILED,
        TerminalTestErrorType.PROCESS_START_FAILED,
        TerminalTestErrorType.FIXTURE_SETUP_FAILED,
        TerminalTestErrorType.SCRIPT_EXECUTION_ERROR,
        TerminalTestErrorType.INVALID_CONFIG,
    }
)
"""What says nothing about the program, so that the test has no verdict."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an attempt, and what there is to be kept of it."""

    result: TestResult
    recording: Recording | None = None
    screen: Screen | None = None


class Ongoing:
    """The attempts that are under way; whoever starts one asks here, and all can be called off at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._attempts: dict[TerminalEmulator, TimeLimit] = {}
        self._is_off = False

    @property
    def is_off(self) -> bool:
        """Whether all was called off."""
        return self._is_off

    def call_off(self) -> None:
        """End the programs; what waits for them ends with them. None is begun any more."""
        with self._lock:
            self._is_off = True
            for terminal, limit in self._attempts.items():
                limit.call_off()
                _kill(terminal)

    @contextmanager
    def among(self, terminal: TerminalEmulator, limit: TimeLimit) -> Generator[None]:
        """Be one of them."""
        with self._lock:
            self._attempts[terminal] = limit
            if self._is_off:
                limit.call_off()
        try:
            yield
        finally:
            with self._lock:
                del self._attempts[terminal]


def attempt(case: TerminalTestCase, suite: str, config: TerminalTestConfig, ongoing: Ongoing) -> Attempt:
    """Try the test once. Whatever goes wrong is told in the result."""
    began = time.monotonic()
    failure: str | None = None
    stack: str | None = None
    try:
        fixture = TestFixture(_options(case, config))
        try:
            made = _in_fixture(case, suite, config, fixture.setup(), ongoing)
        finally:
            failure = _torn_down(fixture)
    except TerminalTestError as error:
        made = Attempt(
            result=TestResult(
                name=case.name, suite=suite, status="error", duration=0, error=str(error), error_type=error.type
            )
        )
    except Exception as error:  # noqa: BLE001 - a test that fails in a way nobody thought of fails alone
        stack = traceback.format_exc()
        said = f"{type(error).__name__}: {error}"
        made = Attempt(
            result=TestResult(name=case.name, suite=suite, status="error", duration=0, error=said, stack=stack)
        )
    result = msgspec.structs.replace(made.result, duration=time.monotonic() - began)
    if failure is not None:
        status: Status = "error" if result.status == "passed" else result.status
        said = failure if result.error is None else f"{result.error}\n\n{failure}"
        kind = result.error_type or TerminalTestErrorType.FIXTURE_TEARDOWN_FAILED
        result = msgspec.structs.replace(result, status=status, error=said, error_type=kind)
    return msgspec.structs.replace(made, result=result)


def _options(case: TerminalTestCase, config: TerminalTestConfig) -> FixtureOptions:
    options = case.fixture or FixtureOptions()
    return msgspec.structs.replace(options, env={**config.default_env, **options.env})


def _torn_down(fixture: TestFixture) -> str | None:
    """Take the fixture down; return what could not be."""
    try:
        fixture.teardown()
    except TerminalTestError as error:
        return str(error)
    return None


def _in_fixture(
    case: TerminalTestCase, suite: str, config: TerminalTestConfig, context: FixtureContext, ongoing: Ongoing
) -> Attempt:
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
        engine=config.engine,
    )
    limit = TimeLimit(seconds)
    try:
        with ongoing.among(terminal, limit), _killed_after(terminal, seconds + _GRACE):
            played = InteractionController(terminal).execute(_to_the_end(case), limit)
        screen = None if terminal.pid is None else terminal.screen
    finally:
        terminal.dispose()
    return Attempt(
        result=_result(case, suite, played, screen),
        recording=None if screen is None else terminal.recording,
        screen=screen,
    )


def _to_the_end(case: TerminalTestCase) -> InteractionScript:
    """Return the script; if it matters how the program ends, with a wait for that."""
    steps = case.script.steps
    matters = case.expected_exit_code is not None or case.expected_signal is not None
    if not matters or (steps and steps[-1].type == "waitForExit"):
        return case.script
    return msgspec.structs.replace(case.script, steps=(*steps, InteractionStep.wait_for_exit()))


@contextmanager
def _killed_after(terminal: TerminalEmulator, seconds: float) -> Generator[None]:
    timer = threading.Timer(seconds, _kill, [terminal])
    timer.name = "reenact-terminal-limit"
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _kill(terminal: TerminalEmulator) -> None:
    with suppress(TerminalTestError):  # it was not started yet
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
    ended = _wrong_end(case, played.exit_status)
    # What failed before says more than that the program was ended because of it.
    if ended is not None and (not errors or played.error_type is TerminalTestErrorType.ASSERTION_FAILED):
        errors.append(ended)
        kind = TerminalTestErrorType.ASSERTION_FAILED
    blameless = played.error_type in _NOT_ITS_FAULT
    return TestResult(
        name=case.name,
        suite=suite,
        status="passed" if not errors else "error" if blameless else "failed",
        duration=played.total_duration,
        error="\n\n".join(errors) or None,
        error_type=kind,
        output=played.output[-_SHOWN:],
        screen=None if screen is None else screen.text,
        assertions=tuple(result.assertion for result in played.steps if result.assertion is not None),
    )


def _wrong_end(case: TerminalTestCase, status: ExitStatus | None) -> str | None:
    if case.expected_exit_code is not None:
        wanted = ExitStatus(code=case.expected_exit_code)
    elif case.expected_signal is not None:
        wanted = ExitStatus(signal=signal.Signals[case.expected_signal])
    else:
        return None
    return None if status in (None, wanted) else f"the program ended with {status}, not with {wanted}"
