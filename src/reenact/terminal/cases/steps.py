"""Scripts, their steps and results; and reading scripts from YAML, JSON or plain data, in a long and a short form."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeGuard, get_args

import msgspec

from reenact.domain.plain import is_mapping
from reenact.terminal.cases.plain import (
    Format,
    Plain,
    called,
    data_of,
    fields_of,
    read_file,
    read_text,
    refuse_unknown,
    struct_of,
)
from reenact.terminal.config import seconds
from reenact.terminal.errors import TerminalTestErrorType, invalid
from reenact.terminal.matching.options import (
    AssertionOptions,
    AssertionResult,
    AssertionType,
    BadPatternError,
    Expression,
    Pattern,
    Scope,
    is_pattern,
)
from reenact.terminal.screen.model import Modes
from reenact.terminal.session.keys import encode
from reenact.terminal.session.spawning import ExitStatus
from reenact.terminal.text import described, quoted

StepType: TypeAlias = Literal["send", "sendKey", "wait", "waitForExit", "assert", "delay"]
Subject: TypeAlias = Literal["output", "screen"]
"""What an assertion checks: all output, including escape sequences, or the text of the screen."""


class InteractionStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step: created by `InteractionStep.send_line("ls")` and the like, or from its fields.

    Attributes:
        type: the action.
        value: what is sent; the key; the pattern; for `delay` the seconds.
        timeout: timeout of a wait in seconds; None for the emulator's, 0 to check once.
        assertion: for `assert`, what is expected.
        scope: for `wait`, where the pattern is searched for.
        subject: for `assert`, what is compared.

    Raises:
        TerminalTestError: the value is invalid for this type (`INVALID_CONFIG`).
    """

    type: StepType
    value: object = None
    timeout: float | None = None
    assertion: AssertionOptions | None = None
    scope: Scope = "new"
    subject: Subject = "output"

    def __post_init__(self) -> None:
        if self.timeout is not None:
            seconds(self.timeout, f"a step {self.type}: timeout")
        if self.type == "delay":
            seconds(self.value, "a step delay: value")
        if problem := _problem_of(self):
            raise invalid(f"a step {self.type}: {problem}")

    @classmethod
    def send(cls, data: str | bytes) -> InteractionStep:
        """Send this unchanged, without pressing Enter."""
        return cls(type="send", value=data)

    @classmethod
    def send_line(cls, text: str) -> InteractionStep:
        """Send this and press Enter."""
        return cls(type="send", value=f"{text}\r")

    @classmethod
    def send_key(cls, key: str) -> InteractionStep:
        """Press a key named as in `SpecialKey`; modifiers are named as in `alt+x` and `shift+up`."""
        return cls(type="sendKey", value=key)

    @classmethod
    def wait(
        cls, pattern: Pattern | Expression, timeout: float | None = None, *, scope: Scope = "new"
    ) -> InteractionStep:
        """Wait until this is shown. A search for a compiled pattern that backtracks has no time limit."""
        return cls(type="wait", value=pattern, timeout=timeout, scope=scope)

    @classmethod
    def wait_for_exit(cls, timeout: float | None = None) -> InteractionStep:
        """Wait for the end of the program, with any exit status; after the timeout, kill it."""
        return cls(type="waitForExit", timeout=timeout)

    @classmethod
    def expect(cls, assertion: AssertionOptions, *, subject: Subject = "output") -> InteractionStep:
        """Compare the current output or screen with what is expected; the script continues even if that fails."""
        return cls(type="assert", assertion=assertion, subject=subject)

    @classmethod
    def delay(cls, seconds: float) -> InteractionStep:
        """Pause for this time."""
        return cls(type="delay", value=seconds)

    def __str__(self) -> str:
        """Return a short description, such as `wait 'Ready'`."""
        match self.type:
            case "waitForExit":
                return self.type
            case "assert":
                assert self.assertion is not None
                return f"assert {self.assertion.type} {_described(self.assertion.expected)}"
            case _:
                return f"{self.type} {_described(self.value)}"


class InteractionScript(msgspec.Struct, frozen=True, kw_only=True):
    """A named sequence of steps."""

    name: str
    steps: tuple[InteractionStep, ...]
    description: str | None = None


class StepResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a step; `duration` is in seconds, `output` is everything written since the previous step."""

    step: InteractionStep
    success: bool
    duration: float
    output: str | None = None
    error: str | None = None
    error_type: TerminalTestErrorType | None = None
    assertion: AssertionResult | None = None


class InteractionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The results of all steps that were executed. The script continues after a failed assertion."""

    success: bool
    steps: tuple[StepResult, ...]
    total_duration: float
    exit_status: ExitStatus | None = None
    output: str = ""
    error: str | None = None
    """Why the first failed step failed, or why the program could not be started."""
    error_type: TerminalTestErrorType | None = None

    @property
    def exit_code(self) -> int | None:
        """The exit code, if the process has exited."""
        return None if self.exit_status is None else self.exit_status.code


def _problem_of(step: InteractionStep) -> str | None:
    """Return what is wrong with the fields, since their types are not checked when a step is created."""
    kind: str = step.type
    value = step.value
    said = described(value)
    match kind:
        case "send":
            return (
                None if isinstance(value, str | bytes) else f"value must be the text or the bytes to send, not {said}"
            )
        case "sendKey":
            return None if isinstance(value, str) and value else f"value must be the name of a key, not {said}"
        case "wait":
            fits = is_regular_expression(value) or (isinstance(value, str) and value != "")
            return None if fits else f"value must be a text or a pattern for text, not {said}"
        case "waitForExit":
            return None if value is None else f"it takes a timeout and no value, not {said}"
        case "assert":
            return None if step.assertion is not None else "the assertion is missing"
        case "delay":
            return None
        case _:
            return f"there is no such step; there are {', '.join(get_args(StepType))}"


def is_regular_expression(value: object) -> TypeGuard[re.Pattern[str] | Expression]:
    """Return whether the value is a regular expression for text, compiled or from a file."""
    return isinstance(value, Expression) or (is_pattern(value) and isinstance(value.pattern, str))


def _described(value: object) -> str:
    return described(value.pattern if is_regular_expression(value) else value)


_ASSERTIONS = get_args(AssertionType)
_FLAGS = ("stripAnsi", "ignoreCase", "ignoreWhitespace")
_EXIT = "waitForExit"


def load_script(path: str | os.PathLike[str]) -> InteractionScript:
    """Load the script in a file with the suffix `.yaml`, `.yml` or `.json`; its default name is the file's.

    Raises:
        TerminalTestError: there is no such file, or it contains no script (`INVALID_CONFIG`).
    """
    file = Path(path)
    return script_in(read_file(file), file.stem)


def read_script(text: str, *, format: Format = "yaml", name: str = "script") -> InteractionScript:  # noqa: A002 - the word
    """Read the script in a text, which may contain another name.

    Raises:
        TerminalTestError: it contains no script (`INVALID_CONFIG`).
    """
    return script_in(read_text(text, format), name)


def script_of(data: object, *, name: str = "script") -> InteractionScript:
    """Convert plain data to a script: a list of steps, or a mapping with `steps` and optionally a `name`.

    Raises:
        TerminalTestError: the data is invalid (`INVALID_CONFIG`).
    """
    return script_in(Plain(data), name)


def script_in(plain: Plain, name: str) -> InteractionScript:
    """Convert data of any origin to a script."""
    if not isinstance(plain.value, Mapping):
        return InteractionScript(name=name, steps=_steps(plain))
    _required(plain.fields(fields_of(InteractionScript)), "steps", plain)
    return struct_of(InteractionScript, plain, InteractionScript(name=name, steps=()), {"steps": _steps})


def _steps(plain: Plain) -> tuple[InteractionStep, ...]:
    return tuple(_step(item) for item in plain.items())


def _step(plain: Plain) -> InteractionStep:
    kind, fields = _type_and_fields(plain)
    readers = _STEPS[kind]
    refuse_unknown(fields, readers)
    if kind == "wait" and ("value" in fields) == ("regex" in fields):
        raise plain.wrong("a wait has a value, which is the text to wait for, or a regex")
    values = {"value" if name == "regex" else name: readers[name](item) for name, item in fields.items()}
    make: Callable[..., InteractionStep] = InteractionStep
    return plain.make(lambda: make(type="send" if kind == "sendLine" else kind, **values))  # pyright: ignore[reportArgumentType]  # as its readers gave them


