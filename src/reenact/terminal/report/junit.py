"""Results as JUnit XML, as continuous integration reads it.

There is no one schema. What is written is valid for both that are in use: the Jenkins xUnit plugin's `junit-10.xsd`,
and the stricter one for Ant's reports (`JUnit.xsd` of Windy Road): a suite has all its attributes, and `properties`,
`system-out` and `system-err`; a test has one element that says why it did not pass, and nothing else; times have three
decimals. So what the program showed stands in that element; lines `[[ATTACHMENT|path]]`, which Jenkins collects, stand
in the output of the suite.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from reenact.terminal.report.results import TestResult, TestSuiteResult, unsaid
from reenact.terminal.text import end_of, on_a_line, visible

LARGEST: Final = 1_000_000
"""Characters of one text in the file: common parsers take no text of more than ten million bytes."""
_MESSAGE: Final = 2000
_ESCAPED: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
_IN_ATTRIBUTE: Final = re.compile('[&<>"\r\n\t]')


def junit(results: Sequence[TestSuiteResult]) -> str:
    """Return the results as one XML document."""
    suites = (_suite(number, suite) for number, suite in enumerate(results))
    return "".join(('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n', *suites, "</testsuites>\n"))


def _suite(number: int, suite: TestSuiteResult) -> str:
    name = _name(suite.name)
    began = datetime.fromtimestamp(suite.started or 0, UTC)
    attributes = _attributes(
        name=name,
        package=name,
        id=str(number),
        timestamp=began.strftime("%Y-%m-%dT%H:%M:%S"),
        hostname=_name(platform.node() or "localhost"),
        tests=str(len(suite.tests)),
        failures=str(suite.failed),
        errors=str(suite.errors),
        skipped=str(suite.skipped),
        time=f"{suite.duration:.3f}",
    )
    tests = "".join(_test(name, test) for test in suite.tests)
    attached = _text("".join(_attached(test) for test in suite.tests))
    return (
        f"<testsuite{attributes}>\n<properties>{_retried(suite)}</properties>\n{tests}"
        f"<system-out>{attached}</system-out>\n<system-err></system-err>\n</testsuite>\n"
    )


def _test(suite: str, test: TestResult) -> str:
    attributes = _attributes(name=_name(test.name), classname=suite, time=f"{test.duration:.3f}")
    if test.status == "passed":
        return f"<testcase{attributes}/>\n"
    if test.status == "skipped":
        reason = (test.reason or "skipped")[:_MESSAGE]
        return f"<testcase{attributes}><skipped{_attributes(message=reason)}/></testcase>\n"
    element = "failure" if test.status == "failed" else "error"
    kind = test.status if test.error_type is None else test.error_type.value
    message = (test.error or "it is not known why")[:_MESSAGE]
    why = f"<{element}{_attributes(message=message, type=kind)}>{_text(_account(test))}</{element}>"
    return f"<testcase{attributes}>{why}</testcase>\n"


def _account(test: TestResult) -> str:
    """Return all that is known of a failure, as text."""
    return "\n".join(
        part if not title else f"--- {title}\n{part}" for title, part in _parts(test) if part is not None and part != ""
    )


def _parts(test: TestResult) -> Iterator[tuple[str, str | None]]:
    yield "", test.error
    if test.attempts > 1:
        yield "", f"tried {test.attempts} times"
    for assertion, message, diff in unsaid(test):
        yield f"assertion: {assertion.type}", "\n".join(filter(None, (message, diff)))
    yield "stack", test.stack
    yield "attachments", "\n".join(test.attachments)
    yield "screen", test.screen
    yield "output", test.output


def _attached(test: TestResult) -> str:
    if not test.attachments:
        return ""
    lines = (f"[[ATTACHMENT|{on_a_line(str(Path(path).absolute()))}]]\n" for path in test.attachments)
    return f"{on_a_line(test.name)}\n{''.join(lines)}"


def _retried(suite: TestSuiteResult) -> str:
    return "".join(
        f"<property{_attributes(name=f'attempts: {_name(test.name)}', value=str(test.attempts))}/>"
        for test in suite.tests
        if test.attempts > 1
    )


def _name(text: str) -> str:
    """Return what can be the name of something: the schemas have no empty ones."""
    return on_a_line(text) if text.strip() else "unnamed"


def _text(text: str) -> str:
    end, missing = end_of(text, LARGEST)
    note = f"({missing} characters are left out before this)\n" if missing else ""
    text = note + visible(end)
    for character, reference in _ESCAPED.items():
        text = text.replace(character, reference)
    return text


def _attributes(**values: str) -> str:
    """Return the attributes; white space in them survives the reading only as a reference to the character."""
    return "".join(f' {name}="{_IN_ATTRIBUTE.sub(_reference, visible(value))}"' for name, value in values.items())


def _reference(found: re.Match[str]) -> str:
    return _ESCAPED.get(found[0]) or f"&#{ord(found[0])};"
