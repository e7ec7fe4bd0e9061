"""What is heard of a step, as whoever reads the log derives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reenact.domain.session.announce import TODAY, VERSIONS, Announced, needed
from reenact.domain.session.state import Session, SessionEvent


def announced(before: Session, events: Sequence[SessionEvent]) -> list[Announced]:
    """Return what is heard of the events of a step, in the session as it was before them."""
    if not events:
        return []
    version = VERSIONS[TODAY]
    begins: Any = events[0]
    session_id = getattr(begins, "session_id", before.id) or ""
    return list(version.announce(session_id, version.read(needed(before, events).stored()), events))
