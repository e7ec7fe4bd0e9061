"""Test cases, which have a program, a fixture, a script and the expected end of the program, and their files."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec.structs import replace

from reenact.domain.plain import is_mapping, is_sequence
from reenact.terminal.cases.plain import Plain, Readers, fields_of, read_file, struct_of
from reenact.terminal.cases.steps import InteractionScript, script_in
from reenact.terminal.config import TerminalSize, TerminalTestConfig, seconds
from reenact.terminal.errors import invalid
from reenact.terminal.fixture.files import check_options
from reenact.terminal.fixture.options import FixtureOptions
from reenact.terminal.text import described, quoted

_LARGEST_CODE = 255


class TestCategory(StrEnum):
    """The categories of tests."""

    __test__ = False

    INTERACTIVE = "interactive"
    NON_INTERACTIVE = "non-interactive"
    SESSION = "session"
    EXTENSION = "extension"
    ERROR = "error"
    CI = "ci"


class TerminalTestCase(msgspec.Struct, frozen=True, kw_only=True):
    """A test.

    Attributes:
        command: the program and its first arguments; empty for the configuration's `cliCommand`.
        cli_args: more arguments.
        expected_exit_code: the script waits for the end of the program, which must have this exit code.
        expected_signal: the script waits for the end of the program, which must be caused by this signal, such as
            `SIGTERM`.
        timeout: seconds for the whole test; None for the configuration's.
        skip: the test is not run; a text says why.
        only: if any test of a run has this, only such tests are run.
        retries: how often a failed test is tried again; None for the run's default.
        size: the size of the terminal; None for the configuration's.

    Raises:
        TerminalTestError: a value is invalid (`INVALID_CONFIG`).
    """

    name: str
    script: InteractionScript
    description: str | None = None
    category: TestCategory = TestCategory.INTERACTIVE
    fixture: FixtureOptions | None = None
    command: tuple[str, ...] = ()
    cli_args: tuple[str, ...] = ()
    expected_exit_code: int | None = None
    expected_signal: str | None = None
    timeout: float | None = None
    skip: bool | str = False
    only: bool = False
    retries: int | None = None
    size: TerminalSize | None = None

    def __post_init__(self) -> None:
        if self.timeout is not None:
            seconds(self.timeout, "timeout", positive=True)
        if problem := _problem_of(self):
            raise invalid(problem)


def _problem_of(case: TerminalTestCase) -> str | None:
    if not case.name.strip():
        return "the name of the test is empty"
    if case.retries is not None and case.retries < 0:
        return f"retries must be 0 or more, not {described(case.retries)}"
    if any("\0" in word for word in (*case.command, *case.cli_args)):
        return "no program takes NUL in its name or in an argument"
    if case.expected_exit_code is not None and not 0 <= case.expected_exit_code <= _LARGEST_CODE:
        code = described(case.expected_exit_code)
        return f"expectedExitCode must be from 0 to {_LARGEST_CODE}, not {code}; for a signal there is expectedSignal"
    if case.expected_signal is not None and case.expected_signal not in signal.Signals.__members__:
        return f"expectedSignal must be the name of a signal, as SIGTERM, not {described(case.expected_signal)}"
    if case.expected_signal is not None and case.expected_exit_code is not None:
        return "a program ends with an exit code or by a signal; give expectedExitCode or expectedSignal"
    return None


HERE = "${HERE}"
"""Placeholder for the directory of the file, in commands, their arguments and variables."""
_DEFAULTS = TerminalTestConfig()
_FILE_FIELDS = ("suite", "config", "defaults", "tests")
_WITHOUT_DEFAULT = ("name", "script", "description", "only")
"""Fields of a test that have no defaults in `defaults`."""


class CaseFile(msgspec.Struct, frozen=True, kw_only=True):
    """The tests of a file in their order: `name` is the name of the suite, `config` their configuration."""

    name: str
    cases: tuple[TerminalTestCase, ...]
    config: TerminalTestConfig = _DEFAULTS
    file: str | None = None


def load_cases(path: str | os.PathLike[str], config: TerminalTestConfig = _DEFAULTS) -> CaseFile:
    """Load the tests in a file: one test, or a mapping with `tests`, and optionally `suite`, `config` and `defaults`.

    Values under `config` in the file take precedence over `config`.

    Raises:
        TerminalTestError: the file cannot be read, or its content is invalid (`INVALID_CONFIG`).
    """
    file = Path(path)
    plain = read_file(file)
    here = file.absolute().parent
    if not (is_mapping(plain.value) and "tests" in plain.value):
        case = _case(plain, _empty_case(file.stem), here)
        return CaseFile(name=file.stem, cases=(case,), config=config, file=str(file))
    fields = plain.fields(_FILE_FIELDS)
    blank = _empty_case("?")
    if (defaults := fields.get("defaults")) is not None:
        # A field that cannot have a default is refused.
        defaults.fields(name for name in fields_of(TerminalTestCase) if name not in _WITHOUT_DEFAULT)
        blank = _read_case(defaults, blank, here)
    return CaseFile(
        name=fields["suite"].text() if "suite" in fields else file.stem,
        cases=_cases(fields["tests"], blank, here),
        config=_config(fields["config"], config, here) if "config" in fields else config,
        file=str(file),
    )


def load_config(path: str | os.PathLike[str]) -> TerminalTestConfig:
    """Load the configuration in a file.

    Raises:
        TerminalTestError: the file cannot be read, or its content is invalid (`INVALID_CONFIG`).
    """
    file = Path(path)
    return _config(read_file(file), _DEFAULTS, file.absolute().parent)


def command_line(plain: Plain, here: Path) -> tuple[str, ...]:
    """Return the program and its arguments from a list, or from a line that is split like a POSIX shell does.

    Raises:
        TerminalTestError: it is neither, or empty (`INVALID_CONFIG`).
    """
    if is_sequence(plain.value):
        words = [item.text() for item in plain.items()]
    else:
        try:
            words = shlex.split(plain.text())
        except ValueError as error:
            raise plain.wrong(f"this is not a command line: {str(error).lower()}") from error
    if not words or not words[0]:
        raise plain.wrong("the name of a program is missing")
    return tuple(_with_directory(word, here) for word in words)


def _config(plain: Plain, base: TerminalTestConfig, here: Path) -> TerminalTestConfig:
    readers: Readers = {"cli_command": lambda line: shlex.join(command_line(line, here))}
    config = struct_of(TerminalTestConfig, plain, base, readers)
    return replace(config, default_env=_variables(config.default_env, here))


def _cases(plain: Plain, blank: TerminalTestCase, here: Path) -> tuple[TerminalTestCase, ...]:
    cases: dict[str, TerminalTestCase] = {}
    for item in plain.items():
        if "name" not in item.fields():
            raise item.wrong("the field name is missing")
        case = _case(item, blank, here)
        if case.name in cases:
            raise item.wrong(f"there is a test {quoted(case.name)} already")
        cases[case.name] = case
    return tuple(cases.values())


def _case(plain: Plain, blank: TerminalTestCase, here: Path) -> TerminalTestCase:
    case = _read_case(plain, blank, here)
    script = case.script if case.script.name else replace(case.script, name=case.name)
    return replace(case, script=script)


def _read_case(plain: Plain, blank: TerminalTestCase, here: Path) -> TerminalTestCase:
    readers: Readers = {
        "script": lambda script: script_in(script, ""),
        "command": lambda command: command_line(command, here),
        "cli_args": lambda args: tuple(_with_directory(item.text(), here) for item in args.items()),
    }
    case = struct_of(TerminalTestCase, plain, blank, readers)
    given = plain.fields().get("fixture")
    if case.fixture is None or given is None:
        return case
    fixture = replace(case.fixture, env=_variables(case.fixture.env, here))
    given.make(lambda: check_options(fixture))
    return replace(case, fixture=fixture)


def _variables(env: Mapping[str, str], here: Path) -> dict[str, str]:
    return {name: _with_directory(value, here) for name, value in env.items()}


def _with_directory(text: str, here: Path) -> str:
    return text.replace(HERE, str(here))


def _empty_case(name: str) -> TerminalTestCase:
    """Return an empty test, from which others are made."""
    return TerminalTestCase(name=name, script=InteractionScript(name="", steps=()))
