"""How projections are, as whoever runs them sees it."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from reenact.projections.audit.api import Progress
from reenact.projections.errors import ProjectionFailedError, ReadModelError

Health: TypeAlias = Literal["running", "troubled", "stopped", "rebuilding", "closed"]
"""`troubled`: the last try to read the log or to write the tables failed, the next may work; `stopped`: none will;
`rebuilding`: the tables are of another version, and stand still until those of this version are made.
"""


class ProjectionFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a projection does not move on; if that is an event, where it stands in the log and what it is."""

    reason: str
    position: int | None = None
    stream: str | None = None
    event_type: str | None = None


class ProjectionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a projection is.

    `version` and `position` are those of the tables that are read: the position in the log of the last event that is in
    them. `lag` is how many positions the log is ahead. `rebuild` says how far new tables have come that are to take
    their place.
    """

    name: str
    version: int
    position: int
    lag: int
    health: Health
    failure: ProjectionFailure | None = None
    rebuild: Progress | None = None


def failure_of(error: ReadModelError) -> ProjectionFailure:
    """Return what an error says of a projection."""
    if isinstance(error, ProjectionFailedError):
        return ProjectionFailure(
            reason=error.reason, position=error.position, stream=error.stream, event_type=error.event_type
        )
    return ProjectionFailure(reason=str(error))
