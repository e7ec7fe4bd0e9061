"""A naive reading of a history: every answer from all events, again each time, and no state between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Final, NamedTuple, TypeVar

from reenact.domain.container import ContainerCreated, ContainerInfo
from reenact.domain.image import ImageInfo, ImageRegistered
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
from reenact.domain.loop.ledger import Spent
from reenact.domain.loop.rounds import Stage
from reenact.domain.messages import EPOCH, Message, StopDetails, ToolUseBlock, instant
from reenact.domain.session.agent import (
    AgentInfo,
    AgentStarted,
    AgentStopped,
    AnswerRecorded,
    ContextCompressed,
    ImageChanged,
    MessageAccepted,
    MessageScheduled,
    ResultsRecorded,
    ScheduleCancelled,
    ScheduleFired,
    StepStarted,
    ToolsRequested,
    TurnCompleted,
    TurnContinued,
    TurnStarted,
)
from reenact.domain.session.announce import answer, question
from reenact.domain.session.schedules import Schedule
from reenact.domain.session.state import BranchPoint, SessionBranched, SessionCreated, SessionDeleted, SessionInfo
from reenact.domain.session.told import Decision, ToolCallInfo
from reenact.domain.stream.events import AgentState, Outcome
from tests.projections.histories import Recorded, lineage, stream_of

E = TypeVar("E")
Rows = Sequence[Recorded]
DECIDED: Final[dict[type, Decision]] = {
    ToolEdited: "edited",
    ToolApproved: "approved",
    ToolRejected: "rejected",
    HumanResponded: "answered",
}


class Turn(NamedTuple):
    """A turn, without its times."""

    id: str
    message_id: str
    outcome: Outcome | None
    stop_reason: str | None
    steps: int
    model: str | None
    cost: float | None
    stop_sequence: str | None
    stop_details: StopDetails | None


def of(rows: Rows, kind: type[E]) -> Iterator[tuple[Recorded, E]]:
    """Yield the events of the kind, each with its row."""
    for row in rows:
        if isinstance(row.event, kind):
            yield row, row.event


def containers(rows: Rows) -> list[ContainerInfo]:
    return [
        ContainerInfo(id=event.container_id, name=event.name, created_at=instant(row.recorded_at))
        for row, event in of(rows, ContainerCreated)
    ]


def images(rows: Rows) -> list[ImageInfo]:
    newest = {event.image_id: event for _, event in of(rows, ImageRegistered)}
    return [
        ImageInfo(
            id=event.image_id,
            name=newest[event.image_id].definition.name,
            model=newest[event.image_id].definition.model,
            system_prompt=newest[event.image_id].definition.system_prompt,
            max_tokens=newest[event.image_id].definition.max_tokens,
            revision=newest[event.image_id].revision,
            created_at=instant(row.recorded_at),
        )
        for row, event in of(rows, ImageRegistered)
        if event.revision == 1
    ]


def sessions(rows: Rows) -> list[SessionInfo]:
    deleted = {event.session_id for _, event in of(rows, SessionDeleted)}
    return [
        SessionInfo(
            id=event.session_id,
            container_id=event.container_id,
            image_id=_on(rows, row, event).image_id,
            image_revision=_on(rows, row, event).image_revision,
            created_at=instant(row.recorded_at),
            origin=_branch_point(rows, event),
        )
        for row, event in _begun(rows)
        if event.session_id not in deleted
    ]


def _on(
    rows: Rows, begun: Recorded, event: SessionCreated | SessionBranched
) -> SessionCreated | SessionBranched | ImageChanged:
    """Return what says on which image the session is now."""
    changes = [changed for row, changed in of(rows, ImageChanged) if row.stream == begun.stream]
    return changes[-1] if changes else event


def _begun(rows: Rows) -> list[tuple[Recorded, SessionCreated | SessionBranched]]:
    begun = [(row, row.event) for row in rows if isinstance(row.event, SessionCreated | SessionBranched)]
    return sorted(begun, key=lambda one: one[0].position)


def _branch_point(rows: Rows, event: SessionCreated | SessionBranched) -> BranchPoint | None:
    if isinstance(event, SessionCreated):
        return None
    of_origin = [row for row in rows if row.stream == stream_of(event.origin)]
    return BranchPoint(session_id=event.origin, position=of_origin[event.version - 1].position, version=event.version)


def schedules(rows: Rows, session_id: str | None = None) -> list[Schedule]:
    """Return the messages that are to come: by their times, those of one time by their places in the log."""
    found: list[Schedule] = []
    for row, event in of(rows, MessageScheduled):
        id_, mine = row.stream.removeprefix("session/"), [one for one in rows if one.stream == row.stream]
        dues: list[int | None] = [event.due]
        dues += [fired.then for _, fired in of(mine, ScheduleFired) if fired.schedule_id == event.schedule_id]
        over = [one for _, one in of(mine, ScheduleCancelled) if one.schedule_id == event.schedule_id]
        due, is_deleted = dues[-1], any(isinstance(one.event, SessionDeleted) for one in mine)
        if due is None or over or is_deleted or session_id not in (None, id_):
            continue
        found.append(
            Schedule(
                id=event.schedule_id,
                session_id=id_,
                content=event.content,
                at=instant(due),
                every=None if event.every is None else event.every / 1_000_000,
                until=None if event.until is None else instant(event.until),
                created_at=instant(row.recorded_at),
            )
        )
    return sorted(found, key=lambda one: one.at)


def agents(rows: Rows) -> list[AgentInfo]:
    stopped = {event.agent_id for _, event in of(rows, AgentStopped)}
    return [_agent(rows, row, event) for row, event in of(rows, AgentStarted) if event.agent_id not in stopped]


def _agent(rows: Rows, start: Recorded, event: AgentStarted) -> AgentInfo:
    first, session = next((row, begun) for row, begun in _begun(rows) if row.stream == start.stream)
    mine = [row for row in rows if row.stream == start.stream]
    since = [row for row in mine if row.position > start.position]
    over = {done.turn_id for _, done in of(mine, TurnCompleted)}
    begun = {started.turn_id for _, started in of(mine, TurnStarted)}
    under_way = [turn_id for _, turn_id in _beginnings(since) if turn_id not in over]
    return AgentInfo(
        id=event.agent_id,
        session_id=session.session_id,
        container_id=session.container_id,
        image_id=_on(rows, first, session).image_id,
        state=_activity(since) if under_way else _rest(rows, session.session_id, since),
        turn_id=under_way[0] if under_way else None,
        queued=sum(accepted.turn_id not in begun | over for _, accepted in of(mine, MessageAccepted)),
        started_at=instant(start.recorded_at),
    )


def _beginnings(rows: Rows) -> list[tuple[Recorded, str]]:
    """Return where turns begin, and which."""
    begun = [(row, event.turn_id) for row, event in of(rows, TurnStarted)]
    begun += [(row, event.turn_id) for row, event in of(rows, TurnContinued)]
    return sorted(begun, key=lambda one: one[0].position)


def _activity(since: Rows) -> AgentState:
    at: AgentState = "idle"
    for row in since:
        match row.event:
            case TurnStarted() | StepStarted():
                at = "thinking"
            case ToolsRequested(from_state=state):
                at = state
            case ToolStarted():
                at = "tool_executing"
            case TurnContinued():
                at = "waiting_for_human_input"
            case _:
                pass
    return at


def _rest(rows: Rows, session_id: str, since: Rows) -> AgentState:
    if pending(rows, session_id):
        return "waiting_for_human_input"
    outcomes = [done.outcome for _, done in of(since, TurnCompleted)]
    return "error" if outcomes[-1:] == ["failed"] else "idle"


def messages(rows: Rows, session_id: str) -> list[Message]:
    mine = _of_session(rows, session_id)
    return [
        message for _, asked in of(mine, MessageAccepted) for message in [question(asked), *_said(_about(mine, asked))]
    ]


def _said(rows: Rows) -> Iterator[Message]:
    for row in rows:
        if isinstance(row.event, AnswerRecorded):
            yield answer(row.event)
        elif isinstance(row.event, ResultsRecorded):
            yield question(row.event)


def _about(mine: Rows, asked: MessageAccepted) -> list[Recorded]:
    """Return what happened from when the message was taken up until the next one was."""
    starts = [(row.position, started.turn_id) for row, started in of(mine, TurnStarted)]
    begin = next((position for position, turn_id in starts if turn_id == asked.turn_id), None)
    if begin is None:
        return []
    end = next((position for position, _ in starts if position > begin), float("inf"))
    return [row for row in mine if begin <= row.position < end]


def turns(rows: Rows, session_id: str) -> list[Turn]:
    """Return the turns in order: what they are about, how they ended, and what was used in them."""
    mine = _of_session(rows, session_id)
    return [
        _turn(mine, turn_id, asked.message_id)
        for _, asked in of(mine, MessageAccepted)
        for turn_id in [asked.turn_id, *(go_on.turn_id for _, go_on in of(_about(mine, asked), TurnContinued))]
    ]


def _turn(mine: Rows, turn_id: str, message_id: str) -> Turn:
    end = next((done for _, done in of(mine, TurnCompleted) if done.turn_id == turn_id), None)
    begun = any(started.turn_id == turn_id for _, started in of(mine, TurnStarted))
    steps = sum(step.turn_id == turn_id for _, step in of(mine, StepStarted))
    models = [said.model for _, said in of(mine, AnswerRecorded) if said.turn_id == turn_id]
    return Turn(
        turn_id,
        message_id,
        None if end is None else end.outcome,
        None if end is None else end.stop_reason,
        begun + steps,
        models[-1] if models else None,
        _cost(mine, turn_id) if end is None else end.cost,
        None if end is None else end.stop_sequence,
        None if end is None else end.stop_details,
    )


def _cost(mine: Rows, turn_id: str) -> float | None:
    """Return what the turn under way has cost so far."""
    begin = next((row.position for row, begun in _beginnings(mine) if begun == turn_id), None)
    if begin is None:
        return None
    costs = [(row.position, event.cost) for row, event in of(mine, AnswerRecorded)]
    costs += [(row.position, event.cost) for row, event in of(mine, ContextCompressed)]
    costs += [(row.position, event.cost) for row, event in of(mine, ToolResult)]
    known = [cost for position, cost in sorted(costs) if position > begin and cost is not None]
    return reduce(add, known) if known else None


def calls(rows: Rows, session_id: str) -> list[ToolCallInfo]:
    mine = _of_session(rows, session_id)
    found: list[ToolCallInfo] = []
    for row, requested in of(mine, ToolsRequested):
        said = [said for before, said in of(mine, AnswerRecorded) if before.position < row.position][-1]
        end = next((after.position for after, _ in of(mine, ResultsRecorded) if after.position > row.position), None)
        since = [one for one in mine if row.position < one.position <= (end or one.position)]
        uses = [block for block in said.content if isinstance(block, ToolUseBlock)]
        found += [_call(since, use, said.message_id, requested.turn_id, session_id) for use in uses]
    return found


def _call(since: Rows, use: ToolUseBlock, message_id: str, turn_id: str, session_id: str) -> ToolCallInfo:
    asked = [row for row, event in of(since, ToolPending) if use.id in event.ids]
    reasons = [one.reason for _, event in of(since, HumanApproveRequired) for one in event.calls if one.id == use.id]
    deciding = [
        row
        for row in since
        if isinstance(row.event, ToolEdited | ToolApproved | ToolRejected | HumanResponded) and row.event.id == use.id
    ]
    edits = [event for _, event in of(since, ToolEdited) if event.id == use.id]
    starts = [row for row, event in of(since, ToolStarted) if event.id == use.id]
    ends = [(row, event) for row, event in of(since, ToolResult) if event.id == use.id]
    approvals = [row for row, event in of(since, ToolApproved) if event.id == use.id]
    result = ends[0][1] if ends else None
    stage: Stage = (
        "answered" if ends else "running" if starts else "ready" if approvals else "waiting" if asked else "ready"
    )
    return ToolCallInfo(
        id=use.id,
        session_id=session_id,
        turn_id=turn_id,
        message_id=message_id,
        name=use.name,
        arguments=edits[-1].edited if edits else use.input,
        stage=stage,
        result=None if result is None else result.result,
        is_error=result is not None and result.is_error,
        ran=result is not None and result.ran,
        cost=None if result is None else result.cost,
        attempts=len(starts),
        asked_at=instant(asked[0].recorded_at) if asked else None,
        reason=reasons[-1] if reasons else "",
        decision=DECIDED[type(deciding[0].event)] if deciding else None,
        decided_by=getattr(deciding[0].event, "by", None) if deciding else None,
        decided_at=instant(deciding[-1].recorded_at) if deciding else None,
        original=use.input if edits else None,
        started_at=instant(starts[-1].recorded_at) if starts else None,
        ended_at=instant(ends[0][0].recorded_at) if ends else None,
    )


def pending(rows: Rows, session_id: str) -> list[tuple[str, str, str]]:
    """Return the calls that wait: their ids, their turns, and what a person is asked for."""
    mine = _of_session(rows, session_id)
    kinds: dict[str, str] = {}
    for row in mine:
        match row.event:
            case HumanApproveRequired():
                kinds |= {one.id: "approval" for one in row.event.calls}
            case HumanPromptRequired() | HumanSelectRequired():
                kinds[row.event.id or ""] = row.event.type.split("_")[1]
            case _:
                pass
    return [(call.id, call.turn_id, kinds[call.id]) for call in calls(rows, session_id) if call.stage == "waiting"]


def usage(rows: Rows, session_id: str) -> dict[tuple[str, str], Spent]:
    """Return what was used, by what kind of thing, by its name."""
    return _usage(_of_session(rows, session_id))


def _usage(mine: Rows) -> dict[tuple[str, str], Spent]:
    totals: dict[tuple[str, str], Spent] = {}
    in_turn: Counter[tuple[str, str]] = Counter()
    for row in mine:
        match row.event:
            case AnswerRecorded() | ContextCompressed():
                used = counts(row.event.usage)
                in_turn.update({(row.event.turn_id, kind): count for kind, count in used.items()})
                _add(totals, ("model", row.event.model or ""), used, row.event.cost)
            case ToolResult(ran=True):
                _add(totals, ("tool", row.event.name), {}, row.event.cost)
            case TurnCompleted():
                turn_id, unsaid = row.event.turn_id, row.event.unsaid
                rest = Counter(counts(row.event.usage)) - Counter(
                    {kind: count for (turn, kind), count in in_turn.items() if turn == turn_id}
                )
                model, cost = ("", None) if unsaid is None else (unsaid.model or "", unsaid.cost)
                if rest:
                    _add(totals, ("model", model), dict(rest), cost)
            case _:
                pass
    return totals


def counts(used: Mapping[str, object]) -> dict[str, int]:
    return {kind: count for kind, count in used.items() if isinstance(count, int) and count}


def _add(
    totals: dict[tuple[str, str], Spent], by: tuple[str, str], used: Mapping[str, int], cost: float | None
) -> None:
    spent = totals.get(by, Spent())
    totals[by] = Spent(
        spent.calls + 1,
        dict(Counter(spent.usage) + Counter(used)),
        spent.cost + (cost or 0.0),
        spent.unpriced + (cost is None),
    )


def activity(rows: Rows) -> list[tuple[str, int, int, int, str, str | None, int, int]]:
    """Return what the lists say of each session: its own events, how it is, how its turns ended, and its tokens."""
    return [_activity_of(rows, session.id) for session in sessions(rows)]


def _activity_of(rows: Rows, session_id: str) -> tuple[str, int, int, int, str, str | None, int, int]:
    own = [row for row in rows if row.stream == stream_of(session_id)]
    ended = [done.outcome for _, done in of(own, TurnCompleted)]
    asked = any(True for _ in of(_history(rows, session_id), MessageAccepted))
    over = {done.turn_id for _, done in of(own, TurnCompleted)}
    queued = any(accepted.turn_id not in over for _, accepted in of(own, MessageAccepted))
    is_run = any(agent.session_id == session_id for agent in agents(rows))
    if pending(rows, session_id):
        state = "waits"
    elif _is_at_work(rows, session_id) or (is_run and queued):
        state = "live"
    elif ended[-1:] == ["failed"]:
        state = "failed"
    else:
        state = "idle" if asked else "new"
    history = _history(rows, session_id)
    shared = history[: len(history) - len(own)]
    (all_in, all_out), (shared_in, shared_out) = _tokens(history), _tokens(shared)
    outcome = ended[-1] if ended else None
    tokens = all_in - shared_in, all_out - shared_out
    return session_id, own[-1].position, len(own), len(ended), state, outcome, *tokens


def _tokens(mine: Rows) -> tuple[int, int]:
    used = [spent.usage for spent in _usage(mine).values()]
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(one.get(name, 0) for one in used for name in names), sum(one.get("output_tokens", 0) for one in used)


Fact = tuple[str | int | float | None, ...]


def answers(rows: Rows) -> list[Fact]:
    """Return what models were used for, each session's own."""
    found: list[Fact] = []
    for row, key, before in _in_sessions(rows):
        match row.event:
            case AnswerRecorded() | ContextCompressed():
                seconds = row.event.first_delta if isinstance(row.event, AnswerRecorded) else None
                used = counts(row.event.usage)
                found.append(_use(row, key, row.event.model, used, row.event.cost, seconds))
            case TurnCompleted(turn_id=turn_id, unsaid=unsaid):
                known: Counter[str] = Counter()
                for one in before:
                    if isinstance(one.event, AnswerRecorded | ContextCompressed) and one.event.turn_id == turn_id:
                        known.update(counts(one.event.usage))
                rest = Counter(counts(row.event.usage)) - known
                model, cost = (None, None) if unsaid is None else (unsaid.model, unsaid.cost)
                if rest:
                    found.append(_use(row, key, model, rest, cost, None))
            case _:
                pass
    return found


