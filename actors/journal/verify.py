"""Verifies that a log has not been changed since it was written."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import closing, contextmanager

from reenact.actors.journal.evidence import Evidence, sqlite_evidence
from reenact.actors.journal.examination import Examination
from reenact.actors.journal.faults import translated
from reenact.actors.journal.opening import is_postgres, require_driver
from reenact.actors.journal.schema import refuse_pipe
from reenact.actors.journal.sqlite_reader import connect_to_read
from reenact.actors.journal.walk import Finding

__all__ = ["Finding", "evidence_of", "verify"]


def verify(log: str | os.PathLike[str]) -> list[Finding]:
    """Return what is wrong with the log, reading it in one pass and in bounded memory; nothing is repaired.

    The log is a file, or the URL of one in PostgreSQL. For each stream, and each feed, the
    first damaged record is reported. The content of events is not checked.

    Raises:
        ConfigurationError: the URL is invalid, or a dependency is not installed.
        StorageError: the log cannot be read to its end.
    """
    with evidence_of(log) as evidence:
        return list(Examination(evidence).findings())


@contextmanager
def evidence_of(log: str | os.PathLike[str]) -> Generator[Evidence]:
    """Open the log in a file, or at a PostgreSQL URL, for reading, and lend it as it is at that moment.

    Raises:
        ConfigurationError: the URL is invalid, or a dependency is not installed.
        StorageError: the log cannot be opened or read.
    """
    if is_postgres(log):
        require_driver()
        from reenact.actors.journal.postgres.moment import postgres_evidence  # noqa: PLC0415 - an extra

        with postgres_evidence(os.fspath(log)) as evidence:
            yield evidence
        return
    path = os.path.realpath(log)
    refuse_pipe(path)
    with translated(path), closing(connect_to_read(path)) as connection, sqlite_evidence(connection) as evidence:
        yield evidence
