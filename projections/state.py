"""What a batch of events changes, in memory: the open ends of conversations, and the rows to be written.

Thousands of these live at once and none refers back to what refers to it, so the collector of cycles may pass them by.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from reenact.projections.statements import Values


class TurnRow(msgspec.Struct, gc=False):
    """A turn that has not ended, or has ended in this batch: the columns of its row, and whether there is one."""

    position: int
    id: str
    session: int
    accepted_at: int
    started_at: int | None = None
    ended_at: int | None = None
    outcome: str | None = None
    stop_reason: str | None = None
    duration: float | None = None
    model: str | None = None
    usage: bytes | None = None
    failure: bytes | None = None
    stored: bool = False


class AgentRow(msgspec.Struct, gc=False):
    """An agent that is live, or has stopped in this batch."""

    position: int
    id: str
    started_at: int
    stopped_at: int | None = None
    turn_id: str | None = None
    failed: bool = False
    stored: bool = False


class Conversing(msgspec.Struct, gc=False):
    """What must be known of a session to project what comes next in its stream."""

    position: int
    id: str
    container_id: str
    image_id: str
    agent: AgentRow | None = None
    turns: dict[str, TurnRow] = {}  # those that have not ended
    waiting: int = 0  # how many of them have not begun


@dataclass(slots=True)
class Changes:
    """The rows that a batch comes to; `turns` and `agents` are looked at when it is over, the others as they come."""

    containers: list[Values] = field(default_factory=list[Values])
    images: list[Values] = field(default_factory=list[Values])
    revisions: list[Values] = field(default_factory=list[Values])
    sessions: list[Values] = field(default_factory=list[Values])
    deleted: list[Values] = field(default_factory=list[Values])
    messages: list[Values] = field(default_factory=list[Values])
    turns: dict[int, TurnRow] = field(default_factory=dict[int, TurnRow])
    agents: dict[int, tuple[AgentRow, Conversing]] = field(default_factory=dict[int, "tuple[AgentRow, Conversing]"])
    usage: dict[tuple[int, str, str], int] = field(default_factory=dict["tuple[int, str, str]", int])
