"""The sources of the pages: the log, its feed and its tables, read while other processes may write them."""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, Self

from reenact._location import LogLocation, location_of
from reenact._runtime import codec
from reenact.actors.feed.hub import Feed
from reenact.actors.journal.stored import StoredJournal
from reenact.actors.kernel.timetable import microseconds
from reenact.domain.errors import InvalidInputError, ReenactError, RuntimeClosedError
from reenact.domain.operations.table import Response
from reenact.domain.stream.events import Envelope
from reenact.inspector.marks import Marks
from reenact.inspector.states import States
from reenact.projections.errors import ReadModelError
from reenact.projections.log import Progress
from reenact.projections.read_model.reader_tables import ReaderTables
from reenact.server.service import Served

LOOK = 0.05
"""Seconds between two reads of the log while a session is followed."""
REST = 1.0
"""Seconds between two reads while the log cannot be read."""
PATIENCE: Final = 2.0
"""Seconds that a page waits for the tables."""
RETRY_AFTER: Final = 10.0
"""Seconds after which opening is tried again, if it has failed."""
_logger = logging.getLogger("reenact.inspector")


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


@dataclass(eq=False)
class FeedOnly:
    """A feed without a runtime: requests are refused, because pages act by their forms alone."""

    feed: Feed

    def request(self, type: str, data: Mapping[str, object], timeout: float | None) -> Envelope[Response]:  # noqa: A002 - as a runtime has it
        """Refuse the request.

        Raises:
            InvalidInputError: always.
        """
        raise InvalidInputError(f"{type!r} cannot be carried out here: this server only reads the log")


class ReadOnlyLog:
    """A log that is only read, and its feed, which reads published events from the log. Thread-safe.

    A thread checks the ends of the followed sessions, and lets their subscribers read up to there.
    """

    def __init__(self, log: StoredJournal) -> None:
        """Set the log, which the caller has to close after this."""
        self._log = log
        self.feed = Feed(log, new_id=_new_id, now=microseconds)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reenact-inspector-follow", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop following the log. Idempotent."""
        self._ending.set()
        self._thread.join()
        self.feed.close()

    def advance(self) -> None:
        """Check once for new events of the followed sessions.

        Raises:
            StorageError: the log cannot be read.
        """
        for topic in self.feed.topics:
            end = self._log.feed_end(topic.name)
            if end > topic.end:
                self.feed.advance_to(topic.name, topic.end + 1, end)

    def _run(self) -> None:
        is_failing = False
        while not self._ending.wait(REST if is_failing else LOOK):
            try:
                self.advance()
            except RuntimeClosedError:
                return
            except Exception:
                if not is_failing:
                    _logger.exception("the log cannot be read now; it is tried again")
                is_failing = True
            else:
                is_failing = False


class TablesNotReadyError(ReadModelError):
    """The tables for a page are still being made; ask again."""

    code = "tables_not_ready"

    def __init__(self, done: int, total: int) -> None:
        super().__init__(f"the tables of this log are being made: {done:,} of {total:,} events are in them")
        self.done = done
        self.total = total


class _EndedError(Exception):
    """The tables are not wanted any more."""


class LateTables:
    """Opens the tables on a thread of its own. Thread-safe."""

    def __init__(self, location: LogLocation, log: StoredJournal) -> None:
        """Begin to open the tables; the log must stay open until this is closed."""
        self._location = location
        self._log = log
        self._changing = threading.Lock()
        self._settled = threading.Event()
        self._is_ended = False
        self._tables: ReaderTables | None = None
        self._error: Exception | None = None
        self._failed_at = 0.0
        self._progress = Progress("read model", 0, None)
        self._thread = self._begin()

    def now(self) -> ReaderTables | None:
        """Return the tables if they are open, or None."""
        return self._tables if self._settled.is_set() else None

    def get(self) -> ReaderTables:
        """Return the tables.

        Raises:
            TablesNotReadyError: they are still being made.
            StorageError: they cannot be opened, or made from this log; the subclass says why.
        """
        with self._changing:
            if self._error is not None and time.monotonic() > self._failed_at + RETRY_AFTER and not self._is_ended:
                self._error = None
                self._settled.clear()
                self._thread = self._begin()
        if not self._settled.wait(PATIENCE):
            raise TablesNotReadyError(self._progress.done, self._log.head())
        if self._tables is None:
            error = self._error
            raise ReadModelError(f"the tables of this log cannot be read, or made: {error}") from error
        return self._tables

    def close(self) -> None:
        """Close the tables. Idempotent."""
        with self._changing:
            self._is_ended = True
        self._thread.join()
        if self._tables is not None:
            self._tables.close()

    def _begin(self) -> threading.Thread:
        thread = threading.Thread(target=self._open, name="reenact-inspector-tables", daemon=True)
        thread.start()
        return thread

    def _open(self) -> None:
        try:
            self._tables = ReaderTables(
                self._location.url,
                self._log,
                self._location.has_writer,
                progress=self._note_progress,
                cipher=self._log.codec.vault,
            )
        except _EndedError:
            pass
        except Exception as error:
            if not isinstance(error, ReenactError):
                _logger.exception("the tables of the log cannot be opened")
            self._failed_at, self._error = time.monotonic(), error
        self._settled.set()

    def _note_progress(self, progress: Progress) -> None:
        if self._is_ended:
            raise _EndedError
        self._progress = progress


def _new_id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex}"
