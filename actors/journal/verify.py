"""Is the log what was once written? Everything in it is walked once, and what is not as written is named."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, TypeAlias

from reenact.actors.journal.api import Snapshot
from reenact.actors.journal.beside import check_beside, check_counts, check_faults, check_tables
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.ends import End
from reenact.actors.journal.evidence import Cells, Evidence, sqlite_evidence
from reenact.actors.journal.faults import translated
from reenact.actors.journal.inspection import Inspection
from reenact.actors.journal.opening import is_postgres
from reenact.actors.journal.postgres.driver import require_driver
from reenact.actors.journal.sqlite_reader import connect_to_read
from reenact.actors.journal.walk import FeedWalk, Finding, Kind, StreamWalk, text_of

__all__ = ["Examination", "Finding", "evidence_of", "verify"]

Report: TypeAlias = Callable[[str, int, int | None], None]
"""Told of the phase, and how much of how much of it is done."""

_STEP: Final = 0x3FFF


def verify(log: sqlite3.Connection | str | os.PathLike[str]) -> list[Finding]:
    """Return what is wrong with the log, which is read in one pass and in bounded memory; nothing is repaired.

    The log is a file, an open connection to it, or the URL of one in PostgreSQL. Of each stream, and of each feed, the
    first record is named that is not as it was written. What events say is not looked at.

    Raises:
        ConfigurationError: the URL cannot be read, or what it needs is not installed.
        StorageError: the log cannot be read to its end.
    """
    if isinstance(log, sqlite3.Connection):
        with sqlite_evidence(log) as evidence:
            return list(Examination(evidence).findings())
    with evidence_of(log) as evidence:
        return list(Examination(evidence).findings())


@contextmanager
def evidence_of(log: str | os.PathLike[str]) -> Generator[Evidence]:
    """Open the log in a file, or at a PostgreSQL URL, for reading, and give it as it stands from then on.

    Raises:
        ConfigurationError: the URL cannot be read, or what it needs is not installed.
        StorageError: the log cannot be opened; likewise what is raised while it is read.
    """
    if is_postgres(log):
        require_driver()
        from reenact.actors.journal.postgres.evidence import postgres_evidence  # noqa: PLC0415 - an extra

        with postgres_evidence(os.fspath(log)) as evidence:
            yield evidence
        return
    path = os.path.realpath(log)
    with translated(path), closing(connect_to_read(path)) as connection, sqlite_evidence(connection) as evidence:
        yield evidence


class Examination:
    """One pass over a log."""

    def __init__(
        self,
        evidence: Evidence,
        *,
        codec: EventCodec | None = None,
        inspection: Inspection | None = None,
        ends: Iterable[End] = (),
        passed: Callable[[End], None] | None = None,
        report: Report | None = None,
    ) -> None:
        """Look at the evidence.

        Args:
            evidence: the log.
            codec: all events that the log may hold; None: whatever they are.
            inspection: what knows what they mean.
            ends: where streams and feeds once ended, by their names.
            passed: is told where each stream and feed ends, if nothing is wrong with it.
            report: is told of progress.
        """
        self.streams = self.events = self.feeds = self.rows = 0
        """How many there were; rows are those of feeds."""
        self._evidence = evidence
        self._codec = codec
        self._inspection = inspection
        self._ends = ends
        self._passed = passed
        self._report = report

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong."""
        evidence = self._evidence
        self._say("file", 0, None)
        yield from check_faults(evidence)
        yield from check_tables(evidence)
        yield from check_counts(evidence)
        yield from self._subjects()
        self._say("beside", 0, None)
        yield from check_beside(evidence)

    def _say(self, phase: str, done: int, total: int | None) -> None:
        if self._report is not None:
            self._report(phase, done, total)

    def _subjects(self) -> Iterator[Finding]:
        """Take everything of one name together, one name after the other."""
        evidence, text = self._evidence, self._evidence.text
        events = _Groups(self._counted(evidence.events()), "stream", text)
        feed = _Groups(evidence.feed(), "feed", text)
        snapshots = _Groups(evidence.aside("stored_snapshots"), "snapshot", text)
        timers = _Groups(evidence.aside("timers"), "timer", text)
        seals = _Groups(evidence.aside("redactions"), "stream", text)
        ends = _Groups(((end.name.encode(), end) for end in self._ends), "stream", bytes)
        sources = (events, feed, snapshots, timers, seals, ends)
        while names := [source.name for source in sources if source.name is not None]:
            name = min(names)
            end: End | None = next((row[1] for row in ends.of(name)), None)
            yield from self._subject(name, events, feed, snapshots, timers, end)
            for source in sources:
                source.leave(name)
        for source in sources:
            yield from source.findings

    def _counted(self, rows: Iterator[Any]) -> Iterator[Any]:
        report = self._report
        if report is None:
            return rows

        def counted() -> Iterator[Any]:
            total = self._evidence.counts().events
            report("streams", 0, total)
            number = 0
            for number, row in enumerate(rows, 1):
                if not number & _STEP:
                    report("streams", number, total)
                yield row
            report("streams", number, total)

        return counted()

    def _subject(
        self, name: bytes, events: _Groups, feed: _Groups, snapshots: _Groups, timers: _Groups, end: End | None
    ) -> Iterator[Finding]:
        inspection, text = self._inspection, self._evidence.text
        shown = text_of(name)
        is_known = inspection is not None and inspection.knows(shown)
        decode = None if self._codec is None else self._codec.decode
        stream = StreamWalk(text(name), events.of(name), decode)
        topic = FeedWalk(text(name), feed.of(name))
        if end is not None:
            if end.stream is not None:
                stream.expect(end.stream)
            if end.feed is not None:
                topic.expect(end.feed)
        found: list[Finding] = []
        taken: list[int] = []
        due, wrong = _due_of(shown, timers.of(name))
        found += wrong
        kept = _snapshots_of(shown, snapshots.of(name), text, found, taken)
        if is_known and inspection is not None:
            for kind, at, problem, position in inspection.inspect(shown, stream.events, topic.rows, kept, due):
                if stream.finding is None and topic.finding is None:
                    found.append(Finding(kind, shown, at, problem, position))
        of_stream, of_topic = stream.pass_by(), topic.pass_by()
        for _ in kept:
            pass
        yield from (finding for finding in (of_stream, of_topic) if finding is not None)
        if of_stream is None:
            found += (
                Finding("snapshot", shown, version, f"the stream has no version {version}")
                for version in taken
                if not (stream.count and stream.first <= version <= stream.last)
            )
            if due is not None and not stream.count and not is_known:
                found.append(Finding("timer", shown, due, "there is no such stream"))
        yield from found
        self.streams += stream.count > 0
        self.events += stream.count
        self.feeds += topic.count > 0
        self.rows += topic.count
        if self._passed is not None and (stream.count or topic.count) and not (of_stream or of_topic):
            self._passed(End(shown, stream.end if stream.count else None, topic.end if topic.count else None))


