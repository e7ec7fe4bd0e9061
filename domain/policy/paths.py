"""Path patterns such as `/srv/app/**`, matched against paths.

`**` as a name matches any number of names, including none: `/srv/app/**` matches the directory and everything under it.
In a name, `*`, `?`, `[a-z]` and `{a,b}` are wildcards. A pattern begins at the root, at `~`, in the working directory,
or, with `**/`, anywhere. A path matches for sure only if it matches in every reading, and where its links lead; it
matches in part if it matches in one reading, or only when case is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from reenact.domain.errors import ConfigurationError
from reenact.domain.plain import is_sequence
from reenact.domain.policy.patterns import (
    ANY,
    HERE,
    HOME,
    NO,
    PARTLY,
    ROOT,
    YES,
    Found,
    Match,
    MatchContext,
    Part,
    Place,
    alternatives,
    any_of,
    fits,
    in_unicode,
    is_absolute,
    is_drive,
    parts,
    read_place,
    unknown,
)

MAX_PATTERN = 4_096
"""The longest pattern, in characters."""
MAX_PATH = 4_096
"""The longest path, in characters; no system accepts more, and Unicode normalisation may take quadratic time."""

_ANYWHERE = "**"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ADDRESS = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]+:/")
_NO_PATH = unknown("it is not a path: neither a text, nor a list of texts")


class PathPattern:
    """A compiled path pattern; a relative one is resolved from `cwd`, if given.

    With `surely`, links in the pattern itself are not followed, and undecidable matches are not looked for.

    Raises:
        ConfigurationError: the pattern or the directory is not valid.
    """

    def __init__(self, pattern: str, cwd: str | None = None, *, surely: bool = False) -> None:
        if cwd is not None and (not is_absolute(cwd) or _CONTROL.search(cwd)):
            raise ConfigurationError(f"cwd {cwd[:80]!r} is not an absolute path")
        self._cwd = cwd
        self._patterns = tuple(_parsed(one) for form in in_unicode(_checked(pattern)) for one in alternatives(form))
        self._surely = surely
        self._by_name: dict[str, list[_ParsedPattern]] = {}
        for parsed in self._patterns:
            self._by_name.setdefault(parsed.telling_name, []).append(parsed)

    def judge(self, value: object, sight: MatchContext) -> Found:
        """Return how a path, or a list of paths, matches."""
        if isinstance(value, str):
            return self._judge(value, sight)
        if is_sequence(value) and value:
            return any_of(self._judge(one, sight) if isinstance(one, str) else _NO_PATH for one in value)
        return _NO_PATH

    def _judge(self, path: str, sight: MatchContext) -> Found:
        if len(path) > MAX_PATH:
            return unknown(f"it has more than {MAX_PATH:,} characters")
        if not path.strip() or _CONTROL.search(path) or _ADDRESS.match(path):
            return unknown("it is not a path: it is empty, an address, or has control characters in it")
        likely, unlikely = sight.places(path, self._cwd)
        resolved = [
            one
            for parsed in self._candidate_patterns((*likely, *unlikely))
            for one in self._resolved_patterns(parsed, sight)
        ]
        if not resolved:
            return NO
        found = [max(one.match(place) for one in resolved) for place in likely]
        if all(match is Match.YES for match in found):
            return YES
        best = max((*found, *(one.match(place) for one in resolved for place in unlikely if place.is_known)))
        if best is Match.NO:
            return NO
        if best is Match.UNKNOWN:
            return unknown("nobody can tell where it leads: the working directory, or the home directory, is not known")
        return PARTLY

    def _candidate_patterns(self, places: Sequence[Place]) -> Iterable[_ParsedPattern]:
        if not self._surely:
            return self._patterns
        names = {name for place in places for name in place.folded}
        return [parsed for name in ("", *names) for parsed in self._by_name.get(name, ())]

    def _resolved_patterns(self, parsed: _ParsedPattern, sight: MatchContext) -> Iterator[_ParsedPattern]:
        resolved = parsed.with_known_base(sight, self._cwd or sight.cwd)
        yield resolved
        if not self._surely and sight.resolve is not None:
            yield from resolved.with_links_resolved(sight)


class _ParsedPattern(NamedTuple):
    """A pattern as the names that must follow its base; `folded` are the same names casefolded."""

    base: str
    wanted: tuple[Part, ...]
    folded: tuple[Part, ...]

    def match(self, place: Place) -> Match:
        """Return how the place matches the pattern."""
        found = self._match_names(self.wanted, place.base, place.names, is_known=place.is_known)
        if found < Match.PARTLY and (place.folded != place.names or self.folded != self.wanted):
            folded = self._match_names(self.folded, place.base, place.folded, is_known=place.is_known)
            return Match.PARTLY if folded is Match.YES else found
        return found

    @property
    def telling_name(self) -> str:
        """A casefolded name that every matching path contains, "" if there is none."""
        return next((part for part in reversed(self.folded) if isinstance(part, str)), "")

    def with_known_base(self, sight: MatchContext, cwd: str | None) -> _ParsedPattern:
        """Return the same pattern, resolved from the working or home directory if that is known."""
        begins = {HERE: cwd, HOME: sight.home}.get(self.base)
        if begins is None or not is_absolute(begins):
            return self
        begin = read_place(begins)
        return _ParsedPattern(begin.base, begin.names + self.wanted, begin.folded + self.folded)

    def with_links_resolved(self, sight: MatchContext) -> Iterator[_ParsedPattern]:
        """Yield the pattern with its leading names resolved through links, if that leads elsewhere."""
        known = tuple(
            name for name in takewhile(lambda part: isinstance(part, str), self.wanted) if isinstance(name, str)
        )
        if known and self.base not in {HERE, HOME, _ANYWHERE}:
            real = sight.resolved(f"{self.base.rstrip('/')}/{'/'.join(known)}")
            if (real.base, real.names) != (self.base, known):
                rest = len(known)
                yield _ParsedPattern(real.base, real.names + self.wanted[rest:], real.folded + self.folded[rest:])

    def _match_names(self, wanted: tuple[Part, ...], base: str, names: tuple[str, ...], *, is_known: bool) -> Match:
        if self.base in {base, _ANYWHERE} and fits(wanted, names):
            return Match.YES
        if self.base == base:
            return Match.NO
        may_begin_anywhere = self.base in {HOME, HERE} and fits((ANY, *wanted), names)
        may_go_on = not is_known and any(fits(wanted[start:], names) for start in range(len(wanted) + 1))
        return Match.UNKNOWN if may_begin_anywhere or may_go_on else Match.NO


def _parsed(pattern: str) -> _ParsedPattern:
    """Return one alternative of a pattern in its parsed form."""
    base, names = _split(pattern)
    return _ParsedPattern(base, parts(names), parts(names, fold=True))


def _split(pattern: str) -> tuple[str, tuple[str, ...]]:
    """Return the base of a pattern, and its names."""
    base, rest = HERE, pattern
    if is_drive(pattern):
        base, rest = f"{pattern[0].upper()}:", pattern[2:]
    elif pattern.startswith("/"):
        base = ROOT
    elif pattern.startswith("~"):
        base, rest = HOME, pattern[1:]
    names = tuple(name for name in rest.split("/") if name not in {"", "."})
    if base == HERE and names[:1] == (_ANYWHERE,):
        base = _ANYWHERE
    if ".." in names:
        raise ConfigurationError(f"the path pattern {pattern[:80]!r} has '..' in it; write where it leads")
    if base == HOME and rest[:1] not in {"", "/"}:
        raise ConfigurationError(f"the path pattern {pattern[:80]!r} names a user's home; write where that is, or '~/'")
    if rest.endswith("/") and names:
        raise ConfigurationError(
            f"the path pattern {pattern[:80]!r} ends in '/'; end it in '/**' for what lies under it"
        )
    return base, names


def _checked(pattern: str) -> str:
    if not pattern or len(pattern) > MAX_PATTERN or _CONTROL.search(pattern) or "\\" in pattern:
        raise ConfigurationError(
            f"{pattern[:80]!r} is not a path pattern: it has 1 to {MAX_PATTERN:,} characters, with slashes between its "
            "names, without backslashes and control characters; [*] is a star"
        )
    return pattern
