"""The chat with a person at a terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.output.vt100 import Vt100_Output
from rich.console import Console as Screen

from reenact.cli.commands import Commands
from reenact.cli.console import Console
from reenact.cli.conversation import Answer, Conversation
from reenact.cli.failures import ExitCode
from reenact.cli.interrupts import leaving_first
from reenact.cli.listing import visible
from reenact.cli.settings import state_directory
from reenact.cli.version import version
from reenact.domain.errors import ReenactError
from reenact.domain.events import Envelope, TextDelta, ThinkingDelta, ThinkingEnd, ToolCall
from reenact.domain.messages import check_message

_PROMPT = FormattedText([("bold", "> ")])


def chat(conversation: Conversation, console: Console, *, who: str, timeout: float | None) -> int:
    """Talk until the person leaves."""
    screen = Screen(file=console.err, highlight=False, markup=False, soft_wrap=True)
    _welcome(conversation, screen, who)
    commands = Commands(conversation, lambda line: screen.print(visible(line), style="dim"))
    editor = _editor(console)
    leaving = False
    while True:
        try:
            line = read_line(editor)
        except EOFError:
            return ExitCode.SUCCESS
        except KeyboardInterrupt:
            if leaving:
                return ExitCode.SUCCESS
            leaving = True
            screen.print("Ctrl+C again, or Ctrl+D, leaves.", style="dim")
            continue
        leaving = False
        if line.startswith("/"):
            if not commands.obey(line):
                return ExitCode.SUCCESS
        elif line:
            _answer(line, conversation, console, screen, timeout)


class Page:
    """Where a person reads an answer: the text, and dimmed beside it what the model thinks and does."""

    def __init__(self, console: Console, screen: Screen) -> None:
        self._console = console
        self._screen = screen
        self._open: Callable[[], None] | None = None

    def hear(self, event: Envelope, *, is_own: bool) -> None:
        """Show what there is to see."""
        match event.data:
            case TextDelta(text=text):
                self._go_on(self._end_text)
                self._console.write(visible(text))
            case ThinkingDelta(text=text):
                self._go_on(self._screen.print)
                self._screen.print(visible(text), style="dim italic", end="")
            case ThinkingEnd():
                self._go_on(None)
            case ToolCall(name=name):
                self._go_on(None)
                self._screen.print(f"[{visible(name)}]", style="dim")
            case _:
                pass

    def end(self, answer: Answer) -> None:
        """End the answer, and say why it is not whole."""
        self._go_on(None)
        if answer.problem is None:
            self._screen.print()
        elif answer.problem.code == ExitCode.INTERRUPTED:
            self._screen.print("Interrupted.\n", style="yellow")
        else:
            self._screen.print(f"{visible(self._console.without_key(answer.problem.message))}\n", style="red")

    def _go_on(self, end: Callable[[], None] | None) -> None:
        """Go on with what is ended by `end`; what was open until now, if it is another thing, is ended."""
        if self._open is not None and self._open != end:
            self._open()
        self._open = end

    def _end_text(self) -> None:
        self._console.write("\n")


def _answer(line: str, conversation: Conversation, console: Console, screen: Screen, timeout: float | None) -> None:
    page = Page(console, screen)
    try:
        page.end(conversation.ask(check_message(line), page.hear, timeout=timeout))
    except ReenactError as error:
        screen.print(f"{visible(console.without_key(str(error)))}\n", style="red")


def _welcome(conversation: Conversation, screen: Screen, who: str) -> None:
    screen.print(f"Reenact {version()}", style="bold", end="")
    screen.print(f" · {who}")
    if conversation.is_new:
        screen.print(f"Session {conversation.session_id}", style="dim")
    else:
        count = len(conversation.runtime.sessions.messages(conversation.session_id))
        screen.print(f"Session {conversation.session_id}, {count} messages so far", style="dim")
    screen.print("/help lists the commands, Ctrl+C interrupts an answer, Ctrl+D leaves.\n", style="dim")


def read_line(editor: PromptSession[str]) -> str:
    """Have a line typed.

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

    with leaving_first(leave):
        return editor.prompt(_PROMPT, pre_run=exit_once).strip()


def _editor(console: Console) -> PromptSession[str]:
    """Return a line editor whose prompt is no part of the result, and whose history outlives it."""
    output = Vt100_Output.from_pty(console.terminal or console.err, term=console.environ.get("TERM"))
    output.enable_cpr = False  # a simple terminal never answers where its cursor is, and would be waited for
    return PromptSession(history=_history(console), output=output)


def _history(console: Console) -> History:
    path: Path = state_directory(console.environ) / "history"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError as error:
        console.warn(f"what is typed will not be remembered: {error}")
        return InMemoryHistory()
    return FileHistory(str(path))
