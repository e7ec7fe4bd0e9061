"""What is told of a session's history beside its state: its messages, and what has become of the calls in them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TypeAlias, assert_never

import msgspec

from reenact.domain.agent import AnswerRecorded, MessageAccepted, ResultsRecorded, ToolsRequested, TurnStarted
from reenact.domain.announce import answer, question, results
from reenact.domain.history import ToolCallInfo
from reenact.domain.loop.events import (
    HumanApproveRequired,
    HumanResponded,
    ToolApproved,
    ToolEdited,
    ToolPending,
    ToolRejected,
    ToolResult,
    ToolStarted,
)
from reenact.domain.messages import Message, ToolUseBlock, instant
from reenact.projections.log import Row

_Decided: TypeAlias = ToolApproved | ToolEdited | ToolRejected | HumanResponded


class Told:
    """The messages that were taken up or said, and the calls that were asked for, in order."""

    def __init__(self, session_id: str, history: Iterable[Row]) -> None:
        """Take the session's history up to some event."""
        self._session_id = session_id
        self._accepted: dict[str, MessageAccepted] = {}
        self._answer: AnswerRecorded | None = None
        self._open: dict[str, int] = {}
        """The places of the calls whose results have not gone back."""
        self.messages: list[Message] = []
        self.calls: list[ToolCallInfo] = []
        for row in history:
            self._hear(row.event, instant(row.recorded_at))

    def call(self, call_id: str) -> ToolCallInfo:
        """Return a call whose results have not gone back.

        Raises:
            KeyError: there is none.
        """
        return self.calls[self._open[call_id]]

    def _hear(self, event: object, at: datetime) -> None:
        match event:
            case MessageAccepted():
                self._accepted[event.turn_id] = event
            case TurnStarted():
                if (asked := self._accepted.pop(event.turn_id, None)) is not None:
                    self.messages.append(question(asked))
            case AnswerRecorded():
                self._answer = event
                self.messages.append(answer(event))
            case ResultsRecorded():
                self._open = {}
                self.messages.append(results(event))
            case _:
                self._hear_of_calls(event, at)

    def _hear_of_calls(self, event: object, at: datetime) -> None:
        match event:
            case ToolsRequested():
                self._request(event)
            case HumanApproveRequired():
                for asked in event.calls:
                    self._change(asked.id, reason=asked.reason)
            case ToolPending():
                for id_ in event.ids:
                    self._change(id_, stage="waiting", asked_at=at)
            case ToolApproved() | ToolEdited() | ToolRejected() | HumanResponded():
                self._decide(event, at)
            case ToolStarted():
                self._change(event.id, stage="running", attempts=event.attempt, started_at=at)
            case ToolResult():
                result = {"result": event.result, "is_error": event.is_error, "ran": event.ran, "cost": event.cost}
                self._change(event.id, stage="answered", ended_at=at, **result)
            case _:
                pass

    def _request(self, event: ToolsRequested) -> None:
        said = self._answer
        if said is None:
            return
        uses = [block for block in said.content if isinstance(block, ToolUseBlock)]
        self._open = {use.id: place for place, use in enumerate(uses, len(self.calls))}
        self.calls += [_requested(use, event.turn_id, said.message_id, self._session_id) for use in uses]

    def _decide(self, event: _Decided, at: datetime) -> None:
        id_ = event.id or ""
        self._change(id_, decided_by=event.by, decided_at=at)
        match event:
            case ToolApproved():
                before = self.calls[self._open[id_]].decision if id_ in self._open else None
                self._change(id_, stage="ready", decision=before or "approved")
            case ToolEdited():
                self._change(id_, decision="edited", arguments=event.edited, original=event.original)
            case ToolRejected():
                self._change(id_, decision="rejected")
            case HumanResponded():
                self._change(id_, decision="answered")
            case _:
                assert_never(event)

    def _change(self, call_id: str, **changes: object) -> None:
        place = self._open.get(call_id)
        if place is not None:
            self.calls[place] = msgspec.structs.replace(self.calls[place], **changes)


def _requested(use: ToolUseBlock, turn_id: str, message_id: str, session_id: str) -> ToolCallInfo:
    return ToolCallInfo(
        id=use.id,
        session_id=session_id,
        turn_id=turn_id,
        message_id=message_id,
        name=use.name,
        arguments=use.input,
        stage="ready",
        result=None,
        is_error=False,
        ran=False,
        cost=None,
        attempts=0,
        asked_at=None,
        reason="",
        decision=None,
        decided_by=None,
        decided_at=None,
        original=None,
        started_at=None,
        ended_at=None,
    )
