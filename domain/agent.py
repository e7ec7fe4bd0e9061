"""An agent: one live run of a session, which takes up one message after the other and answers it in a turn."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from reenact.domain.events import AgentState, Outcome
from reenact.domain.messages import Block, Usage


class AgentInfo(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A live agent as callers see it. `queued` counts the messages that wait for their turn."""

    id: str
    session_id: str
    container_id: str
    image_id: str
    state: AgentState
    turn_id: str | None
    queued: int
    started_at: datetime


class AgentStarted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The session is running."""

    agent_id: str


class MessageAccepted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message waits for its turn. `at` is microseconds since 1970-01-01 UTC."""

    turn_id: str
    message_id: str
    content: tuple[Block, ...]
    at: int
    request_id: str | None = None


class TurnStarted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The agent took up the message that has waited longest."""

    turn_id: str
    at: int


class TurnInterrupted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Somebody or something cut the turn short."""

    turn_id: str
    reason: str


class AnswerRecorded(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the model said in the turn, whole or `partial`."""

    turn_id: str
    message_id: str
    content: tuple[Block, ...]
    stop_reason: str
    partial: bool
    usage: Usage
    model: str | None
    at: int


class Failure(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Why a turn failed, in the environment's words."""

    type: str
    message: str
    retryable: bool = False


class TurnFailed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The turn cannot go on, for a reason that the environment has not given."""

    turn_id: str
    failure: Failure


class TurnCompleted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The turn is over. `from_state` is the state the agent was in; `duration` is in seconds."""

    turn_id: str
    outcome: Outcome
    stop_reason: str
    usage: Usage
    duration: float
    from_state: AgentState
    failure: Failure | None = None


class AgentStopped(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The session runs no longer."""

    agent_id: str
    reason: str


AgentEvent: TypeAlias = (
    AgentStarted
    | MessageAccepted
    | TurnStarted
    | TurnInterrupted
    | TurnFailed
    | AnswerRecorded
    | TurnCompleted
    | AgentStopped
)


class Queued(msgspec.Struct, frozen=True, gc=False):
    """A message that waits. `at` is when it was accepted, microseconds since 1970-01-01 UTC."""

    turn_id: str
    message_id: str
    content: tuple[Block, ...]
    at: int


class Turn(msgspec.Struct, frozen=True, gc=False):
    """A turn under way: when it was asked for and when it began, in microseconds since 1970-01-01 UTC."""

    id: str
    message_id: str
    asked_at: int
    at: int


class Agent(msgspec.Struct, frozen=True, gc=False):
    """What is known of the live agent; `failed` until it takes up its next message."""

    id: str
    failed: bool = False

    def state(self, turn: Turn | None) -> AgentState:
        """Return the agent's state as far as decisions know it."""
        if turn is not None:
            return "thinking"
        return "error" if self.failed else "idle"


StopReason: TypeAlias = Literal["destroyed", "deleted", "shutdown", "crash"]


class SoFar(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What had come in of a turn's answer when it ended, or was ended; `untold` if nobody has heard of the failure."""

    message_id: str | None = None
    content: tuple[Block, ...] = ()
    stop_reason: str | None = None
    usage: Usage = {}
    model: str | None = None
    responding: bool = False
    failure: Failure | None = None
    untold: bool = False
