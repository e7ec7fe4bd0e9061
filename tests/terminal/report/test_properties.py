"""The properties of reports that the design names."""

from __future__ import annotations

import json
import re
import time
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.terminal.cases.loading import CaseFile, TerminalTestCase
from reenact.terminal.cases.runner import Attempt, RunningAttempts, attempt, run_cases
from reenact.terminal.cases.steps import InteractionScript, InteractionStep
from reenact.terminal.report.generator import ReportGenerator, ReportOptions
from reenact.terminal.report.results import TestSuiteResult
from tests.terminal.report.html_rules import Page
from tests.terminal.report.junit_rules import violations
from tests.terminal.report.samples import passing, results, suite


def reported(suite: TestSuiteResult) -> list[tuple[float, float]]:
    """Return, as each format has them, the seconds of the one test and of the whole suite."""
    junit, html, plain, console = (
        ReportGenerator().generate([suite], ReportOptions(format=wanted))
        for wanted in ("junit", "html", "json", "console")
    )
    element = ET.fromstring(junit).find("testsuite")  # noqa: S314 - we wrote it ourselves
    report = json.loads(plain)
    assert element is not None
    page = Page(html)
    of_test, of_all = re.search(r"\((\S+ m?s)\)", console), re.search(r" in (\S+ s)\n$", console)
    assert of_test is not None
    assert of_all is not None
    return [
        (float(element[1].get("time", "nan")), float(element.get("time", "nan"))),
        (in_seconds(page.texts["td"][2]), in_seconds(page.texts["p"][0].rpartition(" in ")[2])),
        (report["suites"][0]["tests"][0]["duration"], report["totals"]["duration"]),
        (in_seconds(of_test[1]), in_seconds(of_all[1])),
    ]


def in_seconds(text: str) -> float:
    number, unit = text.split()
    return float(number) / {"s": 1, "ms": 1000}[unit]


@given(results)
def test_property_21_report_format_validity(some: tuple[TestSuiteResult, ...]) -> None:
    """Property 21: Report Format Validity (requirements 10.4, 10.5)."""
    generator = ReportGenerator()

    junit, html = generator.generate_junit(some), generator.generate_html(some)

    assert violations(junit) == []
    assert Page(html).wrong == []


@given(st.floats(0.3, 0.5))
@settings(max_examples=2)
def test_property_22_report_timing_accuracy(pause: float) -> None:
    """Property 22: Report Timing Accuracy (requirements 10.2)."""
    told: list[float] = []
    for _ in range(20):  # where the machine does something else just before a clock is looked at, that is no fault
        actual, told = timed_report(pause)
        assert actual >= pause
        if all(actual * 0.9 <= seconds <= actual * 1.1 for seconds in told):
            return
    pytest.fail(f"a pause of {pause} s is told of as {told}")


def timed_report(pause: float) -> tuple[float, list[float]]:
    """Run a test that rests for so long; return how long that took, and what the reports say."""
    script = InteractionScript(name="pause", steps=(InteractionStep.delay(pause),))
    case = TerminalTestCase(name="it rests", command=("cat",), script=script)
    took: list[float] = []

    def timed(*arguments: *tuple[TerminalTestCase, CaseFile, RunningAttempts]) -> Attempt:
        began = time.monotonic()
        made = attempt(*arguments)
        took.append(time.monotonic() - began)
        return made

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("reenact.terminal.cases.runner.attempt", timed)
        (ran,) = run_cases([case])

    (actual,) = took
    return actual, [seconds for both in reported(ran) for seconds in both]


@given(st.floats(1e-6, 1e5), st.floats(1e-6, 1e5))
def test_every_report_tells_the_times_that_the_results_have_whatever_their_size(of_test: float, of_all: float) -> None:
    ran = suite(passing(duration=of_test), duration=of_all)

    junit, *told = reported(ran)

    assert [abs(test - of_test) <= of_test / 100 for test, _ in told] == [True] * 3
    assert [abs(whole - of_all) <= of_all / 100 for _, whole in told] == [True] * 3
    assert junit == (round(of_test, 3), round(of_all, 3))  # its schemas take no more decimals
