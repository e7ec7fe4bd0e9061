"""A conversation with one session: sends questions, follows their events, and applies decisions about waiting calls."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import NamedTuple, Protocol, TypeAlias, assert_never

from reenact._runtime import Runtime
from reenact.actors.api.facades import Agents
from reenact.actors.ids import TimeOrderedIds
from reenact.actors.kernel.timetable import microseconds
from reenact.cli.interrupts import interrupting
from reenact.cli.output.answers import Answer, AnswerCollector
from reenact.cli.output.failures import INTERRUPTED, AnswerLostError, Problem, WaitsForPersonError, timed_out
from reenact.domain.content import Content
from reenact.domain.errors import AlreadyExistsError, SessionNotFoundError
from reenact.domain.image import Image, define
from reenact.domain.messages import Block, TextBlock, check_message
from reenact.domain.plain import Json, JsonObject
from reenact.domain.session.people import PendingCall
from reenact.domain.session.told import ToolCallInfo
from reenact.domain.shards import is_child
from reenact.domain.stream.events import Envelope


@dataclass(frozen=True, kw_only=True)
class Approved:
    """Lets the call run, with other arguments if there are any."""

    call: PendingCall
    arguments: JsonObject | None = None
    by: str | None = None


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """Rejects the call. The model is told why and continues, unless this `ends_turn`."""

    call: PendingCall
    reason: str = ""
    ends_turn: bool = False
    by: str | None = None


@dataclass(frozen=True, kw_only=True)
class Answered:
    """Answers the question that the call asks."""

    call: PendingCall
    value: Json
    by: str | None = None


Decision: TypeAlias = Approved | Rejected | Answered
Decide: TypeAlias = Callable[[Sequence[PendingCall]], Sequence[Decision] | None]
"""Returns the decisions about the calls, or None to leave them waiting."""


def apply_decision(decision: Decision, agents: Agents) -> str | None:
    """Apply the decision; return the turn that continues, if any. The digest ties an approval to the call as shown."""
    match decision:
        case Approved(call=call):
            return agents.approve(call, arguments=decision.arguments, digest=call.digest, by=decision.by)
        case Rejected(call=call):
            return agents.reject(call, decision.reason, resume=not decision.ends_turn, by=decision.by)
        case Answered(call=call):
            return agents.respond(call, decision.value, by=decision.by)
        case _:
            assert_never(decision)


CONTAINER = "default"
IMAGE = "chat"
LOOK_AROUND = 0.1
"""Seconds without an event after which to check whether the agent still exists and the log can be written.

