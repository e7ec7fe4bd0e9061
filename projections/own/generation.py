"""One generation of a projection's tables, brought up to the log batch by batch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, NoResultFound

from reenact.domain.errors import RuntimeClosedError, StorageError
from reenact.projections.errors import ProjectionFailedError, ProjectionReplacedError, ReadModelError, in_words
from reenact.projections.log import Log, Row
from reenact.projections.own import kept
from reenact.projections.own.declared import Functions, Projection, functions_of, shape_of
from reenact.projections.own.guard import CommittedError, EndedError, EscapedError, as_one, check_open
from reenact.projections.own.kept import Kept
from reenact.projections.own.place import Place, Replaced, is_damage, is_passing, trouble
from reenact.projections.projection import MOMENT
from reenact.projections.status import failure_of

BATCH: Final = 500
"""So many events are one transaction."""


class Generation:
    """The tables and how far they are. Used by one thread at a time."""

    def __init__(
        self,
        projection: Projection,
        place: Place,
        log: Log,
        number: int,
        is_closing: Callable[[], bool] = lambda: False,
    ) -> None:
        """Take the tables where they are; `is_closing` says when no further event is to be taken up.

        Raises:
            ReadModelError: they cannot be read.
        """
        self._projection = projection
        self._name = projection.name
        self._functions: Functions = functions_of(projection)
        self._place = place
        self._log = log
        self._is_closing = is_closing
        self._tables = place.tables(self._name, number)
        self.number = number
        self.position = look_at(place, self._name, number).position

    def advance(self, limit: int | None = None) -> bool:
        """Apply up to `limit` further events of the log, a batch of them if it is None; return whether there were any.

        There may be fewer, if they take long. One function that does not return is waited for.

        Raises:
            ProjectionFailedError: an event cannot be projected; all before it are.
            ProjectionReplacedError: another process has put another version in place.
            ReadModelError: the log could not be read, or the tables not be written; it may work the next time.
            RuntimeClosedError: the projections are closed.
        """
        self._refuse_if_closing()
        try:
            rows = self._log.read_all(after=self.position, limit=BATCH if limit is None else limit)
        except StorageError as error:
            raise ReadModelError(f"the log cannot be read: {error}") from error
        if not rows:
            return False
        try:
            self._apply(rows)
        except ReadModelError:
            raise
        except Exception:  # noqa: BLE001 - any fault of a function: one by one, to find the event that it is about
            self._apply_singly(rows)
        return True

    def close(self, *, intact: bool) -> None:
        """Let go of the tables. Idempotent."""
        self._tables.close()

    def take_over(self) -> None:
        """Be what is read from now on, after a crash too.

        Raises:
            ReadModelError: it cannot be noted down.
        """
        self._place.point_to(self._name, self.number)

    def discard(self) -> None:
        """Let go of the tables, and delete them. Idempotent."""
        self._tables.close()
        self._place.drop(self._name, self.number, by_force=True)

    def _apply_singly(self, rows: Sequence[Row]) -> None:
        for row in rows:
            if row.position <= self.position:
                continue  # another process has come to it meanwhile
            self._refuse_if_closing()
            try:
                self._apply([row])
            except ReadModelError:
                raise
            except Exception as error:
                raise self._failed(row, error) from error

    def _apply(self, rows: Sequence[Row]) -> None:
        row = rows[-1]
        until = time.monotonic() + MOMENT
        try:
            with self._tables.writing() as connection:
                is_ours = kept.move(connection, self.position, rows[-1])
                if is_ours:
                    with as_one(connection):
                        for row in rows:
                            self._call_functions(connection, row)
                            if time.monotonic() >= until or self._is_closing():
                                break
                    if not kept.move(connection, rows[-1].position, row):
                        raise EndedError("a function has written to the table that says how far the others are")
        except Replaced:
            self._follow()
        except CommittedError as error:
            raise self._failed(row, error) from error
        except DBAPIError as error:
            if is_damage(error):
                self._place.suspect(self._name, self.number)
            if is_passing(error):
                raise trouble(error) from error
            raise
        else:
            self.position = row.position if is_ours else look_at(self._place, self._name, self.number).position

    def _call_functions(self, connection: Connection, row: Row) -> None:
        for function in self._functions.get(type(row.event), ()):
            try:
                function(connection, row.event, row)
            except Exception:
                raise
            except BaseException as error:
                # It is a person's who waits for a rebuilding; on any other thread only a function can have raised it.
                if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                    raise
                raise EscapedError(error) from error
            check_open(connection)

    def _follow(self) -> None:
        """Go on with the generation that another process has put in place."""
        number = self._place.live(self._name) or self.number
        found = look_at(self._place, self._name, number)
        if (found.version, found.shape) != (self._projection.version, shape_of(self._projection, self._place.dialect)):
            raise ProjectionReplacedError(self._name)
        self._tables.close()
        self._tables = self._place.tables(self._name, number)
        self.number, self.position = number, found.position

    def _failed(self, row: Row, error: Exception) -> ProjectionFailedError:
        cause: BaseException | None = error
        if isinstance(error, DBAPIError):
            cause = error.orig
        elif isinstance(error, EscapedError):
            cause = error.escaped
        reason = in_words(cause or error)
        failed = ProjectionFailedError(row.position, row.stream, type(row.event).__name__, reason, self._name)
        failure = failure_of(failed)
        assert failure is not None
        # It is for those who look from outside; that it cannot be noted is a lesser trouble.
        with suppress(DBAPIError, RuntimeError, Replaced), self._tables.writing() as connection:
            kept.note(connection, failure)
        return failed

    def _refuse_if_closing(self) -> None:
        if self._is_closing():
            raise RuntimeClosedError("the projections are closed; open them again to go on")


def look_at(place: Place, name: str, number: int) -> Kept:
    """Return how far a generation is.

    Raises:
        ReadModelError: it cannot be read.
    """
    try:
        with place.looking(name, number) as connection:
            return kept.look(connection)
    except DBAPIError as error:
        raise trouble(error) from error
    except NoResultFound as error:
        raise ReadModelError(f"nobody has finished making the tables of {name!r}") from error
