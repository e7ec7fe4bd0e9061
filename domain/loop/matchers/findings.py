"""What is found when a value is held against a matcher: not only yes or no, for what is unsure must let no call run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from reenact.domain.loop.matchers.places import Place, Places, read_place, read_places
from reenact.domain.loop.matchers.shell import Script, read_script

MAX_TEXT: Final = 100_000
"""Characters; a longer text is not judged."""


class Match(IntEnum):
    """How far a value matches; of several that must all hold, the least counts.

    Only `YES` satisfies what lets a call run; what denies it is satisfied by all but `NO`, and `MISSING` in part.
    """

    NO = 0
    UNKNOWN = 1  # nobody can tell
    MISSING = 2  # there is no value
    PARTLY = 3  # in one reading of it, or for a part of it
    YES = 4


class Found(NamedTuple):
    """A match, and what stood in the way of a clear one."""

    match: Match
    why: str = ""


YES: Final = Found(Match.YES)
PARTLY: Final = Found(Match.PARTLY)
NO: Final = Found(Match.NO)


def unknown(why: str) -> Found:
    """Return that nobody can tell, and why."""
    return Found(Match.UNKNOWN, why)


TOO_LONG: Final = unknown(f"it has more than {MAX_TEXT:,} characters")


def any_of(found: Iterable[Found]) -> Found:
    """Return what is found of a whole whose parts were held against the same matcher: yes, if all of them match."""
    every = list(found)
    best = max(every, key=lambda one: one.match, default=NO)
    all_match = all(one.match is Match.YES for one in every)
    return PARTLY if best.match is Match.YES and not all_match else best


class Sight:
    """What one call is judged in the light of, and what was found out on the way, so that it is found out once.

    `cwd` and `home` are absolute paths, or None where they are not known; `resolve` follows symbolic links.
    """

    __slots__ = ("_places", "_resolved", "_scripts", "cwd", "home", "resolve")

    def __init__(
        self, cwd: str | None = None, home: str | None = None, resolve: Callable[[str], str] | None = None
    ) -> None:
        self.cwd = cwd
        self.home = home
        self.resolve = resolve
        self._resolved: dict[str, Place] = {}
        self._scripts: dict[str, Script] = {}
        self._places: dict[tuple[str, str | None], Places] = {}

    def script(self, text: str) -> Script:
        """Return the commands in a text."""
        known = self._scripts.get(text)
        if known is None:
            known = self._scripts[text] = read_script(text)
        return known

    def places(self, path: str, cwd: str | None) -> Places:
        """Return where a path leads from a directory, or from the one of the call."""
        known = self._places.get((path, cwd))
        if known is None:
            known = self._places[path, cwd] = read_places(path, cwd or self.cwd, self.home, self.resolve)
        return known

    def resolved(self, path: str) -> Place:
        """Return where an absolute path ends up."""
        known = self._resolved.get(path)
        if known is None:
            known = self._resolved[path] = read_place(path if self.resolve is None else self.resolve(path))
        return known


Test: TypeAlias = Callable[[object, Sight], Found]
"""A matcher made ready: holds a value against it."""


def attempt(test: Test, value: object, sight: Sight) -> Found:
    """Return what is found; nobody can tell, if it goes wrong."""
    try:
        return test(value, sight)
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not let a call run
        return unknown(f"{type(error).__name__}: {error!s:.200}")
