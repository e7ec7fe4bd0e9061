"""Runs what takes long, again and again, until the time is over or something fails: each round with a new seed.

First a process is killed at every point of a crash there is, every damage is done to a log, hosts are run by Ray where
that is installed, and of every test with many cases all are tried; then come random histories, crashes, kills and
connections, and new examples of every property. What a round has drawn is drawn again with its seed; how threads take
turns is not.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence

EVERY_POINT = (
    "tests/crashes/test_matrix.py",
    "tests/deploy/test_ray.py",
    "tests/journal/test_fence.py",
    "tests/journal/test_postgres_stopped.py",
    "tests/verification/test_damaged.py",
)
EVERY_CASE = ("tests", "--cases=many")
RANDOM = (
    "tests/clients_js/test_servers.py",
    "tests/crashes/test_random.py",
    "tests/crashes/test_sharing.py",
    "tests/domain/session/test_family_machine.py",
    "tests/domain/session/test_loop_machine.py",
    "tests/domain/session/test_session_machine.py",
    "tests/environment/openai/test_requests.py",
    "tests/environment/openai/test_switching.py",
    "tests/feed/test_hammer.py",
    "tests/feed/test_machine.py",
    "tests/inspector/test_following.py",
    "tests/journal/test_model.py",
    "tests/journal/test_postgres_killed.py",
    "tests/kernel/test_account_machine.py",
    "tests/kernel/test_hammer.py",
    "tests/kernel/test_passivation.py",
    "tests/loop/test_conversations.py",
    "tests/nodes/test_conversations.py",
    "tests/nodes/test_random_faults.py",
    "tests/nodes/test_simulation.py",
    "tests/properties",
    "tests/reliability",
    "tests/views/test_killed.py",
    "tests/views/test_machine.py",
)
PROPERTIES = ("tests", "-m", "hypothesis", *(f"--ignore={path}" for path in RANDOM))
LONGEST = 3600
"""Seconds that one test may take before it counts as hanging."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run rounds; return 1 after the first that fails."""
    parser = argparse.ArgumentParser(description="Run the long tests with one seed after the other.")
    parser.add_argument("--minutes", type=float, default=10, help="how long rounds are begun; 0 is one round")
    parser.add_argument("--seed", type=int, help="run the round of this seed, and no other")
    parser.add_argument("--workers", default="0", help="processes to run tests in")
    parser.add_argument("tests", nargs="*", help="run these instead")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    if given.seed is None and not given.tests:
        for tests, profile in ((EVERY_POINT, "thorough"), (EVERY_CASE, "ci")):
            if not passes(tests, given.workers, profile, 0):
                print(f"\nfailed; HYPOTHESIS_PROFILE={profile} make test ARGS='TEST' repeats a test of it")
                return 1
    rounds = [given.tests] if given.tests else [RANDOM, PROPERTIES]
    for number in range(1, sys.maxsize):
        seed = secrets.randbelow(2**32) if given.seed is None else given.seed
        print(f"\nRound {number}: seed {seed}", flush=True)
        if not all(passes(tests, given.workers, "soak", seed) for tests in rounds):
            print(f"\nRound {number} failed; make soak SEED={seed} ARGS='TEST' repeats a test of it")
            return 1
        minutes = (time.monotonic() - began) / 60
        if given.seed is not None or minutes >= given.minutes:
            print(f"\n{number} rounds passed in {minutes:.1f} minutes")
            return 0
    return 0


def passes(tests: Sequence[str], workers: str, profile: str, seed: int) -> bool:
    """Run the tests with the seed; return whether all passed."""
    options = [
        f"--numprocesses={workers}",
        "--dist=worksteal",
        "-q",
        f"--timeout={LONGEST}",
        f"--hypothesis-seed={seed}",
    ]
    environ = {**os.environ, "HYPOTHESIS_PROFILE": profile, "SOAK_SEED": str(seed)}
    pytest = [sys.executable, "-P", "-m", "pytest", *options, *tests]
    return subprocess.run(pytest, env=environ, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
