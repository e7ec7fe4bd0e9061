from __future__ import annotations

import pytest
from msgspec.structs import replace

from reenact.terminal.config import ReportFormat
from reenact.terminal.report.generator import ReportGenerator, ReportOptions
from reenact.terminal.report.html import LARGEST_IN_ALL
from tests.examples import takes_long
from tests.terminal.report.samples import failing, suite

OUTPUT = "".join(f"\x1b[32mline {number}\x1b[0m of \x1b[38;5;208mmuch\x1b[0m\r\n" for number in range(150))


@takes_long()
@pytest.mark.no_cover
@pytest.mark.parametrize(("wanted", "most"), [("html", 4 * LARGEST_IN_ALL), ("console", 1_000_000)])
def test_a_report_for_people_of_thousands_of_failures_that_showed_much_can_still_be_read(
    wanted: ReportFormat, most: int
) -> None:
    tests = [replace(failing(f"number {number}", output=OUTPUT), screen=OUTPUT[:1000]) for number in range(2000)]

    report = ReportGenerator().generate([suite(*tests)], ReportOptions(format=wanted))

    assert len(report) < most
    assert "number 1999" in report


def test_a_report_for_programs_holds_all_of_it() -> None:
    tests = [failing(f"number {number}", output=OUTPUT) for number in range(200)]

    report = ReportGenerator().generate([suite(*tests)], ReportOptions(format="junit"))

    assert report.count("line 149") == 200
