"""Lines of boxes and tables as shapes: fonts draw them in heights of their own, which leaves gaps between rows."""

from __future__ import annotations

from typing import Final, NamedTuple

_LIGHT: Final = "─│┌┐└┘├┤┬┴┼╴╵╶╷"
_HEAVY: Final = "━┃┏┓┗┛┣┫┳┻╋╸╹╺╻"
_REACHES: Final = ("lr", "ud", "rd", "ld", "ru", "lu", "rud", "lud", "lrd", "lru", "lrud", "l", "u", "r", "d")
"""How far each of them reaches from the middle of its cell: left, right, up, down."""
_ARCS: Final = {"╭": "rd", "╮": "ld", "╰": "ru", "╯": "lu"}


class Lines(NamedTuple):
    """What a character is made of: the sides that it reaches, how wide its lines are, and whether it bends."""

    sides: str
    width: int = 1
    bends: bool = False


_LINES: Final = {
    **{character: Lines(sides) for character, sides in zip(_LIGHT, _REACHES, strict=True)},
    **{character: Lines(sides, 2) for character, sides in zip(_HEAVY, _REACHES, strict=True)},
    **{character: Lines(sides, bends=True) for character, sides in _ARCS.items()},
}


def lines_of(character: str) -> Lines | None:
    """Return the lines that the character consists of, None if it is of another kind."""
    return _LINES.get(character)


def outline(lines: Lines, x: int, y: int, width: int, height: int) -> str:
    """Return the path, as SVG has it, of these lines in the cell with this corner and this size."""
    middle, center = f"{x + width / 2:g}", f"{y + height // 2}.5"
    ends = {"l": f"{x} {center}", "r": f"{x + width} {center}", "u": f"{middle} {y}", "d": f"{middle} {y + height}"}
    first, *others = (ends[side] for side in lines.sides)
    if lines.bends:
        return f"M{first}Q{middle} {center} {others[0]}"
    through = f"M{first}L{middle} {center}" + "".join(f"L{end}" for end in others[:1])
    return through + "".join(f"M{middle} {center}L{end}" for end in others[1:])
