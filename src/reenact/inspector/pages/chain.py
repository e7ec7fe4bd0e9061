"""Whether the log can be believed: what was found wrong with its chain, and where today's code decides otherwise."""

from __future__ import annotations

from reenact.actors.journal.walk import Finding
from reenact.inspector.addresses import Address
from reenact.inspector.rendering import Page
from reenact.inspector.source import Source

_KIND = "session/"


def chain(source: Source, address: Address) -> Page:
    """Return the page of what was found."""
    known = source.marks.now()
    findings = [(finding, _place(finding, address)) for finding in known.chain.findings]
    return Page("chain.html", {"known": known, "findings": findings, "head": source.log.head()})


def marks(source: Source, address: Address) -> Page:  # noqa: ARG001 - the seals are in the frame of each page
    """Return the seals alone, for a page that has been open for a while; it says in `path` which one that is."""
    return Page("seals.html", {})


def _place(finding: Finding, address: Address) -> str:
    """Return the address of the place where the finding shows, "" if it is of no session."""
    session_id = finding.name.removeprefix(_KIND) if finding.name.startswith(_KIND) else ""
    return address.to("/session", id=session_id, at=finding.position) if session_id else ""