def _use(row: Recorded, key: int, model: str | None, used: Mapping[str, int], *spent: float | None) -> Fact:
    cached = used.get("cache_read_input_tokens", 0)
    given = used.get("input_tokens", 0) + used.get("cache_creation_input_tokens", 0) + cached
    spoken = used.get("output_tokens", 0)
    return row.position, key, *_when(row), model or "", given, spoken, cached, *spent


def turn_ends(rows: Rows) -> list[Fact]:
    """Return the ends of turns, in the sessions in which they began."""
    found: list[Fact] = []
    for row, key, before in _in_sessions(rows):
        if isinstance(row.event, TurnCompleted):
            turn_id, failure = row.event.turn_id, row.event.failure
            events = [one.event for one in before if one.stream == row.stream]
            begun = {one.turn_id for one in events if isinstance(one, MessageAccepted | TurnContinued)}
            started = {one.turn_id for one in events if isinstance(one, TurnStarted | TurnContinued)}
            models = [one.model for one in events if isinstance(one, AnswerRecorded) and one.turn_id == turn_id]
            error = None if failure is None else failure.type
            seconds = row.event.duration if turn_id in started else None
            if turn_id in begun:
                model = models[-1] or "" if models else ""
                found.append((row.position, key, *_when(row), model, row.event.outcome, error, seconds))
    return found


