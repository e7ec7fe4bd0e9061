"""The chat with a person at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console as Screen

from reenact.cli.answer import Answer
from reenact.cli.asking import Person
from reenact.cli.attending import Attending
from reenact.cli.commands import Commands
from reenact.cli.console import Console
from reenact.cli.conversation import Conversation
from reenact.cli.decisions import Decision
from reenact.cli.editing import editor_of_decisions, editor_of_questions, read_line
from reenact.cli.extending import Extending
from reenact.cli.failures import ExitCode
from reenact.cli.listing import visible
from reenact.cli.page import Page
from reenact.cli.version import version
from reenact.domain.errors import ReenactError
from reenact.domain.messages import check_message
from reenact.domain.people import PendingCall


def chat(conversation: Conversation, console: Console, extending: Extending, *, who: str, timeout: float | None) -> int:
    """Talk until the person leaves."""
    screen = Screen(file=console.err, highlight=False, markup=False, soft_wrap=True)
    _welcome(conversation, screen, who)
    talking = Talking(conversation, console, screen, extending, timeout)
    commands = Commands(conversation, lambda line: screen.print(visible(line), style="dim"), talking, extending)
    editor = editor_of_questions(console)
    talking.see_to(conversation.pending())
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
            talking.ask(line)


class Talking:
    """The person's questions and decisions, and the page on which what comes of them is shown."""

    def __init__(
        self,
        conversation: Conversation,
        console: Console,
        screen: Screen,
        extending: Extending,
        timeout: float | None,
    ) -> None:
        self._conversation = conversation
        self._console = console
        self._screen = screen
        self._extending = extending
        self._timeout = timeout
        self._person = Person(editor_of_decisions(console), screen)

    def ask(self, question: str) -> None:
        """Ask the agent."""
        self._show(lambda attending: self._extending.ask(attending, check_message(question)))

    def see_to(self, pending: Sequence[PendingCall]) -> None:
        """Ask the person about what waits, and show what follows."""
        decisions = self._person(pending) if pending else None
        if decisions is not None:
            self._show(lambda attending: attending.carry_out(decisions))

    def carry_out(self, decision: Decision) -> None:
        """Tell the agent of a decision, and show what follows."""
        self._show(lambda attending: attending.carry_out([decision]))

    def _show(self, act: Callable[[Attending], Answer]) -> None:
        try:
            with Page(self._console, self._screen) as page:
                person = page.asking(self._person)
                page.end(act(Attending(self._conversation, page.hear, person, timeout=self._timeout)))
        except ReenactError as error:
            self._screen.print(f"{visible(self._console.without_key(str(error)))}\n", style="red")


def _welcome(conversation: Conversation, screen: Screen, who: str) -> None:
    screen.print(f"Reenact {version()}", style="bold", end="")
    screen.print(f" · {who}")
    if conversation.is_new:
        screen.print(f"Session {conversation.session_id}", style="dim")
    else:
        count = len(conversation.runtime.sessions.messages(conversation.session_id))
        screen.print(f"Session {conversation.session_id}, {count} messages so far", style="dim")
    screen.print("/help lists the commands, Ctrl+C interrupts an answer, Ctrl+D leaves.\n", style="dim")
