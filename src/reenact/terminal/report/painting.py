"""What a program wrote, as HTML: its colours and styles as classes, and the rules for those that were used."""

from __future__ import annotations

from html import escape
from typing import Final

from reenact.terminal.ansi.parser import ANSIParser
from reenact.terminal.report.characters import plain_lines, with_newlines
from reenact.terminal.style import NAMED, ANSIStyle

PAPER: Final = "#16181d"
INK: Final = "#e4e6eb"
MOST_COLORS: Final = 4096
"""Colours that get a rule of their own; text in yet another one has that of the rest."""
PALETTE: Final = {
    "black": "#8a8f98",  # for text; a background is really black, and so is text on another one
    "red": "#ff7b72",
    "green": "#4ec26b",
    "yellow": "#d9b13b",
    "blue": "#79b0ff",
    "magenta": "#d69cff",
    "cyan": "#4fc4cf",
    "white": "#d0d4db",
    "bright_black": "#949aa5",
    "bright_red": "#ffa198",
    "bright_green": "#7ee29a",
    "bright_yellow": "#f2d06b",
    "bright_blue": "#a8ccff",
    "bright_magenta": "#e6c1ff",
    "bright_cyan": "#7fdde6",
    "bright_white": "#ffffff",
}
"""The first sixteen colours, all of them to be read on `PAPER`."""
STYLES: Final = """\
.bold { font-weight: bold; }
.dim { opacity: 0.75; }
.italic { font-style: italic; }
.underline { text-decoration-line: underline; }
.underline.struck { text-decoration-line: underline line-through; }
.struck { text-decoration-line: line-through; }
.double { text-decoration-style: double; }
.curly { text-decoration-style: wavy; }
.dotted { text-decoration-style: dotted; }
.dashed { text-decoration-style: dashed; }
.over { border-top: 1px solid; }
.concealed { outline: 1px dotted; }
"""
_CUBE: Final = (0, 95, 135, 175, 215, 255)
_GREYS: Final = 232
_DARK: Final = 0.179
"""The luminance at which black and white text are equally well to be read (WCAG 2.2, contrast ratio)."""


class Painter:
    """Paints text; remembers which colours it used."""

    def __init__(self) -> None:
        self._inks: set[str] = set()
        self._papers: set[str] = set()

    def paint(self, output: str) -> str:
        """Return the text of the output, escaped, in spans with classes."""
        painted: list[str] = []
        for token in ANSIParser().parse(with_newlines(output)):
            if token.type != "text":
                continue
            text = escape(plain_lines(token.content))
            classes = " ".join(self._classes(token.style))
            painted.append(f'<span class="{classes}">{text}</span>' if classes else text)
        return "".join(painted)

    def rules(self) -> str:
        """Return the CSS for all colours that were used; a text's own colour counts more than its background's."""
        papers = "".join(
            f".{_class('bg', name)} {{ background-color: {paper}; color: {readable_on(paper)}; }}\n"
            for name in sorted(self._papers)
            for paper in ["#000000" if name == "black" else color(name)]
        )
        inks = "".join(f".{_class('fg', name)} {{ color: {color(name)}; }}\n" for name in sorted(self._inks))
        return papers + inks + ".fg-black.on { color: #000000; }\n"

    def _classes(self, style: ANSIStyle) -> list[str]:
        ink, paper = style.foreground, style.background
        if style.inverse:
            ink, paper = paper or "paper", ink or "ink"
        chosen = (
            ("bold", style.bold),
            ("dim", style.dim),
            ("italic", style.italic),
            ("underline", style.underline),
            (str(style.underline), style.underline not in {False, "single"}),
            ("struck", style.strikethrough),
            ("over", style.overline),
            ("concealed", style.hidden),
            ("on", paper),
        )
        return (
            [name for name, has in chosen if has]
            + self._used("fg", ink, self._inks)
            + self._used("bg", paper, self._papers)
        )

    def _used(self, kind: str, name: str | None, known: set[str]) -> list[str]:
        if name is None or (name not in known and len(known) >= MOST_COLORS):
            return []
        known.add(name)
        return [_class(kind, name)]


def color(name: str) -> str:
    """Return a colour of `ANSIStyle` as `#rrggbb`, or the ink or the paper of the page."""
    if name.startswith("#"):
        return name
    if name in PALETTE:
        return PALETTE[name]
    if not name.startswith("color"):
        return PAPER if name == "paper" else INK
    index = int(name.removeprefix("color"))
    if index >= _GREYS:
        return f"#{8 + 10 * (index - _GREYS):02x}" + f"{8 + 10 * (index - _GREYS):02x}" * 2
    red, green, blue = (_CUBE[(index - 2 * len(NAMED)) // place % 6] for place in (36, 6, 1))
    return f"#{red:02x}{green:02x}{blue:02x}"


def luminance(rgb: str) -> float:
    """Return the relative luminance of `#rrggbb`, 0 to 1, as WCAG 2.2 defines it."""
    red, green, blue = (_linear(int(rgb[place : place + 2], 16) / 255) for place in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def readable_on(paper: str) -> str:
    """Return black or white, whichever is better to be read on the colour."""
    return "#000000" if luminance(paper) > _DARK else "#ffffff"


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)  # noqa: PLR2004 - sRGB


def _class(kind: str, name: str) -> str:
    return f"{kind}-{name.lstrip('#')}"