def call_ends(rows: Rows) -> list[Fact]:
    """Return the results of calls, in the sessions in which these were started or denied."""
    found: list[Fact] = []
    for row, key, before in _in_sessions(rows):
        match row.event:
            case ToolResult(id=id_, name=name, is_error=is_error, ran=ran, denied=denied, cost=cost):
                answer = [one.position for one, _ in of(before, AnswerRecorded)][-1]
                starts = [one.recorded_at for one, event in of(before, ToolStarted) if event.id == id_]
                own = [one for one, event in of(before, ToolStarted) if event.id == id_ and one.stream == row.stream]
                seconds = (row.recorded_at - starts[-1]) / 1_000_000 if ran else None
                if denied or (ran and own):
                    of_call = row.position, key, *_when(row), answer, name
                    found.append((*of_call, int(ran and is_error), int(denied), seconds, cost))
            case _:
                pass
    return found


def decisions(rows: Rows) -> list[Fact]:
    """Return what people decided; an edited call that is approved is one decision."""
    found: list[Fact] = []
    for row, key, before in _in_sessions(rows):
        match row.event:
            case ToolApproved(id=id_) | ToolEdited(id=id_) | ToolRejected(id=id_) | HumanResponded(id=id_):
                asked = [one.recorded_at for one, event in of(before, ToolPending) if id_ in event.ids][-1]
                asker, said = [*of(before, AnswerRecorded)][-1]
                (name,) = [use.name for use in said.content if isinstance(use, ToolUseBlock) and use.id == id_]
                decision, seconds = DECIDED[type(row.event)], (row.recorded_at - asked) / 1_000_000
                if not (isinstance(row.event, ToolApproved) and isinstance(before[-1].event, ToolEdited)):
                    found.append((row.position, key, *_when(row), asker.position, name, decision, seconds))
            case _:
                pass
    return found


