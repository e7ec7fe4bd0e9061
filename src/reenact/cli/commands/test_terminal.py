"""The command `test-terminal`: runs terminal tests from files and writes reports."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import TypeVar, get_args

import msgspec
from msgspec.structs import replace

from reenact.cli.commands.sessions import progress_line
from reenact.cli.output.console import Console
from reenact.cli.output.failures import ExitCode
from reenact.cli.parsing.options import TestTerminalOptions
from reenact.domain.errors import ConfigurationError, needing_extra
from reenact.projections.log import Progress
from reenact.terminal.cases.loading import CaseFile, command_line, load_cases, load_config
from reenact.terminal.cases.plain import Plain
from reenact.terminal.cases.runner import apply_only, run_cases
from reenact.terminal.config import ReportFormat, TerminalTestConfig
from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType
from reenact.terminal.report.generator import ReportGenerator, ReportOptions
from reenact.terminal.report.results import TestResult, TestSuiteResult
from reenact.terminal.text import one_line

T = TypeVar("T")
_FILES = {"junit": "junit.xml", "html": "report.html", "json": "report.json", "console": "report.txt"}
"""File names of reports in the configuration's `outputDir`; the console report is only printed."""


def run_tests(options: TestTerminalOptions, console: Console) -> int:
    """Run the tests in the files and print the results; return 1 if any test did not pass.

    Raises:
        ConfigurationError: a file or an argument is invalid, no test is left to run, or a report cannot be written.
    """
    with _as_configuration():
        base = TerminalTestConfig() if options.config is None else load_config(options.config)
        reports = [_report(text) for text in options.reports]
        # Run a file once even if it is named twice, for example by two patterns of a shell.
        names = {Path(name).absolute(): name for name in reversed(options.files)}
        every = apply_only([load_cases(name, base) for name in reversed(names.values())])
        files = [_chosen(file, options) for file in every]
        config = _of_the_run(files, base)
        with needing_extra("terminal", "a terminal"):
            import_module("reenact.terminal.screen.engine")
        total = sum(len(file.cases) for file in files)
        if total == 0:
            what = "there is no test in these files"
            raise ConfigurationError(what if options.filter is None else f"{what} with {options.filter!r} in its name")
        reports = reports if options.reports else list(_configured(config))
        for wanted in reports:
            _make_room(wanted)
        with _shown(console, total) as progress:
            results = run_cases(
                files,
                config,
                workers=options.workers,
                retries=options.retries,
                progress=progress,
                keep=None if options.keep is None else Path(options.keep),
            )
        generator = ReportGenerator()
        try:
            for wanted in reports:
                generator.generate(results, wanted)
        finally:
            with console.raising_output_lost():
                generator.print_console(results, console.out)
    return ExitCode.SUCCESS if _all_well(results) else ExitCode.UNEXPECTED


@contextmanager
def _as_configuration() -> Generator[None]:
    """Raise errors in files and arguments as `ConfigurationError`, like other errors of the command line."""
    try:
        yield
    except TerminalTestError as error:
        if error.type is not TerminalTestErrorType.INVALID_CONFIG:
            raise
        raise ConfigurationError(one_line(error.message)) from error


def _report(text: str) -> ReportOptions:
    name, _, path = text.partition("=")
    known = get_args(ReportFormat)
    if name not in known or not path:
        raise ConfigurationError(f"--report must be FORMAT=PATH, with one of {', '.join(known)}, not {text!r}")
    return ReportOptions(format=msgspec.convert(name, ReportFormat), output_path=path)


def _make_room(report: ReportOptions) -> None:
    """Check before the tests run that the report can be written."""
    path = Path(report.output_path or "")
    try:
        if path.is_dir():
            raise IsADirectoryError(0, "it is a directory")
        if path.exists() and not path.is_file():
            return
        directory = Path(os.path.realpath(path)).parent
        directory.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=directory):
            pass
    except (OSError, ValueError) as error:  # a NUL in the name
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigurationError(f"--report: the report cannot be written to {str(path)!r}: {why}") from error


def _configured(config: TerminalTestConfig) -> Iterator[ReportOptions]:
    for format_ in config.reporting.formats:
        if format_ != "console":
            yield ReportOptions(format=format_, output_path=Path(config.reporting.output_dir, _FILES[format_]))


def _chosen(file: CaseFile, options: TestTerminalOptions) -> CaseFile:
    """Return the file with only the selected tests, and with the command of the options."""
    wanted = (options.filter or "").casefold()
    cases = tuple(case for case in file.cases if wanted in f"{file.name} {case.name}".casefold())
    config = file.config
    if options.command is not None:
        config = replace(config, cli_command=_command(options.command))
    return replace(file, cases=cases, config=config)


def _command(line: str) -> str:
    """Return the command line for tests, which run in another folder; the path of a program here becomes absolute."""
    here = Path.cwd()
    try:
        program, *arguments = command_line(Plain(line), here)
    except TerminalTestError as error:
        raise ConfigurationError(f"--command: {error.message}") from error
    return shlex.join([str(here / program) if os.sep in program else program, *arguments])


def _of_the_run(files: Sequence[CaseFile], base: TerminalTestConfig) -> TerminalTestConfig:
    """Return the configuration of the whole run; a file may set it unless another file disagrees."""
    return replace(
        base,
        parallel=_agreed("parallel", files, lambda config: config.parallel, base),
        reporting=_agreed("reporting", files, lambda config: config.reporting, base),
    )


def _agreed(
    name: str, files: Iterable[CaseFile], part: Callable[[TerminalTestConfig], T], base: TerminalTestConfig
) -> T:
    said = {part(file.config): file.file for file in files if part(file.config) != part(base)}
    if len(said) > 1:
        names = " and ".join(one_line(str(name)) for name in said.values())
        raise ConfigurationError(f"{names} do not agree on {name}; say it in one file for all, with --config")
    return next(iter(said), part(base))


@contextmanager
def _shown(console: Console, total: int) -> Generator[Callable[[TestResult], None]]:
    """Yield a function that shows the progress, unless in CI."""
    if console.in_ci:
        yield lambda _: None
        return
    with progress_line(console) as show:
        done = 0

        def tell(_: TestResult) -> None:
            nonlocal done
            done += 1
            show(Progress(phase="tests", done=done, total=total))

        yield tell


def _all_well(results: Iterable[TestSuiteResult]) -> bool:
    return not any(suite.failed or suite.errors for suite in results)
