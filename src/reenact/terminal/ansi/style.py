"""Text styles and the sequences that set them: SGR (ECMA-48 8.3.117, T.416 for colours, xterm), save and restore."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import msgspec

Underline: TypeAlias = Literal["single", "double", "curly", "dotted", "dashed"]

NAMED = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
"""The first eight colours of the palette; the next eight have the prefix `bright_`."""


class ANSIStyle(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rendition that "select graphic rendition" sets (ECMA-48 8.3.117, and xterm's additions).

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


PLAIN = ANSIStyle()


def palette_color(index: int) -> str:
    """Return the name of a colour of the palette, 0 to 255."""
    if index < len(NAMED):
        return NAMED[index]
    if index < 2 * len(NAMED):
        return f"bright_{NAMED[index - len(NAMED)]}"
    return f"color{index}"


def rgb_color(red: int, green: int, blue: int) -> str:
    """Return the colour as `#rrggbb`."""
    return f"#{red:02x}{green:02x}{blue:02x}"


_PALETTE = frozenset(map(palette_color, range(256)))
_RGB = re.compile("#[0-9a-f]{6}")


def is_color(value: object) -> bool:
    """Tell whether a style can have this colour."""
    return value is None or (isinstance(value, str) and (value in _PALETTE or _RGB.fullmatch(value) is not None))


_SHAPES: Final[tuple[Underline | bool, ...]] = (False, "single", "double", "curly", "dotted", "dashed")
_COLORED = {38: "foreground", 48: "background", 58: "underline_color"}
_CHANGES: Final[dict[int, dict[str, object]]] = {
    1: {"bold": True},
    2: {"dim": True},
    3: {"italic": True},
    4: {"underline": "single"},
    5: {"blink": True},
    6: {"blink": True},
    7: {"inverse": True},
    8: {"hidden": True},
    9: {"strikethrough": True},
    21: {"underline": "double"},
    22: {"bold": False, "dim": False},
    23: {"italic": False},
    24: {"underline": False},
    25: {"blink": False},
    27: {"inverse": False},
    28: {"hidden": False},
    29: {"strikethrough": False},
    **{30 + index: {"foreground": palette_color(index)} for index in range(8)},
    39: {"foreground": None},
    **{40 + index: {"background": palette_color(index)} for index in range(8)},
    49: {"background": None},
    53: {"overline": True},
    55: {"overline": False},
    59: {"underline_color": None},
    **{90 + index: {"foreground": palette_color(8 + index)} for index in range(8)},
    **{100 + index: {"background": palette_color(8 + index)} for index in range(8)},
}
_UNDERLINE = 4
_DIRECT = 2
_INDEXED = 5
_LARGEST = 255


def after_sgr(style: ANSIStyle, text: str) -> ANSIStyle:
    """Return the style after `CSI text m`.

    Unknown or malformed parameters have no effect: a colour with too few numbers or one above 255, sub-parameters where
    there are none, and the parameters after 38, 48 or 58 that would belong to the colour.
    """
    changes: dict[str, object] = {}
    given = parameters(text) or ((None,),)
    at = 0
    while at < len(given):
        code, *details = given[at]
        code = code or 0
        at += 1
        if code in _COLORED:
            color, taken = (_color(details), 0) if details else _color_behind(given, at)
            at += taken
            if color is not None:
                changes[_COLORED[code]] = color
        elif details:
            if code == _UNDERLINE and len(details) == 1 and (shape := details[0]) is not None and shape < len(_SHAPES):
                changes["underline"] = _SHAPES[shape]
        elif code == 0:
            style = PLAIN
            changes.clear()
        else:
            changes.update(_CHANGES.get(code, {}))
    return msgspec.structs.replace(style, **changes)


def _color_behind(given: Parameters, at: int) -> tuple[str | None, int]:
    """Return the colour in the parameters from this index on, as in `38;5;1`, and how many of them belong to it."""
    if at == len(given) or len(given[at]) > 1:
        return None, 0
    taken = {_DIRECT: 4, _INDEXED: 2}.get(given[at][0] or 0, 1)
    belonging = given[at : at + taken]
    if any(len(parameter) > 1 for parameter in belonging):
        return None, taken
    return _color([parameter[0] for parameter in belonging]), taken


def _color(details: Sequence[int | None]) -> str | None:
    """Return the colour for `5, index`, `2, red, green, blue` or `2, space, red, green, blue, ...`, or None."""
    match details:
        case [5, int(index)] if index <= _LARGEST:
            return palette_color(index)
        case [2, int(red), int(green), int(blue)] | [2, _, int(red), int(green), int(blue), *_] if (
            max(red, green, blue) <= _LARGEST
        ):
            return rgb_color(red, green, blue)
        case _:
            return None


Parameters: TypeAlias = tuple[tuple[int | None, ...], ...]

_LARGEST_PARAMETER = 65_535
"""Larger parameters count as this one, as in xterm."""

_CONTROL = re.compile(
    r"(?:\x1b\[|\x9b)(?P<private>[<-?]*)(?P<parameters>[0-9:;]*)(?P<intermediates>[ -/]*)(?P<final>[@-~])"
)

_EXECUTED = re.compile(r"(?!^)[\x00-\x1a\x1c-\x1f\x7f]+")

_DIGITS = len(str(_LARGEST_PARAMETER))


def control(content: str) -> re.Match[str] | None:
    """Return the parts of a complete control sequence, or None if they are not in a valid order.

    Control characters within it, which a terminal executes (C0) or ignores (DEL), are left out.
    """
    return _CONTROL.fullmatch(content) or _CONTROL.fullmatch(without_executed(content))


def without_executed(content: str) -> str:
    """Return the sequence without the control characters within it."""
    return _EXECUTED.sub("", content)


def parameters(text: str) -> Parameters:
    """Parse a parameter string into numbers, in the form of `ANSIToken.params`."""
    if not text:
        return ()
    return tuple(tuple(_number(digits) for digits in parameter.split(":")) for parameter in text.split(";"))


def _number(digits: str) -> int | None:
    if not digits:
        return None
    significant = digits.lstrip("0")
    return _LARGEST_PARAMETER if len(significant) > _DIGITS else min(int(significant or "0"), _LARGEST_PARAMETER)


_CACHED_STYLES = 4096


class Rendition:
    """The current style, and the one that was saved with the cursor.

    SGR sets the style; DECSC and DECRC (ESC 7, ESC 8) and `CSI s` and `CSI u` save and restore it; RIS (ESC c) and
    DECSTR (`CSI ! p`) reset it. Nothing else changes it.
    """

    def __init__(self) -> None:
        self.style: ANSIStyle = PLAIN
        self._saved: ANSIStyle = PLAIN

    def control(self, content: str) -> ANSIStyle:
        """Apply a control sequence; return the style after it."""
        match content[-1]:
            case "m":
                self.style = _style_after(self.style, content)
            case "s" | "u" | "p":
                parts = control(content)
                if parts is not None:
                    self._apply(parts["private"] + parts["parameters"] + parts["intermediates"] + parts["final"])
            case _:
                pass
        return self.style

    def escape(self, content: str) -> ANSIStyle:
        """Apply an escape sequence; return the style after it."""
        if content[-1] in "78c":
            self._apply(without_executed(content))
        return self.style

    def _apply(self, what: str) -> None:
        match what:
            case "s" | "\x1b7":
                self._saved = self.style
            case "u" | "\x1b8":
                self.style = self._saved
            case "!p" | "\x1bc":
                self.style = self._saved = PLAIN
            case _:
                pass


@lru_cache(maxsize=_CACHED_STYLES)
def _style_after(style: ANSIStyle, content: str) -> ANSIStyle:
    parts = control(content)
    if parts is None or parts["private"] or parts["intermediates"]:
        return style
    return after_sgr(style, parts["parameters"])
