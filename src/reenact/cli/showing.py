"""Values shown to a person who is to decide about them: whole if they want, and so that nothing passes for ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from reenact.cli.exact import in_ascii, lines_of, may_be_reordered, seen

SHOWN: Final = 20
"""So many lines are shown without being asked for."""
MARGIN: Final = "  "
_REORDERED: Final = "Some of it is written from right to left, and may be shown in another order. In ASCII it is:"

Say: TypeAlias = Callable[..., object]
"""Says a line that is ours, perhaps in a style."""


def show(value: Mapping[str, Any], width: int, most: int | None, *, write: Callable[[str], object], say: Say) -> None:
    """Write the lines of a value, at most so many, in a margin; say what else there is to know of them.

    What a terminal may show in another order is written in ASCII too.
    """
    for escape in (seen, in_ascii) if may_be_reordered(value) else (seen,):
        if escape is in_ascii:
            say(_REORDERED)
        lines = lines_of(value, width - len(MARGIN), escape)
        shown = lines if most is None or len(lines) <= most + 1 else lines[:most]
        for line in shown:
            write(f"{MARGIN}{line}")
        if len(shown) < len(lines):
            say(f"… {len(lines) - len(shown)} more lines, press v to view", "yellow")
