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

from reenact.terminal.ansi.parser import ANSIParser
from reenact.terminal.characters import encodable, end_of, on_one_line, plain_lines, with_newlines
from reenact.terminal.report.results import (
    Status,
    TestResult,
    TestSuiteResult,
    Totals,
    holds_a_diff,
    spoken,
    totals,
    unsaid,
)
from reenact.terminal.style import NAMED, ANSIStyle

PAPER: Final = "#16181d"
INK: Final = "#e4e6eb"
MOST_COLORS: Final = 4096
"""Colours that get a rule of their own; text in yet another one has that of the rest."""
PALETTE: Final = {
    "black": "#8a8f98",  # for text; a background is really black, and so is text on another one
    "red": "#ff7b72",
    "green": "#4ec26b",
    "yellow": "#d9b13b",
    "blue": "#79b0ff",
    "magenta": "#d69cff",
    "cyan": "#4fc4cf",
    "white": "#d0d4db",
    "bright_black": "#949aa5",
    "bright_red": "#ffa198",
    "bright_green": "#7ee29a",
    "bright_yellow": "#f2d06b",
    "bright_blue": "#a8ccff",
    "bright_magenta": "#e6c1ff",
    "bright_cyan": "#7fdde6",
    "bright_white": "#ffffff",
}
"""The first sixteen colours, all of them to be read on `PAPER`."""
STYLES: Final = """\
.bold { font-weight: bold; }
.dim { opacity: 0.75; }
.italic { font-style: italic; }
.underline { text-decoration-line: underline; }
.underline.struck { text-decoration-line: underline line-through; }
.struck { text-decoration-line: line-through; }
.double { text-decoration-style: double; }
.curly { text-decoration-style: wavy; }
.dotted { text-decoration-style: dotted; }
.dashed { text-decoration-style: dashed; }
.over { border-top: 1px solid; }
.concealed { outline: 1px dotted; }
"""
_CUBE: Final = (0, 95, 135, 175, 215, 255)
_GREYS: Final = 232
_DARK: Final = 0.179
"""The luminance at which black and white text are equally well to be read (WCAG 2.2, contrast ratio)."""


class Painter:
    """Paints text; remembers which colours it used."""

    def __init__(self) -> None:
        self._inks: set[str] = set()
        self._papers: set[str] = set()

    def paint(self, output: str) -> str:
        """Return the text of the output, escaped, in spans with classes."""
        painted: list[str] = []
        for token in ANSIParser().parse(with_newlines(output)):
            if token.type != "text":
                continue
            text = escape(plain_lines(token.content))
            classes = " ".join(self._classes(token.style))
            painted.append(f'<span class="{classes}">{text}</span>' if classes else text)
        return "".join(painted)

    def rules(self) -> str:
        """Return the CSS for all colours that were used; a text's own colour counts more than its background's."""
        papers = "".join(
            f".{_class('bg', name)} {{ background-color: {paper}; color: {readable_on(paper)}; }}\n"
            for name in sorted(self._papers)
            for paper in ["#000000" if name == "black" else color(name)]
        )
        inks = "".join(f".{_class('fg', name)} {{ color: {color(name)}; }}\n" for name in sorted(self._inks))
        return papers + inks + ".fg-black.on { color: #000000; }\n"

    def _classes(self, style: ANSIStyle) -> list[str]:
        ink, paper = style.foreground, style.background
        if style.inverse:
            ink, paper = paper or "paper", ink or "ink"
        chosen = (
            ("bold", style.bold),
            ("dim", style.dim),
            ("italic", style.italic),
            ("underline", style.underline),
            (str(style.underline), style.underline not in {False, "single"}),
            ("struck", style.strikethrough),
            ("over", style.overline),
            ("concealed", style.hidden),
            ("on", paper),
        )
        return (
            [name for name, has in chosen if has]
            + self._used("fg", ink, self._inks)
            + self._used("bg", paper, self._papers)
        )

    def _used(self, kind: str, name: str | None, known: set[str]) -> list[str]:
        if name is None or (name not in known and len(known) >= MOST_COLORS):
            return []
        known.add(name)
        return [_class(kind, name)]


def color(name: str) -> str:
    """Return a colour of `ANSIStyle` as `#rrggbb`, or the ink or the paper of the page."""
    if name.startswith("#"):
        return name
    if name in PALETTE:
        return PALETTE[name]
    if not name.startswith("color"):
        return PAPER if name == "paper" else INK
    index = int(name.removeprefix("color"))
    if index >= _GREYS:
        return f"#{8 + 10 * (index - _GREYS):02x}" + f"{8 + 10 * (index - _GREYS):02x}" * 2
    red, green, blue = (_CUBE[(index - 2 * len(NAMED)) // place % 6] for place in (36, 6, 1))
    return f"#{red:02x}{green:02x}{blue:02x}"


def luminance(rgb: str) -> float:
    """Return the relative luminance of `#rrggbb`, 0 to 1, as WCAG 2.2 defines it."""
    red, green, blue = (_linear(int(rgb[place : place + 2], 16) / 255) for place in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def readable_on(paper: str) -> str:
    """Return black or white, whichever is better to be read on the colour."""
    return "#000000" if luminance(paper) > _DARK else "#ffffff"


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)  # noqa: PLR2004 - sRGB


def _class(kind: str, name: str) -> str:
    return f"{kind}-{name.lstrip('#')}"


LIGHT: Final = {
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
DARK: Final = {
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


def style_sheet(colors: str) -> str:
    """Return the CSS of the page, with the rules for the colours that programs used."""
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
pre.terminal {{ background: {PAPER}; color: {INK}; }}
.added {{ background: var(--added); }}
.removed {{ background: var(--removed); }}
{STYLES}{colors}"""


def _variables(theme: dict[str, str]) -> str:
    return " ".join(f"--{name}: {color};" for name, color in theme.items())


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
