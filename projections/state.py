"""What a batch of events changes, in memory: the open ends of conversations, and the rows to be written.

Thousands of these live at once and none refers back to what refers to it, so the collector of cycles may pass them by.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from reenact.domain.events import AgentState
from reenact.domain.history import Decision
from reenact.domain.loop.ledger import Spent
from reenact.domain.loop.rounds import Kind, Stage
from reenact.domain.messages import ToolUseBlock

Value: TypeAlias = str | int | float | bytes | None
Values: TypeAlias = tuple[Value, ...]
Spender: TypeAlias = tuple[Literal["model", "tool"], str]
NOTHING: Final = Spent()


class TurnRow(msgspec.Struct, gc=False):
    """A turn that has not ended, or has ended in this batch: the columns of its row, then what is not in it."""

    position: int
    session: int
    id: str
    asked: int
    accepted_at: int
    started_at: int | None = None
    ended_at: int | None = None
    ended: int | None = None
    outcome: str | None = None
    stop_reason: str | None = None
    duration: float | None = None
    steps: int = 0
    answer: int | None = None
    model: str | None = None
    usage: bytes | None = None
    cost: float | None = None
    failure: bytes | None = None
    stop_sequence: str | None = None
    stop_details: bytes | None = None
    counted: dict[str, int] = {}  # what of its usage is counted for a model


class AgentRow(msgspec.Struct, gc=False):
    """An agent that is live, or has stopped in this batch: the columns of its row."""

    position: int
    id: str
    session: int
    session_id: str
    container_id: str
    image_id: str
    started_at: int
    stopped_at: int | None = None
    turn_id: str | None = None
    activity: AgentState | None = None
    failed: bool = False
    waits: bool = False  # this and the next are known when the batch is over
    queued: int = 0


class CallRow(msgspec.Struct, gc=False):
    """A call whose result has not gone back to the model, or has gone back in this batch: the columns of its row."""

    position: int
    number: int
    session: int
    id: str
    name: str
    arguments: bytes
    stage: Stage = "ready"
    kind: Kind | None = None
    digest: str = ""
    reason: str = ""
    question: bytes | None = None
    asked_at: int | None = None
    original: bytes | None = None
    decision: Decision | None = None
    decided_by: str | None = None
    decided_at: int | None = None
    attempts: int = 0
    started_at: int | None = None
    ended_at: int | None = None
    result: bytes | None = None
    is_error: bool = False
    ran: bool = False
    cost: float | None = None
    results: int | None = None
    asked: int = 0  # the key of the question that its turn is about


class Conversing(msgspec.Struct, gc=False):
    """What must be known of a session to project what comes next in its stream."""

    position: int
    id: str
    container_id: str
    image_id: str
    agent: AgentRow | None = None
    turns: dict[str, TurnRow] = {}  # those that have not ended
    asked: int = 0  # the key of the question that was taken up last
    waiting: int = 0  # how many of them have not begun
    uses: tuple[ToolUseBlock, ...] = ()  # what the last answer asks for, until calls are made of it
    calls: dict[str, CallRow] = {}  # those whose results have not gone back
    spent: dict[Spender, Spent] = {}  # by models and tools; sums, so that rows do not depend on the batches


def turn_to(session: Conversing, activity: AgentState) -> None:
    """Let the session's agent be at something else in its turn."""
    if session.agent is not None:
        session.agent.activity = activity


class Changes(msgspec.Struct, gc=False):
    """The rows that a batch comes to; those in a `dict` are looked at when it is over, the others as they come.

    Turns are by position and session, calls by position, number and session.
    """

    containers: list[Values] = []
    images: list[Values] = []
    revisions: list[Values] = []
    sessions: list[Values] = []
    deleted: list[Values] = []
    messages: list[Values] = []
    turns: dict[tuple[int, int], TurnRow] = {}
    agents: dict[int, tuple[AgentRow, Conversing]] = {}
    calls: dict[tuple[int, int, int], CallRow] = {}
    spent: dict[tuple[int, Spender], Spent] = {}

    def put_turn(self, turn: TurnRow) -> None:
        """Have the turn's row written."""
        self.turns[turn.position, turn.session] = turn

    def put_call(self, call: CallRow) -> None:
        """Have the call's row written."""
        self.calls[call.position, call.number, call.session] = call
