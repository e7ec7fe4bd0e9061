"""What a text that a shell could run is made of: words, commands, and what takes them when they are found."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Protocol

MAX_DEPTH: Final = 12
"""How often commands may stand within one another."""

HOLE: Final = "\ufffc"
"""Stands in a word for what only the shell will know."""

_OWN = "! [[ and begin case do elif else for function if not or select then until while { }"
OWN_WORDS: Final = frozenset(_OWN.split())
"""Words of shells; a program may follow."""

_OPEN = re.compile(f"[*?{HOLE}]")
_ENDING = re.compile(r"\.(?:exe|cmd|bat|com)$")


class Word(NamedTuple):
    """A word without its quotes.

    `is_open`: some of it is not known, namely its holes and wildcards; `is_wild`: nothing of it is, not even whether it
    is one word. `runs`: it may be a program.
    """

    text: str
    is_open: bool = False
    is_wild: bool = False
    runs: bool = True

    @property
    def name(self) -> str:
        """The name of the program that the word runs: without its folder, its ending and its case."""
        name = self.text.replace("\\", "/").rpartition("/")[2].lstrip("=").casefold()
        return _ENDING.sub("", name)

    @property
    def has_open_name(self) -> bool:
        """Whether nobody can tell the name of the program."""
        return self.is_wild or (self.is_open and _OPEN.search(self.name) is not None)


class Unreadable(Exception):
    """The text is not what a shell takes, or not what all shells take for the same."""


class Sink(Protocol):
    """Takes what is found. Commands are numbers; those returned are whose output comes out of what was given."""

    def add(self, words: tuple[Word, ...], reads: frozenset[int], depth: int) -> frozenset[int]:
        """Take a command that gets the output of others."""
        ...

    def nest(self, text: str, depth: int) -> frozenset[int]:
        """Take a text that is commands of its own."""
        ...

    def feed(self, text: str, depth: int) -> None:
        """Take a text that a command gets as its input."""
        ...

    def evaluate(self) -> None:
        """Take note that the shell evaluates arithmetic or subscripts, and with them what variables hold."""
        ...


class Level:
    """Commands that stand side by side: the one being read, and what came of those before it."""

    def __init__(self) -> None:
        self.words: list[Word] = []
        self.reads: frozenset[int] = frozenset()
        self.piped: frozenset[int] = frozenset()
        self.latest: frozenset[int] = frozenset()
        self.every: frozenset[int] = frozenset()
        self.parentheses = 0
        self.is_over = False
        """Whether some shells begin a new command here, and others do not."""


class Pieces:
    """A word that is being read."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.is_open = False
        self.is_wild = False
        self._choice = False
        self._set = False

    def add(self, text: str) -> None:
        """Go on with a text; a hole in it was left by whoever made it, and may be anything."""
        self.texts.append(text)
        if HOLE in text:
            self.is_open = self.is_wild = True

    def special(self, sign: str) -> None:
        """Go on with a character that stands outside of quotes, or with one behind a backslash."""
        self.add(sign[-1])
        self.is_open = self.is_open or sign in {"*", "?"}
        self._choice = self._choice or sign == "{"
        self._set = self._set or sign == "["

    def hole(self, *, wild: bool) -> None:
        """Go on with something unknown; in `wild` places the shell splits it into words."""
        self.texts.append(HOLE)
        self.is_open = True
        self.is_wild = self.is_wild or wild

    def word(self) -> Word:
        """Return the word."""
        text = "".join(self.texts)
        if (self._choice and ("," in text or ".." in text)) or (self._set and "]" in text):
            return Word(text, is_open=True, is_wild=True)
        return Word(text, self.is_open, self.is_wild)