It is shorter than the delay before the runtime retries a failed write, so that the failure is noticed.
"""


def new_session_id() -> str:
    """Return an id for a new session."""
    return TimeOrderedIds(microseconds)("ses")


class OnEvent(Protocol):
    """Receives events of the session and its descendants; `is_own` tells that an event is of the turn that answers."""

    def __call__(self, event: Envelope, *, is_own: bool) -> None: ...


@dataclass
class Conversation:
    """A session of the runtime: an existing one, or a new one that is created with the first question.

    Raises:
        SessionNotFoundError: the session to continue does not exist.
    """

    runtime: Runtime
    _image: Image
    session_id: str
    is_new: bool
    _agent_id: str | None = None
    _descendants: dict[str, bool] = field(default_factory=dict[str, bool])

    def __post_init__(self) -> None:
        self._events: SimpleQueue[Envelope | Problem] = SimpleQueue()
        """The events of all sessions, and why to interrupt the answer."""
        self.new_definition = define(self._image, self._image.id or IMAGE) if self.is_new else None
        """The definition of the session if this conversation creates it; None if the session existed before."""
        if not self.is_new and self.runtime.sessions.get(self.session_id) is None:
            raise SessionNotFoundError(self.session_id)
        self._unsubscribe = self.runtime.events.on_all(self._events.put)

    @property
    def shown_id(self) -> str:
        """The session's id; empty until the session is created."""
        return "" if self.is_new else self.session_id

    def run(self) -> str:
        """Return the id of the session's agent; create the session and start the agent if necessary."""
        if self.is_new:
            if self.runtime.containers.get(CONTAINER) is None:
                with suppress(AlreadyExistsError):  # another process created it first
                    self.runtime.containers.create(container_id=CONTAINER)
            image = self.runtime.images.register(self._image)
            self.runtime.sessions.create(CONTAINER, image.id, session_id=self.session_id, image_revision=image.revision)
            self.is_new = False
        self._agent_id = self.runtime.sessions.run(self.session_id)  # a child's agent ends with each of its turns
        return self._agent_id

    def end_agent(self) -> None:
        """End the agent if it runs; the next question starts another one."""
        if self._agent_id is not None:
            self.runtime.agents.destroy(self._agent_id)
            self._agent_id = None

    def close(self) -> None:
        """Unsubscribe from events, and end the agent."""
        try:
            self.end_agent()
        finally:
            self._unsubscribe()

    def pending(self) -> list[PendingCall]:
        """Return the calls that wait for a person, in their order."""
        return [] if self.is_new else self.runtime.agents.pending(session_id=self.session_id)

    def has_children(self) -> bool:
        """Return whether the session has child sessions."""
        return not self.is_new and bool(self.runtime.sessions.list(parent=self.session_id, limit=1))

    def open_turns(self) -> list[str]:
        """Return the turns that were accepted and have not ended, such as that of an edited message in a branch."""
        turns = [] if self.is_new else self.runtime.sessions.turns(self.session_id)
        return [turn.id for turn in turns if turn.outcome is None]

    def check_accepts_question(self) -> None:
        """Raise `WaitsForPersonError` if the session accepts no question until a person has decided."""
        if pending := self.pending():
            raise WaitsForPersonError(self.session_id, len(pending))

    def ask(self, question: Content, on_event: OnEvent, *, timeout: float | None = None) -> Answer:
        """Send the question, pass all events of the session to `on_event`, and return when the question's turn is over.

        Ctrl+C interrupts the turn, and a second one raises `KeyboardInterrupt`. The turn is also interrupted after
        `timeout` seconds.

        Raises:
            WaitsForPersonError: the session accepts no question until a person has decided about its calls.
        """
        self.check_accepts_question()
        return self.follow_turns(lambda: [self.runtime.agents.receive(self.run(), question)], on_event, timeout)

    def decide(self, decisions: Sequence[Decision], on_event: OnEvent, timeout: float | None) -> Answer:
        """Apply a person's decisions about calls, and follow the turns that continue, as `ask` does.

        The calls may be those of child sessions: their turns continue first, and the session's own after they have
        ended.
        """
        calls = [decision.call for decision in decisions]
        of_child = any(call.session_id != self.session_id for call in calls)

        def begin() -> list[str]:
            turns = [
                (decision.call.session_id, apply_decision(decision, self.runtime.agents)) for decision in decisions
            ]
            return [turn_id for session_id, turn_id in turns if turn_id and session_id == self.session_id]

        return self.follow_turns(begin, on_event, timeout, calls, of_child=of_child)

    def follow_turns(
        self,
        begin: Callable[[], Sequence[str]],
        on_event: OnEvent,
        timeout: float | None,
        pending: Sequence[PendingCall] = (),
        *,
        of_child: bool = False,
    ) -> Answer:
        """Follow the turns that `begin` returns, as `ask` does; `pending` are calls that were requested earlier.

        With `of_child`, a child session continues; then the turn is followed that the session begins when the child has
        ended.
        """
        with interrupting(lambda: self._events.put(INTERRUPTED)):
            agent_id = self.run()
            open_calls: Sequence[PendingCall | ToolCallInfo] = pending
            if of_child:  # the session's own call of the child does not wait for a person
                calls = self.runtime.sessions.tool_calls(self.session_id)
                open_calls = [call for call in calls if call.stage != "answered"]
            turn_ids = begin()
            collector = AnswerCollector(self.session_id, agent_id, turn_ids, open_calls)
            if turn_ids or of_child:
                return self._collect(collector, on_event, timeout)
            return collector.rejected_answer()

    def _collect(self, collector: AnswerCollector, on_event: OnEvent, timeout: float | None) -> Answer:
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        why_ended: Problem | None = None
        while True:
            event, answer = self._next(collector.agent_id, deadline) or timed_out(timeout or 0.0), None
            if isinstance(event, Problem):
                why_ended, deadline = why_ended or event, math.inf
                self.runtime.agents.interrupt(collector.agent_id)
            elif event.context.session_id != self.session_id:
                if self._is_descendant(event.context.session_id or ""):
                    on_event(event, is_own=False)
                    answer = collector.add_from_child(event.data)
            else:
                collector.adopt_turn(event.data)
                on_event(event, is_own=collector.is_own(event))
                answer = collector.add(event, why_ended or INTERRUPTED)
            if answer is not None:
                return answer

    def _is_descendant(self, session_id: str) -> bool:
        """Return whether the id is that of a descendant of the session."""
        if session_id not in self._descendants:
            session = self.runtime.sessions.get(session_id) if is_child(session_id) else None
            parent = None if session is None else session.parent
            self._descendants[session_id] = parent is not None and self.session_id in (parent.session_id, parent.root)
        return self._descendants[session_id]

    def _next(self, agent_id: str, deadline: float) -> Envelope | Problem | None:
        """Return the next event, or why to interrupt the answer; None if the deadline passes first.

        Raises:
            AnswerLostError: no further event will come.
            StorageError: the log cannot be written at present.
        """
        while True:
            try:
                return self._events.get(timeout=max(0.0, min(LOOK_AROUND, deadline - time.monotonic())))
            except Empty:
                if time.monotonic() >= deadline:
                    return None
            failure = self.runtime.failure
            if failure is not None:  # the answer cannot be recorded, so no event of it will come
                raise failure
            if self.runtime.agents.get(agent_id) is None:
                return self._last_event()

    def _last_event(self) -> Envelope | Problem:
        """Return the next event of an agent that has ended, which may have been recorded and not yet delivered.

        Raises:
            AnswerLostError: no further event will come.
        """
        try:
            return self._events.get(timeout=LOOK_AROUND)
        except Empty:
            raise AnswerLostError(
                "the agent has ended without an answer; check whether the log can still be written"
            ) from None


