"""A large, realistic log: turns with tool calls, approvals, denials and failures, over thirty days.

`python -m bench.large_log LOG [SESSIONS [TURNS]]` writes one; by default it has a million events.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import reduce
from typing import Final

from reenact._runtime import codec
from reenact.actors.envelopes import flat, segments_of
from reenact.actors.journal.api import Append, Derived, Entry, Outcome, Segment
from reenact.actors.journal.opening import open_journal
from reenact.actors.journal.stored import StoredJournal
from reenact.domain import container, image
from reenact.domain.container import CreateContainer
from reenact.domain.history.causes import AnyCommand, cause_of
from reenact.domain.image import Image, RegisterImage
from reenact.domain.loop.ledger import Price
from reenact.domain.loop.rules import Rules
from reenact.domain.messages import TextBlock, ToolUseBlock, Usage
from reenact.domain.plain import JsonObject
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.rules import Policy, Rule
from reenact.domain.session.agent import Failure, ReceivedAnswer
from reenact.domain.session.announce import TODAY, announce, needed, of_turn
from reenact.domain.session.commands import Approve, CreateSession, Finish, Receive, Report, Run, SessionCommand
from reenact.domain.session.decide import decide
from reenact.domain.session.state import Session, evolve
from reenact.domain.stream.events import (
    AgentStateChanged,
    EventData,
    MessageDelta,
    MessageStart,
    MessageStop,
    StreamError,
    TextDelta,
    ToolCall,
)

SESSIONS: Final = 1_000
TURNS: Final = 105
"""Of each session: a million events, with the sessions' own."""

_START: Final = 1_767_225_600_000_000  # 2026-01-01
_DAYS: Final = 30
_IMAGES: Final = ("coder", "clerk", "scout")
_MODELS: Final = ("claude-sonnet", "claude-opus", "unpriced")
_TOOLS: Final = ("read", "search", "write", "pay", "drop")
RULES: Final = Rules(
    policies=Policies(tools={"pay": Policy("required"), "drop": Policy(rules=(Rule({}, "deny"),))}),
    prices={"claude-sonnet": Price(3.0, 15.0), "claude-opus": Price(15.0, 75.0)},
)


class _Writer:
    """Decides and appends; each turn advances the time."""

    def __init__(self, journal: StoredJournal, turns: int) -> None:
        self._journal = journal
        self._versions: dict[str, int] = {}
        self._step = _DAYS * 86_400_000_000 // turns
        self.at = _START
        self.states: dict[str, Session] = {}
        self.failures: list[Exception] = []

    def tell(self, session_id: str, make: Callable[[int], SessionCommand], seconds: float = 0.0) -> None:
        """Send the session a command, this many seconds later."""
        self.at += round(seconds * 1_000_000)
        state, command = self.states.get(session_id, Session()), make(self.at)
        events = decide(state, command)
        needs = needed(state, events)
        heard = Derived(TODAY, needs.stored(), segments_of(announce(session_id, needs, events), self.at))
        self.states[session_id] = reduce(evolve, events, state)
        self.append(f"session/{session_id}", events, command, heard)

    def finish(self, session_id: str, turn_id: str, answer: ReceivedAnswer, seconds: float) -> None:
        """Let the model answer, this many seconds later; the deltas come first."""
        self.at += round(seconds * 1_000_000)
        state = self.states[session_id]
        entries = tuple(Entry(data.event_type, self.at, data) for data in _said(answer))
        segment = Segment(flat(of_turn(state)), entries)
        self._journal.append(Append(f"session/{session_id}", None, self.at, (), (segment,)), self._done)
        results_id = f"{answer.message_id}_results"
        self.tell(
            session_id,
            lambda at: Finish(turn_id=turn_id, so_far=answer, at=at, rules=RULES, results_id=results_id),
        )

    def append(self, stream: str, events: Sequence[object], command: AnyCommand, heard: Derived | None = None) -> None:
        """Append the events of a command."""
        version = self._versions.get(stream, 0)
        self._versions[stream] = version + len(events)
        cause = cause_of(command, events)
        self._journal.append(Append(stream, version, self.at, tuple(events), heard or (), cause=cause), self._done)

    def settle(self, turn: int) -> None:
        """Wait for the pending appends, and advance to the time of the next turn."""
        stream = next(iter(self._versions))
        self._journal.recover(stream, after=self._versions[stream])
        if self.failures:
            raise self.failures[0]
        self.at = _START + (turn + 1) * self._step

    def _done(self, outcome: Outcome) -> None:
        if isinstance(outcome, Exception):
            self.failures.append(outcome)


