"""Examines a log in one pass that goes through all names, with everything stored under each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, Protocol, TypeAlias

from reenact.actors.journal.api import Recorded, Snapshot
from reenact.actors.journal.codec import EventCodec, KeyDestroyedError
from reenact.actors.journal.ends import End
from reenact.actors.journal.epoch_order import EpochOrder
from reenact.actors.journal.evidence import Evidence
from reenact.actors.journal.requests import UNDER_WAY
from reenact.actors.journal.seeking import Cells
from reenact.actors.journal.walk import Finding, Kind, StreamWalk, Text, text_of
from reenact.domain.chain import Passed, request_proof
from reenact.domain.errors import LogEncryptedError, LogUnusableError

Deviation: TypeAlias = tuple[Kind, int, str, int | None]
"""Kind, version or cursor, problem, and log position, as in a `Finding` about the stream."""


class Inspection(Protocol):
    """Checks the content of streams, with everything stored under the same name, one after the other."""

    def knows(self, stream: str) -> bool:
        """Return whether it can check the stream, or one that should not exist."""
        ...

    def inspect(
        self,
        stream: str,
        rows: Iterator[Passed[Recorded]],
        snapshots: Iterator[Snapshot],
        due: int | None,
    ) -> Iterator[Deviation]:
        """Yield what does not follow from the events; there may be no rows, and the iterators are read only once.

        The rows end before the first damaged one. `snapshots` are sorted by version. `due` is the time at which the
        stream is to be woken, or None.
        """
        ...


_FORMS: Final[dict[str, tuple[Kind, tuple[tuple[str, type | None], ...]]]] = {
    "requests": ("request", (("id", None), ("digest", bytes), ("note", bytes), ("at", int))),
    "tracking": ("reader", (("application_name", None), ("notification_id", int))),
    "consumers": ("consumer", (("topic", None), ("client_id", None), ("cursor", int), ("seen_at", int))),
}
"""For each table, the kind of its findings, and its columns with their types; None means text."""


def check_beside(evidence: Evidence) -> Iterator[Finding]:
    """Yield the damaged rows of the tables of requests, readers and consumers."""
    for table, (kind, columns) in _FORMS.items():
        for row in evidence.aside(table):
            wrong = [
                name
                for (name, form), cell in zip(columns, row, strict=False)
                if type(cell) is not (form or evidence.text) or (isinstance(cell, int) and cell < 0)
            ]
            key = "/".join(text_of(cell) for (_, form), cell in zip(columns, row, strict=False) if form is None)
            if wrong:
                yield Finding(kind, key, 0, f"the table {table} holds no such row: see {', '.join(wrong)}")
            elif kind == "reader" and key == UNDER_WAY and row[1]:
                yield Finding("log", "", 0, "an import was cut short; import the same export again, and it goes on")
            elif kind == "request" and row[4] != request_proof(*row[:4]):
                yield Finding(kind, key, 0, "the stored answer to the request was changed")
            elif kind == "consumer" and row[2] > (row[4] or 0):
                yield Finding(
                    kind, key, row[2], f"it has acknowledged events beyond the end of the feed, which is {row[4] or 0}"
                )


def check_counts(evidence: Evidence) -> Iterator[Finding]:
    """Yield the first missing position: positions have no gaps, so a removed row leaves one."""
    counts = evidence.counts()
    hole = evidence.first_hole()
    if hole is not None:
        there = f"{counts.events} of {max(counts.last, counts.said)} events are there"
        yield Finding("log", "", hole, f"position {hole} is missing: {there}")
    elif counts.said != counts.last:
        problem = f"the log says that it ends at position {counts.said}, but its last event has position {counts.last}"
        yield Finding("log", "", min(counts.said, counts.last) + 1, problem)


Report: TypeAlias = Callable[[str, int, int | None], None]
"""Called with the phase, the amount done, and the total if it is known."""

_REPORT_MASK = 0x3FFF


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
        """Examine the evidence.

        Args:
            evidence: the log.
            codec: decodes all events that the log may hold, or those of streams that the inspection knows; None: do not
                decode.
            inspection: checks what the events mean.
            ends: earlier ends of streams, sorted by name.
            passed: is called with the end of each stream that is intact.
            report: is called with the progress.
        """
        self.streams = self.events = self.redacted = self.feeds = self.rows = self.forgotten = self.locked = 0
        """Counts; `feeds` are streams with announcements, and `redacted` is the number of redacted events.

        `forgotten` counts the rows whose keys were destroyed, `locked` those that cannot be read without keys.
        """
        self._evidence = evidence
        self._codec = codec
        self._inspection = inspection
        self._ends = ends
        self._on_intact = passed
        self._report = report
        self._epoch_order = EpochOrder(evidence.shards) if evidence.shards else None

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong with the log."""
        evidence = self._evidence
        self._report_progress("file", 0, None)
        for name, fault in evidence.faults():
            yield Finding("file", name, 0, fault)
        for name in evidence.missing():
            yield Finding("log", name, 0, "the table is missing")
        yield from check_counts(evidence)
        yield from self._check_streams()
        if self._epoch_order is not None:
            yield from self._epoch_order.findings()
        self._report_progress("beside", 0, None)
        yield from check_beside(evidence)

    def _report_progress(self, phase: str, done: int, total: int | None) -> None:
        if self._report is not None:
            self._report(phase, done, total)

    def _check_streams(self) -> Iterator[Finding]:
        sources = _Sources(self._evidence, self._count_rows(self._evidence.rows()), self._ends)
        while (name := sources.next()) is not None:
            yield from self._check_stream(name, sources)
            sources.leave(name)
        yield from sources.findings()

    def _count_rows(self, rows: Iterator[Cells]) -> Iterator[Cells]:
        report = self._report
        if report is None:
            return rows

        def counted() -> Iterator[Cells]:
            total = self._evidence.counts().rows
            number = 0
            report("streams", number, total)
            for number, row in enumerate(rows, 1):
                if not number & _REPORT_MASK:
                    report("streams", number, total)
                yield row
            report("streams", number, total)

        return counted()

    def _check_stream(self, name: bytes, sources: _Sources) -> Iterator[Finding]:
        shown, text = text_of(name), self._evidence.text
        inspection, found = self._inspection, list[Finding]()
        is_known = inspection is not None and inspection.knows(shown)
        codec = self._codec if is_known or inspection is None else None
        seen = None if self._epoch_order is None else self._epoch_order.add
        stream = StreamWalk(name, sources.rows.of(name), codec, text=text, seen=seen)
        for _, end in sources.ends.of(name):
            stream.expect(end)
        aside = _SideRecords(name, text, sources, codec)
        if is_known and inspection is not None:
            deviations = inspection.inspect(shown, stream.passing, aside.snapshots, aside.due)
            for kind, at, problem, position in deviations:
                # Damage explains it, and so may a row that cannot be read: it may say what the timer is for.
                if stream.finding is None and not (kind == "timer" and stream.locked):
                    found.append(Finding(kind, shown, at, problem, position))
        finding = stream.check_rest()
        if finding is not None:
            yield finding
        yield from aside.findings(stream, found, is_foreign=inspection is not None and not is_known)
        self.streams += stream.count > 0
        self.events += stream.count
        self.redacted += stream.redacted
        self.forgotten += stream.forgotten
        self.locked += stream.locked
        self.rows += stream.rows
        self.feeds += stream.is_heard_of
        if self._on_intact is not None and stream.end is not None:
            self._on_intact(stream.end)


