"""The sessions of the log, the newest first."""

from __future__ import annotations

from reenact.inspector.addresses import Address
from reenact.inspector.rendering import Page
from reenact.inspector.source import Source


def sessions(source: Source, address: Address) -> Page:  # noqa: ARG001 - the page has no filters
    """Return the page of sessions."""
    return Page("sessions.html", {"position": source.log.head()})
