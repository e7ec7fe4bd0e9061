"""The page about the log's integrity, and the seals of all pages: how much of the log has been verified.

The page has the findings in the chain, and where the present code decides differently.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from reenact.actors.journal.walk import Finding
from reenact.domain.errors import ReenactError
from reenact.inspector.decision_marks import KEPT, DecisionMark
from reenact.inspector.marks import CheckResults, Marks
from reenact.inspector.rendering import Address, Page
from reenact.inspector.source import Source
from reenact.inspector.text import count
from reenact.projections.explain.entries import session_of

Kind: TypeAlias = Literal["good", "bad", "busy"]
ALONE = "/marks"
"""The path of the seals alone, for a page that has been open for a while; `path` is that of the page."""
_OF_SESSION = frozenset({"/session", "/state"})


class Seal(msgspec.Struct, frozen=True):
    """The content of a seal: an icon, a few words, more words for wide pages, and an explanation."""

    kind: Kind
    icon: str
    label: str
    explanation: str
    more: str = ""


class Seals(msgspec.Struct, frozen=True):
    """The seals of a page that shows the log up to `head`."""

    chain: Seal
    decisions: Seal
    verified: int
    """The position up to which the shown rows are verified; on a page of no session, up to which all rows are."""


def chain(source: Source, address: Address) -> Page:
    """Return the page of the findings."""
    known = source.marks.now()
    findings = [(finding, _place(finding, address)) for finding in known.chain.findings]
    return Page("chain.html", {"known": known, "findings": findings, "head": source.log.head()})


def seals_of(source: Source, address: Address) -> Seals:
    """Return the seals of the page at the address, which was made before this."""
    known = source.marks.now()
    path = address.query.get("path") if address.path == ALONE else address.path
    session = address.query.get("id") if path in _OF_SESSION else None
    try:
        head = source.log.head()
    except ReenactError as error:  # the page shows the error as well
        known, head = msgspec.structs.replace(known, problem=str(error)), known.chain.position
    decisions = _decisions(known, head) if not session else _of_session(source.marks, session, head)
    verified = known.chain.verified_up_to(f"session/{session}") if session else known.chain.position
    return Seals(_chain(known, head), decisions, verified)


def _place(finding: Finding, address: Address) -> str:
    """Return the address of the finding's place, or "" if it is not in a session."""
    session_id = session_of(finding.name)
    return address.to("/session", id=session_id, at=finding.position) if session_id else ""


def _chain(known: CheckResults, head: int) -> Seal:
    mark = known.chain
    if mark.findings:
        at = mark.findings[0].position
        label = "Changed afterwards" if at is None else f"Changed at {count(at)}"
        return Seal("bad", "warn", label, "the log is not as it was written; see what was found")
    if known.problem:
        return Seal("bad", "warn", f"Not looked at behind {count(mark.position)}", known.problem)
    if mark.ended is None or mark.began is None:
        label = f"verified up to {count(mark.position)} of {count(head)}"
        return Seal("busy", "chain", label, "the rest is being looked at")
    time = _clock(mark.ended)
    explanation = f"every event carries a digest of itself and of the one before; all of them agreed at {time}"
    if mark.position < head:
        return Seal("busy", "chain", f"whole up to {count(mark.position)} of {count(head)}", explanation, "Chain ")
    return Seal("good", "chain", f"whole up to {count(mark.position)}", explanation, "Chain ")


def _decisions(known: CheckResults, head: int) -> Seal:
    mark: DecisionMark = known.decisions
    if mark.parted:
        label = f"{count(len(mark.parted))} decided otherwise"
        return Seal("bad", "replay", label, "today's code parts from what was recorded; see where")
    if mark.problem:
        return Seal("busy", "replay", "Not decided anew", mark.problem)
    of = f"{count(mark.same)} of {count(mark.known)}"
    if not mark.is_all or known.chain.position < head or known.chain.ended is None:
        return Seal("busy", "replay", f"Decided anew: {of}", "sessions are decided anew, the newest first")
    which = f"the newest {count(KEPT)} sessions" if mark.known >= KEPT else "all sessions"
    explanation = f"today's code decides the recorded steps of {which} as they were recorded, up to {count(head)}"
    if mark.forgotten:
        explanation += f", but for {count(mark.forgotten)} that were forgotten"
    return Seal("good", "replay", "Decides the same", explanation, f", {of}")


def _of_session(marks: Marks, session_id: str, head: int) -> Seal:
    mark, problem = marks.session(session_id), marks.now().decisions.problem
    if mark is None and problem:
        return Seal("busy", "replay", "Not decided anew", problem)
    if mark is None:
        return Seal("busy", "replay", "Not decided anew yet", "this session is decided anew next")
    if mark.forgotten:
        return Seal("busy", "replay", "Not decided anew", "this session was forgotten: nobody can read what it decided")
    explanation = f"{count(mark.steps)} recorded steps were decided anew at {_clock(mark.at)}"
    if mark.undecided:
        explanation += f"; {count(mark.undecided)} could not be, since something was taken out of what they follow from"
    if mark.parting is not None:
        at = mark.parting.position
        label = "Decided otherwise" if at is None else f"Decided otherwise at {count(at)}"
        return Seal("bad", "replay", label, f"{mark.parting.problem}; {explanation}")
    kind: Kind = "good" if marks.is_current(mark, head) else "busy"
    return Seal(kind, "replay", "Decides the same", explanation, f" up to {count(mark.position)}")


def _clock(time: datetime) -> str:
    return f"{time.astimezone():%H:%M:%S}"
