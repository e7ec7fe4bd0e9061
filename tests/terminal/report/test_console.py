from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from msgspec.structs import replace

from reenact.terminal.matching.options import AssertionResult
from reenact.terminal.report.console import DETAILED, LARGEST, console, wants_color, write_console
from reenact.terminal.report.generator import ReportGenerator
from reenact.terminal.report.results import TestSuiteResult
from tests.terminal.report.samples import broken, failing, passing, results, skipped, suite

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a terminal acts on, but for a tab and a newline."""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_requirement_10_1_a_summary_counts_what_passed_and_what_did_not() -> None:
    report = console([suite(passing(), failing(), skipped(), broken())])

    assert report.splitlines()[-1] == "1 passed, 1 failed, 1 errors, 1 skipped in 2.500 s"


def test_requirement_10_2_each_test_and_the_whole_is_reported_with_its_time() -> None:
    report = console([suite(passing(duration=0.0125), failing(), duration=75.5)])

    assert "  passed  it starts (12.5 ms)" in report.splitlines()
    assert "  FAILED  it greets (1.25 s)" in report.splitlines()
    assert report.splitlines()[-1].endswith("in 75.500 s")


def test_requirement_10_3_a_failure_is_reported_with_what_the_program_showed() -> None:
    assertion = AssertionResult(
        passed=False, actual="a", expected="b", type="exact", diff="-b\n+a", message="not alike"
    )
    failed = replace(failing(), screen="$ chat\nBye", assertions=(assertion,), attachments=("kept/it.cast",))

    report = console([suite(failed, failing("it speaks", output="\x1b[31mno\x1b[0m\r\nprompt"))])

    greets, speaks = report.split("\n\n")[1:3]
    assert greets.splitlines() == [
        "FAILED chat: it greets",
        "    waited 1 s for 'Hello'",
        "    assertion (exact):",
        "    not alike",
        "    what is different (exact):",
        "    -b",
        "    +a",
        "    the last screen:",
        "    | $ chat",
        "    | Bye",
        "    kept: kept/it.cast",
    ]
    assert speaks.splitlines()[2:] == ["    the output:", "    | no", "    | prompt"]


@given(results)
def test_nothing_in_the_report_drives_a_terminal(some: tuple[TestSuiteResult, ...]) -> None:
    plain, colored = console(some), console(some, colored=True)

    assert not OBEYED.search(plain)
    assert not OBEYED.search(re.sub(r"\x1b\[[0-9;]*m", "", colored))
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain
    plain.encode()


@pytest.mark.parametrize(
    ("file", "environment", "wanted"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ],
)
def test_colours_are_for_terminals_whose_user_wants_them(
    file: io.StringIO,
    environment: dict[str, str],
    wanted: bool,  # noqa: FBT001 - a row of the table
) -> None:
    assert wants_color(file, environment) is wanted


def test_a_report_is_printed_to_standard_output_or_to_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()

    ReportGenerator().print_console([suite(passing())])
    ReportGenerator().print_console([suite(passing())], terminal)

    assert capsys.readouterr().out == console([suite(passing())])
    assert terminal.getvalue() == console([suite(passing())], colored=True)


def test_a_file_that_has_not_all_characters_gets_those_it_has() -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii")

    write_console("naïve ␛ 🙂\n", file)

    assert raw.getvalue() == b"na\\xefve \\u241b \\U0001f642\n"


def test_long_texts_are_cut_with_a_note() -> None:
    long = replace(failing(error="e" * 9000), output="first\n" + "o" * 9000 + "\nlast")

    report = console([suite(long)])

    assert "(5000 more characters are left out)" in report
    assert re.search(r"\(\d+ characters before this are left out\)", report)
    assert report.count("e" * LARGEST) == 1
    assert "    | last\n" in report


def test_a_diff_that_is_part_of_the_reason_is_told_once_and_coloured() -> None:
    assertion = AssertionResult(
        passed=False, actual="a", expected="b", type="exact", diff="-b\n+a", message="not alike"
    )
    test = replace(failing(error="step 1: not alike\n-b\n+a"), assertions=(assertion,))

    report = console([suite(test)], colored=True)

    assert report.count("not alike") == 1
    assert report.count("-b") == 1
    assert "\x1b[31m    -b\x1b[0m\n\x1b[32m    +a\x1b[0m" in report


def test_after_many_failures_the_rest_is_one_line_each() -> None:
    tests = [failing(f"number {number}", error="no\nreason", output="shown") for number in range(DETAILED + 2)]

    report = console([suite(*tests)])

    assert report.count("    | shown") == DETAILED
    assert f"FAILED chat: number {DETAILED + 1}: no\n" in report
    assert f"only the first {DETAILED} failures" in report
