"""`Audit`: a log opened for reading, while another process may be writing it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Self

from msgspec import UNSET, UnsetType

from reenact._location import LogLocation, location_of
from reenact._runtime import codec
from reenact._transfer import Imported, Place, export_log, import_log, open_export
from reenact._verifying import ActorClasses, Checkpoint, Finding, Verdict, checkpoint_of, verify_log
from reenact.actors.environment.tools.toolbox import ToolRegistry
from reenact.actors.journal.key_ring import KeyRing
from reenact.actors.journal.stored import StoredJournal
from reenact.actors.output import with_spec
from reenact.domain.history.what_if import Otherwise, Ruling
from reenact.domain.image import Image
from reenact.domain.loop.ledger import CostLimit, Price
from reenact.domain.policy.judge import Policies
from reenact.projections.explain.difference import Change, Difference, difference
from reenact.projections.explain.entries import Filter, LogEntry, entries_of, follow
from reenact.projections.explain.history import Moment, moment_of
from reenact.projections.explain.history_view import Shown, shown
from reenact.projections.explain.why import Link, Why, why
from reenact.projections.log import OnProgress
from reenact.projections.read_model.reader_tables import ReaderTables
from reenact.projections.statistics.counting import statistics_of
from reenact.projections.statistics.figures import By, Statistics
from reenact.projections.statistics.selection import Selection, check_selection
from reenact.projections.transfer.exporting import Exported
from reenact.projections.transfer.policy import Redaction, ToolRedaction, read_redaction
from reenact.projections.verification.replay import Parting, Retraced, retrace
from reenact.projections.verification.what_if import Supposed, supposed, what_if

__all__ = [
    "Audit",
    "Change",
    "Checkpoint",
    "Difference",
    "Exported",
    "Filter",
    "Finding",
    "Imported",
    "Link",
    "LogEntry",
    "Moment",
    "Otherwise",
    "Parting",
    "Redaction",
    "Retraced",
    "Ruling",
    "Shown",
    "Statistics",
    "ToolRedaction",
    "Verdict",
    "Why",
    "checkpoint_of",
    "export_log",
    "import_log",
    "open_export",
    "read_redaction",
    "verify_log",
]

_ANY = Filter()
_PATIENCE = 600.0
"""Seconds after which a query on the tables of a very large log is cancelled."""


class Audit:
    """Read access to a log. Use it as a context manager, or `close` it."""

    def __init__(self, log: StoredJournal, location: LogLocation) -> None:
        """Set the open log and its location; the log is closed with the audit."""
        self._log = log
        self._location = location

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, keys: KeyRing | None = None) -> Self:
        """Open the log at a path, or a `sqlite:///` or `postgresql://` URL, for reading, even while it is written.

        Encrypted content is decrypted with the `keys`. Without them, `verify` checks only that it is unchanged,
        `export` copies it encrypted, and methods that need the content raise `LogEncryptedError`.

        Raises:
            ConfigurationError: it names no log, or a package is missing.
            LogTooNewError: a newer version of Reenact has written it.
            LogUnusableError: it is missing, or is not a log, or is damaged.
            StorageError: it cannot be read now.
        """
        location = location_of(path, keys)
        return cls(location.open(codec(), read_only=True), location)

    def __enter__(self) -> Self:
        """Return the audit itself."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close the audit."""
        self.close()

    def at(self, session_id: str, position: int | None = None) -> Moment:
        """Return the session as it was at the position of the log, or now if it is None.

        Raises:
            SessionNotFoundError: there is no such session in the log.
            InvalidInputError: the session begins after the position, or the log ends before it.
        """
        return moment_of(self._log, session_id, at=position)

    def entries(self, wanted: Filter = _ANY, *, backwards: bool = False) -> Iterator[LogEntry]:
        """Yield the matching events, in the order of the log or `backwards`, up to the present end of the log.

        Raises:
            SessionNotFoundError: the lineage of a session is wanted that does not exist.
        """
        return entries_of(self._log, wanted, backwards=backwards)

    def follow(self, wanted: Filter = _ANY, *, interval: float = 0.1) -> Iterator[LogEntry]:
        """Yield the matching events, and then new ones as they are recorded, without end.

        `interval` is the time in seconds between two reads while there are no new events.

        Raises:
            SessionNotFoundError: the lineage of a session is wanted that does not exist.
        """
        return follow(self._log, wanted, pause=lambda: time.sleep(interval))

    def why(self, position: int) -> Why:
        """Return the causes and the consequences of the event at the position, including those in branches.

        Raises:
            InvalidInputError: there is no event at the position.
        """
        return why(self._log, position)

    def show(self, session_id: str, at: int | None = None) -> Shown:
        """Return everything of a session, even a deleted one, as it was at the position, or now if it is None.

        Raises:
            SessionNotFoundError: there is no such session in the log.
            InvalidInputError: the session begins after the position, or the log ends before it.
            LogUnusableError: the log has lost the history from which the session branches off.
        """
        return shown(self._log, session_id, at=at)

    def diff(
        self, left: str, at_left: int | None = None, right: str | None = None, at_right: int | None = None
    ) -> Difference:
        """Return how the right session, by default the same one, differs from the left; a position of None means now.

        Raises:
            SessionNotFoundError: there is no such session in the log.
            InvalidInputError: a session begins after its position, or the log ends before it.
            LogUnusableError: the log has lost the history from which a session branches off.
        """
        return difference(self._log, left, at_left, right, at_right)

    def replay(
        self,
        session_id: str | None = None,
        *,
        policies: Policies | Mapping[str, object] | None = None,
        images: Sequence[Image] = (),
        prices: Mapping[str, Price] | None = None,
        max_steps: int | UnsetType | None = UNSET,
        max_repeats: int | UnsetType | None = UNSET,
        cost_limit: CostLimit | float | UnsetType | None = UNSET,
        progress: OnProgress | None = None,
    ) -> Iterator[Retraced]:
        """Decide each history of the log again, or that of one session, and yield the results up to a difference.

        With any of the other arguments, yield what would be different: each recorded decision about a call, or about
        how a turn goes on, is made again by itself, with the arguments in place of the recorded settings. Only the log
        is read, and nothing is run.

        Args:
            session_id: this session alone.
            policies: these, for all images, as `policies_of` takes them; or `{"images": {ID: …}, "policies": …}`.
            images: these definitions, by their ids; `policies` apply to those that have none of their own.
            prices: the costs of these models; answers of other models keep their costs.
            max_steps: as in `Image`; None means no limit.
            max_repeats: likewise.
            cost_limit: likewise.
            progress: receives progress reports.

        Raises:
            SessionNotFoundError: there is no such session in the log.
            ConfigurationError: an argument is not valid; the message names the place.
        """
        given = supposed(
            policies,
            [with_spec(ToolRegistry().with_specs(image)) for image in images],
            prices,
            max_steps=max_steps,
            max_repeats=max_repeats,
            cost_limit=cost_limit,
        )
        if given == Supposed():
            return retrace(self._log, session_id, progress=progress)
        return what_if(self._log, given, session_id, progress=progress)

    def stats(
        self,
        by: By | None = None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        container_id: str | None = None,
        image_id: str | None = None,
        session_id: str | None = None,
        progress: OnProgress | None = None,
    ) -> Statistics:
        """Return the numbers of turns, answers, calls and approvals, their costs, and their durations.

        The figures come from the tables beside the log, which are at most a second behind while the log is written. If
        there are none, temporary ones are made, which takes a while for a large log.

        Args:
            by: how to group: "day" (of UTC), "model", "image", "tool" or "session"; None: not at all.
            since: only what was recorded from then on.
            until: only what was recorded before.
            container_id: only the sessions in this container.
            image_id: only those of this image.
            session_id: only this one.
            progress: receives progress reports while tables are made.

        Raises:
            ContainerNotFoundError, ImageNotFoundError, SessionNotFoundError: the log has none with this id; a deleted
                session is counted.
            InvalidInputError: a time has no zone, or `by` is something else.
            ProjectionFailedError: the log holds an event that cannot be projected.
            StorageError: the log, or its tables, cannot be read.
        """
        selection = Selection(
            since=since, until=until, container_id=container_id, image_id=image_id, session_id=session_id
        )
        check_selection(self._log, selection)
        place, has_writer = self._location.url, self._location.has_writer
        cipher = self._log.codec.vault
        with ReaderTables(place, self._log, has_writer, seconds=_PATIENCE, progress=progress, cipher=cipher) as tables:
            return statistics_of(tables, by, selection)

    def export(
        self,
        to: Place,
        *,
        sessions: Sequence[str] | None = None,
        redaction: Redaction | None = None,
        feeds: bool = True,
        family: bool = False,
        progress: OnProgress | None = None,
    ) -> Exported:
        """Write the log, or these sessions with all that they depend on, to a file, as `export_log` does."""
        log, keys = self._location.url, self._location.keys
        return export_log(
            log, to, sessions=sessions, redaction=redaction, feeds=feeds, family=family, keys=keys, progress=progress
        )

    def verify(
        self,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: OnProgress | None = None,
        *,
        actors: ActorClasses = (),
    ) -> Verdict:
        """Check everything in the log, as it is now, and the tables beside it, as `verify_log` does.

        Raises:
            CheckpointError: it is not a checkpoint, is damaged, or is that of another log.
            StorageError: the log cannot be read to its end.
        """
        log, keys = self._location.url, self._location.keys
        return verify_log(log, keys=keys, checkpoint=checkpoint, actors=actors, progress=progress)

    def checkpoint(self, to: str | os.PathLike[str], progress: OnProgress | None = None) -> Checkpoint:
        """Write the present ends of all streams and feeds to a file, which is complete or not there.

        Raises:
            ConfigurationError: the file cannot be written.
            StorageError: the log is damaged, or cannot be read to its end.
        """
        return checkpoint_of(self._location.url, to, progress=progress)

    def close(self) -> None:
        """Close the log. Idempotent."""
        self._log.close()
