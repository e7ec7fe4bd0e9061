"""Projections: the tables derived from the log: the runtime's own, which answer every get and list, and users'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reenact._lazy import lazy_names

if TYPE_CHECKING:
    from reenact.projections.generations import ProjectionFailure, ProjectionStatus
    from reenact.projections.log import Progress, Row
    from reenact.projections.views.declared import Projection, on
    from reenact.projections.views.projections import Projections

__all__ = [
    "Progress",
    "Projection",
    "ProjectionFailure",
    "ProjectionStatus",
    "Projections",
    "Row",
    "on",
]

# Imported on first access: using the name of an error loads no database.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "reenact.projections.generations": "ProjectionFailure ProjectionStatus",
        "reenact.projections.log": "Progress Row",
        "reenact.projections.views.declared": "Projection on",
        "reenact.projections.views.projections": "Projections",
    },
)
