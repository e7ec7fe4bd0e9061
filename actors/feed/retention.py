"""Retention: removes the deltas of old turns, and old consumers and requests."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from datetime import timedelta

import msgspec

from reenact.actors.feed.compaction import Compaction
from reenact.actors.feed.hub import Feed
from reenact.actors.kernel.timetable import Entry, Timetable
from reenact.domain.errors import ConfigurationError, RuntimeClosedError, StorageError
from reenact.domain.plain import SuggestsFields

_logger = logging.getLogger("reenact.feed")
_MICROSECOND = timedelta(microseconds=1)


class Retention(msgspec.Struct, metaclass=SuggestsFields, frozen=True, kw_only=True):
    """How long a runtime keeps data that is rarely needed later. None: for ever.

    `deltas`: the pieces of text, thoughts and tool inputs, of finished turns; the complete messages are kept for ever.
    The pieces are replaced by `deltas_compacted` events, and all other events keep their cursors. `consumers`: the
    progress of clients that have not subscribed or acknowledged anything since; a client that returns later begins
    anew. `requests`: the record that a request has been carried out, so that it is not when it is sent again. `every`:
    how often the runtime removes old data.

    Raises:
        ConfigurationError: a time is not a `timedelta`, or is negative; `every` is zero.
    """

    deltas: timedelta | None = timedelta(hours=48)
    consumers: timedelta | None = timedelta(hours=24)
    requests: timedelta | None = timedelta(hours=24)
    every: timedelta = timedelta(hours=1)

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            _check_span(name, getattr(self, name), optional=name != "every")
        if not self.every:
            raise ConfigurationError("retention: every= says how often to look; it is above zero")


def retention_of(given: object) -> Retention:
    """Return the given retention, or the default one for None.

    Raises:
        ConfigurationError: it is not a `Retention`.
    """
    if given is None:
        return Retention()
    if not isinstance(given, Retention):
        raise ConfigurationError(f"retention must be a Retention(…), not {type(given).__name__}")
    return given


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """The number of removed deltas, consumers and requests."""

    deltas: int = 0
    consumers: int = 0
    requests: int = 0


class Sweeper:
    """Removes old data from time to time, as the retention says. Thread-safe.

    If several nodes share a log, each compacts its own topics; consumers and requests are removed by the first node to
    do so. A consumer is marked as seen by its node at each sweep: `consumers` should be much longer than `every`.
    """

    def __init__(
        self,
        feed: Feed,
        timetable: Timetable,
        retention: Retention,
        now: Callable[[], int],
        is_here: Callable[[str], bool] | None = None,
    ) -> None:
        """Sweep as `retention` says; `is_here` returns whether this node may write a topic. None: it may write all."""
        self._feed = feed
        self._timetable = timetable
        self._retention = retention
        self._now = now
        self._sweeping = threading.Lock()
        self._scheduling = threading.Lock()
        self._closed = False
        self._compaction = Compaction(feed.journal, lambda: self._closed, feed.replay.forget, is_here)
        self._next_sweep: Entry | None = None
        if (retention.deltas, retention.consumers, retention.requests) != (None, None, None):
            self._schedule()

    def take_up(self) -> None:
        """Include topics that this node has taken over. Called from any thread."""
        self._compaction.take_up()

    def sweep(self) -> Compacted:
        """Remove old data now.

        Raises:
            StorageError: the log cannot be read or written; what was removed until then stays removed.
            RuntimeClosedError: the log is closed.
        """
        retention, feed = self._retention, self._feed
        feed.remove_abandoned()
        with self._sweeping:
            deltas = consumers = requests = 0
            if retention.deltas is not None:
                deltas = self._compaction.compact(before=self._time_before_now(retention.deltas))
            if retention.consumers is not None:
                consumers = feed.consumers.forget(before=self._time_before_now(retention.consumers))
            if retention.requests is not None:
                requests = feed.journal.forget_requests(before=self._time_before_now(retention.requests))
        return Compacted(deltas=deltas, consumers=consumers, requests=requests)

    def close(self) -> None:
        """Start no more sweeps, and soon stop one that is running. Idempotent."""
        with self._scheduling:
            self._closed = True
            if self._next_sweep is not None:
                self._next_sweep.cancel()

    def _time_before_now(self, span: timedelta) -> int:
        return max(0, self._now() - span // _MICROSECOND)

    def _schedule(self) -> None:
        with self._scheduling:
            if not self._closed:
                self._next_sweep = self._timetable.after(self._retention.every.total_seconds(), self._start_sweep)

    def _start_sweep(self) -> None:
        with contextlib.suppress(RuntimeClosedError):  # the next runtime will do it
            self._feed.loops.in_thread(self._run)

    def _run(self) -> None:
        try:
            self.sweep()
        except RuntimeClosedError:
            return
        except Exception as error:
            _logger.log(
                logging.ERROR,
                "some expired data could not be deleted; that is tried again later: %s",
                error,
                exc_info=not isinstance(error, StorageError),
            )
        self._schedule()


def _check_span(name: str, span: object, *, optional: bool) -> None:
    if span is None and optional:
        return
    if not isinstance(span, timedelta):
        raise ConfigurationError(f"retention: {name}= must be a timedelta, not {span!r}")
    if span < timedelta(0):
        raise ConfigurationError(f"retention: {name}= must be a time span, not one below zero ({span})")
