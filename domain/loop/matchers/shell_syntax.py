"""Reads a text as a POSIX shell reads it, down to its simple commands and their words; expands nothing.

Where a shell would put something in that is not known yet, a word has a hole. What cannot be read, or would be read
differently by different shells, is `Unreadable`.
"""

from __future__ import annotations

import re

from reenact.domain.loop.matchers.shell_words import MAX_DEPTH, OWN_WORDS, Level, Pieces, Sink, Unreadable, Word

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
_RUNS = {" ", "\t", "\n", "|", "("}
_ENDS_WORD = " \t\n\r;&|<>()"


class Reader:
    """Reads one text."""

    def __init__(self, text: str, sink: Sink, depth: int) -> None:
        self._text = text
        self._sink = sink
        self._depth = depth
        self._nesting = depth
        self._at = 0
        self._level = Level()
        self._awaited: list[tuple[str, bool, bool]] = []
        self.is_plain = True
        """Whether nothing was met but words, blanks and quotes."""

    def read(self) -> None:
        """Read all of it.

        Raises:
            Unreadable: it cannot be read; what was found before stays found.
        """
        self._commands("")
        if self._awaited:
            raise Unreadable("a here-document has no end")
        if strange := _STRANGE.search(self._text):
            raise Unreadable(f"it has {strange[0]!r} in it")

    def _commands(self, closing: str) -> frozenset[int]:
        """Read commands up to the closing parenthesis, or up to the end; return which these are."""
        outer, self._level = self._level, Level()
        try:
            self._side_by_side(self._level, closing)
        finally:
            self._end_command()
            found, self._level = self._level.every, outer
        return found

    def _side_by_side(self, level: Level, closing: str) -> None:
        while True:
            self._skip_blanks()
            if self._peek() == "#":
                self.is_plain = False
                self._at = _until(self._text, "\n", self._at)
            elif self._is_redirection():
                self._redirect()
            elif found := _SEPARATOR.match(self._text, self._at):
                self.is_plain = False
                if found[0] == "(" and self._defines():
                    continue
                self._end_command()
                self._at = found.end()
                if found[0] == ")" and closing and not level.parentheses:
                    if self._awaited:
                        raise Unreadable("not all shells look for the end of a here-document in the same place")
                    break
                self._separate(found[0])
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
            level.latest = self._sink.add(tuple(level.words), level.reads | level.piped, self._depth)
            level.every |= level.latest
            level.words, level.reads, level.piped = [], frozenset(), frozenset()
        level.is_over = False

    def _separate(self, sign: str) -> None:
        level = self._level
        if sign in {"|", "|&"}:
            level.piped = level.latest
        elif sign == "(":
            level.parentheses += 1
            if self._peek() == "(":
                self._sink.evaluate()
        elif sign == ")":
            level.parentheses = max(0, level.parentheses - 1)  # a stray one ends a pattern of `case`
        elif sign in {"\n", "\r"}:
            self._here_documents()

    def _defines(self) -> bool:
        """Return whether this parenthesis belongs to the word before it, which is then no command, and skip both."""
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
        raise Unreadable("a parenthesis stands in a word")

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
                raise Unreadable("nobody can tell where a here-document ends")
            self._awaited.append((target.text, sign[0] == "<<-", raw != target.text))
        elif sign[0] == "<<<":
            self._sink.feed(target.text, self._depth)
        elif ">" in sign[0] and not (sign[0] == ">&" and _DESCRIPTOR.fullmatch(target.text)):
            self._sink.add((Word(">"), target), frozenset(), self._depth)

    def _here_documents(self) -> None:
        """Skip what the redirections on the line before read."""
        for end, indented, verbatim in self._awaited:
            first = self._at
            while True:
                if self._at >= len(self._text):
                    raise Unreadable("a here-document has no end")
                begin, self._at = self._at, _until(self._text, "\n", self._at) + 1
                line = self._text[begin : self._at - 1]
                if (line.lstrip("\t") if indented else line) == end:
                    break
            body = self._text[first:begin]
            self._sink.feed(body, self._depth)
            if not verbatim:
                if "\\\n" in body:
                    raise Unreadable("nobody can tell where a here-document ends")
                inner = Reader(body, self._sink, self._depth)
                inner._quoted(Pieces(), "")
                self._level.reads |= inner._level.reads
        self._awaited.clear()

    def _word(self) -> Word:
        pieces = Pieces()
        while (sign := self._peek()) and (
            sign not in _ENDS_WORD or self._text[self._at : self._at + 2] in {"<(", ">("}
        ):
            if found := _ORDINARY.match(self._text, self._at) or _FOREIGN.match(self._text, self._at):
                self._at = found.end()
                pieces.add(found[0])
            elif sign == "$":
                self._dollar(pieces, quoted=False)
            elif sign == "`":
                self._backticks(pieces, quoted=False)
            elif sign in "<>":
                self.is_plain = False
                self._at += 2
                self._substitution(pieces, wild=False)
            elif sign == "'":
                end = self._text.find("'", self._at + 1)
                if end < 0:
                    raise Unreadable("a quote is not closed")
                pieces.add(self._text[self._at + 1 : end])
                self._at = end + 1
            elif sign == '"':
                self._at += 1
                self._quoted(pieces, '"')
            else:
                self._special(pieces, sign)
        return pieces.word()

    def _special(self, pieces: Pieces, sign: str) -> None:
        """Read a character that may mean something outside of quotes."""
        if sign == "\\":
            sign = self._text[self._at : self._at + 2]
            if sign == "\\":
                raise Unreadable("it ends in a backslash")
        self.is_plain = self.is_plain and (sign == "#" or (sign == "~" and bool(pieces.texts)))
        self._at += len(sign)
        if sign != "\\\n":
            pieces.special(sign)

    def _quoted(self, pieces: Pieces, closing: str) -> None:
        """Read what stands between double quotes, or up to the end."""
        while (sign := self._peek()) != closing:
            if found := _QUOTED.match(self._text, self._at):
                self._at = found.end()
                pieces.add(found[0])
            elif sign == "$":
                self._dollar(pieces, quoted=True)
            elif sign == "`":
                self._backticks(pieces, quoted=True)
            elif sign:
                self.is_plain = False
                escaped = _ESCAPED.match(self._text, self._at)
                self._at += 2 if escaped else 1
                pieces.add(escaped[1] or "" if escaped else sign)
            else:
                raise Unreadable("a quote is not closed")
        self._at += len(closing)

    def _dollar(self, pieces: Pieces, *, quoted: bool) -> None:
        self.is_plain = False
        sign = self._text[self._at + 1 : self._at + 2]
        if found := _HOME.match(self._text, self._at) if not pieces.texts else None:
            self._at = found.end()
            pieces.add("~")
        elif sign == "(":
            self._at += 2
            if self._peek() == "(":
                self._sink.evaluate()
            self._substitution(pieces, wild=not quoted)
        elif sign == "{":
            start, self._at = self._at, self._at + 2
            if self._peek() in _RUNS:
                raise Unreadable("some shells run what stands in '${ }'")
            self._braced(quoted=quoted)
            if not _UNEVALUATED.match(self._text, start):
                self._sink.evaluate()
            pieces.hole(wild=not quoted or any(many in self._text[start : self._at] for many in "@*"))
        elif sign == '"' and not quoted:
            self._at += 1
        elif found := _ESCAPES.match(self._text, self._at) if not quoted else None:
            self._at = found.end()
            if "\\'" in found[1]:
                raise Unreadable("not all shells read what stands behind a dollar sign alike")
            if "\\" in found[1]:
                pieces.hole(wild=True)
            else:
                pieces.add(found[1])
        elif found := _VARIABLE.match(self._text, self._at + 1):
            self._at = found.end()
            pieces.hole(wild=not quoted or found[0] in {"@", "*"})
        elif sign in {"\\", "["} or (sign == "'" and not quoted):
            raise Unreadable("not all shells read what stands behind a dollar sign alike")
        else:
            self._at += 1
            pieces.add("$")

    def _substitution(self, pieces: Pieces, *, wild: bool) -> None:
        self._nesting += 1
        if self._nesting > MAX_DEPTH:
            raise Unreadable("too many commands stand within one another")
        self._level.reads |= self._commands(")")
        self._nesting -= 1
        pieces.hole(wild=wild)

    def _braced(self, *, quoted: bool) -> None:
        """Read the rest of `${…}`."""
        inner = Pieces()
        while (sign := self._peek()) != "}":
            if sign == "$":
                self._nesting += 1
                if self._nesting > MAX_DEPTH:
                    raise Unreadable("too many expansions stand within one another")
                self._dollar(inner, quoted=True)
                self._nesting -= 1
            elif sign == "`":
                self._backticks(inner, quoted=quoted)
            elif sign in {"", "'", '"', "<", ">"}:
                raise Unreadable("nobody can tell what stands in a '${'")
            else:
                self._at += 2 if sign == "\\" else 1
        self._at += 1

    def _backticks(self, pieces: Pieces, *, quoted: bool) -> None:
        self.is_plain = False
        found = _BACKTICKS.match(self._text, self._at)
        if found is None:
            raise Unreadable("a backtick is not closed")
        self._at = found.end()
        inner = (_IN_QUOTED_BACKTICKS if quoted else _IN_BACKTICKS).sub(r"\1", found[1])
        self._level.reads |= self._sink.nest(inner, self._depth + 1)
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
