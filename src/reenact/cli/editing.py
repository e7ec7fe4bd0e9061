"""The line editor, by which a person says something."""

from __future__ import annotations

import contextlib
import termios
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import DummyHistory, FileHistory, History, InMemoryHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.output.vt100 import Vt100_Output

from reenact.cli.console import Console
from reenact.cli.interrupts import leaving_first
from reenact.cli.settings import state_directory

PROMPT = "> "


class Editor:
    """Reads lines from the terminal, behind a prompt that is no part of the result."""

    def __init__(self, console: Console, history: History) -> None:
        output = Vt100_Output.from_pty(console.terminal or console.err, term=console.environ.get("TERM"))
        output.enable_cpr = False  # a simple terminal never answers where its cursor is, and would be waited for
        self._session: PromptSession[str] = PromptSession(history=history, output=output)

    def read(self, prompt: str = PROMPT, default: str = "") -> str:
        """Have a line typed, or the default changed.

        Raises:
            EOFError: the person leaves.
            KeyboardInterrupt: it was Ctrl+C.
        """
        application = self._session.app
        asked: list[None] = []

        def leave() -> None:
            asked.append(None)
            if application.loop is not None:
                application.loop.call_soon_threadsafe(exit_once)

        def exit_once() -> None:
            if asked and application.future is not None and not application.future.done():
                application.exit(exception=EOFError)

        with leaving_first(leave):
            message = FormattedText([("bold", prompt)])
            return self._session.prompt(message, default=default, pre_run=exit_once).strip()

    def forget_what_was_typed(self) -> None:
        """Drop what was typed before anything was asked: it is no answer."""
        typed = self._session.app.input
        clear_typeahead(typed)
        with contextlib.suppress(OSError, termios.error, ValueError):
            termios.tcflush(typed.fileno(), termios.TCIFLUSH)


def editor_of_questions(console: Console) -> Editor:
    """Return an editor for a chat, whose history outlives it."""
    return Editor(console, _history(console))


def editor_of_decisions(console: Console) -> Editor:
    """Return an editor for answers that are nobody else's business."""
    return Editor(console, DummyHistory())


def _history(console: Console) -> History:
    path: Path = state_directory(console.environ) / "history"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError as error:
        console.warn(f"what is typed will not be remembered: {error}")
        return InMemoryHistory()
    return FileHistory(str(path))
