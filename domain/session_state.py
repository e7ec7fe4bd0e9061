"""The state of a session, and how each event changes it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

import msgspec

from reenact.domain.agent import (
    Agent,
    AgentEvent,
    AgentStarted,
    AgentStopped,
    AnswerRecorded,
    ContextCompressed,
    MessageAccepted,
    Queued,
    ResultsRecorded,
    RulesRecorded,
    StepStarted,
    ToolsRequested,
    Turn,
    TurnCompleted,
    TurnContinued,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.conversation import Conversation, Read, introduced
from reenact.domain.events import Origin
from reenact.domain.loop import rounds
from reenact.domain.loop.events import ToolApproved, ToolResult, ToolStarted
from reenact.domain.loop.events import Warning as LimitWarning
from reenact.domain.loop.ledger import Ledger, sum_of, tokens_in_context
from reenact.domain.loop.rounds import Call, Round, RoundEvent
from reenact.domain.messages import Block, Said, ToolUseBlock
from reenact.domain.policy.rules import call_digest
from reenact.domain.structs import Fact, Frozen, FrozenByName

SNAPSHOT_VERSION = 1
"""To be raised when what a snapshot keeps has another form, or means something else: earlier ones are skipped then."""

REFUSAL = "refusal"
"""The stop reason of an answer that the API refused to give, or to finish."""


class BranchPoint(FrozenByName):
    """Where a session branches off: behind this version of the other session's events, at this position of the log."""

    session_id: str
    position: int
    version: int


class SessionInfo(FrozenByName):
    """A session as callers see it; it keeps the image's revision that it was created with.

    `origin` is where it branches off from another session, None if it has begun by itself.
    """

    id: str
    container_id: str
    image_id: str
    image_revision: int
    created_at: datetime
    origin: BranchPoint | None = None


class SessionCreated(Fact):
    """The session exists."""

    session_id: str
    container_id: str
    image_id: str
    image_revision: int


class SessionBranched(Fact):
    """The session exists; its history begins with that of the session `origin`, up to its event of this version.

    `digest` is that of the record of this event, in hexadecimal digits: the log proves what was shared.
    """

    session_id: str
    container_id: str
    image_id: str
    image_revision: int
    origin: str
    version: int
    digest: str


class SessionDeleted(Fact):
    """The session is in no list any more; its history stays."""

    session_id: str


SessionEvent: TypeAlias = SessionCreated | SessionBranched | SessionDeleted | AgentEvent
LoopFact: TypeAlias = (
    ToolsRequested
    | ResultsRecorded
    | StepStarted
    | TurnContinued
    | ContextCompressed
    | RulesRecorded
    | LimitWarning
    | RoundEvent
)


class Summary(Frozen):
    """What the model is given in place of the first `replaced` messages of the conversation."""

    text: str
    replaced: int


