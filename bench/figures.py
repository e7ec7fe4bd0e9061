"""Statistics of a large log: the time for costs by day, model and tool, as a page shows them, and for all figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.large_log import SESSIONS, TURNS, write_large_log
from bench.measure import Line, Sample, Workload, at_most, must
from reenact import Runtime
from reenact._location import location_of
from reenact._runtime import codec
from reenact.projections.read_model.reader_tables import ReaderTables
from reenact.projections.read_model.rows import DAY
from reenact.projections.statistics.counting import statistics_of
from reenact.projections.statistics.selection import ALL
from reenact.projections.statistics.spending import by_time, by_tool


def workloads(*, quick: bool) -> list[Workload]:
    """Return what is measured."""
    sessions = SESSIONS // 50 if quick else SESSIONS
    events = "20,000" if quick else "a million"
    lines = (
        Line(f"{events} events: costs by day, model and tool", "ms", goal=at_most(100)),
        Line(f"{events} events: all figures by day", "ms"),
    )

    def measure(directory: Path, _number: int) -> Sequence[Sample]:
        path = str(directory / "log.db")
        write_large_log(path, sessions, TURNS)
        with Runtime.open(path):  # the tables catch up with the log
            pass
        location = location_of(path)
        with (
            location.open(codec(), read_only=True) as log,
            ReaderTables(location.url, log, location.has_writer, seconds=60) as tables,
        ):
            must(not tables.is_private, "the runtime's tables are read")
            return (
                Sample(_milliseconds(lambda: len(by_time(tables, ALL, DAY)) + len(by_tool(tables, ALL, 12)))),
                Sample(_milliseconds(lambda: len(statistics_of(tables, "day").groups))),
            )

    return [Workload(lines, measure)]


def _milliseconds(count: Callable[[], int]) -> float:
    must(count() > 0, "there is something to count")
    begun = time.perf_counter()
    count()
    return (time.perf_counter() - begun) * 1000
