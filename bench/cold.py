"""One cold start, in a process of its own: prints the seconds from imports done to the end of one more turn."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from bench.ours import Ours
from bench.raw import Raw


def main() -> None:
    """Open the file, run the session and one more turn in it."""
    side, path, sync, turns = sys.argv[1:]
    begun = time.perf_counter()
    system = Ours(Path(path), "FULL" if sync == "FULL" else "NORMAL") if side == Ours.name else Raw(Path(path), sync)
    session = system.run("s000000")
    if isinstance(system, Raw):
        system.history(session)
    system.turn(session, int(turns))
    print(time.perf_counter() - begun)
    system.close()


if __name__ == "__main__":
    main()
