"""Checks that within each shard no row of an earlier epoch comes after a row of a later one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from reenact.actors.journal.walk import Finding, Kind
from reenact.domain.chain import Row
from reenact.domain.shards import shard_of

_Place: TypeAlias = tuple[Kind, str, int, int | None]
"""The fields of a finding about a row."""


class EpochOrder:
    """Takes rows in any order of streams; its size grows only with the number of epochs.

    Rows of epoch 0 are not checked: they were not written by a node, or were imported from another log.
    """

    def __init__(self, shards: int) -> None:
        """Start for a log with this number of shards."""
        self._shards = shards
        self._firsts: dict[tuple[int, int], int] = {}
        self._last_rows: dict[tuple[int, int], tuple[int, _Place]] = {}
        """The number and the place of the last row of each epoch, by shard and epoch."""
        self._stream: str | None = None
        self._shard = 0

    def add(self, row: Row) -> None:
        """Add an intact row; the rows of one stream are added one after the other."""
        if row.stream != self._stream:
            self._stream, self._shard = row.stream, shard_of(row.stream, count=self._shards)
        key = self._shard, row.epoch
        self._firsts[key] = min(row.number, self._firsts.get(key, row.number))
        if key not in self._last_rows or row.number > self._last_rows[key][0]:
            self._last_rows[key] = row.number, _place_of(row)

    def findings(self) -> Iterator[Finding]:
        """Yield the last row of each epoch that extends beyond the first row of a later one."""
        later: dict[int, tuple[int, int]] = {}
        for (shard, epoch), first in sorted(self._firsts.items(), reverse=True):
            number, (kind, stream, at, position) = self._last_rows[shard, epoch]
            begin, by = later.get(shard, (number, epoch))
            if number > begin:
                problem = f"the row is of epoch {epoch} of shard {shard}, and follows a row of epoch {by}"
                yield Finding(kind, stream, at, problem, position)
            later[shard] = min((begin, by), (first, epoch))


def _place_of(row: Row) -> _Place:
    if row.count:
        return "stream", row.stream, row.version, row.position
    return "feed", row.stream, row.cursor, None
