"""Verifies the hash chain of the log in the background: first all of it, then new rows, and all of it again later."""

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
"""The least seconds between two passes over the whole log."""
SHARE: Final = 20
"""The pause between two passes is this many times as long as a pass takes."""
_LAST = "SELECT number FROM steps ORDER BY number DESC LIMIT 1"


class ChainMark(msgspec.Struct, frozen=True):
    """The verified part of the chain: its rows up to a position were checked, with these findings.

    `began` and `ended` are the times of the last pass over the whole log; without an end the first pass is still
    running. Rows that were written since are checked as they come.
    """

    position: int = 0
    began: datetime | None = None
    ended: datetime | None = None
    findings: tuple[Finding, ...] = ()
    more: int = 0

    def verified_up_to(self, stream: str) -> int:
        """Return the last position up to which the rows of the stream are known to be unchanged."""
        found = [finding for finding in self.findings if finding.name in (stream, "")]
        at = min((0 if each.position is None else max(0, each.position - 1) for each in found), default=self.position)
        return min(at, self.position)


class ChainMarks:
    """Verifies the chain in time slices, and keeps the mark."""

    def __init__(self, url: str, log: StoredJournal, pause: Callable[[], object]) -> None:
        """Set the log at the URL, which is also open here; `pause` is called often."""
        self._url = url
        self._log = log
        self._pause = pause
        self._pass = ChainPass()
        self._again: ChainPass | None = None
        self._next = 0.0
        self._began: datetime | None = None
        self._done: tuple[datetime, datetime] | None = None
        self._lost: tuple[Finding, ...] = ()

    @property
    def is_busy(self) -> bool:
        """Whether there is more to verify now."""
        return self._again is not None or self._done is None

    def advance(self, until: float) -> dict[str, int]:
        """Verify until the given time; return the streams with new rows, and the last position of each.

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
                self._advance_passes(until, streams)
            except LogUnusableError as error:
                self._lost = (Finding("file", "", 0, str(error)),)
                raise
        return streams

    def mark(self) -> ChainMark:
        """Return the present mark."""
        passes = (self._pass, *(() if self._again is None else (self._again,)))
        findings = dict.fromkeys((*self._lost, *(each for one in passes for each in one.findings)))
        began, ended = self._done or (self._began, None)
        return ChainMark(self._pass.position, began, ended, tuple(findings), max(one.more for one in passes))

    def _advance_passes(self, until: float, streams: dict[str, int]) -> None:
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
        """Start again, because rows that were there are gone."""
        was, now = self._pass.position, self._log.head()
        problem = f"the log ended at position {was} when it was looked at, and now ends at {now}"
        self._lost = (Finding("log", "", now + 1, problem, now + 1),)
        self._pass, self._again, self._done, self._began = ChainPass(), None, None, None


def _now() -> datetime:
    return datetime.now(UTC)
