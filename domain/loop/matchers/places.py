"""Where a path leads, however it is written, as far as that can be said without touching a file.

`.`, `..` and doubled slashes are worked out, a relative path goes on from the working directory and `~` from the home
directory, a backslash may be a slash, and letters may have another Unicode form. Percent signs are ordinary characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Final, NamedTuple

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
