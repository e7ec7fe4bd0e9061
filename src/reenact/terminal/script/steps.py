"""Scripts, their steps, and the results of both."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias, TypeGuard, get_args

import msgspec

from reenact.terminal.config import LONGEST, is_time
from reenact.terminal.errors import TerminalTestErrorType, invalid
from reenact.terminal.matching.options import AssertionOptions, AssertionResult, Pattern, Scope
from reenact.terminal.matching.patterns import Expression
from reenact.terminal.status import ExitStatus
from reenact.terminal.text import described

StepType: TypeAlias = Literal["send", "sendKey", "wait", "waitForExit", "assert", "delay"]
Subject: TypeAlias = Literal["output", "screen"]
"""What an assertion is about: all that was written, escape sequences and all, or the text of the screen."""

_SHOWN: Final = 60
_SECONDS: Final = f"a number of seconds, {LONGEST:,} (a day) at most"


class InteractionStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step: `InteractionStep.send_line("ls")` and its like, or by its fields.

    Attributes:
        type: what is done.
        value: what is sent; the key; the pattern; for `delay` the seconds.
        timeout: seconds that a wait may take; None for the emulator's own, 0 to look once.
        assertion: for `assert`, what is expected.
        scope: for `wait`, where the pattern is looked for.
        subject: for `assert`, what is compared.

    Raises:
        TerminalTestError: `INVALID_CONFIG`: the value is not what such a step takes.
    """

    type: StepType
    value: object = None
    timeout: float | None = None
    assertion: AssertionOptions | None = None
    scope: Scope = "new"
    subject: Subject = "output"

    def __post_init__(self) -> None:
        if problem := _problem_of(self):
            raise invalid(f"a step {self.type}: {problem}")

    @classmethod
    def send(cls, data: str | bytes) -> InteractionStep:
        """Type this, as it is, without pressing Enter."""
        return cls(type="send", value=data)

    @classmethod
    def send_line(cls, text: str) -> InteractionStep:
        """Type this and press Enter."""
        return cls(type="send", value=f"{text}\r")

    @classmethod
    def send_key(cls, key: str) -> InteractionStep:
        """Press a key, as `SpecialKey` has them; `alt+x` and `shift+up` are with others held down."""
        return cls(type="sendKey", value=key)

    @classmethod
    def wait(
        cls, pattern: Pattern | Expression, timeout: float | None = None, *, scope: Scope = "new"
    ) -> InteractionStep:
        """Wait until this is shown. Nothing bounds the time of a compiled pattern that backtracks."""
        return cls(type="wait", value=pattern, timeout=timeout, scope=scope)

    @classmethod
    def wait_for_exit(cls, timeout: float | None = None) -> InteractionStep:
        """Wait for the end of the program, however it ends; if it does not in time, end it."""
        return cls(type="waitForExit", timeout=timeout)

    @classmethod
    def expect(cls, assertion: AssertionOptions, *, subject: Subject = "output") -> InteractionStep:
        """Compare what was shown with what is expected, now; the script goes on even if it is something else."""
        return cls(type="assert", assertion=assertion, subject=subject)

    @classmethod
    def delay(cls, seconds: float) -> InteractionStep:
        """Do nothing for a time."""
        return cls(type="delay", value=seconds)

    def __str__(self) -> str:
        """Return it in short, as in `wait 'Ready'`."""
        match self.type:
            case "waitForExit":
                return self.type
            case "assert":
                assert self.assertion is not None
                return f"assert {self.assertion.type} {_short(self.assertion.expected)}"
            case _:
                return f"{self.type} {_short(self.value)}"


class InteractionScript(msgspec.Struct, frozen=True, kw_only=True):
    """Steps under a name."""

    name: str
    steps: tuple[InteractionStep, ...]
    description: str | None = None


class StepResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a step; `duration` in seconds, `output` is what the program wrote since the step before."""

    step: InteractionStep
    success: bool
    duration: float
    output: str | None = None
    error: str | None = None
    error_type: TerminalTestErrorType | None = None
    assertion: AssertionResult | None = None


class InteractionResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a script: of every step that was tried. After a failed assertion the next steps are still tried."""

    success: bool
    steps: tuple[StepResult, ...]
    total_duration: float
    exit_status: ExitStatus | None = None
    output: str = ""
    error: str | None = None
    """Why the first step that failed did so, or why the program could not be started."""
    error_type: TerminalTestErrorType | None = None

    @property
    def exit_code(self) -> int | None:
        """The exit code, if the process has ended by itself."""
        return None if self.exit_status is None else self.exit_status.code


def _problem_of(step: InteractionStep) -> str | None:
    """Return what is wrong with the fields, of which the types of the language know little."""
    kind: str = step.type
    value = step.value
    said = described(value)
    if step.timeout is not None and not is_time(step.timeout):
        return f"timeout is {_SECONDS}, not {described(step.timeout)}"
    match kind:
        case "send":
            return None if isinstance(value, str | bytes) else f"value is the text or the bytes to send, not {said}"
        case "sendKey":
            return None if isinstance(value, str) and value else f"value is the name of a key, not {said}"
        case "wait":
            fits = is_expression(value) or (isinstance(value, str) and value != "")
            return None if fits else f"value is a text or a pattern for text, not {said}"
        case "waitForExit":
            return None if value is None else f"it takes a timeout and no value, not {said}"
        case "assert":
            return None if step.assertion is not None else "the assertion is missing"
        case "delay":
            return None if is_time(value) else f"value is {_SECONDS}, not {said}"
        case _:
            return f"there is no such step; there are {', '.join(get_args(StepType))}"


def is_expression(value: object) -> TypeGuard[re.Pattern[str] | Expression]:
    """Return whether this is a regular expression for text, one that was compiled or is in a file."""
    return isinstance(value, Expression) or is_pattern(value)


def is_pattern(value: object) -> TypeGuard[re.Pattern[str]]:
    """Return whether this is a compiled pattern, and not one for bytes."""
    pattern: object = getattr(value, "pattern", None)
    return isinstance(value, re.Pattern) and isinstance(pattern, str)


def _short(value: object) -> str:
    text = repr(value.pattern if is_expression(value) else value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
