"""The console report: a line for each test, then the details of failed tests, then the totals."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import TextIO, TypeAlias

from reenact.terminal.ansi.parser import ANSIParser
from reenact.terminal.report.results import (
    FAILED,
    Results,
    TestResult,
    TestSuiteResult,
    duration_text,
    failure_parts,
    totals,
    tried,
)
from reenact.terminal.text import end_of, one_line, plain_lines

LARGEST = 4000
"""Maximum number of characters shown of one text; of output its end, of other texts their beginning."""
DETAILED = 100
"""Maximum number of failures shown with details; of further ones only the reason is shown."""
_WORDS = {"passed": "passed ", "failed": "FAILED ", "error": "ERROR  ", "skipped": "skipped"}
_Paint: TypeAlias = Callable[[str, str], str]
"""Adds a rendition to a text, if there are to be colours."""
_COLORS = {"passed": "32", "failed": "1;31", "error": "1;35", "skipped": "33"}


def console(results: Results, *, colored: bool = False) -> str:
    """Return the report, with control characters escaped except our own colours, if `colored`."""
    return "\n".join(_lines(results, _painted if colored else _unpainted)) + "\n"


def wants_color(file: TextIO, environment: Mapping[str, str]) -> bool:
    """Return whether to use colours: on a terminal that supports them, unless `NO_COLOR` is set (no-color.org)."""
    return file.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def write_console(text: str, file: TextIO) -> None:
    r"""Write the text; characters that the file's encoding does not have are written as `\u2026` and the like."""
    encoding = getattr(file, "encoding", None) or "utf-8"
    file.write(text.encode(encoding, "backslashreplace").decode(encoding))
    file.flush()


def _painted(text: str, rendition: str) -> str:
    return f"\x1b[{rendition}m{text}\x1b[0m" if text else text


def _unpainted(text: str, _rendition: str) -> str:
    return text


def _lines(results: Results, paint: _Paint) -> Iterator[str]:
    for suite in results:
        yield paint(one_line(suite.name), "1")
        for test in suite.tests:
            yield _line(test, paint)
        yield ""
    failed = [(suite, test) for suite in results for test in suite.tests if test.status in FAILED]
    for suite, test in failed[:DETAILED]:
        yield _title(suite, test, paint)
        yield from _details(test, paint)
        yield ""
    for suite, test in failed[DETAILED:]:
        yield f"{_title(suite, test, paint)}: {_reason(test)}"
    if failed[DETAILED:]:
        yield f"(only the first {DETAILED} failures are shown with all about them)\n"
    sums = totals(results)
    yield paint(str(sums), "1;32" if sums.success else "1;31")


def _line(test: TestResult, paint: _Paint) -> str:
    notes = [duration_text(test.duration), *tried(test)]
    if test.status == "skipped" and test.reason:
        notes.append(one_line(test.reason))
    return f"  {paint(_WORDS[test.status], _COLORS[test.status])} {one_line(test.name)} ({', '.join(notes)})"


def _title(suite: TestSuiteResult, test: TestResult, paint: _Paint) -> str:
    name = f"{one_line(suite.name)}: {one_line(test.name)}"
    return f"{paint(_WORDS[test.status].rstrip(), _COLORS[test.status])} {paint(name, '1')}"


def _reason(test: TestResult) -> str:
    first, _, _ = plain_lines(test.error or "it is not known why").strip().partition("\n")
    return first[:LARGEST]


def _details(test: TestResult, paint: _Paint) -> Iterator[str]:
    for part in failure_parts(test):
        if part.title != "why" and not (part.kind == "output" and test.screen is not None):
            yield paint(f"    {part.title}:", "2")
        match part.kind:
            case "text":
                yield _beginning(part.text)
            case "diff":
                yield _painted_diff(_beginning(part.text), paint)
            case "screen":
                yield _framed(_beginning(part.text) if part.text.strip() else "    (empty)", paint)
            case "output":
                if test.screen is None:
                    yield _framed(_ending(part.text), paint)
    for path in test.attachments:
        yield f"    kept: {one_line(path)}"


def _beginning(text: str) -> str:
    lines = plain_lines(text).strip("\n")
    start, missing = lines[:LARGEST], len(lines[LARGEST:])
    note = f"\n({missing} more characters are left out)" if missing else ""
    return _indented(start + note)


def _ending(output: str) -> str:
    end, missing = end_of(output, LARGEST)
    note = f"({missing} characters before this are left out)\n" if missing else ""
    return _indented(note + plain_lines(ANSIParser().strip(end)).strip("\n"))


def _indented(text: str) -> str:
    return textwrap.indent(text, "    ", lambda _: True)


def _framed(text: str, paint: _Paint) -> str:
    return "\n".join(paint("    | ", "2") + line.removeprefix("    ") for line in text.split("\n"))


def _painted_diff(diff: str, paint: _Paint) -> str:
    colors = {"+": "32", "-": "31", "@": "36"}
    return "\n".join(paint(line, color) if (color := colors.get(line[4:5])) else line for line in diff.split("\n"))
