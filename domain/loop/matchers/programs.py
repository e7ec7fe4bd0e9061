"""What is known of programs that run other programs: shells, and all that take a command among their arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeAlias

from reenact.domain.loop.matchers.shell_words import HOLE, OWN_WORDS, Unreadable, Word

_LAUNCHERS = """
    alias builtin bundle bunx busybox bwrap caffeinate chroot chrt cmd command conda coproc direnv doas entr env eval
    exec expect fakeroot fd find firejail flock gdb hatch hyperfine ionice ltrace mamba nice nix-shell nohup npx nsenter
    parallel pdm pipenv pkexec pnpx poetry powershell proot pwsh rlwrap runuser rye screen script setsid ssh stdbuf
    strace su sudo systemd-run taskset time timeout tmux toybox trap unbuffer unshare uv uvx valgrind watch xargs
"""
LAUNCHERS: Final = frozenset(_LAUNCHERS.split())
"""Programs that start another one, which stands among their arguments."""

_TEXTS = """
    alias cmd entr eval expect flock hyperfine nix-shell parallel powershell pwsh runuser screen script ssh su tmux trap
    watch
"""
TAKING_TEXTS: Final = frozenset(_TEXTS.split())
"""Programs that have a text among their arguments run by a shell."""

_SHELLS = "ash bash csh dash fish ksh mksh rbash sh source tcsh zsh ."
SHELLS: Final = frozenset(_SHELLS.split())
"""Programs that run the commands in a text, in a file, or those that they read."""

COPYING: Final = frozenset({"cp", "install", "ln", "mv"})

MAX_STARTS: Final = 100
"""How many words of one command may be programs."""

Source: TypeAlias = Literal["commands", "file", "unseen"]
"""What a shell runs: an argument, a file, or something that is not to be seen."""

_FILLING = frozenset({"fd", "find", "parallel", "xargs"})
"""These put what they find in the place of `{}`."""
_ADDING = frozenset({"fd", "parallel", "xargs"})
"""These put it at the end."""
_READING = frozenset({"source", "."})
_LEADING = frozenset({"builtin", "command", "time"})
_NAMING = frozenset({"case", "for", "function", "select"})
"""Words of the shell behind which names stand, and no programs."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
_HARMLESS = re.compile(r"[\w@%+:,./-]*", re.ASCII)
_HAS_COMMANDS = re.compile(r"-\w*c")
_REPLACING = re.compile(r"-I(.*)|--replace(?:=(.*))?", re.DOTALL)
_ANYTHING = Word(HOLE, is_open=True, is_wild=True)


def is_own(word: Word) -> bool:
    """Return whether a program may follow the word: an assignment, or a word of the shell's own."""
    return word.text in OWN_WORDS or _ASSIGNMENT.match(word.text) is not None


def with_starts(words: tuple[Word, ...]) -> tuple[tuple[Word, ...], int]:
    """Return the words as they may become, and how many of the first may be a program.

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
            marked = _filled(marked)
            starts = len(marked)
            break
        elif word.text not in OWN_WORDS:
            break
    if sum(word.runs for word in marked[:starts]) > MAX_STARTS:
        raise Unreadable("too many words may be programs")
    return tuple(marked), starts


def _skip_names(words: list[Word], index: int) -> int:
    """Mark the words behind one that names follow, which is before the index; return where they end."""
    word, behind = words[index - 1].text, [one.text for one in words[index:]]
    end = index + (1 if word == "function" else behind.index("do") if "do" in behind else len(behind))
    for place in range(index, min(end, len(words))):
        words[place] = words[place]._replace(runs=False)
    return min(end, len(words))


def _filled(words: list[Word]) -> list[Word]:
    """Return the words of a launcher; some get more of them, or put some in the place of others."""
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
        filled = [*filled, _ANYTHING._replace(runs=bool(names & (LAUNCHERS | SHELLS) - _ADDING))]
    return filled


def _placeholder(words: Sequence[Word]) -> str:
    """Return in whose place `xargs` and its like put what they read."""
    for word, following in zip(words, [*words[1:], Word("")], strict=True):
        if found := _REPLACING.fullmatch(word.text):
            return found[1] or found[2] or (following.text if found[1] == "" else "") or "{}"
    return "{}"


def is_shell(words: Sequence[Word], start: int) -> bool:
    """Return whether the program that starts there is a shell, or makes the shell read a file."""
    name = words[start].name
    if name not in SHELLS:
        return False
    return name not in _READING or all(is_own(word) or word.name in _LEADING for word in words[:start])


def source_of(given: Sequence[Word]) -> tuple[Source, int]:
    """Return what a shell with these arguments runs, and which of them it is, if it is a file."""
    is_text, index = False, 0
    while index < len(given) and given[index].text.startswith(("-", "+")):
        option = given[index].text
        index += 1
        if option in {"-", "--"}:
            break
        if not option.startswith("--"):
            is_text = is_text or "c" in option
            index += option.lower().count("o")  # each of these takes a word
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
