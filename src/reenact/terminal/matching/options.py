r"""What is expected of a text: options, how texts are normalized before they are compared, and patterns.

Searches for regular expressions that come as text end in time, and case or white space may be ignored.

Where case or white space is ignored, the text is folded as for other comparisons (`normal`): casefolded, with one blank
for each run of white space and none at its ends. What a pattern says must then be said of such a text:

- **Case**: the pattern is compiled with `IGNORECASE`, and characters above ASCII that stand in it, as they are or as
  `\xdf` or `\u00df`, are casefolded, `ß` to `(?:ss)`. A class `[...]` stands for one character and is left to
  `IGNORECASE`: `[ß]` finds nothing. So does `(?-i:A)`: there are no capitals in the text.
- **White space**: a run of white space in the pattern, written as it is or as `\n`, `\t`, `\r`, `\f`, `\v` or `\s`,
  with or without quantifiers, stands for one blank; for one or none if every part of it may be absent, and at both ends
  of the pattern, also behind a first `^` and before a last `$`. Classes, and `\S`, are left alone. There
  are no lines any more: `[\n]` and a `^` of `MULTILINE` find none. In a verbose pattern only escapes are white space.

A compiled pattern is treated alike: it is compiled again, from its text, with its own flags as well. Escape sequences
in a pattern are never taken out: a pattern is not text of a terminal.
"""

from __future__ import annotations

import math
import re
import time
from ast import literal_eval
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeGuard

import msgspec

from reenact.domain.errors import needing_extra
from reenact.terminal.ansi.parser import ANSIParser
from reenact.terminal.text import escaped, quoted

if TYPE_CHECKING:
    import regex

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


LONGEST_SEARCH = 10.0
"""Seconds that a search may take."""
SHORTEST_SEARCH = 0.5
"""Seconds that it may take even if there is no time left: what is there is looked at once more then."""
Finder: TypeAlias = "re.Pattern[str] | Expression"
"""What finds matches in texts."""
_PARTS = re.compile(
    r"\\N\{[^}]*+\}|\\.|\[\^?+\]?+(?:\\.|[^\]\\])*+\]|\(\?#[^)]*+\)"
    r"|(?P<brace>\{(?!(?:[0-9]++(?:,[0-9]*+)?|,[0-9]*+)\}))|\n",
    re.DOTALL,
)


class UnusableError(ValueError):
    """What is expected cannot be used, so that nothing is like it; the message says why."""


class BadPatternError(UnusableError):
    """What was given is not a regular expression."""


class SlowSearchError(TimeoutError):
    """A search took longer than it may."""


class Expression(msgspec.Struct, frozen=True):
    r"""A regular expression of Python, with flags of `re`.

    It is searched for by the package `regex`, which does not hold the interpreter's lock meanwhile, and ends in time.
    The search is given up at the moment `until` of the monotonic clock.
    With `any_line_end` a newline in it matches `\r\n` and `\r\r\n` as well, as a terminal may write it.

    Raises:
        BadPatternError: it is none, and why.
    """

    pattern: str
    flags: int = 0
    any_line_end: bool = False
    until: float = math.inf

    def __post_init__(self) -> None:
        regular(self.pattern, self.flags)
        self._compiled()

    def search(self, string: str, pos: int = 0, /, *, seconds: float = LONGEST_SEARCH) -> regex.Match[str] | None:
        """Return the first match from the place `pos` on.

        Raises:
            SlowSearchError: that took so many seconds, of the time that this process had of its processors.
        """
        seconds = min(seconds, max(self.until - time.monotonic(), SHORTEST_SEARCH))
        try:
            return self._compiled().search(string, pos, timeout=seconds, concurrent=True)
        except TimeoutError as error:
            problem = f"a search for the pattern {quoted(self.pattern)} was given up after {seconds:.3g} s"
            raise SlowSearchError(f"{problem}; it tries too many ways to match") from error

    def _compiled(self) -> regex.Pattern[str]:
        with needing_extra("terminal", "a search for a pattern"):
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
    return f"the pattern {quoted(pattern)} is not a regular expression: {escaped(str(error))}"


