"""The tables beside a log, opened in the background: if there are none, they have to be made first."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

from reenact._location import LogLocation
from reenact.actors.journal.stored import StoredJournal
from reenact.domain.errors import ReenactError
from reenact.projections.errors import ReadModelError
from reenact.projections.log import Progress
from reenact.projections.read_model.reader_tables import ReaderTables

PATIENCE: Final = 2.0
"""Seconds that a page waits for the tables."""
RETRY_AFTER: Final = 10.0
"""Seconds after which opening is tried again, if it has failed."""
_logger = logging.getLogger("reenact.inspector")


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
