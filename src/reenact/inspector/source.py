"""The sources of the pages: the log, its feed and its tables, read while other processes may write them."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Self

from reenact._location import LogLocation, location_of
from reenact._runtime import codec
from reenact.actors.feed.hub import Feed
from reenact.actors.journal.stored import StoredJournal
from reenact.inspector.following import FeedOnly, ReadOnlyLog
from reenact.inspector.late_tables import LateTables
from reenact.inspector.marks import Marks
from reenact.inspector.states import States
from reenact.projections.read_model.reader_tables import ReaderTables
from reenact.server.service import Served


class Source:
    """An inspected log. Thread-safe. Use it as a context manager, or `close` it."""

    def __init__(
        self,
        location: LogLocation,
        log: StoredJournal,
        *,
        tables: LateTables,
        served: Served,
        marks: Marks,
        cleanup: ExitStack,
    ) -> None:
        self.location = location
        self.log = log
        self._tables = tables
        self.served = served
        """The feed that the pages follow: in the process of a runtime, that of the runtime."""
        self.states = States()
        """The states of sessions at any event."""
        self.marks = marks
        """The results of the background checks."""
        self._cleanup = cleanup

    @classmethod
    def open(cls, log: str | os.PathLike[str], feed: Feed | None = None) -> Self:
        """Open the log for reading. `feed` is that of the runtime that writes it in this process, if there is one.

        Raises:
            ConfigurationError: it names no log, or a package is missing.
            LogTooNewError: a newer version of Reenact has written it.
            LogUnusableError: it is missing, or is not a log, or is damaged.
            StorageError: it cannot be read now.
        """
        location = location_of(log)
        with ExitStack() as cleanup:
            journal = cleanup.enter_context(location.open(codec(), read_only=True))
            tables = LateTables(location, journal)
            cleanup.callback(tables.close)
            if feed is None:
                served = ReadOnlyLog(journal)
                cleanup.callback(served.close)
                feed = served.feed
            marks = Marks(location)
            cleanup.callback(marks.close)
            return cls(location, journal, tables=tables, served=FeedOnly(feed), marks=marks, cleanup=cleanup.pop_all())

    @property
    def tables(self) -> ReaderTables:
        """The tables of the log, those of its writer or private ones.

        Raises:
            TablesNotReadyError: they are being made.
            StorageError: they cannot be opened, or made from this log.
        """
        return self._tables.get()

    @property
    def tables_now(self) -> ReaderTables | None:
        """The tables of the log, or None while they are being made, or if that failed; this never waits."""
        return self._tables.now()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close everything. Idempotent."""
        self._cleanup.close()
