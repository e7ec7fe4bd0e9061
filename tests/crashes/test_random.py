"""Any crash at any time of any work, and others while it is recovered from; more of them with `thorough`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reenact.actors.session.actor import Recovery
from reenact.testing import Crash, CrashPoint, CrashTest
from tests.crashes.evidence import examine, left
from tests.crashes.test_matrix import RECOVERIES
from tests.crashes.workloads import WORKLOADS, live, recover
from tests.examples import examples
from tests.logs import copy_directory

crash = st.builds(Crash, st.sampled_from(list(CrashPoint)), st.integers(1, 24))


class Fate(NamedTuple):
    """What a process does until it crashes, the processes that crash as they recover, and how it is done in the end."""

    workload: str
    first: Crash
    others: list[tuple[Recovery, Crash]]
    recovery: Recovery


fates = st.builds(
    Fate,
    st.sampled_from(sorted(WORKLOADS)),
    crash,
    st.lists(st.tuples(st.sampled_from(RECOVERIES), crash), max_size=2),
    st.sampled_from(RECOVERIES),
)


@settings(
    max_examples=max(examples(20), settings().max_examples // 4),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(fate=fates)
def test_no_crash_at_any_time_loses_what_was_promised(fate: Fate, crashes: CrashTest, furnished: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="reenact-") as directory:
        home = copy_directory(furnished, Path(directory, "home"))
        reports = [crashes.run(live, home, fate.workload, at=fate.first)]
        before = [left(home)]
        recoveries: list[Recovery] = []

        for how, again in fate.others:
            reports.append(crashes.run(recover, home, how, at=again))
            recoveries.append(how)
            before.append(left(home))

        examine(home, fate.recovery, reports, before, recoveries)
