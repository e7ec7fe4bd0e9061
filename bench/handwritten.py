"""The projections' tables, written by hand with sqlite3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec

from reenact.domain.session.agent import AgentStarted, AnswerRecorded, MessageAccepted, TurnCompleted, TurnStarted
from reenact.domain.session.state import SessionCreated

Value: TypeAlias = str | int | float | bytes | None
Execute: TypeAlias = Callable[[str, Sequence[Value]], object]

encode: Final = msgspec.msgpack.Encoder().encode

_ADD_SESSION: Final = """
    INSERT INTO sessions (position, stream, id, container_id, image_id, image_revision, created_at, depth)
    VALUES (?, ?, ?, ?, ?, ?, ?, 0)
"""
_ADD_AGENT: Final = """
    INSERT INTO agents SELECT ?, ?, position, id, container_id, image_id, ?, NULL, NULL, NULL, 0, 0, 0
    FROM sessions WHERE position = ?
"""
_ADD_MESSAGE: Final = "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL)"
_ADD_TURN: Final = "INSERT INTO turns (position, id, session, asked, accepted_at, steps) VALUES (?, ?, ?, ?, ?, 0)"
_QUEUE: Final = "UPDATE agents SET queued = queued + 1 WHERE session = ? AND stopped_at IS NULL"
_BEGIN: Final = "UPDATE turns SET started_at = ?, steps = 1 WHERE position = ?"
_TAKE_UP: Final = """
    UPDATE agents SET turn_id = ?, activity = 'thinking', failed = 0, queued = queued - 1
    WHERE session = ? AND stopped_at IS NULL
"""
_ADD_ANSWER: Final = "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?)"
_ADD_TURN_END: Final = "INSERT INTO turn_ends VALUES (?, ?, ?, ?, ?, ?, NULL, ?)"
_NAME_MODEL: Final = "UPDATE turns SET answer = ?, model = ? WHERE position = ?"
_END: Final = """
    UPDATE turns SET ended_at = ?, ended = ?, outcome = ?, stop_reason = ?, duration = ?, usage = ? WHERE position = ?
"""
_PUT_DOWN: Final = """
    UPDATE agents SET turn_id = NULL, activity = NULL, failed = ? WHERE session = ? AND stopped_at IS NULL
"""
_PUT_USAGE: Final = "INSERT OR REPLACE INTO usage VALUES (?, 'model', ?, ?, ?, 0.0, ?)"


class Handwritten:
    """One statement after the other, for the events of the workload, with a cache of the ids that it needs again."""

    def __init__(self) -> None:
        self._sessions: dict[str, int] = {}
        self._turns: dict[str, int] = {}
        self._models: dict[str, str] = {}
        self._used: dict[tuple[int, str], tuple[int, dict[str, int]]] = {}

    def project(self, execute: Execute, stream: str, position: int, recorded_at: int, event: object) -> None:
        """Write the rows of the event."""
        session = self._sessions.get(stream, 0)
        match event:
            case SessionCreated():
                self._sessions[stream] = position
                ids = event.session_id, event.container_id, event.image_id, event.image_revision
                execute(_ADD_SESSION, (position, stream, *ids, recorded_at))
            case AgentStarted():
                execute(_ADD_AGENT, (position, event.agent_id, recorded_at, session))
            case MessageAccepted():
                self._turns[event.turn_id] = position
                content, at = encode(event.content), event.at
                asked = event.message_id, "user", content, at, event.turn_id, None, 0, None
                execute(_ADD_MESSAGE, (position, session, position, *asked))
                execute(_ADD_TURN, (position, event.turn_id, session, position, at))
                execute(_QUEUE, (session,))
            case TurnStarted():
                execute(_BEGIN, (event.at, self._turns[event.turn_id]))
                execute(_TAKE_UP, (event.turn_id, session))
            case AnswerRecorded():
                turn = self._turns[event.turn_id]
                usage = encode(event.usage) if event.usage else None
                said = event.message_id, "assistant", encode(event.content), event.at, event.turn_id
                execute(_ADD_MESSAGE, (position, session, turn, *said, event.stop_reason, event.partial, usage))
                execute(_NAME_MODEL, (position, event.model, turn))
                self._models[event.turn_id] = event.model or ""
                tokens = int(str(event.usage["input_tokens"])), int(str(event.usage["output_tokens"]))
                of = position, session, recorded_at, recorded_at // 86_400_000_000
                execute(_ADD_ANSWER, (*of, event.model or "", *tokens, event.cost, event.first_delta))
                calls, used = self._used.get((session, event.model or ""), (0, {}))
                used = {kind: used.get(kind, 0) + int(str(amount)) for kind, amount in event.usage.items()}
                self._used[session, event.model or ""] = calls + 1, used
                execute(_PUT_USAGE, (session, event.model or "", calls + 1, encode(used), calls + 1))
            case TurnCompleted():
                turn = self._turns.pop(event.turn_id)
                usage = encode(event.usage) if event.usage else None
                execute(_END, (recorded_at, position, event.outcome, event.stop_reason, event.duration, usage, turn))
                model = self._models.pop(event.turn_id)
                of = position, session, recorded_at, recorded_at // 86_400_000_000
                execute(_ADD_TURN_END, (*of, model, event.outcome, event.duration))
                execute(_PUT_DOWN, (event.outcome == "failed", session))
            case _:
                raise TypeError(f"the workload has no {type(event).__name__}")
