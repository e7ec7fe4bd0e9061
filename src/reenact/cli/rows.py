"""Lines for people, broken between their words."""

from __future__ import annotations

import re
from typing import Final

from rich.cells import cell_len

_WORD: Final = re.compile(r"\s*\S+")


def in_rows(line: str, width: int) -> str:
    """Return the line, broken between words only: what no row has room for, such as an id, can be copied whole."""
    rows = [""]
    for word in _WORD.findall(line):
        if rows[-1] and cell_len(f"{rows[-1]}{word}") > width >= cell_len(word.lstrip()):
            rows.append(word.lstrip())
        else:
            rows[-1] += word
    return "\n".join(rows)
