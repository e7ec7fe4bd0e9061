"""A process that is killed around a commit of its log in PostgreSQL has lost nothing that it was promised."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact.testing import Crash, CrashTest
from tests.crashes.post_office import post
from tests.crashes.test_actors import examine
from tests.crashes.test_matrix import AROUND_A_COMMIT
from tests.journal.conftest import postgres_log


@pytest.mark.parametrize("crash", [Crash(point, 2, "posted") for point in AROUND_A_COMMIT], ids=str)
def test_a_log_in_postgresql_has_all_that_was_promised_and_nothing_of_what_was_not_committed(
    crash: Crash, crashes: CrashTest, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    log, arrivals = postgres_log(request).url, tmp_path / "arrivals"

    report = crashes.run_until_killed(post, log, arrivals, at=crash)

    examine(log, arrivals, [report])