class Session(Frozen, gc=True):
    """What is known of a session.

    `conversation` holds what was said, and `round` the calls of the last answer until their results are in it.
    `known_calls` are the ids of all calls that were ever asked for, `asked` the digests of those that a person has
    approved, and `question` is the message of the last turn that was taken up: its id and when it was accepted.
    `context_tokens` is how long the conversation was for the model when it answered last, and `warned` whether it has
    been said that the cost limit is exceeded. `waited` is the last turn, if it ended so that a person could decide:
    the limits count on from there. `rules` are those recorded last.
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
    asked: frozenset[str] = frozenset()
    known_calls: frozenset[str] = frozenset()
    question: tuple[str, int] = ("", 0)
    ledger: Ledger = Ledger()
    context_tokens: int = 0
    summary: Summary | None = None
    warned: bool = False
    waited: Turn | None = None
    rules: RulesRecorded | None = None
    origin: Origin | None = None


def evolve(session: Session, event: SessionEvent) -> Session:
    """Return the session as it is once the event has happened.

    What precedes a `SessionBranched` is the history that it branches off from.
    """
    match event:
        case MessageAccepted():
            queued = Queued(event.turn_id, event.message_id, event.content, event.at)
            return msgspec.structs.replace(session, queue=(*session.queue, queued))
        case TurnStarted():
            return _take_up(session, event)
        case AnswerRecorded():
            return _answer(session, event)
        case TurnCompleted():
            return _put_down(session, event)
        case TurnInterrupted() | TurnFailed():
            return session
        case AgentStarted():
            return msgspec.structs.replace(session, agent=Agent(event.agent_id))
        case AgentStopped():
            return msgspec.structs.replace(session, agent=None)
        case SessionCreated():
            return Session(event.session_id, event.container_id, event.image_id, event.image_revision)
        case SessionBranched():
            return _branch_off(session, event)
        case SessionDeleted():
            return msgspec.structs.replace(session, deleted=True, queue=(), round=None)
        case _:
            return _evolve_loop(session, event)


def _evolve_loop(session: Session, event: LoopFact) -> Session:
    match event:
        case ToolsRequested():
            return _begin_round(session, event)
        case ResultsRecorded():
            return _end_round(session, event)
        case StepStarted():
            return _change_turn(session, activity="thinking", steps=event.step)
        case TurnContinued():
            message_id, asked_at = session.question
            turn = Turn(event.turn_id, message_id, asked_at, event.at, "waiting_for_human_input", steps=0)
            return msgspec.structs.replace(session, turn=turn if session.waited is None else turn.after(session.waited))
        case ContextCompressed():
            return _compress(session, event)
        case RulesRecorded():
            return msgspec.structs.replace(session, rules=event)
        case LimitWarning():
            return msgspec.structs.replace(session, warned=True)
        case _:
            return _in_round(session, event)


def kept(state: Session) -> msgspec.Raw:
    """Return what a snapshot keeps of the session: all but the messages, which stand in the log."""
    return msgspec.Raw(_pack(state))


def taken_from(stored: msgspec.Raw | bytes) -> Session:
    """Return the session of which this was kept; its conversation is unread, and nobody has said where it is read."""
    return _unpack(stored)


def reading(session: Session, read: Read) -> Session:
    """Return the session, taken from a snapshot, with a conversation that is read there when somebody asks for it."""
    return msgspec.structs.replace(session, conversation=Conversation.unread(len(session.conversation), read))


def _unread(_type: type, length: object) -> Conversation:
    if not isinstance(length, int) or length < 0:
        raise TypeError("a snapshot keeps the number of the messages")
    return Conversation.unread(length)


_pack = msgspec.msgpack.Encoder(enc_hook=len).encode
_unpack = msgspec.msgpack.Decoder(Session, dec_hook=_unread).decode


def calls_of(content: Sequence[Block]) -> tuple[Call, ...]:
    """Return the calls that an answer asks for, in order."""
    return tuple(Call(block.id, block.name, block.input) for block in content if isinstance(block, ToolUseBlock))


def for_model(session: Session) -> Sequence[Said]:
    """Return what the model is given of the conversation: the summary, if there is one, and what came after it."""
    if session.summary is None:
        return session.conversation
    return (introduced(session.summary.text), *session.conversation[session.summary.replaced :])


def _branch_off(session: Session, event: SessionBranched) -> Session:
    return msgspec.structs.replace(
        session,
        id=event.session_id,
        container_id=event.container_id,
        image_id=event.image_id,
        image_revision=event.image_revision,
        deleted=False,
        agent=None,
        queue=(),
        origin=Origin(session_id=event.origin, version=event.version),
    )


def _take_up(session: Session, event: TurnStarted) -> Session:
    message, *rest = session.queue
    return msgspec.structs.replace(
        session,
        queue=tuple(rest),
        turn=Turn(message.turn_id, message.message_id, message.at, event.at),
        question=(message.message_id, message.at),
        agent=None if session.agent is None else Agent(session.agent.id),
        conversation=session.conversation.plus(Said("user", message.content)),
    )


def _answer(session: Session, event: AnswerRecorded) -> Session:
    turn = session.turn
    if turn is not None:
        turn = msgspec.structs.replace(
            turn, usage=sum_of(turn.usage, event.usage), cost=plus_cost(turn.cost, event.cost)
        )
    calls = [block.id for block in event.content if isinstance(block, ToolUseBlock)]
    return msgspec.structs.replace(
        session,
        turn=turn,
        known_calls=session.known_calls.union(calls) if calls else session.known_calls,
        conversation=session.conversation.plus(Said("assistant", event.content, refused=event.stop_reason == REFUSAL)),
        ledger=session.ledger.with_model(event.model or "", event.usage, event.cost),
        context_tokens=tokens_in_context(event.usage) or session.context_tokens,
    )


def _begin_round(session: Session, event: ToolsRequested) -> Session:
    answer = session.conversation[-1]
    return _change_turn(
        msgspec.structs.replace(session, round=Round(calls_of(answer.content))), activity=event.from_state
    )


def _in_round(session: Session, event: RoundEvent) -> Session:
    before = session.round
    if before is None:
        return session
    session = msgspec.structs.replace(session, round=rounds.evolve(before, event))
    match event:
        case ToolApproved():
            call = None if session.round is None else session.round.call(event.id)
            digest = "" if call is None else call_digest(call.name, call.arguments)
            return msgspec.structs.replace(session, asked=session.asked | {digest})
        case ToolStarted():
            return _change_turn(session, activity="tool_executing")
        case ToolResult() if event.ran:
            session = msgspec.structs.replace(session, ledger=session.ledger.with_tool(event.name, event.cost))
            cost = None if session.turn is None else plus_cost(session.turn.cost, event.cost)
            return _change_turn(session, cost=cost)
        case _:
            return session


def _end_round(session: Session, event: ResultsRecorded) -> Session:
    turn, round_ = session.turn, session.round
    if turn is not None and round_ is not None:
        calls, outcome = round_.digest(), round_.outcome()
        repeats = turn.repeats + 1 if outcome == turn.outcome else 1
        turn = msgspec.structs.replace(turn, calls=calls, outcome=outcome, repeats=repeats)
    said = session.conversation.plus(Said("user", event.content))
    return msgspec.structs.replace(session, turn=turn, round=None, conversation=said)


def _compress(session: Session, event: ContextCompressed) -> Session:
    turn = session.turn
    if turn is not None:
        turn = msgspec.structs.replace(
            turn, usage=sum_of(turn.usage, event.usage), cost=plus_cost(turn.cost, event.cost)
        )
    return msgspec.structs.replace(
        session,
        turn=turn,
        summary=Summary(event.summary, event.replaced),
        ledger=session.ledger.with_model(event.model or "", event.usage, event.cost),
        context_tokens=0,
    )


def _put_down(session: Session, event: TurnCompleted) -> Session:
    if session.turn is None or session.turn.id != event.turn_id:
        return session
    agent, unsaid, ledger, said = session.agent, event.unsaid, session.ledger, session.conversation
    if unsaid is not None:
        ledger = ledger.with_model(unsaid.model or "", unsaid.usage, unsaid.cost)
    if event.stop_reason == REFUSAL and not said[-1].refused:  # without a word
        said = said.plus(Said("assistant", (), refused=True))
    return msgspec.structs.replace(
        session,
        turn=None,
        waited=session.turn if event.outcome == "waiting" else None,
        agent=None if agent is None else Agent(agent.id, event.outcome == "failed"),
        conversation=said,
        ledger=ledger,
    )


def _change_turn(session: Session, **changes: object) -> Session:
    if session.turn is None:
        return session
    return msgspec.structs.replace(session, turn=msgspec.structs.replace(session.turn, **changes))


def plus_cost(cost: float | None, more: float | None) -> float | None:
    """Return the sum of the costs that are known, or None if neither is."""
    return cost if more is None else (cost or 0.0) + more
