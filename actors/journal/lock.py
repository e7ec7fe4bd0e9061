"""One writing process per log: a lock file beside it that names its owner."""

from __future__ import annotations

import contextlib
import fcntl
import os
from functools import cache
from weakref import WeakSet

from reenact.domain.errors import LogLockedError

_held: WeakSet[WriterLock] = WeakSet()


class WriterLock:
    """The right to write a log, held until it is released or the process ends, however it ends."""

    def __init__(self, path: str) -> None:
        """Take the right to write the log at `path`.

        Raises:
            LogLockedError: somebody else has it, in this process or in another one.
            OSError: the lock file cannot be opened.
        """
        self._pid = os.getpid()
        self._descriptor: int | None = _open_locked(path)
        _held.add(self)
        _leave_locks_to_the_parent()

    def release(self) -> None:
        """Let others write. Idempotent; in a process forked from the owner it lets go of nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            if os.getpid() == self._pid:
                # A full disk may forbid even this; the name of an owner means nothing once the lock is free.
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)


def writer_of(path: str) -> int | None:
    """Return the id of the process that writes the log at `path`, None if none does, as far as its lock file says."""
    try:
        descriptor = os.open(f"{path}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        pid = _owner(descriptor)
    finally:
        os.close(descriptor)
    try:
        if pid is not None:
            os.kill(pid, 0)
    except ProcessLookupError:  # it was killed, and left its name
        return None
    except PermissionError:
        pass  # it is another user's
    return pid


@cache
def _leave_locks_to_the_parent() -> None:
    """Have every forked child let go of the locks: the kernel counts them as held while any copy is open."""
    os.register_at_fork(after_in_child=_release_all)


def _release_all() -> None:
    for lock in list(_held):
        lock.release()


def _open_locked(path: str) -> int:
    # Never truncated by the opening: a contender must leave the owner's name alone. Python closes it on exec.
    descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LogLockedError(path, _owner(descriptor)) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _owner(descriptor: int) -> int | None:
    digits = os.pread(descriptor, 20, 0)
    return int(digits) if digits.isdigit() else None
