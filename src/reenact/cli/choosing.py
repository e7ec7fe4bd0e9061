"""Which session a person goes on with who names none: the newest are listed."""

from __future__ import annotations

from typing import Final

from rich.console import Console as Screen

from reenact._runtime import Runtime
from reenact.cli.console import Console
from reenact.cli.editing import editor_of_decisions, read_line
from reenact.cli.exact import harmless
from reenact.cli.failures import NothingToContinueError
from reenact.cli.looking import SHOWN, newest_sessions, numbered_lines
from reenact.cli.named import numbered_or_named
from reenact.cli.rows import in_rows
from reenact.domain.errors import ReenactError

_WHICH: Final = "Which one? A number or an ID; Enter takes the newest: "


def choose_session(runtime: Runtime, console: Console) -> str:
    """Return the id of the session that the person chooses.

    Raises:
        KeyboardInterrupt: they choose none.
        NothingToContinueError: there is none.
    """
    screen: Screen = console.screen(console.err)
    sessions = newest_sessions(runtime)
    if not sessions:
        raise NothingToContinueError("there is no session to resume in this log; begin one without --resume")
    for line in numbered_lines(runtime, sessions):
        screen.print(in_rows(harmless(line), screen.width))
    listed = [session.id for session in sessions[:SHOWN]]
    editor = editor_of_decisions(console)
    while True:
        try:
            return numbered_or_named(runtime, read_line(editor, _WHICH) or "1", listed)
        except EOFError:
            raise KeyboardInterrupt from None
        except ReenactError as error:
            screen.print(in_rows(harmless(str(error)), screen.width), style="red")
