"""Verifies a log: its hash chain, its events, what subscribers heard, and the read model beside it."""

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
from reenact.domain.errors import ConfigurationError, StorageError
from reenact.domain.legible import harmless
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
"""One of so many events tells whether a log is one of sessions."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to be said of a log at one moment.

    `findings` is empty if nothing is wrong. `position` is that of the last event; `rows` are those of the log, and
    `feeds` the streams of which subscribers have heard. `meaning` says whose events they are: with those of others,
    only what is true of any log was looked at. `redacted` are the events in rows out of which something was taken: they
    may say less than what was recorded. `forgotten` are the rows that can be read by nobody, since their keys were
    destroyed, and `locked` those that cannot be read without keys: of both it is said whether they are as they were
    written, and nothing else. `read_model` says whether the rows beside the log are those that follow from
    it, and `unlike` why that cannot be said; `checkpoint` is the position of the checkpoint that it was held to.
    `begun_later` counts sessions whose feeds do not begin with them, or are not there, as after an import without
    feeds; `kin_missing` counts links between child sessions and their parents of which the log has one side alone, as
    after an export without the family.
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
        """Return it as lines for people: what is wrong, one finding a line, and then what was looked at."""
        lines = [_line(finding) for finding in self.findings]
        count = len(self.findings)
        verdict = "nothing is wrong" if self.is_whole else f"{count:,} finding{'' if count == 1 else 's'}"
        lines.append(f"{verdict}: {self.events:,} events in {self.streams:,} streams, up to position {self.position:,}")
        if self.redacted:
            lines.append(f"redacted: {self.redacted:,} of the events; something was taken out of them")
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
        return "\n".join(map(harmless, lines))  # whoever has changed the log may have written names into it


def verify_log(
    log: Log,
    *,
    keys: KeyRing | None = None,
    checkpoint: Log | None = None,
    actors: ActorClasses = (),
    progress: OnProgress | None = None,
    found: Callable[[Finding], None] | None = None,
) -> Verdict:
    """Look at everything in the log, as it stands now, and at the tables beside it; nothing is changed.

    Args:
        log: a file, a `sqlite:///` URL or a `postgresql://` URL.
        keys: decrypt what is encrypted; without them nothing is said of what it means.
        checkpoint: a file that `write_checkpoint_of` has written of this log.
        actors: classes of actors of your own, whose streams are replayed; the events of each must be in their tables.
        progress: told of progress, by phase.
        found: told of each finding at once.

    Raises:
        ConfigurationError: the URL cannot be read, or what it needs is not installed.
        CheckpointError: the checkpoint is none, is damaged, or is that of another log.
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
        # Before the log, which must know everything that the tables do.
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
        if meaning == "sessions":
            if isinstance(live, LiveTables) and examination.locked:
                live.unlike = "the log is encrypted; give its keys"
            read_model = _compare(live, EvidenceLog(evidence, codec(vault)), bool(findings), report, take)
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
            unlike=live.unlike if isinstance(live, LiveTables) and meaning == "sessions" else None,
        )


def checkpoint_of(log: Log, to: Log | Callable[[bytes], object], *, progress: OnProgress | None = None) -> Checkpoint:
    """Write where every stream and feed of the log ends now, to a file that is there whole or not at all.

    A function is given it line by line.

    Raises:
        ConfigurationError: the URL cannot be read, what it needs is not installed, or the file cannot be written.
        LogUnusableError: the log is damaged: there is nothing that one could hold it to later.
        StorageError: the log cannot be read to its end.
    """
    location = location_of(log)
    with ExitStack() as parts:
        evidence = parts.enter_context(evidence_of(location.url))
        write = to if callable(to) else parts.enter_context(replacing(_beside(location, Path(to)))).write
        return write_checkpoint(evidence, write, made_at=microseconds(), report=_reporting(progress))


def _reporting(progress: OnProgress | None) -> _Report | None:
    return None if progress is None else lambda phase, done, total: progress(Progress(phase, done, total))


def _line(finding: Finding) -> str:
    name = f" {finding.name}" if finding.name else ""
    place = "" if finding.position is None else f" (position {finding.position:,})"
    return f"{finding.kind}{name} at {finding.at:,}{place}: {finding.problem}"


def _beside(location: LogLocation, to: Path) -> Path:
    """Return the path of a file that is none of the log's own."""
    if location.owns(to):
        raise ConfigurationError(f"{to} is the log, or a file that belongs to it; name another for the checkpoint")
    return to


def _who_knows(
    evidence: Evidence, actors: ActorClasses, vault: Vault | None
) -> tuple[Literal["sessions", "actors", "unknown"], EventCodec | None, Inspection | None]:
    """Return whose events the log holds, and who decodes and who replays them."""
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
    live: LiveTables | Compared | None,
    log: EvidenceLog,
    is_damaged: bool,  # noqa: FBT001 - a value, no switch
    report: _Report | None,
    take: Callable[[Finding], None],
) -> Compared:
    if not isinstance(live, LiveTables):
        return live or "not there"
    verdict: Compared = "agrees"
    try:
        live.look_behind(log)
        if live.unlike is not None:
            return "not comparable"
        told = None if report is None else partial(report, "read model")
        for table, at, problem in live.differences(log, told, log.codec.vault):
            verdict = "differs"
            take(Finding("read model", table, at, problem))
    except (StorageError, ReadModelError) as error:
        if is_damaged:  # then it is no wonder, and has been said
            return "not comparable"
        take(Finding("read model", "", live.position, f"the rows cannot be made anew from the log: {error}"))
        return "differs"
    return verdict
