"""Locks for writing a log: by one process, or by several that each write streams of their own."""

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
from typing import NamedTuple, Protocol
from weakref import WeakSet

from reenact.domain.errors import LogLockedError

_held: WeakSet[WriterLock] = WeakSet()

_OPEN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
"""How a lock file is opened: what a link in its place leads to would be overwritten."""
_OPENING = 0
"""The byte that is locked while a process opens the log."""
_WRITING = 1
"""The byte on which each process holds a shared lock while it writes."""
_STREAMS = 2
"""The first of the bytes that represent streams."""
_FLOCK = "hhqqi4x" if sys.platform == "linux" else "qqihh8x"
"""The layout of the operating system's lock structure: on Linux, and on the BSDs, including macOS."""

_sharing: set[tuple[int, str]] = set()
"""The stream lock files that are open, with the process that opened them."""
_sharing_lock = threading.Lock()


class WriterLock:
    """The lock for writing a log, held until it is released or the process ends in any way."""

    def __init__(self, path: str, *, shared: bool = False) -> None:
        """Lock the log at `path` for writing, exclusively or shared with others.

        Raises:
            LogLockedError: another lock excludes this one, in this process or in another one.
            OSError: the lock file cannot be opened.
        """
        self._pid = os.getpid()
        self._path = path
        self._descriptor: int | None
        self._descriptor, self.is_alone = _open_locked(path, shared=shared)
        """Whether no other process holds the lock at present."""
        _held.add(self)

    def share(self) -> None:
        """Let other processes share the lock.

        Raises:
            LogLockedError: a process has taken the exclusive lock in between.
        """
        if self.is_alone and self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            self.is_alone = False
            _flock(self._descriptor, fcntl.LOCK_SH, self._path)

    def release(self) -> None:
        """Release the lock. Idempotent; a process forked from the owner does not release the owner's lock."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        try:
            if os.getpid() == self._pid and self.is_alone:
                # This may fail on a full disk; the owner's id has no meaning once the lock is free.
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)


def writer_of(path: str) -> int | None:
    """Return the id of the process that writes the log at `path`, as far as its lock file shows, or None."""
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
    except ProcessLookupError:  # the process was killed and left its id
        return None
    except PermissionError:
        pass  # it belongs to another user
    return pid


class Owner(NamedTuple):
    """The process that holds a lock, as far as it is known; `host` is None for this machine."""

    pid: int | None
    host: str | None = None


class StreamLocks(Protocol):
    """Locks on the streams of a log that several processes write. Thread-safe."""

    def opening(self) -> AbstractContextManager[None]:
        """Exclude other processes from opening the log; waits until none is opening it."""
        ...

    def claim(self, stream: str) -> bool:
        """Lock the stream; return False if another process has locked it.

        Everything that the previous owner has written is in the log when this returns. The stream stays locked until it
        is released; if the lock is lost before that, no step of the stream is accepted until it is claimed and
        recovered again.
        """
        ...

    def release(self, stream: str) -> None:
        """Unlock the stream for other processes. Idempotent."""
        ...

    def owner_of(self, stream: str) -> Owner | None:
        """Return the other process that has locked the stream, or None."""
        ...

    def close(self) -> None:
        """Release all locks. Idempotent."""
        ...


class FileStreamLocks:
    """Implements `StreamLocks` for a log file.

    The locks are the kernel's record locks on a file beside the log, and end with the process in any case. A process
    must open that file only once: closing a second descriptor would release all of its locks.
    """

    def __init__(self, path: str) -> None:
        """Start to write the log at `path` beside other processes.

        Raises:
            LogLockedError: this process is writing it already.
            OSError: the lock file cannot be opened.
        """
        self._key = os.getpid(), _file_of_streams(path)
        with _sharing_lock:
            if self._key in _sharing:
                raise LogLockedError(path, os.getpid(), here=True)
            self._descriptor = os.open(self._key[1], _OPEN, 0o600)
            _sharing.add(self._key)
        fcntl.lockf(self._descriptor, fcntl.LOCK_SH, 1, _WRITING)

    @contextmanager
    def opening(self) -> Generator[None]:
        """Exclude other processes from opening the log; waits until none is opening it."""
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX, 1, _OPENING)
        try:
            yield
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, _OPENING)

    def claim(self, stream: str) -> bool:
        """Lock the stream; return False if another process has locked it."""
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte_of(stream))
        except (BlockingIOError, PermissionError):
            return False
        return True

    def release(self, stream: str) -> None:
        """Unlock the stream for other processes. Idempotent."""
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, _byte_of(stream))

    def owner_of(self, stream: str) -> Owner | None:
        """Return the other process that has locked the stream, or None."""
        pid = _locker(self._descriptor, _byte_of(stream))
        return None if pid is None else Owner(pid)

    def close(self) -> None:
        """Release all locks. Idempotent."""
        with _sharing_lock:
            if self._key in _sharing:
                _sharing.remove(self._key)
                os.close(self._descriptor)


def _file_of_streams(path: str) -> str:
    return f"{path}.sessions"


def _byte_of(stream: str) -> int:
    # One of 2**62 bytes: collisions of two streams are not to be expected.
    return _STREAMS + (int.from_bytes(hashlib.sha256(stream.encode()).digest()[:8], "big") >> 2)


def _locker(descriptor: int, byte: int) -> int | None:
    """Return the id of another process that has locked the byte of the file, or None."""
    is_linux = sys.platform == "linux"
    asked = (fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0) if is_linux else (byte, 1, 0, fcntl.F_WRLCK, os.SEEK_SET)
    told = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(_FLOCK, *asked)))
    kind, pid = (told[0], told[4]) if is_linux else (told[3], told[2])
    return None if kind == fcntl.F_UNLCK else pid


def _sharer_of(path: str) -> int | None:
    """Return the id of one of the processes that share the log, or None."""
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


def _leave_locks_to_the_parent() -> None:
    """Release the locks in a forked child: the kernel keeps them held while any copy of the descriptor is open."""
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_leave_locks_to_the_parent)


def _open_locked(path: str, *, shared: bool) -> tuple[int, bool]:
    """Return the locked file, and whether the lock is exclusive."""
    # Not truncated when opened: a process that fails to lock it must not remove the owner's id. Python closes it on
    # exec.
    descriptor = os.open(f"{path}.lock", _OPEN, 0o600)
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
