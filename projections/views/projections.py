"""Users' projections that follow one log, each on its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Self, TypeAlias

from reenact.projections.errors import ProjectionNotFoundError
from reenact.projections.generations import NAME, ProjectionStatus
from reenact.projections.log import Log, OnProgress
from reenact.projections.rebuilding import Followed, close_all

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from reenact.projections.views.declared import Projection
    from reenact.projections.views.hosted import Hosted


TIMEOUT = 30.0

Which: TypeAlias = "str | type[Projection] | Projection"
"""A projection: its name, its class, or itself."""


class Projections:
    """Projections that follow a log, each by itself on a thread of its own. A context manager; or `close` it.

    What one raises stops that one: the others go on, and the log is unharmed. Thread-safe.
    """

    def __init__(self, log: Log, hosted: Sequence[Hosted], others: Sequence[Followed], parts: ExitStack) -> None:
        """Take projections that are running, and what closes them; `open` makes them."""
        self._log = log
        self._hosted = {one.name: one for one in hosted}
        self._all: dict[str, Followed] = {one.name: one for one in (*others, *hosted)}
        self._parts = parts

    @classmethod
    def open(cls, url: str | os.PathLike[str], log: Log, projections: Sequence[Projection]) -> Self:
        """Have the projections follow a log, with tables at a place of their own.

        Args:
            url: a directory for SQLite files, which is made if there is none; or a `postgresql://` URL, in which the
                parameter `schema` says what the schemas of the tables begin with ("reenact" if it does not): that of a
                log does.
            log: what they follow: the `journal` of an `ActorSystem`, or any other; it is not closed.
            projections: instances of subclasses of `Projection`.

        Raises:
            ConfigurationError: there is no such kind of place, or what it needs is not installed.
            ProjectionMistakeError: a projection cannot work as it is written.
            ProjectionsLockedError: somebody else keeps the projections in the directory.
            ReadModelError: the place cannot be read or written, or the log not be read.
            TypeError: what was given is not a log.
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
        others: Sequence[Followed] = (),
        is_keeper: Callable[[], bool] | None = None,
    ) -> Self:
        """Do as `open` does, for a log that has tables already; without projections no place is made.

        Of several processes that keep the same tables in PostgreSQL, the one whose `is_keeper` says so calls the
        functions; whoever waits in the others waits for that. None: each.
        """
        with ExitStack() as undo:
            hosted: Sequence[Hosted] = ()
            if projections:
                from reenact.projections.views.hosted import host  # noqa: PLC0415 - most have none

                hosted = host(url, log, projections, others, undo, is_keeper=is_keeper)
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

    def wait_for(self, position: int | None = None, timeout: float = TIMEOUT, *, of: Which | None = None) -> None:
        """Return once everything up to a position of the log can be read, in tables of the versions that were given.

        Args:
            position: the position; None is where the log ends now.
            timeout: seconds.
            of: the projection; None is all of them.

        Raises:
            ProjectionFailedError: an event before it cannot be projected.
            ProjectionNotFoundError: there is no such projection here.
            ReadModelBehindError: it takes longer.
            ReadModelError: the log cannot be read, or the tables not be written.
            RuntimeClosedError: the projections are closed.
        """
        deadline = time.monotonic() + timeout
        goal = self._log.head() if position is None else position
        for one in self._all.values() if of is None else (self._find(of),):
            one.wait_for(goal, max(0.0, deadline - time.monotonic()))

    @contextmanager
    def read(self, projection: Which) -> Generator[Connection]:
        """Lend a connection that reads the projection's tables: one snapshot, whatever is written or rebuilt meanwhile.

        Raises:
            ProjectionNotFoundError: there is no such projection here.
            ProjectionNotReadyError: the tables are of another version and another form, and new ones are being made.
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
        """Return how each of the projections is."""
        head = self._log.head()
        return [one.status(head) for one in self._all.values()]

    def rebuild(self, projection: Which | None = None, *, progress: OnProgress | None = None) -> None:
        """Make a projection's tables anew beside those that are read, and put them in their place at once.

        Returns when that is done; the log is written and the tables are read meanwhile. A rebuilding that was cut
        short, by a crash or by closing, is gone on with; one that is under way is waited for.

        Args:
            projection: which; None is the runtime's own tables.
            progress: is told how far it has come, on the thread of whoever calls this.

        Raises:
            ProjectionFailedError: an event cannot be projected; the tables are as they were.
            ProjectionNotFoundError: there is no such projection here.
            ReadModelError: the log cannot be read, or the tables not be written.
            RuntimeClosedError: the projections are closed, or were meanwhile.
        """
        self._find(NAME if projection is None else projection).rebuild(progress)

    def retry(self, projection: Which) -> None:
        """Have a projection that has stopped go on where that was: what stopped it was mended, and not by new code.

        New code is given by opening again; if it changes what was written before, with a new `version`.

        Raises:
            ProjectionNotFoundError: there is no such projection here.
        """
        self._find(projection).retry()

    def on_close(self, callback: Callable[[], None]) -> None:
        """Have the callback called when these are closed, before any of them is."""
        self._parts.callback(callback)

    def close(self) -> None:
        """End what runs, and let go of the tables; what was not projected will be at the next opening. Idempotent.

        A function that has not returned a second later is left to its thread. It is not called again, and the tables
        are let go when it returns; until then nobody else can write them.
        """
        self._parts.close()

    def _find(self, projection: Which) -> Followed:
        name = _name_of(projection)
        if name not in self._all:
            raise ProjectionNotFoundError(name)
        return self._all[name]


def _name_of(projection: Which) -> str:
    return projection if isinstance(projection, str) else projection.name
