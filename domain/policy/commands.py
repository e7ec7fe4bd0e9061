"""Command patterns such as `git push *`, matched against the commands that a text may make a shell run.

A pattern consists of words, the first of which is the program. `*` and `?` in a word match characters except slashes,
`{a,b}` matches alternatives; after the program, a backslash quotes the next character, and a last word `*` matches any
further words. In `curl | sh` the second program may read the output of the first. The program `>` is the target of a
redirection.

A text matches for sure only if it is one simple command of exactly these words. It matches in part if any command in it
may be meant: the program under any path, the further words anywhere among its arguments, in any order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from reenact.domain.errors import ConfigurationError
from reenact.domain.plain import is_sequence
from reenact.domain.policy.patterns import (
    MAX_TEXT,
    NO,
    PARTLY,
    TOO_LONG,
    YES,
    Found,
    Match,
    MatchContext,
    Part,
    alternatives,
    fits,
    is_one,
    is_wild,
    part,
    parts,
    unknown,
)
from reenact.domain.policy.programs import HOLE, SHELLS, TAKING_TEXTS, Word
from reenact.domain.policy.shell import Command, Script, read_arguments

MAX_PATTERN = 2_000
"""The longest pattern, in characters."""
MAX_STAGES = 3

_BETWEEN_WORDS = re.compile(r"(?<!\\)\s+")
_OPEN = re.compile(rf"[*?{HOLE}]+")
_LETTERS = re.compile(r"-[A-Za-z]{1,2}")
_SHORTEST_ABBREVIATION = 4
"""The shortest abbreviation of a long option: `--fo` is recognised as `--force`."""


class CommandPattern:
    """A compiled command pattern.

    Raises:
        ConfigurationError: the pattern is not valid.
    """

    def __init__(self, pattern: str) -> None:
        words = _BETWEEN_WORDS.split(pattern.strip())
        stages: list[list[str]] = [[]]
        for word in words:
            if word == "|":
                stages.append([])
            else:
                stages[-1].append(word)
        well_formed = all(stages) and all(words) and not any("\\" in stage[0] for stage in stages)
        if len(pattern) > MAX_PATTERN or len(stages) > MAX_STAGES or not well_formed:
            raise ConfigurationError(
                f"{pattern[:80]!r} is not a command pattern: give a program and its words, like 'git push *', of at "
                f"most {MAX_PATTERN:,} characters and with at most {MAX_STAGES - 1} '|'; the program has no backslash"
            )
        self._stages = tuple(_Stage(stage) for stage in stages)
        self._names = tuple(stage.names for stage in self._stages if stage.names)

    def judge(self, value: object, sight: MatchContext) -> Found:
        """Return how a command line, or a list of a program and its arguments, matches."""
        script = sight.script(value) if isinstance(value, str) and len(value) <= MAX_TEXT else _script_of(value)
        if isinstance(script, Found):
            return script
        if not script.has_open_names and any(map(script.names.isdisjoint, self._names)):
            return unknown(script.doubt) if script.doubt else NO
        if script.is_plain and len(self._stages) == 1 and self._stages[0].is_exactly(script.commands[0]):
            return YES
        best = self._best_match(script)
        if best is Match.PARTLY:
            return PARTLY
        if best is Match.UNKNOWN:
            return unknown(script.doubt or "a part of it is not known before it runs")
        return unknown(script.doubt) if script.doubt else NO

    def _best_match(self, script: Script) -> Match:
        """Return whether a command may match the last stage, and commands whose output it reads the stages before."""
        found = [self._stages[0].may_be(command) for command in script.commands]
        for stage in self._stages[1:]:
            upstream = _best_upstream(script, found)
            found = [
                min(stage.may_be(command), before) for command, before in zip(script.commands, upstream, strict=True)
            ]
        return max(found, default=Match.NO)


def _best_upstream(script: Script, found: Sequence[Match]) -> list[Match]:
    """Return for each command the best match of those whose output it may read, directly or through other commands.

    A command comes after those whose output it reads.
    """
    best: list[Match] = []
    for command in script.commands:
        best.append(max((max(found[one], best[one]) for one in command.reads), default=Match.NO))
    return best


def _script_of(value: object) -> Script | Found:
    """Return the command in a list of words, or why there is none."""
    if isinstance(value, str):
        return TOO_LONG
    words = [one for one in value if isinstance(one, str)] if is_sequence(value) else []
    if is_sequence(value) and words and len(words) == len(value):
        return read_arguments(words) if sum(map(len, words)) <= MAX_TEXT else TOO_LONG
    return unknown("it is not a command: neither a text, nor a list of texts")


class _Stage:
    """One stage of a pattern: a program and the words that it must get."""

    def __init__(self, words: Sequence[str]) -> None:
        self._takes_more = len(words) > 1 and words[-1] == "*"
        self._words = tuple(_WordPattern(word) for word in (words[:-1] if self._takes_more else words))
        programs = [Word(one).name for one in alternatives(words[0])]
        self._programs = tuple(part(one, fold=True) for one in programs)
        self.names = None if any(is_wild(one) for one in programs) else frozenset(programs)
        self._runs_any = words[0] == "*"

    def is_exactly(self, command: Command) -> bool:
        """Return whether the command consists of exactly these words."""
        given = command.words
        if len(given) < len(self._words) or (len(given) > len(self._words) and not self._takes_more):
            return False
        return all(pattern.is_exactly(word.text) for pattern, word in zip(self._words, given, strict=False))

    def may_be(self, command: Command) -> Match:
        """Return whether the command may run the program with these words among its arguments."""
        best = Match.NO
        for start in range(command.starts):
            program = self._may_run(command.words[start])
            if program > best:
                best = max(best, min(program, self._may_get(command.words[start + 1 :])))
        return best

    def _may_run(self, word: Word) -> Match:
        if not word.runs:
            return Match.NO
        if self._runs_any:
            return Match.PARTLY
        if word.has_open_name:
            wanted = self.names and self.names | SHELLS | TAKING_TEXTS
            return Match.UNKNOWN if _may_become(word, word.name, wanted) else Match.NO
        return Match.PARTLY if any(is_one(program, word.name) for program in self._programs) else Match.NO

    def _may_get(self, words: tuple[Word, ...]) -> Match:
        found = Match.PARTLY
        for pattern in self._words[1:]:
            found = min(found, pattern.may_be_among(words))
            if found is Match.NO:
                break
        return found


class _WordPattern:
    """The pattern of one word."""

    def __init__(self, pattern: str) -> None:
        forms = alternatives(pattern)
        self._is_any = pattern == "*"
        self._texts = frozenset(form for form in forms if not is_wild(form))
        self._wild_forms: list[tuple[Part, ...]] = [parts(form.split("/")) for form in forms if is_wild(form)]
        self._collapsed = self._texts | {collapse(text) for text in self._texts}
        self._options = tuple(text for text in self._texts if text.startswith("--"))
        self._letter_options = tuple(frozenset(text[1:]) for text in self._texts if _LETTERS.fullmatch(text))

    def is_exactly(self, text: str) -> bool:
        """Return whether the text matches the pattern, and wildcards match no `..` that would lead elsewhere."""
        if self._is_any or text in self._texts:
            return True
        given = text.split("/")
        return ".." not in given and any(fits(wanted, given) for wanted in self._wild_forms)

    def may_be_among(self, words: tuple[Word, ...]) -> Match:
        """Return whether one of the words may be meant, in any spelling."""
        if self._letter_options:
            letters = {letter for word in words if word.text[:1] == "-" != word.text[1:2] for letter in word.text[1:]}
            if any(wanted <= letters for wanted in self._letter_options):
                return Match.PARTLY
        return max((self._may_be(word) for word in words), default=Match.NO)

    def _may_be(self, word: Word) -> Match:
        if self._is_any:
            return Match.PARTLY
        text = word.text
        for spelling in {text, collapse(text), *([text.partition("=")[0]] if text.startswith("-") else [])}:
            if spelling in self._collapsed or any(fits(wanted, spelling.split("/")) for wanted in self._wild_forms):
                return Match.PARTLY
            if len(spelling) >= _SHORTEST_ABBREVIATION and any(option.startswith(spelling) for option in self._options):
                return Match.PARTLY
        return Match.UNKNOWN if _may_become(word, text, None if self._wild_forms else self._texts) else Match.NO


def _may_become(word: Word, text: str, wanted: frozenset[str] | None) -> bool:
    """Return whether a word that is not fully known may become one of the wanted words; None stands for any word."""
    if not word.is_open:
        return False
    if word.is_wild or wanted is None:
        return True
    given = re.compile(".*".join(re.escape(known) for known in _OPEN.split(text)), re.DOTALL | re.IGNORECASE)
    return any(given.fullmatch(one) for one in wanted)


def collapse(path: str) -> str:
    """Return a path without its redundant parts: doubled slashes, `.`, `..` after a name, a slash at the end."""
    if "/" not in path:
        return path
    kept: list[str] = []
    for one in path.split("/"):
        if one == ".." and (kept or path[0] == "/") and kept[-1:] not in ([".."], ["~"]):
            kept[-1:] = []
        elif one not in {"", "."}:
            kept.append(one)
    return "/" * (path[0] == "/") + "/".join(kept) or "."
