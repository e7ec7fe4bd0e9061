from __future__ import annotations

import os
import resource
import stat
from collections.abc import Generator
from contextlib import contextmanager
from math import inf, nan
from pathlib import Path
from typing import get_args

import pytest
from msgspec.structs import replace

from reenact.terminal.config import ReportFormat
from reenact.terminal.errors import TerminalTestErrorType
from reenact.terminal.matching.options import AssertionResult
from reenact.terminal.report.generator import ReportGenerator, ReportOptions
from reenact.terminal.report.results import TestSuiteResult
from tests.terminal.raising import raises
from tests.terminal.report.samples import failing, passing, suite

FORMATS: tuple[ReportFormat, ...] = get_args(ReportFormat)
RESULTS = [suite(passing(), failing())]


@contextmanager
def files_up_to(size: int) -> Generator[None]:
    """Let the system refuse to make a file larger, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("wanted", FORMATS)
def test_a_report_is_returned_and_written_and_its_directories_are_made(wanted: ReportFormat, tmp_path: Path) -> None:
    path = tmp_path / "one" / "two" / "report"

    report = ReportGenerator().generate(RESULTS, ReportOptions(format=wanted, output_path=path))

    assert path.read_bytes().decode() == report
    assert [file.name for file in path.parent.iterdir()] == ["report"]


def test_each_format_has_a_method_of_its_own() -> None:
    generator = ReportGenerator()

    assert generator.generate_junit(RESULTS) == generator.generate(RESULTS, ReportOptions(format="junit"))
    assert generator.generate_html(RESULTS) == generator.generate(RESULTS, ReportOptions(format="html"))
    assert generator.generate_json(RESULTS) == generator.generate(RESULTS, ReportOptions(format="json"))


@pytest.mark.parametrize("wanted", FORMATS)
def test_output_and_stack_are_left_out_where_they_are_not_wanted(wanted: ReportFormat) -> None:
    assertion = AssertionResult(passed=False, actual="the actual", expected="x", type="exact", diff="the diff")
    test = replace(failing(output="the output"), screen="the screen", stack="the stack", assertions=(assertion,))
    options = ReportOptions(format=wanted)

    neither = ReportGenerator().generate([suite(test)], replace(options, include_output=False, include_stack=False))
    both = ReportGenerator().generate([suite(test)], options)

    assert not [text for text in ("the output", "the screen", "the stack", "the actual") if text in neither]
    assert "the diff" in neither
    assert "the screen" in both
    assert "the stack" in both


def test_a_report_takes_the_place_of_an_older_one_also_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    link = tmp_path / "report.json"
    link.symlink_to("real.json")

    report = ReportGenerator().generate(RESULTS, ReportOptions(format="json", output_path=link))

    assert link.is_symlink()
    assert (tmp_path / "real.json").read_text() == report


def test_others_may_read_a_report_as_any_file(tmp_path: Path) -> None:
    (tmp_path / "any").touch()

    ReportGenerator().generate(RESULTS, ReportOptions(format="json", output_path=tmp_path / "report"))

    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1


def test_a_full_disk_leaves_the_older_report_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")

    with files_up_to(100), raises(TerminalTestErrorType.INVALID_CONFIG, r"cannot be written to .*report\.html"):
        ReportGenerator().generate(RESULTS, ReportOptions(format="html", output_path=path))

    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("directory", "Is a directory"),
        ("file/report", "File exists"),
        ("n" * 300, "File name too long"),
        ("nul\0", "null"),
    ],
)
def test_a_path_that_cannot_be_written_is_named_with_the_reason(name: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()

    with raises(TerminalTestErrorType.INVALID_CONFIG) as caught:
        ReportGenerator().generate(RESULTS, ReportOptions(format="json", output_path=tmp_path / name))

    assert repr(str(tmp_path / name)) in caught.value.message
    assert why in caught.value.message


def test_a_pipe_is_written_to_as_it_is() -> None:
    reading, writing = os.pipe()
    try:
        report = ReportGenerator().generate(
            RESULTS, ReportOptions(format="junit", output_path=f"/proc/self/fd/{writing}")
        )
        assert os.read(reading, 100_000).decode() == report
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("duration", [nan, inf, -1.0])
def test_a_time_that_is_none_is_refused_with_the_name_of_the_test(duration: float) -> None:
    with raises(TerminalTestErrorType.INVALID_CONFIG, "the duration of test 'it starts' is"):
        ReportGenerator().generate_json([suite(passing(duration=duration))])


@pytest.mark.parametrize("started", [nan, -1.0, 1e20])
def test_a_start_that_is_no_time_is_refused_with_the_name_of_the_suite(started: float) -> None:
    odd = TestSuiteResult(name="chat", tests=(), duration=0.0, started=started)

    with raises(TerminalTestErrorType.INVALID_CONFIG, "the start of suite 'chat' is"):
        ReportGenerator().generate_junit([odd])


def test_a_format_that_does_not_exist_is_refused_with_those_that_do() -> None:
    options = ReportOptions(format="pdf")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - the point

    with raises(TerminalTestErrorType.INVALID_CONFIG, "choose junit, html, json or console"):
        ReportGenerator().generate(RESULTS, options)
