"""A program that appends to some streams for as long as it lives; to be killed."""

from __future__ import annotations

import threading
from functools import partial

from reenact.actors.journal.api import Committed, Outcome
from reenact.actors.journal.opening import open_journal
from reenact.testing import Reporter
from tests.journal.support import CODEC, Added, said, step


def write_on(reporter: Reporter, url: str) -> None:
    """Say what was acknowledged: a stream, and its version."""
    journal = open_journal(url, CODEC)
    streams = [f"s{number}" for number in range(8)]

    def write(stream: str, version: int) -> None:
        journal.append(step(stream, version, Added(version), kept=[said(str(version + 1))]), partial(go_on, stream))

    def go_on(stream: str, outcome: Outcome) -> None:
        assert isinstance(outcome, Committed)
        reporter.say(stream, outcome.version)
        write(stream, outcome.version)

    for stream in streams:
        write(stream, len(journal.read(stream)))
    threading.Event().wait()
