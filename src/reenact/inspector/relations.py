"""Relations between the events of a window: causes, tool calls, and how long each answer took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from reenact.domain.errors import reading
from reenact.domain.history.explanation import Cause
from reenact.domain.loop.asking import Question
from reenact.domain.loop.events import (
    HumanApproveRequired,
    HumanPromptRequired,
    HumanResponded,
    HumanSelectRequired,
    ToolApproved,
    ToolEdited,
    ToolRejected,
    ToolResult,
    ToolStarted,
)
from reenact.domain.messages import ToolUseBlock
from reenact.domain.plain import Json, JsonObject
from reenact.domain.session.agent import (
    AgentStopped,
    AnswerRecorded,
    ResultsRecorded,
    StepStarted,
    ToolsRequested,
    TurnCompleted,
    TurnContinued,
    TurnStarted,
)
from reenact.domain.session.state import SessionEvent
from reenact.domain.session.told import Decision
from reenact.inspector.values import Value, value_of
from reenact.projections.explain.history import causes_in, event_of
from reenact.projections.log import Row

Asking: TypeAlias = HumanApproveRequired | HumanPromptRequired | HumanSelectRequired
Decided: TypeAlias = ToolApproved | ToolEdited | ToolRejected | HumanResponded


class Call(msgspec.Struct):
    """A tool call, as far as it appears in the events of a window."""

    id: str
    name: str
    arguments: JsonObject | None = None
    value: Value | None = None
    """The arguments with which it runs."""
    asked: Row | None = None
    """The model's answer that contains it."""
    requested: Row | None = None
    """The event that began the round of the answer's calls."""
    waits: Row | None = None
    """The event that asked a person about it."""
    reason: str = ""
    digest: str = ""
    question: Question | None = None
    edited: Row | None = None
    decision: Decision | None = None
    decided: Row | None = None
    by: str | None = None
    attempts: int = 0
    started: Row | None = None
    ended: Row | None = None
    result: Json = None
    is_error: bool = False
    ran: bool = False
    result_value: Value | None = None
    """Its result."""

    @property
    def is_waiting(self) -> bool:
        """Whether a person still has to decide about it."""
        return self.waits is not None and self.decided is None and self.ended is None

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self.started is not None and self.ended is None

    @property
    def seconds(self) -> float | None:
        """How long it ran, or None if it did not run to its end."""
        if self.started is None or self.ended is None or not self.ran:
            return None
        return (self.ended.recorded_at - self.started.recorded_at) / 1_000_000

    @property
    def stage(self) -> str:
        """The stage that it has reached."""
        if self.ended is not None:
            return "answered"
        return "waiting" if self.is_waiting else "running" if self.is_running else "ready"


