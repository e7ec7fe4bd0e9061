"""The decisions about child sessions: how one begins, and how its parent handles its end.

A child reports to its parent whenever one of its turns ends. A session that was recovered, or whose agent was started,
asks its children again, so that a report lost in a crash is repeated; a repeated report has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from reenact.domain.children import Child, ChildEnded, ChildOrigin, ChildrenInterrupted, ChildStarted, Parent
from reenact.domain.loop.events import ToolResult
from reenact.domain.loop.ledger import SMALLEST, sum_of
from reenact.domain.messages import TextBlock, text_of
from reenact.domain.session import turns
from reenact.domain.session.agent import (
    AgentStarted,
    AgentStopped,
    MessageAccepted,
    ResultsRecorded,
    StopReason,
    TurnCompleted,
    TurnStarted,
)
from reenact.domain.session.child_calls import Used, awaited, child_result_text, depth_of, is_awaited, root_of, used
from reenact.domain.session.commands import (
    BeginChild,
    BranchSession,
    GiveUpChildren,
    Interrupt,
    ReportChild,
    SessionCommand,
    Stop,
)
from reenact.domain.session.state import Ended, Session, SessionBranched, SessionCreated, SessionEvent, child_of
from reenact.domain.session.turns import DecisionDraft

SECOND: Final = 1_000_000
PATIENCE: Final = 5 * SECOND
"""How long a session waits for children that it has interrupted; each level below waits a second less."""
FINISHED: Final[StopReason] = "finished"
"""The reason for which the agent of a child stops: its work is done."""
PARENT: Final = "parent"
"""The reason for which a child is interrupted: its call has ended."""
SILENT: Final = "silent"
"""The stop reason of a child that did not report how it ended."""
ERROR: Final = "error"
"""The stop reason of a turn that has failed, and of a child that could not begin."""
_REPORTED: Final = ChildEnded, SessionBranched
"""Events, besides the end of a turn, of which a child's parent is told."""
WAKE: Final = Stop(agent_id="", reason="crash", at=0)
"""A command that stops no agent, since none has this id; but its receiver asks its family."""


# Decisions


def begin(draft: DecisionDraft, command: BeginChild) -> None:
    """Begin the session with its first turn, unless it exists."""
    if draft.session.id is not None:
        return
    of_image = command.container_id, command.image_id, command.image_revision
    draft.add(
        SessionCreated(command.session_id, *of_image, command.parent, command.budget),
        AgentStarted(command.agent_id),
        MessageAccepted(command.turn_id, command.message_id, command.content, command.at),
        TurnStarted(command.turn_id, command.at),
    )


def report(draft: DecisionDraft, command: ReportChild) -> None:
    """Settle what the child has used, and continue its call, unless that has been answered."""
    session = draft.session
    child = child_of(session, command.child_id)
    if child is None or session.deleted:
        return
    steps, usage, cost = _unsettled(child, Used(command.steps, sum_of(command.usage, {}), command.cost))
    is_news = _is_news(child, command)
    if not (is_news or steps or usage or cost):
        return
    end = command.version, command.cursor, command.digest, command.at
    draft.add(ChildEnded(child.call_id, child.id, command.outcome, command.stop_reason, steps, usage, cost, *end))
    if not (is_news and child.is_open):
        return
    if child.detached and command.outcome != "waiting":
        draft.add(MessageAccepted(command.turn_id, command.message_id, command.content, command.at))
        if not session.queue and session.agent is not None:
            turns.take_up_next(draft, command)
    elif is_awaited(session, child):
        _continue_caller(draft, child, command)


def give_up(draft: DecisionDraft, command: GiveUpChildren) -> None:
    """Answer the calls whose children did not report, and end the interrupted turn."""
    interrupted = draft.session.interrupted
    if interrupted is None:
        return
    for child in awaited(draft.session):
        draft.add(ChildEnded(child.call_id, child.id, "unknown", SILENT, 0, {}, None, 0, 0, "", command.at))
        _record_result(draft, child, child_result_text(child.id, "unknown", SILENT, steps=child.steps), is_error=True)
    turns.end_interrupted(draft, command, interrupted.reason)


def rest(draft: DecisionDraft) -> None:
    """Stop the agent of a child that has completed its call, or has nothing left to do after another turn."""
    session = draft.session
    is_idle = session.turn is None and session.round is None and (not session.queue or turns.has_done_its_part(draft))
    if session.agent is not None and is_idle and any(map(ends_turn, draft.events)):
        draft.add(AgentStopped(session.agent.id, FINISHED))


