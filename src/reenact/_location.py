"""The location of a log and of the tables that belong to it: a SQLite file, or a schema of a PostgreSQL database."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from reenact.actors.journal.api import Listener, Synchronous
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.faults import translated
from reenact.actors.journal.fence import Fence
from reenact.actors.journal.lock import FileStreamLocks, StreamLocks, writer_of
from reenact.actors.journal.opening import file_of, is_postgres, open_journal, require_driver
from reenact.actors.journal.schema import check_file
from reenact.actors.journal.stored import StoredJournal
from reenact.domain.errors import ConfigurationError

if TYPE_CHECKING:
    from reenact.actors.journal.key_ring import KeyRing
    from reenact.actors.sharding.node import Node

_SUFFIXES = ("-wal", "-shm", "-journal", ".lock", ".sessions")
_FAMILIES = (".projections", ".tracing", ".views")
"""Infixes of the names of files beside a log, which continue in several ways: they hold tables made from the log."""


class LogLocation(os.PathLike[str]):
    """The location of a log, which may not exist yet.

    `name` is the log's name in messages, without a password; `title` is its name on pages for people: the name of a
    file without its directory, which is in `path`, or a database's address without its user. `url` opens the log, even
    after a change of the working directory. `projections` is where the tables of users' projections are, in the form
    that `Projections.open` takes, and `tracing` likewise where the progress of sent spans is stored. `keys` decrypt and
    encrypt the log.
    """

    name: str
    title: str
    path: str = ""
    url: str
    projections: str
    tracing: str
    keys: KeyRing | None = None
    let_go: Callable[[], None] = staticmethod(lambda: None)
    """Called when the runtime on the log has closed it."""

    def __fspath__(self) -> str:
        """Return the URL, so that a location is accepted in place of a log's path."""
        return self.url

    def open(
        self,
        codec: EventCodec,
        *,
        listener: Listener | None = None,
        synchronous: Synchronous = "FULL",
        read_only: bool = False,
        closed: bool = False,
        locks: StreamLocks | None = None,
        fence: Fence | None = None,
        keyed: bool = False,
    ) -> StoredJournal:
        """Open or create the log, shared with other processes if there are `locks` on streams; see `open_journal`."""
        return open_journal(
            self.url,
            codec,
            listener=listener,
            synchronous=synchronous,
            read_only=read_only,
            closed=closed,
            shared=locks is not None,
            locks=locks,
            fence=fence,
            keys=self.keys,
            keyed=keyed,
        )

    @abstractmethod
    def exists(self) -> bool:
        """Return whether anything exists there that may be a log.

        Raises:
            StorageError: it cannot be determined.
        """

    @abstractmethod
    def lock_streams(self) -> StreamLocks:
        """Begin to share the writing of the log with other processes.

        Raises:
            LogLockedError: this process is writing it already.
            StorageError: the log cannot be used.
        """

    def node(self) -> tuple[Node, StreamLocks] | None:
        """Begin to write the log as one of its nodes; return None if it cannot have several nodes.

        Raises:
            LogLockedError: another process is writing it alone, or session by session.
            StorageError: the log cannot be used.
        """
        return None

    @abstractmethod
    def has_writer(self) -> bool:
        """Return whether a process is writing the log, as far as its lock shows."""

    @abstractmethod
    def owns(self, path: Path) -> bool:
        """Return whether the path is that of the log, or of a file that belongs to it, even if it does not exist."""

    def outside(self, path: str | os.PathLike[str], hint: str) -> Path:
        """Return the path.

        Raises:
            ConfigurationError: the log owns it; the message ends with the hint.
        """
        if self.owns(Path(path)):
            raise ConfigurationError(f"{os.fspath(path)} is the log, or a file that belongs to it; {hint}")
        return Path(path)

    @abstractmethod
    def owner(self) -> Path | None:
        """Return the existing log to which this file would belong by its name, or None."""

    def _has_keys_in(self, path: Path) -> bool:
        """Return whether the key ring is in this file."""
        if self.keys is None or not path.exists():
            return False
        from reenact.actors.journal.key_ring import FileKeyRing  # noqa: PLC0415 - a log without keys does not need it

        return isinstance(self.keys, FileKeyRing) and path.samefile(self.keys.path)


