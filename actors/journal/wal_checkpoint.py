"""Copies SQLite's write-ahead log into the log's file while commits go on."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from typing import Final

PAGES: Final = 1000
"""About how many pages the write-ahead log has when its copying begins."""
MOST_PAGES: Final = 4 * PAGES
"""With more pages, a commit copies them itself, if the thread has not kept up."""
_COPY = "PRAGMA wal_checkpoint(PASSIVE)"


class WalCheckpointer:
    """Copies the write-ahead log on a thread of its own, so that no commit waits until all of it is on the disk.

    The thread that commits calls all methods, and nobody commits any more when `close` is called. SQLite starts the
    write-ahead log anew only when all of it is copied, so at last the thread that commits copies what was written
    meanwhile, a few pages.
    """

    def __init__(self, writing: sqlite3.Connection, copying: sqlite3.Connection) -> None:
        """Copy with the connection `copying`, which nothing else uses; commits are made with the other one."""
        writing.execute(f"PRAGMA wal_autocheckpoint = {MOST_PAGES}")
        self._writing = writing
        self._copying = copying
        self._pages = 0
        self._thread: threading.Thread | None = None

    def wrote(self, pages: int) -> None:
        """Add to the pages that were written, a rough number."""
        self._pages += pages

    def advance(self) -> None:
        """Begin to copy if there is enough, or end if the thread has; called outside transactions."""
        if self._thread is not None:
            if not self._thread.is_alive():
                self._thread = None
                self._pages = 0
                _copy(self._writing)
        elif self._pages >= PAGES:
            thread = threading.Thread(target=_copy, args=(self._copying,), name="reenact-checkpoint", daemon=True)
            with suppress(RuntimeError):  # no thread can be started; then commits copy
                thread.start()
                self._thread = thread

    def close(self) -> None:
        """Wait for the thread, and close its connection."""
        if self._thread is not None:
            self._thread.join()
        self._copying.close()


def _copy(connection: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):  # nothing is lost, and the next time copies the rest
        connection.execute(_COPY).fetchall()
