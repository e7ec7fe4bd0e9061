"""What becomes of a question: gathered from the events of its turns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from reenact.cli.calls import CallMade, Calls
from reenact.cli.failures import Problem, problem_of_turn
from reenact.domain.events import AssistantMessage, Envelope, ErrorMessage, TurnCompleted
from reenact.domain.loop.ledger import sum_of
from reenact.domain.messages import StopDetails, Usage
from reenact.domain.people import PendingCall
from reenact.domain.session_state import plus_cost
from reenact.domain.turns import REJECTED

BETWEEN_MESSAGES = "\n\n"
"""What stands between two messages of one answer: before and after the calls of tools."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a question; it `waits` while a person has to decide about a call, and then has no problem."""

    session_id: str
    agent_id: str = ""
    turn_id: str | None = None
    text: str = ""
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: StopDetails | None = None
    usage: Usage = {}
    cost: float | None = None
    duration: float = 0.0
    tool_calls: tuple[CallMade, ...] = ()
    waits: bool = False
    problem: Problem | None = None

    def then(self, later: Answer) -> Answer:
        """Return this answer and what came of it after a person's decision, as one."""
        return msgspec.structs.replace(
            later,
            turn_id=later.turn_id or self.turn_id,
            text=BETWEEN_MESSAGES.join(filter(None, (self.text, later.text))),
            usage=sum_of(self.usage, later.usage) if self.usage else later.usage,
            cost=plus_cost(self.cost, later.cost),
            duration=self.duration + later.duration,
            tool_calls=tuple({call.id: call for call in (*self.tool_calls, *later.tool_calls)}.values()),
        )


def unasked(session_id: str, problem: Problem) -> Answer:
    """Return the answer to what was not asked."""
    return Answer(session_id=session_id, problem=problem)


class Hearing:
    """Gathers an answer from what is heard of it, until the last of its turns is over."""

    def __init__(self, session_id: str, agent_id: str, turn_ids: Sequence[str], pending: Iterable[PendingCall]) -> None:
        """Begin with the turns that belong to the answer, and the calls that were asked for earlier."""
        self.agent_id = agent_id
        self._session_id = session_id
        self._turn_ids = turn_ids
        self._calls = Calls(pending)
        self._text: list[str] = []
        self._failure: Problem | None = None

    def is_own(self, event: Envelope) -> bool:
        """Return whether the event is of a turn that belongs to the answer."""
        return event.context.turn_id in self._turn_ids

    def hear(self, event: Envelope, why_ended: Problem) -> Answer | None:
        """Take in an event of the session; return the answer once it is over.

        `why_ended` is what ended the turn if the turn says no more than that it was interrupted.
        """
        self._calls.hear(event.data)  # a call may be answered while no turn is under way
        if not self.is_own(event):
            return None
        match event.data:
            case AssistantMessage(message=message) if message.text:
                self._text.append(message.text)
            case ErrorMessage():
                self._failure = problem_of_turn(event.data.type, event.data.message)
            case TurnCompleted(turn_id=turn_id, outcome=outcome) if turn_id == self._turn_ids[-1]:
                is_whole = outcome in ("completed", "waiting")
                problem = None if is_whole else self._failure or why_ended
                return self._answer(event.data, waits=outcome == "waiting", problem=problem)
            case _:
                pass
        return None

    def stopped(self) -> Answer:
        """Return the answer that is over without a turn: a person wanted no more of it."""
        over = TurnCompleted(turn_id="", outcome="interrupted", stop_reason=REJECTED)
        return self._answer(over, waits=False, problem=None)

    def _answer(self, turn: TurnCompleted, *, waits: bool, problem: Problem | None) -> Answer:
        return Answer(
            session_id=self._session_id,
            agent_id=self.agent_id,
            turn_id=turn.turn_id or None,
            text=BETWEEN_MESSAGES.join(self._text),
            stop_reason=turn.stop_reason,
            stop_sequence=turn.stop_sequence,
            stop_details=turn.stop_details,
            usage=turn.usage,
            cost=turn.cost,
            duration=turn.duration,
            tool_calls=self._calls.made,
            waits=waits,
            problem=problem,
        )
