"""The tables that are derived from the log: those that serve every get and list, and projections of users' own."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

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

_LATER: Final = {
    "Progress": "reenact.projections.log",
    "Projection": "reenact.projections.views.declared",
    "ProjectionFailure": "reenact.projections.generations",
    "ProjectionStatus": "reenact.projections.generations",
    "Projections": "reenact.projections.views.projections",
    "Row": "reenact.projections.log",
    "on": "reenact.projections.views.declared",
}
"""What is imported when it is first asked for: the name of an error waits for no database."""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
