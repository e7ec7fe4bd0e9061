"""Results as one HTML page that needs nothing else: no script, no file beside it, no network.

All that was said is escaped, and what cannot be shown is made visible. Tests that failed come first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Final
from urllib.parse import quote

from reenact.terminal.report.characters import encodable, end_of, on_one_line, plain_lines
from reenact.terminal.report.page import style_sheet
from reenact.terminal.report.painting import Painter
from reenact.terminal.report.results import Status, TestResult, TestSuiteResult
from reenact.terminal.report.selection import holds_a_diff, unsaid
from reenact.terminal.report.totals import Totals, spoken, totals

LARGEST: Final = 50_000
"""Characters that are shown of one text; the last ones."""
LARGEST_IN_ALL: Final = 5_000_000
"""Characters that are shown of all texts together."""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_BAD: Final[frozenset[Status]] = frozenset({"failed", "error"})


def html(results: Sequence[TestSuiteResult], beside: Path) -> str:
    """Return the page; links to attachments lead there from the directory that it is to be in."""
    return _Page(beside).document(results)


class _Page:
    """Writes one page: it knows what was painted, and how much may still be shown."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._painter = Painter()
        self._left = LARGEST_IN_ALL

    def document(self, results: Sequence[TestSuiteResult]) -> str:
        sums = totals(results)
        body = "".join((*self._header(results, sums), *self._failed(results), *self._all(results)))
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(_verdict(sums))}</title>\n"
            f"<style>{style_sheet(self._painter.rules())}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
        )

    def _header(self, results: Sequence[TestSuiteResult], sums: Totals) -> Iterator[str]:
        yield f'<header>\n<h1>{escape(_verdict(sums))}</h1>\n<p id="summary">{escape(str(sums))}</p>\n'
        starts = [suite.started for suite in results if suite.started is not None]
        if starts:
            began = datetime.fromtimestamp(min(starts), UTC)
            when = began.strftime("%Y-%m-%d %H:%M:%S UTC")
            yield f'<p>Started <time datetime="{began.strftime("%Y-%m-%dT%H:%M:%SZ")}">{when}</time></p>\n'
        yield "</header>\n<main>\n"

    def _failed(self, results: Sequence[TestSuiteResult]) -> Iterator[str]:
        failed = [
            (_anchor(at, place), suite, test)
            for at, suite in enumerate(results)
            for place, test in enumerate(suite.tests)
            if test.status in _BAD
        ]
        if failed:
            yield '<section aria-labelledby="failed">\n<h2 id="failed">Tests that failed</h2>\n'
            for anchor, suite, test in failed:
                yield from self._account(anchor, suite, test)
            yield "</section>\n"

    def _account(self, anchor: str, suite: TestSuiteResult, test: TestResult) -> Iterator[str]:
        name = f"{_name(suite.name)}: {_name(test.name)}"
        yield f'<article id="{anchor}" aria-labelledby="{anchor}-name">\n<h3 id="{anchor}-name">{name}</h3>\n'
        kind = "" if test.error_type is None else f" ({escape(test.error_type.value)})"
        tried = f", tried {test.attempts} times" if test.attempts > 1 else ""
        yield f'<p><span class="{test.status}">{test.status}</span>{kind} in {spoken(test.duration)}{tried}</p>\n'
        yield self._block("Why", "text", test.error or "It is not known why.", diff=holds_a_diff(test))
        for assertion, message, diff in unsaid(test):
            if message:
                yield self._text(f"Assertion ({assertion.type})", message)
            if diff:
                yield self._block(f"What is different ({assertion.type})", "text", diff, diff=True)
        if test.stack:
            yield self._text("Where", test.stack)
        if test.screen is not None:
            yield self._block("The last screen", "terminal", test.screen)
        if test.output:
            yield self._block("Output", "terminal", test.output, painted=True)
        if test.attachments:
            yield f"<h4>Attachments</h4>\n<ul>\n{''.join(f'<li>{link}</li>' for link in self._links(test))}\n</ul>\n"
        yield "</article>\n"

    def _text(self, title: str, text: str) -> str:
        return self._block(title, "text", text)

    def _block(self, title: str, kind: str, text: str, *, painted: bool = False, diff: bool = False) -> str:
        end, missing = end_of(text, min(LARGEST, self._left))
        self._left -= len(end)
        note = f"<p>{missing} characters before this are left out.</p>\n" if missing else ""
        if painted:
            shown = self._painter.paint(end)
        elif diff:
            shown = "\n".join(_diff_line(line) for line in plain_lines(end).split("\n"))
        else:
            shown = escape(plain_lines(end))
        # A reader drops a line break that comes first in `pre`. It can be scrolled, so it must be reached by keyboard.
        heading = escape(title)
        return (
            f'<h4>{heading}</h4>\n{note}<pre class="{kind}" tabindex="0" role="region" aria-label="{heading}">'
            f"\n{shown}</pre>\n"
        )

    def _all(self, results: Sequence[TestSuiteResult]) -> Iterator[str]:
        yield '<section aria-labelledby="all">\n<h2 id="all">All tests</h2>\n'
        if not results:
            yield "<p>There were none.</p>\n"
        for at, suite in enumerate(results):
            yield f"<h3>{_name(suite.name)} ({spoken(suite.duration)})</h3>\n<table>\n<thead>\n<tr>"
            yield "".join(f'<th scope="col">{title}</th>' for title in ("Result", "Test", "Time", "Notes"))
            yield "</tr>\n</thead>\n<tbody>\n"
            for place, test in enumerate(suite.tests):
                yield self._row(_anchor(at, place), test)
            yield "</tbody>\n</table>\n"
        yield "</section>\n</main>\n"

    def _row(self, anchor: str, test: TestResult) -> str:
        name = _name(test.name)
        if test.status in _BAD:
            name = f'<a href="#{anchor}">{name}</a>'
        notes = [f"tried {test.attempts} times"] if test.attempts > 1 else []
        if test.reason:
            notes.append(escape(plain_lines(end_of(test.reason, LARGEST)[0])))
        notes += self._links(test)
        return (
            f'<tr><td class="{test.status}">{test.status}</td><td>{name}</td>'
            f'<td class="time">{spoken(test.duration)}</td><td>{", ".join(notes)}</td></tr>\n'
        )

    def _links(self, test: TestResult) -> list[str]:
        return [
            f'<a href="{escape(link_from(self._directory, path))}">{_name(Path(path).name or path)}</a>'
            for path in test.attachments
        ]


def link_from(directory: Path, path: str) -> str:
    """Return a relative reference to the file; every character that means something in one is quoted, `:` too."""
    relative = os.path.relpath(path or ".", directory)
    try:
        name = os.fsencode(relative)
    except UnicodeEncodeError:
        name = encodable(relative).encode()
    return quote(name, safe="/")


def _verdict(sums: Totals) -> str:
    bad = sums.failed + sums.errors
    if bad:
        return f"{bad} of {sums.tests} terminal tests did not pass"
    return f"{sums.passed} of {sums.tests} terminal tests passed"


def _name(text: str) -> str:
    return escape(on_one_line(text)) if text.strip() else "unnamed"


def _anchor(suite: int, test: int) -> str:
    return f"test-{suite + 1}-{test + 1}"


def _diff_line(line: str) -> str:
    kind = {"+": "added", "-": "removed"}.get(line[:1])
    return escape(line) if kind is None else f'<span class="{kind}">{escape(line)}</span>'
