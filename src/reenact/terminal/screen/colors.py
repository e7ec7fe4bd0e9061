"""What the colours of a palette look like."""

from __future__ import annotations

import re
from typing import Final

from reenact.terminal.style import palette_color, rgb_color

FOREGROUND: Final = "#e5e5e5"
BACKGROUND: Final = "#16161d"
_BASIC: Final = (
    *("#3b3b46", "#e05561", "#8cc265", "#d1a152", "#5fa8f5", "#c678dd", "#42b3c2", "#d7dae0"),
    *("#7d8590", "#ff7b86", "#a5e075", "#f0c674", "#7cc0ff", "#de9bff", "#5fd7e6", "#ffffff"),
)
"""The first sixteen have no agreed look: these can be read on the background above."""
_CUBE: Final = (0, 95, 135, 175, 215, 255)
_RGB: Final = re.compile(r"#[0-9a-fA-F]{6}")


def _palette() -> dict[str, str]:
    cube = [rgb_color(red, green, blue) for red in _CUBE for green in _CUBE for blue in _CUBE]
    grays = [rgb_color(level, level, level) for level in range(8, 248, 10)]
    return {palette_color(index): color for index, color in enumerate((*_BASIC, *cube, *grays))}


_PALETTE: Final = _palette()


def shown_color(color: str | None, default: str) -> str:
    """Return `#rrggbb` for a colour of a style; the default for None, and for what is no colour."""
    if color is None:
        return default
    if _RGB.fullmatch(color):
        return color.lower()
    return _PALETTE.get(color, default)
