"""Is the log what was once written?"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager

from reenact.actors.journal.evidence import Evidence, sqlite_evidence
from reenact.actors.journal.examination import Examination
from reenact.actors.journal.faults import translated
from reenact.actors.journal.opening import is_postgres
from reenact.actors.journal.postgres.driver import require_driver
from reenact.actors.journal.sqlite_reader import connect_to_read
from reenact.actors.journal.walk import Finding

__all__ = ["Finding", "evidence_of", "verify"]


def verify(log: sqlite3.Connection | str | os.PathLike[str]) -> list[Finding]:
    """Return what is wrong with the log, which is read in one pass and in bounded memory; nothing is repaired.

    The log is a file, an open connection to it, or the URL of one in PostgreSQL. Of each stream, and of each feed, the
    first record is named that is not as it was written. What events say is not looked at.

    Raises:
        ConfigurationError: the URL cannot be read, or what it needs is not installed.
        StorageError: the log cannot be read to its end.
    """
    if isinstance(log, sqlite3.Connection):
        with sqlite_evidence(log) as evidence:
            return list(Examination(evidence).findings())
    with evidence_of(log) as evidence:
        return list(Examination(evidence).findings())


@contextmanager
def evidence_of(log: str | os.PathLike[str]) -> Generator[Evidence]:
    """Open the log in a file, or at a PostgreSQL URL, for reading, and give it as it stands from then on.

    Raises:
        ConfigurationError: the URL cannot be read, or what it needs is not installed.
        StorageError: the log cannot be opened; likewise what is raised while it is read.
    """
    if is_postgres(log):
        require_driver()
        from reenact.actors.journal.postgres.evidence import postgres_evidence  # noqa: PLC0415 - an extra

        with postgres_evidence(os.fspath(log)) as evidence:
            yield evidence
        return
    path = os.path.realpath(log)
    with translated(path), closing(connect_to_read(path)) as connection, sqlite_evidence(connection) as evidence:
        yield evidence
