"""Where the command is looked at: terminals of several sizes, with colours and without, and what is seen there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len

from reenact.terminal import ANSIParser, Screen, TerminalEmulator

_ALL: Final = re.compile(r"(?s).*")
_BLANKS: Final = re.compile(r"\s+")


@dataclass(frozen=True)
class View:
    """A terminal as somebody has it."""

    name: str
    columns: int
    rows: int
    in_colours: bool

    @property
    def variables(self) -> Mapping[str, str]:
        """What the environment says of it."""
        return {"TERM": "xterm-256color", **({} if self.in_colours else {"NO_COLOR": "1"})}

    def __str__(self) -> str:
        return self.name


WIDE: Final = View("wide", 160, 50, in_colours=True)
NARROW: Final = View("narrow", 40, 12, in_colours=False)
TINY: Final = View("tiny", 20, 12, in_colours=False)
VIEWS: Final = (WIDE, NARROW)


def wait_for_prompt(terminal: TerminalEmulator) -> Screen:
    """Wait until a prompt waits, empty, with the cursor behind it, and return the screen.

    What is waited for next is looked for in what comes then.
    """
    screen = terminal.wait_until(_is_prompted, what="an empty prompt with the cursor")
    terminal.wait_for(_ALL)
    return screen


def ask(terminal: TerminalEmulator, line: str, answer: str = "API!") -> Screen:
    """Type the line, wait for the end of the answer and for the prompt, and return the screen."""
    terminal.send_line(line)
    terminal.wait_for(answer)
    return wait_for_prompt(terminal)


def squeezed(text: str) -> str:
    """Return the text without any blanks, so that it does not matter where its lines were broken."""
    return _BLANKS.sub("", text)


def shown(screen: Screen) -> str:
    """Return all that is shown and was, squeezed."""
    return squeezed("".join(_rows(screen)))


def torn(text: str, screen: Screen) -> list[str]:
    """Return the words of the text that would fit into a row, and stand whole in none."""
    rows = _rows(screen)
    words = dict.fromkeys(text.split())
    return [word for word in words if cell_len(word) <= screen.columns and not any(word in row for row in rows)]


def colours(terminal: TerminalEmulator) -> set[str]:
    """Return all colours that anything was ever written in."""
    styles = [token.style for token in ANSIParser().parse(terminal.get_output())]
    return {
        colour
        for style in styles
        for colour in (style.foreground, style.background, style.underline_color)
        if colour is not None
    }


def _rows(screen: Screen) -> tuple[str, ...]:
    return (*screen.scrollback, *screen.lines)


def _is_prompted(screen: Screen) -> bool:
    row, column = screen.cursor.row, screen.cursor.column
    return screen.cursor.visible and screen.lines[row].startswith(">") and column == len("> ")
