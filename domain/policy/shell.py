"""Finds every command that a text may make a shell run, without running or expanding anything.

The result answers two questions. Is the text one simple command, which a shell would not change any further
(`Script.is_plain`)? And which commands may be run anywhere in it: after `;` or `&&`, in a pipe, in `$(…)`, as an
argument of `sudo` or of `bash -c` (`Script.commands`)? The second answer rather has too many commands than too few, and
what cannot be seen is reported as a `doubt`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from reenact.domain.policy.programs import (
    COPYING,
    HOLE,
    MAX_DEPTH,
    OWN_WORDS,
    TAKING_TEXTS,
    Unreadable,
    Word,
    evaluates,
    has_latent,
    is_open_to_all,
    is_own,
    is_shell,
    source_of,
    texts_of,
    with_starts,
)

MAX_WORDS = 10_000
"""The number of words in all commands of a text together."""
MAX_COMMANDS = 2_000
_UNSEEN = "it makes a shell run what is not to be seen"
_EVALUATED = "a shell may evaluate a text in it, and run a command in that"

_SIMPLE = re.compile(r"[\w@%+=:,./-]+(?: [\w@%+=:,./-]+){0,30}", re.ASCII)
"""Commands that can be read by splitting them at spaces, in a third of the time."""
_ORDINARY = re.compile(r"[\w@%+=:,./^\-\]}]+", re.ASCII)
_FOREIGN = re.compile(r"[^\x00-\x7f]+")
_QUOTED = re.compile(r'[^"\\$`!]+')
_VARIABLE = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!_-]")
_ESCAPES = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_BACKTICKS = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_REDIRECTION = re.compile(r"&>>?|>[>|&]?|<>|<<<|<<-?|<&?")
_SEPARATOR = re.compile(r"\|\||\|&?|&&|[;&\n\r()]")
_PARAMETERS = re.compile(r"\([ \t]*\)")
_STRANGE = re.compile(r"[^\S \t\n\r]|[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")
_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_DESCRIPTOR = re.compile(r"\d*-?")
_ESCAPED = re.compile(r"\\(?:([$`\"\\])|\n)")
_UNEVALUATED = re.compile(r"\$\{#?\w+(?::?[-=+?]|[#%/^,]|\})")
_HOME = re.compile(r"\$HOME\b|\$\{HOME\}")
_IN_BACKTICKS = re.compile(r"\\([`\\$])")
_IN_QUOTED_BACKTICKS = re.compile(r"\\([`\\$\"])")
_RUNS_IN_BRACES = {" ", "\t", "\n", "|", "("}
_ENDS_WORD = " \t\n\r;&|<>()"


class Command(NamedTuple):
    """A simple command: its words, how many of the first may be programs, and the commands whose output it may read."""

    words: tuple[Word, ...]
    starts: int
    reads: frozenset[int]


class Script(NamedTuple):
    """The commands in a text. `names` are the known names of all programs that may be run."""

    commands: tuple[Command, ...]
    names: frozenset[str]
    has_open_names: bool
    is_plain: bool
    doubt: str = ""


def read_script(text: str) -> Script:
    """Return the commands in a text."""
    text = text.strip(" \t\n")
    if _SIMPLE.fullmatch(text):
        return read_arguments(text.split(" "))
    found = _Commands()
    is_plain = found.read(text, 0)
    return found.script(is_plain=is_plain)


def read_arguments(words: Sequence[str]) -> Script:
    """Return the commands in a program and its arguments, which no shell parses first."""
    found = _Commands()
    try:
        found.add(tuple(Word(word) for word in words), frozenset(), 0)
    except Unreadable as problem:
        found.doubt = str(problem)
    return found.script(is_plain=all("\0" not in word for word in words))


class _Commands:
    """Collects commands, including those in the arguments of others."""

    def __init__(self) -> None:
        self._commands: list[Command] = []
        self._names: set[str] = set()
        self._inputs: list[tuple[str, int]] = []
        self._files: set[str] = set()
        self._written: set[str] = set()
        self._words = 0
        self._has_open_names = False
        self._has_shell = False
        self.evaluates = False
        self._has_latent = False
        self.doubt = ""

    def script(self, *, is_plain: bool) -> Script:
        """Return the collected commands; `is_plain` is whether the text had nothing but words."""
        if self._has_shell:
            for text, depth in self._inputs:
                try:
                    self.nest(text, depth + 1)
                except Unreadable as problem:
                    self.doubt = self.doubt or str(problem)
        if self._written & (self._files | self._names) or (self._written and self._files and self._names & COPYING):
            self.doubt = self.doubt or "it may run what it writes"
        if self.evaluates and self._has_latent:
            self.doubt = self.doubt or _EVALUATED
        is_one = len(self._commands) == 1 and not is_own(self._commands[0].words[0])
        is_plain = is_plain and is_one and not self.doubt
        return Script(tuple(self._commands), frozenset(self._names), self._has_open_names, is_plain, self.doubt)

    def read(self, text: str, depth: int) -> bool:
        """Read a text; return whether it has nothing but words."""
        reader = _Reader(text, self, depth)
        try:
            reader.read()
        except Unreadable as problem:
            self.doubt = self.doubt or f"it cannot be read as shell commands: {problem}"
        return reader.is_plain

    def feed(self, text: str, depth: int) -> None:
        """Record a text that some command gets as its input; a shell would run it."""
        self._inputs.append((text, depth))
        self._has_latent = self._has_latent or has_latent(text)

    def nest(self, text: str, depth: int) -> frozenset[int]:
        """Read a text that consists of commands, or may; return their indices."""
        first = len(self._commands)
        if depth > MAX_DEPTH:
            raise Unreadable("commands are nested too deeply")
        self.read(text, depth)
        return frozenset(range(first, len(self._commands)))

    def add(self, words: tuple[Word, ...], reads: frozenset[int], depth: int) -> frozenset[int]:
        """Add a command; return the indices of the commands whose output it passes on."""
        words, starts = with_starts(words)
        self._words += len(words)
        if self._words > MAX_WORDS or len(self._commands) >= MAX_COMMANDS:
            raise Unreadable("it has too many words")
        shells = [start for start in range(starts) if is_shell(words, start)]
        starts = max([starts, *(self._record_shell_file(words, start) for start in shells)])
        programs = [word for word in words[:starts] if word.runs]
        names = {program.name for program in programs if not program.has_open_name}
        self._names |= names
        self._has_open_names = self._has_open_names or any(program.has_open_name for program in programs)
        texts = list(texts_of(words, names, has_shell=bool(shells)))
        for text in texts:
            reads |= self.nest(text, depth + 1)
        self._has_shell = self._has_shell or bool(shells) or bool(names & TAKING_TEXTS)
        self._record_effects(words, names)
        self.evaluates = self.evaluates or evaluates(words, starts)
        is_read = {word.text for word in words[1:]} if "eval" in names else set(texts)
        self._has_latent = self._has_latent or any(has_latent(word.text) for word in words if word.text not in is_read)
        if is_open_to_all(words, starts):
            self.doubt = self.doubt or _EVALUATED
        self._commands.append(Command(words, starts, reads))
        return frozenset({len(self._commands) - 1})

    def _record_shell_file(self, words: tuple[Word, ...], start: int) -> int:
        """Return the index after the file that a shell runs, 0 if it runs none; record the file, or a doubt."""
        source, place = source_of(words[start + 1 :])
        if source == "unseen":
            self.doubt = self.doubt or _UNSEEN
        if source != "file":
            return 0
        self._files.add(words[start + 1 + place].name)
        return start + 2 + place

    def _record_effects(self, words: tuple[Word, ...], names: set[str]) -> None:
        """Record what matters for other commands, and doubts about what cannot be seen."""
        if names & TAKING_TEXTS and any(word.is_open for word in words):
            self.doubt = self.doubt or _UNSEEN
        if "case" in names:
            self.doubt = self.doubt or "the branches of a 'case' cannot be told apart"
        if words[0].text == ">" or "tee" in names:
            self._written |= {word.name for word in words[1:] if not word.text.startswith("/dev/")}


class _Level:
    """A list of commands at the same nesting level: the one being read, and the results of those before it."""

    def __init__(self) -> None:
        self.words: list[Word] = []
        self.reads: frozenset[int] = frozenset()
        self.piped: frozenset[int] = frozenset()
        self.latest: frozenset[int] = frozenset()
        self.every: frozenset[int] = frozenset()
        self.parentheses = 0
        self.is_over = False
        """Whether some shells begin a new command here, and others do not."""


class _Pieces:
    """A word that is being read."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.is_open = False
        self.is_wild = False
        self._choice = False
        self._set = False

    def add(self, text: str) -> None:
        """Append a text; a hole character in it was written by the author of the text, and may stand for anything."""
        self.texts.append(text)
        if HOLE in text:
            self.is_open = self.is_wild = True

    def special(self, sign: str) -> None:
        """Append a character that stands outside of quotes, or one after a backslash."""
        self.add(sign[-1])
        self.is_open = self.is_open or sign in {"*", "?"}
        self._choice = self._choice or sign == "{"
        self._set = self._set or sign == "["

    def hole(self, *, wild: bool) -> None:
        """Append an unknown part; with `wild`, the shell splits it into words."""
        self.texts.append(HOLE)
        self.is_open = True
        self.is_wild = self.is_wild or wild

    def word(self) -> Word:
        """Return the word."""
        text = "".join(self.texts)
        if (self._choice and ("," in text or ".." in text)) or (self._set and "]" in text):
            return Word(text, is_open=True, is_wild=True)
        return Word(text, self.is_open, self.is_wild)


