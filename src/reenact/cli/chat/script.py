"""Answers prompts where no person is: which calls may run there, in which form answers are printed, the exit code."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from reenact.cli.chat.conversation import IMAGE, Approved, Attending, Conversation, Decision, Rejected
from reenact.cli.chat.current import Talking
from reenact.cli.output.answers import Answer, output, told, unasked
from reenact.cli.output.console import Console
from reenact.cli.output.exact import plain_or_quoted
from reenact.cli.output.failures import UNAPPROVED, ExitCode, problem_of, timed_out
from reenact.cli.parsing.options import TalkOptions
from reenact.domain.errors import ReenactError
from reenact.domain.events import Envelope
from reenact.domain.image import Image, define
from reenact.domain.messages import check_message
from reenact.domain.people import PendingCall
from reenact.domain.turns import REJECTED

_OPTION: Final = "--allowed-tools"
_OF_SERVERS: Final = "mcp__"
_PATIENCE: Final = 10
"""So often in a row a model may ask for what nobody is there to approve."""


@dataclass
class Script(Talking):
    """Asks the questions of a script; `code` is the exit code of the first that failed."""

    code: int = ExitCode.SUCCESS

    def __post_init__(self) -> None:
        self._options, self._console = self.current.options, self.current.console
        self._output = output(self._options.output_format, self._console)

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be asked: that was interrupted, or nobody takes the answers."""
        return self.code == ExitCode.INTERRUPTED or self._console.gave_up

    def say(self, line: str) -> None:
        """Say it on standard error."""
        self._console.say(line)

    def ask(self, text: str, *, as_it_is: bool = False) -> None:
        """Ask, and print the answer."""
        self.show(lambda attending: self.current.extending.ask(attending, check_message(text), as_it_is=as_it_is))

    def see_to(self, pending: Sequence[PendingCall]) -> None:
        """Say what waits for a person."""
        for call in pending:
            self._console.say(told(call))

    def fail(self, error: ReenactError) -> None:
        """Print why a command did not do what it is for."""
        self._end(unasked(self.current.conversation.shown_id, problem_of(error)))

    def _echo(self, event: Envelope, *, is_own: bool) -> None:
        """Print an event, if events are printed; the answer in it is there already."""
        self._output.hear(event, is_own=False)

    def show(self, act: Callable[[Attending], Answer]) -> None:
        """Print the answer."""
        unattended = Unattended(self._options.allowed_tools, self._console.warn)
        attending = Attending(
            self.current.conversation,
            self._output.hear,
            unattended,
            timeout=self._options.timeout,
            echo=self._echo,
        )
        with self._console.within(self._options.timeout):
            answer = act(attending)
            if unattended.gave_up and answer.stop_reason == REJECTED:
                answer = msgspec.structs.replace(answer, problem=UNAPPROVED)
            self._end(answer)

    def _end(self, answer: Answer) -> None:
        self._output.end(answer)
        self.current.warn_of_unpriced()
        problem = answer.problem
        if problem is None and self._console.gave_up:
            problem = timed_out(self._options.timeout or 0.0)
            self._console.report(problem, session_id=answer.session_id or None, turn_id=answer.turn_id)
        self.code = self.code or (problem.code if problem else ExitCode.SUCCESS)


@dataclass
class Unattended:
    """Decides where no person is: what the options allow is approved, all else is rejected, and the model told why.

    In the names of the tools that may run, `*`, `?` and `[…]` are wildcards.
    """

    _allowed: Sequence[str]
    _warn: Callable[[str], None]
    _refusals = 0

    def allows(self, call: PendingCall) -> bool:
        """Return whether the call may run without a person."""
        return call.kind == "approval" and any(fnmatchcase(call.name, pattern) for pattern in self._allowed)

    @property
    def gave_up(self) -> bool:
        """Whether the turn was ended because the model went on to ask for what is rejected."""
        return self._refusals > _PATIENCE

    def __call__(self, pending: Sequence[PendingCall]) -> list[Decision]:
        """Decide about the calls."""
        refused = [call for call in pending if not self.allows(call)]
        self._refusals = self._refusals + 1 if len(refused) == len(pending) else 0
        if self.gave_up:
            return [Rejected(call=refused[0], reason=_reason(refused[0]), ends_turn=True, by=_OPTION)]
        for call in refused:
            self._warn(f"{plain_or_quoted(call.name)} was not run: {_reason(call)}")
        return [
            Rejected(call=call, reason=_reason(call), by=_OPTION)
            if call in refused
            else Approved(call=call, by=_OPTION)
            for call in pending
        ]


def _reason(call: PendingCall) -> str:
    if call.kind == "approval":
        return f"no person is there to approve it; run with {_OPTION} {call.name}"
    return "no person is there to answer it"


def warn_of_unknown(options: TalkOptions, image: Image, conversation: Conversation, console: Console) -> None:
    """Warn of what --allowed-tools names and the session has not, as far as its tools are known by now.

    Those of servers are known when they have answered; what settings allow is for any session, and may be of others.
    """
    if options.allowed_by_settings or not options.allowed_tools:
        return
    known = _tools_of(image, conversation)
    if known is None:
        return
    for name in unknown(options.allowed_tools, known, has_servers=bool(image.mcp_servers) or not conversation.is_new):
        meant = difflib.get_close_matches(name, known, 1)
        words = f"; is {meant[0]} meant?" if meant else f"; its tools are: {', '.join(sorted(known)) or 'none'}"
        console.warn(f"--allowed-tools {plain_or_quoted(name)}: the session has no such tool{words}")


def unknown(allowed: Sequence[str], known: Collection[str], *, has_servers: bool) -> list[str]:
    """Return the names and patterns that fit no known tool, and cannot be of a server either."""
    return [
        pattern
        for pattern in allowed
        if not any(fnmatchcase(name, pattern) for name in known)
        and not (has_servers and (pattern.startswith(_OF_SERVERS) or "*" in pattern[: len(_OF_SERVERS)]))
    ]


def _tools_of(image: Image, conversation: Conversation) -> list[str] | None:
    """Return the names of the session's tools; None if it was created with another revision of its image."""
    if conversation.is_new:
        definition = define(image, IMAGE)
        return [tool.name for tool in definition.tools] + [str(tool.get("name")) for tool in definition.api_tools]
    session = conversation.runtime.sessions.get(conversation.session_id)
    created_with = None if session is None else conversation.runtime.images.get(session.image_id)
    if session is None or created_with is None or created_with.revision != session.image_revision:
        return None
    return list(created_with.tools)
