"""The report generator: formats results, and optionally writes them to a file."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from math import isfinite
from pathlib import Path
from typing import Literal, TextIO

import msgspec

from reenact.domain.plain import is_mapping, is_sequence
from reenact.terminal.config import ReportFormat
from reenact.terminal.errors import invalid
from reenact.terminal.matching.options import is_pattern
from reenact.terminal.report.console import console, wants_color, write_console
from reenact.terminal.report.html import html
from reenact.terminal.report.junit import junit
from reenact.terminal.report.results import Results, TestSuiteResult, Totals, totals, without_unwanted
from reenact.terminal.text import encodable


def write_report(path: Path, text: str) -> None:
    """Write the text to the path atomically, creating its parent directories.

    A path that is not a regular file, such as a device or a pipe, is written to directly.

    Raises:
        TerminalTestError: it cannot be written (`INVALID_CONFIG`); the message names the path and the reason.
    """
    data = text.encode()
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, data)
    except (OSError, ValueError) as error:  # a NUL in the name
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise invalid(
            f"the report cannot be written to {os.fspath(path)!r}: {why}; make room or name another file"
        ) from error


def _replace(target: Path, data: bytes) -> None:
    beside = target.with_name(f".{target.name[:80]}.{secrets.token_hex(4)}.part")
    try:
        with beside.open("xb") as file:
            file.write(data)
        beside.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


class ReportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The format and content of a report.

    Attributes:
        format: `junit`, `html`, `json` or `console`.
        output_path: a file for the report; its directories are created, and the file is replaced atomically.
        include_output: include the output of the programs; the reason of a failure is included in any case.
        include_stack: include the tracebacks of failures.
    """

    format: ReportFormat
    output_path: str | os.PathLike[str] | None = None
    include_output: bool = True
    include_stack: bool = True


class ReportGenerator:
    """Creates reports of test results.

    A duration or a start that is not a number of seconds raises a `TerminalTestError` of type `INVALID_CONFIG`.
    """

    def generate(self, results: Results, options: ReportOptions) -> str:
        """Return the report, and write it to `output_path` if there is one.

        Raises:
            TerminalTestError: the format is unknown, or the file cannot be written (`INVALID_CONFIG`); an existing file
                is unchanged then.
        """
        path = None if options.output_path is None else Path(options.output_path)
        wanted = without_unwanted(results, include_output=options.include_output, include_stack=options.include_stack)
        report = _format(options.format, wanted, Path.cwd() if path is None else path.absolute().parent)
        if path is not None:
            write_report(path, report)
        return report

    def generate_junit(self, results: Results) -> str:
        """Return the report as JUnit XML, with output and tracebacks."""
        return self.generate(results, ReportOptions(format="junit"))

    def generate_html(self, results: Results) -> str:
        """Return the report as an HTML page whose links are relative to the current directory."""
        return self.generate(results, ReportOptions(format="html"))

    def generate_json(self, results: Results) -> str:
        """Return the report as JSON."""
        return self.generate(results, ReportOptions(format="json"))

    def print_console(self, results: Results, file: TextIO | None = None) -> None:
        """Print the console report to the file or to standard output, with colours if it is a terminal."""
        target = sys.stdout if file is None else file
        wanted = without_unwanted(results, include_output=True, include_stack=True)
        write_console(console(wanted, colored=wants_color(target, os.environ)), target)


def _format(format: ReportFormat, results: Results, directory: Path) -> str:  # noqa: A002 - same name as the option
    match format:
        case "junit":
            return junit(results)
        case "html":
            return html(results, directory)
        case "json":
            return to_json(results)
        case "console":
            return console(results)
        case _:
            raise invalid(
                f"there is no report format {format!r}; choose junit, html, json or console",
            )


_DEEPEST = 100
_LARGEST_INTEGER = 2**53


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Results as JSON, in a stable form for programs; `error_type` of a test is one of `TerminalTestErrorType`.

        {"version": 1,
         "totals": {"tests", "passed", "failed", "errors", "skipped", "duration"},
         "suites": [{"name", "started", "duration", "tests": [
            {"name", "suite", "status", "duration", "error", "error_type", "stack", "output", "screen", "attempts",
             "attachments", "reason",
             "assertions": [{"passed", "type", "actual", "expected", "diff", "message"}]}]}]}

    Times are in seconds, `started` since 1970 in UTC; an unknown value is null. Names may be added to version 1; none
    is removed or changes its meaning.
    """

    version: Literal[1] = 1
    totals: Totals
    suites: tuple[TestSuiteResult, ...]


def to_json(results: Results) -> str:
    """Return the results as strict JSON, without NaN and lone surrogates."""
    report = _json_value(Report(totals=totals(results), suites=tuple(results)))
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def _json_value(value: object, depth: int = 0) -> object:
    """Convert the value to JSON: a pattern becomes its text, and anything that JSON cannot represent its `repr`."""
    if isinstance(value, str):
        return encodable(value)
    if value is None or _is_number(value):
        return value
    if is_pattern(value):
        return encodable(str(value.pattern))
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if is_mapping(value) and depth < _DEEPEST:
        return {encodable(str(key)): _json_value(item, depth + 1) for key, item in value.items()}
    if is_sequence(value) and depth < _DEEPEST:
        return [_json_value(item, depth + 1) for item in value]
    return encodable(repr(value))


def _is_number(value: object) -> bool:
    """Return whether it is a boolean, or a number that every JSON parser reads as the same value."""
    return isfinite(value) if isinstance(value, float) else isinstance(value, int) and abs(value) <= _LARGEST_INTEGER
