"""Each failure of the table in each form: exit code, standard output and standard error are what the table says."""

from __future__ import annotations

from itertools import product

import pytest

from tests.cli.conftest import Run
from tests.cli.failures.judging import judge
from tests.cli.failures.rows import Row
from tests.cli.failures.stage import Stage
from tests.cli.failures.table import ROWS
from tests.examples import some
from tests.started.programs import Programs

FORMS = ("text", "json", "stream-json")


@pytest.mark.parametrize(("row", "form"), some([*product(ROWS, FORMS)]), ids=str)
def test_a_failure_is_what_the_table_says(stage: Stage, run: Run, programs: Programs, row: Row, form: str) -> None:
    call = row.happens(stage)

    done = stage.apart(call, form, programs) if call.needs_process else stage.here(call, form, run)

    judge(row, done, form, build=call.variables.get("CI") == "true")
    assert row.requests in (None, len(stage.api.requests))
    if row.after is not None:
        row.after(stage)
