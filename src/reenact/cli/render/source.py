"""Syntax highlighting of fenced code line by line: later lines never change the colours of a finished line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Final, Protocol, TypeAlias

from reenact.cli.render.blocks import LineStart
from reenact.cli.render.flow import Margin, Run

MOST = 2000
"""Maximum number of characters of a highlighted line; longer lines have no colours."""
_MOST_BACKSLASHES = 20
"""Maximum number of backslashes in a highlighted line: some of Pygments' grammars, as that of Scala, double the time of
a string without an end with each of them."""
_DEEPEST = 500
"""Maximum depth of a grammar's state stack; a deeper stack is reset."""
_LANGUAGE = re.compile(r"[^\s,:{}=]+")
_STYLES = {
    "Comment": "dim",
    "Comment.Preproc": "magenta",
    "Keyword": "magenta",
    "Keyword.Constant": "cyan",
    "Keyword.Type": "cyan",
    "Operator.Word": "magenta",
    "Literal.String": "green",
    "Literal.String.Escape": "yellow",
    "Literal.String.Interpol": "yellow",
    "Literal.Number": "cyan",
    "Literal.Date": "cyan",
    "Name.Function": "bright_blue",
    "Name.Class": "bright_blue",
    "Name.Decorator": "yellow",
    "Name.Builtin": "cyan",
    "Name.Exception": "cyan",
    "Name.Tag": "bright_blue",
    "Name.Attribute": "yellow",
    "Name.Constant": "cyan",
    "Generic.Deleted": "red",
    "Generic.Inserted": "green",
    "Generic.Heading": "bold",
    "Generic.Subheading": "cyan",
    "Generic.Prompt": "dim",
}
_LONG: Final[tuple[tuple[str, str], ...]] = (("/*", "*/"), ("<!--", "-->"), ("`", "`"))
"""Delimiters of multi-line constructs that many grammars match only as a whole."""
_LONG_IN_SHELLS = ("'", "'")
_SHELLS = frozenset({"Bash", "Fish", "Tcsh"})

_Token: TypeAlias = tuple[int, object, str]


class _Lexer(Protocol):
    """The members of Pygments' lexers that are used here; Pygments has no type hints."""

    @property
    def name(self) -> str: ...
    def get_tokens_unprocessed(self, text: str) -> Iterable[_Token]: ...


class _Context(Protocol):
    """The position and states of a lexer, as Pygments keeps them."""

    text: str
    pos: int
    end: int
    stack: list[str]


class Source:
    """The lines of one code block; without a known language they have no colours."""

    _context: _Context | None = None
    _open_construct: tuple[str, str] | None = None

    def __init__(self, info: str) -> None:
        """Begin a block with the text after the opening fence: the language, and perhaps more."""
        self._lexer = _lexer(info)
        self._pairs = _LONG
        if self._lexer is not None:
            self._context = _context_for(self._lexer)
            self._pairs += (_LONG_IN_SHELLS,) if self._lexer.name in _SHELLS else ()

    def line(self, line: str) -> list[Run]:
        """Return the line, given without its line end, as texts with styles."""
        if self._lexer is None or len(line) > MOST or line.count("\\") > _MOST_BACKSLASHES:
            return [(line, "")]
        before: list[Run] = []
        if self._open_construct is not None:
            end, style = self._open_construct
            inside, found, line = line.partition(end)
            before = [(inside + found, style)]
            if not found:
                return before
            self._open_construct = None
        return before + self._unfinished(line)

    def _unfinished(self, line: str) -> list[Run]:
        """Highlight a line; a construct that is still open at its end gets the style that it has once it is closed."""
        for begin, end in self._pairs:
            place = line.rfind(begin)
            if place < 0 or end in line[place + len(begin) :]:
                continue
            states = list(self._context.stack) if self._context is not None else []
            *tokens, (_, kind, last) = self._tokens(f"{line}{end}\n")
            style = _style_of(kind)
            if last.startswith(begin) and last.endswith(end) and last != end and style:
                self._open_construct = end, style
                return [*((text, _style_of(kind)) for _, kind, text in tokens), (last.removesuffix(end), style)]
            if self._context is not None:
                self._context.stack = states
        return [(text, _style_of(kind)) for _, kind, text in self._tokens(f"{line}\n")]

    def _tokens(self, line: str) -> list[_Token]:
        """Lex a part of the source; a line end at its end is left out of the result."""
        assert self._lexer is not None
        if self._context is None:
            found = list(self._lexer.get_tokens_unprocessed(line))
        else:
            context = self._context
            context.text, context.pos, context.end = line, 0, len(line)
            try:
                found = list(_with_states(self._lexer, context))
            except (TypeError, AttributeError):  # the grammar has its own kind of states
                self._context = None
                return self._tokens(line)
            if len(context.stack) > _DEEPEST:
                context.stack = ["root"]
        return [(at, kind, text.rstrip("\n")) for at, kind, text in found if text != "\n"]


