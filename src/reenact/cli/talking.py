"""What a person at a terminal says to the agent, and the page on which they see what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console as Screen

from reenact.cli.answer import Answer
from reenact.cli.asking import Person
from reenact.cli.attaching import attached
from reenact.cli.attending import Attending, Beside
from reenact.cli.console import Console
from reenact.cli.current import Current
from reenact.cli.decisions import Decision
from reenact.cli.editing import editor_of_decisions
from reenact.cli.exact import harmless
from reenact.cli.extending import Extending
from reenact.cli.failures import ExitCode
from reenact.cli.page import Page
from reenact.cli.rows import in_rows
from reenact.cli.shell_command import ShellCommands
from reenact.domain.errors import ReenactError
from reenact.domain.messages import TextBlock, check_message
from reenact.domain.people import PendingCall


class Talking:
    """The person's questions and decisions; `interrupted` says whether Ctrl+C has ended the last answer."""

    def __init__(
        self, current: Current, console: Console, screen: Screen, extending: Extending, timeout: float | None
    ) -> None:
        self.interrupted = False
        self._current = current
        self._console = console
        self._screen = screen
        self._extending = extending
        self._timeout = timeout
        editor = editor_of_decisions(console)
        self._person = Person(editor, screen)
        self._commands = ShellCommands(editor, console, screen)
        self._talked_in = current.conversation

    def ask(self, question: str) -> None:
        """Ask the agent."""
        self._answer(question, self._extending.ask)

    def ask_as_it_is(self, text: str) -> None:
        """Ask the agent, also if the text calls a command."""
        self._answer(text, self._extending.ask_as_it_is)

    def run(self, command: str) -> None:
        """Run a command of the shell, if the person approves of it; the model hears of it with the next message."""
        self._commands.run(command)

    def take_up(self, turn_ids: Sequence[str]) -> None:
        """Show how turns are answered that were waiting."""
        self._show(lambda attending: attending.take_up(turn_ids))

    def see_to(self, pending: Sequence[PendingCall]) -> None:
        """Ask the person about what waits, and show what follows."""
        decisions = self._asking()(pending) if pending else None
        if decisions is not None:
            self._show(lambda attending: attending.carry_out(decisions))

    def carry_out(self, decision: Decision) -> None:
        """Tell the agent of a decision, and show what follows."""
        self._show(lambda attending: attending.carry_out([decision]))

    def fail(self, error: ReenactError) -> None:
        """Tell why there is no answer, or why a command did nothing."""
        for line in self._console.without_key(str(error)).split("\n"):
            self._screen.print(in_rows(harmless(line), self._screen.width), style="red")
        self._screen.print()

    def _asking(self) -> Person:
        """Return who is asked; what they have approved for good holds in this session only."""
        if self._talked_in is not self._current.conversation:
            self._talked_in = self._current.conversation
            self._person.forget()
        return self._person

    def _answer(self, text: str, ask: Callable[[Attending, str], Answer]) -> None:
        check_message(text)
        behind = attached(text, self._extending.agents(), self._say)
        printed = self._commands.told
        beside = Beside((TextBlock(printed),) if printed else (), tuple(behind))
        self._screen.print()  # apart from what was typed
        self._show(lambda attending: ask(attending, text), beside)

    def _say(self, line: str) -> None:
        self._screen.print(in_rows(line, self._screen.width), style="dim")

    def _show(self, act: Callable[[Attending], Answer], beside: Beside | None = None) -> None:
        try:
            with Page(self._console, self._screen) as page:
                person = page.asking(self._asking())
                there = self._current.conversation
                answer = act(Attending(there, page.hear, person, timeout=self._timeout, beside=beside or Beside()))
                page.end(answer)
            if beside is not None and answer.turn_id is not None:
                self._commands.told = ""
            self._current.warn_of_unpriced()
        except ReenactError as error:
            self.fail(error)
        else:
            is_interrupted = answer.problem is not None and answer.problem.code == ExitCode.INTERRUPTED
            self.interrupted = is_interrupted and not page.is_escaped
