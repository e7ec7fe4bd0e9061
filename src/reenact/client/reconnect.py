"""How long to wait before the next attempt to connect: exponential backoff with jitter."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

_MOST_DOUBLINGS: Final = 60


class Reconnect(msgspec.Struct, frozen=True, kw_only=True):
    """Waits, in seconds: up to `first` when a connection was lost, twice that after a failure, and so on to `longest`.

    How much of that it is, chance says, from 0 to 1: whoever loses a server together does not return together. `wait`
    lets the time pass.
    """

    first: float = 0.1
    longest: float = 10.0
    chance: Callable[[], float] = random.random
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep

    def delay(self, failures: int) -> float:
        """Return how long to wait after so many attempts that failed, one after the other."""
        return self.chance() * min(self.longest, self.first * 2.0 ** min(failures, _MOST_DOUBLINGS))
