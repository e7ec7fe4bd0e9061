"""What keys send: xterm's tables, depending on the modes that the program has set.

See "XTerm Control Sequences" (PC-style and VT220-style function keys, bracketed paste) and ECMA-48. As there, modifiers
are a parameter of a function key's sequence, and Alt is a leading escape for all other keys.
"""

from __future__ import annotations

from enum import StrEnum

from reenact.terminal.errors import TerminalTestError, invalid, is_kit_error
from reenact.terminal.screen.model import Modes

__tracebackhide__ = is_kit_error


class SpecialKey(StrEnum):
    """Keys and key combinations that are not characters."""

    ENTER = "enter"
    ESCAPE = "escape"
    TAB = "tab"
    SHIFT_TAB = "shift+tab"
    BACKSPACE = "backspace"
    SPACE = "space"
    UP = "up"
    DOWN = "down"
    RIGHT = "right"
    LEFT = "left"
    HOME = "home"
    END = "end"
    INSERT = "insert"
    DELETE = "delete"
    PAGE_UP = "page_up"
    PAGE_DOWN = "page_down"
    F1 = "f1"
    F2 = "f2"
    F3 = "f3"
    F4 = "f4"
    F5 = "f5"
    F6 = "f6"
    F7 = "f7"
    F8 = "f8"
    F9 = "f9"
    F10 = "f10"
    F11 = "f11"
    F12 = "f12"
    CTRL_A = "ctrl+a"
    CTRL_B = "ctrl+b"
    CTRL_C = "ctrl+c"
    CTRL_D = "ctrl+d"
    CTRL_E = "ctrl+e"
    CTRL_F = "ctrl+f"
    CTRL_G = "ctrl+g"
    CTRL_H = "ctrl+h"
    CTRL_I = "ctrl+i"
    CTRL_J = "ctrl+j"
    CTRL_K = "ctrl+k"
    CTRL_L = "ctrl+l"
    CTRL_M = "ctrl+m"
    CTRL_N = "ctrl+n"
    CTRL_O = "ctrl+o"
    CTRL_P = "ctrl+p"
    CTRL_Q = "ctrl+q"
    CTRL_R = "ctrl+r"
    CTRL_S = "ctrl+s"
    CTRL_T = "ctrl+t"
    CTRL_U = "ctrl+u"
    CTRL_V = "ctrl+v"
    CTRL_W = "ctrl+w"
    CTRL_X = "ctrl+x"
    CTRL_Y = "ctrl+y"
    CTRL_Z = "ctrl+z"
    CTRL_SPACE = "ctrl+space"
    CTRL_LEFT_BRACKET = "ctrl+["
    CTRL_BACKSLASH = "ctrl+\\"
    CTRL_RIGHT_BRACKET = "ctrl+]"
    CTRL_CARET = "ctrl+^"
    CTRL_UNDERSCORE = "ctrl+_"
    KP_0 = "kp_0"
    KP_1 = "kp_1"
    KP_2 = "kp_2"
    KP_3 = "kp_3"
    KP_4 = "kp_4"
    KP_5 = "kp_5"
    KP_6 = "kp_6"
    KP_7 = "kp_7"
    KP_8 = "kp_8"
    KP_9 = "kp_9"
    KP_ADD = "kp_add"
    KP_SUBTRACT = "kp_subtract"
    KP_MULTIPLY = "kp_multiply"
    KP_DIVIDE = "kp_divide"
    KP_DECIMAL = "kp_decimal"
    KP_SEPARATOR = "kp_separator"
    KP_EQUAL = "kp_equal"
    KP_ENTER = "kp_enter"


def encode(key: SpecialKey | str, modes: Modes, *, shift: bool = False, alt: bool = False, ctrl: bool = False) -> bytes:
    """Return what a key sends: a named key, a character, or either with modifiers before it, such as `alt+x`.

    A modifier that has no effect in xterm has none here: Shift+Enter is Enter.

    Raises:
        TerminalTestError: there is no such key, or it sends nothing with these modifiers (`INVALID_CONFIG`).
    """
    name, held = _parse(key)
    held |= {modifier for modifier, on in (("shift", shift), ("alt", alt), ("ctrl", ctrl)) if on}
    if name in _CURSOR:
        introducer = b"\x1bO" if modes.application_cursor else b"\x1b["
        return _function(b"1", _CURSOR[name], held) if held else introducer + _CURSOR[name]
    if name in _SS3:
        return _function(b"1", _SS3[name], held) if held else b"\x1bO" + _SS3[name]
    if name in _NUMBERED:
        return _function(_NUMBERED[name], b"~", held)
    if name == SpecialKey.TAB and "shift" in held:
        sent = b"\x1b[Z"
    elif name in _KEYPAD:
        character, final = _KEYPAD[name]
        sent = b"\x1bO" + final if modes.application_keypad else character
    elif name in _PLAIN:
        sent = _WITH_CTRL.get(name, _PLAIN[name]) if "ctrl" in held else _PLAIN[name]
    else:
        sent = _character(name, held)
    return b"\x1b" + sent if "alt" in held else sent


