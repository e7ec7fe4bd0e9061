"""The properties of reports that the design names."""

from __future__ import annotations

from hypothesis import given

from reenact.terminal.report.generator import ReportGenerator
from reenact.terminal.report.results import TestSuiteResult
from tests.terminal.report.html_rules import Page
from tests.terminal.report.junit_rules import violations
from tests.terminal.report.samples import results


@given(results)
def test_property_21_report_format_validity(some: tuple[TestSuiteResult, ...]) -> None:
    """Property 21: Report Format Validity (requirements 10.4, 10.5)."""
    generator = ReportGenerator()

    junit, html = generator.generate_junit(some), generator.generate_html(some)

    assert violations(junit) == []
    assert Page(html).wrong == []
