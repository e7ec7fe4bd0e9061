"""Answers prompts where no person is: each in the form that is wanted, with an exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from reenact.cli.chat.attending import Attending, Unattended
from reenact.cli.chat.current import Current
from reenact.cli.chat.decisions import Decision
from reenact.cli.extensions.base import Extending
from reenact.cli.output.answers import Answer, output, told, unasked
from reenact.cli.output.console import Console
from reenact.cli.output.failures import UNAPPROVED, ExitCode, problem_of, timed_out
from reenact.cli.parsing.options import TalkOptions
from reenact.domain.errors import ReenactError
from reenact.domain.events import Envelope
from reenact.domain.messages import check_message
from reenact.domain.people import PendingCall
from reenact.domain.turns import REJECTED


class Script:
    """Asks the questions of a script; `code` is the exit code of the first that failed."""

    def __init__(self, current: Current, options: TalkOptions, console: Console, extending: Extending) -> None:
        self.code: int = ExitCode.SUCCESS
        self._current = current
        self._options = options
        self._console = console
        self._extending = extending
        self._output = output(options.output_format, console)

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be asked: that was interrupted, or nobody takes the answers."""
        return self.code == ExitCode.INTERRUPTED or self._console.gave_up

    def ask(self, question: str) -> int:
        """Ask, print the answer, and return the exit code so far."""
        return self._print(lambda attending: self._extending.ask(attending, check_message(question)))

    def ask_as_it_is(self, text: str) -> int:
        """Ask likewise, also if the text calls a command."""
        return self._print(lambda attending: self._extending.ask_as_it_is(attending, check_message(text)))

    def take_up(self, turn_ids: Sequence[str]) -> None:
        """Print the answers of turns that were waiting."""
        self._print(lambda attending: attending.take_up(turn_ids))

    def see_to(self, pending: Sequence[PendingCall]) -> None:
        """Say what waits for a person."""
        for call in pending:
            self._console.say(told(call))

    def carry_out(self, decision: Decision) -> None:
        """Tell the agent of a decision, and print what comes of it."""
        self._print(lambda attending: attending.carry_out([decision]))

    def fail(self, error: ReenactError) -> None:
        """Print why a command did not do what it is for."""
        self._end(unasked(self._current.conversation.shown_id, problem_of(error)))

    def _echo(self, event: Envelope, *, is_own: bool) -> None:
        """Print an event, if events are printed; the answer in it is there already."""
        self._output.hear(event, is_own=False)

    def _print(self, act: Callable[[Attending], Answer]) -> int:
        unattended = Unattended(self._options.allowed_tools, self._console.warn)
        attending = Attending(
            self._current.conversation,
            self._output.hear,
            unattended,
            timeout=self._options.timeout,
            echo=self._echo,
        )
        with self._console.within(self._options.timeout):
            answer = act(attending)
            if unattended.gave_up and answer.stop_reason == REJECTED:
                answer = msgspec.structs.replace(answer, problem=UNAPPROVED)
            return self._end(answer)

    def _end(self, answer: Answer) -> int:
        self._output.end(answer)
        self._current.warn_of_unpriced()
        problem = answer.problem
        if problem is None and self._console.gave_up:
            problem = timed_out(self._options.timeout or 0.0)
            self._console.report(problem, session_id=answer.session_id or None, turn_id=answer.turn_id)
        self.code = self.code or (problem.code if problem else ExitCode.SUCCESS)
        return self.code
