"""Programs that run other programs: shells, and all programs that take a command among their arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

MAX_DEPTH = 12
"""How deeply commands may be nested."""

HOLE = "\ufffc"
"""The placeholder in a word for a part that only the shell will know."""

_OWN = "! [[ and begin case do elif else for function if not or select then until while { }"
OWN_WORDS = frozenset(_OWN.split())
"""Reserved words of shells; a program may follow."""

_OPEN = re.compile(f"[*?{HOLE}]")
_ENDING = re.compile(r"\.(?:exe|cmd|bat|com)$")


class Word(NamedTuple):
    """A word without its quotes.

    `is_open`: parts of it are unknown, namely its holes and wildcards; `is_wild`: nothing is known of it, not even
    whether it is one word. `runs`: it may be a program.
    """

    text: str
    is_open: bool = False
    is_wild: bool = False
    runs: bool = True

    @property
    def name(self) -> str:
        """The name of the program that the word runs: without its directory and extension, casefolded."""
        name = self.text.replace("\\", "/").rpartition("/")[2].lstrip("=").casefold()
        return _ENDING.sub("", name)

    @property
    def has_open_name(self) -> bool:
        """Whether the name of the program is unknown."""
        return self.is_wild or (self.is_open and _OPEN.search(self.name) is not None)


class Unreadable(Exception):
    """The text is not valid for a shell, or different shells read it differently."""


_LAUNCHERS = """
    alias bind builtin bundle bunx busybox bwrap caffeinate chroot chrt cmd command compgen complete conda coproc direnv
    doas entr env eval exec expect fakeroot fc fd find firejail flock gdb hash hatch hyperfine ionice ltrace mamba
    mapfile nice nix-shell nohup npx nsenter parallel pdm pipenv pkexec pnpx poetry powershell proot pwsh readarray
    rlwrap runuser rye screen script setsid ssh stdbuf strace su sudo systemd-run taskset time timeout tmux toybox trap
    unbuffer unshare uv uvx valgrind watch xargs
"""
LAUNCHERS = frozenset(_LAUNCHERS.split())
"""Programs that start another program, which is among their arguments."""

_TEXTS = """
    alias bind cmd compgen complete entr eval expect fc flock hyperfine mapfile nix-shell parallel powershell pwsh
    readarray runuser screen script ssh su tmux trap watch
"""
TAKING_TEXTS = frozenset(_TEXTS.split())
"""Programs that have a shell run a text from their arguments."""

_SHELLS = "ash bash csh dash fish ksh mksh rbash sh source tcsh zsh ."
SHELLS = frozenset(_SHELLS.split())
"""Programs that run commands: those in a text, in a file, or those that they read."""

EVALUATING = {
    "[": re.compile("-[vR]"),
    "[[": re.compile("-[vR]"),
    "declare": None,
    "getopts": None,
    "let": None,
    "local": None,
    "printf": re.compile("-v(.*)", re.DOTALL),
    "read": None,
    "test": re.compile("-[vR]"),
    "typeset": None,
    "unset": None,
    "wait": re.compile("-n?p(.*)", re.DOTALL),
}
"""Built-ins of shells that take names of variables, and run the commands in a subscript: `test -v 'a[$(ls)]'`.

With a pattern, only the word after the option, or the rest of the option itself, is such a name.
"""
COMPARING = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
"""Operators of `[[`, and in some shells of `test`, whose operands are evaluated as arithmetic."""
_EVALUATED = re.compile(r"(?:(?:PS[0-4]|OPTIND|S?RANDOM|HISTCMD|SECONDS|LINENO)|[A-Za-z_]\w*\[.*\])\+?=", re.DOTALL)
"""Assignments whose value or subscript a shell evaluates."""
_RUN_BY_SHELLS = re.compile(r"(?:BASH_ENV|PROMPT_COMMAND)(?:\[.*\])?\+?=")
"""Assignments to variables that determine what a shell runs by itself."""
_LATENT = re.compile(r"`|\$\(")
_SPLITTING = re.compile(r"(?:-\w*S|--s[a-z-]*=)(.+)", re.DOTALL)

COPYING = frozenset({"cp", "install", "ln", "mv"})

MAX_STARTS = 100
"""The number of words of one command that may be programs."""

Source: TypeAlias = Literal["commands", "file", "unseen"]
"""The source of a shell's commands: an argument, a file, or one that cannot be seen."""

