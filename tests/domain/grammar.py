"""The order in which the events of a session may be heard, checked event by event."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from reenact.domain.messages import Message

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
}
AT_REST = {"completed": "idle", "interrupted": "idle", "failed": "error"}


class Heard(msgspec.Struct, frozen=True):
    """One event: its place in its session, its type, the turn it is of, and its data as a plain mapping."""

    cursor: int
    type: str
    turn_id: str | None
    data: dict[str, Any]


class TurnSoFar(msgspec.Struct):
    """What has been heard of one turn."""

    id: str
    begun: bool = False
    started: bool = False
    responding: bool = False
    closed: bool = False
    error: bool = False
    error_message: str | None = None
    interrupted: bool = False
    answered: bool | None = None
    text: str = ""
    outcome: str | None = None


class Grammar:
    """Reads a session's events from the first on, and fails at the first that may not stand where it stands."""

    def __init__(self, *, resumed: Iterable[str] = ()) -> None:
        self.turns: dict[str, TurnSoFar] = {}
        self.waiting: list[str] = []
        self.current: TurnSoFar | None = None
        self.state: str | None = None
        self.deleted = False
        self._last: Heard | None = None
        self._resumed = frozenset(resumed)

    def read(self, events: Iterable[Heard]) -> Grammar:
        for event in events:
            last = self._last
            where = f"after {last} came {event}"
            assert event.cursor == (1 if last is None else last.cursor + 1), where
            assert (last is None) == (event.type == "session_created"), where
            assert not self.deleted, where
            if last is not None and last.type == "turn_started":
                assert event.type == "agent_state_changed", where
                assert event.data["current"] == "thinking", where
            self._read(event, where)
            self._last = event
        return self

    @property
    def completed(self) -> list[str]:
        return [turn.id for turn in self.turns.values() if turn.outcome is not None]

    def _read(self, event: Heard, where: str) -> None:
        match event.type:
            case "session_created":
                pass
            case "agent_started":
                assert self.state is None, where
                self.state = "idle"
            case "agent_state_changed":
                self._state(event, where)
            case "agent_stopped":
                assert self.state == "stopped", where
                self.state = None
            case "user_message":
                self._asked(event, where)
            case "turn_started":
                self._started(event, where)
            case "turn_completed":
                self._completed(event, where)
            case "session_deleted":
                assert self.state is None, where
                assert not self.waiting, where
                self.deleted = True
            case _:
                self._within(event, where)

    def _state(self, event: Heard, where: str) -> None:
        assert event.data["previous"] == self.state, where
        assert event.data["current"] != self.state, where
        self.state = event.data["current"]
        if self.state == "stopped":
            assert self.current is None, where
            assert event.turn_id is None, where
        else:
            assert self.current is not None, where
            assert event.turn_id == self.current.id, where
        if self.state == "responding" and self.current is not None:
            self.current.responding = True

    def _asked(self, event: Heard, where: str) -> None:
        assert event.turn_id is not None, where
        assert event.turn_id not in self.turns, where
        assert self.state is not None, where
        self.turns[event.turn_id] = TurnSoFar(event.turn_id)
        self.waiting.append(event.turn_id)

    def _started(self, event: Heard, where: str) -> None:
        assert self.current is None, where
        assert self.state in {"idle", "error"}, where
        assert self.waiting, where
        first = self.waiting.pop(0)
        assert event.turn_id == first, where
        self.current = self.turns[first]
        self.current.begun = True

    def _within(self, event: Heard, where: str) -> None:
        turn = self.current
        assert turn is not None, where
        assert event.turn_id == turn.id, where
        last = self._last
        assert last is not None
        if event.type in STREAM:
            self._streamed(turn, event, where)
        elif event.type == "interrupted":
            assert not turn.interrupted, where
            assert turn.answered is None, where
            turn.interrupted = True
        elif event.type == "assistant_message":
            message = msgspec.convert(event.data["message"], Message, strict=False)
            assert turn.answered is None, where
            assert turn.id in self._resumed or message.text == turn.text, where
            turn.answered = message.partial
        else:
            assert event.type == "error_message", where
            assert turn.error_message is None, where
            turn.error_message = event.data["type"]

    def _streamed(self, turn: TurnSoFar, event: Heard, where: str) -> None:
        resumed = turn.id in self._resumed
        assert not turn.interrupted, where
        assert not turn.error, where
        assert turn.answered is None, where
        assert turn.error_message is None, where
        assert not turn.closed or resumed, where
        match event.type:
            case "message_start":
                assert not turn.started or resumed, where
                turn.started = True
                turn.closed = False
            case "error":
                turn.error = True
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
            assert self.state == AT_REST[outcome], where
            assert turn.interrupted == (outcome == "interrupted"), where
            assert (turn.error_message is not None) == (outcome == "failed"), where
            assert turn.error == (outcome == "failed"), where
            assert turn.answered is None or turn.answered == (outcome != "completed"), where
            assert outcome != "completed" or turn.closed, where
            self.current = None
        else:
            assert outcome == "interrupted", where
            self.waiting.remove(turn.id)
        turn.outcome = outcome
