r"""The grammar of escape sequences: ECMA-48, as parsed by DEC's VT500 and xterm.

- A sequence begins with ESC or with a character U+0080 to U+009F, and its form determines its end. The strings (OSC,
  DCS, APC, PM, SOS) end with ST, which is `ESC \` or U+009C; OSC also with BEL.
- CAN and SUB end a sequence at once and belong to it. ESC and U+0080 to U+009F end it and begin the next one. A
  character from U+00A0 on, where it is not allowed, ends it too and is text again: no readable text is lost.
- The other control characters, and DEL, do not affect the end of a sequence, and belong to it.
- SS2 and SS3 (ESC N, ESC O) are sequences by themselves: the character after them is displayed.

All quantifiers are possessive, so that each character is examined only a few times, whatever the input.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias, get_args

TokenKind: TypeAlias = Literal["text", "csi", "osc", "dcs", "apc", "pm", "sos", "escape", "c1", "cancelled"]

ESC = "\x1b"
_IGNORED = r"\x00-\x17\x19\x1c-\x1f\x7f"
_IN_STRING = r"[^\x18\x1a\x1b\x80-\x9f]*+"
_IN_OSC = r"[^\x07\x18\x1a\x1b\x80-\x9f]*+"
_IN_CONTROL = rf"[{_IGNORED} -?]*+"
_IN_ESCAPE = rf"[{_IGNORED} -/]*+"
_ESCAPE = rf"\x1b[{_IGNORED}]*+"
_CSI = rf"(?:{_ESCAPE}\[|\x9b){_IN_CONTROL}"
_OSC = rf"(?:{_ESCAPE}\]|\x9d){_IN_OSC}"
_STRING = rf"(?:{_ESCAPE}[PX^_]|[\x90\x98\x9e\x9f]){_IN_STRING}"
_TERMINATOR = r"(?:\x1b\\|\x9c)"
_FINISHED = rf"""
    (?P<csi> {_CSI}[@-~] )
  | (?P<osc> {_OSC}(?:\x07|{_TERMINATOR}) )
  | (?P<escape> {_ESCAPE}(?: [0-OQ-WYZ\\`-~] | [ -/]{_IN_ESCAPE}[0-~] ) )
  | (?P<c1> [\x80-\x8f\x91-\x97\x99\x9a\x9c] )
  | (?P<dcs> (?:{_ESCAPE}P|\x90){_IN_STRING}{_TERMINATOR} )
  | (?P<apc> (?:{_ESCAPE}_|\x9f){_IN_STRING}{_TERMINATOR} )
  | (?P<pm> (?:{_ESCAPE}\^|\x9e){_IN_STRING}{_TERMINATOR} )
  | (?P<sos> (?:{_ESCAPE}X|\x98){_IN_STRING}{_TERMINATOR} )
  | (?P<cancelled>
        (?: {_OSC} | {_STRING} ) (?: [\x18\x1a] | (?= \x1b[^\\] | [\x80-\x9b\x9d-\x9f] ) )
      | (?: {_CSI} | {_ESCAPE}(?:[ -/]{_IN_ESCAPE})?+ ) (?: [\x18\x1a] | (?= [\x1b\x80-\U0010ffff] ) )
    )
"""

_TEXT = r"[^\x1b\x80-\x9f]++"
_OPEN = r"[\x1b\x80-\x9f][\s\S]*+"

TOKEN = re.compile(rf"(?P<text> {_TEXT} ) | {_FINISHED} | (?P<open> {_OPEN} )", re.VERBOSE)
"""A text, a sequence that no later text can change, or an unfinished sequence with everything after it."""
KEPT = re.compile(rf"{re.sub('[?]P<[a-z0-9]+>', '?:', _FINISHED)} | ( {_TEXT} | {_OPEN} )", re.VERBOSE)
"""Like `TOKEN`, with one group: what remains when finished sequences are removed."""

_BEGUN = re.compile(rf"{_ESCAPE}([ -/P\[\]X^_])?|[\x80-\x9f]")


def is_introducer(character: str) -> bool:
    """Return whether a sequence begins with the character; no other character is special within text."""
    return character == ESC or "\x80" <= character <= "\x9f"


def shortened(opened: str) -> str:
    """Return the shortest equivalent of an unfinished sequence: the same text after it ends it in the same way."""
    begun = _BEGUN.match(opened)
    assert begun is not None
    is_ending = opened.endswith(ESC, begun.end())  # a string that may be ending with ST
    return f"{opened[0]}{begun[1] or ''}{ESC if is_ending else ''}"


KINDS: Final[dict[str | None, TokenKind]] = {kind: kind for kind in get_args(TokenKind)}
"""The kinds of tokens by the names of their groups."""


def kind_of(opened: str) -> TokenKind:
    """Return the kind of an unfinished sequence, which it has once it ends."""
    ends = (TOKEN.fullmatch(opened + end) for end in ("\\", "\x9c"))
    return next(KINDS[found.lastgroup] for found in ends if found is not None and found.lastgroup in KINDS)


Parameters: TypeAlias = tuple[tuple[int | None, ...], ...]

LARGEST_PARAMETER = 65_535
"""Larger parameters count as this one, as in xterm."""

_CONTROL = re.compile(
    r"(?:\x1b\[|\x9b)(?P<private>[<-?]*)(?P<parameters>[0-9:;]*)(?P<intermediates>[ -/]*)(?P<final>[@-~])"
)

_EXECUTED = re.compile(r"(?!^)[\x00-\x1a\x1c-\x1f\x7f]+")

_DIGITS = len(str(LARGEST_PARAMETER))


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
    return LARGEST_PARAMETER if len(significant) > _DIGITS else min(int(significant or "0"), LARGEST_PARAMETER)
