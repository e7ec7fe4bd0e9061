"""Verifies a log: its hash chain, its events, the events that subscribers received, and its read model."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from reenact._files import replacing
from reenact._location import LogLocation, location_of
from reenact._runtime import codec
from reenact.actors.journal.checkpoint import Checkpoint, CheckpointFile, write_checkpoint
from reenact.actors.journal.codec import EventCodec
from reenact.actors.journal.evidence import Evidence, EvidenceLog
from reenact.actors.journal.examination import Examination, Inspection
from reenact.actors.journal.key_ring import KeyRing
from reenact.actors.journal.vault import Vault
from reenact.actors.journal.verify import evidence_of
from reenact.actors.journal.walk import Finding
from reenact.actors.kernel.inspection import ActorsInspection
from reenact.actors.kernel.persistent import AnyActor
from reenact.actors.kernel.timetable import microseconds
from reenact.domain.errors import StorageError
from reenact.domain.legible import display_safe
from reenact.projections.errors import ReadModelError
from reenact.projections.log import OnProgress, Progress
from reenact.projections.verification.feed_check import Conversations
from reenact.projections.verification.read_model_check import LiveTables, live_tables

Log: TypeAlias = str | os.PathLike[str]
ActorClasses: TypeAlias = Sequence[type[AnyActor]]
Compared: TypeAlias = Literal["agrees", "differs", "not there", "not comparable"]

__all__ = ["ActorClasses", "Checkpoint", "Finding", "Verdict", "checkpoint_of", "verify_log"]

_Report: TypeAlias = Callable[[str, int, int | None], None]
_FIRST = 1000
"""The number of first events that decide whether the log is one of sessions: one of them must be known."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result of verifying a log.

    `findings` is empty if nothing is wrong. `position` is that of the last event; `rows` counts the rows of the log,
    and `feeds` the streams whose events subscribers have received. `meaning` says whose events they are: of other
    actors' events, only the rules for any log were checked. `redacted` counts events in rows that an export with a
    redaction has changed: content may be missing, or they were encrypted. `forgotten` counts rows that no one can read,
    since their keys were destroyed, and `locked` rows that cannot be read without keys: both are only checked to be
    unchanged. `read_model` says whether the rows beside the log are those that follow from it, and `unlike` why that
    cannot be determined; `checkpoint` is the position of the checkpoint that the log was compared with. `begun_later`
    counts sessions whose feed begins later than the session or is missing, as after an import without feeds;
    `kin_missing` counts links between child sessions and their parents of which only one side is in the log, as after
    an export without the family.
    """

    findings: tuple[Finding, ...]
    position: int
    streams: int
    events: int
    feeds: int
    rows: int
    meaning: Literal["sessions", "actors", "unknown"]
    read_model: Compared
    checkpoint: int | None = None
    redacted: int = 0
    forgotten: int = 0
    locked: int = 0
    unlike: str | None = None
    begun_later: int = 0
    kin_missing: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def text(self) -> str:
        """Return the verdict as text for people: one finding on each line, and then what was checked."""
        lines = [_line(finding) for finding in self.findings]
        count = len(self.findings)
        verdict = "nothing is wrong" if self.is_whole else f"{count:,} finding{'' if count == 1 else 's'}"
        lines.append(f"{verdict}: {self.events:,} events in {self.streams:,} streams, up to position {self.position:,}")
        if self.redacted:
            lines.append(f"redacted: {self.redacted:,} of the events; something was taken out, or decrypted")
        if self.forgotten:
            lines.append(f"forgotten: {self.forgotten:,} rows can be read by nobody; their keys were destroyed")
        if self.locked:
            lines.append(f"encrypted: {self.locked:,} rows; what they say was not looked at without their keys")
        later = f", and of {self.begun_later:,} sessions later, or not at all" if self.begun_later else ""
        feeds = f"{self.feeds:,} {'stream' if self.feeds == 1 else 'streams'}"
        lines.append(f"log: {self.rows:,} rows; subscribers heard of {feeds}{later}")
        if self.kin_missing:
            lines.append(f"families: {self.kin_missing:,} links lead to sessions that are not in the log")
        if self.checkpoint is not None:
            lines.append(f"checkpoint: of position {self.checkpoint:,}")
        if self.meaning == "unknown":
            lines.append("events: those of other actors; what they say was not looked at")
        else:
            lines.append(f"read model: {self.read_model}{f': {self.unlike}' if self.unlike else ''}")
        return "\n".join(map(display_safe, lines))  # a manipulated log may hold control characters in names


def verify_log(
    log: Log,
    *,
    keys: KeyRing | None = None,
    checkpoint: Log | None = None,
    actors: ActorClasses = (),
    progress: OnProgress | None = None,
    found: Callable[[Finding], None] | None = None,
) -> Verdict:
    """Check everything in the log, as it is now, and the tables beside it; nothing is changed.

    Args:
        log: a file, a `sqlite:///` URL or a `postgresql://` URL.
        keys: decrypt what is encrypted; without them the meaning of encrypted events is not checked.
        checkpoint: a file that `write_checkpoint_of` has written of this log.
        actors: classes of actors of your own, whose streams are replayed; the events of each must be in their tables.
        progress: receives progress reports, by phase.
        found: receives each finding at once.

    Raises:
        ConfigurationError: the URL cannot be parsed, or a package is missing.
        CheckpointError: it is not a checkpoint, is damaged, or is that of another log.
        StorageError: the log cannot be read to its end.
    """
    known = None if checkpoint is None else CheckpointFile(Path(checkpoint))
    findings: list[Finding] = []

    def take(finding: Finding) -> None:
        findings.append(finding)
        if found is not None:
            found(finding)

    report = _reporting(progress)
    location = location_of(log, keys)

    with ExitStack() as parts:
        # Opened before the log, which then holds all events that the tables do.
        live = _live_tables(parts, location, take)
        evidence = parts.enter_context(evidence_of(location.url))
        if known is not None:
            known.must_be_of(evidence)
        vault = Vault(location.keys, evidence.select, name=location.name) if evidence.is_encrypted else None
        meaning, events, inspection = _who_knows(evidence, actors, vault)
        examination = Examination(
            evidence,
            codec=events,
            inspection=inspection,
            ends=() if known is None else known.ends(),
            report=report,
        )
        for finding in examination.findings():
            take(finding)
        read_model: Compared = "not there"
        unlike = None
        if meaning == "sessions":
            if isinstance(live, LiveTables):
                if examination.locked:
                    live.unlike = "the log is encrypted; give its keys"
                read_model = _compare(live, EvidenceLog(evidence, codec(vault)), bool(findings), report, take)
                unlike = live.unlike
            else:
                read_model = live
        return Verdict(
            findings=tuple(findings),
            position=evidence.counts().last,
            streams=examination.streams,
            events=examination.events,
            feeds=examination.feeds,
            rows=examination.rows,
            meaning=meaning,
            read_model=read_model,
            checkpoint=None if known is None else known.summary.position,
            redacted=examination.redacted,
            forgotten=examination.forgotten,
            locked=examination.locked,
            begun_later=inspection.begun_later if isinstance(inspection, Conversations) else 0,
            kin_missing=inspection.kin_missing if isinstance(inspection, Conversations) else 0,
            unlike=unlike,
        )


def checkpoint_of(log: Log, to: Log | Callable[[bytes], object], *, progress: OnProgress | None = None) -> Checkpoint:
    """Write the present ends of all streams and feeds of the log to a file, which is complete or not there.

    If `to` is a function, it receives the lines instead.

    Raises:
        ConfigurationError: the URL cannot be parsed, a package is missing, or the file cannot be written.
        LogUnusableError: the log is damaged, so it cannot be compared with a checkpoint later.
        StorageError: the log cannot be read to its end.
    """
    location = location_of(log)
    with ExitStack() as parts:
        evidence = parts.enter_context(evidence_of(location.url))
        if callable(to):
            write = to
        else:
            path = location.outside(Path(to), "name another for the checkpoint")
            write = parts.enter_context(replacing(path)).write
        return write_checkpoint(evidence, write, made_at=microseconds(), report=_reporting(progress))


def _reporting(progress: OnProgress | None) -> _Report | None:
    return None if progress is None else lambda phase, done, total: progress(Progress(phase, done, total))


def _line(finding: Finding) -> str:
    name = f" {finding.name}" if finding.name else ""
    place = "" if finding.position is None else f" (position {finding.position:,})"
    return f"{finding.kind}{name} at {finding.at:,}{place}: {finding.problem}"


def _who_knows(
    evidence: Evidence, actors: ActorClasses, vault: Vault | None
) -> tuple[Literal["sessions", "actors", "unknown"], EventCodec | None, Inspection | None]:
    """Return whose events the log holds, the codec for them, and the inspection that replays them."""
    if actors:
        of_actors = ActorsInspection(actors, microseconds(), lambda codec: EvidenceLog(evidence, codec))
        of_actors.codec.vault = vault
        return "actors", of_actors.codec, of_actors
    ours = codec(vault)
    log = EvidenceLog(evidence, ours)
    if evidence.counts().events and not any(map(ours.knows, log.topics(_FIRST))):
        return "unknown", None, None
    return "sessions", ours, Conversations(log)


def _live_tables(parts: ExitStack, location: LogLocation, take: Callable[[Finding], None]) -> LiveTables | Compared:
    try:
        return parts.enter_context(live_tables(location.url)) or "not there"
    except ReadModelError as error:
        take(Finding("read model", "", 0, str(error)))
        return "differs"


def _compare(
    live: LiveTables,
    log: EvidenceLog,
    is_damaged: bool,  # noqa: FBT001 - a value, not a switch
    report: _Report | None,
    take: Callable[[Finding], None],
) -> Compared:
    verdict: Compared = "agrees"
    try:
        live.check_forgotten(log)
        if live.unlike is not None:
            return "not comparable"
        told = None if report is None else partial(report, "read model")
        for table, at, problem in live.differences(log, told, log.codec.vault):
            verdict = "differs"
            take(Finding("read model", table, at, problem))
    except (StorageError, ReadModelError) as error:
        if is_damaged:  # a consequence of the damage that was reported
            return "not comparable"
        take(Finding("read model", "", live.position, f"the rows cannot be made anew from the log: {error}"))
        return "differs"
    return verdict
