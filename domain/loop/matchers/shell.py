"""Finds every command that a text may make a shell run; runs nothing, expands nothing.

What is found answers two questions. Is it one simple command, with nothing in it that a shell would still change
(`Script.is_plain`)? And which commands may be run anywhere in it: behind `;` or `&&`, in a pipe, in `$(…)`, as an
argument of `sudo` or of `bash -c` (`Script.commands`)? The second answer is rather too long than too short, and what
cannot be seen leaves a `doubt`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from reenact.domain.loop.matchers.shell_syntax import Reader
from reenact.domain.loop.matchers.shell_words import HOLE, MAX_DEPTH, Unreadable, Word

_LAUNCHERS = """
    alias builtin bundle bunx busybox bwrap caffeinate case chroot chrt cmd command conda coproc direnv doas entr env
    eval exec expect fakeroot fd find firejail flock for function gdb hatch hyperfine ionice ltrace mamba nice nix-shell
    nohup npx nsenter parallel pdm pipenv pkexec pnpx poetry powershell proot pwsh rlwrap runuser rye screen script
    select setsid ssh stdbuf strace su sudo systemd-run taskset time timeout tmux toybox trap unbuffer unshare uv uvx
    valgrind watch xargs
"""
LAUNCHERS: Final = frozenset(_LAUNCHERS.split())
"""Behind these, programs and words of the shell, any word may be a program."""

_SHELLS = "ash bash csh dash fish ksh mksh rbash sh source tcsh zsh ."
SHELLS: Final = frozenset(_SHELLS.split())
"""Programs that run the commands in a file, or those that they read."""

_TEXTS = "alias entr eval expect flock nix-shell parallel powershell pwsh runuser screen script ssh su tmux trap watch"
_RUN_TEXTS = frozenset(_TEXTS.split())
"""Programs that give a text among their arguments to a shell."""

MAX_WORDS: Final = 10_000
"""In all commands of a text together."""
MAX_COMMANDS: Final = 2_000

_MAX_STARTS = 100
_ANYTHING: Final = Word(HOLE, is_open=True, is_wild=True)
_FILLING = frozenset({"fd", "find", "parallel", "xargs"})
"""These put what they find in the place of `{}`."""
_ADDING = frozenset({"fd", "parallel", "xargs"})
"""These put it at the end."""
_OWN = "! [[ and begin case do elif else for function if not or select then until while { }"
_OWN_WORDS = frozenset(_OWN.split())
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
_HARMLESS = re.compile(r"[\w@%+:,./-]*", re.ASCII)
_ORDINARY = re.compile(r"[\w@%+=:,./-]+(?: [\w@%+=:,./-]+){0,30}", re.ASCII)
"""What is read by splitting it: it saves two thirds of the time."""
_READING = frozenset({"source", "."})
_LEADING = frozenset({"builtin", "command", "time"})
_WRITING = frozenset({">", "tee"})
_HAS_COMMANDS = re.compile(r"-\w*c")
_READS_INPUT = re.compile(r"[-+]\w*s")


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
        self._written: set[str] = set()
        self._words = 0
        self._has_open_names = False
        self._has_shell = False
        self._runs_files = False
        self.doubt = ""

    def script(self, *, is_plain: bool) -> Script:
        """Return what was gathered; `is_plain` is whether it was read without anything special."""
        if self._has_shell:
            for text, depth in self._inputs:
                self._read_input(text, depth)
        if self._written and (self._runs_files or self._written & self._names):
            self.doubt = self.doubt or "it may run what it writes"
        is_one = len(self._commands) == 1 and not _is_own(self._commands[0].words[0])
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
        words, starts = _with_starts(words)
        self._words += len(words)
        if self._words > MAX_WORDS or len(self._commands) >= MAX_COMMANDS or starts > _MAX_STARTS:
            raise Unreadable("it has too many words")
        programs = [word for word in words[:starts] if word.runs]
        names = {program.name for program in programs if not program.is_open}
        self._names |= names
        self._has_open_names = self._has_open_names or any(program.is_open for program in programs)
        shells = [start for start in range(starts) if _is_shell(words, start)]
        for text in _scripts(words, names, has_shell=bool(shells)):
            reads |= self.nest(text, depth + 1)
        self._note(words, names, has_shell=bool(shells))
        hides_text = names & _RUN_TEXTS and any(word.is_open for word in words)
        if hides_text or any(_is_blind(words[start + 1 :]) for start in shells):
            self.doubt = self.doubt or "it makes a shell run what is not to be seen"
        self._commands.append(Command(words, starts, reads))
        return frozenset({len(self._commands) - 1})

    def _note(self, words: tuple[Word, ...], names: set[str], *, has_shell: bool) -> None:
        """Remember what matters for other commands."""
        if words[0].text in _WRITING:
            self._written |= {word.name for word in words[1:]}
        if has_shell or names & _RUN_TEXTS:
            self._has_shell = True
        if has_shell and not _commands_given(words):
            self._runs_files = True
        if "case" in names:
            self.doubt = self.doubt or "not all that stands in 'case' can be told apart"


def _with_starts(words: tuple[Word, ...]) -> tuple[tuple[Word, ...], int]:
    """Return the words, and how many of the first may be a program: all that a launcher gets."""
    for index, word in enumerate(words):
        if word.name in LAUNCHERS:
            words = _filled(words, index)
            return words, len(words)
        if _ASSIGNMENT.match(word.text):
            words = (*words[:index], word._replace(runs=False), *words[index + 1 :])
        elif word.text not in _OWN_WORDS:
            return words, index + 1
    return words, len(words)


def _filled(words: tuple[Word, ...], index: int) -> tuple[Word, ...]:
    """Return the words of a launcher, which may get more of them, or some in the place of `{}`."""
    names = {word.name for word in words[index:]}
    if names & _FILLING:
        behind = (Word(""), *words)
        words = tuple(
            _ANYTHING._replace(runs=before.text.startswith("-") or before.name in LAUNCHERS)
            if "{}" in word.text
            else word
            for before, word in zip(behind, words, strict=False)
        )
    if names & _ADDING:
        words = (*words, _ANYTHING._replace(runs=bool(names & (LAUNCHERS | SHELLS) - _ADDING)))
    return words


def _is_own(word: Word) -> bool:
    """Return whether a program may follow the word: an assignment, or a word of the shell's own."""
    return word.text in _OWN_WORDS or _ASSIGNMENT.match(word.text) is not None


