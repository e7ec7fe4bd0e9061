"""Supervision: whether a failed actor ends, is restarted after a backoff, or makes its parent fail."""

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
_MOST_RESTARTS = 1_000_000_000
"""In practice any number."""

_log = logging.getLogger("reenact.kernel")


class Supervision(msgspec.Struct, frozen=True, kw_only=True):
    """The supervision of an actor: what happens when it fails.

    An actor fails when it cannot start, when its journal fails, when a hook raises, or when a command sent by `tell`
    raises anything but a refusal. A refusal is an answer, and an exception under `ask` goes to the sender: neither is a
    failure.

    `restart` starts the actor again, from its log, after a backoff that doubles from `min_backoff` to `max_backoff`
    seconds, lengthened by up to a fifth; messages wait meanwhile. After more than `max_restarts` failures within
    `within` seconds it is stopped, or the failure is escalated, as `on_limit` says. `stop` ends the actor: the parent
    is notified, waiting messages are refused, and the next message starts it anew. `escalate` makes the parent fail
    with the error.

    A request to stop cuts a backoff short: the messages sent before it are tried at once.
    """

    strategy: Strategy = "restart"
    max_restarts: int = 10
    within: float = 60.0
    min_backoff: float = 0.1
    max_backoff: float = 10.0
    on_limit: OnLimit = "stop"

    def __post_init__(self) -> None:
        """Reject invalid settings.

        Raises:
            ValueError: a number is out of range, or the strategy is unknown.
        """
        if self.strategy not in ("restart", "stop", "escalate") or self.on_limit not in ("stop", "escalate"):
            raise ValueError(f"there is no supervision {self.strategy!r} with on_limit {self.on_limit!r}")
        if type(self.max_restarts) is not int or self.max_restarts > _MOST_RESTARTS:
            most = f"a whole number of at most {_MOST_RESTARTS:,}"
            raise ValueError(f"max_restarts of a supervision must be {most}, not {self.max_restarts!r:.100}")
        if self.max_restarts < 0 or not (self.within > 0 and 0 <= self.min_backoff <= self.max_backoff < math.inf):
            raise ValueError(f"these numbers make no supervision: {self}")


def shown(error: BaseException) -> str:
    """Return the `repr` of an exception, or the name of its type if its `repr` raises."""
    try:
        return repr(error)
    except Exception:  # noqa: BLE001 - a user's `__repr__`
        return f"{type(error).__qualname__} (its __repr__ raises)"


class ActorFailedError(ReenactError):
    """The actor failed, for a reason unrelated to this message, before it handled the message."""

    code = "actor_failed"

    def __init__(self, who: str, cause: BaseException) -> None:
        super().__init__(f"{who} failed before it could take this message: {shown(cause)}")
        self.cause = cause
        self.__cause__ = cause


class RestartLimitError(ReenactError):
    """An actor has failed too often to be restarted automatically; the next message tries once more."""

    code = "restart_limit"

    def __init__(self, who: str, supervision: Supervision, cause: BaseException) -> None:
        super().__init__(
            f"{who} failed more than {supervision.max_restarts} times within {supervision.within:g} s; "
            f"the last time: {shown(cause)}"
        )
        self.cause = cause


class Verdict(msgspec.Struct, frozen=True):
    """The error with which an actor ends for good, and whether its parent must fail with it."""

    error: Exception
    escalates: bool


class Restarts:
    """Counts the failures of one actor and schedules its restarts."""

    # The holder of the actor's mailbox calls these, except for `restart_now`, which any thread may call: an `Entry`
    # runs once, whichever thread is first.

    __slots__ = ("_failures", "_next_start", "_scheduled_start", "_spread", "_supervision")

    def __init__(self, supervision: Supervision, who: str) -> None:
        self._supervision = supervision
        self._failures: deque[int] = deque(maxlen=supervision.max_restarts + 1)
        # Derived from the actor's name, not random: actors that failed together do not restart together, and tests
        # still see the same delays every time.
        self._spread = 1 + zlib.crc32(who.encode()) / _SPREAD / 5
        self._next_start: Entry | None = None
        self._scheduled_start: Entry | None = None

    def delay(self, now: int) -> float | None:
        """Count a failure at this time, in microseconds; return the backoff in seconds, None if it is one too many."""
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
        """Count a failure and schedule `start` after a backoff, which may run before this returns; or return a verdict.

        `rests` tells whether actors may still be restarted after a backoff, `awaits_stop` whether the actor has been
        asked to stop.
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
        next_start = self._next_start = Entry(start)
        self._scheduled_start = timetable.after(delay, next_start.run)
        # The system may have begun to close, or the actor may have been asked to stop, in between.
        if not rests() or awaits_stop():
            self.restart_now()
        return None

    def restart_now(self) -> None:
        """Start now if a restart is scheduled."""
        next_start, scheduled_start = self._next_start, self._scheduled_start
        if scheduled_start is not None:
            scheduled_start.cancel()
        if next_start is not None:
            next_start.run()

    def are_spent(self, now: int) -> bool:
        """Return whether there have been too many failures within the time window."""
        failures, supervision = self._failures, self._supervision
        while failures and failures[0] <= now - supervision.within * SECOND:
            failures.popleft()
        return len(failures) > supervision.max_restarts

    def forget(self) -> None:
        """Forget the failures counted so far."""
        self._failures.clear()
