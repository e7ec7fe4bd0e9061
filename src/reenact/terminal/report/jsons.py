"""Results as JSON: a stable form for programs.

    {"version": 1,
     "totals": {"tests", "passed", "failed", "errors", "skipped", "duration"},
     "suites": [{"name", "started", "duration", "tests": [
        {"name", "suite", "status", "duration", "error", "error_type", "stack", "output", "screen", "attempts",
         "attachments", "reason",
         "assertions": [{"passed", "type", "actual", "expected", "diff", "message"}]}]}]}

Times are in seconds, `started` since 1970 in UTC; what is not known is null. Names may be added to
version 1; none is taken away, and none changes its meaning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite
from typing import Final, Literal, TypeGuard

import msgspec

from reenact.domain.plain import is_mapping, is_sequence
from reenact.terminal.errors import invalid
from reenact.terminal.report.results import TestSuiteResult, Totals, totals
from reenact.terminal.text import encodable

_DEEPEST: Final = 100
_LARGEST_INTEGER: Final = 2**53


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What is in the file."""

    version: Literal[1] = 1
    totals: Totals
    suites: tuple[TestSuiteResult, ...]


def to_json(results: Sequence[TestSuiteResult]) -> str:
    """Return the results as strict JSON: no NaN, and nothing that is not Unicode."""
    report = _fit(Report(totals=totals(results), suites=tuple(results)))
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def from_json(text: str | bytes) -> Report:
    """Return the report that the text holds.

    Raises:
        TerminalTestError: `INVALID_CONFIG`: it holds none of this version.
    """
    try:
        return msgspec.json.decode(text, type=Report)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise invalid(f"this is no JSON report of version 1: {error}", error) from error


def _fit(value: object, depth: int = 0) -> object:
    """Return the value as JSON has it: a pattern is its text, and what JSON cannot say is said in words."""
    if isinstance(value, str):
        return encodable(value)
    if value is None or _is_number(value):
        return value
    if _is_pattern(value):
        return encodable(str(value.pattern))
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if is_mapping(value) and depth < _DEEPEST:
        return {encodable(str(key)): _fit(item, depth + 1) for key, item in value.items()}
    if is_sequence(value) and depth < _DEEPEST:
        return [_fit(item, depth + 1) for item in value]
    return _in_words(value)


def _is_number(value: object) -> bool:
    """Whether it is a number, or true or false, that every reader of JSON takes for the same."""
    return isfinite(value) if isinstance(value, float) else isinstance(value, int) and abs(value) <= _LARGEST_INTEGER


def _is_pattern(value: object) -> TypeGuard[re.Pattern[str] | re.Pattern[bytes]]:
    return isinstance(value, re.Pattern)


def _in_words(value: object) -> str:
    try:
        return encodable(repr(value))
    except RecursionError:
        return f"a {type(value).__name__} that is nested too deep"
