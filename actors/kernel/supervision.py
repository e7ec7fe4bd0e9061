"""What becomes of an actor that fails: it ends, starts again after a while, or takes its parent with it."""

from __future__ import annotations

import logging
import math
import zlib
from collections import deque
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from reenact.actors.kernel.timetable import SECOND, Entry, Timetable
from reenact.domain.errors import ReenactError

Strategy: TypeAlias = Literal["restart", "stop", "escalate"]
OnLimit: TypeAlias = Literal["stop", "escalate"]

_SPREAD = 1 << 32

_log = logging.getLogger("reenact.kernel")


class Supervision(msgspec.Struct, frozen=True, kw_only=True):
    """How an actor is cared for when it fails.

    It fails when it cannot start, when its journal fails, when a hook raises, or when a command that was told raises
    anything but a refusal. A refusal is an answer, and what raises under `ask` is the asker's: neither is a failure.

    `restart` starts it again, from its log, after a backoff that doubles from `min_backoff` to `max_backoff` seconds,
    spread by up to a fifth; messages wait meanwhile. After more than `max_restarts` failures within `within` seconds
    it is stopped, or the failure is escalated, as `on_limit` says. `stop` lets it end: the parent hears of it, what
    waits is refused, and the next message starts it anew. `escalate` lets the parent fail of it.

    A request to stop is not kept waiting by a backoff: what was sent before it is tried at once.
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
        if self.max_restarts < 0 or not (self.within > 0 and 0 <= self.min_backoff <= self.max_backoff < math.inf):
            raise ValueError(f"these numbers make no supervision: {self}")


def shown(error: BaseException) -> str:
    """Return an exception's text, or the name of its type if it fails to say more."""
    try:
        return repr(error)
    except Exception:  # noqa: BLE001 - a `__repr__` of the user's
        return f"{type(error).__qualname__} (its __repr__ raises)"


class ActorFailedError(ReenactError):
    """The actor ended, by a failure that this message was not the cause of, before the message's turn came."""

    code = "actor_failed"

    def __init__(self, who: str, cause: BaseException) -> None:
        super().__init__(f"{who} failed before it could take this message: {shown(cause)}")
        self.cause = cause
        self.__cause__ = cause


class RestartLimitError(ReenactError):
    """An actor has failed too often to be started again by itself; the next message tries once more."""

    code = "restart_limit"

    def __init__(self, who: str, supervision: Supervision, cause: BaseException) -> None:
        super().__init__(
            f"{who} failed more than {supervision.max_restarts} times within {supervision.within:g} s; "
            f"the last time: {shown(cause)}"
        )
        self.cause = cause


class Verdict(msgspec.Struct, frozen=True):
    """What an actor ends of that is not started again."""

    error: Exception
    escalates: bool


class Restarts:
    """Counts the failures of one actor, and has it started again after a while."""

    # Called by whoever holds the mailbox of the actor, but for `hurry`: an `Entry` is run once, whoever is first.

    __slots__ = ("_backoff", "_failures", "_in_time", "_spread", "_supervision")

    def __init__(self, supervision: Supervision, who: str) -> None:
        self._supervision = supervision
        self._failures: deque[int] = deque(maxlen=supervision.max_restarts + 1)
        # Spread by who it is, not by chance: actors that failed together do not come back together, and yet each test
        # sees the same.
        self._spread = 1 + zlib.crc32(who.encode()) / _SPREAD / 5
        self._backoff: Entry | None = None
        self._in_time: Entry | None = None

    def delay(self, now: int) -> float | None:
        """Count a failure at this time, in microseconds; return the seconds to wait, or None if it was one too many."""
        self._failures.append(now)
        if self.are_spent(now):
            return None
        doubled: float = self._supervision.min_backoff * 2.0 ** min(len(self._failures) - 1, 64)
        return min(self._supervision.max_backoff, doubled) * self._spread

    def again(
        self,
        failure: Exception,
        who: str,
        timetable: Timetable,
        start: Callable[[], object],
        *,
        rests: Callable[[], bool],
        awaits_stop: Callable[[], bool],
    ) -> Verdict | None:
        """Count a failure, and have `start` called after a while, perhaps before this returns; or return the end of it.

        `rests` tells whether anybody may be started again after a while, `awaits_stop` whether the actor is to stop.
        """
        supervision = self._supervision
        if supervision.strategy != "restart":
            return Verdict(failure, supervision.strategy == "escalate")
        delay = self.delay(timetable.elapsed())
        escalates = supervision.on_limit == "escalate"
        if delay is None:
            error = RestartLimitError(who, supervision, failure)
            error.__cause__ = failure
            _log.error("%s", error)
            return Verdict(error, escalates)
        if not rests():
            return Verdict(failure, escalates)
        backoff = self._backoff = Entry(start)
        self._in_time = timetable.after(delay, backoff.run)
        # Whoever closes the system, or stops the actor, may have come by in between.
        if not rests() or awaits_stop():
            self.hurry()
        return None

    def hurry(self) -> None:
        """Wait no longer for the time of the next start, if that is what the actor does."""
        backoff, in_time = self._backoff, self._in_time
        if in_time is not None:
            in_time.cancel()
        if backoff is not None:
            backoff.run()

    def are_spent(self, now: int) -> bool:
        """Tell whether there have been too many failures of late."""
        failures, supervision = self._failures, self._supervision
        while failures and failures[0] <= now - supervision.within * SECOND:
            failures.popleft()
        return len(failures) > supervision.max_restarts

    def forget(self) -> None:
        """Begin to count anew."""
        self._failures.clear()
