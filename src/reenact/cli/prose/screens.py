"""What a screen can show at this moment: so many columns, these styles, these characters."""

from __future__ import annotations

import io
import os
from typing import Final, TypeAlias

from rich.console import COLOR_SYSTEMS
from rich.console import Console as Screen
from rich.style import Style

_COLUMNS, _ROWS = 80, 24
"""The size of a terminal that does not say which it has."""
_INSIDE: Final = "x"

Pen: TypeAlias = tuple[str, str]
"""What is written before and after a text to give it a style."""


def size_of(screen: Screen) -> tuple[int, int]:
    """Return how many columns and rows the terminal has now, whatever the environment says.

    80 and 24 if that cannot be told.
    """
    try:
        columns, rows = os.get_terminal_size(screen.file.fileno())
    except io.UnsupportedOperation:  # it is in memory, and has the size that it was given
        columns, rows = screen.size
    except (OSError, ValueError):
        columns, rows = 0, 0
    return columns if columns > 0 else _COLUMNS, rows if rows > 0 else _ROWS


def width_of(screen: Screen) -> int:
    """Return how many columns the terminal has now, whatever the environment says; 80 if that cannot be told."""
    return size_of(screen)[0]


def can_be_styled(screen: Screen) -> bool:
    """Return whether it is a terminal on which more than plain text can be shown."""
    return screen.file.isatty() and screen.is_terminal and not screen.is_dumb_terminal


def can_show(screen: Screen, text: str) -> bool:
    """Return whether the characters can be written there."""
    try:
        text.encode(screen.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


class Pens:
    """Styles as the sequences of the screen, which has colours or not."""

    def __init__(self, screen: Screen) -> None:
        self._system = COLOR_SYSTEMS.get(screen.color_system or "")
        self._has_colors = not screen.no_color
        self._pens: dict[str, Pen] = {"": ("", "")}

    def __call__(self, style: str) -> Pen:
        """Return the pen of a style in rich's words."""
        pen = self._pens.get(style)
        if pen is None:
            pen = self._pens[style] = self.of(Style.parse(style))
        return pen

    def of(self, style: Style | None) -> Pen:
        """Return the pen of a style."""
        if style is None:
            return ("", "")
        shown = style if self._has_colors else style.without_color
        before, _, after = shown.render(_INSIDE, color_system=self._system).partition(_INSIDE)
        return before, after
