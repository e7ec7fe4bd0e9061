"""Spans and metrics of OpenTelemetry, made from the log: `Tracing` sends those of a runtime while it runs.

Nothing here is imported, and nothing is sent, unless somebody asks for it.
"""

from __future__ import annotations

from reenact.tracing.errors import CollectorRefusedError, CollectorUnreachableError
from reenact.tracing.live import Tracing

__all__ = ["CollectorRefusedError", "CollectorUnreachableError", "Tracing"]