def _type_and_fields(plain: Plain) -> tuple[str, dict[str, Plain]]:
    """Return the type of the step, and its fields in the long form."""
    if isinstance(plain.value, str):
        if plain.value == _EXIT:
            return _EXIT, {}
        raise plain.wrong(f"a step must be a mapping, or the word {_EXIT}, not {quoted(plain.value)}")
    fields = plain.fields()
    if "type" in fields:
        return fields.pop("type").choice(_STEPS), fields
    kinds = [name for name in fields if name in _STEPS]
    if len(kinds) != 1:
        found = " and ".join(kinds) if kinds else ", ".join(fields) or "nothing"
        raise plain.wrong(f"a step must be one of {', '.join(sorted(_STEPS))}, not {found}")
    (kind,) = kinds
    short = fields.pop(kind)
    match kind, short.value:
        case "wait" | "waitForExit", Mapping():
            inner = short.fields()
        case "assert", Mapping():
            inner = {name: item for name, item in short.fields().items() if name == "subject"}
            inner["assertion"] = short
        case "waitForExit", _:
            inner = {"timeout": short}
        case "assert", _:
            raise short.wrong(f"expected a mapping, as {{contains: …}}, got {called(short.value)}")
        case _:
            inner = {"value": short}
    for name in fields.keys() & inner.keys():
        raise fields[name].wrong(f"the field {name} comes twice")
    return kind, fields | inner


def _key(plain: Plain) -> str:
    """Return the name of the key after checking that it exists."""
    key = plain.text()
    plain.make(lambda: encode(key, Modes()))
    return key


def _pattern(plain: Plain) -> Pattern | Expression:
    if is_mapping(plain.value):
        return _compiled(_required(plain.fields(["regex"]), "regex", plain))
    return plain.value if is_regular_expression(plain.value) else plain.text()


def _assertion(plain: Plain) -> AssertionOptions:
    fields = plain.fields([*_ASSERTIONS, *_FLAGS, "type", "expected", "subject"])
    kinds = [name for name in _ASSERTIONS if name in fields]
    if "type" in fields and not kinds:
        kind, expected = fields["type"].choice(_ASSERTIONS), _required(fields, "expected", plain)
    elif len(kinds) == 1 and "type" not in fields and "expected" not in fields:
        (kind,) = kinds
        expected = fields[kind]
    else:
        raise plain.wrong(f"an assertion has one of {', '.join(_ASSERTIONS)}, or a type and what is expected")
    flags = replace(plain, value={name: fields[name].value for name in _FLAGS if name in fields})
    base = AssertionOptions(type=msgspec.convert(kind, AssertionType), expected=_expected(kind, expected))
    return struct_of(AssertionOptions, flags, base)


def _expected(kind: str, plain: Plain) -> object:
    match kind:
        case "exact" | "contains":
            return plain.text()
        case "regex":
            expression = _compiled(plain)
            return expression.pattern if isinstance(expression, Expression) else expression
        case "jsonSchema" if not isinstance(plain.value, Mapping | bool | str):
            raise plain.wrong(f"a schema must be a mapping, true, false, or JSON text, not {called(plain.value)}")
        case _:
            return data_of(plain)


def _compiled(plain: Plain) -> re.Pattern[str] | Expression:
    if is_regular_expression(plain.value):
        return plain.value
    try:
        return Expression(plain.text())
    except BadPatternError as error:
        raise plain.wrong(str(error)) from error


def _required(fields: Mapping[str, Plain], name: str, plain: Plain) -> Plain:
    if name not in fields:
        raise plain.wrong(f"the field {name} is missing")
    return fields[name]


_STEPS: Final[Mapping[str, Mapping[str, Callable[[Plain], object]]]] = {
    "send": {"value": Plain.text},
    "sendLine": {"value": lambda line: f"{line.text()}\r"},
    "sendKey": {"value": _key},
    "wait": {
        "value": _pattern,
        "regex": _compiled,
        "timeout": lambda seconds: seconds.value,
        "scope": lambda scope: scope.choice(get_args(Scope)),
    },
    "waitForExit": {"timeout": lambda seconds: seconds.value},
    "assert": {"assertion": _assertion, "subject": lambda subject: subject.choice(get_args(Subject))},
    "delay": {"value": lambda seconds: seconds.value},
}
"""The fields of each step type, and their readers; `sendLine` is `send` with Enter."""