def _is_shell(words: Sequence[Word], start: int) -> bool:
    """Return whether the program that starts there is a shell, or the shell itself that reads a file."""
    name = words[start].name
    if name not in SHELLS:
        return False
    return name not in _READING or all(_is_own(word) or word.name in _LEADING for word in words[:start])


def _commands_given(words: Sequence[Word]) -> bool:
    """Return whether a shell is told that its commands are an argument."""
    return any(_HAS_COMMANDS.match(word.text) for word in words)


def _scripts(words: tuple[Word, ...], names: set[str], *, has_shell: bool) -> Iterator[str]:
    """Yield the arguments that may be commands themselves."""
    if has_shell and _commands_given(words):
        yield from (word.text for word in words[1:])
    elif names & LAUNCHERS:
        yield from (word.text for word in words[1:] if not _HARMLESS.fullmatch(word.text))
    if "eval" in names:
        yield " ".join(word.text for word in words[1:])
    if "alias" in names:
        yield from (word.text.partition("=")[2] for word in words[1:])


def _is_blind(given: Sequence[Word]) -> bool:
    """Return whether a shell with these arguments runs what stands neither among them nor in a file."""
    operands = [word for word in given if not word.text.startswith(("-", "+"))]
    if not operands or operands[0].is_open or operands[0].text.startswith(("/dev/", "/proc/")):
        return True
    return any(_READS_INPUT.match(word.text) for word in given)
