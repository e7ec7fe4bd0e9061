"""What is found when a value is held against a matcher: not only yes or no, for what is unsure must let no call run."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from enum import IntEnum
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from reenact.domain.loop.matchers.shell import read_script

ROOT: Final = "/"
HOME: Final = "~"
HERE: Final = ""
SOMEWHERE: Final = "?"
"""Where a path may begin; the letter of a Windows drive with its colon is one as well."""

DRIVE: Final = re.compile(r"[A-Za-z]:(?:[/\\]|$)")


class Place(NamedTuple):
    """From where a path begins, and which names it goes down from there; these again without their case."""

    base: str
    names: tuple[str, ...]
    folded: tuple[str, ...]

    @property
    def is_known(self) -> bool:
        """Whether it begins where everything begins."""
        return self.base not in {HOME, HERE, SOMEWHERE}


class Places(NamedTuple):
    """Where a path leads in all the ways that it is read by; and where by ways that hardly anything reads it."""

    likely: tuple[Place, ...]
    unlikely: tuple[Place, ...]


def read_places(text: str, cwd: str | None, home: str | None, resolve: Callable[[str], str] | None) -> Places:
    """Return where a path leads: as it is written, and, if links can be followed, where it ends up.

    Links are followed on the path as it is written: `link/..` is not where it seems to be.
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
            real = resolve(_from(slashed if on_windows else spelling, cwd, home))
            likely.extend(read_place(one, cwd, home) for one in in_unicode(real))
    return Places(tuple(dict.fromkeys(likely)), tuple(dict.fromkeys(unlikely)))


def read_place(text: str, cwd: str | None = None, home: str | None = None) -> Place:
    """Return where a path leads if it is read in the usual way; a directory that is not absolute is not known."""
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
    """Return the text as it is, and, if that is another one, with its letters in one form: systems differ in that."""
    return (text,) if text.isascii() else tuple(dict.fromkeys((text, unicodedata.normalize("NFC", text))))


def is_absolute(path: str) -> bool:
    """Return whether the path says all of where it leads."""
    return path.startswith("/") or is_drive(path)


def is_drive(path: str) -> bool:
    """Return whether the path begins with the letter of a drive."""
    return DRIVE.match(path) is not None


def _from(path: str, cwd: str | None, home: str | None) -> str:
    """Return the path with its beginning, otherwise as it is."""
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
        """Return where a path leads from a directory, or from the one of the call."""
        return read_places(path, cwd or self.cwd, self.home, self.resolve)

    def _resolved(self, path: str) -> Place:
        """Return where an absolute path ends up."""
        return read_place(path if self.resolve is None else self.resolve(path))


Test: TypeAlias = Callable[[object, Sight], Found]
"""A matcher made ready: holds a value against it."""


def attempt(test: Test, value: object, sight: Sight) -> Found:
    """Return what is found; nobody can tell, if it goes wrong."""
    try:
        return test(value, sight)
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not let a call run
        return unknown(f"{type(error).__name__}: {error!s:.200}")
