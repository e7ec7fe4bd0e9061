"""What a stream of a terminal consists of: texts, and the sequences between them."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

import msgspec

from reenact.terminal.style import PLAIN, ANSIStyle

TokenKind: TypeAlias = Literal["text", "csi", "osc", "dcs", "apc", "pm", "sos", "escape", "c1", "cancelled"]
Parameters: TypeAlias = tuple[tuple[int | None, ...], ...]

LARGEST_PARAMETER: Final = 65_535
"""What a larger parameter counts as, as in xterm."""
_CONTROL: Final = re.compile(
    r"(?:\x1b\[|\x9b)(?P<private>[<-?]*)(?P<parameters>[0-9:;]*)(?P<intermediates>[ -/]*)(?P<final>[@-~])"
)
_EXECUTED: Final = re.compile(r"(?!^)[\x00-\x1a\x1c-\x1f\x7f]+")
_DIGITS: Final = len(str(LARGEST_PARAMETER))


class ANSIToken(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A text, or one escape sequence; the contents of all tokens, joined, are what was read.

    Attributes:
        type: whether it is shown, or tells the terminal something.
        content: as it came, with all control characters.
        style: of a text, how it looks; of a sequence, what holds behind it.
        kind: which form of sequence: `csi`, `osc`, `dcs`, `apc`, `pm` and `sos` as in ECMA-48; `escape` for ESC with a
            final character, `c1` for a single character U+0080 to U+009F; `cancelled` for one that did not come to
            its end, because CAN, SUB, another sequence or a character that cannot stand in it came first.
        complete: False only for a sequence that had not ended when the input did.
    """

    type: Literal["text", "escape"]
    content: str
    style: ANSIStyle = PLAIN
    kind: TokenKind = "text"
    complete: bool = True

    @property
    def final(self) -> str:
        """The character that says what a control sequence does, as `m`; empty for all but a well-formed `csi`."""
        return _part(self, "final")

    @property
    def private(self) -> str:
        """The private marker of a control sequence, as `?`, or an empty text."""
        return _part(self, "private")

    @property
    def intermediates(self) -> str:
        """What stands before the final character of a control sequence, as `!` in `CSI ! p`, or an empty text."""
        return _part(self, "intermediates")

    @property
    def params(self) -> Parameters:
        """The parameters of a control sequence, each with its sub-parameters: `4:3;;1` is `((4, 3), (None,), (1,))`.

        One that was left out is None; one above 65,535 counts as that. All but a well-formed `csi` have none.
        """
        return parameters(_part(self, "parameters"))


def control(content: str) -> re.Match[str] | None:
    """Return the parts of a complete control sequence, or None if they are not in their order.

    What a terminal carries out in the middle of it (C0) or passes over (DEL) is left out.
    """
    return _CONTROL.fullmatch(content) or _CONTROL.fullmatch(without_executed(content))


def without_executed(content: str) -> str:
    """Return the sequence without the control characters that stand in the middle of it."""
    return _EXECUTED.sub("", content)


def parameters(text: str) -> Parameters:
    """Return the numbers of a parameter string as `ANSIToken.params` has them."""
    if not text:
        return ()
    return tuple(tuple(_number(digits) for digits in parameter.split(":")) for parameter in text.split(";"))


def _part(token: ANSIToken, name: str) -> str:
    if token.kind != "csi" or not token.complete:
        return ""
    parts = control(token.content)
    return "" if parts is None else parts[name]


def _number(digits: str) -> int | None:
    if not digits:
        return None
    significant = digits.lstrip("0")
    return LARGEST_PARAMETER if len(significant) > _DIGITS else min(int(significant or "0"), LARGEST_PARAMETER)
