from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reenact.terminal.matching.options import AssertionResult
from reenact.terminal.report.junit import junit
from reenact.terminal.report.results import TestSuiteResult
from reenact.terminal.text import visible
from tests.terminal.report.junit_rules import violations
from tests.terminal.report.samples import broken, failing, passing, skipped, suite


def read(*suites: TestSuiteResult) -> ET.Element:
    return ET.fromstring(junit(suites).encode())  # noqa: S314 - we wrote it ourselves


def only(root: ET.Element, path: str) -> ET.Element:
    (found,) = root.findall(path)
    return found


def test_requirement_10_4_a_report_for_continuous_integration_says_of_each_test_what_became_of_it() -> None:
    root = read(suite(passing(), failing(), skipped(), broken(), name="chat", duration=2.5))

    assert only(root, "testsuite").attrib | {"hostname": ""} == {
        "name": "chat",
        "package": "chat",
        "id": "0",
        "timestamp": "2023-11-14T22:13:20",
        "hostname": "",
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
        "time": "2.500",
    }
    assert root.findall("testsuite/testcase")[0].attrib == {
        "name": "it starts",
        "classname": "chat",
        "time": "0.013",
    }
    assert only(root, ".//failure").attrib == {"message": "waited 1 s for 'Hello'", "type": "failed"}
    assert only(root, ".//error").attrib == {"message": "no room for a directory", "type": "FIXTURE_SETUP_FAILED"}
    assert only(root, ".//skipped").attrib == {"message": "no wings"}


@given(st.text(st.characters(exclude_categories=())))
def test_whatever_a_program_showed_is_in_the_report_of_its_failure_and_says_the_same(output: str) -> None:
    read_back = only(read(suite(failing(output=f"[{output}]"))), ".//failure").text or ""

    assert f"--- the output\n[{visible(output)}]" in read_back


@pytest.mark.parametrize("output", ["]]>", "<b>&amp;</b>", "a\r\nb\rc\td", "--> <!--", " leading and trailing  \n\n"])
def test_text_that_xml_can_say_is_read_back_character_by_character(output: str) -> None:
    read_back = only(read(suite(failing(output=output))), ".//failure").text or ""

    assert read_back.endswith(f"--- the output\n{output}")


def test_a_message_keeps_its_lines_and_its_quotes() -> None:
    root = read(suite(failing(error="it said:\n\t'\"' <>&\r\nand ended")))

    assert only(root, ".//failure").get("message") == "it said:\n\t'\"' <>&\r\nand ended"


def test_a_failure_tells_its_diff_screen_stack_and_output() -> None:
    assertion = AssertionResult(
        passed=False, actual="a", expected="b", type="exact", diff="-b\n+a", message="not the same"
    )
    test = replace(failing(output="out"), assertions=(assertion,), screen="$ _", stack="at line 3", attempts=3)

    said = only(read(suite(test)), ".//failure").text or ""

    assert said.splitlines() == [
        "waited 1 s for 'Hello'",
        "tried 3 times",
        "--- assertion (exact)",
        "not the same",
        "--- what is different (exact)",
        "-b",
        "+a",
        "--- where",
        "at line 3",
        "--- the last screen",
        "$ _",
        "--- the output",
        "out",
    ]


def test_attachments_stand_in_the_output_of_the_suite_each_on_its_line_and_absolute(tmp_path: Path) -> None:
    kept = tmp_path / "it greets.svg"

    out = only(read(suite(replace(failing(), attachments=(str(kept), "last\n.cast")))), ".//system-out").text or ""

    assert out.splitlines() == ["it greets", f"[[ATTACHMENT|{kept}]]", f"[[ATTACHMENT|{Path.cwd()}/last\\n.cast]]"]


def test_a_test_that_was_tried_again_is_known_by_a_property() -> None:
    root = read(suite(replace(passing(), attempts=2), failing()))

    assert [held.attrib for held in root.iter("property")] == [{"name": "attempts: it starts", "value": "2"}]


def test_what_has_no_name_and_no_start_is_valid_too() -> None:
    document = junit([TestSuiteResult(name="", tests=(passing(name=" "),), duration=0.0)])

    assert violations(document) == []
    assert 'timestamp="1970-01-01T00:00:00"' in document


def test_a_text_that_is_too_long_for_common_parsers_loses_its_beginning_with_a_note() -> None:
    output = "x" * 12_000_000 + "the end"

    document = junit([suite(failing(output=output))])

    assert violations(document) == []
    said = only(ET.fromstring(document), ".//failure").text or ""  # noqa: S314 - as above
    assert said.startswith("(11000")
    assert said.endswith("xxxthe end")


@pytest.mark.parametrize(
    ("document", "rule"),
    [
        ("<testsuite/>", "the root is"),
        ('<testsuites><testsuite id="0"/></testsuites>', "a suite has"),
        ("<testsuites>text</testsuites>", "there is text between"),
    ],
)
def test_the_rules_see_what_is_wrong(document: str, rule: str) -> None:
    assert any(rule in violation for violation in violations(document))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('id="0"', 'id="1"'),
        ('tests="2"', 'tests="3"'),
        ('time="2.500"', 'time="2e3"'),
        ('time="2.500"', 'time="2.5001"'),
        ('timestamp="2023-11-14T22:13:20"', 'timestamp="2023-11-14T22:13:20Z"'),
        ('classname="chat" ', ""),
        ('type="failed"', ""),
        ("<system-out></system-out>", ""),
        ("</failure>", "</failure><system-out>x</system-out>"),
    ],
)
def test_the_rules_see_each_thing_that_the_schemas_demand(right: str, wrong: str) -> None:
    document = junit([suite(passing(), failing())])

    assert right in document
    assert violations(document.replace(right, wrong, 1))
