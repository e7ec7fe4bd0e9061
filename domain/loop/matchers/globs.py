"""Wildcards over texts and over the parts of a path, matched in bounded time.

`*` is any text, `?` any character, `[a-z]` and `[!a-z]` one of a set, `{a,b}` one of the alternatives, and a backslash
makes the next character an ordinary one. Among the parts of a path, a part `**` is any number of them, also none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from reenact.domain.errors import ConfigurationError

MAX_ALTERNATIVES: Final = 256
ANY: Final = None
Part: TypeAlias = str | re.Pattern[str] | None
"""What one part must be: this text, what fits the pattern, or, if it is `ANY`, any number of any parts."""

_CHOICE = re.compile(r"(?<!\\)\{([^{}]*,[^{}]*)\}")
_TOKEN = re.compile(r"\\(.)|\[(!|\^)?(\]?[^\]]*)\]|(\*+)|(\?)|(.)", re.DOTALL)
_WILD = re.compile(r"[*?\[\\]")
_NOT_IN_A_SET = re.compile(r"([^\w-])")


def alternatives(pattern: str) -> tuple[str, ...]:
    """Return the pattern once for each choice that its braces leave.

    Raises:
        ConfigurationError: there are more than 256.
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
    """Return whether the pattern, which has no braces, is more than a text."""
    return _WILD.search(pattern) is not None


def part(pattern: str, *, fold: bool = False) -> str | re.Pattern[str]:
    """Return what a text must be to fit a pattern without braces, once it is casefolded if `fold`.

    Raises:
        ConfigurationError: the pattern cannot be read.
    """
    wanted = pattern.casefold() if fold else pattern
    if not is_wild(wanted):
        return wanted
    try:
        return re.compile("".join(_regex(wanted)), re.DOTALL)
    except re.error as error:
        raise ConfigurationError(f"the wildcards of {pattern[:80]!r} cannot be read: {error}") from None


def parts(pattern: Sequence[str], *, fold: bool = False) -> tuple[Part, ...]:
    """Return what the parts of a path must be."""
    return tuple(ANY if one == "**" else part(one, fold=fold) for one in pattern)


def fits(wanted: Sequence[Part], given: Sequence[str]) -> bool:
    """Return whether the parts given are what is wanted, each in its place."""
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
    """Return whether the part given is what is wanted."""
    if isinstance(wanted, str):
        return wanted == given
    return wanted is None or wanted.fullmatch(given) is not None


def _regex(pattern: str) -> Iterator[str]:
    """Yield a regular expression whose `*` take the least they can, and never try again.

    What stands between two of them has a fixed length, so nothing is missed, and the time is bounded.
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