_FILLING = frozenset({"fd", "find", "parallel", "xargs"})
"""Programs that replace `{}` by what they find or read."""
_ADDING = frozenset({"fd", "parallel", "xargs"})
"""Programs that append what they find or read to the arguments."""
_READING = frozenset({"source", "."})
_LEADING = frozenset({"builtin", "command", "time"})
_NAMING = frozenset({"case", "for", "function", "select"})
"""Reserved words that are followed by names instead of programs."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
_HARMLESS = re.compile(r"[\w@%+:,./-]*", re.ASCII)
_HAS_COMMANDS = re.compile(r"-\w*c")
_REPLACING = re.compile(r"-I(.*)|--replace(?:=(.*))?", re.DOTALL)
_ANY_WORD = Word(HOLE, is_open=True, is_wild=True)


def is_own(word: Word) -> bool:
    """Return whether a program may follow the word: it is an assignment, or a reserved word of the shell."""
    return word.text in OWN_WORDS or _ASSIGNMENT.match(word.text) is not None


def with_starts(words: tuple[Word, ...]) -> tuple[tuple[Word, ...], int]:
    """Return the words as the launchers among them may change them, and how many of the first may be programs.

    Raises:
        Unreadable: there are too many.
    """
    marked = list(words)
    starts = 0
    while starts < len(marked):
        word = marked[starts]
        starts += 1
        if _ASSIGNMENT.match(word.text):
            marked[starts - 1] = word._replace(runs=False)
        elif word.text in _NAMING:
            starts = _skip_names(marked, starts)
        elif word.name in LAUNCHERS or word.has_open_name:
            marked = _with_unknown_words(marked)
            starts = len(marked)
            break
        elif word.text not in OWN_WORDS:
            break
    if sum(word.runs for word in marked[:starts]) > MAX_STARTS:
        raise Unreadable("too many words may be programs")
    return tuple(marked), starts


def _skip_names(words: list[Word], index: int) -> int:
    """Mark the names after the reserved word before the index as no programs; return the index after them."""
    word, behind = words[index - 1].text, [one.text for one in words[index:]]
    end = index + (1 if word == "function" else behind.index("do") if "do" in behind else len(behind))
    for place in range(index, min(end, len(words))):
        words[place] = words[place]._replace(runs=False)
    return min(end, len(words))


def _with_unknown_words(words: list[Word]) -> list[Word]:
    """Return the words of a launcher, with unknown words where it inserts or appends what it finds."""
    names = {word.name for word in words}
    filled = words
    if names & _FILLING:
        hole = _placeholder(words)
        filled = list[Word]()
        for before, word in zip([Word("-"), *words], words, strict=False):
            if hole in word.text and not word.text.startswith("-"):
                runs = before.text.startswith("-") or before.name in LAUNCHERS
                filled.append(Word(word.text.replace(hole, HOLE), is_open=True, is_wild=True, runs=runs))
            else:
                filled.append(word)
    if names & _ADDING:
        filled = [*filled, _ANY_WORD._replace(runs=bool(names & (LAUNCHERS | SHELLS) - _ADDING))]
    return filled


def _placeholder(words: Sequence[Word]) -> str:
    """Return the placeholder that `xargs` and similar programs replace by what they read."""
    for word, following in zip(words, [*words[1:], Word("")], strict=True):
        if found := _REPLACING.fullmatch(word.text):
            return found[1] or found[2] or (following.text if found[1] == "" else "") or "{}"
    return "{}"


def is_shell(words: Sequence[Word], start: int) -> bool:
    """Return whether the program at this index is a shell, or makes the shell read a file."""
    name = words[start].name
    if name not in SHELLS:
        return False
    return name not in _READING or all(is_own(word) or word.name in _LEADING for word in words[:start])


def source_of(given: Sequence[Word]) -> tuple[Source, int]:
    """Return the source of what a shell with these arguments runs, and the index of the argument if it is a file."""
    is_text, index = False, 0
    while index < len(given) and given[index].text.startswith(("-", "+")):
        option = given[index].text
        index += 1
        if option in {"-", "--"}:
            break
        if not option.startswith("--"):
            is_text = is_text or "c" in option
            index += option.lower().count("o")  # each of these takes an argument
            if "s" in option:
                return "unseen", 0
    rest = given[index:]
    if not rest or any(word.is_open for word in given[: index + 1]):
        return "unseen", 0
    if is_text:
        return "commands", 0
    return ("unseen", 0) if rest[0].text.startswith(("/dev/", "/proc/")) else ("file", index)


def texts_of(words: Sequence[Word], names: set[str], *, has_shell: bool) -> Iterator[str]:
    """Yield the arguments that may be commands themselves."""
    given = [word.text for word in words[1:]]
    if has_shell and any(_HAS_COMMANDS.match(text) for text in given):
        yield from given
    elif names & (TAKING_TEXTS | {"env"}):
        yield from (text for text in given if not _HARMLESS.fullmatch(text))
    if "eval" in names:
        yield " ".join(given)
    if "alias" in names:
        yield from (text.partition("=")[2] for text in given)
    if "env" in names:
        yield from (found[1] for text in given if (found := _SPLITTING.fullmatch(text)))


def has_latent(text: str) -> bool:
    """Return whether a text that no shell has read yet contains a command: it runs if a shell evaluates the text."""
    return _LATENT.search(text) is not None


def evaluates(words: Sequence[Word], starts: int) -> bool:
    """Return whether a shell may evaluate texts here: names, subscripts, arithmetic, prompts."""
    compares = any(word.text in COMPARING for word in words)
    return any(_EVALUATED.match(word.text) for word in words) or any(
        (compares and program.name in {"[", "[[", "test"}) or any(_variable_names(words, start))
        for start, program in enumerate(words[:starts])
    )


def is_open_to_all(words: Sequence[Word], starts: int) -> bool:
    """Return whether a shell may evaluate an unknown text, or run a file that a variable names."""
    if any(_RUN_BY_SHELLS.match(word.text) for word in words):
        return True
    return any(HOLE in name.partition("=")[0] for start in range(starts) for name in _variable_names(words, start))


def _variable_names(words: Sequence[Word], start: int) -> Iterator[str]:
    """Yield the arguments that the program at this index takes for names of variables."""
    name = words[start].name
    if name not in EVALUATING or not words[start].runs:
        return
    option, given = EVALUATING[name], [word.text for word in words[start + 1 :]]
    if option is None:
        yield from given
        return
    for text, following in zip(given, [*given[1:], ""], strict=False):
        if found := option.fullmatch(text):
            yield (found[1] if found.groups() else "") or following