class Relations:
    """The relations between some rows of a session; they need not begin with its first event."""

    def __init__(self, rows: Sequence[Row]) -> None:
        """Read the rows, which are of one history.

        Raises:
            LogUnusableError: they hold events that cannot have happened.
        """
        self.rows = rows
        with reading("the history of the session"):
            self.causes = causes_in(rows)
        self.calls: list[tuple[Call, ...]] = []
        """For each row, the calls that it is about."""
        self.since: list[int | None] = []
        """For each row, when the request to the model, or the call, began that the row ends."""
        self.busy: list[bool] = []
        """For each row, whether the model or a tool was at work after it."""
        self.waiting: list[bool] = []
        """For each row, whether a call waited for a person after it."""
        self.open: dict[str, Call] = {}
        """The calls whose results have not been sent to the model at the end."""
        self.asked: int | None = None
        """When the model was asked for an answer that is still missing at the end."""
        self._running: set[str] = set()
        self._waits: set[str] = set()
        for row in rows:
            self._read(row, event_of(row))

    def positions(self, cause: Cause) -> list[int]:
        """Return the positions of the events of a cause."""
        return [self.rows[place].position for place in cause.places]

    def _read(self, row: Row, event: SessionEvent) -> None:
        since = self.asked
        calls: tuple[Call, ...] = ()
        match event:
            case TurnStarted() | StepStarted():
                self.asked = row.recorded_at
            case AnswerRecorded():
                self.asked = None
                calls = self._ask(row, event)
            case TurnContinued() | TurnCompleted() | AgentStopped():
                self.asked = None
            case ToolsRequested():
                for call in self.open.values():
                    call.requested = row
            case ResultsRecorded():
                self._begin_round({})
            case HumanApproveRequired() | HumanPromptRequired() | HumanSelectRequired():
                calls = self._wait(row, event)
            case ToolApproved() | ToolEdited() | ToolRejected() | HumanResponded():
                calls = (self._decide(row, event),)
            case ToolStarted():
                calls = (self._start(row, event),)
            case ToolResult():
                calls = (self._end(row, event),)
                since = None if calls[0].started is None else calls[0].started.recorded_at
            case _:
                pass
        self.calls.append(calls)
        self.since.append(since)
        for call in calls:
            self._take_note(call)
        self.busy.append(self.asked is not None or bool(self._running))
        self.waiting.append(bool(self._waits))

    def _begin_round(self, calls: dict[str, Call]) -> None:
        self.open, self._running, self._waits = calls, set(), set()

    def _take_note(self, call: Call) -> None:
        if self.open.get(call.id) is call:
            for ids, is_in in ((self._running, call.is_running), (self._waits, call.is_waiting)):
                if is_in:
                    ids.add(call.id)
                else:
                    ids.discard(call.id)

    def _ask(self, row: Row, event: AnswerRecorded) -> tuple[Call, ...]:
        calls = [
            Call(
                block.id,
                block.name,
                block.input,
                value_of(row.position, f"content.{place}.input", block.input),
                row,
            )
            for place, block in enumerate(event.content)
            if isinstance(block, ToolUseBlock)
        ]
        if calls:
            self._begin_round({call.id: call for call in calls})
        return tuple(calls)

    def _wait(self, row: Row, event: Asking) -> tuple[Call, ...]:
        if isinstance(event, HumanApproveRequired):
            calls: list[Call] = []
            for place, asked in enumerate(event.calls):
                call = self._call(asked.id, asked.name)
                if call.value is None:
                    call.value = value_of(row.position, f"calls.{place}.arguments", asked.arguments)
                call.arguments, call.reason, call.digest = asked.arguments, asked.reason, asked.digest
                calls.append(call)
        else:
            options = event.options if isinstance(event, HumanSelectRequired) else None
            multi = isinstance(event, HumanSelectRequired) and event.multi
            calls = [self._call(event.id or "", "")]
            calls[0].question = Question(event.prompt, options, multi)
        for call in calls:
            call.waits, call.decided, call.decision = row, None, None
        return tuple(calls)

    def _decide(self, row: Row, event: Decided) -> Call:
        call = self._call(event.id or "", "")
        call.by = event.by
        if isinstance(event, ToolEdited):
            call.edited, call.arguments = row, event.edited
            call.value = value_of(row.position, "edited", event.edited)
            return call
        call.decided = row
        match event:
            case ToolApproved():
                call.decision = "approved" if call.edited is None else "edited"
            case ToolRejected():
                call.decision = "rejected"
            case HumanResponded():
                call.decision = "answered"
        return call

    def _start(self, row: Row, event: ToolStarted) -> Call:
        call = self._call(event.id, event.name)
        call.started, call.attempts = row, event.attempt
        return call

    def _end(self, row: Row, event: ToolResult) -> Call:
        call = self._call(event.id, event.name)
        call.ended, call.result, call.is_error, call.ran = row, event.result, event.is_error, event.ran
        call.result_value = value_of(row.position, "result", event.result)
        return call

    def _call(self, id_: str, name: str) -> Call:
        """Return the call of that id; it may have been requested before the first row."""
        call = self.open.setdefault(id_, Call(id_, name))
        call.name = call.name or name
        return call
