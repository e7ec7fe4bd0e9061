"""In a build the same failures have the same codes and the same output, and all that is logged is lines of JSON."""

from __future__ import annotations

from typing import Final

import pytest

from tests.cli.conftest import Run
from tests.cli.failures.judging import judge
from tests.cli.failures.rows import Row
from tests.cli.failures.stage import Stage
from tests.cli.failures.table import ROWS
from tests.started.programs import Programs

NAMES: Final = (
    "an unknown option",
    "401 `authentication_error`",
    "529 `overloaded_error`, 5 times",
    "a page of a proxy that fails (502)",
    "a connection that is reset in the middle of the answer",
    "no answer within `--timeout`",
    "a hook that refuses the prompt",
    "a tool that raises: the model is told, and answers",
    "a log that another process writes",
    "a log that may not be written",
    "a disk, or a quota, that has no room for the answer",
    "Ctrl+C during the answer",
    "SIGTERM during the answer",
    "nobody reads standard output any more",
    "standard output is full",
    "a mistake in the program",
)
FORMS: Final = {row.what: form for row, form in zip(ROWS, ("text", "json", "stream-json") * len(ROWS), strict=False)}


@pytest.mark.parametrize("row", [row for row in ROWS if row.what in NAMES], ids=str)
def test_a_failure_in_a_build_is_what_the_table_says(stage: Stage, run: Run, programs: Programs, row: Row) -> None:
    stage.is_build = True
    call = row.happens(stage)
    form = FORMS[row.what]

    done = stage.apart(call, form, programs) if call.needs_process else stage.here(call, form, run)

    judge(row, done, form, build=True)


def test_the_failures_that_builds_are_shown_are_in_the_table() -> None:
    assert set(NAMES) <= {row.what for row in ROWS}
