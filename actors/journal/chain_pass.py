"""A pass over a log in row order, page by page, which can continue as the log grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from reenact.actors.journal.epoch_order import EpochOrder
from reenact.actors.journal.evidence import Evidence
from reenact.actors.journal.seeking import Cells
from reenact.actors.journal.walk import BEGINNING, Finding, StreamWalk, text_of

ROWS: Final = 1000
"""Most rows per page."""
SIZE: Final = 4_000_000
"""Most bytes per page, unless its only row is larger."""
MOST: Final = 200
"""How many findings are kept; further ones are only counted."""

_VERSION, _POSITION, _COUNT, _CURSOR = 3, 4, 5, 6


class ChainPass:
    """The state and the findings of the pass. Its size does not grow with the log.

    It checks rows, their chain and their positions, not the content of events; `Examination` checks the rest.
    """

    def __init__(self, rows: int = ROWS) -> None:
        """Start before the first row, with `rows` rows per page."""
        self._rows = rows
        self.number = 0
        """The number of the last row checked."""
        self.position = 0
        """The position of the last event checked."""
        self.findings: list[Finding] = []
        self.more = 0
        """How many findings were not kept."""
        self._next = 1
        self._reported_streams: set[str] = set()
        self._epoch_order: EpochOrder | None = None

    def advance(self, evidence: Evidence, pause: Callable[[], object]) -> dict[str, int]:
        """Check the next page, calling `pause` before each row; return its streams with their last positions.

        The result is empty at the end of the log.

        Raises:
            StorageError: the log cannot be read.
        """
        if evidence.shards and self._epoch_order is None:
            self._epoch_order = EpochOrder(evidence.shards)
        groups: dict[bytes, list[Cells]] = {}
        page = evidence.page(self.number, rows=self._rows, size=SIZE)
        for row in page:
            self._check_position(row)
            name = row[0]
            groups.setdefault(bytes(name) if isinstance(name, bytes | bytearray) else repr(name).encode(), []).append(
                row
            )
        for stream, rows in groups.items():
            self._check_stream(evidence, stream, rows, pause)
        if page:
            self.number = page[-1][1]
        return {text_of(stream): _last_position(rows[-1]) for stream, rows in groups.items()}

    def end(self) -> None:
        """Add the findings that are known only once all rows have been checked."""
        for finding in () if self._epoch_order is None else self._epoch_order.findings():
            self._add_finding(finding)

    def _check_stream(self, evidence: Evidence, stream: bytes, rows: list[Cells], pause: Callable[[], object]) -> None:
        name = text_of(stream)
        version, cursor = rows[0][_VERSION], rows[0][_CURSOR]
        is_placed = type(version) is int and type(cursor) is int
        behind = evidence.behind(name, version, cursor) if is_placed else BEGINNING

        def with_pauses() -> Iterator[Cells]:
            for row in rows:
                pause()
                yield row

        seen = None if self._epoch_order is None else self._epoch_order.add
        finding = StreamWalk(stream, with_pauses(), text=evidence.text, seen=seen, behind=behind).check_rest()
        if finding is not None:
            self._add_finding(finding)

    def _check_position(self, row: Cells) -> None:
        """Check that the row's position follows the previous one: positions have no gaps."""
        position, count = row[_POSITION], row[_COUNT]
        if type(position) is not int or type(count) is not int:  # these cells are checked with the row's stream
            return
        if position != self._next:
            problem = f"position {self._next} is missing: the next row has position {position}"
            self._add_finding(Finding("log", "", self._next, problem, position))
        self._next = position + count
        self.position = max(self.position, self._next - 1)

    def _add_finding(self, finding: Finding) -> None:
        """Add a finding, unless its stream already has one."""
        if finding.name in self._reported_streams:
            return
        if len(self.findings) == MOST:
            self.more += 1
            return
        self._reported_streams.add(finding.name)
        self.findings.append(finding)


def _last_position(row: Cells) -> int:
    position, count = row[_POSITION], row[_COUNT]
    return position + count - 1 if type(position) is int and type(count) is int else 0
