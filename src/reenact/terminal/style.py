"""Text styles, shared by the parser of escape sequences and the cells of a screen."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

Underline: TypeAlias = Literal["single", "double", "curly", "dotted", "dashed"]

NAMED: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
"""The first eight colours of the palette; the next eight are these with `bright_` before them."""


class ANSIStyle(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rendition that "select graphic rendition" sets (ECMA-48 8.3.117, and what xterm added).

    A colour is None for the default one, a name (`red`, `bright_red`), `color16` to `color255` for the rest of the
    palette, or `#rrggbb`. An `underline` is False or the name of its shape.
    """

    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: Underline | Literal[False] = False
    blink: bool = False
    inverse: bool = False
    hidden: bool = False
    strikethrough: bool = False
    overline: bool = False
    foreground: str | None = None
    background: str | None = None
    underline_color: str | None = None


PLAIN: Final = ANSIStyle()


def palette_color(index: int) -> str:
    """Return the name of a colour of the palette, 0 to 255.

    Raises:
        ValueError: the palette has no such colour.
    """
    if not 0 <= index <= 255:  # noqa: PLR2004 - the palette
        raise ValueError(f"a palette has the colours 0 to 255, not {index}")
    if index < len(NAMED):
        return NAMED[index]
    if index < 2 * len(NAMED):
        return f"bright_{NAMED[index - len(NAMED)]}"
    return f"color{index}"


def rgb_color(red: int, green: int, blue: int) -> str:
    """Return the colour as `#rrggbb`."""
    return f"#{red:02x}{green:02x}{blue:02x}"
