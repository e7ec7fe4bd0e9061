"""What a person at a terminal says to the agent, and the page on which they see what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console as Screen

from reenact.cli.answer import Answer
from reenact.cli.asking import Person
from reenact.cli.attending import Attending
from reenact.cli.console import Console
from reenact.cli.current import Current
from reenact.cli.decisions import Decision
from reenact.cli.editing import editor_of_decisions
from reenact.cli.exact import harmless
from reenact.cli.extending import Extending
from reenact.cli.failures import ExitCode
from reenact.cli.page import Page
from reenact.domain.errors import ReenactError
from reenact.domain.messages import check_message
from reenact.domain.people import PendingCall


class Talking:
    """The person's questions and decisions; `interrupted` says whether they wanted no more of the last answer."""

    def __init__(
        self, current: Current, console: Console, screen: Screen, extending: Extending, timeout: float | None
    ) -> None:
        self.interrupted = False
        self._current = current
        self._console = console
        self._screen = screen
        self._extending = extending
        self._timeout = timeout
        self._person = Person(editor_of_decisions(console), screen)

    def ask(self, question: str) -> None:
        """Ask the agent."""
        self._show(lambda attending: self._extending.ask(attending, check_message(question)))

    def ask_as_it_is(self, text: str) -> None:
        """Ask the agent, also if the text calls a command."""
        self._show(lambda attending: self._extending.ask_as_it_is(attending, check_message(text)))

    def take_up(self, turn_ids: Sequence[str]) -> None:
        """Show how turns are answered that were waiting."""
        self._show(lambda attending: attending.take_up(turn_ids))

    def see_to(self, pending: Sequence[PendingCall]) -> None:
        """Ask the person about what waits, and show what follows."""
        decisions = self._person(pending) if pending else None
        if decisions is not None:
            self._show(lambda attending: attending.carry_out(decisions))

    def carry_out(self, decision: Decision) -> None:
        """Tell the agent of a decision, and show what follows."""
        self._show(lambda attending: attending.carry_out([decision]))

    def fail(self, error: ReenactError) -> None:
        """Tell why there is no answer, or why a command did nothing."""
        for line in self._console.without_key(str(error)).split("\n"):
            self._screen.print(harmless(line), style="red")
        self._screen.print()

    def _show(self, act: Callable[[Attending], Answer]) -> None:
        try:
            with Page(self._console, self._screen) as page:
                person = page.asking(self._person)
                answer = act(Attending(self._current.conversation, page.hear, person, timeout=self._timeout))
                page.end(answer)
            self._current.warn_of_unpriced()
        except ReenactError as error:
            self.fail(error)
        else:
            self.interrupted = answer.problem is not None and answer.problem.code == ExitCode.INTERRUPTED
