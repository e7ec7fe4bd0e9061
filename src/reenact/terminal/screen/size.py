"""How large a screen may be."""

from __future__ import annotations

from typing import Final

from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType

LONGEST: Final = 10_000
"""Columns and rows at most."""
LARGEST: Final = 1_000_000
"""Cells at most: a picture of them all is taken whenever a screen is looked at."""


def checked_size(columns: int, rows: int) -> tuple[int, int]:
    """Return columns and rows.

    Raises:
        TerminalTestError: `INVALID_CONFIG`; no screen has this size.
    """
    for name, value in (("cols", columns), ("rows", rows)):
        if not 1 <= value <= LONGEST:
            raise TerminalTestError(
                TerminalTestErrorType.INVALID_CONFIG,
                f"{name} is {value}; a terminal has between 1 and {LONGEST:,}, 80 columns and 24 rows for instance",
            )
    if columns * rows > LARGEST:
        raise TerminalTestError(
            TerminalTestErrorType.INVALID_CONFIG,
            f"cols and rows are {columns} and {rows}; together they may make {LARGEST:,} cells at most",
        )
    return columns, rows
