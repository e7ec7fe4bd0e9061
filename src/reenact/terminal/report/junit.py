"""Results as JUnit XML for continuous integration.

There is no single schema. The output is valid for both that are in use: the Jenkins xUnit plugin's `junit-10.xsd`, and
the stricter one for Ant's reports (`JUnit.xsd` of Windy Road): a suite has all its attributes, and `properties`,
`system-out` and `system-err`; a test has at most one child, which says why it did not pass; times have three decimals.
So that child contains the output of the program. Lines `[[ATTACHMENT|path]]`, which Jenkins collects, are in the output
of the suite.
"""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

from reenact.terminal.report.results import Results, TestResult, TestSuiteResult, failure_parts, shown_name, tried
from reenact.terminal.text import end_of, one_line, visible

LARGEST = 1_000_000
"""Maximum number of characters of one text: common parsers accept at most ten million bytes."""
_MESSAGE = 2000


def junit(results: Results) -> str:
    """Return the results as one XML document."""
    root = ET.Element("testsuites")
    root.text = "\n"
    for number, suite in enumerate(results):
        _add_suite(root, number, suite)
    text = ET.tostring(root, encoding="unicode", short_empty_elements=False).replace("\r", "&#13;")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _add_suite(root: ET.Element, number: int, suite: TestSuiteResult) -> None:
    name = shown_name(suite.name)
    element = _add(
        root,
        "testsuite",
        name=name,
        package=name,
        id=str(number),
        timestamp=datetime.fromtimestamp(suite.started or 0, UTC).strftime("%Y-%m-%dT%H:%M:%S"),
        hostname=shown_name(platform.node() or "localhost"),
        tests=str(len(suite.tests)),
        failures=str(suite.failed),
        errors=str(suite.errors),
        skipped=str(suite.skipped),
        time=f"{suite.duration:.3f}",
    )
    properties = _add(element, "properties")
    for test in suite.tests:
        if test.attempts > 1:
            _add(properties, "property", name=f"attempts: {shown_name(test.name)}", value=str(test.attempts))
        case = _add(element, "testcase", name=shown_name(test.name), classname=name, time=f"{test.duration:.3f}")
        match test.status:
            case "passed":
                pass
            case "skipped":
                _add(case, "skipped", message=(test.reason or "skipped")[:_MESSAGE])
            case "failed" | "error":
                tag = "failure" if test.status == "failed" else "error"
                kind = test.status if test.error_type is None else test.error_type.value
                _add(
                    case, tag, _failure_text(test), message=(test.error or "it is not known why")[:_MESSAGE], type=kind
                )
    _add(element, "system-out", "".join(map(_attachment_lines, suite.tests)))
    _add(element, "system-err")


def _failure_text(test: TestResult) -> str:
    """Return all parts of a failure as one text."""
    why, *parts = failure_parts(test)
    kept = ["--- attachments", *test.attachments] if test.attachments else []
    return "\n".join([why.text, *tried(test), *kept, *(f"--- {part.title}\n{part.text}" for part in parts)])


def _attachment_lines(test: TestResult) -> str:
    if not test.attachments:
        return ""
    lines = (f"[[ATTACHMENT|{one_line(str(Path(path).absolute()))}]]\n" for path in test.attachments)
    return f"{one_line(test.name)}\n{''.join(lines)}"


def _add(parent: ET.Element, tag: str, text: str = "", **attributes: str) -> ET.Element:
    """Add an element with the text, of which only the end is kept if it is too long."""
    element = ET.SubElement(parent, tag, {name: visible(value) for name, value in attributes.items()})
    end, missing = end_of(text, LARGEST)
    element.text = (f"({missing} characters are left out before this)\n" if missing else "") + visible(end)
    element.tail = "\n"
    return element