# Messages within the family, once the events are durable


def ends_turn(event: SessionEvent) -> bool:
    """Return whether the event ends a turn, or records that waiting calls outside of a turn were given up."""
    return isinstance(event, TurnCompleted) or (isinstance(event, ResultsRecorded) and event.turn_id is None)


class FamilyCommand(NamedTuple):
    """A command to another session of the family. The reply to a report is sent `back_to` a session."""

    to: str
    command: SessionCommand
    back_to: str = ""


class Start(NamedTuple):
    """How a child has started: the version of the event in its parent, and its origin if it is a branch."""

    version: int
    origin: ChildOrigin | None


Ids: TypeAlias = Callable[[str], str]
Mark: TypeAlias = Callable[[], tuple[int, int, str]]
"""Returns the version and the cursor of a session's last event, and the digest of its row."""


def family_commands(
    session: Session, events: Sequence[SessionEvent], before: int, *, new_id: Ids, mark: Mark, at: int
) -> Iterator[FamilyCommand]:
    """Yield the commands to other sessions of the family that follow from the events after version `before`.

    Started children begin, children whose calls have ended are interrupted, and the parent gets a report when a turn
    ends, or has ended before a branch begins.
    """
    for version, event in enumerate(events, before + 1):
        child = child_of(session, event.child_id) if isinstance(event, ChildStarted) else None
        if isinstance(event, ChildStarted) and child is not None:
            start = Start(version, event.origin)
            yield FamilyCommand(child.id, _begin_command(session, child, start, new_id, at), session.id or "")
    for child in _children_to_interrupt(session, events):
        yield FamilyCommand(child.id, interrupting(PARENT, at))
    parent = session.parent
    if parent is not None and any(ends_turn(event) or isinstance(event, _REPORTED) for event in events):
        told = reported(session, mark, at)
        if told is not None:
            yield FamilyCommand(parent.session_id, told)


def questions(
    session: Session, starts: Callable[[], Mapping[str, Start]], *, new_id: Ids, mark: Mark, at: int
) -> Iterator[FamilyCommand]:
    """Yield the commands to other sessions of the family that a session repeats after it was loaded from its log.

    Earlier ones may have been lost, in a crash or on a full disk. A child of a deleted session does not begin. `starts`
    returns how the children have started, by their ids.
    """
    if session.parent is not None:  # a parent that was not in memory is loaded, and then asks its own family
        yield FamilyCommand(session.parent.session_id, reported(session, mark, at) or WAKE)
    asked = session.children
    started: Mapping[str, Start] = starts() if asked and not session.deleted else {}
    for child in asked if started else ():
        yield FamilyCommand(child.id, _begin_command(session, child, started[child.id], new_id, at), session.id or "")
    for child in asked:
        if not child.detached and (session.interrupted is not None or not is_awaited(session, child)):
            yield FamilyCommand(child.id, interrupting(PARENT, at))


def interrupting(reason: str, at: int) -> Interrupt:
    """Return the command that ends a child and its own children."""
    return Interrupt(agent_id=None, reason=reason, at=at)


def reported(session: Session, mark: Mark, at: int) -> ReportChild | None:
    """Return the report of a child to its parent, None while it is running."""
    ended = session.ended
    if ended is None or (ended.outcome == "waiting" and session.turn is not None):
        return None
    steps, usage, cost = used(session)
    version, cursor, digest = mark()
    text = _last_text(session, ended)
    return ReportChild(
        child_id=session.id or "",
        outcome=ended.outcome,
        stop_reason=ended.stop_reason,
        steps=steps,
        usage=usage,
        cost=cost,
        version=version,
        cursor=cursor,
        digest=digest,
        at=at,
        result=child_result_text(
            session.id or "", ended.outcome, ended.stop_reason, steps=steps, text=text, failure=ended.failure
        ),
    )


def not_begun(child_id: str, failure: str, at: int) -> ReportChild:
    """Return the report to the parent of a child that could not begin."""
    return ReportChild(
        child_id=child_id,
        outcome="failed",
        stop_reason=ERROR,
        steps=0,
        usage={},
        cost=None,
        version=0,
        cursor=0,
        digest="",
        at=at,
        result=child_result_text(child_id, "failed", ERROR, steps=0, failure=failure),
    )