class _Groups:
    """Rows that come by their names, one name at a time."""

    def __init__(self, rows: Iterator[Any], kind: Kind, text: type) -> None:
        self.name: bytes | None = None
        """The name that is next."""
        self.findings: list[Finding] = []
        self._groups = groupby(rows, itemgetter(0))
        self._kind: Kind = kind
        self._text = text
        self._rows: Iterator[Any] = iter(())
        self._advance()

    def of(self, name: bytes) -> Iterator[Any]:
        """Return the rows of the name, of which there may be none."""
        return self._rows if name == self.name else iter(())

    def leave(self, name: bytes) -> None:
        """Go on behind the name, if that is where it is."""
        if name == self.name:
            self._advance()

    def _advance(self) -> None:
        self.name = None
        for key, rows in self._groups:
            if type(key) is self._text:
                self.name, self._rows = bytes(key), rows
                return
            self.findings.append(Finding(self._kind, text_of(key), 0, "its name is no text"))


def _due_of(name: str, rows: Iterator[Cells]) -> tuple[int | None, list[Finding]]:
    for _, due in rows:
        if type(due) is int:
            return due, []
        return None, [Finding("timer", name, 0, "it is to be woken at no time")]
    return None, []


def _snapshots_of(
    name: str, rows: Iterator[Cells], text: type, found: list[Finding], taken: list[int]
) -> Iterator[Snapshot]:
    for _, version, topic, state in rows:
        if (type(version), type(topic), type(state)) == (int, text, bytes):
            taken.append(version)
            yield Snapshot(name, version, text_of(topic), state)
        else:
            at = version if type(version) is int else 0
            found.append(Finding("snapshot", name, at, "the row holds what no snapshot holds"))
