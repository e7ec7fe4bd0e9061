"""Asks in a conversation, and has calls that wait decided, until nothing waits any more."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from reenact.cli.chat.conversation import IMAGE, Conversation, Hear
from reenact.cli.chat.decisions import Approved, Decide, Decision, Rejected
from reenact.cli.output.answers import Answer
from reenact.cli.output.console import Console
from reenact.cli.output.exact import plain_or_quoted
from reenact.cli.parsing.options import TalkOptions
from reenact.domain.content import Content
from reenact.domain.events import Envelope
from reenact.domain.image import Image, define
from reenact.domain.messages import Block, TextBlock, check_message
from reenact.domain.people import PendingCall

_OPTION: Final = "--allowed-tools"
_PATIENCE: Final = 10
"""So often in a row a model may ask for what nobody is there to approve."""


class Beside(NamedTuple):
    """What goes with a question, before it and behind it."""

    before: tuple[Block, ...] = ()
    behind: tuple[Block, ...] = ()


_NOTHING: Final = Beside()


def _nobody(event: Envelope, *, is_own: bool) -> None:
    """Hear nothing."""


@dataclass(frozen=True)
class Attending:
    """Asks questions in a conversation, and lets `decide` decide about the calls that wait for a person.

    `timeout`, in seconds, is for the agent; how long a person thinks is not counted. `echo` hears what was heard in
    another conversation already. What is `beside` a question goes with it.
    """

    conversation: Conversation
    hear: Hear
    decide: Decide
    timeout: float | None
    echo: Hear = _nobody
    beside: Beside = _NOTHING

    def content_of(self, question: str) -> Content:
        """Return the question with what goes with it."""
        if self.beside == _NOTHING:
            return question
        return [*self.beside.before, TextBlock(check_message(question)), *self.beside.behind]

    def ask(self, question: str) -> Answer:
        """Ask, and return when the agent has answered or is left waiting."""
        answer = self.conversation.ask(self.content_of(question), self.hear, timeout=self.timeout)
        return self._go_on(answer)

    def take_up(self, turn_ids: Sequence[str]) -> Answer:
        """Hear out turns that were waiting, and return when the agent has answered or is left waiting."""
        return self._go_on(self.conversation.take_up(turn_ids, self.hear, timeout=self.timeout))

    def carry_out(self, decisions: Sequence[Decision]) -> Answer:
        """Tell the agent of the decisions, and return when it has answered or is left waiting."""
        return self._go_on(self.conversation.decide(decisions, self.hear, timeout=self.timeout))

    def _go_on(self, answer: Answer) -> Answer:
        while answer.problem is None and (answer.waits or answer.turn_id is None):
            pending = self.conversation.pending()
            decisions = self.decide(pending) if pending else None
            if decisions is None:
                break
            left = None if self.timeout is None else max(0.0, self.timeout - answer.duration)
            later = self.conversation.decide(decisions, self.hear, timeout=left)
            answer = answer.then(later)
            if later.turn_id is None:
                break
        return answer


class Unattended:
    """Decides where no person is: what the options allow is approved, all else is rejected, and the model told why."""

    def __init__(self, allowed: Sequence[str], warn: Callable[[str], None]) -> None:
        """Take the names of the tools that may run, in which `*`, `?` and `[…]` are wildcards."""
        self._allowed = allowed
        self._warn = warn
        self._refusals = 0

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


_OF_SERVERS = "mcp__"


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