class _Reader:
    """Parser of one text."""

    def __init__(self, text: str, found: _Commands, depth: int) -> None:
        self._text = text
        self._found = found
        self._depth = depth
        self._nesting = depth
        self._at = 0
        self._level = _Level()
        self._open_here_documents: list[tuple[str, bool, bool]] = []
        self.is_plain = True
        """Whether the text so far has nothing but words, blanks and quotes."""

    def read(self) -> None:
        """Read the whole text.

        Raises:
            Unreadable: it cannot be read; the commands found before are kept.
        """
        self._commands("")
        if self._open_here_documents:
            raise Unreadable("a here-document has no end")
        if strange := _STRANGE.search(self._text):
            raise Unreadable(f"it has {strange[0]!r} in it")

    def _commands(self, closing: str) -> frozenset[int]:
        """Read commands up to the closing parenthesis, or up to the end; return their indices."""
        outer, self._level = self._level, _Level()
        try:
            self._read_command_list(self._level, closing)
        finally:
            self._end_command()
            found, self._level = self._level.every, outer
        return found

    def _read_command_list(self, level: _Level, closing: str) -> None:
        while True:
            self._skip_blanks()
            if self._peek() == "#":
                self.is_plain = False
                self._at = _until(self._text, "\n", self._at)
            elif self._is_redirection():
                self._redirect()
            elif found := _SEPARATOR.match(self._text, self._at):
                self.is_plain = False
                if found[0] == "(" and self._skip_function_parentheses():
                    continue
                self._end_command()
                self._at = found.end()
                if found[0] == ")" and closing and not level.parentheses:
                    if self._open_here_documents:
                        raise Unreadable("shells differ in where a here-document ends")
                    break
                self._apply_separator(found[0])
            elif self._peek():
                if level.is_over:
                    raise Unreadable("not all shells take a redirection with '&>' for one")
                level.words.append(self._word())
            elif closing:
                raise Unreadable("a parenthesis is not closed")
            else:
                break

    def _end_command(self) -> None:
        level = self._level
        if level.words:
            level.latest = self._found.add(tuple(level.words), level.reads | level.piped, self._depth)
            level.every |= level.latest
            level.words, level.reads, level.piped = [], frozenset(), frozenset()
        level.is_over = False

    def _apply_separator(self, sign: str) -> None:
        level = self._level
        if sign in {"|", "|&"}:
            level.piped = level.latest
        elif sign == "(":
            level.parentheses += 1
            if self._peek() == "(":
                self._found.evaluates = True
        elif sign == ")":
            level.parentheses = max(0, level.parentheses - 1)  # an unmatched one ends a pattern of `case`
        elif sign in {"\n", "\r"}:
            self._skip_here_documents()

    def _skip_function_parentheses(self) -> bool:
        """Return whether this parenthesis belongs to the word before it, which is then not a command, and skip both."""
        words = self._level.words
        touches = self._at > 0 and self._text[self._at - 1] not in _ENDS_WORD
        if not words or not touches or any(word.text not in OWN_WORDS for word in words[:-1]):
            return False
        if words[-1].text.endswith("="):
            return False  # an array
        words.clear()
        if found := _PARAMETERS.match(self._text, self._at):
            self._at = found.end()
            return True
        raise Unreadable("a word contains a parenthesis")

    def _is_redirection(self) -> bool:
        here = self._text[self._at : self._at + 2]
        return here == "&>" or (here[:1] in {"<", ">"} and here[1:] != "(")

    def _redirect(self) -> None:
        self.is_plain = False
        words = self._level.words
        if words and words[-1].text.isdecimal() and self._text[self._at - 1] not in _ENDS_WORD:
            words.pop()
        sign = _REDIRECTION.match(self._text, self._at)
        assert sign is not None
        self._at = sign.end()
        self._level.is_over = self._level.is_over or sign[0].startswith("&")
        self._skip_blanks()
        start = self._at
        target = self._word()
        if start == self._at:
            raise Unreadable("a redirection leads nowhere")
        if sign[0] in {"<<", "<<-"}:
            raw = self._text[start : self._at].replace("\\\n", "")
            if target.is_open:
                raise Unreadable("the end of a here-document is ambiguous")
            self._open_here_documents.append((target.text, sign[0] == "<<-", raw != target.text))
        elif sign[0] == "<<<":
            self._found.feed(target.text, self._depth)
        elif ">" in sign[0] and not (sign[0] == ">&" and _DESCRIPTOR.fullmatch(target.text)):
            self._found.add((Word(">"), target), frozenset(), self._depth)

    def _skip_here_documents(self) -> None:
        """Skip the here-documents of the redirections on the line before."""
        for end, indented, verbatim in self._open_here_documents:
            first = self._at
            while True:
                if self._at >= len(self._text):
                    raise Unreadable("a here-document has no end")
                begin, self._at = self._at, _until(self._text, "\n", self._at) + 1
                line = self._text[begin : self._at - 1]
                if (line.lstrip("\t") if indented else line) == end:
                    break
            body = self._text[first:begin]
            self._found.feed(body, self._depth)
            if not verbatim:
                if "\\\n" in body:
                    raise Unreadable("the end of a here-document is ambiguous")
                inner = _Reader(body, self._found, self._depth)
                inner._read_quoted(_Pieces(), "")
                self._level.reads |= inner._level.reads
        self._open_here_documents.clear()

    def _word(self) -> Word:
        pieces = _Pieces()
        while (sign := self._peek()) and (
            sign not in _ENDS_WORD or self._text[self._at : self._at + 2] in {"<(", ">("}
        ):
            if found := _ORDINARY.match(self._text, self._at) or _FOREIGN.match(self._text, self._at):
                self._at = found.end()
                pieces.add(found[0])
            elif sign == "$":
                self._read_dollar(pieces, quoted=False)
            elif sign == "`":
                self._read_backticks(pieces, quoted=False)
            elif sign in "<>":
                self.is_plain = False
                self._at += 2
                self._read_substitution(pieces, wild=False)
            elif sign == "'":
                end = self._text.find("'", self._at + 1)
                if end < 0:
                    raise Unreadable("a quote is not closed")
                pieces.add(self._text[self._at + 1 : end])
                self._at = end + 1
            elif sign == '"':
                self._at += 1
                self._read_quoted(pieces, '"')
            else:
                self._read_special(pieces, sign)
        return pieces.word()

    def _read_special(self, pieces: _Pieces, sign: str) -> None:
        """Read a character that may have a special meaning outside of quotes."""
        if sign == "\\":
            sign = self._text[self._at : self._at + 2]
            if sign == "\\":
                raise Unreadable("it ends in a backslash")
        self.is_plain = self.is_plain and (sign == "#" or (sign == "~" and bool(pieces.texts)))
        self._at += len(sign)
        if sign != "\\\n":
            pieces.special(sign)

    def _read_quoted(self, pieces: _Pieces, closing: str) -> None:
        """Read the text between double quotes, or up to the end."""
        while (sign := self._peek()) != closing:
            if found := _QUOTED.match(self._text, self._at):
                self._at = found.end()
                pieces.add(found[0])
            elif sign == "$":
                self._read_dollar(pieces, quoted=True)
            elif sign == "`":
                self._read_backticks(pieces, quoted=True)
            elif sign:
                self.is_plain = False
                escaped = _ESCAPED.match(self._text, self._at)
                self._at += 2 if escaped else 1
                pieces.add(escaped[1] or "" if escaped else sign)
            else:
                raise Unreadable("a quote is not closed")
        self._at += len(closing)

    def _read_dollar(self, pieces: _Pieces, *, quoted: bool) -> None:
        self.is_plain = False
        sign = self._text[self._at + 1 : self._at + 2]
        if found := _HOME.match(self._text, self._at) if not pieces.texts else None:
            self._at = found.end()
            pieces.add("~")
        elif sign == "(":
            self._at += 2
            if self._peek() == "(":
                self._found.evaluates = True
            self._read_substitution(pieces, wild=not quoted)
        elif sign == "{":
            start, self._at = self._at, self._at + 2
            if self._peek() in _RUNS_IN_BRACES:
                raise Unreadable("some shells run the content of '${ }'")
            self._read_braced(quoted=quoted)
            if not _UNEVALUATED.match(self._text, start):
                self._found.evaluates = True
            pieces.hole(wild=not quoted or any(many in self._text[start : self._at] for many in "@*"))
        elif sign == '"' and not quoted:
            self._at += 1
        elif found := _ESCAPES.match(self._text, self._at) if not quoted else None:
            self._at = found.end()
            if "\\'" in found[1]:
                raise Unreadable("shells differ in what follows a dollar sign")
            if "\\" in found[1]:
                pieces.hole(wild=True)
            else:
                pieces.add(found[1])
        elif found := _VARIABLE.match(self._text, self._at + 1):
            self._at = found.end()
            pieces.hole(wild=not quoted or found[0] in {"@", "*"})
        elif sign in {"\\", "["} or (sign == "'" and not quoted):
            raise Unreadable("shells differ in what follows a dollar sign")
        else:
            self._at += 1
            pieces.add("$")

    def _read_substitution(self, pieces: _Pieces, *, wild: bool) -> None:
        self._nesting += 1
        if self._nesting > MAX_DEPTH:
            raise Unreadable("commands are nested too deeply")
        self._level.reads |= self._commands(")")
        self._nesting -= 1
        pieces.hole(wild=wild)

    def _read_braced(self, *, quoted: bool) -> None:
        """Read the rest of `${…}`."""
        inner = _Pieces()
        while (sign := self._peek()) != "}":
            if sign == "$":
                self._nesting += 1
                if self._nesting > MAX_DEPTH:
                    raise Unreadable("expansions are nested too deeply")
                self._read_dollar(inner, quoted=True)
                self._nesting -= 1
            elif sign == "`":
                self._read_backticks(inner, quoted=quoted)
            elif sign in {"", "'", '"', "<", ">"}:
                raise Unreadable("the content of a '${' is ambiguous")
            else:
                self._at += 2 if sign == "\\" else 1
        self._at += 1

    def _read_backticks(self, pieces: _Pieces, *, quoted: bool) -> None:
        self.is_plain = False
        found = _BACKTICKS.match(self._text, self._at)
        if found is None:
            raise Unreadable("a backtick is not closed")
        self._at = found.end()
        inner = (_IN_QUOTED_BACKTICKS if quoted else _IN_BACKTICKS).sub(r"\1", found[1])
        self._level.reads |= self._found.nest(inner, self._depth + 1)
        pieces.hole(wild=not quoted)

    def _skip_blanks(self) -> None:
        found = _BLANKS.match(self._text, self._at)
        if found:
            self._at = found.end()
            self.is_plain = self.is_plain and not found[0].strip(" ")

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]


def _until(text: str, sign: str, start: int) -> int:
    found = text.find(sign, start)
    return len(text) if found < 0 else found
