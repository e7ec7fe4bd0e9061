"""Who may write a log: one process, or several of which each has streams of its own."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import struct
import sys
import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import NamedTuple, Protocol
from weakref import WeakSet

from reenact.domain.errors import LogLockedError

_held: WeakSet[WriterLock] = WeakSet()

_OPENING = 0
"""The byte that is locked while a process opens the log."""
_WRITING = 1
"""The byte on which each process has a lock that others can share, for as long as it writes."""
_STREAMS = 2
"""The first byte of those that stand for streams."""
_FLOCK = "hhqqi4x" if sys.platform == "linux" else "qqihh8x"
"""How the system lays out what it says about a lock: on Linux, and on the BSDs, of which macOS is one."""

_sharing: set[tuple[int, str]] = set()
"""The files of stream locks that are open, with the process that has opened them."""
_sharing_lock = threading.Lock()


class WriterLock:
    """The right to write a log, held until it is released or the process ends, however it ends."""

    def __init__(self, path: str, *, shared: bool = False) -> None:
        """Take the right to write the log at `path`, alone, or beside others if all of them share it.

        Raises:
            LogLockedError: somebody else has it, in this process or in another one.
            OSError: the lock file cannot be opened.
        """
        self._pid = os.getpid()
        self._path = path
        self._descriptor: int | None
        self._descriptor, self.is_alone = _open_locked(path, shared=shared)
        """Whether nobody else has the right at present."""
        _held.add(self)
        _leave_locks_to_the_parent()

    def share(self) -> None:
        """Let others in who share it.

        Raises:
            LogLockedError: somebody has taken the right for themselves in between.
        """
        if self.is_alone and self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            self.is_alone = False
            _flock(self._descriptor, fcntl.LOCK_SH, self._path)

    def release(self) -> None:
        """Let others write. Idempotent; in a process forked from the owner it lets go of nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            if os.getpid() == self._pid and self.is_alone:
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
        pid = _owner(descriptor, path)
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


class Owner(NamedTuple):
    """The process that has a lock, as far as it is known; `host` is None if that is this machine."""

    pid: int | None
    host: str | None = None


class StreamLocks(Protocol):
    """Which process has which streams of a log that several processes write. Thread-safe."""

    def opening(self) -> AbstractContextManager[None]:
        """Be the only process that opens the log; waits until no other one does."""
        ...

    def claim(self, stream: str) -> bool:
        """Have the stream from now on; return False if another process has it.

        What its last owner has written is in the log when this returns. The caller has the stream until it releases
        it; if the lock is lost before, no step of the stream is accepted any more until it is claimed and recovered.
        """
        ...

    def release(self, stream: str) -> None:
        """Let other processes have the stream. Idempotent."""
        ...

    def owner_of(self, stream: str) -> Owner | None:
        """Return the other process that has the stream, None if none has."""
        ...

    def close(self) -> None:
        """Let go of everything. Idempotent."""
        ...


class FileStreamLocks:
    """Keeps the promise of `StreamLocks` for a log in a file.

    The locks are the kernel's, on bytes of a file beside the log, and end with the process, however it ends. Each
    process may open that file only once: to close it again would give up all of its locks.
    """

    def __init__(self, path: str) -> None:
        """Begin to write the log at `path` beside others.

        Raises:
            LogLockedError: this process writes it already.
            OSError: the file of the locks cannot be opened.
        """
        self._key = os.getpid(), _file_of_streams(path)
        with _sharing_lock:
            if self._key in _sharing:
                raise LogLockedError(path, os.getpid(), here=True)
            self._descriptor = os.open(self._key[1], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            _sharing.add(self._key)
        fcntl.lockf(self._descriptor, fcntl.LOCK_SH, 1, _WRITING)

    @contextmanager
    def opening(self) -> Generator[None]:
        """Be the only process that opens the log; waits until no other one does."""
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX, 1, _OPENING)
        try:
            yield
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, _OPENING)

    def claim(self, stream: str) -> bool:
        """Have the stream from now on; return False if another process has it."""
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte_of(stream))
        except (BlockingIOError, PermissionError):
            return False
        return True

    def release(self, stream: str) -> None:
        """Let other processes have the stream. Idempotent."""
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, _byte_of(stream))

    def owner_of(self, stream: str) -> Owner | None:
        """Return the other process that has the stream, None if none has."""
        pid = _locker(self._descriptor, _byte_of(stream))
        return None if pid is None else Owner(pid)

    def close(self) -> None:
        """Let go of everything. Idempotent."""
        with _sharing_lock:
            if self._key in _sharing:
                _sharing.remove(self._key)
                os.close(self._descriptor)


def _file_of_streams(path: str) -> str:
    return f"{path}.sessions"


def _byte_of(stream: str) -> int:
    # Of 2**62 bytes: two streams that meet on one are not to be expected.
    return _STREAMS + (int.from_bytes(hashlib.sha256(stream.encode()).digest()[:8], "big") >> 2)


def _locker(descriptor: int, byte: int) -> int | None:
    """Return a process other than this one that has a lock on the byte of the file."""
    is_linux = sys.platform == "linux"
    asked = (fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0) if is_linux else (byte, 1, 0, fcntl.F_WRLCK, os.SEEK_SET)
    told = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(_FLOCK, *asked)))
    kind, pid = (told[0], told[4]) if is_linux else (told[3], told[2])
    return None if kind == fcntl.F_UNLCK else pid


def _sharer_of(path: str) -> int | None:
    """Return one of the processes that share the log."""
    file = _file_of_streams(path)
    if (os.getpid(), file) in _sharing:
        return os.getpid()
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _locker(descriptor, _WRITING)
    finally:
        os.close(descriptor)


@cache
def _leave_locks_to_the_parent() -> None:
    """Have every forked child let go of the locks: the kernel counts them as held while any copy is open."""
    os.register_at_fork(after_in_child=_release_all)


def _release_all() -> None:
    for lock in list(_held):
        lock.release()


def _open_locked(path: str, *, shared: bool) -> tuple[int, bool]:
    """Return the locked file, and whether nobody else has a lock on it."""
    # Never truncated by the opening: a contender must leave the owner's name alone. Python closes it on exec.
    descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            _flock(descriptor, fcntl.LOCK_EX, path)
        except LogLockedError:
            if not shared:
                raise
            _flock(descriptor, fcntl.LOCK_SH, path)
            return descriptor, False
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, True


def _flock(descriptor: int, kind: int, path: str) -> None:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = _owner(descriptor, path)
        raise LogLockedError(path, owner, here=owner == os.getpid()) from None


def _owner(descriptor: int, path: str) -> int | None:
    digits = os.pread(descriptor, 20, 0)
    return int(digits) if digits.isdigit() else _sharer_of(path)
