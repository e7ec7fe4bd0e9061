"""Users' projections that follow one log, each on a thread of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Self, TypeAlias

from reenact.domain.plain import LONGEST, check_position, seconds_of
from reenact.projections.errors import ProjectionNotFoundError
from reenact.projections.generations import NAME, ProjectionStatus
from reenact.projections.log import Log, OnProgress
from reenact.projections.rebuilding import FollowingProjection, close_all

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from reenact.projections.views.declared import Projection
    from reenact.projections.views.hosted import UserProjection


TIMEOUT = 30.0

Which: TypeAlias = "str | type[Projection] | Projection"
"""A projection: its name, its class, or the instance."""


class Projections:
    """Projections that follow a log, each on a thread of its own. A context manager; or `close` it.

    An error stops only the projection that raised it: the others continue, and the log is unharmed. Thread-safe.
    """

    def __init__(
        self, log: Log, hosted: Sequence[UserProjection], others: Sequence[FollowingProjection], parts: ExitStack
    ) -> None:
        """Take running projections, and the stack that closes them; `open` creates instances."""
        self._log = log
        self._hosted = {one.name: one for one in hosted}
        self._all: dict[str, FollowingProjection] = {one.name: one for one in (*others, *hosted)}
        self._parts = parts

    @classmethod
    def open(cls, url: str | os.PathLike[str], log: Log, projections: Sequence[Projection]) -> Self:
        """Make the projections follow a log, with tables at a place of their own.

        Args:
            url: a directory for SQLite files, which is created if there is none; or a `postgresql://` URL, whose
                parameter `schema` is the prefix of the tables' schemas (default "reenact"); the URL of a log can be
                used.
            log: the log to follow: the `journal` of an `ActorSystem`, or any other; it is not closed.
            projections: instances of subclasses of `Projection`.

        Raises:
            ConfigurationError: the place is of an unknown kind, or a package that it needs is not installed.
            ProjectionMistakeError: a projection's class is not valid.
            ProjectionsLockedError: another process or runtime keeps the projections in the directory.
            ReadModelError: the place cannot be read or written, or the log cannot be read.
            TypeError: `log` is not a log.
        """
        if not hasattr(log, "read_all"):
            raise TypeError(f"projections follow a log, such as the `journal` of an ActorSystem, and not {log!r:.100}")
        return cls.open_beside(url, log, projections)

    @classmethod
    def open_beside(
        cls,
        url: str | os.PathLike[str],
        log: Log,
        projections: Sequence[Projection],
        others: Sequence[FollowingProjection] = (),
        is_leader: Callable[[], bool] | None = None,
    ) -> Self:
        """Do the same as `open` for a log that has tables already; without projections no place is created.

        Of several processes that maintain the same tables in PostgreSQL, the one whose `is_leader` returns true calls
        the functions; waiters in the others wait for it. None: each does.
        """
        with ExitStack() as undo:
            hosted: Sequence[UserProjection] = ()
            if projections:
                from reenact.projections.views.hosted import host  # noqa: PLC0415 - most have none

                hosted = host(url, log, projections, others, undo, is_leader=is_leader)
            else:
                undo.callback(close_all, others)
            for one in (*others, *hosted):
                one.start()
            return cls(log, hosted, others, undo.pop_all())

    def __enter__(self) -> Self:
        """Return the projections themselves."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close them."""
        self.close()

    def wait_for(
        self, position: int | None = None, timeout: float | None = TIMEOUT, *, of: Which | None = None
    ) -> None:
        """Wait until everything up to a position of the log can be read, in tables of the given versions.

        Args:
            position: the position; None is the present end of the log.
            timeout: in seconds; None is no limit.
            of: the projection; None is all of them.

        Raises:
            InvalidInputError: that is no position, or no time.
            ProjectionFailedError: an event before it cannot be projected.
            ProjectionNotFoundError: there is no such projection here.
            ReadModelBehindError: it takes longer.
            ReadModelError: the log cannot be read, or the tables cannot be written.
            RuntimeClosedError: the projections are closed.
        """
        seconds = seconds_of(timeout)
        deadline = time.monotonic() + (LONGEST if seconds is None else seconds)
        goal = self._log.head() if position is None else position
        check_position("position", goal)
        for one in self._all.values() if of is None else (self._find(of),):
            one.wait_for(goal, max(0.0, deadline - time.monotonic()))

    @contextmanager
    def read(self, projection: Which) -> Generator[Connection]:
        """Yield a connection that reads the projection's tables in one snapshot, unaffected by writes and rebuilds.

        Raises:
            ProjectionNotFoundError: there is no such projection here.
            ProjectionNotReadyError: the tables are of another version and another form, and new ones are being built.
            ReadModelError: they cannot be read.
            RuntimeClosedError: the projections are closed.
        """
        name = _name_of(projection)
        hosted = self._hosted.get(name)
        if hosted is None:
            raise ProjectionNotFoundError(name)
        with hosted.read() as connection:
            yield connection

    def status(self) -> list[ProjectionStatus]:
        """Return the status of each projection."""
        head = self._log.head()
        return [one.status(head) for one in self._all.values()]

    def rebuild(self, projection: Which | None = None, *, progress: OnProgress | None = None) -> None:
        """Rebuild a projection's tables beside the live ones, and replace those atomically.

        Returns when that is done; meanwhile the log can be written and the tables read. A rebuild that was cut short,
        by a crash or by closing, is continued; one that is under way is waited for.

        Args:
            projection: the projection; None is the runtime's own tables.
            progress: called with the progress, on the calling thread.

        Raises:
            ProjectionFailedError: an event cannot be projected; the live tables are unchanged.
            ProjectionNotFoundError: there is no such projection here.
            ReadModelError: the log cannot be read, or the tables cannot be written.
            RuntimeClosedError: the projections are closed, or were meanwhile.
        """
        self._find(NAME if projection is None else projection).rebuild(progress)

    def retry(self, projection: Which) -> None:
        """Continue a projection that has stopped, after its cause was fixed without new code.

        New code requires opening again; if it changes what was written before, with a new `version`.

        Raises:
            ProjectionNotFoundError: there is no such projection here.
        """
        self._find(projection).retry()

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call the callback when this object is closed, before any projection is."""
        self._parts.callback(callback)

    def close(self) -> None:
        """Stop the projections, and close the tables; the rest of the log is projected at the next opening. Idempotent.

        A function that has not returned after a second keeps its thread. It is not called again, and the tables are
        closed when it returns; until then nobody else can write them.
        """
        self._parts.close()

    def _find(self, projection: Which) -> FollowingProjection:
        name = _name_of(projection)
        if name not in self._all:
            raise ProjectionNotFoundError(name)
        return self._all[name]


def _name_of(projection: Which) -> str:
    return projection if isinstance(projection, str) else projection.name