def received(session: Session, command: ReportChild, new_id: Ids) -> ReportChild:
    """Return the report with new ids for the decision, and with the child's text only if it will be recorded."""
    child = child_of(session, command.child_id)
    if child is None or not child.is_open or command.outcome == "waiting":
        return replace(command, result="")
    if child.detached:
        told = f"Session {child.id}, which call {child.call_id} has started, has ended.\n\n{command.result}"
        content = (TextBlock(told),)
        return replace(command, result="", content=content, turn_id=new_id("trn"), message_id=new_id("msg"))
    if not is_awaited(session, child):
        return replace(command, result="")
    turn_id = new_id("trn") if session.turn is None else ""
    goes_on = session.agent is None and session.interrupted is None
    return replace(command, turn_id=turn_id, agent_id=new_id("agt") if goes_on else "")


def patience(session: Session) -> int:
    """Return for how many microseconds the session waits for children that it has interrupted."""
    return PATIENCE - depth_of(session) * SECOND


def deadline(session: Session) -> int | None:
    """Return when the time of the session's budget ends, None while no turn is under way or nothing limits it."""
    budget, turn = session.budget, session.turn
    if budget is None or budget.seconds is None or turn is None:
        return None
    return turn.at + int(max(0.0, budget.seconds - session.seconds) * SECOND)


def _begin_command(session: Session, child: Child, start: Start, new_id: Ids, at: int) -> BeginChild | BranchSession:
    """Return the command that begins the child."""
    parent = Parent(
        session_id=session.id or "",
        version=start.version,
        call_id=child.call_id,
        root=root_of(session),
        depth=child.depth,
    )
    if (origin := start.origin) is not None:
        return BranchSession(
            session_id=child.id,
            container_id=session.container_id,
            image_id="",
            image_revision=0,
            origin=origin.session_id,
            version=origin.version,
            digest=origin.digest,
            position=origin.position,
            at=at,
            left_at=origin.at,
            until=origin.position,
            parent=parent,
            budget=child.budget,
        )
    return BeginChild(
        session_id=child.id,
        container_id=session.container_id,
        image_id=child.image_id,
        image_revision=child.image_revision,
        parent=parent,
        budget=child.budget,
        agent_id=new_id("agt"),
        turn_id=new_id("trn"),
        message_id=new_id("msg"),
        content=(TextBlock(child.prompt),),
        at=at,
    )


def _children_to_interrupt(session: Session, events: Sequence[SessionEvent]) -> Iterator[Child]:
    """Yield the running children that must end because their calls were answered or interrupted."""
    answered = {event.id for event in events if isinstance(event, ToolResult)}
    is_interrupted = any(isinstance(event, ChildrenInterrupted) for event in events)
    for child in session.children:
        is_over = child.call_id in answered or (is_interrupted and is_awaited(session, child))
        if is_over and not child.detached:
            yield child


def _is_news(child: Child, command: ReportChild) -> bool:
    return command.outcome != child.outcome and (child.is_open or child.outcome == "unknown")


def _unsettled(child: Child, total: Used) -> Used:
    """Return the part of the total that is not settled yet."""
    usage = {name: count - child.usage.get(name, 0) for name, count in total.usage.items()}
    more = None if total.cost is None else total.cost - (child.cost or 0.0)
    return Used(
        max(0, total.steps - child.steps),
        {name: count for name, count in usage.items() if count > 0},
        0.0 if more is not None and more <= SMALLEST else more,
    )


def _continue_caller(draft: DecisionDraft, child: Child, command: ReportChild) -> None:
    if command.outcome != "waiting":
        if command.agent_id and draft.session.agent is None:
            turns.start_agent(draft, command.agent_id, command)
        _record_result(draft, child, command.result, is_error=command.outcome != "completed")
    turns.go_on(draft, command)


def _record_result(draft: DecisionDraft, child: Child, said: str, *, is_error: bool) -> None:
    call = draft.session.call(child.call_id)
    assert call is not None  # the call waits for the child
    draft.add(ToolResult(id=call.id, name=call.name, result=said, is_error=is_error))


def _last_text(session: Session, ended: Ended) -> str:
    """Return the child's text: its answer, or the last text that it said before it was interrupted."""
    first = ended.said - 1 if ended.outcome == "completed" else 1
    for place in range(ended.said - 1, max(0, first - 1), -1):
        said = session.conversation[place]
        if said.role == "assistant" and (text := text_of(said.content)).strip():
            return text
    return ""
