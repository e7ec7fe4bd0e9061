"""Drawing at a terminal that may change its width: what it has wrapped anew is found again, and drawn once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout.screen import Screen
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from reenact.cli.console import Console
from reenact.cli.settings import given

_NEVER_WRAP_ANEW: Final = ("linux", "rxvt", "screen", "st", "vt")


class Drawing(Vt100_Output):
    """A terminal on which an editor is drawn."""

    _drawn: tuple[Screen, Point] | None = None
    _wraps_anew = True

    @classmethod
    def at(cls, terminal: TextIO, console: Console) -> Drawing:
        """Return the terminal as the environment describes it."""
        drawing = cls(
            terminal,
            cls.from_pty(terminal).get_size,
            term=console.environ.get("TERM"),
            default_color_depth=_colours(console.environ),
            enable_cpr=False,  # a simple terminal never answers where its cursor is, and would be waited for
        )
        drawing._wraps_anew = _wraps_anew(console.environ)
        return drawing

    def watch(self, editor: PromptSession[str]) -> None:
        """Take note of what is drawn each time."""

        def look(application: Application[str]) -> None:
            screen = application.renderer.last_rendered_screen
            if screen is None or application.is_done:
                self._drawn = None
            else:
                self._drawn = screen, screen.get_cursor_position(application.layout.current_window)

        editor.app.after_render += look

    def erase_down(self) -> None:
        """Erase all from the beginning of what was drawn: it begins further up if its rows were wrapped meanwhile."""
        drawn, self._drawn = self._drawn, None
        if drawn is not None and self._wraps_anew:
            screen, cursor = drawn
            self.cursor_up(rows_above(screen, cursor, self.get_size().columns) - cursor.y)
        super().erase_down()


def rows_above(screen: Screen, cursor: Point, columns: int) -> int:
    """Return how many rows are above the cursor once a terminal of so many columns has wrapped what was drawn."""
    ends = (
        max((x + cell.width for x, cell in screen.data_buffer[y].items() if cell.char != " "), default=0)
        for y in range(cursor.y)
    )
    return sum(max(1, -(-end // columns)) for end in ends) + cursor.x // columns


def _wraps_anew(environ: Mapping[str, str]) -> bool:
    if "TMUX" in environ:
        return True
    return "XTERM_VERSION" not in environ and not environ.get("TERM", "").startswith(_NEVER_WRAP_ANEW)


def _colours(environ: Mapping[str, str]) -> ColorDepth:
    if environ.get("NO_COLOR"):
        return ColorDepth.DEPTH_1_BIT
    wanted = given(environ, "PROMPT_TOOLKIT_COLOR_DEPTH")
    return ColorDepth(wanted) if wanted in {depth.value for depth in ColorDepth} else ColorDepth.DEPTH_4_BIT
