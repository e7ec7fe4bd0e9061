"""Markdown written in pieces to a terminal of so many columns, and what can be seen there."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import closing

from rich.console import Console

from reenact.cli.render.markdown import StreamedMarkdown
from reenact.terminal import ANSIParser, ANSIStyle, Engine, Screen

ROWS = 200


def console(width: int, *, no_color: bool = False) -> Console:
    """Return a terminal in memory."""
    return Console(
        file=io.StringIO(), force_terminal=True, width=width, color_system="standard", no_color=no_color, _environ={}
    )


def written(pieces: str | Sequence[str], width: int = 80, *, no_color: bool = False) -> str:
    """Return what is written for a text that comes in these pieces."""
    screen = console(width, no_color=no_color)
    prose = StreamedMarkdown(screen)
    for piece in [pieces] if isinstance(pieces, str) else pieces:
        prose.write(piece)
    prose.end()
    return told(screen)


def told(screen: Console) -> str:
    """Return all that was written there so far."""
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def screen_of(output: str, width: int = 80, rows: int = ROWS) -> Screen:
    """Return the screen of a terminal to which this was written."""
    with closing(Engine(width, rows)) as engine:
        engine.feed(output.replace("\n", "\r\n").encode())
        return engine.screen()


def shown(markdown: str, width: int = 80) -> list[str]:
    """Return the rows of the screen on which the text was written."""
    return screen_of(written(markdown, width), width).text.split("\n")


def plain(output: str) -> str:
    """Return what was written, without styles."""
    return "".join(token.content for token in ANSIParser().parse(output) if token.type == "text")


def styles(output: str) -> list[tuple[str, ANSIStyle]]:
    """Return each character that is not a blank, and its style."""
    texts = [token for token in ANSIParser().parse(output) if token.type == "text"]
    return [(character, token.style) for token in texts for character in token.content if not character.isspace()]


def style_of(word: str, output: str) -> ANSIStyle:
    """Return the one style of the only place where the word stands."""
    characters = styles(output)
    text = "".join(character for character, _ in characters)
    assert text.count(word) == 1, f"{word!r} is there {text.count(word)} times"
    begin = text.index(word)
    (style,) = {style for _, style in characters[begin : begin + len(word)]}
    return style
