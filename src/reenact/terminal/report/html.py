"""Results as one self-contained HTML page: without scripts, other files or network access.

All text is escaped, and invisible characters are shown as escapes. Failed tests come first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Final
from urllib.parse import quote

from reenact.terminal.ansi.parser import ANSIParser, ANSIToken
from reenact.terminal.ansi.style import ANSIStyle
from reenact.terminal.report.results import (
    FAILED,
    Part,
    Results,
    TestResult,
    TestSuiteResult,
    Totals,
    duration_text,
    failure_parts,
    shown_name,
    totals,
    tried,
)
from reenact.terminal.screen.drawing import BACKGROUND, FOREGROUND, shown_color, shown_colors
from reenact.terminal.text import encodable, end_of, plain_lines, with_newlines

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1c1e21",
    "line": "#c9ccd1",
    "link": "#0b57d0",
    "passed": "#146c2e",
    "failed": "#b3261e",
    "error": "#8a3ffc",
    "skipped": "#5b5f66",
    "added": "#d7f5dd",
    "removed": "#fde0de",
}
DARK = {
    "paper": "#121316",
    "ink": "#e4e6eb",
    "line": "#4a4d54",
    "link": "#8ab4f8",
    "passed": "#6dd58c",
    "failed": "#ff8a80",
    "error": "#c9a6ff",
    "skipped": "#a9adb5",
    "added": "#123d20",
    "removed": "#4a1a17",
}


def _style_sheet() -> str:
    return f"""
:root {{ color-scheme: light dark; {_variables(LIGHT)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}
body {{ margin: 0 auto; max-width: 75rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; }}
h1, h2, h3, h4 {{ line-height: 1.2; overflow-wrap: anywhere; }}
h4 {{ margin: 1rem 0 0.25rem; }}
a {{ color: var(--link); }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ border-bottom: 1px solid var(--line); padding: 0.25rem 0.5rem; text-align: left; overflow-wrap: anywhere; }}
td.time {{ text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }}
article {{ border-top: 2px solid var(--failed); margin: 1.5rem 0; }}
.passed {{ color: var(--passed); }}
.failed {{ color: var(--failed); font-weight: bold; }}
.error {{ color: var(--error); font-weight: bold; }}
.skipped {{ color: var(--skipped); }}
pre {{ border: 1px solid var(--line); margin: 0; max-height: 40rem; overflow: auto; padding: 0.5rem;
  font: 0.875rem/1.3 ui-monospace, monospace; }}
pre.text {{ white-space: pre-wrap; overflow-wrap: anywhere; }}
pre.terminal {{ background: {BACKGROUND}; color: {FOREGROUND}; }}
.added {{ background: var(--added); }}
.removed {{ background: var(--removed); }}
"""


def _variables(theme: dict[str, str]) -> str:
    return " ".join(f"--{name}: {color};" for name, color in theme.items())


LARGEST = 50_000
"""Maximum number of characters shown of one text, from its end."""
LARGEST_IN_ALL = 5_000_000
"""Maximum number of characters shown of all texts together."""
_CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_TEXT_STYLES = ("font-weight: bold", "opacity: 0.75", "font-style: italic", "outline: 1px dotted")
"""CSS of bold, dim, italic and hidden text."""
_UNDERLINES: Final[dict[str | bool, str]] = {False: "solid", "single": "solid", "curly": "wavy"}


def html(results: Results, beside: Path) -> str:
    """Return the page; links to attachments are relative to the directory `beside`, where the page will be."""
    return _Page(beside).document(results)


class _Page:
    """Writes one page, and limits the total amount of text on it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._left = LARGEST_IN_ALL

    def document(self, results: Results) -> str:
        sums = totals(results)
        body = "".join((*self._header(results, sums), *self._failed(results), *self._all(results)))
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{escape(_CONTENT_POLICY)}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(_verdict(sums))}</title>\n"
            f"<style>{_style_sheet()}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
        )

    def _header(self, results: Results, sums: Totals) -> Iterator[str]:
        yield f'<header>\n<h1>{escape(_verdict(sums))}</h1>\n<p id="summary">{escape(str(sums))}</p>\n'
        starts = [suite.started for suite in results if suite.started is not None]
        if starts:
            began = datetime.fromtimestamp(min(starts), UTC)
            when = began.strftime("%Y-%m-%d %H:%M:%S UTC")
            yield f'<p>Started <time datetime="{began.strftime("%Y-%m-%dT%H:%M:%SZ")}">{when}</time></p>\n'
        yield "</header>\n<main>\n"

    def _failed(self, results: Results) -> Iterator[str]:
        failed = [
            (_anchor(at, place), suite, test)
            for at, suite in enumerate(results)
            for place, test in enumerate(suite.tests)
            if test.status in FAILED
        ]
        if failed:
            yield '<section aria-labelledby="failed">\n<h2 id="failed">Tests that failed</h2>\n'
            for anchor, suite, test in failed:
                yield from self._failure(anchor, suite, test)
            yield "</section>\n"

    def _failure(self, anchor: str, suite: TestSuiteResult, test: TestResult) -> Iterator[str]:
        name = f"{_name(suite.name)}: {_name(test.name)}"
        yield f'<article id="{anchor}" aria-labelledby="{anchor}-name">\n<h3 id="{anchor}-name">{name}</h3>\n'
        kind = "" if test.error_type is None else f" ({escape(test.error_type.value)})"
        notes = ", ".join([duration_text(test.duration), *tried(test)])
        yield f'<p><span class="{test.status}">{test.status}</span>{kind} in {notes}</p>\n'
        for part in failure_parts(test):
            yield self._block(part)
        if test.attachments:
            yield f"<h4>Attachments</h4>\n<ul>\n{''.join(f'<li>{link}</li>' for link in self._links(test))}\n</ul>\n"
        yield "</article>\n"

    def _block(self, part: Part) -> str:
        end, missing = end_of(part.text, min(LARGEST, self._left))
        self._left -= len(end)
        note = f"<p>{missing} characters before this are left out.</p>\n" if missing else ""
        match part.kind:
            case "output":
                shown = styled(end)
            case "diff":
                shown = "\n".join(_diff_line(line) for line in plain_lines(end).split("\n"))
            case _:
                shown = escape(plain_lines(end))
        # HTML parsers drop a line break at the beginning of `pre`. It is scrollable, so it must be reachable by
        # keyboard.
        heading = escape(part.title.capitalize())
        look = "terminal" if part.kind in {"screen", "output"} else "text"
        return (
            f'<h4>{heading}</h4>\n{note}<pre class="{look}" tabindex="0" role="region" aria-label="{heading}">'
            f"\n{shown}</pre>\n"
        )

    def _all(self, results: Results) -> Iterator[str]:
        yield '<section aria-labelledby="all">\n<h2 id="all">All tests</h2>\n'
        if not results:
            yield "<p>There were none.</p>\n"
        for at, suite in enumerate(results):
            yield f"<h3>{_name(suite.name)} ({duration_text(suite.duration)})</h3>\n<table>\n<thead>\n<tr>"
            yield "".join(f'<th scope="col">{title}</th>' for title in ("Result", "Test", "Time", "Notes"))
            yield "</tr>\n</thead>\n<tbody>\n"
            for place, test in enumerate(suite.tests):
                yield self._row(_anchor(at, place), test)
            yield "</tbody>\n</table>\n"
        yield "</section>\n</main>\n"

    def _row(self, anchor: str, test: TestResult) -> str:
        name = _name(test.name)
        if test.status in FAILED:
            name = f'<a href="#{anchor}">{name}</a>'
        notes = tried(test)
        if test.reason:
            notes.append(escape(plain_lines(end_of(test.reason, LARGEST)[0])))
        notes += self._links(test)
        return (
            f'<tr><td class="{test.status}">{test.status}</td><td>{name}</td>'
            f'<td class="time">{duration_text(test.duration)}</td><td>{", ".join(notes)}</td></tr>\n'
        )

    def _links(self, test: TestResult) -> list[str]:
        return [
            f'<a href="{escape(link_from(self._directory, path))}">{_name(Path(path).name or path)}</a>'
            for path in test.attachments
        ]


