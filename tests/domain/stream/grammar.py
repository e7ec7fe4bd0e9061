"""The order in which the events of a session may be heard, checked event by event."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from reenact.domain.messages import Message
from tests.domain.stream.heard_calls import HeardCalls

STREAM = {
    "message_start",
    "text_delta",
    "thinking_start",
    "thinking_delta",
    "thinking_end",
    "tool_call",
    "input_json_delta",
    "tool_result",
    "message_delta",
    "message_stop",
    "error",
    "context_compressed",
}
AT_REST = {"completed": "idle", "interrupted": "idle", "failed": "error", "waiting": "waiting_for_human_input"}
LIMITS = {"max_steps_exceeded", "cost_limit_exceeded", "repeated_tool_calls"}
"""Stop reasons of turns that end although no answer has ended them."""
CHANGES = {
    "idle": {"thinking", "waiting_for_human_input"},
    "error": {"thinking"},
    "thinking": {"responding", "tool_executing", "waiting_for_human_input", "idle", "error"},
    "responding": {"thinking", "tool_executing", "waiting_for_human_input", "idle", "error"},
    "tool_executing": {"thinking", "waiting_for_human_input", "idle", "error"},
    "waiting_for_human_input": {"thinking", "tool_executing", "idle", "error"},
}
"""What an agent's state may become; an agent in any of these may be stopped."""


class Heard(msgspec.Struct, frozen=True):
    """One event: its place in its session, its type, the turn it is of, and its data as a plain mapping."""

    cursor: int
    type: str
    turn_id: str | None
    data: dict[str, Any]


class TurnSoFar(msgspec.Struct):
    """What has been heard of one turn, and of the answer of the step it is in."""

    id: str
    begun: bool = False
    steps: int = 1
    told: bool = False
    started: bool = False
    responding: bool = False
    closed: bool = False
    error: bool = False
    error_message: str | None = None
    interrupted: bool = False
    answered: bool | None = None
    stop_reason: str | None = None
    text: str = ""
    outcome: str | None = None


