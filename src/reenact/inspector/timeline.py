"""The timeline of a window: a line for each event, with bookkeeping events joined and idle time folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from reenact.domain.history.explanation import Outside, outside_phrase
from reenact.domain.loop.events import (
    HumanApproveRequired,
    HumanPromptRequired,
    HumanResponded,
    HumanSelectRequired,
    ToolApproved,
    ToolEdited,
    ToolPending,
    ToolRejected,
    ToolResult,
    ToolStarted,
)
from reenact.domain.loop.events import Warning as LimitWarning
from reenact.domain.messages import text_of
from reenact.domain.session.agent import (
    AgentStarted,
    AnswerRecorded,
    MessageAccepted,
    ResultsRecorded,
    RulesRecorded,
    StepStarted,
    ToolsRequested,
    TurnCompleted,
    TurnContinued,
    TurnFailed,
    TurnStarted,
)
from reenact.domain.session.state import SessionCreated
from reenact.inspector.phrases import sentence_about
from reenact.inspector.relations import Call, Relations
from reenact.inspector.windows import Window
from reenact.projections.explain.history import event_of
from reenact.projections.log import Row, name_of

IDLE = 30
"""Seconds without an event after which time is folded, if neither the model nor a tool is at work."""
FEW = 8
"""The most bookkeeping events in a row whose names are shown."""
LONG = 5.0
"""Seconds from which on a duration counts as long."""

Kind: TypeAlias = Literal["message", "answer", "call", "ask", "edit", "decision", "end", "note", "small", "idle"]
Colour: TypeAlias = Literal["model", "tool", "person", "wait", "fail", ""]

_SMALL = (
    SessionCreated,
    RulesRecorded,
    AgentStarted,
    TurnStarted,
    TurnContinued,
    StepStarted,
    ToolsRequested,
    ToolPending,
    ResultsRecorded,
)


class Line(msgspec.Struct, kw_only=True):
    """A line of the timeline: an event, several `small` events in a row, or idle time."""

    kind: Kind
    row: Row
    colour: Colour = ""
    text: str = ""
    causes: list[int] = []
    outside: Outside | None = None
    call: Call | None = None
    calls: tuple[Call, ...] = ()
    seconds: float | None = None
    rows: list[Row] = []
    """The events of a small line."""
    is_direct: bool = False
    """Whether it is a direct cause, or a direct effect, of the event of the page."""
    waits: bool = False
    """For idle time, and for a question to a person: whether a person is waited for."""

    @property
    def name(self) -> str:
        """The name of the event."""
        return name_of(self.row.event)

    @property
    def names(self) -> str:
        """The names of the events of a small line."""
        names = ", ".join(name_of(row.event) for row in self.rows[:FEW])
        return names if len(self.rows) <= FEW else f"{names} and {len(self.rows) - FEW} more"

    @property
    def called(self) -> str:
        """The names of the tools that an answer calls, with their counts."""
        counts = Counter(call.name for call in self.calls)
        return ", ".join(name if number == 1 else f"{name} \u00d7 {number}" for name, number in counts.items())

    @property
    def origin(self) -> str:
        """The cause outside of the log, if there is one."""
        return "" if self.outside is None else outside_phrase(self.outside)

    @property
    def is_long(self) -> bool:
        """Whether its duration counts as long."""
        return self.seconds is not None and self.seconds >= LONG


def lines_by_call(relations: Relations, window: Window) -> list[Line]:
    """Return the lines of the window; a call is on the line where it ended."""
    lines: list[Line] = []
    for place in window.shown:
        lines += _idle_before(relations, window, place)
        line = _line(relations, place, window)
        if line is None:
            continue
        if line.kind == "small" and lines and lines[-1].kind == "small":
            lines[-1].rows.append(line.row)
        else:
            lines.append(line)
    return lines


def lines_by_event(relations: Relations, window: Window) -> list[Line]:
    """Return a line for each event of the window."""
    lines: list[Line] = []
    for place in window.shown:
        lines += [*_idle_before(relations, window, place), line_of(relations, place)]
    return lines


def line_of(relations: Relations, place: int) -> Line:
    """Return the line of the event, of kind `note`; the `rows` of a bookkeeping event are the event itself."""
    row, cause, calls = relations.rows[place], relations.causes[place], relations.calls[place]
    event = event_of(row)
    return Line(
        kind="note",
        row=row,
        colour=colour_of(row),
        text=sentence_about(event),
        causes=relations.positions(cause),
        outside=cause.outside,
        calls=calls,
        call=calls[0] if calls else None,
        rows=[row] if isinstance(event, _SMALL) else [],
    )


def colour_of(row: Row) -> Colour:
    """Return the colour of the event: its author, or how it is marked."""
    match row.event:
        case MessageAccepted() | ToolApproved() | ToolEdited() | ToolRejected() | HumanResponded():
            return "person"
        case AnswerRecorded():
            return "model"
        case ToolResult(is_error=True) | TurnFailed() | TurnCompleted(outcome="failed"):
            return "fail"
        case ToolResult() | ToolStarted():
            return "tool"
        case HumanApproveRequired() | HumanPromptRequired() | HumanSelectRequired() | LimitWarning():
            return "wait"
        case _:
            return ""


def _line(relations: Relations, place: int, window: Window) -> Line | None:
    """Return the line of the event, or None if it is part of another one."""
    line, since = line_of(relations, place), relations.since[place]
    row, event = line.row, event_of(line.row)
    match event:
        case MessageAccepted():
            line.kind, line.text = "message", text_of(event.content)
        case AnswerRecorded():
            line.kind, line.text = "answer", text_of(event.content)
            line.seconds = None if since is None else (row.recorded_at - since) / 1_000_000
        case ToolStarted():
            ended = None if line.call is None else line.call.ended
            if ended is not None and ended.position <= window.own[-1].position:
                return None
            line.kind = "call"
        case ToolResult():
            line.kind = "call"
            line.seconds = None if line.call is None else line.call.seconds
        case HumanApproveRequired() | HumanPromptRequired() | HumanSelectRequired():
            line.kind = "ask"
            line.waits = window.is_end and any(call.is_waiting for call in line.calls)
        case ToolEdited():
            line.kind = "edit"
        case ToolApproved() | ToolRejected() | HumanResponded():
            line.kind = "decision"
        case TurnCompleted():
            line.kind = "end"
        case _ if line.rows:
            line.kind = "small"
        case _:
            pass
    return line


def idle_before(relations: Relations, window: Window, place: int) -> float | None:
    """Return the idle seconds before the event, if there were many, and neither the model nor a tool was at work."""
    if place == window.shown.start or relations.busy[place - 1]:
        return None
    seconds = (relations.rows[place].recorded_at - relations.rows[place - 1].recorded_at) / 1_000_000
    return seconds if seconds > IDLE else None


def _idle_before(relations: Relations, window: Window, place: int) -> Iterator[Line]:
    seconds = idle_before(relations, window, place)
    if seconds is not None:
        yield Line(kind="idle", row=relations.rows[place], seconds=seconds, waits=relations.waiting[place - 1])


def work_of(relations: Relations, window: Window) -> tuple[float, float]:
    """Return for how many seconds the model or tools were at work in the window, and how many seconds it spans."""
    rows, shown = relations.rows, window.shown
    steps = [(rows[at + 1].recorded_at - rows[at].recorded_at, relations.busy[at]) for at in shown[:-1]]
    work = sum(length for length, is_busy in steps if is_busy)
    return work / 1_000_000, sum(length for length, _ in steps) / 1_000_000