_QUANTIFIER = r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\}|\{,[0-9]+\})[?+]?+"
_ESCAPED_SPACE = r"\\(?:[ntrfvs]|\s)"
_CODE = r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_WHOLE = r"\\.|\[\^?+\]?+(?:\\.|[^\]\\])*+\]|\(\?P[<=][^>)]*+[>)]|\(\?[(#][^)]*+\)"
"""Escapes, classes, comments, and what holds the name of a group: skipped."""
_LOOSE = re.compile(
    rf"(?P<space>(?:(?:{_ESCAPED_SPACE}|\s)(?:{_QUANTIFIER})?+)++)|(?P<code>{_CODE})|{_WHOLE}|(?P<letter>[^\x00-\x7f])",
    re.DOTALL,
)
_VERBOSE = re.compile(
    rf"(?P<space>(?:{_ESCAPED_SPACE}(?:{_QUANTIFIER})?+)++)|(?P<code>{_CODE})|{_WHOLE}|(?P<letter>[^\x00-\x7f])",
    re.DOTALL,
)
_PART = re.compile(rf"(?:{_ESCAPED_SPACE}|\s)(?P<quantifier>{_QUANTIFIER})?+")
_BEFORE_ALL = re.compile(r"(?:\(\?[a-zA-Z]+\))?(?:\^|\\A)?")
_BEHIND_ALL = ("", "$", r"\Z")
_VERBOSE_INSIDE = re.compile(r"\(\?[a-zA-Z]*x")
_ABSENT = ("*", "?", "{0", "{,")


def compiled(pattern: object, options: AssertionOptions) -> Finder:
    """Return the pattern, made so that it finds in folded text what it would find if nothing ignored were there.

    A search for one that is given as text ends in time; one that was compiled is the business of who has compiled it.

    Raises:
        BadPatternError: it is not a pattern, and why.
    """
    text, flags = (pattern.pattern, pattern.flags & ~re.DEBUG) if is_pattern(pattern) else (pattern, 0)
    if not isinstance(text, str):
        what = "a compiled pattern of bytes" if is_pattern(pattern) else type(pattern).__name__
        raise BadPatternError(f"for regex, expected is a pattern, as a str or compiled from one, not {what}")
    make = regular if is_pattern(pattern) else Expression
    if not (options.ignore_case or options.ignore_whitespace):
        return make(text, flags)
    flags = regular(text, flags).flags | (re.IGNORECASE if options.ignore_case else 0)
    try:
        return make(_rewritten(text, options, verbose=bool(flags & re.VERBOSE)), flags)
    except BadPatternError:  # as when look-behind has lost its fixed width
        return make(text, flags)


def is_pattern(value: object) -> TypeGuard[re.Pattern[str] | re.Pattern[bytes]]:
    """Whether it is a compiled pattern, of texts or of bytes."""
    return isinstance(value, re.Pattern)


def _rewritten(pattern: str, options: AssertionOptions, *, verbose: bool) -> str:
    def replaced(found: re.Match[str]) -> str:
        if found["space"] and options.ignore_whitespace:
            at_an_end = _BEFORE_ALL.fullmatch(pattern, 0, found.start()) or pattern[found.end() :] in _BEHIND_ALL
            absent = all((part["quantifier"] or "").startswith(_ABSENT) for part in _PART.finditer(found[0]))
            return "[ ]?" if at_an_end or absent else "[ ]"
        if (found["letter"] or found["code"]) and options.ignore_case:
            letter = found["letter"] or str(literal_eval(f"'{found['code']}'"))
            letters = letter.casefold()
            if letters == letter:
                return found[0]
            return re.escape(letters) if len(letters) == 1 else f"(?:{letters})"
        return found[0]

    return (_VERBOSE if verbose or _VERBOSE_INSIDE.search(pattern) else _LOOSE).sub(replaced, pattern)