def _when(row: Recorded) -> tuple[int, int]:
    return row.recorded_at, (instant(row.recorded_at) - EPOCH).days


def _in_sessions(rows: Rows) -> Iterator[tuple[Recorded, int, list[Recorded]]]:
    """Yield each event of a session, the key of the session, and all that was before the event in its history."""
    for row, begun in _begun(rows):
        history = lineage(rows, begun.session_id)
        for number, one in enumerate(history):
            if one.stream == row.stream:
                yield one, row.position, history[:number]


def unfinished(rows: Rows) -> list[str]:
    stopped = {event.agent_id for _, event in of(rows, AgentStopped)}
    live = {row.stream for row, event in of(rows, AgentStarted) if event.agent_id not in stopped}
    return [
        begun.session_id for row, begun in _begun(rows) if row.stream in live or _is_at_work(rows, begun.session_id)
    ]


def _is_at_work(rows: Rows, session_id: str) -> bool:
    mine = _history(rows, session_id)
    over = {done.turn_id for _, done in of(mine, TurnCompleted)}
    return any(turn_id not in over for _, turn_id in _beginnings(mine))


def _of_session(rows: Rows, session_id: str) -> list[Recorded]:
    return _history(rows, session_id) if session_id in {session.id for session in sessions(rows)} else []


def _history(rows: Rows, session_id: str) -> list[Recorded]:
    """Return what has happened in a session and in those it goes on with, but for messages that waited there."""
    history: list[Recorded] = []
    for row in lineage(rows, session_id):
        if isinstance(row.event, SessionBranched):
            history = _without_what_waits(history)
        history.append(row)
    return history


def _without_what_waits(history: Rows) -> list[Recorded]:
    begun = {started.turn_id for _, started in of(history, TurnStarted)}
    waiting = {accepted.turn_id for _, accepted in of(history, MessageAccepted)} - begun
    return [
        row
        for row in history
        if not (isinstance(row.event, MessageAccepted | TurnCompleted) and row.event.turn_id in waiting)
    ]