class LogFile(LogLocation):
    """A log in a SQLite file; its lock and the tables made from it are in files beside it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Set the path of the file."""
        self.name = os.fspath(path)
        self.path = self.url = os.path.abspath(self.name)  # noqa: PTH100 - symbolic links are not resolved
        self.title = os.path.basename(self.url)  # noqa: PTH119 - likewise
        self.projections = f"{self.url}.views"
        self.tracing = f"{self.url}.tracing"

    def exists(self) -> bool:
        """Return whether there is a file."""
        return os.path.exists(self.url)  # noqa: PTH110 - the path as it was given

    def lock_streams(self) -> StreamLocks:
        """Begin to share the writing of the log with other processes."""
        resolved = os.path.realpath(self.url)
        with translated(resolved):
            check_file(resolved)
            return FileStreamLocks(resolved)

    def has_writer(self) -> bool:
        """Return whether the lock file says that the log is locked."""
        return writer_of(os.path.realpath(self.url)) is not None

    def owns(self, path: Path) -> bool:
        """Return whether the path is that of the log, its key ring or a file beside it, under any of its names."""
        if self._has_keys_in(path):
            return True
        own, given = Path(os.path.realpath(self.url)), Path(os.path.realpath(path))
        if any(one.parent == own.parent and _belongs(own.name, one.name) for one in (given, *given.parents)):
            return True
        return given.exists() and any(one.samefile(given) for one in _existing_files(own))

    def owner(self) -> Path | None:
        """Return the existing log to which this file belongs by its name, or None."""
        given = Path(os.path.realpath(self.url))
        return next((log for one in (given, *given.parents) for log in _owners(one) if log.is_file()), None)


class LogDatabase(LogLocation):
    """A log in a schema of a PostgreSQL database; the tables made from it are in schemas beside it."""

    def __init__(self, url: str) -> None:
        """Set the URL.

        Raises:
            ConfigurationError: it cannot be parsed, or the driver is not installed.
        """
        require_driver()
        from reenact.actors.journal.postgres.address import address_of  # noqa: PLC0415 - the driver is an extra

        self.name = address_of(url).name
        host, slash, rest = self.name.removeprefix("postgresql://").partition("/")
        self.title = f"{host.rpartition('@')[2]}{slash}{rest}"
        self.url = self.projections = self.tracing = url

    def exists(self) -> bool:
        """Return whether the schema holds a log.

        Raises:
            StorageError: the server cannot be reached, or the schema is used by something else.
        """
        from reenact.actors.journal.postgres.journal import is_log  # noqa: PLC0415 - the driver is an extra

        return is_log(self.url)

    def lock_streams(self) -> StreamLocks:
        """Begin to share the writing of the log with other processes."""
        from reenact.actors.journal.postgres.locks import PostgresLocks  # noqa: PLC0415 - the driver is an extra

        return PostgresLocks.share(self.url)

    def node(self) -> tuple[Node, StreamLocks]:
        """Begin to write the log as one of its nodes."""
        from reenact.actors.journal.postgres.locks import PostgresLocks  # noqa: PLC0415 - the driver is an extra
        from reenact.actors.sharding.node import Node  # noqa: PLC0415 - likewise

        return Node(self.url), PostgresLocks.share(self.url, as_node=True)

    def has_writer(self) -> bool:
        """Return whether the server says that the log is locked."""
        from reenact.actors.journal.postgres.locks import writer_of  # noqa: PLC0415 - the driver is an extra

        return writer_of(self.url) is not None

    def owns(self, path: Path) -> bool:
        """Return whether the path is that of the key ring; no other file belongs to the log."""
        return self._has_keys_in(path)

    def owner(self) -> Path | None:
        """Return None: it is not a file."""
        return None


def location_of(log: str | os.PathLike[str], keys: KeyRing | None = None) -> LogLocation:
    """Return the location for a path or URL, of a log with these keys; a location is returned unchanged.

    Raises:
        ConfigurationError: it names no log, a package is missing, or the keys are not a key ring.
    """
    if keys is not None:
        from reenact.actors.journal.key_ring import check_keys  # noqa: PLC0415 - a log without keys does not need it

        check_keys(keys)
    if isinstance(log, LogLocation):
        return log
    location = LogDatabase(os.fspath(log)) if is_postgres(log) else LogFile(file_of(log))
    location.keys = keys
    return location


def _belongs(log: str, name: str) -> bool:
    rest = name.removeprefix(log)
    return name.startswith(log) and (rest in ("", *_SUFFIXES) or rest.startswith(_FAMILIES))


def _owners(path: Path) -> Iterator[Path]:
    """Yield the logs to which a file of this name would belong."""
    names = [path.name.removesuffix(suffix) for suffix in _SUFFIXES if path.name.endswith(suffix)]
    names += [path.name.partition(family)[0] for family in _FAMILIES if family in path.name]
    yield from (path.with_name(name) for name in names if name)


def _existing_files(own: Path) -> list[Path]:
    """Return the files of the log that exist: one of them may have another name as well."""
    if not own.parent.is_dir():
        return []
    return [one for one in own.parent.iterdir() if _belongs(own.name, one.name)]
