"""The controller that executes a script: sends input, waits, asserts, and collects the results of the steps."""

from __future__ import annotations

import codecs
import math
import re
import threading
import time

from msgspec.structs import replace

from reenact.terminal.cases.steps import InteractionResult, InteractionScript, InteractionStep, StepResult
from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType, WaitTimeoutError
from reenact.terminal.matching.matcher import AssertionMatcher
from reenact.terminal.matching.options import (
    LONGEST_SEARCH,
    SHORTEST_SEARCH,
    AssertionResult,
    Expression,
    SlowSearchError,
    explanation,
)
from reenact.terminal.session.emulator import TerminalEmulator, TerminalState


class TimeLimit:
    """A deadline, this many seconds from now. Any thread may cancel, which ends pauses.

    Attributes:
        seconds: the time limit from the beginning.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self._cancelled = threading.Event()

    @property
    def left(self) -> float:
        """Seconds that are left; 0 after the deadline or if it was cancelled."""
        return 0.0 if self._cancelled.is_set() else max(0.0, self._end - time.monotonic())

    @property
    def is_cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Cancel: no time is left from now on. Idempotent."""
        self._cancelled.set()

    def pause(self, seconds: float) -> bool:
        """Pause for this time, or until the deadline or cancellation; return whether the pause was complete."""
        left = self.left
        return not self._cancelled.wait(min(seconds, left)) and seconds <= left


_NO_LIMIT = TimeLimit(math.inf)
_TIME_ERRORS = (TerminalTestErrorType.TIMEOUT, TerminalTestErrorType.PROCESS_EXITED)


class InteractionController:
    """Executes scripts at a terminal, which it starts with the first step unless it was started before.

    ```python
    with TerminalEmulator("cat") as terminal:
        result = InteractionController(terminal).execute(script_of([{"sendLine": "hello"}, {"wait": "hello"}]))
    ```

    Failures caused by the program raise no exception: they are in the results. After a failed assertion the script
    continues, so that all assertions are checked; any other failure ends it.
    """

    def __init__(self, terminal: TerminalEmulator, matcher: AssertionMatcher | None = None) -> None:
        self._terminal = terminal
        self._matcher = AssertionMatcher() if matcher is None else matcher
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._reported = self._end_of_output(terminal.get_output_bytes())

    def execute(self, script: InteractionScript, limit: TimeLimit | None = None) -> InteractionResult:
        """Execute the script within the time of `limit`, and return its result.

        If the program cannot be started, the result is a failure without steps.
        """
        began = time.monotonic()
        results: list[StepResult] = []
        failure: TerminalTestError | None = None
        try:
            self._start()
        except TerminalTestError as error:
            failure = error
        else:
            for step in script.steps:
                results.append(self.execute_step(step, limit))
                if not results[-1].success and results[-1].error_type is not TerminalTestErrorType.ASSERTION_FAILED:
                    break
        first = next((result for result in results if not result.success), None)
        return InteractionResult(
            success=failure is None and first is None,
            steps=tuple(results),
            total_duration=time.monotonic() - began,
            exit_status=self._terminal.exit_status,
            output=self._terminal.get_output(),
            error=str(failure) if failure is not None else None if first is None else first.error,
            error_type=failure.type if failure is not None else None if first is None else first.error_type,
        )

    def execute_step(self, step: InteractionStep, limit: TimeLimit | None = None) -> StepResult:
        """Execute this step and return its result, whose `output` is everything written since the previous step."""
        began = time.monotonic()
        limit = _NO_LIMIT if limit is None else limit
        failure: TerminalTestError | None = None
        asserted: AssertionResult | None = None
        try:
            self._start()
            if not limit.left:
                raise WaitTimeoutError("the step was not begun")
            asserted = self._do(step, limit)
        except SlowSearchError as error:
            failure = WaitTimeoutError(str(error))
        except TerminalTestError as error:
            # After the time limit the program may have been killed, which explains why a wait failed.
            failure = _too_late(limit, error) if not limit.left and error.type in _TIME_ERRORS else error
        if asserted is not None and not asserted.passed:
            failure = TerminalTestError(TerminalTestErrorType.ASSERTION_FAILED, explanation(asserted))
        return StepResult(
            step=step,
            success=failure is None,
            duration=time.monotonic() - began,
            output=self._new_output(),
            error=None if failure is None else str(failure),
            error_type=None if failure is None else failure.type,
            assertion=asserted,
        )

    def get_terminal_state(self) -> TerminalState:
        """Return the current state of the program and its terminal."""
        return self._terminal.get_terminal_state()

    def _start(self) -> None:
        if self._terminal.pid is None:
            self._terminal.start()

    def _do(self, step: InteractionStep, limit: TimeLimit) -> AssertionResult | None:
        patience = min(self._terminal.timeout if step.timeout is None else step.timeout, limit.left)
        match step.type, step.value:
            case "send", str() | bytes() as data:
                self._terminal.write(data)
            case "sendKey", str(key):
                self._terminal.send_key(key)
            case "wait", Expression() as expression:
                until = time.monotonic() + patience
                self._terminal.wait_for(replace(expression, until=until), patience, scope=step.scope)
            case "wait", str() | re.Pattern() as pattern:  # pyright: ignore[reportUnknownVariableType] - of texts
                self._terminal.wait_for(pattern, patience, scope=step.scope)  # pyright: ignore[reportUnknownArgumentType]
            case "waitForExit", _:
                self._terminal.wait_for_exit(patience)
            case "assert", _:
                assert step.assertion is not None
                shown = self._terminal.get_output() if step.subject == "output" else self._terminal.screen.text
                seconds = min(max(limit.left, SHORTEST_SEARCH), LONGEST_SEARCH)
                return self._matcher.assert_(shown, step.assertion, seconds=seconds)  # noqa: PT009 - not unittest
            case "delay", int() | float() as pause:
                if not limit.pause(pause):
                    raise WaitTimeoutError("the pause was cut short")
            case _:
                raise AssertionError(f"{step} was not checked")
        return None

    def _new_output(self) -> str:
        output = self._terminal.get_output_bytes()
        end = self._end_of_output(output)
        new = output[max(0, len(output) - (end - self._reported)) :]
        self._reported = end
        return self._decoder.decode(new)

    def _end_of_output(self, output: bytes) -> int:
        return self._terminal.dropped + len(output)


def _too_late(limit: TimeLimit, error: TerminalTestError) -> WaitTimeoutError:
    over = "cancelled" if limit.is_cancelled else f"the time limit of {limit.seconds:g} s is over"
    return WaitTimeoutError(f"{over}: {error.message}", seen=error.seen)
