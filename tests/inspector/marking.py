"""What is known of a log in the background, and changes that it has to find."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from reenact.inspector import Source
from reenact.inspector.marks import CheckResults

PATIENCE = 30.0


def known(source: Source, condition: Callable[[CheckResults], object]) -> CheckResults:
    """Return what is known of the log as soon as that is so."""
    end = time.monotonic() + PATIENCE
    while not condition(now := source.marks.now()):
        assert time.monotonic() < end, now
        time.sleep(0.005)
    return now


def all_known(source: Source) -> CheckResults:
    """Return what is known once all of the log was looked at."""
    head = source.log.head()
    return known(source, lambda now: now.chain.ended and now.chain.position >= head and now.decisions.is_all)


def change(log: Path, statement: str, *parameters: object) -> None:
    """Change the log behind everybody's back."""
    with closing(sqlite3.connect(log, isolation_level=None)) as connection:
        connection.execute(statement, parameters)