class ExtraBlocks(NamedTuple):
    """Blocks that are sent with a question, before and after its text."""

    before: tuple[Block, ...] = ()
    after: tuple[Block, ...] = ()


_NOTHING = ExtraBlocks()


@dataclass(frozen=True)
class TurnRunner:
    """Sends questions in a conversation, and lets `decide` decide about the calls that wait for a person.

    `timeout`, in seconds, limits the agent; the time that a person takes to decide does not count. The blocks `extra`
    a question are sent with it.
    """

    conversation: Conversation
    on_event: OnEvent
    decide: Decide
    timeout: float | None
    extra: ExtraBlocks = _NOTHING

    def content_of(self, question: str) -> Content:
        """Return the question with the blocks that are sent with it."""
        if not any(self.extra):
            return question
        return [*self.extra.before, TextBlock(check_message(question)), *self.extra.after]

    def ask(self, question: str) -> Answer:
        """Send the question, and return when the agent has answered or waits for a person."""
        return self._go_on(self.conversation.ask(self.content_of(question), self.on_event, timeout=self.timeout))

    def resume_turns(self, turn_ids: Sequence[str]) -> Answer:
        """Follow turns that were waiting, and return when the agent has answered or waits for a person."""
        return self._go_on(self.conversation.follow_turns(lambda: turn_ids, self.on_event, self.timeout))

    def apply_decisions(self, decisions: Sequence[Decision]) -> Answer:
        """Apply the decisions, and return when the agent has answered or waits for a person."""
        return self._go_on(self.conversation.decide(decisions, self.on_event, self.timeout))

    def _go_on(self, answer: Answer) -> Answer:
        while answer.problem is None and (answer.waits or answer.turn_id is None):
            pending = self.conversation.pending()
            left = None if self.timeout is None else max(0.0, self.timeout - answer.duration)
            if pending:
                decisions = self.decide(pending)
                if decisions is None:
                    break
                later = self.conversation.decide(decisions, self.on_event, left)
            elif self.conversation.has_children():  # the children are running again
                later = self.conversation.follow_turns(list, self.on_event, left, of_child=True)
            else:
                break
            answer = answer.then(later)
            if later.turn_id is None and not later.waits:
                break
        return answer
