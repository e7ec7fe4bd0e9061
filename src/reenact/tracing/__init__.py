"""OpenTelemetry spans and metrics, made from the log: `Tracing` sends those of a runtime while it runs.

Nothing is imported here, and nothing is sent, unless it is used.
"""

from __future__ import annotations

from reenact.tracing.errors import CollectorRefusedError, CollectorUnreachableError
from reenact.tracing.live import Tracing

__all__ = ["CollectorRefusedError", "CollectorUnreachableError", "Tracing"]
