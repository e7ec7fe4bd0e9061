from __future__ import annotations

import json
import math
import re
from typing import NoReturn

import msgspec
import pytest
from hypothesis import given
from msgspec.structs import replace

from reenact.terminal.matching.options import AssertionResult
from reenact.terminal.report.generator import Report, to_json
from reenact.terminal.report.results import TestSuiteResult
from tests.terminal.report.samples import broken, failing, passing, results, skipped, suite


def read_back(text: str | bytes) -> Report:
    report: Report = msgspec.json.decode(text, type=Report)
    return report


def no_number(text: str) -> NoReturn:
    raise AssertionError(f"{text} is not JSON")


def expecting(value: object) -> TestSuiteResult:
    assertion = AssertionResult(passed=False, actual="", expected=value, type="json")
    return suite(replace(failing(), assertions=(assertion,)))


def test_a_report_for_programs_has_a_version_the_sums_and_each_test() -> None:
    report = json.loads(to_json([suite(passing(), failing(), skipped(), broken())]))

    assert report["version"] == 1
    assert report["totals"] == {"tests": 4, "passed": 1, "failed": 1, "errors": 1, "skipped": 1, "duration": 2.5}
    assert report["suites"][0]["tests"][3] == {
        "name": "it is set up",
        "suite": "chat",
        "status": "error",
        "duration": 0.5,
        "error": "no room for a directory",
        "error_type": "FIXTURE_SETUP_FAILED",
        "stack": None,
        "output": None,
        "screen": None,
        "assertions": [],
        "attempts": 1,
        "attachments": [],
        "reason": None,
    }


@given(results)
def test_any_results_are_strict_json_and_are_read_back_as_they_were(some: tuple[TestSuiteResult, ...]) -> None:
    document = to_json(some)

    report = read_back(document)
    assert json.loads(document.encode(), parse_constant=no_number)["version"] == 1
    assert to_json(report.suites) == document
    if "\\ud" not in repr(some):  # which is how halves of pairs are written there
        assert report.suites == some


@pytest.mark.parametrize("output", ["\x00\x1b[31m\x7f\x9b", "]]>\r\n\t", "\u2028\ufffe🙂", '"\\'])
def test_output_is_read_back_character_by_character(output: str) -> None:
    report = read_back(to_json([suite(failing(output=output))]))

    assert report.suites[0].tests[0].output == output


def test_halves_of_pairs_are_made_visible() -> None:
    report = read_back(to_json([suite(failing(output="a\ud800b\udcffc"))]))

    assert report.suites[0].tests[0].output == r"a\ud800b\udcffc"


class Odd:
    def __repr__(self) -> str:
        return "something odd"


@pytest.mark.parametrize(
    ("expected", "written"),
    [
        (re.compile("a+", re.IGNORECASE), "a+"),
        (math.nan, "nan"),
        ([1, math.inf], [1, "inf"]),
        ({"a": (True, None)}, {"a": [True, None]}),
        ({1: 2**70}, {"1": str(2**70)}),
        (Odd(), "something odd"),
    ],
)
def test_what_was_expected_is_said_as_json_can_say_it(expected: object, written: object) -> None:
    report = read_back(to_json([expecting(expected)]))

    assert report.suites[0].tests[0].assertions[0].expected == written


def test_a_value_without_bottom_is_said_in_words() -> None:
    endless: list[object] = []
    endless.append(endless)

    report = to_json([expecting(endless)])

    assert "[[...]]" in report