def styled(output: str) -> str:
    """Return the text of a program's output as HTML with its colours and styles."""
    return "".join(_span(token) for token in ANSIParser().parse(with_newlines(output)) if token.type == "text")


def _span(token: ANSIToken) -> str:
    text, css = escape(plain_lines(token.content)), "; ".join(_css(token.style))
    return f'<span style="{css}">{text}</span>' if css else text


def _css(style: ANSIStyle) -> Iterator[str]:
    ink, paper = shown_colors(style)
    if style.foreground == "black" and paper == BACKGROUND:  # unreadable on the dark background
        ink = shown_color("bright_black", ink)
    if ink != FOREGROUND:
        yield f"color: {ink}"
    if paper != BACKGROUND:
        yield f"background: {paper}"
    yield from (
        css for css, on in zip(_TEXT_STYLES, (style.bold, style.dim, style.italic, style.hidden), strict=True) if on
    )
    lines = (("underline", style.underline), ("line-through", style.strikethrough), ("overline", style.overline))
    if drawn := " ".join(name for name, on in lines if on):
        yield f"text-decoration: {drawn} {_UNDERLINES.get(style.underline, style.underline)}"


def link_from(directory: Path, path: str) -> str:
    """Return a relative URL of the file; all special characters are percent-encoded, also `:`."""
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
    return escape(shown_name(text))


def _anchor(suite: int, test: int) -> str:
    return f"test-{suite + 1}-{test + 1}"


def _diff_line(line: str) -> str:
    kind = {"+": "added", "-": "removed"}.get(line[:1])
    return escape(line) if kind is None else f'<span class="{kind}">{escape(line)}</span>'