class _SideRecords:
    """The records of a stream in other tables: its snapshots, and the time at which it is to be woken."""

    def __init__(self, name: bytes, text: type[Text], sources: _Sources, codec: EventCodec | None) -> None:
        self.snapshots = self._snapshots(sources.snapshots.of(name), text)
        self.due: int | None = None
        self._name = text_of(name)
        self._codec = codec
        self._versions: list[int] = []
        self._findings: list[Finding] = []
        for _, due in sources.timers.of(name):
            if type(due) is int:
                self.due = due
            else:
                self._findings.append(Finding("timer", self._name, 0, "no timer of it is due"))

    def findings(self, stream: StreamWalk, found: Sequence[Finding], *, is_foreign: bool) -> Iterator[Finding]:
        """Yield what is wrong with them, after the stream was walked; `found` are the findings of the inspection."""
        for _ in self.snapshots:  # the inspection may have stopped before the last one
            pass
        yield from self._findings
        yield from found
        named = {finding.at for finding in found if finding.kind == "snapshot"}
        if stream.finding is not None:
            return
        for version in self._versions:
            if version not in named and not (stream.count and stream.first <= version <= stream.last):
                yield Finding("snapshot", self._name, version, f"the stream has no version {version}")
        # An actor may wait for a timer before its first event: only an inspection that knows all classes can tell that
        # the stream belongs to none of them.
        if self.due is not None and not stream.count and is_foreign:
            yield Finding("timer", self._name, self.due, "there is no such stream")

    def _snapshots(self, rows: Iterator[Cells], text: type[Text]) -> Iterator[Snapshot]:
        for _, version, topic, state in rows:
            if (type(version), type(topic), type(state)) == (int, text, bytes):
                self._versions.append(version)
                opened = self._opened(version, state)
                if opened is not None:
                    yield Snapshot(self._name, version, text_of(topic), opened)
            else:
                at = version if type(version) is int else 0
                self._findings.append(
                    Finding("snapshot", self._name, at, "the row holds values that no snapshot can have")
                )

    def _opened(self, version: int, state: bytes) -> bytes | None:
        """Return the state decrypted, None if it cannot be read, or was changed, which is then a finding."""
        if self._codec is None:
            return state
        try:
            return self._codec.opened(state)
        except (KeyDestroyedError, LogEncryptedError):
            return None
        except LogUnusableError:
            self._findings.append(Finding("snapshot", self._name, version, "what was encrypted was changed"))
            return None


