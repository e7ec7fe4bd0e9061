"""The chat with a person at a terminal: reads lines, and runs them as commands, messages or shell commands."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from rich.console import Console as Screen
from rich.text import Text

from reenact._version import version
from reenact.cli.attachments import attached
from reenact.cli.chat.asking import Person
from reenact.cli.chat.commands import Commands
from reenact.cli.chat.conversation import ExtraBlocks, TurnRunner
from reenact.cli.chat.current import Current, Frontend
from reenact.cli.chat.navigate import show_last_exchange
from reenact.cli.chat.page import Page
from reenact.cli.editor.editor import (
    Editor,
    discard_typed_ahead,
    editor_of_decisions,
    editor_of_questions,
    has_typed,
    read_line,
    read_question,
)
from reenact.cli.editor.keyboard import quiet_keyboard, typed_ahead
from reenact.cli.interrupts import interrupting
from reenact.cli.output.answers import Answer
from reenact.cli.output.console import Console
from reenact.cli.output.exact import escaped, in_rows
from reenact.cli.output.failures import ExitCode, TerminatedError, problem_of
from reenact.cli.output.streams import has_hung_up
from reenact.cli.render.live_line import LiveLine
from reenact.cli.settings.environment import project_directory
from reenact.domain.errors import ReenactError
from reenact.domain.legible import display_safe
from reenact.domain.messages import TextBlock, check_message
from reenact.domain.session.people import PendingCall

_EXIT_SECONDS = 5.0
"""Seconds after the warning during which Ctrl+C leaves the chat."""


def chat(current: Current, *, who: str) -> int:
    """Run the chat until the person leaves.

    Raises:
        KeyboardInterrupt: Ctrl+C was pressed twice during an answer.
        TerminatedError: the terminal is gone, or the process was asked to end.
    """
    with _ending_with_terminal(current.console), quiet_keyboard(current.console):
        frontend = Chat(current)
        frontend.welcome(who)
        try:
            frontend.run_lines()
        except KeyboardInterrupt:
            frontend.show_resume_command()
            raise
        frontend.show_resume_command()
    return ExitCode.SUCCESS


@contextmanager
def _ending_with_terminal(console: Console) -> Generator[None]:
    """Raise `TerminatedError` if the terminal is gone, whatever error that has caused."""
    failed: Exception | None = None
    try:
        yield
    except Exception as error:
        if not has_hung_up(sys.stdin):
            raise
        failed = error
    except BaseException:
        if has_hung_up(sys.stdin):
            console.abandon_terminal()
        raise
    if has_hung_up(sys.stdin):
        console.abandon_terminal()
        raise TerminatedError from failed


@dataclass
class Chat(Frontend):
    """Reads and runs one line after another; an error does not end the chat."""

    _clock: Callable[[], float] = time.monotonic
    interrupted = False
    """Whether Ctrl+C interrupted the last answer."""

    def __post_init__(self) -> None:
        self._console = console = self.current.console
        self._screen = console.screen()
        self._commands = Commands(self)
        editor = editor_of_decisions(console)
        self._person = Person(editor, self._screen, lambda: self.current.resume_command)
        self._shell = ShellCommands(editor, console, self._screen)
        self._asked_in = self.current.conversation
        self._leaves_until = self._clock()
        """Time until which Ctrl+C leaves the chat if nothing is typed: the person was warned."""

    @property
    def width(self) -> int:
        """The width of the terminal in columns."""
        return self._screen.width

    def welcome(self, who: str) -> None:
        """Show who answers, in which session, and how many messages it has."""
        conversation = self.current.conversation
        messages = () if conversation.is_new else self.current.runtime.sessions.messages(conversation.session_id)
        so_far = "" if conversation.is_new else f", {len(messages)} messages so far"
        named = f"Reenact {version()}"
        welcome = Text(in_rows(f"{named} · {display_safe(who)}", self.width))
        welcome.stylize("bold", 0, len(named))
        self._screen.print(welcome)
        self.say(f"Session {conversation.session_id}{so_far}")
        self.say("Enter sends, Ctrl+C interrupts, Ctrl+D leaves, /help lists the commands.")
        show_last_exchange(self, messages)
        self._screen.print()

    def show_resume_command(self) -> None:
        """Show how to resume the session, if it has any messages."""
        current, conversation = self.current, self.current.conversation
        try:
            if conversation.is_new or not current.runtime.sessions.messages(conversation.session_id):
                return
            is_found = current.is_found
        except ReenactError:
            is_found = False
        if is_found:
            self._screen.print(display_safe(f"To come back: {current.resume_command}"), style="dim")
        else:
            self._screen.print("There is no way back: this conversation is not in the log any more.", style="red")

    def run_lines(self) -> None:
        """Read and run lines until the person leaves."""
        editor = editor_of_questions(self._console, self._commands)
        goes_on = self._run_reporting(self.handle_waiting)
        while goes_on:
            try:
                line = read_question(editor)
            except EOFError:
                return
            except KeyboardInterrupt:
                goes_on = has_typed(editor) or self._clock() >= self._leaves_until
                if goes_on:
                    self._warn()
            else:
                self._leaves_until = self._clock()
                goes_on = self._run_reporting(partial(self._commands.run_line, line))

    def _warn(self) -> None:
        """Warn that another Ctrl+C leaves the chat, and start the time during which it does."""
        self._screen.print("Ctrl+C again, or Ctrl+D, leaves.", style="dim")
        self._leaves_until = self._clock() + _EXIT_SECONDS

    def _run_reporting(self, act: Callable[[], bool | None]) -> bool:
        """Run the action and report its error, if any; return whether the chat continues: not if it returns False."""
        pressed: list[None] = []
        self.interrupted = False
        goes_on: bool | None = None
        with interrupting(lambda: pressed.append(None)):
            try:
                goes_on = act()
            except ReenactError as error:
                self.fail(error)
            except BrokenPipeError:  # nobody reads the answers any longer
                raise
            except Exception as error:
                if has_hung_up(sys.stdin):  # the person is gone
                    raise
                self._console.report(problem_of(error), error)
        presses = len(pressed) + self.interrupted
        if goes_on is False or presses > 1:
            return False
        if presses:
            self._warn()
        return True

    def say(self, line: str) -> None:
        """Show the line below what was typed."""
        self._screen.print(in_rows(display_safe(line), self.width), style="dim")

    def ask(self, text: str, *, as_it_is: bool = False) -> None:
        """Send the text to the agent, with attached files and the output of shell commands."""
        check_message(text)
        extensions = self.current.extensions
        after = attached(text, extensions.agents(), self.say)
        printed = self._shell.told
        extra = ExtraBlocks((TextBlock(printed),) if printed else (), tuple(after))
        self._screen.print()  # a blank line below what was typed
        self.show(lambda runner: extensions.ask(runner, text, as_it_is=as_it_is), extra)

    def run(self, command: str) -> None:
        """Run a shell command if the person approves it; its output is sent to the model with the next message."""
        self._shell.run(command)

    def ask_about_calls(self, pending: Sequence[PendingCall]) -> None:
        """Ask the person about the calls that wait, and show what follows."""
        decisions = self._asking_person()(pending) if pending else None
        if decisions is not None:
            self.apply_decisions(decisions)

    def fail(self, error: ReenactError) -> None:
        """Show why there is no answer, or why a command failed."""
        for line in self._console.without_key(str(error)).split("\n"):
            self._screen.print(in_rows(display_safe(line), self.width), style="red")
        self._screen.print()

    def show(self, act: Callable[[TurnRunner], Answer], extra: ExtraBlocks | None = None) -> None:
        """Run the request and show its answer on a new page."""
        conversation, blocks = self.current.conversation, extra or ExtraBlocks()
        timeout = self.current.options.timeout
        try:
            with Page(self._console, self._screen, conversation.session_id) as page:
                decide = page.pausing_for(self._asking_person())
                answer = act(TurnRunner(conversation, page.on_event, decide, timeout=timeout, extra=blocks))
                page.end(answer)
            if extra is not None and answer.turn_id is not None:
                self._shell.told = ""
            self.current.warn_of_unpriced()
        except ReenactError as error:
            self.fail(error)
        else:
            is_interrupted = answer.problem is not None and answer.problem.code == ExitCode.INTERRUPTED
            self.interrupted = is_interrupted and not page.is_escaped

    def _asking_person(self) -> Person:
        """Return the one who asks the person; approvals given with [a]lways apply to the current session only."""
        if self._asked_in is not self.current.conversation:
            self._asked_in = self.current.conversation
            self._person.forget()
        return self._person


TIMEOUT = 60.0
"""Maximum time in seconds that a shell command may run, the same as for hooks."""
MOST = 10_000
"""Maximum number of characters of each output of a command that are shown and sent to the model."""


@dataclass
class ShellCommands:
    """Runs shell commands, and keeps their output for the next message to the model."""

    _editor: Editor
    _console: Console
    _screen: Screen
    _is_allowed = False
    told = ""
    """The output, for the model, of the commands that have run since the last message."""

    def run(self, command: str) -> None:
        """Run the command line in the user's shell if the person agrees, and show what it prints."""
        if not self._is_approved(command):
            return
        from reenact.extensions.firing import without_secrets  # noqa: PLC0415 - loaded only if used
        from reenact.extensions.running import run  # noqa: PLC0415 - loaded only if used

        stop = threading.Event()
        environ = without_secrets(self._console.environ)
        live = LiveLine(self._screen, [self._console.err], typed_ahead())
        live.doing = "running"
        with interrupting(stop.set), live.showing():
            try:
                ran = run(
                    command,
                    b"",
                    environ=environ,
                    cwd=project_directory(self._console.environ),
                    timeout=TIMEOUT,
                    stop=stop,
                    shell=environ.get("SHELL") or "/bin/sh",
                )
            except (OSError, ValueError) as error:
                self._say(f"It could not be started: {error}", "red")
                return
        how = f"ended with exit code {ran.code}"
        if ran.code is None:
            how = "was interrupted" if stop.is_set() else f"was ended: it ran longer than {TIMEOUT:g} s"
        printed = self._console.without_key("\n".join(filter(None, (_cut(ran.out), _cut(ran.err)))))
        for line in printed.split("\n") if printed else ():
            self._screen.print(display_safe(line))
        if ran.code != 0:
            self._say(f"It {how}.", "yellow")
        self._say("The model is told with your next message.", "dim")
        self.told += f"I ran this command in the shell:\n\n{command}\n\nIt {how}. It printed:\n\n{printed}\n\n"

    def _is_approved(self, command: str) -> bool:
        if self._is_allowed:
            return True
        discard_typed_ahead(self._editor)
        self._say(f"In {display_safe(str(project_directory(self._console.environ)))}: {escaped(command)}", "bold")
        try:
            answer = read_line(self._editor, "Run it? [y]es, [n]o, [a]lways in this chat: ").casefold()
        except (EOFError, KeyboardInterrupt):
            answer = ""
        self._is_allowed = answer in ("a", "always")
        if self._is_allowed or answer in ("y", "yes"):
            return True
        self._say("It was not run.", "dim")
        return False

    def _say(self, line: str, style: str) -> None:
        self._screen.print(in_rows(line, self._screen.width), style=style)


def _cut(printed: str) -> str:
    text = printed.rstrip()
    return text if len(text) <= MOST else f"{text[:MOST]}\n… ({len(text) - MOST:,} more characters)"
