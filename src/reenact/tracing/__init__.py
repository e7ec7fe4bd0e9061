"""OpenTelemetry spans and metrics, made from the log: `Tracing` sends those of a runtime while it runs.

Nothing is imported here, and nothing is sent, unless it is used.
"""

from __future__ import annotations

from reenact.tracing.live import Tracing
from reenact.tracing.sending import CollectorRefusedError, CollectorUnreachableError

__all__ = ["CollectorRefusedError", "CollectorUnreachableError", "Tracing"]
