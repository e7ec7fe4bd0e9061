"""Kills processes at random moments of all kinds of work, and examines what each leaves.

`python -m tests.crashes.kills` ends when so many processes were killed (`--kills`), or with the first history that
loses anything, which `--seed` and `--first` have happen again, as far as threads take turns as they did.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

from reenact.actors.session.ports import Recovery
from reenact.testing import Crash, CrashPoint, CrashTest
from tests.crashes.fates import RECOVERIES, Fate, suffer
from tests.crashes.workloads import WORKLOADS
from tests.crashes.world import furnished_in

POINTS = tuple(CrashPoint)
SHOWN_EVERY = 60.0
"""Seconds."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill; return 1 if anything was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.crashes.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="how many; 1000 unless it is given")
    parser.add_argument("--seed", type=int, default=None, help="what chance is drawn from")
    parser.add_argument("--first", type=int, default=0, help="the number of the first history")
    given = parser.parse_args(arguments)
    seed = Random().randrange(2**32) if given.seed is None else given.seed
    kills: Counter[str] = Counter()
    shown, number = time.monotonic(), given.first
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="reenact-kills-") as directory, CrashTest() as crashes:
        logs = {is_encrypted: _furnished(Path(directory), is_encrypted) for is_encrypted in (False, True)}
        while kills.total() < given.kills:
            fate = drawn(Random(f"{seed} {number}"))
            kind = f"{fate.workload}{', encrypted' if fate.is_encrypted else ''}"
            try:
                kills[kind] += suffer(fate, crashes, logs[fate.is_encrypted])
            except BaseException:
                print(f"history {number} of seed {seed} failed: {fate}", file=sys.stderr)
                print(f"again: python -m tests.crashes.kills --seed {seed} --first {number}", file=sys.stderr)
                raise
            number += 1
            if time.monotonic() - shown > SHOWN_EVERY:
                shown = time.monotonic()
                print(f"{kills.total():,} processes killed in {number - given.first:,} histories", flush=True)
    for kind, count in sorted(kills.items()):
        print(f"{count:7,}  {kind}")
    print(f"{kills.total():7,}  processes killed, nothing lost: {number - given.first:,} histories of seed {seed}")
    return 0


def drawn(chance: Random) -> Fate:
    """Return what happens in a history."""

    def crash() -> Crash | int:
        return chance.randint(1, 30) if chance.random() < 0.5 else Crash(chance.choice(POINTS), chance.randint(1, 8))

    others: list[tuple[Recovery, Crash | int]] = [
        (chance.choice(RECOVERIES), crash()) for _ in range(chance.randint(0, 2))
    ]
    return Fate(chance.choice(sorted(WORKLOADS)), chance.random() < 0.5, crash(), others, chance.choice(RECOVERIES))


def _furnished(directory: Path, is_encrypted: bool) -> Path:  # noqa: FBT001 - a value
    home = directory / ("encrypted" if is_encrypted else "plain")
    home.mkdir()
    return furnished_in(home, is_encrypted=is_encrypted)


if __name__ == "__main__":
    sys.exit(main())
