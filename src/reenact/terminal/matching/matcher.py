"""The assertion matcher: compares texts with what is expected, and shows the differences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, get_args

from msgspec.structs import replace

from reenact.domain.errors import needing_extra
from reenact.terminal.errors import ExpectationError, invalid, is_kit_error
from reenact.terminal.matching import jsons
from reenact.terminal.matching.options import (
    LONGEST_SEARCH,
    AssertionOptions,
    AssertionResult,
    AssertionType,
    Expression,
    SlowSearchError,
    UnusableError,
    compiled,
    explanation,
    folded,
    is_pattern,
    normalized,
    stripped,
)
from reenact.terminal.text import common_length, line_display, quoted, shown

if TYPE_CHECKING:
    from reenact.terminal.matching.schema import Violation

__tracebackhide__ = is_kit_error

_LISTED = 20
_VIOLATIONS = 200
_COUNTED = 5_000
"""Maximum number of differences or violations that are counted after those that are listed."""
_TAIL = 20


class AssertionMatcher:
    """Compares texts with what is expected of them.

    Any expected value is accepted: if nothing can match it, such as an invalid pattern or schema, the result is a
    failed one whose message says why. Only an actual value that is not text, or invalid options, raise
    `TerminalTestError` (`INVALID_CONFIG`).
    """

    def assert_(self, actual: str, options: AssertionOptions, *, seconds: float = LONGEST_SEARCH) -> AssertionResult:
        """Compare the text with the options; the result of a failed comparison shows the differences.

        - `exact`: it equals the expected text.
        - `contains`: it contains the expected text.
        - `regex`: the pattern is found in it (`re.search`). The search is limited to `seconds`, after which the result
          is a failed one; a search for a compiled pattern, without ignored case or white space, has no limit.
        - `json`: it is strict JSON (no NaN, no duplicate name in an object, no text after the value) and equals the
          expected value: the order of members does not count, 1 equals 1.0 but not true, and numbers are exact. An
          expected `str` is JSON text: for a text `a` give `'"a"'`.
        - `jsonSchema`: it is strict JSON and conforms to the schema (`reenact.terminal.matching.schema`).

        `strip_ansi` removes escape sequences from both texts, but not from a pattern. `ignore_case` and
        `ignore_whitespace` are described in `reenact.terminal.matching.options`; they have no effect on JSON. The
        result has `actual` unchanged, and the text of a compiled pattern.
        """
        return _compared(actual, options, seconds)

    def check(self, actual: str, options: AssertionOptions) -> AssertionResult:
        """Return the result of `assert_`; raise `ExpectationError` with its message and diff if it failed."""
        result = _compared(actual, options)
        if result.passed:
            return result
        error = ExpectationError(explanation(result))
        error.seen = actual
        raise error

    def exact_match(self, actual: str, expected: str) -> AssertionResult:
        """Compare a text with exactly the expected one."""
        return _compared(actual, AssertionOptions(type="exact", expected=expected))

    def contains_match(self, actual: str, expected: str) -> AssertionResult:
        """Search a text for another one."""
        return _compared(actual, AssertionOptions(type="contains", expected=expected))

    def regex_match(self, actual: str, pattern: str | re.Pattern[str]) -> AssertionResult:
        """Search a text for a regular expression."""
        return _compared(actual, AssertionOptions(type="regex", expected=pattern))

    def json_match(self, actual: str, expected: object) -> AssertionResult:
        """Compare a text as JSON with a value."""
        return _compared(actual, AssertionOptions(type="json", expected=expected))

    def json_schema_match(self, actual: str, schema: object) -> AssertionResult:
        """Validate a text as JSON against a JSON Schema."""
        return _compared(actual, AssertionOptions(type="jsonSchema", expected=schema))


class _FailedError(Exception):
    """The text is not as expected: a message, and optionally a diff."""

    def __init__(self, message: str, diff: str | None = None) -> None:
        super().__init__(message)
        self.diff = diff


def _compared(actual: str, options: AssertionOptions, seconds: float = LONGEST_SEARCH) -> AssertionResult:
    _check(actual, options)
    message = diff = None
    try:
        match options.type:
            case "exact":
                _exact(actual, _text(options), options)
            case "contains":
                _contains(actual, _text(options), options)
            case "regex":
                _regex(actual, options, seconds)
            case "json":
                _json(stripped(actual, options), options)
            case "jsonSchema":
                _schema(stripped(actual, options), options)
    except _FailedError as failed:
        message, diff = str(failed), failed.diff
    except (UnusableError, SlowSearchError) as error:
        message = str(error)
    expected: object = options.expected
    return AssertionResult(
        passed=message is None,
        actual=actual,
        expected=expected.pattern if is_pattern(expected) else expected,
        type=options.type,
        diff=diff,
        message=message,
    )


def _check(actual: object, options: object) -> None:
    if not isinstance(actual, str):
        raise invalid(f"the actual text is {type(actual).__name__}, and must be str; decode bytes first")
    if not isinstance(options, AssertionOptions):
        raise invalid(f"options is {type(options).__name__}, and must be AssertionOptions")
    if options.type not in get_args(AssertionType):
        raise invalid(
            f"the type of an assertion must be one of {', '.join(get_args(AssertionType))}, not {options.type!r}"
        )


def _text(options: AssertionOptions) -> str:
    expected: object = options.expected
    if isinstance(expected, str):
        return expected
    hint = "; type regex takes a pattern" if is_pattern(expected) else ""
    raise _FailedError(f"for {options.type}, expected must be a str, not {type(expected).__name__}{hint}")


def _exact(actual: str, expected: str, options: AssertionOptions) -> None:
    if normalized(actual, options) == normalized(expected, options):
        return
    old, new = stripped(expected, options), stripped(actual, options)
    where = "" if options.ignore_case or options.ignore_whitespace else f", first in {first_difference(old, new)}"
    diff = unified(old, new, key=lambda line: folded(line, options))
    raise _FailedError(f"the text is not the expected one{where}", diff)


def _contains(actual: str, expected: str, options: AssertionOptions) -> None:
    if normalized(expected, options) in normalized(actual, options):
        return

    def key(line: str) -> str:
        return folded(line, options)

    old = stripped(expected, options)
    nearest, first = most_similar(old, stripped(actual, options), key=key)
    diff = unified(old, nearest, key=key, names=("expected", "most like it"), first=first)
    raise _FailedError(f"{quoted(old)} is not in the text", diff)


def _regex(actual: str, options: AssertionOptions, seconds: float) -> None:
    pattern, text = compiled(options.expected, options), normalized(actual, replace(options, ignore_case=False))
    found = pattern.search(text, seconds=seconds) if isinstance(pattern, Expression) else pattern.search(text)
    if found is not None:
        return
    lines = text.split("\n")
    left = [f"… {len(lines) - _TAIL:,} lines before"] if len(lines) > _TAIL else []
    shown_lines = [*left, *(f"+{shown(line)}" for line in lines[-_TAIL:])]
    diff = "\n".join(["--- pattern", "+++ actual", f"-{shown(pattern.pattern)}", *shown_lines])
    raise _FailedError(f"the pattern {quoted(pattern.pattern)} is not found in the text", diff)


def _json(actual: str, options: AssertionOptions) -> None:
    expected: object = options.expected
    try:
        old = jsons.read(stripped(expected, options)) if isinstance(expected, str) else jsons.value_of(expected)
    except jsons.InvalidJSONError as error:
        hint = "; a str is JSON text: give a text in double quotes" if isinstance(expected, str) else ""
        raise _FailedError(f"what is expected is not JSON: {error}{hint}") from error
    new = _read(actual, jsons.pretty(old))
    found = jsons.differences(old, new)
    if listed := list(islice(found, _LISTED)):
        message = _message("the JSON is not the expected one:", listed, found)
        raise _FailedError(message, unified(jsons.pretty(old), jsons.pretty(new)))


def _schema(actual: str, options: AssertionOptions) -> None:
    with needing_extra("terminal", "a JSON Schema"):
        from reenact.terminal.matching import schema  # noqa: PLC0415 - most assertions need none, and it loads slowly

    rules = schema.schema_of(options.expected)
    found = schema.violations(_read(actual), rules)
    if listed := list(islice(found, _VIOLATIONS)):
        lines = [line for violation in listed for line in _violation_lines(violation)]
        message = _message("the JSON does not conform to the schema:", lines, found)
        raise _FailedError(message, _rules_diff(listed))


def _read(actual: str, expected: str | None = None) -> jsons.JSON:
    try:
        return jsons.read(actual)
    except jsons.InvalidJSONError as error:
        diff = None if expected is None else unified(expected, actual)
        raise _FailedError(f"the text is not JSON: {error}", diff) from error


def _violation_lines(violation: Violation) -> Iterator[str]:
    yield f"{violation.place}: {violation.problem}"
    yield from (f"  {reason}" for reason in violation.reasons)


def _rules_diff(broken: Sequence[Violation]) -> str:
    lines = ["--- schema", "+++ actual"]
    for violation in broken:
        lines += [f"@@ {violation.place} @@", f"-{violation.rule}", f"+{violation.found}"]
    return "\n".join(lines)


def _message(what: str, lines: Iterable[str], rest: Iterator[object]) -> str:
    more = sum(1 for _ in islice(rest, _COUNTED))
    least = "at least " if more == _COUNTED else ""
    return "\n  ".join([what, *lines, *([f"… and {least}{more:,} more"] if more else [])])


WINDOW = 199
"""Maximum number of lines of each text that are compared, from the first difference on."""
_CONTEXT = 3
_MOST_SEARCHED = 500


class _Line(NamedTuple):
    """A line that is compared, its key for comparison, and its number."""

    text: str
    key: str
    number: int


def unified(
    expected: str,
    actual: str,
    *,
    key: Callable[[str], str] = str,
    names: tuple[str, str] = ("expected", "actual"),
    first: int = 1,
) -> str:
    """Return the difference as a unified diff: `-` marks expected lines, `+` actual ones.

    Lines with equal keys are equal, and a line with an empty key is skipped. Lines are shown as described in
    `reenact.terminal.text`. At most 199 lines of each text are compared, from the first difference on; the diff says
    how many are left out. `first` is the number of the first line of the actual text.
    """
    old, new = _side(expected, key, 1), _side(actual, key, first)
    above = max(0, common_length(_keys(old), _keys(new)) - _CONTEXT)
    old, new = old[above:], new[above:]
    below = max(0, common_length(_keys(old)[::-1], _keys(new)[::-1]) - _CONTEXT)
    old, new = old[: len(old) - below], new[: len(new) - below]
    old_left, new_left = (max(0, len(side) - WINDOW) for side in (old, new))
    old, new = old[:WINDOW], new[:WINDOW]
    diff = [f"--- {names[0]}", f"+++ {names[1]}"]
    matcher = SequenceMatcher(None, _keys(old), _keys(new), autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        (_, old_from, _, new_from, _), (_, _, old_to, _, new_to) = group[0], group[-1]
        diff.append(f"@@ -{_range(old[old_from:old_to])} +{_range(new[new_from:new_to])} @@")
        for tag, i, j, k, m in group:
            there = [line.text for line in new[k:m]]
            if tag == "equal":
                diff.extend(" " + shown(line) for line in there)
            else:
                diff.extend(_changed([line.text for line in old[i:j]], there))
    if old_left or new_left:
        diff.append(f"… not compared: {old_left:,} more lines of what is expected, {new_left:,} of what is there")
    return "\n".join(diff)


def most_similar(expected: str, actual: str, *, key: Callable[[str], str] = str) -> tuple[str, int]:
    """Return the lines of the actual text that are most like the expected ones, and the number of their first line.

    The last 500 lines are searched. If the expected text does not end with a newline, the result does not either.
    """
    wanted = [key(line.removesuffix("\n"))[:_MOST_SEARCHED] for line in _lines(expected)[:WINDOW]] or [""]
    lines = _lines(actual)
    before = max(0, len(lines) - _MOST_SEARCHED)
    lines = lines[before:]
    keys = [key(line.removesuffix("\n"))[:_MOST_SEARCHED] for line in lines]
    anchor = next((number for number, line in enumerate(wanted) if line.strip()), 0)
    matcher = SequenceMatcher(None, "", wanted[anchor], autojunk=False)
    scores: list[float] = []
    for at, line in enumerate(keys):
        matcher.set_seq1(line)
        behind = zip(wanted[anchor + 1 :], keys[at + 1 :], strict=False)
        scores.append(matcher.quick_ratio() + sum(one == other for one, other in behind))
    best = max(range(len(scores)), key=scores.__getitem__, default=0)
    start = max(0, best - anchor)
    nearest = "".join(lines[start : start + len(wanted)])
    return nearest if expected.endswith("\n") else nearest.removesuffix("\n"), before + start + 1


def first_difference(expected: str, actual: str) -> str:
    """Return the position of the first difference in words: `line 3, column 5`, counted from 1."""
    same = common_length(expected, actual)
    before = expected[:same]
    return f"line {before.count(chr(10)) + 1}, column {same - before.rfind(chr(10))}"


def _side(text: str, key: Callable[[str], str], first: int) -> list[_Line]:
    """Return the lines of the text that are compared."""
    every = (_Line(line, key(line), number) for number, line in enumerate(_lines(text), first))
    return [line for line in every if line.key]


def _keys(lines: Sequence[_Line]) -> list[str]:
    return [line.key for line in lines]


def _range(lines: Sequence[_Line]) -> str:
    """Return the number of the first line and the number of lines, in the notation of diffs."""
    return f"{lines[0].number if lines else 0},{len(lines)}"


def _lines(text: str) -> list[str]:
    *ended, last = text.split("\n")
    return [line + "\n" for line in ended] + ([last] if last else [])


def _changed(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    displays = [line_display(one, other) for one, other in zip(old, new, strict=False)]
    for sign, lines in (("-", old), ("+", new)):
        for number, line in enumerate(lines):
            yield sign + shown(line, displays[number] if number < len(displays) else line_display(line, ""))
