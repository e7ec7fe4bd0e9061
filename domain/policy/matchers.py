"""Matchers: the conditions of a rule on an argument of a call. They are plain values, stored in definitions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeAlias

from reenact.domain.errors import ConfigurationError
from reenact.domain.plain import Json, is_mapping, is_sequence
from reenact.domain.policy.commands import CommandPattern
from reenact.domain.policy.expressions import Expression
from reenact.domain.policy.paths import PathPattern
from reenact.domain.policy.patterns import (
    MAX_TEXT,
    NO,
    PARTLY,
    TOO_LONG,
    YES,
    Found,
    Match,
    MatchContext,
    Test,
    alternatives,
    is_one,
    part,
    unknown,
)
from reenact.domain.structs import Frozen


class Exact(Frozen, tag="exact"):
    """Matches this JSON value; the only way to match an object. `true` is not `1`; `1.0` is `1`, but not for sure."""

    value: Json


class Prefix(Frozen, tag="prefix"):
    """Matches texts with this prefix. For paths, `path` is safer; for commands, `command`."""

    text: str


class Glob(Frozen, tag="glob"):
    """Matches whole texts by `*`, `?`, `[a-z]`, `{a,b}`; `*` matches any characters, including slashes and line ends.

    For paths, `path` is safer; for commands, `command`.
    """

    pattern: str


class Regex(Frozen, tag="regex"):
    """Matches whole texts by a regular expression, in time bounded by their length.

    Look-around and back references are not supported.
    """

    pattern: str


class Path(Frozen, tag="path", omit_defaults=True):
    """Matches paths: `/srv/app/**`, `~/.ssh/**`, `src/**`, `**/.env`.

    Relative patterns are resolved from `cwd`, or from the call's working directory.
    """

    pattern: str
    cwd: str | None = None


class Command(Frozen, tag="command"):
    """Matches commands: `git status`, `git log *`, `rm`, `curl | sh`.

    The value is a command line, or a list of a program and its arguments.
    """

    pattern: str


Matcher: TypeAlias = Exact | Prefix | Glob | Regex | Path | Command
Wanted: TypeAlias = Matcher | str | int | float | bool | list[Json] | None
"""A matcher, or a JSON value that is not an object and must be equal."""

MATCHERS = (Exact, Prefix, Glob, Regex, Path, Command)


exact, prefix, glob, regex, path, command = Exact, Prefix, Glob, Regex, Path, Command
"""The matchers by the names used in rules."""


class _Absent:
    """A missing argument."""


ABSENT = _Absent()
"""The value of a parameter that a call leaves out. It equals nothing; whether it matches is unknown."""


def ready(wanted: object, *, surely: bool = False) -> Test:
    """Return a compiled matcher.

    With `surely`, only matches that are certain, at least in part, are of interest: many undecidable cases then count
    as no match.

    Raises:
        ConfigurationError: it is neither a matcher nor a JSON value, or its pattern is not valid.
    """
    match wanted:
        case Exact(value):
            return _equality_test(value)
        case Prefix(text):
            start = _checked("prefix", text)
            return _if_present(_text_test(lambda given: given.startswith(start)))
        case Glob(pattern):
            wild = [part(one) for one in alternatives(_checked("glob", pattern))]
            return _if_present(_text_test(lambda given: any(is_one(one, given) for one in wild)))
        case Regex(pattern):
            expression = Expression(_checked("regex", pattern))
            return _if_present(_text_test(expression.fullmatch, expression.takes))
        case Path(pattern, cwd):
            base = None if cwd is None else _checked("cwd", cwd)
            return _if_present(PathPattern(_checked("path", pattern), base, surely=surely).judge)
        case Command(pattern):
            return _if_present(CommandPattern(_checked("command", pattern)).judge)
        case _ if wanted is None or isinstance(wanted, str | int | float) or is_sequence(wanted):
            return _equality_test(wanted)
        case _:
            ways = ", ".join(f"{one.__name__.lower()}(…)" for one in MATCHERS)
            raise ConfigurationError(
                f"{wanted!r:.80} is not a matcher: give {ways}, or a JSON value other than an object"
            )


def equality(wanted: object, value: object) -> Match:
    """Return whether two JSON values are equal; `1` and `1.0` are equal only in part."""
    if isinstance(wanted, bool) or isinstance(value, bool) or wanted is None:
        return Match.YES if value is wanted else Match.NO
    if isinstance(wanted, int | float) and isinstance(value, int | float):
        return Match.NO if value != wanted else Match.YES if type(value) is type(wanted) else Match.PARTLY
    if is_sequence(wanted) and is_sequence(value) and len(wanted) == len(value):
        return min(map(equality, wanted, value), default=Match.YES)
    if is_mapping(wanted) and is_mapping(value) and wanted.keys() == value.keys():
        return min((equality(one, value[key]) for key, one in wanted.items()), default=Match.YES)
    return Match.YES if isinstance(wanted, str) and isinstance(value, str) and wanted == value else Match.NO


def check_json(value: object) -> None:
    """Raise `ConfigurationError` unless the value is JSON."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{value!r:.80} is not a JSON value: {error}") from None


def _equality_test(wanted: object) -> Test:
    check_json(wanted)

    return lambda value, _: _EQUAL[equality(wanted, value)]


_EQUAL = {Match.YES: YES, Match.PARTLY: PARTLY, Match.NO: NO}
_MISSING = Found(Match.MISSING, "the call leaves it out")


def _if_present(test: Test) -> Test:
    """Return the test for values that are present; null counts as missing."""
    return lambda value, sight: _MISSING if value is None or value is ABSENT else test(value, sight)


def _text_test(test: Callable[[str], bool], takes: Callable[[str], bool] = lambda _: True) -> Test:
    def judge(value: object, _: MatchContext) -> Found:
        if not isinstance(value, str):
            return unknown("it is not text")
        if len(value) > MAX_TEXT:
            return TOO_LONG
        if not takes(value):
            return unknown("it is too long for a regular expression of that size")
        return YES if test(value) else NO

    return judge


def _checked(what: str, text: object) -> str:
    """Return the text of a matcher, or raise `ConfigurationError`: a struct that was not decoded may hold any type."""
    if not isinstance(text, str):
        raise ConfigurationError(f"{what} must be a text, not {text!r:.80}")
    return text
