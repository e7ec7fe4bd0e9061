"""What of a text counts when it is compared."""

from __future__ import annotations

from reenact.terminal.ansi.parser import ANSIParser
from reenact.terminal.matching.options import AssertionOptions


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
