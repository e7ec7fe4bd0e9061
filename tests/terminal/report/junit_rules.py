"""What JUnit XML must be, to those who read it: the rules that the two common schemas share, in our own words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from xml.etree import ElementTree as ET

_SUITE: Final = {
    "name",
    "package",
    "id",
    "timestamp",
    "hostname",
    "tests",
    "failures",
    "errors",
    "skipped",
    "time",
}
_DECIMAL: Final = re.compile(r"[0-9]+(\.[0-9]{1,3})?")
_INTEGER: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_MOMENT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}")
_LARGEST_TEXT: Final = 10_000_000


def violations(document: str) -> list[str]:
    """Return in words which rules the document breaks.

    Raises:
        ParseError: it is not XML.
    """
    root = ET.fromstring(document.encode())  # noqa: S314 - we wrote it ourselves
    return list(_of_root(root))


def _of_root(root: ET.Element) -> Iterator[str]:
    if root.tag != "testsuites" or root.attrib:
        yield f"the root is {root.tag} with {root.attrib}"
    yield from _of_text_between(root)
    for number, suite in enumerate(root):
        if suite.tag != "testsuite":
            yield f"{suite.tag} among the suites"
        if suite.get("id") != str(number):
            yield f"suite {number} has the id {suite.get('id')}"
        yield from _of_suite(suite)
    for element in root.iter():
        if len((element.text or "").encode()) > _LARGEST_TEXT:
            yield f"{element.tag} has a text that is too long for common parsers"


def _of_suite(suite: ET.Element) -> Iterator[str]:
    if set(suite.keys()) != _SUITE:
        yield f"a suite has {sorted(suite.keys())}"
        return
    yield from _of_text_between(suite)
    for name in ("name", "package", "hostname"):
        if not suite.attrib[name].strip():
            yield f"{name} is empty"
    yield from (
        f"{name} is {suite.get(name)}" for name in ("tests", "failures", "errors", "skipped") if not _int(suite, name)
    )
    if not _DECIMAL.fullmatch(suite.attrib["time"]):
        yield f"time is {suite.get('time')}"
    if not _MOMENT.fullmatch(suite.attrib["timestamp"]):
        yield f"timestamp is {suite.get('timestamp')}"
    tags = [child.tag for child in suite]
    cases = tags.count("testcase")
    if tags != ["properties", *["testcase"] * cases, "system-out", "system-err"]:
        yield f"a suite holds {tags}"
    for name, tag in (("tests", "testcase"), ("failures", "testcase/failure"), ("errors", "testcase/error")):
        if suite.get(name) != str(len(suite.findall(tag))):
            yield f"there are {len(suite.findall(tag))} {name}, not {suite.get(name)}"
    if suite.get("skipped") != str(len(suite.findall("testcase/skipped"))):
        yield f"there are not {suite.get('skipped')} skipped tests"
    for held in suite.findall("properties/*"):
        if held.tag != "property" or set(held.keys()) != {"name", "value"} or not held.attrib["name"].strip():
            yield f"a property is {held.tag} with {held.attrib}"
    for case in suite.findall("testcase"):
        yield from _of_case(case)


def _of_case(case: ET.Element) -> Iterator[str]:
    if set(case.keys()) != {"name", "classname", "time"} or not case.attrib["name"] or not case.attrib["classname"]:
        yield f"a test has {case.attrib}"
    if not _DECIMAL.fullmatch(case.get("time", "")):
        yield f"time is {case.get('time')}"
    yield from _of_text_between(case)
    if len(case) > 1:
        yield f"a test holds {[child.tag for child in case]}"
    for child in case:
        wanted = {"skipped": {"message"}, "failure": {"message", "type"}, "error": {"message", "type"}}
        if wanted.get(child.tag) != set(child.keys()) or len(child):
            yield f"a test holds {child.tag} with {sorted(child.keys())}"


def _of_text_between(element: ET.Element) -> Iterator[str]:
    if any((text or "").strip() for text in (element.text, *(child.tail for child in element))):
        yield f"there is text between the elements of {element.tag}"


def _int(element: ET.Element, name: str) -> bool:
    return _INTEGER.fullmatch(element.get(name, "")) is not None
