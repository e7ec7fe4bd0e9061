"""What becomes of an actor that fails: it ends, starts again after a while, or takes its parent with it."""

from __future__ import annotations

import zlib
from collections import deque
from typing import Final, Literal, TypeAlias

import msgspec

from reenact.actors.kernel.timetable import SECOND
from reenact.domain.errors import ReenactError

Strategy: TypeAlias = Literal["restart", "stop", "escalate"]
OnLimit: TypeAlias = Literal["stop", "escalate"]

_SPREAD: Final = 1 << 32


class Supervision(msgspec.Struct, frozen=True, kw_only=True):
    """How an actor is cared for when it fails.

    It fails when it cannot start, when its journal fails, when a hook raises, or when a command that was told raises
    anything but a refusal. A refusal is an answer, and what raises under `ask` is the asker's: neither is a failure.

    `restart` starts it again, from its log, after a backoff that doubles from `min_backoff` to `max_backoff` seconds,
    spread by up to a fifth; messages wait meanwhile. After more than `max_restarts` failures within `within` seconds
    it is stopped, or the failure is escalated, as `on_limit` says. `stop` lets it end: the parent hears of it, what
    waits is refused, and the next message starts it anew. `escalate` lets the parent fail of it.
    """

    strategy: Strategy = "restart"
    max_restarts: int = 10
    within: float = 60.0
    min_backoff: float = 0.1
    max_backoff: float = 10.0
    on_limit: OnLimit = "stop"

    def __post_init__(self) -> None:
        """Refuse what cannot work.

        Raises:
            ValueError: a number is out of range, or there is no such strategy.
        """
        if self.strategy not in ("restart", "stop", "escalate") or self.on_limit not in ("stop", "escalate"):
            raise ValueError(f"there is no supervision {self.strategy!r} with on_limit {self.on_limit!r}")
        if self.max_restarts < 0 or self.within <= 0 or not 0 <= self.min_backoff <= self.max_backoff:
            raise ValueError(f"these numbers make no supervision: {self}")


class RestartLimitError(ReenactError):
    """An actor has failed too often to be started again by itself; the next message tries once more."""

    code = "restart_limit"

    def __init__(self, who: str, supervision: Supervision, cause: BaseException) -> None:
        super().__init__(
            f"{who} failed more than {supervision.max_restarts} times within {supervision.within:g} s; "
            f"the last time: {cause!r}"
        )
        self.cause = cause


class Restarts:
    """Counts failures, and says how long to wait before the next start."""

    __slots__ = ("_failures", "_spread", "_supervision")

    def __init__(self, supervision: Supervision, who: str) -> None:
        self._supervision = supervision
        self._failures: deque[int] = deque()
        # Spread by who it is, not by chance: actors that failed together do not come back together, and yet each test
        # sees the same.
        self._spread = 1 + zlib.crc32(who.encode()) / _SPREAD / 5

    def delay(self, now: int) -> float | None:
        """Count a failure at this time, in microseconds; return the seconds to wait, or None if it was one too many."""
        failures, supervision = self._failures, self._supervision
        while failures and failures[0] <= now - supervision.within * SECOND:
            failures.popleft()
        if len(failures) >= supervision.max_restarts:
            failures.clear()
            return None
        failures.append(now)
        doubled: float = supervision.min_backoff * 2.0 ** min(len(failures) - 1, 64)
        return min(supervision.max_backoff, doubled) * self._spread
