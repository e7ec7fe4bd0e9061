"""The line editor, by which a person says something."""

from __future__ import annotations

import contextlib
import termios
from pathlib import Path
from typing import Final, TypeAlias

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import DummyHistory, FileHistory, History, InMemoryHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.output.vt100 import Vt100_Output

from reenact.cli.choices import Choices
from reenact.cli.console import Console
from reenact.cli.interrupts import leaving_first
from reenact.cli.keyboard import be_quiet_again
from reenact.cli.settings import state_directory

Editor: TypeAlias = PromptSession[str]

_PROMPT: Final = "> "


def editor_of_questions(console: Console, choices: Choices | None = None) -> Editor:
    """Return an editor whose history outlives it, and which offers the choices."""
    del choices
    return _editor(console, _history(console))


def editor_of_decisions(console: Console) -> Editor:
    """Return an editor for answers that are to be given anew each time."""
    return _editor(console, DummyHistory())


def read_question(editor: Editor) -> str:
    """Have a question typed.

    Raises:
        EOFError: the person leaves.
        KeyboardInterrupt: it was Ctrl+C.
    """
    return read_line(editor, _PROMPT)


def read_line(editor: Editor, prompt: str, default: str = "") -> str:
    """Have a line typed, or the default changed.

    Raises:
        EOFError: the person leaves.
        KeyboardInterrupt: it was Ctrl+C.
    """
    application = editor.app
    asked: list[None] = []

    def leave() -> None:
        asked.append(None)
        if application.loop is not None:
            application.loop.call_soon_threadsafe(exit_once)

    def exit_once() -> None:
        if asked and application.future is not None and not application.future.done():
            application.exit(exception=EOFError)

    try:
        with leaving_first(leave):
            return editor.prompt(FormattedText([("bold", prompt)]), default=default, pre_run=exit_once).strip()
    finally:
        be_quiet_again()


def forget_what_was_typed(editor: Editor) -> None:
    """Drop what was typed before anything was asked: it is no answer."""
    typed = editor.app.input
    clear_typeahead(typed)
    with contextlib.suppress(OSError, termios.error):
        termios.tcflush(typed.fileno(), termios.TCIFLUSH)


def _editor(console: Console, history: History) -> Editor:
    """Return an editor whose prompt is no part of the result."""
    output = Vt100_Output.from_pty(console.terminal or console.err, term=console.environ.get("TERM"))
    output.enable_cpr = False  # a simple terminal never answers where its cursor is, and would be waited for
    return PromptSession(history=history, output=output)


def _history(console: Console) -> History:
    path: Path = state_directory(console.environ) / "history"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError as error:
        console.warn(f"what is typed will not be remembered: {error}")
        return InMemoryHistory()
    return FileHistory(str(path))