def paste(text: str, modes: Modes) -> bytes:
    """Return what a pasted text sends: line ends as Enter, and in brackets if the program has enabled them.

    Raises:
        TerminalTestError: the text contains the closing bracket, or cannot be encoded (`INVALID_CONFIG`).
    """
    sent = encoded(text.replace("\r\n", "\r").replace("\n", "\r"))
    if not modes.bracketed_paste:
        return sent
    if _PASTE_END in sent:
        raise _invalid(f"the text holds {_PASTE_END!r}, which would end the paste; no terminal pastes that")
    return b"\x1b[200~" + sent + _PASTE_END


def encoded(text: str) -> bytes:
    """Return the text as UTF-8.

    Raises:
        TerminalTestError: it has lone surrogates (`INVALID_CONFIG`).
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _invalid(
            f"{text[error.start]!r} at {error.start} is not a character and cannot be sent as text; pass bytes"
        ) from error


_PASTE_END = b"\x1b[201~"
_CURSOR = {"up": b"A", "down": b"B", "right": b"C", "left": b"D", "home": b"H", "end": b"F"}
_SS3 = {"f1": b"P", "f2": b"Q", "f3": b"R", "f4": b"S"}
_NUMBERED = {
    "insert": b"2",
    "delete": b"3",
    "page_up": b"5",
    "page_down": b"6",
    "f5": b"15",
    "f6": b"17",
    "f7": b"18",
    "f8": b"19",
    "f9": b"20",
    "f10": b"21",
    "f11": b"23",
    "f12": b"24",
}
_PLAIN = {"enter": b"\r", "tab": b"\t", "escape": b"\x1b", "backspace": b"\x7f", "space": b" "}
_WITH_CTRL = {"backspace": b"\b", "space": b"\0"}
_KEYPAD = {
    **{f"kp_{digit}": (str(digit).encode(), bytes([ord("p") + digit])) for digit in range(10)},
    "kp_add": (b"+", b"k"),
    "kp_subtract": (b"-", b"m"),
    "kp_multiply": (b"*", b"j"),
    "kp_divide": (b"/", b"o"),
    "kp_decimal": (b".", b"n"),
    "kp_separator": (b",", b"l"),
    "kp_equal": (b"=", b"X"),
    "kp_enter": (b"\r", b"M"),
}
"""What is sent in normal mode, and the final character of the sequence in application mode."""
_CONTROL = {
    **{chr(code + 0x60): code for code in range(1, 27)},
    **dict(zip("@[\\]^_?", (0, 0x1B, 0x1C, 0x1D, 0x1E, 0x1F, 0x7F), strict=True)),
    **dict(zip("2345678", (0, 0x1B, 0x1C, 0x1D, 0x1E, 0x1F, 0x7F), strict=True)),
    "/": 0x1F,
}
_NAMES = frozenset({*_CURSOR, *_SS3, *_NUMBERED, *_PLAIN, *_KEYPAD})
_NAMES_BY_LETTERS = {name.replace("_", ""): name for name in _NAMES} | {
    "esc": "escape",
    "return": "enter",
    "del": "delete",
    "ins": "insert",
    "pgup": "page_up",
    "pgdn": "page_down",
}
_MODIFIERS = {"shift": "shift", "alt": "alt", "meta": "alt", "ctrl": "ctrl", "control": "ctrl"}
_BITS = {"shift": 1, "alt": 2, "ctrl": 4}


def _parse(key: object) -> tuple[str, set[str]]:
    """Parse a key: return its name or character, and the modifiers."""
    if not isinstance(key, str) or not key:
        raise _unknown(key)
    # The last key may be the plus sign itself.
    *modifiers, last = key[:-1].split("+") if len(key) > 1 else [""]
    last += key[-1]
    if last == "+" and len(key) > 1 and modifiers == []:
        raise _unknown(key)
    given = {modifier.strip().lower() for modifier in modifiers}
    if not given <= _MODIFIERS.keys():
        raise _unknown(key)
    held = {_MODIFIERS[modifier] for modifier in given}
    if len(last) == 1:
        return last, held
    name = _NAMES_BY_LETTERS.get("".join(character for character in last.lower() if character not in "_- "))
    if name is None:
        raise _unknown(key)
    return name, held


def _function(number: bytes, final: bytes, held: set[str]) -> bytes:
    """Return the sequence of a function key; with modifiers, its second parameter is 1 plus a bit for each."""
    modifier = 1 + sum(_BITS[each] for each in held)
    return b"\x1b[" + number + (b";%d" % modifier if modifier > 1 else b"") + final


def _character(character: str, held: set[str]) -> bytes:
    if "ctrl" in held:
        code = _CONTROL.get(character.lower())
        if code is None:
            raise _invalid(
                f"Ctrl and {character!r} send nothing of their own; there are control codes for a to z and @[\\]^_?/"
            )
        return bytes([code])
    if "shift" in held:
        upper = character.upper()
        if not character.isalpha() or len(upper) > 1:
            raise _invalid(f"what Shift makes of {character!r} depends on the keyboard; name the character itself")
        return encoded(upper)
    return encoded(character)


def _unknown(key: object) -> TerminalTestError:
    names = ", ".join(sorted(_NAMES, key=lambda name: (name.startswith("kp_"), name)))
    return _invalid(
        f"there is no key {key!r}; say a character, or one of {names}, with shift+, alt+ or ctrl+ before it; "
        "`write` sends text"
    )


def _invalid(message: str) -> TerminalTestError:
    return invalid(f"key: {message}")
