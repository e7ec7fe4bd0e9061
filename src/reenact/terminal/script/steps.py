"""Scripts: what is typed, waited for and asserted, one step after the other, and what came of each."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from reenact.terminal.matching.options import AssertionOptions, AssertionResult
from reenact.terminal.status import ExitStatus

StepType: TypeAlias = Literal["send", "sendKey", "wait", "waitForExit", "assert", "delay"]
Scope: TypeAlias = Literal["new", "all", "screen"]
"""Where a pattern is looked for: in what has arrived and not yet been matched, in everything, or on the screen."""
Subject: TypeAlias = Literal["output", "screen"]
"""What an assertion is about: all that was written, escape sequences and all, or the text of the screen."""


class InteractionStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step.

    Attributes:
        type: what is done.
        value: what is sent; the key; the pattern; for `delay` the seconds.
        timeout: seconds that a wait may take; None for the emulator's own.
        assertion: for `assert`, what is expected.
        scope: for `wait`, where the pattern is looked for.
        subject: for `assert`, what is compared.
    """

    type: StepType
    value: Any = None
    timeout: float | None = None
    assertion: AssertionOptions | None = None
    scope: Scope = "new"
    subject: Subject = "output"


class InteractionScript(msgspec.Struct, frozen=True, kw_only=True):
    """Steps under a name."""

    name: str
    steps: tuple[InteractionStep, ...]
    description: str | None = None


class StepResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a step; `duration` in seconds, `output` is what the program wrote meanwhile."""

    step: InteractionStep
    success: bool
    duration: float
    output: str | None = None
    error: str | None = None
    assertion: AssertionResult | None = None


class InteractionResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a script: of every step that was tried. After a failed assertion the next steps are still tried."""

    success: bool
    steps: tuple[StepResult, ...]
    total_duration: float
    exit_status: ExitStatus | None = None
    output: str = ""
    error: str | None = None
    """Why the first step that failed did so."""

    @property
    def exit_code(self) -> int | None:
        """The exit code, if the process has ended by itself."""
        return None if self.exit_status is None else self.exit_status.code
