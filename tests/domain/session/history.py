"""What a session's history says when it is read naively: facts counted and looked up, nothing folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from reenact.domain.loop.calls import content_of
from reenact.domain.loop.events import (
    HumanApproveRequired,
    HumanPromptRequired,
    HumanSelectRequired,
    ToolApproved,
    ToolEdited,
    ToolPending,
    ToolResult,
    ToolStarted,
)
from reenact.domain.loop.rules import Rules
from reenact.domain.messages import Said, ToolResultBlock, ToolUseBlock, Usage
from reenact.domain.plain import JsonObject
from reenact.domain.session.agent import (
    AnswerRecorded,
    ContextCompressed,
    MessageAccepted,
    ResultsRecorded,
    StepStarted,
    ToolsRequested,
    TurnCompleted,
    TurnContinued,
    TurnStarted,
)
from reenact.domain.session.state import SessionDeleted, SessionEvent


class Fact(msgspec.Struct, frozen=True):
    """An event, and the rules under which it was decided."""

    event: SessionEvent
    rules: Rules


class Asked(msgspec.Struct, frozen=True):
    """The calls of one answer, and what happened from then on until their results went back."""

    turn_id: str
    calls: dict[str, ToolUseBlock]
    before: Sequence[Fact]
    facts: Sequence[Fact]

    @property
    def events(self) -> list[SessionEvent]:
        return [fact.event for fact in self.facts]

    @property
    def results(self) -> ResultsRecorded | None:
        return next((event for event in self.events if isinstance(event, ResultsRecorded)), None)

    @property
    def waiting(self) -> list[str]:
        waiting: list[str] = []
        for event in self.events:
            if isinstance(event, ToolPending):
                waiting.extend(event.ids)
            elif isinstance(event, ToolApproved | ToolResult) and event.id in waiting:
                waiting.remove(event.id)
        return waiting

    @property
    def running(self) -> list[str]:
        return [id_ for id_ in self.calls if isinstance(self._last(id_), ToolStarted)]

    @property
    def answered(self) -> dict[str, ToolResult]:
        return {event.id: event for event in self.events if isinstance(event, ToolResult)}

    @property
    def questions(self) -> dict[str, HumanPromptRequired | HumanSelectRequired]:
        return {
            event.id: event
            for event in self.events
            if isinstance(event, HumanPromptRequired | HumanSelectRequired) and event.id is not None
        }

    @property
    def digests(self) -> dict[str, str]:
        """What approvals are bound to, as people were told last."""
        required = (event for event in self.events if isinstance(event, HumanApproveRequired))
        return {call.id: call.digest for event in required for call in event.calls}

    @property
    def revision(self) -> str:
        """The revision of the policies under which people were asked last."""
        return [event.revision for event in self.events if isinstance(event, HumanApproveRequired)][-1]

    def arguments(self, id_: str, *, until: int | None = None) -> JsonObject:
        edits = (event for event in self.events[:until] if isinstance(event, ToolEdited) and event.id == id_)
        return [self.calls[id_].input, *(edit.edited for edit in edits)][-1]

    def said(self) -> list[tuple[str, JsonObject]]:
        """The calls as they were asked for."""
        return [(call.name, call.input) for call in self.calls.values()]

    def came_to(self) -> list[tuple[str, JsonObject, object, bool]]:
        """The calls as they were decided, with their results."""
        return [
            (call.name, self.arguments(id_), content_of(self.answered[id_].result), self.answered[id_].is_error)
            for id_, call in self.calls.items()
        ]

    def _last(self, id_: str) -> SessionEvent | None:
        mentions = [
            event
            for event in self.events
            if (isinstance(event, ToolStarted | ToolResult) and event.id == id_)
            or (isinstance(event, ToolPending) and id_ in event.ids)
        ]
        return mentions[-1] if mentions else None


def all_asked(facts: Sequence[Fact]) -> list[Asked]:
    """Return every round of calls that the history tells of."""
    found: list[Asked] = []
    for number, fact in enumerate(facts):
        if isinstance(fact.event, ToolsRequested):
            answer = facts[number - 1].event
            assert isinstance(answer, AnswerRecorded)
            calls = {block.id: block for block in answer.content if isinstance(block, ToolUseBlock)}
            rest = facts[number:]
            ends = [place for place, one in enumerate(rest) if isinstance(one.event, ResultsRecorded)]
            found.append(Asked(fact.event.turn_id, calls, facts[:number], rest[: ends[0] + 1] if ends else rest))
    return found


def open_asked(facts: Sequence[Fact]) -> Asked | None:
    """Return the round whose results have not gone back, if there is one."""
    asked = all_asked(facts)
    return asked[-1] if asked and asked[-1].results is None else None


def turn_under_way(facts: Sequence[Fact]) -> str | None:
    """Return the turn that has begun and not ended."""
    begun = begun_turns(facts)
    ended = {fact.event.turn_id for fact in facts if isinstance(fact.event, TurnCompleted)}
    under_way = [turn for turn in begun if turn not in ended]
    assert len(under_way) <= 1
    return under_way[0] if under_way else None


def begun_turns(facts: Sequence[Fact]) -> list[str]:
    """Return all turns in the order in which they began."""
    return [fact.event.turn_id for fact in facts if isinstance(fact.event, TurnStarted | TurnContinued)]


def queue(facts: Sequence[Fact]) -> list[str]:
    """Return the turns that wait for their beginning."""
    accepted = [fact.event.turn_id for fact in facts if isinstance(fact.event, MessageAccepted)]
    gone = {fact.event.turn_id for fact in facts if isinstance(fact.event, TurnStarted | TurnCompleted)}
    return [turn for turn in accepted if turn not in gone]


def spent(facts: Iterable[Fact], turn_id: str | None = None) -> list[tuple[str, Usage, float | None]]:
    """Return what was used, in the whole session or in one turn: by which model or tool, how much, at what cost."""
    found: list[tuple[str, Usage, float | None]] = []
    current: str | None = None
    for event in (fact.event for fact in facts):
        if isinstance(event, TurnStarted | TurnContinued):
            current = event.turn_id
        if turn_id is not None and current != turn_id:
            continue
        match event:
            case AnswerRecorded() | ContextCompressed():
                found.append((f"model {event.model or ''}", event.usage, event.cost))
            case ToolResult() if event.ran:
                found.append((f"tool {event.name}", {}, event.cost))
            case TurnCompleted() if event.unsaid is not None:
                found.append((f"model {event.unsaid.model or ''}", event.unsaid.usage, event.unsaid.cost))
            case _:
                pass
    return found


def cost(facts: Iterable[Fact], turn_id: str | None = None) -> float:
    """Return the sum of all costs that are known."""
    return sum(each or 0.0 for _, _, each in spent(facts, turn_id))


def usage(facts: Iterable[Fact], turn_id: str | None = None) -> Counter[str]:
    """Return the sums of all token counts."""
    total: Counter[str] = Counter()
    for _, each, _ in spent(facts, turn_id):
        total.update(each)
    return total


def requests(facts: Sequence[Fact], turn_id: str) -> int:
    """Return how often the model was asked in the turn."""
    return sum(isinstance(fact.event, TurnStarted | StepStarted) and fact.event.turn_id == turn_id for fact in facts)


def line_of(facts: Sequence[Fact], turn_id: str) -> list[str]:
    """Return the turn and those that it continues, the last one first."""
    line = [turn_id]
    for number in range(len(facts) - 1, -1, -1):
        event = facts[number].event
        if isinstance(event, TurnContinued) and event.turn_id == line[-1]:
            ended = [fact.event for fact in facts[:number] if isinstance(fact.event, TurnCompleted)]
            if ended and ended[-1].outcome == "waiting":
                line.append(ended[-1].turn_id)
    return line


def requests_in_line(facts: Sequence[Fact], turn_id: str) -> int:
    """Return how often the model was asked in the turn and in those that it continues."""
    return sum(requests(facts, one) for one in line_of(facts, turn_id))


def is_deleted(facts: Sequence[Fact]) -> bool:
    return any(isinstance(fact.event, SessionDeleted) for fact in facts)


def check_pairs(conversation: Sequence[Said], whole: set[str], open_ids: set[str]) -> None:
    """Hold a conversation to the rules of the Messages API about calls and their results.

    `whole` are the calls of answers that were made to be answered; those with `open_ids` are not, yet.
    """
    seen: set[str] = set()
    for number, said in enumerate(conversation):
        following = conversation[number + 1].content if number + 1 < len(conversation) else ()
        answers = [block.tool_use_id for block in following if isinstance(block, ToolResultBlock)]
        calls = [block.id for block in said.content if isinstance(block, ToolUseBlock)]
        assert seen.isdisjoint(calls)
        assert len(calls) == len(set(calls))
        seen.update(calls)
        if said.role == "user":
            assert not calls
            assert not answers, "results follow the answer that asks for them"
        elif whole.intersection(calls):
            assert whole.issuperset(calls)
            assert answers == ([] if open_ids.intersection(calls) else calls)
            assert all(isinstance(block, ToolResultBlock) for block in following[: len(answers)])
        else:
            assert not answers
    if conversation:
        assert not any(isinstance(block, ToolResultBlock) for block in conversation[0].content)
