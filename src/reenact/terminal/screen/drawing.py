"""Draws a screen as SVG: colours, text, and box-drawing characters as shapes without gaps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from reenact.terminal.ansi.style import ANSIStyle, Underline, palette_color, rgb_color
from reenact.terminal.screen.model import Cell, Cursor, Screen

FOREGROUND = "#e5e5e5"
BACKGROUND = "#16161d"
_BASIC = (
    *("#3b3b46", "#e05561", "#8cc265", "#d1a152", "#5fa8f5", "#c678dd", "#42b3c2", "#d7dae0"),
    *("#7d8590", "#ff7b86", "#a5e075", "#f0c674", "#7cc0ff", "#de9bff", "#5fd7e6", "#ffffff"),
)
"""The first sixteen colours are not standardised; these are legible on the background above."""
_CUBE = (0, 95, 135, 175, 215, 255)
_RGB = re.compile(r"#[0-9a-fA-F]{6}")


def _palette() -> dict[str, str]:
    cube = [rgb_color(red, green, blue) for red in _CUBE for green in _CUBE for blue in _CUBE]
    grays = [rgb_color(level, level, level) for level in range(8, 248, 10)]
    return {palette_color(index): color for index, color in enumerate((*_BASIC, *cube, *grays))}


_PALETTE = _palette()


def shown_color(color: str | None, default: str) -> str:
    """Return `#rrggbb` for a colour of a style; the default for None and for an unknown colour."""
    if color is None:
        return default
    if _RGB.fullmatch(color):
        return color.lower()
    return _PALETTE.get(color, default)


_LIGHT = "─│┌┐└┘├┤┬┴┼╴╵╶╷"
_HEAVY = "━┃┏┓┗┛┣┫┳┻╋╸╹╺╻"
_REACHES = ("lr", "ud", "rd", "ld", "ru", "lu", "rud", "lud", "lrd", "lru", "lrud", "l", "u", "r", "d")
"""The sides that each of them reaches from the middle of its cell: left, right, up, down."""
_ARCS = {"╭": "rd", "╮": "ld", "╰": "ru", "╯": "lu"}


class Lines(NamedTuple):
    """The lines of a box-drawing character: the sides they reach, their width, and whether they form an arc."""

    sides: str
    width: int = 1
    bends: bool = False


LINES = {
    **{character: Lines(sides) for character, sides in zip(_LIGHT, _REACHES, strict=True)},
    **{character: Lines(sides, 2) for character, sides in zip(_HEAVY, _REACHES, strict=True)},
    **{character: Lines(sides, bends=True) for character, sides in _ARCS.items()},
}
"""The lines of the box-drawing characters."""


_CELL_WIDTH = 9
_CELL_HEIGHT = 18
_BASELINE = 13
_UNDERLINE = 15
_MARGIN = 9
"""In pixels: the size of a cell, the baseline and underline of its text, and the margin around the screen."""
_UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\t\n\r]")
_STYLE = (
    "text{font:15px monospace;white-space:pre}"
    ".b{font-weight:bold}.i{font-style:italic}.d{opacity:.6}"
    "path{fill:none;stroke-width:1}.h{stroke-width:2}"
)
_DASHES: Final[dict[Underline, str]] = {"dotted": "1 2", "dashed": "4 2"}


class _TextRun(NamedTuple):
    """Cells of a row that are drawn together."""

    row: int
    column: int
    width: int
    text: str
    style: ANSIStyle

    @property
    def x(self) -> int:
        return self.column * _CELL_WIDTH

    @property
    def y(self) -> int:
        return self.row * _CELL_HEIGHT


def svg(screen: Screen) -> str:
    """Return a picture of the screen as self-contained, well-formed XML, whatever the screen contains.

    Text remains text, except the lines of boxes and tables. The picture has its own background, so that it is legible
    on dark and light pages. Characters that XML does not allow become U+FFFD. Hidden text is left out; blinking text
    does not blink.
    """
    width, height = screen.columns * _CELL_WIDTH, screen.rows * _CELL_HEIGHT
    full = f'width="{width + 2 * _MARGIN}" height="{height + 2 * _MARGIN}"'
    box = f"{-_MARGIN} {-_MARGIN} {width + 2 * _MARGIN} {height + 2 * _MARGIN}"
    title = screen.title or f"A terminal of {screen.columns} columns and {screen.rows} rows"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {full} viewBox="{box}" role="img" xml:space="preserve">',
        f"<title>{_xml_text(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect x="{-_MARGIN}" y="{-_MARGIN}" {full} rx="6" fill="{BACKGROUND}"/>',
    ]
    for row, cells in enumerate(screen.cells):
        runs = tuple(_runs(row, cells))
        lines += (drawn for run in runs for drawn in _background(run))
        lines += (drawn for run in runs for drawn in _foreground(run))
    lines += _cursor(screen.cursor, screen)
    return "\n".join([*lines, "</svg>", ""])


def _runs(row: int, cells: Iterable[Cell]) -> Iterator[_TextRun]:
    """Yield runs of cells with the same style; a character that fonts may draw in another width is a run of its own."""
    run: _TextRun | None = None
    column = 0
    for cell in cells:
        if cell.width:
            joins = run is not None and run.style == cell.style and run.text.isascii() and len(cell.text) == 1
            if run is not None and joins and cell.text.isascii() and cell.width == 1:
                run = run._replace(width=run.width + 1, text=run.text + cell.text)
            else:
                if run is not None:
                    yield run
                run = _TextRun(row, column, cell.width, cell.text, cell.style)
        column += cell.width
    if run is not None:
        yield run


def _background(run: _TextRun) -> Iterator[str]:
    _, background = shown_colors(run.style)
    if background != BACKGROUND:
        width = run.width * _CELL_WIDTH
        yield f'<rect x="{run.x}" y="{run.y}" width="{width}" height="{_CELL_HEIGHT}" fill="{background}"/>'


def _foreground(run: _TextRun) -> Iterator[str]:
    style = run.style
    color, _ = shown_colors(style)
    lines = LINES.get(run.text)
    if lines is not None and not style.hidden:
        classes = [name for name, on in (("h", lines.width > 1), ("d", style.dim)) if on]
        yield f'<path d="{_outline(lines, run)}" stroke="{color}"{_class_attribute(classes)}/>'
    elif (text := run.text.strip(" ")) and not style.hidden:
        look = _class_attribute([name for name, on in (("b", style.bold), ("i", style.italic), ("d", style.dim)) if on])
        before = len(run.text) - len(run.text.lstrip(" "))
        width = run.width - (len(run.text) - len(text))
        yield (
            f'<text x="{run.x + before * _CELL_WIDTH}" y="{run.y + _BASELINE}" textLength="{width * _CELL_WIDTH}" '
            f'lengthAdjust="spacingAndGlyphs" fill="{color}"{look}>{_xml_text(text)}</text>'
        )
    if style.underline:
        yield from _underline(run, style.underline, shown_color(style.underline_color, color))
    for on, y in ((style.strikethrough, _CELL_HEIGHT // 2), (style.overline, 1)):
        if on:
            yield _line(run, y, color)


def _outline(lines: Lines, run: _TextRun) -> str:
    """Return the SVG path of these lines in the cell of the run."""
    x, y = run.x, run.y
    middle, center = f"{x + _CELL_WIDTH / 2:g}", f"{y + _CELL_HEIGHT // 2}.5"
    ends = {
        "l": f"{x} {center}",
        "r": f"{x + _CELL_WIDTH} {center}",
        "u": f"{middle} {y}",
        "d": f"{middle} {y + _CELL_HEIGHT}",
    }
    first, *others = (ends[side] for side in lines.sides)
    if lines.bends:
        return f"M{first}Q{middle} {center} {others[0]}"
    through = f"M{first}L{middle} {center}" + "".join(f"L{end}" for end in others[:1])
    return through + "".join(f"M{middle} {center}L{end}" for end in others[1:])


def _class_attribute(names: Sequence[str]) -> str:
    return f' class="{" ".join(names)}"' if names else ""


def _underline(run: _TextRun, shape: Underline, color: str) -> Iterator[str]:
    if shape == "curly":
        waves = "q1.125 -2 2.25 0t2.25 0" * (2 * run.width)
        yield f'<path d="M{run.x} {run.y + _UNDERLINE}.5{waves}" stroke="{color}"/>'
        return
    yield _line(run, _UNDERLINE, color, _DASHES.get(shape))
    if shape == "double":
        yield _line(run, _UNDERLINE + 2, color)


def _line(run: _TextRun, y: int, color: str, dashes: str | None = None) -> str:
    dashed = "" if dashes is None else f' stroke-dasharray="{dashes}"'
    return f'<path d="M{run.x} {run.y + y}.5h{run.width * _CELL_WIDTH}" stroke="{color}"{dashed}/>'


def _cursor(cursor: Cursor, screen: Screen) -> Iterator[str]:
    if cursor.visible and cursor.row < screen.rows and cursor.column < screen.columns:
        width = max(screen.cells[cursor.row][cursor.column].width, 1) * _CELL_WIDTH
        x, y = cursor.column * _CELL_WIDTH, cursor.row * _CELL_HEIGHT
        yield f'<rect x="{x}" y="{y}" width="{width}" height="{_CELL_HEIGHT}" fill="{FOREGROUND}" fill-opacity=".5"/>'


def shown_colors(style: ANSIStyle) -> tuple[str, str]:
    """Return the colours of the text and of its background, as `#rrggbb`."""
    foreground, background = shown_color(style.foreground, FOREGROUND), shown_color(style.background, BACKGROUND)
    return (background, foreground) if style.inverse else (foreground, background)


def _xml_text(text: str) -> str:
    return escape(_UNWRITABLE.sub("\ufffd", text))
