"""Options and results of assertions, and how texts are normalized before they are compared."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import msgspec

from reenact.terminal.ansi.parser import ANSIParser

AssertionType: TypeAlias = Literal["exact", "contains", "regex", "json", "jsonSchema"]
Scope: TypeAlias = Literal["new", "all", "screen"]
"""Where a pattern is looked for: in what has arrived and not yet been matched, in everything, or on the screen."""


class AssertionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is expected, and how it is compared.

    Attributes:
        type: how.
        expected: a text; for `regex` a pattern, compiled or not; for `json` a value or JSON text; for `jsonSchema` a
            schema or its JSON text.
        strip_ansi: take escape sequences out of both sides before comparing.
        ignore_case: compare casefolded text. Not for JSON.
        ignore_whitespace: take runs of white space for one blank, and none at the ends. Not for JSON.
    """

    type: AssertionType
    expected: object
    strip_ansi: bool = False
    ignore_case: bool = False
    ignore_whitespace: bool = False


class AssertionResult(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the text was as expected; if not, in words what is different, and a diff of the two."""

    passed: bool
    actual: str
    expected: object
    type: AssertionType
    diff: str | None = None
    message: str | None = None


Pattern: TypeAlias = str | re.Pattern[str]
"""A text that is to stand there as it is, or a compiled regular expression that is to be found."""


def stripped(text: str, options: AssertionOptions) -> str:
    """Return the text without escape sequences, if they are to be taken out."""
    return ANSIParser().strip(text) if options.strip_ansi else text


def normal(text: str, options: AssertionOptions) -> str:
    """Return the text in the form in which texts are equal that differ in nothing that counts.

    That is, as far as the options say so: without escape sequences; then with each run of white space (as `str.split`
    has it) as one blank and none at the ends; then casefolded.
    """
    return folded(stripped(text, options), options)


def folded(text: str, options: AssertionOptions) -> str:
    """Return what `normal` does, for a text without sequences."""
    if options.ignore_whitespace:
        text = " ".join(text.split())
    return text.casefold() if options.ignore_case else text
