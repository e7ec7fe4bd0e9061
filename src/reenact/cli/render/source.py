"""Source between fences, in colours line by line: what a line looks like is final when it is over."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Final, Protocol, TypeAlias

from reenact.cli.render.blocks import LineStart
from reenact.cli.render.flow import Margin, Run

MOST = 2000
"""A line of more characters than this is shown without colours."""
_DEEPEST = 500
"""A grammar that is more states deep begins anew."""
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
"""What begins and ends a thing of several lines that many grammars take only as a whole."""
_LONG_IN_SHELLS = ("'", "'")
_SHELLS = frozenset({"Bash", "Fish", "Tcsh"})

_Token: TypeAlias = tuple[int, object, str]


class _Lexer(Protocol):
    """What is used of the lexers of Pygments, which has no types."""

    @property
    def name(self) -> str: ...
    def get_tokens_unprocessed(self, text: str) -> Iterable[_Token]: ...


class _Context(Protocol):
    """The place and the states of a lexer, likewise."""

    text: str
    pos: int
    end: int
    stack: list[str]


class Source:
    """The lines of one block of source. A name that is not a language's, or none, has no colours."""

    _context: _Context | None = None
    _within: tuple[str, str] | None = None

    def __init__(self, info: str) -> None:
        """Begin with what stands behind the fence: the language, and perhaps more."""
        self._lexer = _lexer(info)
        self._pairs = _LONG
        if self._lexer is not None:
            self._context = _context_for(self._lexer)
            self._pairs += (_LONG_IN_SHELLS,) if self._lexer.name in _SHELLS else ()

    def is_named_by(self, info: str) -> bool:
        """Return whether all that stands behind the fence is the name of the language."""
        return self._lexer is not None and _LANGUAGE.fullmatch(info) is not None

    def line(self, line: str) -> list[Run]:
        """Return the line, which has no end of line, as texts with styles."""
        if self._lexer is None or len(line) > MOST:
            return [(line, "")]
        before: list[Run] = []
        if self._within is not None:
            end, style = self._within
            inside, found, line = line.partition(end)
            before = [(inside + found, style)]
            if not found:
                return before
            self._within = None
        return before + self._unfinished(line)

    def _unfinished(self, line: str) -> list[Run]:
        """Return the line; if something begins in it that ends further down, that is what its end is."""
        for begin, end in self._pairs:
            place = line.rfind(begin)
            if place < 0 or end in line[place + len(begin) :]:
                continue
            states = list(self._context.stack) if self._context is not None else []
            *tokens, (_, kind, last) = self._tokens(f"{line}{end}\n")
            style = _style_of(kind)
            if last.startswith(begin) and last.endswith(end) and last != end and style:
                self._within = end, style
                return [*((text, _style_of(kind)) for _, kind, text in tokens), (last.removesuffix(end), style)]
            if self._context is not None:
                self._context.stack = states
        return [(text, _style_of(kind)) for _, kind, text in self._tokens(f"{line}\n")]

    def _tokens(self, line: str) -> list[_Token]:
        """Take in a part of the source; an end of line at its end is not returned."""
        assert self._lexer is not None
        if self._context is None:
            found = list(self._lexer.get_tokens_unprocessed(line))
        else:
            context = self._context
            context.text, context.pos, context.end = line, 0, len(line)
            try:
                found = list(_with_states(self._lexer, context))
            except (TypeError, AttributeError):  # a grammar with states of its own kind
                self._context = None
                return self._tokens(line)
            if len(context.stack) > _DEEPEST:
                context.stack = ["root"]
        return [(at, kind, text.rstrip("\n")) for at, kind, text in found if text != "\n"]


def _lexer(info: str) -> _Lexer | None:
    """Return the lexer of the language that stands behind a fence, if it is one."""
    named = _LANGUAGE.search(info)
    return None if named is None else _lexer_of(named[0].lstrip(".").casefold())


@cache
def _lexer_of(language: str) -> _Lexer | None:
    from pygments import lexers  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to import, and seldom needed

    # Pygments would look for a language that it does not know among all installed packages, and import some of them.
    if not any(language in aliases for _, aliases, _, _ in lexers.get_all_lexers(plugins=False)):
        return None
    lexer: _Lexer = lexers.get_lexer_by_name(language)  # pyright: ignore - a guess at types that there are not
    return lexer


def _context_for(lexer: _Lexer) -> _Context | None:
    """Return what the states of a lexer are kept in from line to line, or None if it has none."""
    from pygments import lexer as grammars  # noqa: PLC0415 - likewise

    return grammars.LexerContext("", 0) if isinstance(lexer, grammars.RegexLexer) else None


def _with_states(lexer: _Lexer, context: _Context) -> Iterable[_Token]:
    """Read on in the context. What reads with a context works on the rules of any lexer that is made of rules."""
    from pygments.lexer import ExtendedRegexLexer  # type: ignore[import-untyped]  # noqa: PLC0415 - likewise

    tokens: Iterable[_Token] = ExtendedRegexLexer.get_tokens_unprocessed(lexer, context=context)  # pyright: ignore - likewise
    return tokens


@cache
def _style_of(kind: object) -> str:
    """Return the style of a kind of token, or of the kind that it is one of."""
    name = str(kind).removeprefix("Token.")
    while name and name not in _STYLES:
        name = name.rpartition(".")[0]
    return _STYLES.get(name, "")


class Fence(Source):
    """Knows its lines: up to one that closes it, or one that is not in the same quotes.

    What stands to the left of the opening fence is not part of the source. An item of a list does not end it: where a
    model indents source by less than its item, it still means it.
    """

    def __init__(self, opening: LineStart) -> None:
        mark = re.escape(opening.fence[0])
        self.bars: Margin = opening.bars
        super().__init__(opening.info)
        self.caption = "" if self.is_named_by(opening.info) else opening.info
        """What stands behind the fence and is not the name of a language, which is seen."""
        self._quotes = re.compile(rf"(?: {{0,3}}>[ \t]?){{{opening.quotes}}}")
        self._closing = re.compile(rf"[ \t]*{mark}{{{len(opening.fence)},}}[ \t]*")
        self._indentation = re.compile(rf"(?: |\t){{0,{opening.indent}}}")

    def content(self, line: str) -> str | None:
        """Return what stands behind the quotes, or None if the line is not in them."""
        quotes = self._quotes.match(line)
        return None if quotes is None else line[quotes.end() :]

    def is_closed_by(self, content: str) -> bool:
        """Return whether this is the closing fence."""
        return self._closing.fullmatch(content) is not None

    def source(self, content: str) -> str:
        """Return the line of source."""
        indentation = self._indentation.match(content)
        return content if indentation is None else content[indentation.end() :]
