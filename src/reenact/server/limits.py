"""Limits on what a client may use, and the token bucket and counters that enforce them."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields

from reenact.domain.errors import ConfigurationError

MIB = 1024 * 1024
MOST_UNREAD = 128 * MIB
"""Bytes of unread answers, of all clients together, from which on no further reads are carried out."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on what one client may use of a server, in bytes, seconds and counts.

    Raises:
        ConfigurationError: one is not a number above 0.
    """

    message_size: int = 12 * MIB
    """The largest message, or body of an HTTP request: the 10 MiB that a message's content may have, and its frame."""
    rate: float = 200.0
    """Frames, or HTTP requests, a second, in the long run."""
    burst: int = 400
    """How many of them may come at once."""
    requests: int = 64
    """Concurrent requests of one connection. Further ones are read when some of these have been answered."""
    subscriptions: int = 1000
    """Subscriptions of one connection."""
    connections: int = 1000
    """Connections of all clients together."""
    threads: int = 32
    """Concurrent requests of all clients together."""
    hello_timeout: float = 5.0
    """Seconds until the first frame of a connection must have arrived."""
    head_timeout: float = 10.0
    """Seconds until a request's head, a handshake, or a request's body must have arrived completely."""
    ping_interval: float = 20.0
    """Seconds between two pings, and from a ping until the connection is closed if it is not answered."""
    stall_timeout: float = 60.0
    """Seconds after which a connection is closed whose client reads nothing."""
    longest_request: float = 300.0
    """The longest timeout, in seconds, that a request may have."""

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if not (value > 0 and math.isfinite(value)):
                raise ConfigurationError(f"the limit {limit.name} must be a number above 0, not {value!r}")


@dataclass
class Bucket:
    """A token bucket: tokens are added at a rate, up to a burst; each action takes one."""

    _rate: float
    _burst: float
    _now: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._tokens, self._at = self._burst, self._now()

    def take(self, tokens: int = 1) -> float:
        """Take tokens, if necessary in advance; return the seconds until they are available."""
        self._fill()
        self._tokens -= tokens
        return max(0.0, -self._tokens / self._rate)

    def try_take(self) -> float:
        """Take a token and return 0 if one is available; otherwise return the seconds until one is."""
        self._fill()
        if self._tokens >= 1.0:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self._rate

    def _fill(self) -> None:
        now = self._now()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now


@dataclass
class Unread:
    """Counts bytes of answers that clients have not taken yet, over all clients. Used on one event loop."""

    _most: int = MOST_UNREAD
    size = 0
    waiting = 0
    """The number of tasks that wait for room."""

    def __post_init__(self) -> None:
        self._left = asyncio.Event()

    async def room(self) -> None:
        """Wait until the number of bytes is below the limit."""
        self.waiting += 1
        try:
            while self.size >= self._most:
                self._left.clear()
                await self._left.wait()
        finally:
            self.waiting -= 1

    def add(self, size: int) -> None:
        """Count the bytes of an answer as unread."""
        self.size += size

    def remove(self, size: int) -> None:
        """Remove the bytes of an answer that was taken or dropped."""
        self.size -= size
        self._left.set()


@dataclass
class Room:
    """Limits the number of things and their total size; a single thing may be larger. Used on one event loop."""

    _things: int
    _size: int
    _inside = 0
    _taken = 0

    def __post_init__(self) -> None:
        self._left = asyncio.Event()

    async def enter(self, size: int) -> None:
        """Wait until there is room for one more thing of that size, and take the room."""
        while self._inside and (self._inside >= self._things or self._taken + size > self._size):
            self._left.clear()
            await self._left.wait()
        self._inside += 1
        self._taken += size

    def leave(self, size: int) -> None:
        """Give back the room of a thing of that size."""
        self._inside -= 1
        self._taken -= size
        self._left.set()


@dataclass
class Counts:
    """Counts since the server started, and current numbers."""

    connections: int = 0
    connected: int = 0
    subscriptions: int = 0
    in_progress: int = 0
    received: int = 0
    """Bytes of messages received over WebSockets."""
    sent: int = 0
    """Bytes of messages sent over WebSockets."""
    events: int = 0
    refused: Counter[str] = field(default_factory=Counter[str])
    """Refused frames, by error code."""
    closed: Counter[int] = field(default_factory=Counter[int])
    """WebSockets that the server closed, by the code of the close frame."""
    requests: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Requests of the command protocol, by type and the code of the outcome, `ok` if there was no error."""
    http: Counter[int] = field(default_factory=Counter[int])
    """HTTP responses, by status."""
