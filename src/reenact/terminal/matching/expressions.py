"""Regular expressions that come as text: a search for one ends, and other threads run meanwhile."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from reenact.terminal.matching.shown import escaped, quoted

if TYPE_CHECKING:
    import regex

LONGEST_SEARCH: Final = 10.0
"""Seconds that a search may take."""
_PARTS: Final = re.compile(
    r"\\N\{[^}]*+\}|\\.|\[\^?+\]?+(?:\\.|[^\]\\])*+\]|\(\?#[^)]*+\)"
    r"|(?P<brace>\{(?!(?:[0-9]++(?:,[0-9]*+)?|,[0-9]*+)\}))|\n",
    re.DOTALL,
)


class BadPatternError(ValueError):
    """What was given is no regular expression."""


class SlowSearchError(TimeoutError):
    """A search took longer than it may."""


class Found(Protocol):
    """A match."""

    def end(self) -> int:
        """Return where it ends in the text."""
        ...


class Finder(Protocol):
    """What finds matches in texts, as a compiled pattern does."""

    @property
    def pattern(self) -> str:
        """What it looks for, in writing."""
        ...

    def search(self, string: str, pos: int = 0, /) -> Found | None:
        """Return the first match from the place `pos` on."""
        ...


class Expression(msgspec.Struct, frozen=True):
    r"""A regular expression of Python, with flags of `re`.

    It is searched for by the package `regex`, which does not hold the interpreter's lock meanwhile, and ends in time.
    With `any_line_end` a newline in it matches `\r\n` and `\r\r\n` as well, as a terminal may write it.

    Raises:
        BadPatternError: it is none, and why.
    """

    pattern: str
    flags: int = 0
    any_line_end: bool = False

    def __post_init__(self) -> None:
        regular(self.pattern, self.flags)
        self._compiled()

    def search(self, string: str, pos: int = 0, /, *, seconds: float = LONGEST_SEARCH) -> Found | None:
        """Return the first match from the place `pos` on.

        Raises:
            SlowSearchError: that took so many seconds, of the time that this process had of its processors.
        """
        try:
            return self._compiled().search(string, pos, timeout=seconds, concurrent=True)
        except TimeoutError as error:
            problem = f"a search for the pattern {quoted(self.pattern)} was given up after {seconds:.3g} s"
            raise SlowSearchError(f"{problem}; it tries too many ways to match") from error

    def _compiled(self) -> regex.Pattern[str]:
        import regex  # noqa: PLC0415 - most runs search for no patterns, and it takes long to load

        try:
            return regex.compile(_PARTS.sub(self._part, self.pattern), self.flags | regex.VERSION0)
        except (regex.error, OverflowError, RecursionError) as error:
            raise BadPatternError(_no_pattern(self.pattern, error)) from error

    def _part(self, part: re.Match[str]) -> str:
        if part["brace"]:  # begins no number of repetitions: stands for itself, and for nothing fuzzy
            return r"\{"
        is_newline = part[0] == r"\n" or (part[0] == "\n" and not regular(self.pattern, self.flags).flags & re.VERBOSE)
        return r"(?:\r{0,2}\n)" if self.any_line_end and is_newline else part[0]


def regular(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return the pattern compiled by `re`, which says what a regular expression of Python is.

    Raises:
        BadPatternError: it is none, and why.
    """
    try:
        return re.compile(pattern, flags)
    except (re.error, OverflowError, RecursionError, Warning) as error:  # a warning, where warnings are errors
        raise BadPatternError(_no_pattern(pattern, error)) from error


def _no_pattern(pattern: str, error: Exception) -> str:
    return f"the pattern {quoted(pattern)} is no regular expression: {escaped(str(error))}"
