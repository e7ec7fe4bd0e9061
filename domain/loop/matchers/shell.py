"""Finds every command that a text may make a shell run; runs nothing, expands nothing.

What is found answers two questions. Is it one simple command, with nothing in it that a shell would still change
(`Script.is_plain`)? And which commands may be run anywhere in it: behind `;` or `&&`, in a pipe, in `$(…)`, as an
argument of `sudo` or of `bash -c` (`Script.commands`)? The second answer is rather too long than too short, and what
cannot be seen leaves a `doubt`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from reenact.domain.loop.matchers.programs import (
    COPYING,
    TAKING_TEXTS,
    evaluates,
    has_latent,
    is_open_to_all,
    is_own,
    is_shell,
    source_of,
    texts_of,
    with_starts,
)
from reenact.domain.loop.matchers.shell_syntax import Reader
from reenact.domain.loop.matchers.shell_words import MAX_DEPTH, Unreadable, Word

MAX_WORDS: Final = 10_000
"""In all commands of a text together."""
MAX_COMMANDS: Final = 2_000
_UNSEEN: Final = "it makes a shell run what is not to be seen"
_EVALUATED: Final = "a shell may evaluate a text in it, and run a command in that"

_ORDINARY = re.compile(r"[\w@%+=:,./-]+(?: [\w@%+=:,./-]+){0,30}", re.ASCII)
"""What is read by splitting it: it saves two thirds of the time."""


class Command(NamedTuple):
    """A simple command: its words; how many of the first may each be a program; whose output it may get."""

    words: tuple[Word, ...]
    starts: int
    reads: frozenset[int]


class Script(NamedTuple):
    """The commands in a text. `names` are those of all programs that may be run, as far as they are known."""

    commands: tuple[Command, ...]
    names: frozenset[str]
    has_open_names: bool
    is_plain: bool
    doubt: str = ""


def read_script(text: str) -> Script:
    """Return the commands in a text."""
    text = text.strip(" \t\n")
    if _ORDINARY.fullmatch(text):
        return read_arguments(text.split(" "))
    found = _Commands()
    is_plain = found.read(text, 0)
    return found.script(is_plain=is_plain)


def read_arguments(words: Sequence[str]) -> Script:
    """Return the commands in a program and its arguments, which no shell reads first."""
    found = _Commands()
    try:
        found.add(tuple(Word(word) for word in words), frozenset(), 0)
    except Unreadable as problem:
        found.doubt = str(problem)
    return found.script(is_plain=all("\0" not in word for word in words))


class _Commands:
    """Gathers commands, also those that stand in the arguments of others."""

    def __init__(self) -> None:
        self._commands: list[Command] = []
        self._names: set[str] = set()
        self._inputs: list[tuple[str, int]] = []
        self._files: set[str] = set()
        self._written: set[str] = set()
        self._words = 0
        self._has_open_names = False
        self._has_shell = False
        self._evaluates = False
        self._has_latent = False
        self.doubt = ""

    def script(self, *, is_plain: bool) -> Script:
        """Return what was gathered; `is_plain` is whether it was read without anything special."""
        if self._has_shell:
            for text, depth in self._inputs:
                self._read_input(text, depth)
        if self._written & (self._files | self._names) or (self._written and self._files and self._names & COPYING):
            self.doubt = self.doubt or "it may run what it writes"
        if self._evaluates and self._has_latent:
            self.doubt = self.doubt or _EVALUATED
        is_one = len(self._commands) == 1 and not is_own(self._commands[0].words[0])
        is_plain = is_plain and is_one and not self.doubt
        return Script(tuple(self._commands), frozenset(self._names), self._has_open_names, is_plain, self.doubt)

    def read(self, text: str, depth: int) -> bool:
        """Read a text; return whether nothing was met in it but words."""
        reader = Reader(text, self, depth)
        try:
            reader.read()
        except Unreadable as problem:
            self.doubt = self.doubt or f"it cannot be read as shell commands: {problem}"
        return reader.is_plain

    def feed(self, text: str, depth: int) -> None:
        """Remember what some command gets as its input; a shell would run it."""
        self._inputs.append((text, depth))
        self._has_latent = self._has_latent or has_latent(text)

    def evaluate(self) -> None:
        """Remember that a shell evaluates what variables hold."""
        self._evaluates = True

    def _read_input(self, text: str, depth: int) -> None:
        try:
            self.nest(text, depth + 1)
        except Unreadable as problem:
            self.doubt = self.doubt or str(problem)

    def nest(self, text: str, depth: int) -> frozenset[int]:
        """Read a text that is commands of its own, or may be; return which these are."""
        first = len(self._commands)
        if depth > MAX_DEPTH:
            raise Unreadable("too many commands stand within one another")
        self.read(text, depth)
        return frozenset(range(first, len(self._commands)))

    def add(self, words: tuple[Word, ...], reads: frozenset[int], depth: int) -> frozenset[int]:
        """Take a command; return those whose output comes out of it."""
        words, starts = with_starts(words)
        self._words += len(words)
        if self._words > MAX_WORDS or len(self._commands) >= MAX_COMMANDS:
            raise Unreadable("it has too many words")
        shells = [start for start in range(starts) if is_shell(words, start)]
        starts = max([starts, *(self._read_by(words, start) for start in shells)])
        programs = [word for word in words[:starts] if word.runs]
        names = {program.name for program in programs if not program.has_open_name}
        self._names |= names
        self._has_open_names = self._has_open_names or any(program.has_open_name for program in programs)
        texts = list(texts_of(words, names, has_shell=bool(shells)))
        for text in texts:
            reads |= self.nest(text, depth + 1)
        self._has_shell = self._has_shell or bool(shells) or bool(names & TAKING_TEXTS)
        self._note(words, names)
        self._evaluates = self._evaluates or evaluates(words, starts)
        is_read = {word.text for word in words[1:]} if "eval" in names else set(texts)
        self._has_latent = self._has_latent or any(has_latent(word.text) for word in words if word.text not in is_read)
        if is_open_to_all(words, starts):
            self.doubt = self.doubt or _EVALUATED
        self._commands.append(Command(words, starts, reads))
        return frozenset({len(self._commands) - 1})

    def _read_by(self, words: tuple[Word, ...], start: int) -> int:
        """Return where what a shell runs ends, if it is a file; remember the file, or that it is not to be seen."""
        source, place = source_of(words[start + 1 :])
        if source == "unseen":
            self.doubt = self.doubt or _UNSEEN
        if source != "file":
            return 0
        self._files.add(words[start + 1 + place].name)
        return start + 2 + place

    def _note(self, words: tuple[Word, ...], names: set[str]) -> None:
        """Remember what matters for other commands, and what is not to be seen."""
        if names & TAKING_TEXTS and any(word.is_open for word in words):
            self.doubt = self.doubt or _UNSEEN
        if "case" in names:
            self.doubt = self.doubt or "not all that stands in 'case' can be told apart"
        if words[0].text == ">" or "tee" in names:
            self._written |= {word.name for word in words[1:] if not word.text.startswith("/dev/")}