class _Sources:
    """All sources that are sorted by name, in byte order."""

    def __init__(self, evidence: Evidence, rows: Iterator[Cells], ends: Iterable[End]) -> None:
        text = evidence.text
        self.rows = _Groups(rows, "stream", text)
        self.snapshots = _Groups(evidence.aside("stored_snapshots"), "snapshot", text)
        self.timers = _Groups(evidence.aside("timers"), "timer", text)
        self.ends = _Groups(((end.name.encode(), end) for end in ends), "stream", bytes)
        self._all = (self.rows, self.snapshots, self.timers, self.ends)

    def next(self) -> bytes | None:
        """Return the next name, None if there is none."""
        return min((source.name for source in self._all if source.name is not None), default=None)

    def leave(self, name: bytes) -> None:
        """Move on to the next name."""
        for source in self._all:
            source.leave(name)

    def findings(self) -> Iterator[Finding]:
        """Yield the rows whose name is not text."""
        for source in self._all:
            yield from source.findings


class _Groups:
    """Rows grouped by name, one name at a time."""

    def __init__(self, rows: Iterator[Cells], kind: Kind, text: type) -> None:
        self.name: bytes | None = None
        """The current name."""
        self.findings: list[Finding] = []
        self._groups = groupby(rows, itemgetter(0))
        self._kind: Kind = kind
        self._text = text
        self._rows: Iterator[Cells] = iter(())
        self._advance()

    def of(self, name: bytes) -> Iterator[Cells]:
        """Return the rows of the name, possibly none."""
        return self._rows if name == self.name else iter(())

    def leave(self, name: bytes) -> None:
        """Move on to the next name if this is the current one."""
        if name == self.name:
            self._advance()

    def _advance(self) -> None:
        self.name = None
        for key, rows in self._groups:
            if type(key) is self._text and isinstance(key, bytes | bytearray):
                self.name, self._rows = bytes(key), rows
                return
            self.findings.append(Finding(self._kind, text_of(key), 0, "its name is not text"))
