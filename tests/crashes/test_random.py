"""Any crash at any time of any work, and others while it is recovered from; more of them with `thorough`.

`python -m tests.crashes.kills` has as many processes killed as one likes.
"""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reenact.testing import Crash, CrashPoint, CrashTest
from tests.crashes.fates import RECOVERIES, Fate, suffer
from tests.crashes.workloads import WORKLOADS
from tests.examples import examples

crash = st.builds(Crash, st.sampled_from(list(CrashPoint)), st.integers(1, 24))
fates = st.builds(
    Fate,
    st.sampled_from(sorted(WORKLOADS)),
    st.booleans(),
    crash,
    st.lists(st.tuples(st.sampled_from(RECOVERIES), crash), max_size=2),
    st.sampled_from(RECOVERIES),
)


@settings(
    max_examples=max(examples(20), settings().max_examples // 4),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(fate=fates)
def test_no_crash_at_any_time_loses_what_was_promised(
    fate: Fate, crashes: CrashTest, furnished: Path, encrypted: Path
) -> None:
    suffer(fate, crashes, encrypted if fate.is_encrypted else furnished)
