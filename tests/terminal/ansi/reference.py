"""A reading of the grammar one character at a time, without a thought for speed: what the real one is compared with."""

from __future__ import annotations

from collections.abc import Sequence

from reenact.terminal.ansi.parser import ANSIToken

STRINGS = {"P": "dcs", "X": "sos", "]": "osc", "^": "pm", "_": "apc"}
C1_STRINGS = {"\x90": "dcs", "\x98": "sos", "\x9d": "osc", "\x9e": "pm", "\x9f": "apc"}


def is_begin(character: str) -> bool:
    return character == "\x1b" or "\x80" <= character <= "\x9f"


def is_idle(character: str) -> bool:
    """Whether a terminal carries it out, or passes over it, in the middle of a sequence."""
    return character == "\x7f" or (character < " " and character not in "\x18\x1a\x1b")


def simple_tokens(text: str) -> list[tuple[str, str]]:
    """Return kind and content of each token; one that does not end has a question mark behind its kind."""
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        if is_begin(text[at]):
            kind, end = sequence(text, at)
        else:
            kind, end = "text", at + 1
            while end < len(text) and not is_begin(text[end]):
                end += 1
        tokens.append((kind, text[at:end]))
        at = end
    return tokens


def sequence(text: str, start: int) -> tuple[str, int]:
    first, at = text[start], start + 1
    if first in C1_STRINGS:
        return string(text, at, C1_STRINGS[first])
    if first == "\x9b":
        return until_final(text, at, "csi")
    if first != "\x1b":
        return "c1", at
    while at < len(text) and is_idle(text[at]):
        at += 1
    if at == len(text):
        return "escape?", at
    if text[at] in STRINGS:
        return string(text, at + 1, STRINGS[text[at]])
    if text[at] == "[":
        return until_final(text, at + 1, "csi")
    return until_final(text, at, "escape")


def until_final(text: str, at: int, kind: str) -> tuple[str, int]:
    first_final = "@" if kind == "csi" else "0"
    while at < len(text):
        character = text[at]
        if character in "\x18\x1a":
            return "cancelled", at + 1
        if character == "\x1b" or character >= "\x80":
            return "cancelled", at
        at += 1
        if first_final <= character <= "~":
            return kind, at
    return f"{kind}?", at


def string(text: str, at: int, kind: str) -> tuple[str, int]:
    while at < len(text):
        character = text[at]
        if character in "\x18\x1a":
            return "cancelled", at + 1
        if character == "\x9c" or (character == "\x07" and kind == "osc"):
            return kind, at + 1
        if character == "\x1b":
            if at + 1 == len(text):
                return f"{kind}?", at + 1
            return (kind, at + 2) if text[at + 1] == "\\" else ("cancelled", at)
        if "\x80" <= character <= "\x9f":
            return "cancelled", at
        at += 1
    return f"{kind}?", at


def told(tokens: Sequence[ANSIToken]) -> list[tuple[str, str]]:
    """Return the tokens as `simple_tokens` has them."""
    return [(token.kind if token.complete else f"{token.kind}?", token.content) for token in tokens]
