"""Shared parts of all patterns: wildcards, the places of paths, and the results of matching.

`*` matches any text, `?` any character, `[a-z]` and `[!a-z]` one character of a set, `{a,b}` one of the alternatives,
and a backslash quotes the next character. As a part of a path, `**` matches any number of parts, including none. A
result is certain, in part, none, or unknown: an uncertain result must not let a call run.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from functools import cache
from typing import NamedTuple, TypeAlias

from reenact.domain.errors import ConfigurationError
from reenact.domain.policy.shell import read_script

MAX_ALTERNATIVES = 256
ANY = None
Part: TypeAlias = str | re.Pattern[str] | None
"""A part of a pattern: this text, a regular expression, or `ANY`, which matches any number of parts."""

_CHOICE = re.compile(r"(?<!\\)\{([^{}]*,[^{}]*)\}")
_TOKEN = re.compile(r"\\(.)|\[(!|\^)?(\]?[^\]]*)\]|(\*+)|(\?)|(.)", re.DOTALL)
_WILD = re.compile(r"[*?\[\\]")
_NOT_IN_A_SET = re.compile(r"([^\w-])")


def alternatives(pattern: str) -> tuple[str, ...]:
    """Return the pattern once for each combination of the alternatives in its braces.

    Raises:
        ConfigurationError: there are more than `MAX_ALTERNATIVES`.
    """
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        one = waiting.pop()
        found = _CHOICE.search(one)
        if found is None:
            done.append(one)
        else:
            before, after = one[: found.start()], one[found.end() :]
            waiting.extend(f"{before}{choice}{after}" for choice in found[1].split(","))
        if len(waiting) + len(done) > MAX_ALTERNATIVES:
            raise ConfigurationError(
                f"{pattern[:80]!r} has more than {MAX_ALTERNATIVES} alternatives; make several of it"
            )
    return tuple(done)


def is_wild(pattern: str) -> bool:
    """Return whether the pattern, which has no braces, has wildcards or escapes."""
    return _WILD.search(pattern) is not None


def part(pattern: str, *, fold: bool = False) -> str | re.Pattern[str]:
    """Return a compiled part from a pattern without braces; with `fold`, the text to match must be casefolded.

    Raises:
        ConfigurationError: the pattern is not valid.
    """
    wanted = pattern.casefold() if fold else pattern
    if not is_wild(wanted):
        return wanted
    try:
        return re.compile("".join(_regex(wanted)), re.DOTALL)
    except re.error as error:
        raise ConfigurationError(f"the wildcards of {pattern[:80]!r} cannot be read: {error}") from None


def parts(pattern: Sequence[str], *, fold: bool = False) -> tuple[Part, ...]:
    """Return the compiled parts of a path pattern."""
    return tuple(ANY if one == "**" else part(one, fold=fold) for one in pattern)


def fits(wanted: Sequence[Part], given: Sequence[str]) -> bool:
    """Return whether the given parts match the wanted ones, in order."""
    at = here = 0
    any_at, any_until = -1, 0
    while here < len(given):
        if at < len(wanted) and wanted[at] is ANY:
            any_at, any_until = at, here
            at += 1
        elif at < len(wanted) and is_one(wanted[at], given[here]):
            at += 1
            here += 1
        elif any_at >= 0:
            any_until += 1
            at, here = any_at + 1, any_until
        else:
            return False
    return all(one is ANY for one in wanted[at:])


def is_one(wanted: Part, given: str) -> bool:
    """Return whether the given part matches the wanted one."""
    if isinstance(wanted, str):
        return wanted == given
    return wanted is None or wanted.fullmatch(given) is not None


def _regex(pattern: str) -> Iterator[str]:
    """Yield a regular expression in which each `*` takes the shortest match and does not backtrack.

    The pattern between two `*` has a fixed length, so no match is missed, and the time is bounded.
    """
    tokens = list(_TOKEN.finditer(pattern))
    last = max((index for index, token in enumerate(tokens) if token[4]), default=-1)
    is_open = False
    for index, token in enumerate(tokens):
        escaped, negated, members, star, single, plain = token.groups()
        if star:
            yield ")" if is_open else ""
            is_open = index != last
            yield "(?>.*?" if is_open else ".*"
        elif single:
            yield "."
        elif members is not None:
            yield _set(negated, members)
        else:
            yield re.escape(escaped or plain)


def _set(negated: str | None, members: str) -> str:
    escaped = _NOT_IN_A_SET.sub(lambda found: "\\" + found[0], members)
    return f"[{'^' if negated else ''}{escaped}]"


ROOT = "/"
HOME = "~"
HERE = ""
SOMEWHERE = "?"
"""The possible bases of a path; the letter of a Windows drive with its colon is one as well."""

DRIVE = re.compile(r"[A-Za-z]:(?:[/\\]|$)")


class Place(NamedTuple):
    """The base of a path and the names below it; `folded` are the same names casefolded."""

    base: str
    names: tuple[str, ...]
    folded: tuple[str, ...]

    @property
    def is_known(self) -> bool:
        """Whether its base is absolute."""
        return self.base not in {HOME, HERE, SOMEWHERE}


class Places(NamedTuple):
    """The places to which a path leads in its usual readings, and those in readings that are hardly ever used."""

    likely: tuple[Place, ...]
    unlikely: tuple[Place, ...]


def read_places(text: str, cwd: str | None, home: str | None, resolve: Callable[[str], str] | None) -> Places:
    """Return the places to which a path leads: as it is written, and, if links can be followed, after following them.

    Links are followed on the path as it is written, since `link/..` need not be the directory that holds the link.
    """
    likely: list[Place] = []
    unlikely: list[Place] = []
    on_windows = is_drive(text.strip()) or (cwd is not None and is_drive(cwd))
    for spelling in dict.fromkeys((*in_unicode(text), *in_unicode(text.strip()))):
        slashed = spelling.replace("\\", "/")
        if on_windows:
            likely.append(read_place(slashed, cwd, home))
            unlikely.append(read_place(f"./{spelling}", cwd, home))
        else:
            likely.extend(read_place(one, cwd, home) for one in dict.fromkeys((spelling, slashed)))
        if spelling.startswith("~"):
            unlikely.append(read_place(f"./{slashed}", cwd, home))
        if resolve is not None:
            real = resolve(_with_directory(slashed if on_windows else spelling, cwd, home))
            likely.extend(read_place(one, cwd, home) for one in in_unicode(real))
    return Places(tuple(dict.fromkeys(likely)), tuple(dict.fromkeys(unlikely)))


def read_place(text: str, cwd: str | None = None, home: str | None = None) -> Place:
    """Return the place of a path in the usual reading; a directory that is not absolute counts as unknown."""
    if is_drive(text):
        return _place(f"{text[0].upper()}:", text[2:].replace("\\", "/"))
    if text.startswith("/"):
        return _place(ROOT, text)
    if text.startswith("~"):
        user, _, rest = text[1:].partition("/")
        if user:
            return _place(SOMEWHERE, rest)
        return read_place(f"{home}/{rest}") if home and is_absolute(home) else _place(HOME, rest)
    return read_place(f"{cwd}/{text}") if cwd and is_absolute(cwd) else _place(HERE, text)


def in_unicode(text: str) -> tuple[str, ...]:
    """Return the text itself and, if different, in normal form C: systems differ in that."""
    return (text,) if text.isascii() else tuple(dict.fromkeys((text, unicodedata.normalize("NFC", text))))


def is_absolute(path: str) -> bool:
    """Return whether the path is absolute."""
    return path.startswith("/") or is_drive(path)


def is_drive(path: str) -> bool:
    """Return whether the path begins with the letter of a drive."""
    return DRIVE.match(path) is not None


def _with_directory(path: str, cwd: str | None, home: str | None) -> str:
    """Return the path with `cwd` or `home` put in front, and otherwise unchanged."""
    if home and (path == "~" or path.startswith("~/")):
        return home + path[1:]
    return f"{cwd}/{path}" if cwd and not is_absolute(path) and not path.startswith("~") else path


def _place(base: str, rest: str) -> Place:
    names: list[str] = []
    for name in rest.split("/"):
        if name == ".." and (names or base not in {HOME, HERE, SOMEWHERE}):
            names[-1:] = []
        elif name == "..":
            base = SOMEWHERE
        elif name not in {"", "."}:
            names.append(name)
    return Place(base, tuple(names), tuple(name.casefold() for name in names))


MAX_TEXT = 100_000
"""The longest text that is judged, in characters."""


class Match(IntEnum):
    """How far a value matches; of several conditions that must all hold, the lowest counts.

    Only `YES` satisfies a rule that lets a call run; a rule that denies is satisfied by all but `NO`, by `MISSING` in
    part.
    """

    NO = 0
    UNKNOWN = 1  # cannot be decided
    MISSING = 2  # the argument is missing
    PARTLY = 3  # in one reading of the value, or for a part of it
    YES = 4


class Found(NamedTuple):
    """The result of a match, and why it is not clear."""

    match: Match
    why: str = ""


YES = Found(Match.YES)
PARTLY = Found(Match.PARTLY)
NO = Found(Match.NO)


def unknown(why: str) -> Found:
    """Return the result of an undecidable match, with the reason."""
    return Found(Match.UNKNOWN, why)


TOO_LONG = unknown(f"it has more than {MAX_TEXT:,} characters")


def any_of(found: Iterable[Found]) -> Found:
    """Return the result for a whole whose parts were matched one by one: `YES` only if all parts match."""
    every = list(found)
    best = max(every, key=lambda one: one.match, default=NO)
    all_match = all(one.match is Match.YES for one in every)
    return PARTLY if best.match is Match.YES and not all_match else best


class MatchContext:
    """The context in which one call is judged, with a cache of what was derived from it.

    `cwd` and `home` are absolute paths, None if unknown; `resolve` follows symbolic links.
    """

    def __init__(
        self, cwd: str | None = None, home: str | None = None, resolve: Callable[[str], str] | None = None
    ) -> None:
        self.cwd = cwd
        self.home = home
        self.resolve = resolve
        self.script = cache(read_script)
        self.places = cache(self._places)
        self.resolved = cache(self._resolved)

    def _places(self, path: str, cwd: str | None) -> Places:
        """Return the places to which a path leads from this directory, or from the call's working directory."""
        return read_places(path, cwd or self.cwd, self.home, self.resolve)

    def _resolved(self, path: str) -> Place:
        """Return the place to which an absolute path leads."""
        return read_place(path if self.resolve is None else self.resolve(path))


Test: TypeAlias = Callable[[object, MatchContext], Found]
"""A compiled matcher: a function that returns how a value matches."""


def attempt(test: Test, value: object, sight: MatchContext) -> Found:
    """Return the test's result; an error counts as undecidable."""
    try:
        return test(value, sight)
    except Exception as error:  # noqa: BLE001 - no error may let a call run
        return unknown(f"{type(error).__name__}: {error!s:.200}")
