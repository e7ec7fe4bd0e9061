"""`make soak` fails where a test fails, and says how to repeat it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.examples import takes_long

SEEDED = """
import os

def test_its_seed():
    assert int(os.environ["SOAK_SEED"]) < {most}
"""


def soak(root: Path, test: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script for one test."""
    return subprocess.run(
        [sys.executable, "scripts/soak.py", *arguments, str(test)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@takes_long()
def test_a_failure_ends_it_and_is_repeated_with_its_seed(root: Path, tmp_path: Path) -> None:
    test = tmp_path / "test_seeded.py"
    test.write_text(SEEDED.format(most=0))

    failed = soak(root, test, "--minutes", "60")

    seed = failed.stdout.partition("Round 1: seed ")[2].partition("\n")[0]
    assert failed.returncode == 1
    assert f"make soak SEED={seed} ARGS=" in failed.stdout
    assert f"assert {seed} < 0" in soak(root, test, "--seed", seed).stdout


@takes_long()
def test_rounds_are_counted_when_all_passed(root: Path, tmp_path: Path) -> None:
    test = tmp_path / "test_seeded.py"
    test.write_text(SEEDED.format(most=2**32))

    passed = soak(root, test, "--minutes", "0")

    assert passed.returncode == 0
    assert "\n1 rounds passed in 0." in passed.stdout
