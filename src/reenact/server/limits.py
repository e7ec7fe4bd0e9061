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
"""Bytes of answers that all clients together may leave unread before no more reads are carried out."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one client may take of a server, in bytes, seconds and numbers of things.

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
    """Requests of one connection that are in progress. The next ones are read when some of these are answered."""
    subscriptions: int = 1000
    """Subscriptions of one connection."""
    connections: int = 1000
    """Connections, of all clients together."""
    threads: int = 32
    """Requests that are carried out at the same time, of all clients together."""
    hello_timeout: float = 5.0
    """Until the first frame of a connection has come."""
    head_timeout: float = 10.0
    """Until a request's head, a handshake, or a request's body has come whole."""
    ping_interval: float = 20.0
    """Between two pings, and from a ping to the end of the connection if nobody answers it."""
    stall_timeout: float = 60.0
    """Until a connection is closed whose client takes nothing of what is sent to it."""
    longest_request: float = 300.0
    """The longest that a request may want to wait for its answer."""

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if not (value > 0 and math.isfinite(value)):
                raise ConfigurationError(f"the limit {limit.name} is a number above 0, not {value!r}")


@dataclass
class Bucket:
    """Tokens that come at a rate, up to a burst; each thing that is done takes one."""

    _rate: float
    _burst: float
    _now: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._tokens, self._at = self._burst, self._now()

    def take(self, tokens: int = 1) -> float:
        """Take tokens, if need be some that have yet to come; return the seconds until they are there."""
        self._fill()
        self._tokens -= tokens
        return max(0.0, -self._tokens / self._rate)

    def try_take(self) -> float:
        """Take a token if there is one, and return 0; else return the seconds until there is."""
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
    """Bytes of answers that were made and that clients have not taken yet, of all clients. Of one event loop."""

    _most: int = MOST_UNREAD
    size = 0
    waiting = 0
    """How many wait for room."""

    def __post_init__(self) -> None:
        self._left = asyncio.Event()

    async def room(self) -> None:
        """Wait until there are fewer bytes than may be."""
        self.waiting += 1
        try:
            while self.size >= self._most:
                self._left.clear()
                await self._left.wait()
        finally:
            self.waiting -= 1

    def add(self, size: int) -> None:
        """Count an answer."""
        self.size += size

    def remove(self, size: int) -> None:
        """Count an answer no more: it was taken, or is dropped."""
        self.size -= size
        self._left.set()


@dataclass
class Room:
    """Room for so many things, of so many bytes together; one that is alone may be larger. Of one event loop."""

    _things: int
    _size: int
    _inside = 0
    _taken = 0

    def __post_init__(self) -> None:
        self._left = asyncio.Event()

    async def enter(self, size: int) -> None:
        """Wait until there is room for one more thing of that size, and take it."""
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
