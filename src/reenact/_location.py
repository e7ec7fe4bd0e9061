"""Where a log is, and what belongs to it there: a SQLite file, or a schema of a PostgreSQL database."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from reenact.actors.journal.api import Listener, Synchronous
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.faults import translated
from reenact.actors.journal.fence import Fence
from reenact.actors.journal.lock import FileStreamLocks, StreamLocks, writer_of
from reenact.actors.journal.opening import file_of, is_postgres, open_journal
from reenact.actors.journal.postgres.driver import require_driver
from reenact.actors.journal.schema import check_file
from reenact.actors.journal.stored import StoredJournal

if TYPE_CHECKING:
    from reenact.actors.journal.key_ring import KeyRing
    from reenact.actors.sharding.node import Node

_SUFFIXES = ("-wal", "-shm", "-journal", ".lock", ".sessions")
_FAMILIES = (".projections", ".tracing", ".views")
"""What is beside a log under names that go on in several ways: tables that are made from it."""


class LogLocation(os.PathLike[str]):
    """Where a log is, whether it has begun or not.

    `name` is what messages call it, and shows no password; `title` is the same for people who see a page of it: the
    name of a file without its directory, which is in `path`, and of a database nothing of whoever asks it. `url` opens
    it, also after a change of the directory.
    `projections` is where the tables of users' projections are, as `Projections.open` takes it, and `tracing` how far
    spans are sent, likewise. `keys` decrypt what is in it, and encrypt what is written.
    """

    name: str
    title: str
    path: str = ""
    url: str
    projections: str
    tracing: str
    keys: KeyRing | None = None

    def __fspath__(self) -> str:
        """Return the URL: whatever takes the name of a log takes its location as well."""
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
        """Open the log, or begin one, and share it if there are `locks` on its streams; see `open_journal`."""
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
        """Return whether there is anything there that may be a log.

        Raises:
            StorageError: that cannot be found out.
        """

    @abstractmethod
    def lock_streams(self) -> StreamLocks:
        """Begin to write the log beside other processes.

        Raises:
            LogLockedError: this process writes it already.
            StorageError: the log cannot be used.
        """

    def node(self) -> tuple[Node, StreamLocks] | None:
        """Begin to write the log as one of its nodes; None if it cannot have several.

        Raises:
            LogLockedError: somebody writes it alone, or by sessions.
            StorageError: the log cannot be used.
        """
        return None

    @abstractmethod
    def has_writer(self) -> bool:
        """Return whether a process writes the log, as far as one can see from outside."""

    @abstractmethod
    def owns(self, path: Path) -> bool:
        """Return whether the path is that of the log, or of a file that belongs to it, whether it is there or not."""

    @abstractmethod
    def owner(self) -> Path | None:
        """Return the log that is there and to which this file would belong by its name, None if there is none."""


class LogFile(LogLocation):
    """A log in a SQLite file, with its lock and the tables that follow it in files beside it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Take the path of the file."""
        self.name = os.fspath(path)
        self.path = self.url = os.path.abspath(self.name)  # noqa: PTH100 - what links point to stays open
        self.title = os.path.basename(self.url)  # noqa: PTH119 - likewise
        self.projections = f"{self.url}.views"
        self.tracing = f"{self.url}.tracing"

    def exists(self) -> bool:
        """Return whether there is a file."""
        return os.path.exists(self.url)  # noqa: PTH110 - a path as it was given

    def lock_streams(self) -> StreamLocks:
        """Begin to write the log beside other processes."""
        resolved = os.path.realpath(self.url)
        with translated(resolved):
            check_file(resolved)
            return FileStreamLocks(resolved)

    def has_writer(self) -> bool:
        """Return whether the lock of the log is held, as its file says."""
        return writer_of(os.path.realpath(self.url)) is not None

    def owns(self, path: Path) -> bool:
        """Return whether the path is that of the log or of a file beside it, whatever names the file has besides."""
        own, given = Path(os.path.realpath(self.url)), Path(os.path.realpath(path))
        if any(one.parent == own.parent and _belongs(own.name, one.name) for one in (given, *given.parents)):
            return True
        return given.exists() and any(one.samefile(given) for one in _there(own))

    def owner(self) -> Path | None:
        """Return the log that has this file as one of its own."""
        given = Path(os.path.realpath(self.url))
        return next((log for one in (given, *given.parents) for log in _owners(one) if log.is_file()), None)


class LogDatabase(LogLocation):
    """A log in a schema of a PostgreSQL database, with the tables that follow it in schemas beside it."""

    def __init__(self, url: str) -> None:
        """Take the URL.

        Raises:
            ConfigurationError: it cannot be read, or the driver is not installed.
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
            StorageError: the server cannot be reached, or the schema is that of something else.
        """
        from reenact.actors.journal.postgres.journal import is_log  # noqa: PLC0415 - the driver is an extra

        return is_log(self.url)

    def lock_streams(self) -> StreamLocks:
        """Begin to write the log beside other processes."""
        from reenact.actors.journal.postgres.locks import PostgresLocks  # noqa: PLC0415 - the driver is an extra

        return PostgresLocks.share(self.url)

    def node(self) -> tuple[Node, StreamLocks]:
        """Begin to write the log as one of its nodes."""
        from reenact.actors.journal.postgres.locks import PostgresLocks  # noqa: PLC0415 - the driver is an extra
        from reenact.actors.sharding.node import Node  # noqa: PLC0415 - likewise

        return Node(self.url), PostgresLocks.share(self.url, as_node=True)

    def has_writer(self) -> bool:
        """Return whether the lock of the log is held, as the server says."""
        from reenact.actors.journal.postgres.locks import writer_of  # noqa: PLC0415 - the driver is an extra

        return writer_of(self.url) is not None

    def owns(self, path: Path) -> bool:
        """Return False: no file belongs to the log."""
        return False

    def owner(self) -> Path | None:
        """Return None: it is not a file."""
        return None


def location_of(log: str | os.PathLike[str], keys: KeyRing | None = None) -> LogLocation:
    """Return the location that a path or URL names, of a log with these keys; one that is given is returned itself.

    Raises:
        ConfigurationError: it names none, what it needs is not installed, or the keys are not a key ring.
    """
    if keys is not None:
        from reenact.actors.journal.key_ring import check_keys  # noqa: PLC0415 - a log without keys does without

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


def _there(own: Path) -> list[Path]:
    """Return the files of the log that are there: one of them may have another name as well."""
    if not own.parent.is_dir():
        return []
    return [one for one in own.parent.iterdir() if _belongs(own.name, one.name)]