def write_large_log(log: str, sessions: int = SESSIONS, turns: int = TURNS) -> int:
    """Write a log at a path or URL with these numbers of sessions and turns; return the number of events."""
    with closing(open_journal(log, codec(), synchronous="OFF")) as journal:
        writer = _Writer(journal, turns)
        for name in ("office", "lab"):
            create = CreateContainer(container_id=name, name=name.title())
            writer.append(f"container/{name}", container.decide(container.Container(), create), create)
        for name in _IMAGES:
            definition = image.define(Image(id=name, model="claude-sonnet"), name)
            register = RegisterImage(image_id=name, definition=definition)
            writer.append(f"image/{name}", image.decide(image.Images(), register), register)
        for number in range(sessions):
            _begin(writer, number)
        for turn in range(turns):
            writer.settle(turn - 1)
            for number in range(sessions):
                _turn(writer, number, turn)
        writer.settle(turns)
        return journal.head()


def _begin(writer: _Writer, number: int) -> None:
    session_id = f"ses_{number:06d}"
    in_container = ("office", "lab")[number % 2]
    of_image = _IMAGES[number % len(_IMAGES)]
    create = CreateSession(session_id=session_id, container_id=in_container, image_id=of_image, image_revision=1)
    writer.tell(session_id, lambda _: create)
    writer.tell(session_id, lambda at: Run(session_id=session_id, agent_id=f"agt_{number:06d}", at=at, rules=RULES))


def _turn(writer: _Writer, number: int, turn: int) -> None:
    session_id, turn_id = f"ses_{number:06d}", f"trn_{number:06d}_{turn:06d}"
    chosen = number * 7 + turn * 11
    model, tool = _MODELS[chosen % 17 % 3], _TOOLS[chosen % 19 % 5]
    asked = (TextBlock(f"Question {turn} of {session_id}: where is what we spoke of?"),)
    told = (TextBlock(f"Answer {turn}: it is where it was, and that is all there is to say of it. " * 2),)
    ids = itertools.count()

    def so_far(*content: TextBlock | ToolUseBlock, reason: str = "end_turn") -> ReceivedAnswer:
        return ReceivedAnswer(
            message_id=f"msg_{turn_id}_{next(ids)}",
            content=content,
            stop_reason=reason,
            usage=_usage(chosen),
            model=model,
            responding=reason == "end_turn",
            first_delta=(200 + chosen % 997) / 1000,
        )

    writer.tell(
        session_id,
        lambda at: Receive(
            agent_id=f"agt_{number:06d}",
            turn_id=turn_id,
            message_id=f"msg_{turn_id}",
            content=asked,
            at=at,
            rules=RULES,
        ),
    )
    if chosen % 50 == 0:
        failure = Failure("overloaded_error", "the model is busy", retryable=True)
        writer.finish(session_id, turn_id, ReceivedAnswer(failure=failure), 2.0)
        return
    call = ToolUseBlock(f"call_{turn_id}", tool, {"what": f"number {turn}", "path": f"/data/{number}/{turn}.txt"})
    writer.finish(session_id, turn_id, so_far(call, reason="tool_use"), 1.5)
    if tool == "pay":
        turn_id = f"{turn_id}_on"
        writer.tell(
            session_id,
            lambda at: Approve(
                call_id=call.id, by="ada", at=at, turn_id=turn_id, rules=RULES, results_id=f"res_{turn_id}"
            ),
            30.0 + chosen % 600,
        )
    if tool != "drop":
        report: JsonObject = {"found": turn, "text": "what was found " * 8}
        writer.tell(
            session_id,
            lambda at: Report(
                turn_id=turn_id,
                call_id=call.id,
                result=report,
                is_error=chosen % 23 == 0,
                at=at,
                rules=RULES,
                results_id=f"msg_{turn_id}_{next(ids)}",
            ),
            0.05 + chosen % 31 / 10,
        )
    writer.finish(session_id, turn_id, so_far(*told), 2.5)


def _said(answer: ReceivedAnswer) -> Iterator[EventData]:
    if answer.failure is not None:
        failure = answer.failure
        yield StreamError(type=failure.type, message=failure.message, retryable=failure.retryable)
        return
    yield MessageStart(message_id=answer.message_id, model=answer.model)
    for block in answer.content:
        if isinstance(block, ToolUseBlock):
            yield ToolCall(id=block.id, name=block.name, input=block.input)
        elif isinstance(block, TextBlock):
            yield AgentStateChanged(previous="thinking", current="responding")
            yield TextDelta(text=block.text)
    yield MessageDelta(usage=answer.usage)
    yield MessageStop(stop_reason=answer.stop_reason or "")


def _usage(chosen: int) -> Usage:
    return {
        "input_tokens": 300 + chosen % 1_700,
        "output_tokens": 20 + chosen % 480,
        "cache_read_input_tokens": chosen % 5_000,
    }


def _numbers(given: Sequence[str]) -> Iterator[int]:
    return map(int, given)


if __name__ == "__main__":
    print(f"{write_large_log(sys.argv[1], *_numbers(sys.argv[2:])):,} events")
