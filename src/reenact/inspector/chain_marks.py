"""Whether the chain of the log is whole, looked at in the background: all of it, what is new, and all of it again."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec

from reenact.actors.journal.chain_pass import ChainPass
from reenact.actors.journal.stored import StoredJournal
from reenact.actors.journal.verify import evidence_of
from reenact.actors.journal.walk import Finding
from reenact.domain.errors import LogUnusableError

REST: Final = 60.0
"""Seconds at least between two passes over all of the log."""
SHARE: Final = 20
"""The time between two of them is so many times as long as one takes."""
_LAST = "SELECT number FROM steps ORDER BY number DESC LIMIT 1"


class ChainMark(msgspec.Struct, frozen=True):
    """What is known of the chain: its rows up to a position were looked at, and this was found.

    `began` and `ended` are when all of the log was looked at last; the first time is still under way if there is no
    end. What was written since was looked at as it came.
    """

    position: int = 0
    began: datetime | None = None
    ended: datetime | None = None
    findings: tuple[Finding, ...] = ()
    more: int = 0

    def verified_up_to(self, stream: str) -> int:
        """Return the last position up to which the rows of the stream are known to be as they were written."""
        found = [finding for finding in self.findings if finding.name in (stream, "")]
        at = min((0 if each.position is None else max(0, each.position - 1) for each in found), default=self.position)
        return min(at, self.position)


class ChainMarks:
    """Makes the mark, a while at a time."""

    def __init__(self, url: str, log: StoredJournal, pause: Callable[[], object]) -> None:
        """Look at the log at the URL, which is open here as well; `pause` is called often."""
        self._url = url
        self._log = log
        self._pause = pause
        self._pass = ChainPass()
        self._again: ChainPass | None = None
        self._next = 0.0
        self._began: datetime | None = None
        self._done: tuple[datetime, datetime] | None = None
        self._lost: tuple[Finding, ...] = ()
        self.is_busy = True
        """Whether there is more to look at now."""

    def look(self, until: float) -> dict[str, int]:
        """Go on until it is so late; return the streams that have rows behind those seen before, and where they end.

        Raises:
            StorageError: the log cannot be read now.
        """
        found: list[tuple[int]] = self._log.select(_LAST, ())
        last = found[0][0] if found else 0
        if last < self._pass.number:
            self._begin_anew()
        if self._done is not None and self._again is None and time.monotonic() >= self._next:
            self._again, self._began = ChainPass(), _now()
        self._began = self._began or _now()
        streams: dict[str, int] = {}
        if last > self._pass.number or self._again is not None or self._done is None:
            try:
                self._advance(until, streams)
            except LogUnusableError as error:
                self._lost = (Finding("file", "", 0, str(error)),)
                raise
        self.is_busy = self._again is not None or self._done is None
        return streams

    def mark(self) -> ChainMark:
        """Return what is known now."""
        passes = (self._pass, *(() if self._again is None else (self._again,)))
        findings = dict.fromkeys((*self._lost, *(each for one in passes for each in one.findings)))
        began, ended = self._done or (self._began, None)
        return ChainMark(self._pass.position, began, ended, tuple(findings), max(one.more for one in passes))

    def _advance(self, until: float, streams: dict[str, int]) -> None:
        with evidence_of(self._url) as evidence:
            while time.monotonic() < until:
                page = self._pass.advance(evidence, self._pause)
                streams.update(page)
                if not page:
                    self._pass.end()
                    if self._done is None:
                        self._is_done()
                    break
            while self._again is not None and time.monotonic() < until:
                if not self._again.advance(evidence, self._pause):
                    self._again.end()
                    self._pass, self._again, self._lost = self._again, None, ()
                    self._is_done()

    def _is_done(self) -> None:
        began, ended = self._began or _now(), _now()
        self._done = began, ended
        self._next = time.monotonic() + max(REST, SHARE * (ended - began).total_seconds())

    def _begin_anew(self) -> None:
        """Begin anew: rows are gone that were there."""
        was, now = self._pass.position, self._log.head()
        problem = f"the log ended at position {was} when it was looked at, and now ends at {now}"
        self._lost = (Finding("log", "", now + 1, problem, now + 1),)
        self._pass, self._again, self._done, self._began = ChainPass(), None, None, None


def _now() -> datetime:
    return datetime.now(UTC)
