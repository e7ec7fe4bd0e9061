"""A small log that was made by hand, whose figures can be told without a computer."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from reenact.domain.loop.events import (
    AskedCall,
    HumanApproveRequired,
    ToolApproved,
    ToolPending,
    ToolRejected,
    ToolResult,
    ToolStarted,
)
from reenact.domain.messages import TextBlock, ToolResultBlock, ToolUseBlock, Usage
from reenact.domain.session.agent import (
    AgentStarted,
    AnswerRecorded,
    ContextCompressed,
    Failure,
    MessageAccepted,
    ResultsRecorded,
    StepStarted,
    ToolsRequested,
    TurnCompleted,
    TurnContinued,
    TurnFailed,
    TurnStarted,
)
from reenact.domain.session.state import SessionBranched, SessionCreated, SessionDeleted
from reenact.domain.stream.events import Outcome
from reenact.projections.log import Log
from reenact.projections.read_model.queries import ReadModel
from reenact.projections.read_model.rows import Value
from tests.projections.histories import ListLog, Recorded

MONDAY: Final = 1_767_571_200_000_000
"""2026-01-05 00:00 UTC."""
TUESDAY: Final = MONDAY + 86_400_000_000
SECOND: Final = 1_000_000


def at_utc(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / SECOND, UTC)


class TimedLog(ListLog):
    """A log whose events are recorded when it is said."""

    at = MONDAY

    def append(self, stream: str, *events: object, cause: bytes | None = None) -> int:
        for event in events:
            version = sum(row.stream == stream for row in self.rows) + 1
            self.rows.append(Recorded(stream, version, len(self.rows) + 1, self.at, event, cause=cause))
        return len(self.rows)

    def tell(self, session_id: str, at: int, *events: object) -> None:
        """Record these events of the session at that time."""
        self.at = at
        self.append(f"session/{session_id}", *events)


class Held:
    """The tables of a log, which is in memory."""

    def __init__(self, model: ReadModel, log: Log) -> None:
        self.model = model
        self._log = log

    def query(self, statement: str, /, **values: Value) -> list[tuple[Value, ...]]:
        return self.model.select(statement, values)

    def position(self) -> int:
        return self._log.head()


@contextmanager
def tables_of(log: Log) -> Generator[Held]:
    with ReadModel.of(log) as model:
        yield Held(model, log)


def used(given: int, spoken: int, cached: int = 0, written: int = 0) -> Usage:
    usage = {
        "input_tokens": given,
        "output_tokens": spoken,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
    }
    return {name: count for name, count in usage.items() if count}


def _answer(
    turn: str,
    usage: Usage,
    *calls: ToolUseBlock,
    model: str | None = "opus",
    cost: float | None = None,
    first: float | None = None,
) -> AnswerRecorded:
    content = calls or (TextBlock("It is so."),)
    reason = "tool_use" if calls else "end_turn"
    return AnswerRecorded(turn, f"m{turn}", content, reason, False, usage, model, 0, cost, first_delta=first)  # noqa: FBT003


def _begin(turn: str) -> tuple[MessageAccepted, TurnStarted]:
    return MessageAccepted(turn, f"q{turn}", (TextBlock("Is it?"),), 0), TurnStarted(turn, 0)


def _end(turn: str, outcome: Outcome = "completed", seconds: float = 1.0, usage: Usage | None = None) -> TurnCompleted:
    failure = Failure("overloaded_error", "busy") if outcome == "failed" else None
    return TurnCompleted(turn, outcome, outcome, usage or {}, seconds, "thinking", failure)


def _results(turn: str, *ids: str) -> ResultsRecorded:
    return ResultsRecorded(turn, f"r{turn}", tuple(ToolResultBlock(id_, "found") for id_ in ids), 0)


def small_log() -> TimedLog:
    """Return two sessions and a branch, on two days.

    On Monday `one` asks for a search and for a payment, which waits 90 s for a person who approves it; the payment
    fails. On Tuesday it fails, and is compressed. `two`, whose model nobody has priced, has a call denied and one
    rejected after 30 s. `three` branches off while the payment of `one` waits, and waits still.
    """
    log = TimedLog()
    search, pay = ToolUseBlock("s", "search", {}), ToolUseBlock("p", "pay", {})
    log.tell("one", MONDAY, SessionCreated("one", "office", "clerk", 1), AgentStarted("a1"))
    log.tell("one", MONDAY, *_begin("t1"))
    asked = HumanApproveRequired(session_id="one", calls=(AskedCall("p", "pay", {}, "d"),))
    log.tell(
        "one",
        MONDAY + SECOND,
        _answer("t1", used(100, 20, cached=50), search, pay, cost=0.5, first=0.25),
        ToolsRequested("t1", "responding"),
        ToolStarted(id="s", name="search"),
        asked,
        ToolPending(ids=("p",)),
    )
    log.tell("one", MONDAY + 3 * SECOND, ToolResult(id="s", name="search", result="x", cost=0.125))
    log.tell("one", MONDAY + 3 * SECOND, _end("t1", "waiting", 3.0, used(100, 20, cached=50)))
    branched = SessionBranched("three", "lab", "scout", 1, "one", len(log.rows), "")
    log.tell("three", MONDAY + 10 * SECOND, branched)
    log.tell(
        "one",
        MONDAY + 91 * SECOND,
        ToolApproved(id="p", digest="d", by="ada"),
        TurnContinued("t2", 0),
        ToolStarted(id="p", name="pay"),
    )
    log.tell("one", MONDAY + 95 * SECOND, ToolResult(id="p", name="pay", result="no money", is_error=True))
    log.tell("one", MONDAY + 95 * SECOND, _results("t2", "s", "p"), StepStarted("t2", 2, 0))
    log.tell("one", MONDAY + 97 * SECOND, _answer("t2", used(10, 5), cost=0.25, first=0.75), _end("t2", seconds=6.0))
    log.tell("one", TUESDAY, *_begin("t3"))
    summary = ContextCompressed("t3", "short", 2, used(1000, 100), "haiku", 0.0625, 0)
    log.tell("one", TUESDAY, summary, TurnFailed("t3", Failure("overloaded_error", "busy")), _end("t3", "failed", 2.0))

    drop, send = ToolUseBlock("d", "drop", {}), ToolUseBlock("e", "send", {})
    log.tell("two", TUESDAY, SessionCreated("two", "lab", "scout", 1), AgentStarted("a2"), *_begin("t4"))
    log.tell(
        "two",
        TUESDAY + SECOND,
        _answer("t4", used(7, 3, written=2), drop, send, model="llama"),
        ToolsRequested("t4", "thinking"),
        ToolResult(id="d", name="drop", result="no", is_error=True, ran=False, denied=True),
        HumanApproveRequired(session_id="two", calls=(AskedCall("e", "send", {}, "d"),)),
        ToolPending(ids=("e",)),
        _end("t4", "waiting", 1.0, used(7, 3, written=2)),
    )
    log.tell(
        "two",
        TUESDAY + 31 * SECOND,
        ToolRejected(id="e", reason="no", by="bob"),
        ToolResult(id="e", name="send", result="no", is_error=True, ran=False),
        TurnContinued("t5", 0),
        _results("t5", "d", "e"),
        StepStarted("t5", 2, 0),
    )
    log.tell("two", TUESDAY + 32 * SECOND, _answer("t5", used(1, 1), model="llama", first=0.5), _end("t5"))
    log.tell("two", TUESDAY + 33 * SECOND, SessionDeleted("two"))
    return log