class Grammar:
    """Reads a session's events from the first on, and fails at the first that may not stand where it stands."""

    def __init__(self, *, resumed: Collection[str] = ()) -> None:
        self.turns: dict[str, TurnSoFar] = {}
        self.waiting: list[str] = []
        self.current: TurnSoFar | None = None
        self.state: str | None = None
        self.calls = HeardCalls()
        self.deleted = False
        self.warned = False
        self.branched = False
        self.has_run = False
        self.schedules: set[str] = set()
        self._due: str | None = None
        self._last: Heard | None = None
        self._resumed = resumed

    def read(self, events: Iterable[Heard]) -> Grammar:
        for event in events:
            last = self._last
            where = f"after {last} came {event}"
            assert event.cursor == (1 if last is None else last.cursor + 1), where
            assert (last is None) == (event.type == "session_created"), where
            assert not self.deleted, where
            if last is not None and last.type == "turn_started" and self.state != "waiting_for_human_input":
                assert event.type == "agent_state_changed", where
                assert event.data["current"] == "thinking", where
            if last is not None and last.type == "agent_started" and self.calls.waits:
                assert event.type == "agent_state_changed", where
                assert event.data["current"] == "waiting_for_human_input", where
            self._read(event, where)
            self._last = event
        return self

    @property
    def completed(self) -> list[str]:
        return [turn.id for turn in self.turns.values() if turn.outcome is not None]

    def _read(self, event: Heard, where: str) -> None:
        match event.type:
            case "session_created":
                self.branched = event.data.get("origin") is not None
            case "agent_started":
                assert self.state is None, where
                self.state, self.has_run = "idle", True
            case "agent_state_changed":
                self._state(event, where)
            case "agent_stopped":
                assert self.state == "stopped", where
                self.state = None
            case "user_message":
                self._asked(event, where)
            case "guard_checked":
                self._checked(event, where)
            case "turn_started":
                self._started(event, where)
            case "turn_completed":
                self._completed(event, where)
            case "message_scheduled" | "schedule_cancelled" | "schedule_fired":
                self._scheduled(event, where)
            case "image_changed":
                assert self.current is None, where
                assert not self.calls.open, where
            case "session_deleted":
                assert self.state is None, where
                assert not self.waiting, where
                assert not self.calls.open, where
                self.deleted = True
            case _:
                self._within(event, where)

    def _state(self, event: Heard, where: str) -> None:
        current = event.data["current"]
        assert self.state is not None, where
        assert event.data["previous"] == self.state, where
        assert current == "stopped" or current in CHANGES[self.state], where
        if current == "stopped":
            assert self.current is None, where
        elif self.current is None:  # calls wait when an agent starts, or wait no longer though no turn goes on
            assert (self.state == "idle") == self.calls.waits, where
            assert {self.state, current} == {"idle", "waiting_for_human_input"}, where
        assert event.turn_id == (None if self.current is None else self.current.id), where
        self.state = current
        if current == "responding" and self.current is not None:
            self.current.responding = True

    def _asked(self, event: Heard, where: str) -> None:
        assert event.turn_id is not None, where
        assert event.turn_id not in self.turns, where
        # What waits where a branch begins is accepted there anew, before it is run.
        is_told = bool(self.calls.children)  # how a detached child has ended
        is_due = event.turn_id == self._due
        assert self.state is not None or is_told or is_due or (self.branched and not self.has_run), where
        self.turns[event.turn_id] = TurnSoFar(event.turn_id)
        self.waiting.append(event.turn_id)

    def _scheduled(self, event: Heard, where: str) -> None:
        assert event.turn_id is None, where
        schedule_id = event.data["schedule_id"]
        assert (schedule_id in self.schedules) == (event.type != "message_scheduled"), where
        if event.type == "message_scheduled" or event.data.get("then") is not None:
            self.schedules.add(schedule_id)
        else:
            self.schedules.remove(schedule_id)
        if event.type == "schedule_fired":
            self._due = event.data["turn_id"]

    def _checked(self, event: Heard, where: str) -> None:
        match event.data["point"]:
            case "message":
                assert event.turn_id not in self.turns, where
            case "call":
                assert event.data["call_id"] in self.calls.open, where
                assert event.turn_id == (None if self.current is None else self.current.id), where
            case _:
                assert self.current is not None, where
                assert event.turn_id == self.current.id, where
                assert self.current.answered is None, where
                assert not self.calls.open, where

    def _started(self, event: Heard, where: str) -> None:
        assert self.current is None, where
        assert event.turn_id is not None, where
        if event.turn_id in self.turns:
            assert self.state in {"idle", "error"}, where
            assert not self.calls.open, where
            assert self.waiting, where
            assert event.turn_id == self.waiting.pop(0), where
        else:  # it goes on with calls that waited
            assert self.state == "waiting_for_human_input", where
            assert self.calls.open, where
            self.turns[event.turn_id] = TurnSoFar(event.turn_id, steps=0)
        self.current = self.turns[event.turn_id]
        self.current.begun = True

    def _within(self, event: Heard, where: str) -> None:
        turn = self.current
        if event.type == "child_started":
            self.calls.start_child(event.data, where)
            return
        if event.type == "child_ended":
            self.calls.end_child(event.data, where)
            return
        if self.calls.concerns(event.type, event.data):
            resumed = turn is not None and turn.id in self._resumed
            assert event.turn_id == (None if turn is None else turn.id), where
            self.calls.read(event.type, event.data, where, state=self.state, resumed=resumed)
            if event.type == "tool_result_message" and turn is not None:
                turn.told = True
            return
        assert turn is not None, where
        assert event.turn_id == turn.id, where
        match event.type:
            case "interrupted":
                assert not turn.interrupted, where
                turn.interrupted = True
            case "assistant_message":
                self._answered(turn, msgspec.convert(event.data["message"], Message, strict=False), where)
            case "step_started":
                self._step(turn, event, where)
            case "warning":
                assert not self.warned, where
                self.warned = True
            case "error_message":
                assert turn.error_message is None, where
                turn.error_message = event.data["type"]
            case _:
                self._streamed(turn, event, where)

    def _answered(self, turn: TurnSoFar, message: Message, where: str) -> None:
        assert turn.answered is None, where
        assert turn.steps > 0, where
        assert message.turn_id == turn.id, where
        assert turn.id in self._resumed or message.text == turn.text, where
        turn.answered, turn.stop_reason = message.partial, message.stop_reason
        if message.stop_reason == "tool_use" and not message.partial:
            self.calls.ask(message, where)

    def _step(self, turn: TurnSoFar, event: Heard, where: str) -> None:
        assert turn.told, where
        assert not turn.interrupted, where
        assert not self.calls.open, where
        assert self.state == "thinking", where
        assert event.data["step"] == turn.steps + 1, where
        turn.steps, turn.told = event.data["step"], False
        turn.started = turn.responding = turn.closed = False
        turn.answered, turn.stop_reason, turn.text = None, None, ""

    def _streamed(self, turn: TurnSoFar, event: Heard, where: str) -> None:
        resumed = turn.id in self._resumed
        assert event.type in STREAM, where
        assert not turn.error, where
        assert turn.error_message is None, where
        if event.type == "error":
            turn.error = True
            assert turn.answered is None or turn.told, where
            return
        assert not turn.interrupted, where
        assert turn.answered is None, where
        assert turn.steps > 0, where
        assert not turn.closed or resumed, where
        match event.type:
            case "message_start":
                assert not turn.started or resumed, where
                turn.started = True
                turn.closed = False
            case "context_compressed":
                assert not turn.started or resumed, where
            case _:
                assert turn.started, where
        if event.type == "text_delta":
            assert turn.responding, where
            if not turn.text and not resumed:
                assert self._last is None or self._last.type in {"agent_state_changed", "text_delta"}, where
            turn.text += event.data["text"]
        turn.closed = turn.closed or event.type == "message_stop"

    def _completed(self, event: Heard, where: str) -> None:
        assert event.turn_id is not None, where
        turn = self.turns[event.turn_id]
        outcome = event.data["outcome"]
        assert event.data["turn_id"] == turn.id, where
        assert turn.outcome is None, where
        if turn.begun:
            assert turn is self.current, where
            assert self._last is not None, where
            assert self._last.type == "agent_state_changed", where
            self.calls.end_turn(outcome, event.data["stop_reason"], where)
            assert self.state == AT_REST["waiting" if self.calls.waits else outcome], where
            assert turn.interrupted == (outcome == "interrupted"), where
            assert (turn.error_message is not None) == (outcome == "failed"), where
            assert turn.error == (outcome == "failed"), where
            if turn.answered is not None and turn.stop_reason != "tool_use":
                assert turn.answered == (outcome != "completed"), where
            if outcome == "completed" and event.data["stop_reason"] not in LIMITS:
                assert turn.closed, where
            self.current = None
        else:
            assert outcome == "interrupted", where
            self.waiting.remove(turn.id)
        turn.outcome = outcome
