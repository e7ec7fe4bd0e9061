r"""Options of comparisons, normalisation of texts before they are compared, and patterns.

Searches for regular expressions that are given as text have a time limit, and case or white space may be ignored:

- **Case**: letters match in any case, by Unicode's full case folding: `ß` matches `SS`.
- **White space**: the text has one blank for each run of white space and none at its ends, as for other comparisons
  (`normalized`). A run of white space in the pattern, written literally or as `\n`, `\t`, `\r`, `\f`, `\v` or `\s`,
  with or without quantifiers, matches one blank; it matches one or none if every part of it is optional, and at both
  ends of the pattern, also after a first `^` and before a last `$`. Classes and `\S` are unchanged. The text has no
  lines any longer: `[\n]` and a `^` of `MULTILINE` find none. In a verbose pattern only escapes are white space.

A compiled pattern is treated alike: its text is compiled again, with its own flags as well. Escape sequences in a
pattern are never removed: a pattern is not terminal output.
"""

from __future__ import annotations

import math
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeGuard

import msgspec

from reenact.domain.errors import needing_extra
from reenact.terminal.ansi.parser import ANSIParser
from reenact.terminal.text import escaped, quoted

if TYPE_CHECKING:
    import regex

AssertionType: TypeAlias = Literal["exact", "contains", "regex", "json", "jsonSchema"]
Scope: TypeAlias = Literal["new", "all", "screen"]
"""Where a pattern is searched for: in output that has not been matched yet, in all output, or on the screen."""


class AssertionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is expected, and how it is compared.

    Attributes:
        type: the kind of comparison.
        expected: a text; for `regex` a pattern, compiled or not; for `json` a value or JSON text; for `jsonSchema` a
            schema or its JSON text.
        strip_ansi: remove escape sequences from both sides before comparing.
        ignore_case: compare casefolded text. Not for JSON.
        ignore_whitespace: compare runs of white space as one blank, and ignore them at the ends. Not for JSON.
    """

    type: AssertionType
    expected: object
    strip_ansi: bool = False
    ignore_case: bool = False
    ignore_whitespace: bool = False


class AssertionResult(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the text was as expected; if not, a message and a diff."""

    passed: bool
    actual: str
    expected: object
    type: AssertionType
    diff: str | None = None
    message: str | None = None


def explanation(failed: AssertionResult) -> str:
    """Return the message and the diff of a failed comparison."""
    return "\n".join(part for part in (failed.message, failed.diff) if part)


Pattern: TypeAlias = str | re.Pattern[str]
"""A literal text, or a compiled regular expression."""


def stripped(text: str, options: AssertionOptions) -> str:
    """Remove escape sequences from the text if the options say so."""
    return ANSIParser().strip(text) if options.strip_ansi else text


def normalized(text: str, options: AssertionOptions) -> str:
    """Return the text in a normal form, which is the same for texts that count as equal.

    As far as the options say so, escape sequences are removed, then each run of white space (as in `str.split`) becomes
    one blank and none at the ends, then the text is casefolded.
    """
    return folded(stripped(text, options), options)


def folded(text: str, options: AssertionOptions) -> str:
    """Return the result of `normalized` for a text without escape sequences."""
    if options.ignore_whitespace:
        text = " ".join(text.split())
    return text.casefold() if options.ignore_case else text


LONGEST_SEARCH = 10.0
"""Maximum time of a search in seconds."""
SHORTEST_SEARCH = 0.5
"""Minimum time of a search in seconds, even after the deadline, so that the latest text is searched once more."""
Finder: TypeAlias = "re.Pattern[str] | Expression"
"""Searches texts for matches."""
_COMMON_FLAGS = re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.UNICODE
"""The flags that have the same number in `re` and in `regex`."""
_UNCHANGED = r"\\.|\[\^?+\]?+(?:\\.|[^\]\\])*+\]|\(\?P[<=][^>)]*+[>)]|\(\?[(#][^)]*+\)"
"""Escapes, classes, comments, and names of groups, which stay as they are."""
_PARTS = re.compile(
    rf"\\N\{{[^}}]*+\}}|{_UNCHANGED}|(?P<letter>[^\x00-\x7fİ])"
    r"|(?P<brace>\{(?!(?:[0-9]++(?:,[0-9]*+)?|,[0-9]*+)\}))|\n",
    re.DOTALL,
)
_CASE_INSIDE = re.compile(r"\(\?[a-zA-Z]*(?:a|-[a-zA-Z]*i)")
"""A part in which letters have one case, or in which only those of ASCII have two."""


class UnusableError(ValueError):
    """The expected value cannot be used, so that nothing matches it; the message says why."""


class BadPatternError(UnusableError):
    """The text is not a regular expression."""


class SlowSearchError(TimeoutError):
    """A search took too long."""