def _lexer(info: str) -> _Lexer | None:
    """Return the lexer of the language named after the fence, if Pygments knows it."""
    named = _LANGUAGE.search(info)
    return None if named is None else _lexer_of(named[0].lstrip(".").casefold())


@cache
def _lexer_of(language: str) -> _Lexer | None:
    from pygments import lexers  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to import and rarely needed

    # For a language that it does not know, Pygments would search all installed packages and import some of them.
    if not any(language in aliases for _, aliases, _, _ in lexers.get_all_lexers(plugins=False)):
        return None
    lexer: _Lexer = lexers.get_lexer_by_name(language)  # pyright: ignore - Pygments has no type hints
    return lexer


def _context_for(lexer: _Lexer) -> _Context | None:
    """Return a context that keeps the lexer's states between lines, or None if the lexer has no states."""
    from pygments import lexer as grammars  # noqa: PLC0415 - slow to import

    return grammars.LexerContext("", 0) if isinstance(lexer, grammars.RegexLexer) else None


def _with_states(lexer: _Lexer, context: _Context) -> Iterable[_Token]:
    """Continue lexing in the context; `ExtendedRegexLexer` accepts the rules of every lexer that is made of rules."""
    from pygments.lexer import ExtendedRegexLexer  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to import

    tokens: Iterable[_Token] = ExtendedRegexLexer.get_tokens_unprocessed(lexer, context=context)  # pyright: ignore - untyped
    return tokens


@cache
def _style_of(kind: object) -> str:
    """Return the style of a token type, or of its closest parent that has a style."""
    name = str(kind).removeprefix("Token.")
    while name and name not in _STYLES:
        name = name.rpartition(".")[0]
    return _STYLES.get(name, "")


class Fence(Source):
    """Splits the lines of a fenced block, which ends at a closing fence or at a line outside the block's quotes.

    Indentation up to that of the opening fence is not part of the source. A line that is indented less than the list
    item of the block does not end the block: models often indent source that way.
    """

    def __init__(self, opening: LineStart) -> None:
        mark = re.escape(opening.fence[0])
        self.bars: Margin = opening.bars
        super().__init__(opening.info)
        is_language = self._lexer is not None and _LANGUAGE.fullmatch(opening.info)
        self.caption = "" if is_language else opening.info
        """The text after the opening fence if it is more than a language's name; it is displayed above the source."""
        self._quotes = re.compile(rf"(?: {{0,3}}>[ \t]?){{{opening.quotes}}}")
        self._closing = re.compile(rf"[ \t]*{mark}{{{len(opening.fence)},}}[ \t]*")
        self._indentation = re.compile(rf"(?: |\t){{0,{opening.indent}}}")

    def content(self, line: str) -> str | None:
        """Return the content of the line after its quote marks, or None if the line is outside the quotes."""
        quotes = self._quotes.match(line)
        return None if quotes is None else line[quotes.end() :]

    def is_closed_by(self, content: str) -> bool:
        """Return whether the content is the closing fence."""
        return self._closing.fullmatch(content) is not None

    def source(self, content: str) -> str:
        """Return the line of source without the block's indentation."""
        indentation = self._indentation.match(content)
        return content if indentation is None else content[indentation.end() :]
