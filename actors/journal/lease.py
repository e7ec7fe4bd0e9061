"""Shares a log file among several users within one process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from weakref import finalize

from reenact.actors.journal.api import Synchronous
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.journal.stored import StoredJournal


class JournalLease:
    """Keeps a journal open until the lease is released or garbage-collected."""

    def __init__(self, journal: StoredJournal, release: Callable[[], object]) -> None:
        """Call `release` once, when the lease ends, unless it ends in a forked child."""
        self.journal = journal
        self._release = partial(_release_unless_forked, os.getpid(), release)
        # The garbage collector may run on any thread, with any lock held, so closing is left to a thread of its own.
        self._abandoned = finalize(self, _start, self._release)
        # Not at exit: the process ends, and its locks with it.
        self._abandoned.atexit = False

    def release(self) -> None:
        """End the lease. Idempotent."""
        if self._abandoned.detach() is not None:
            self._release()


@dataclass
class _OpenFile:
    journal: SqliteJournal
    synchronous: Synchronous
    leases: int = 0


_open_files: dict[tuple[int, str], _OpenFile] = {}
"""By process id, since a forked child inherits this, and by path."""
_lock = threading.Lock()
"""Protects `_open_files`. Held while a file is opened or closed, so that a thread that opens it again waits."""


def lease_file(path: str, *, synchronous: Synchronous) -> JournalLease:
    """Return a lease of the log in the file, opening it if necessary; the last lease closes it.

    Raises:
        OSError: the file is open with a different `synchronous`.
        LogLockedError: another process, or a runtime or an actor system of this one, is writing the log.
        StorageError: the log cannot be opened.
    """
    key = os.getpid(), os.path.realpath(path)
    with _lock:
        file = _open_files.get(key)
        if file is None:
            file = _OpenFile(SqliteJournal.open(path, EventCodec(()), synchronous=synchronous), synchronous)
            _open_files[key] = file
        elif file.synchronous != synchronous:
            message = f"{path} is open in this process with {file.synchronous!r}; {synchronous!r} has to be the same"
            raise OSError(message)
        file.leases += 1
    return JournalLease(file.journal, partial(_release, key))


def _release(key: tuple[int, str]) -> None:
    with _lock:
        file = _open_files[key]
        file.leases -= 1
        if not file.leases:
            del _open_files[key]
            file.journal.close()


def _release_unless_forked(process: int, release: Callable[[], object]) -> None:
    if process == os.getpid():
        release()


def _start(release: Callable[[], object]) -> None:
    threading.Thread(target=release, name="reenact-journal-close", daemon=True).start()
