"""A process that rebuilds tables, says how far it is after each batch, and is killed at it.

`child.py own DIRECTORY WORDS`: tables of a user's own over a log that is a list.
`child.py runtime LOG`: the runtime's own, over its log; the batches are small.
`child.py version LOG`: likewise, as a program does that is opened with tables of another version.
"""

from __future__ import annotations

import sys
import threading
from unittest.mock import patch

from reenact import Runtime
from reenact.projections import Progress, Projections
from reenact.projections.read_model import projection
from reenact.projections.views import hosted
from tests.projections.histories import ListLog
from tests.views.support import Words, say

BATCH = 5
ANOTHER = 1_000_000


def tell_and_wait(progress: Progress) -> None:
    """Say how far it is, and go no further before somebody says so."""
    sys.stdout.write(f"{progress.done}\n")
    sys.stdout.flush()
    if not sys.stdin.readline():
        threading.Event().wait()


def rebuild_own(directory: str, words: str) -> None:
    log = ListLog()
    say(log, *words)
    hosted.UserTables.batch = BATCH  # so that there are many of them
    projections = Projections.open(directory, log, [Words()])
    projections.wait_for(timeout=60)
    projections.rebuild("words", progress=tell_and_wait)


def rebuild_runtime(path: str) -> None:
    projection.ReadModelTables.batch = BATCH  # likewise
    runtime = Runtime.open(path)
    runtime.projections.rebuild(progress=tell_and_wait)


def open_another_version(path: str) -> None:
    projection.ReadModelTables.batch = BATCH  # likewise
    patch("reenact.projections.read_model.compiled.VERSION", ANOTHER).start()
    advance = projection.ReadModelTables.advance

    def advance_and_tell(tables: projection.ReadModelTables) -> bool:
        has_moved = advance(tables)
        tell_and_wait(Progress("reenact", tables.position, 0))
        return has_moved

    patch.object(projection.ReadModelTables, "advance", advance_and_tell).start()
    Runtime.open(path)


if __name__ == "__main__":
    if sys.argv[1] == "own":
        rebuild_own(*sys.argv[2:])
    elif sys.argv[1] == "runtime":
        rebuild_runtime(*sys.argv[2:])
    else:
        open_another_version(*sys.argv[2:])