class Expression(msgspec.Struct, frozen=True):
    r"""A regular expression of Python, with flags of `re`.

    It is searched with the package `regex`, which releases the interpreter's lock and supports time limits. `until` is
    a deadline of searches on the monotonic clock. With `any_line_end` a newline in the pattern also matches `\r\n` and
    `\r\r\n`, which a terminal may write; with `any_case` letters match in any case.

    Raises:
        BadPatternError: it is not a regular expression; the message says why.
    """

    pattern: str
    flags: int = 0
    any_line_end: bool = False
    any_case: bool = False
    until: float = math.inf

    def __post_init__(self) -> None:
        regular(self.pattern, self.flags)
        self._compiled()

    def search(self, string: str, pos: int = 0, /, *, seconds: float = LONGEST_SEARCH) -> regex.Match[str] | None:
        """Return the first match at or after the index `pos`.

        Raises:
            SlowSearchError: the search took `seconds` of this process's processor time.
        """
        seconds = min(seconds, max(self.until - time.monotonic(), SHORTEST_SEARCH))
        try:
            return self._compiled().search(string, pos, timeout=seconds, concurrent=True)
        except TimeoutError as error:
            problem = f"a search for the pattern {quoted(self.pattern)} was given up after {seconds:.3g} s"
            raise SlowSearchError(f"{problem}; it tries too many ways to match") from error

    def _compiled(self) -> regex.Pattern[str]:
        with needing_extra("terminal", "a search for a pattern"):
            import regex  # noqa: PLC0415 - most runs search for no patterns, and it is slow to load

        flags = self.flags & _COMMON_FLAGS | regex.VERSION0
        if self.flags & re.ASCII:
            flags |= regex.ASCII
        if self.any_case:
            flags |= regex.IGNORECASE | regex.FULLCASE
        try:
            return regex.compile(_PARTS.sub(self._part, self.pattern), flags)
        except (regex.error, OverflowError, RecursionError) as error:
            raise BadPatternError(_pattern_error(self.pattern, error)) from error

    def _is_folded(self) -> bool:
        return self.any_case and not self.flags & re.ASCII and not _CASE_INSIDE.search(self.pattern)

    def _part(self, part: re.Match[str]) -> str:
        if part["brace"]:  # not a quantifier: a literal brace, which `regex` must not take for fuzzy matching
            return r"\{"
        if part["letter"] and len(letters := part[0].casefold()) > 1 and self._is_folded():
            return f"(?:{letters})"  # `regex` itself would fold only the first of several letters that become longer
        is_newline = part[0] == r"\n" or (part[0] == "\n" and not regular(self.pattern, self.flags).flags & re.VERBOSE)
        return r"(?:\r{0,2}\n)" if self.any_line_end and is_newline else part[0]


def regular(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Compile the pattern with `re`, which defines the syntax that is accepted.

    Raises:
        BadPatternError: it is not a regular expression; the message says why.
    """
    try:
        return re.compile(pattern, flags)
    except (re.error, OverflowError, RecursionError, Warning) as error:  # warnings may be errors
        raise BadPatternError(_pattern_error(pattern, error)) from error


def _pattern_error(pattern: str, error: Exception) -> str:
    return f"the pattern {quoted(pattern)} is not a regular expression: {escaped(str(error))}"


_QUANTIFIER = r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\}|\{,[0-9]+\})[?+]?+"
_ESCAPED_SPACE = r"\\(?:[ntrfvs]|\s)"
_REWRITTEN = re.compile(rf"(?P<space>(?:(?:{_ESCAPED_SPACE}|\s)(?:{_QUANTIFIER})?+)++)|{_UNCHANGED}", re.DOTALL)
_REWRITTEN_IN_VERBOSE = re.compile(rf"(?P<space>(?:{_ESCAPED_SPACE}(?:{_QUANTIFIER})?+)++)|{_UNCHANGED}", re.DOTALL)
_SPACE = re.compile(rf"(?:{_ESCAPED_SPACE}|\s)(?P<quantifier>{_QUANTIFIER})?+")
_AT_START = re.compile(r"(?:\(\?[a-zA-Z]+\))?(?:\^|\\A)?")
_AT_END = ("", "$", r"\Z")
_VERBOSE_INSIDE = re.compile(r"\(\?[a-zA-Z]*x")
_OPTIONAL = ("*", "?", "{0", "{,")


def compiled(pattern: object, options: AssertionOptions) -> Finder:
    """Return the pattern, adapted so that ignored differences do not matter.

    Searches have a time limit, unless the pattern is compiled and used as it is.

    Raises:
        BadPatternError: it is not a pattern; the message says why.
    """
    text, flags = (pattern.pattern, pattern.flags & ~re.DEBUG) if is_pattern(pattern) else (pattern, 0)
    if not isinstance(text, str):
        what = "a compiled pattern of bytes" if is_pattern(pattern) else type(pattern).__name__
        raise BadPatternError(f"for regex, expected must be a pattern, as a str or compiled from one, not {what}")
    if is_pattern(pattern) and not (options.ignore_case or options.ignore_whitespace):
        return regular(text, flags)
    expression = Expression(text, flags, any_case=options.ignore_case)
    if options.ignore_whitespace:
        is_verbose = bool(regular(text, flags).flags & re.VERBOSE)
        with suppress(BadPatternError):  # for example, look-behind no longer has a fixed width
            return msgspec.structs.replace(expression, pattern=_with_any_space(text, is_verbose=is_verbose))
    return expression


def is_pattern(value: object) -> TypeGuard[re.Pattern[str] | re.Pattern[bytes]]:
    """Return whether it is a compiled pattern, for text or for bytes."""
    return isinstance(value, re.Pattern)


def _with_any_space(pattern: str, *, is_verbose: bool) -> str:
    def replaced(found: re.Match[str]) -> str:
        if found["space"]:
            at_an_end = _AT_START.fullmatch(pattern, 0, found.start()) or pattern[found.end() :] in _AT_END
            absent = all((part["quantifier"] or "").startswith(_OPTIONAL) for part in _SPACE.finditer(found[0]))
            return "[ ]?" if at_an_end or absent else "[ ]"
        return found[0]

    return (_REWRITTEN_IN_VERBOSE if is_verbose or _VERBOSE_INSIDE.search(pattern) else _REWRITTEN).sub(
        replaced, pattern
    )
