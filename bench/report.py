"""The tables: on the terminal while it runs, and as Markdown in a page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from bench.measure import Result

_HEAD: Final = ("workload", "Reenact", "peer", "ratio", "target", "met")
_WIDTHS: Final = (52, 20, 32, 7, 12, 3)


def head() -> str:
    """Return the head of a table on the terminal."""
    return _aligned(_HEAD)


def row(result: Result) -> str:
    """Return a row of a table on the terminal."""
    return _aligned(_cells(result))


def markdown(results: Iterable[Result]) -> str:
    """Return a table for a page."""
    lines = [_HEAD, ("---", "---:", "---:", "---:", "---:", "---"), *(_cells(result) for result in results)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_into(page: Path, group: str, table: str) -> bool:
    """Write the table between the markers of its group; return False if the page has no such markers."""
    begin, end = f"<!-- bench {group} -->\n", f"<!-- /bench {group} -->\n"
    text = page.read_text(encoding="utf-8")
    before, found, rest = text.partition(begin)
    if not found:
        return False
    _, _, after = rest.partition(end)
    page.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")
    return True


def _aligned(cells: tuple[str, ...]) -> str:
    columns = zip(cells, _WIDTHS, strict=True)
    return "  ".join(
        cell.ljust(width) if number in (0, 5) else cell.rjust(width) for number, (cell, width) in enumerate(columns)
    )


def _cells(result: Result) -> tuple[str, ...]:
    line = result.line
    peer = "" if result.peer is None else f"{line.peer} {_figure(result.peer)}"
    ratio = "" if result.ratio is None else f"{result.ratio:,.{0 if result.ratio >= 100 else 2}f}"
    met = {None: "", True: "yes", False: "no"}[result.met]
    return line.name, f"{_figure(result.ours)} {line.unit}", peer, ratio, str(line.goal or ""), met


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:,.3g}"
