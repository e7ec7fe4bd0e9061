"""Counters of a server's own work. Used on one event loop."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Counts:
    """Numbers since the server began, and how many there are now."""

    connections: int = 0
    connected: int = 0
    subscriptions: int = 0
    in_progress: int = 0
    received: int = 0
    """Bytes of messages that came over WebSockets."""
    sent: int = 0
    """Bytes of messages that went over WebSockets."""
    events: int = 0
    refused: Counter[str] = field(default_factory=Counter[str])
    """Frames that were not accepted, by the code that says why."""
    closed: Counter[int] = field(default_factory=Counter[int])
    """WebSockets that the server closed, by the code of the close frame."""
    requests: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Requests of the command protocol, by type and the code of the outcome, `ok` if there was no error."""
    http: Counter[int] = field(default_factory=Counter[int])
    """HTTP responses, by status."""
