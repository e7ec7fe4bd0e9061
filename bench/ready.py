"""One start, in a process of its own: prints the milliseconds from opening the log to the next answer's first delta."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from bench.ours import Ours
from reenact.events import Envelope


class Ready(Ours):
    """Records when the first delta arrives."""

    first: float | None = None

    def _hear(self, event: Envelope) -> None:
        self.first = self.first or time.perf_counter()
        super()._hear(event)


def main() -> None:
    """Open the log, run the session and begin one more turn in it."""
    path, turns = sys.argv[1:]
    begun = time.perf_counter()
    system = Ready(Path(path), "NORMAL")
    system.turn(system.run("s000000"), int(turns))
    assert system.first is not None
    print((system.first - begun) * 1000)
    system.close()


if __name__ == "__main__":
    main()
