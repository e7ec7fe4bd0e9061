"""The state of a session, and how each event changes it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import chain
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from reenact.domain.children import (
    Budget,
    Child,
    ChildEnded,
    ChildOutcome,
    ChildrenInterrupted,
    ChildStarted,
    Parent,
)
from reenact.domain.conversation import Conversation, Read, summary_message
from reenact.domain.growing_set import GrowingSet
from reenact.domain.guards import GuardChecked
from reenact.domain.loop import rounds
from reenact.domain.loop.events import ToolApproved, ToolResult, ToolStarted
from reenact.domain.loop.events import Warning as LimitWarning
from reenact.domain.loop.ledger import Ledger, context_after, sum_of
from reenact.domain.loop.rounds import Call, Round, RoundEvent
from reenact.domain.messages import Block, Said, TextBlock, ToolUseBlock, server_calls_of
from reenact.domain.output import correction
from reenact.domain.session.agent import (
    Agent,
    AgentEvent,
    AgentStarted,
    AgentStopped,
    AnswerRecorded,
    ContextCompressed,
    HandoverRequested,
    ImageChanged,
    MessageAccepted,
    MessageScheduled,
    OutputAccepted,
    OutputRejected,
    Queued,
    ResultsRecorded,
    RulesRecorded,
    ScheduleCancelled,
    Scheduled,
    ScheduleFired,
    StepStarted,
    ToolsRequested,
    Turn,
    TurnCompleted,
    TurnContinued,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.stream.events import Origin, Outcome
from reenact.domain.structs import Fact, Frozen, FrozenByName

SNAPSHOT_VERSION = 4
"""Increase it when the content of a snapshot changes its form or meaning; older snapshots are then ignored."""

REFUSAL = "refusal"
"""The stop reason of an answer that the API refused to give or to finish."""
LIMITS = frozenset(
    {
        *("max_steps_exceeded", "cost_limit_exceeded", "repeated_tool_calls", "budget_exceeded"),
        *("max_tokens", "model_context_window_exceeded"),
    }
)
"""The stop reasons of turns that a limit has ended, including those of the Messages API."""


class BranchPoint(FrozenByName):
    """The point where a session branches off: after this version of the other session, at this log position."""

    session_id: str
    position: int
    version: int


class Forgotten(FrozenByName):
    """When a session was forgotten, by whom, and why."""

    at: datetime
    by: str
    why: str


class SessionInfo(FrozenByName):
    """A session as callers see it, with its current image: the one it was created with, until it is handed over.

    `origin` is the point at which it branches off from another session, None if it is not a branch. `parent` is the
    session that called it, None unless it is a child session. Of a session that was `forgotten`, nothing else is known.
    """

    id: str
    container_id: str
    image_id: str
    image_revision: int
    created_at: datetime
    origin: BranchPoint | None = None
    parent: Parent | None = None
    forgotten: Forgotten | None = None


class KnownSession(FrozenByName):
    """The data known of every session, even if it was deleted or forgotten.

    `deleted_at` and `forgotten_at` are microseconds since 1970-01-01 UTC.
    """

    container_id: str
    image_id: str
    image_revision: int
    created_at: datetime
    deleted_at: int | None
    forgotten_at: int | None


class SessionCreated(Fact):
    """The session was created; a child session has a `parent`, and a `budget` that the parent reserved for it."""

    session_id: str
    container_id: str
    image_id: str
    image_revision: int
    parent: Parent | None = None
    budget: Budget | None = None


class SessionBranched(Fact):
    """The session was created; its history begins with that of the session `origin`, up to its event of this version.

    `digest` is that of this event's row, in hexadecimal digits, so that the log proves the shared history. A branch of
    a child session is a child itself if the session that called it was branched: it then has a `parent` and a `budget`.
    """

    session_id: str
    container_id: str
    image_id: str
    image_revision: int
    origin: str
    version: int
    digest: str
    parent: Parent | None = None
    budget: Budget | None = None


class SessionDeleted(Fact):
    """The session was deleted: it is in no list any more, but its history stays."""

    session_id: str


class SessionForgotten(Fact):
    """The session was forgotten: its earlier events can be read by nobody, since its key was destroyed with this event.

    The event holds what is still known: the session's ids, when it was created (microseconds since 1970-01-01 UTC), and
    whether it had been `deleted` before; `by` whom it was forgotten, and `why`.
    """

    session_id: str
    container_id: str
    image_id: str
    image_revision: int
    created_at: int
    by: str
    why: str
    deleted: bool = False


ChildEvent: TypeAlias = ChildStarted | ChildEnded | ChildrenInterrupted
SessionEvent: TypeAlias = SessionCreated | SessionBranched | SessionDeleted | SessionForgotten | AgentEvent | ChildEvent


class Summary(Frozen):
    """The text that the model gets instead of the first `replaced` messages of the conversation.

    If the messages before `since` were hidden from the model by a hand-over, the text summarises only later ones;
    `before` is the summary of those before.
    """

    text: str
    replaced: int
    since: int = 0
    before: Summary | None = None


class Ended(Frozen):
    """The end of a child session's call: its outcome, the conversation's length at that time, and the failure."""

    outcome: ChildOutcome
    stop_reason: str
    said: int
    failure: str = ""


class Session(Frozen, gc=True):
    """The state of a session.

    `conversation` holds the messages, and `round` the calls of the last answer until their results are in it.
    `known_calls` are the ids of all calls that were ever requested, `asked` the digests of those that a person has
    approved, and `question` is the message of the last turn that began: its id and when it was accepted.
    `context_tokens` is the conversation's length for the model at its last answer, and `warned` whether the warning of
    the cost limit was given. `waited` is the last turn, if it ended so that a person could decide: the limits continue
    from it. `rules` are those recorded last. `handover` is the hand-over requested for the end of the turn. The model
    does not see the messages before the index `since`; with `summarise`, the whole conversation is replaced by a
    summary as soon as there is one. `schedules` are the scheduled messages.

    If it was `forgotten`, nothing is known of its earlier events.

    `children` are those that run or wait for a person, and `past_children` the others that it has started, which may
    still report. `interrupted` is set while those it waits for are being interrupted. A
    session with a `parent` is a child itself: `ended` is the end of its call, None until then, and `seconds` is the
    total duration of its turns.
    """

    id: str | None = None
    container_id: str = ""
    image_id: str = ""
    image_revision: int = 0
    deleted: bool = False
    agent: Agent | None = None
    queue: tuple[Queued, ...] = ()
    turn: Turn | None = None
    conversation: Conversation = Conversation()
    round: Round | None = None
    asked: GrowingSet = GrowingSet()
    known_calls: GrowingSet = GrowingSet()
    question: tuple[str, int] = ("", 0)
    ledger: Ledger = Ledger()
    context_tokens: int = 0
    summary: Summary | None = None
    warned: bool = False
    waited: Turn | None = None
    rules: RulesRecorded | None = None
    origin: Origin | None = None
    children: tuple[Child, ...] = ()
    past_children: tuple[Child, ...] = ()
    interrupted: ChildrenInterrupted | None = None
    parent: Parent | None = None
    budget: Budget | None = None
    ended: Ended | None = None
    seconds: float = 0.0
    handover: HandoverRequested | None = None
    since: int = 0
    summarise: bool = False
    schedules: tuple[Scheduled, ...] = ()
    forgotten: bool = False

    def call(self, id: str) -> Call | None:  # noqa: A002 - the word users know it by
        """Return the call with that id, None if no round under way has it."""
        return None if self.round is None else self.round.call(id)


def evolve(session: Session, event: SessionEvent) -> Session:  # noqa: C901, PLR0912 - one case for each event
    """Return the session after the event.

    The events before a `SessionBranched` are the history from which the session branches off.
    """
    match event:
        case MessageAccepted():
            queued = Queued(event.turn_id, event.message_id, event.content, event.at, event.output)
            return replace(session, queue=(*session.queue, queued))
        case TurnStarted():
            return _start_turn(session, event)
        case AnswerRecorded():
            return _add_answer(session, event)
        case TurnCompleted():
            return _complete_turn(session, event)
        case ToolsRequested():
            return _begin_round(session, event)
        case ToolStarted() | ToolResult():
            return _evolve_round(session, event)
        case ResultsRecorded():
            return _end_round(session, event)
        case StepStarted():
            return _change_turn(session, activity="thinking", steps=event.step)
        case TurnInterrupted() | TurnFailed() | OutputAccepted():
            return session
        case AgentStarted():
            return replace(session, agent=Agent(event.agent_id))
        case AgentStopped():
            return replace(session, agent=None)
        case SessionCreated():
            of = event.session_id, event.container_id, event.image_id, event.image_revision
            return Session(*of, parent=event.parent, budget=event.budget)
        case SessionBranched():
            return _branch_off(session, event)
        case SessionForgotten():
            of = event.session_id, event.container_id, event.image_id, event.image_revision
            return Session(*of, deleted=event.deleted, forgotten=True)
        case SessionDeleted():
            return replace(session, deleted=True, queue=(), round=None, schedules=())
        case OutputRejected():
            return _reject_output(session, event)
        case TurnContinued():
            return _continue_turn(session, event)
        case ContextCompressed():
            return _compress(session, event)
        case RulesRecorded():
            return replace(session, rules=event)
        case HandoverRequested():
            return replace(session, handover=event)
        case ImageChanged():
            return _change_image(session, event)
        case MessageScheduled() | ScheduleCancelled() | ScheduleFired():
            return replace(session, schedules=_evolve_schedules(session.schedules, event))
        case LimitWarning():
            return replace(session, warned=True)
        case GuardChecked():
            has_passed = event.point == "answer" and event.verdict == "passed"
            return _change_turn(session, passed=event.message_id) if has_passed else session
        case ChildStarted():
            return _start_child(session, event)
        case ChildEnded():
            return _end_child(session, event)
        case ChildrenInterrupted():
            return replace(session, interrupted=event)
        case _:
            return _evolve_round(session, event)


def kept(state: Session) -> msgspec.Raw:
    """Return the snapshot of the session: everything but the messages, which are read from the log."""
    return msgspec.Raw(_pack(state))


def session_from_snapshot(stored: msgspec.Raw | bytes) -> Session:
    """Return the session of a snapshot; its conversation is unread, and has no reader yet."""
    return _unpack(stored)


def reading(session: Session, read: Read) -> Session:
    """Return a session from a snapshot with a reader for its conversation, which is called when messages are needed."""
    return replace(session, conversation=Conversation.unread(len(session.conversation), read))


def _unread(_type: type, length: object) -> Conversation:
    if not isinstance(length, int) or length < 0:
        raise TypeError("a snapshot keeps the number of the messages")
    return Conversation.unread(length)


_pack = msgspec.msgpack.Encoder(enc_hook=len).encode
_unpack = msgspec.msgpack.Decoder(Session, dec_hook=_unread).decode


def calls_of(content: Sequence[Block]) -> tuple[Call, ...]:
    """Return the calls that an answer requests, in order."""
    return tuple(Call(block.id, block.name, block.input) for block in content if isinstance(block, ToolUseBlock))


def for_model(session: Session) -> Sequence[Said]:
    """Return the conversation as the model gets it: the summary, if there is one, and the messages after it."""
    said = session.conversation
    if session.summary is None and not session.since:
        return said
    return _with_summaries(said, session.summary, session.since, len(said))


def _with_summaries(said: Conversation, summary: Summary | None, since: int, until: int) -> Sequence[Said]:
    """Return these messages, with each summarised part replaced by its summary."""
    if summary is None or summary.replaced <= since:
        return said[since:until]
    before = _with_summaries(said, summary.before, since, summary.since) if summary.since > since else ()
    return (*before, summary_message(summary.text), *said[summary.replaced : until])


def _branch_off(session: Session, event: SessionBranched) -> Session:
    return replace(
        session,
        id=event.session_id,
        container_id=event.container_id,
        image_id=event.image_id,
        image_revision=event.image_revision,
        deleted=False,
        agent=None,
        queue=(),
        origin=Origin(session_id=event.origin, version=event.version),
        children=(),
        past_children=(),
        interrupted=None,
        parent=event.parent,
        budget=event.budget,
        ended=None if event.parent is None else session.ended,
        seconds=0.0 if event.parent is None else session.seconds,
        handover=None,
        schedules=(),
    )


def _start_turn(session: Session, event: TurnStarted) -> Session:
    message, *rest = session.queue
    return replace(
        session,
        queue=tuple(rest),
        turn=Turn(message.turn_id, message.message_id, message.at, event.at, output=message.output),
        question=(message.message_id, message.at),
        agent=None if session.agent is None else Agent(session.agent.id),
        conversation=session.conversation.plus(Said("user", message.content)),
    )


def _continue_turn(session: Session, event: TurnContinued) -> Session:
    message_id, asked_at = session.question
    turn = Turn(event.turn_id, message_id, asked_at, event.at, "waiting_for_human_input", steps=0)
    return replace(session, turn=turn if session.waited is None else turn.after(session.waited))


def _add_answer(session: Session, event: AnswerRecorded) -> Session:
    calls = [block.id for block in event.content if isinstance(block, ToolUseBlock)]
    before, server_calls = session.context_tokens, server_calls_of(event.content)
    return replace(
        session,
        turn=_turn_with_use(session.turn, event),
        known_calls=session.known_calls.plus(calls),
        conversation=session.conversation.plus(Said("assistant", event.content, refused=event.stop_reason == REFUSAL)),
        ledger=session.ledger.with_model(event.model or "", event.usage, event.cost),
        context_tokens=context_after(event.usage, server_calls=server_calls, before=before),
    )


def _turn_with_use(turn: Turn | None, event: AnswerRecorded | ContextCompressed) -> Turn | None:
    if turn is None:
        return None
    usage, cost = sum_of(turn.usage, event.usage), plus_cost(turn.cost, event.cost)
    return replace(turn, usage=usage, cost=cost)


def _reject_output(session: Session, event: OutputRejected) -> Session:
    if event.again:
        told = Said("user", (TextBlock(correction(event.errors)),))
        session = replace(session, conversation=session.conversation.plus(told))
    return _change_turn(session, rejected=event.attempt, activity=event.from_state)


def _begin_round(session: Session, event: ToolsRequested) -> Session:
    answer = session.conversation[-1]
    return _change_turn(replace(session, round=Round(calls_of(answer.content))), activity=event.from_state)


def _evolve_round(session: Session, event: RoundEvent) -> Session:
    before = session.round
    if before is None:
        return session
    session = replace(session, round=rounds.evolve(before, event))
    match event:
        case ToolStarted():
            return _change_turn(session, activity="tool_executing")
        case ToolApproved():
            call = session.call(event.id)
            digest = "" if call is None else call.digest_under("")
            return replace(session, asked=session.asked.plus((digest,)))
        case ToolResult() if event.ran:
            session = replace(session, ledger=session.ledger.with_tool(event.name, event.cost))
            cost = None if session.turn is None else plus_cost(session.turn.cost, event.cost)
            return _change_turn(session, cost=cost)
        case _:
            return session


def _end_round(session: Session, event: ResultsRecorded) -> Session:
    turn, round_ = session.turn, session.round
    if turn is not None and round_ is not None:
        calls, outcome = round_.digest(), round_.outcome()
        repeats = turn.repeats + 1 if outcome == turn.outcome else 1
        turn = replace(turn, calls=calls, outcome=outcome, repeats=repeats)
    said = session.conversation.plus(Said("user", event.content))
    after = replace(session, turn=turn, round=None, conversation=said, interrupted=None)
    if after.ended is not None and turn is None:  # a child whose calls were given up while it waited
        return _with_call_end(after, "interrupted", "interrupted")
    return after


def _compress(session: Session, event: ContextCompressed) -> Session:
    before = session.summary if session.since else None
    while before is not None and before.replaced > session.since:
        before = before.before
    return replace(
        session,
        turn=_turn_with_use(session.turn, event),
        summary=Summary(event.summary, event.replaced, session.since, before),
        ledger=session.ledger.with_model(event.model or "", event.usage, event.cost),
        context_tokens=0,
        summarise=False,
    )


def _evolve_schedules(
    before: tuple[Scheduled, ...], event: MessageScheduled | ScheduleCancelled | ScheduleFired
) -> tuple[Scheduled, ...]:
    # There may be thousands, and those that are due are usually the first: the search ends at the one it looks for.
    place = next((place for place, one in enumerate(before) if one.id == event.schedule_id), len(before))
    earlier, found, later = before[:place], before[place : place + 1], before[place + 1 :]
    if isinstance(event, MessageScheduled):
        return (*earlier, *later, Scheduled(event.schedule_id, event.content, event.due, event.every, event.until))
    if isinstance(event, ScheduleFired) and event.then is not None:
        found = tuple(replace(one, due=event.then) for one in found)
        return (*earlier, *found, *later)
    return earlier + later


def _change_image(session: Session, event: ImageChanged) -> Session:
    is_cut = event.history == "none"
    return replace(
        session,
        image_id=event.image_id,
        image_revision=event.image_revision,
        handover=None,
        since=len(session.conversation) if is_cut else 0,
        summarise=event.history == "summary",
        context_tokens=0 if is_cut else session.context_tokens,
    )


def _complete_turn(session: Session, event: TurnCompleted) -> Session:
    if session.turn is None or session.turn.id != event.turn_id:
        return session
    agent, unsaid, ledger, said = session.agent, event.unsaid, session.ledger, session.conversation
    if unsaid is not None:
        ledger = ledger.with_model(unsaid.model or "", unsaid.usage, unsaid.cost)
    if event.stop_reason == REFUSAL and not said[-1].refused:  # a refusal without content
        said = said.plus(Said("assistant", (), refused=True))
    after = replace(
        session,
        turn=None,
        waited=session.turn if event.outcome == "waiting" else None,
        agent=None if agent is None else Agent(agent.id, event.outcome == "failed"),
        conversation=said,
        ledger=ledger,
        interrupted=None,
    )
    if after.parent is None:
        return after
    timed = replace(after, seconds=after.seconds + event.duration)
    failure = "" if event.failure is None else event.failure.message
    return _with_call_end(timed, outcome_of(event.outcome, event.stop_reason), event.stop_reason, failure)


def outcome_of(outcome: Outcome, stop_reason: str) -> ChildOutcome:
    """Return the outcome of a child whose turn has ended like this; a turn that was cut short is never `completed`."""
    if stop_reason in LIMITS:
        return "limit"
    return "failed" if stop_reason == REFUSAL else outcome


def _with_call_end(session: Session, outcome: ChildOutcome, stop_reason: str, failure: str = "") -> Session:
    """Return the child with the end of its call, which is set once: turns asked for by others do not change it."""
    if session.ended is not None and session.ended.outcome != "waiting":
        return session
    return replace(session, ended=Ended(outcome, stop_reason, len(session.conversation), failure))


def _start_child(session: Session, event: ChildStarted) -> Session:
    round_, turn, call = session.round, session.turn, session.call(event.call_id)
    prompt = "" if call is None else call.arguments.get("prompt")
    of_image = event.image_id, event.image_revision, event.depth, event.budget, event.detached
    child = Child(event.call_id, event.child_id, *of_image, prompt if isinstance(prompt, str) else "")
    origin = event.origin
    if origin is not None:
        child = replace(child, steps=origin.steps, usage=origin.usage, cost=origin.cost)
    return replace(
        session,
        children=(*session.children, child),
        round=None if round_ is None else rounds.with_child(round_, event.call_id),
        turn=None if turn is None else replace(turn, children=turn.children + 1),
    )


def _end_child(session: Session, event: ChildEnded) -> Session:
    round_ = session.round
    if round_ is not None and event.outcome == "waiting":
        round_ = rounds.with_child(round_, event.call_id, waits=True)
    session = replace(session, round=round_, ledger=session.ledger.with_child(event.steps, event.usage, event.cost))
    child = child_of(session, event.child_id)
    return session if child is None else _replace_child(session, child, _with_child_end(child, event))


def child_of(session: Session, child_id: str) -> Child | None:
    """Return the child with that id, or None."""
    return next((child for child in chain(session.children, session.past_children) if child.id == child_id), None)


def _replace_child(session: Session, child: Child, changed: Child) -> Session:
    if child.is_open and changed.is_open:
        children = tuple(changed if one is child else one for one in session.children)
        return replace(session, children=children)
    children = tuple(one for one in session.children if one is not child)
    past = session.past_children if child.is_open else tuple(one for one in session.past_children if one is not child)
    if changed.is_open:
        return replace(session, children=(*children, changed), past_children=past)
    return replace(session, children=children, past_children=(*past, changed))


def _with_child_end(child: Child, event: ChildEnded) -> Child:
    return replace(
        child,
        prompt="",
        outcome=event.outcome if child.is_open or child.outcome == "unknown" else child.outcome,
        steps=child.steps + event.steps,
        usage=sum_of(child.usage, event.usage),
        cost=plus_cost(child.cost, event.cost),
    )


def _change_turn(session: Session, **changes: object) -> Session:
    if session.turn is None:
        return session
    return replace(session, turn=replace(session.turn, **changes))


def plus_cost(cost: float | None, more: float | None) -> float | None:
    """Return the sum of the known costs, or None if neither is known."""
    return cost if more is None else (cost or 0.0) + more
