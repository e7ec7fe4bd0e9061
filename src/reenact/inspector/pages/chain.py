"""The page about the log's integrity: the findings in its chain, and where the present code decides differently."""

from __future__ import annotations

from reenact.actors.journal.walk import Finding
from reenact.inspector.addresses import Address
from reenact.inspector.rendering import Page
from reenact.inspector.source import Source
from reenact.projections.explain.entries import session_of


def chain(source: Source, address: Address) -> Page:
    """Return the page of the findings."""
    known = source.marks.now()
    findings = [(finding, _place(finding, address)) for finding in known.chain.findings]
    return Page("chain.html", {"known": known, "findings": findings, "head": source.log.head()})


def marks(source: Source, address: Address) -> Page:  # noqa: ARG001 - the seals are part of every page's frame
    """Return the seals alone, for a page that has been open for a while; `path` is that of the page."""
    return Page("seals.html", {})


def _place(finding: Finding, address: Address) -> str:
    """Return the address of the finding's place, or "" if it is not in a session."""
    session_id = session_of(finding.name)
    return address.to("/session", id=session_id, at=finding.position) if session_id else ""
