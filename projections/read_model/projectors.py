"""Projectors: the rows that each event adds or changes, and the rows that a branch inherits from its origin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias, TypeGuard, assert_never, get_args

from msgspec.structs import replace

from reenact.domain.children import ChildEnded, ChildOrigin, ChildrenInterrupted, ChildStarted
from reenact.domain.container import ContainerCreated
from reenact.domain.guards import GuardChecked
from reenact.domain.image import ImageRegistered
from reenact.domain.loop.asking import Question
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
from reenact.domain.loop.events import Warning as LimitWarning
from reenact.domain.loop.rounds import RoundEvent
from reenact.domain.session.agent import (
    AgentEvent,
    AgentStarted,
    AgentStopped,
    AnswerRecorded,
    ContextCompressed,
    HandoverRequested,
    ImageChanged,
    MessageAccepted,
    MessageScheduled,
    OutputAccepted,
    OutputRejected,
    ResultsRecorded,
    RulesRecorded,
    ScheduleCancelled,
    ScheduleFired,
    StepStarted,
    ToolsRequested,
    TurnCompleted,
    TurnContinued,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.session.state import (
    ChildEvent,
    SessionBranched,
    SessionCreated,
    SessionDeleted,
    SessionForgotten,
    plus_cost,
)
from reenact.domain.session.told import Decision
from reenact.projections.log import Log, Row, shared_before, stream_of
from reenact.projections.read_model.rows import (
    ActivityRow,
    AgentRow,
    CallEndRow,
    CallRow,
    Changes,
    ContainerRow,
    ConversationState,
    DecisionRow,
    ImageRow,
    MessageRow,
    RevisionRow,
    ScheduleRow,
    SessionRow,
    TurnEndRow,
    TurnRow,
    asked_for,
    counts_of,
    encode,
    fact_of,
    known,
    packed,
    set_activity,
    spend,
    use_model,
    use_model_in,
)

OfConversation: TypeAlias = AgentEvent | SessionDeleted | ChildEvent
OF_CONVERSATION: Final[frozenset[type[OfConversation]]] = frozenset(get_args(OfConversation))


class OpenEnd(NamedTuple):
    """The end of a history: the session's open state, and its last event."""

    session: ConversationState
    last: Row


class UnprojectedEventError(TypeError):
    """An event of the domain that has no projector."""


def project(
    changes: Changes,
    conversations: dict[str, ConversationState],
    row: Row,
    open_before: Callable[[Row], OpenEnd],
) -> None:
    """Add the rows of the event to the changes, and update its conversation.

    `open_before` returns the end of the history that a branch with this first event continues. Events outside of the
    domain are ignored: actors of other kinds may share the log.

    Raises:
        KeyError: the event belongs to a conversation or a turn that is not in `conversations`.
        UnprojectedEventError: the event is the domain's, but has no projector.
    """
    event = row.event
    if _is_of_conversation(event):
        _project_event(changes, conversations[row.stream], row, event)
    elif isinstance(event, SessionCreated):
        _create(changes, conversations, row, event)
    elif isinstance(event, SessionBranched):
        _begin_branch(changes, conversations, row, event, open_before(row))
    elif isinstance(event, SessionForgotten):
        _forget_session(changes, row, event)
        conversations.pop(row.stream, None)
    elif isinstance(event, ContainerCreated):
        changes.containers.append(ContainerRow(row.position, event.container_id, event.name, row.recorded_at))
    elif isinstance(event, ImageRegistered):
        _register_image(changes, row, event)
    elif type(event).__module__.startswith("reenact.domain."):
        raise UnprojectedEventError(f"{type(event).__name__} has no projector")


def _is_of_conversation(event: object) -> TypeGuard[OfConversation]:
    return type(event) in OF_CONVERSATION


def _create(changes: Changes, conversations: dict[str, ConversationState], row: Row, event: SessionCreated) -> None:
    session = _new_conversing(row, event)
    conversations[row.stream] = session
    changes.sessions.append(_session_row(row, event))
    changes.activity[session.position] = session


def _forget_session(changes: Changes, row: Row, event: SessionForgotten) -> None:
    """Keep what the event says of the session: the rows of earlier events are deleted, and cannot be rebuilt."""
    of = event.session_id, event.container_id, event.image_id, event.image_revision, event.created_at
    session = SessionRow(row.position, row.stream, *of, deleted_at=row.recorded_at if event.deleted else None)
    session.forgotten_at, session.forgotten_by, session.forgotten_why = row.recorded_at, event.by, event.why
    activity = ActivityRow(
        row.position, row.position, row.version, row.recorded_at, "deleted" if event.deleted else "forgotten"
    )
    changes.forgotten[event.session_id] = session, activity


def _begin_branch(
    changes: Changes,
    conversations: dict[str, ConversationState],
    row: Row,
    event: SessionBranched,
    before: OpenEnd,
) -> None:
    """Begin the branch with copies of the open rows, except queued messages: events accept these again, if at all."""
    key, origin, last = row.position, before.session, before.last
    session = _new_conversing(row, event)
    session.asked, session.uses, session.spent = origin.asked, origin.uses, {**origin.spent}
    for turn in origin.turns.values():
        if turn.started_at is not None:
            session.turns[turn.id] = own_turn = replace(turn, session=key)
            changes.put_turn(own_turn)
    for call in origin.calls.values():
        session.calls[call.id] = own_call = replace(call, session=key)
        changes.put_call(own_call)
    for by, spent in session.spent.items():
        changes.spent[key, by] = spent
    conversations[row.stream] = session
    shared = origin.position, last.position, last.version, origin.asked
    changes.sessions.append(_session_row(row, event, shared))
    changes.activity[key] = session


def _new_conversing(row: Row, event: SessionCreated | SessionBranched) -> ConversationState:
    activity = ActivityRow(row.position, row.position, row.version, row.recorded_at)
    return ConversationState(row.position, event.session_id, event.container_id, event.image_id, activity)


def _session_row(
    row: Row, event: SessionCreated | SessionBranched, shared: tuple[int, int, int, int] | None = None
) -> SessionRow:
    of = event.session_id, event.container_id, event.image_id, event.image_revision
    line, parent = SessionRow(row.position, row.stream, *of, row.recorded_at), event.parent
    if parent is not None:
        line.parent, line.parent_version, line.parent_call = parent.session_id, parent.version, parent.call_id
        line.root, line.depth = parent.root, parent.depth
    if shared is not None:
        line.origin, line.shared_until, line.shared_version, line.shared_asked = shared
    return line


def _register_image(changes: Changes, row: Row, event: ImageRegistered) -> None:
    image_id, revision = event.image_id, event.revision
    changes.images.append(ImageRow(row.position, image_id, revision, row.recorded_at))
    changes.revisions.append(RevisionRow(row.position, image_id, revision, encode(event.definition)))


def _project_event(changes: Changes, session: ConversationState, row: Row, event: OfConversation) -> None:
    activity = session.activity
    activity.position, activity.events, activity.last_at = row.position, row.version, row.recorded_at
    changes.activity[session.position] = session
    match event:
        case MessageAccepted():
            _accept_message(changes, session, row, event)
        case TurnStarted():
            _start_turn(changes, session, event)
        case AnswerRecorded():
            _add_answer(changes, session, row, event)
        case TurnCompleted():
            _complete_turn(changes, session, row, event)
        case ToolsRequested() | ToolStarted() | ToolResult() | ResultsRecorded():
            _move_calls(changes, session, row, event)
        case StepStarted():
            _start_step(changes, session, event)
        case SessionDeleted():
            activity.state = "deleted"
            session.waiting = 0
            changes.deleted.append((row.recorded_at, session.position))
        case AgentStarted() | AgentStopped() | ImageChanged():
            _project_agent(changes, session, row, event)
        case TurnContinued():
            _continue_turn(changes, session, row, event)
        case ContextCompressed():
            use_model_in(changes, session, session.turns[event.turn_id], row, event)
        case MessageScheduled() | ScheduleCancelled() | ScheduleFired():
            _project_schedule(changes, session, row, event)
        case TurnInterrupted() | TurnFailed() | LimitWarning() | RulesRecorded() | GuardChecked() | HandoverRequested():
            pass  # the next event of the step shows the effect
        case OutputAccepted() | OutputRejected():
            pass  # the next event of the step shows the effect
        case _:
            _move_calls(changes, session, row, event)
    if session.agent is not None:
        changes.agents[session.agent.position] = session.agent, session


def _project_agent(
    changes: Changes, session: ConversationState, row: Row, event: AgentStarted | AgentStopped | ImageChanged
) -> None:
    agent = session.agent
    match event:
        case AgentStarted():
            of = session.position, session.id, session.container_id, session.image_id
            session.agent = AgentRow(row.position, event.agent_id, *of, row.recorded_at)
        case AgentStopped() if agent is not None:
            agent.stopped_at = row.recorded_at
            changes.agents[agent.position] = agent, session
            session.agent = None
        case ImageChanged():
            session.image_id = event.image_id
            changes.switched.append((event.image_id, event.image_revision, session.position))
            if agent is not None:
                agent.image_id = event.image_id
        case _:
            pass


def _project_schedule(
    changes: Changes, session: ConversationState, row: Row, event: MessageScheduled | ScheduleCancelled | ScheduleFired
) -> None:
    if isinstance(event, MessageScheduled):
        of = row.position, session.position, event.schedule_id, encode(event.content)
        changes.schedules.append(ScheduleRow(*of, event.due, event.every, event.until, row.recorded_at))
    else:
        then = event.then if isinstance(event, ScheduleFired) else None
        changes.rescheduled.append((then, session.position, event.schedule_id))


def _accept_message(changes: Changes, session: ConversationState, row: Row, event: MessageAccepted) -> None:
    position = row.position
    turn = session.turns[event.turn_id] = TurnRow(position, session.position, event.turn_id, position, event.at)
    changes.put_turn(turn)
    session.waiting += 1
    session.activity.asked = position
    _add_message(changes, session, row, event, position)


def _add_message(
    changes: Changes,
    session: ConversationState,
    row: Row,
    event: MessageAccepted | AnswerRecorded | ResultsRecorded,
    asked: int,
    *,
    role: str = "user",
) -> MessageRow:
    """Add the row of the event's message."""
    content = encode(event.content)
    of = event.message_id, role, content, event.at, event.turn_id
    message = MessageRow(row.position, session.position, asked, *of)
    changes.messages.append(message)
    return message


def _start_turn(changes: Changes, session: ConversationState, event: TurnStarted) -> None:
    turn = session.turns[event.turn_id]
    turn.started_at = event.at
    turn.steps = 1
    session.asked = turn.asked
    changes.put_turn(turn)
    session.waiting -= 1
    if session.agent is not None:
        session.agent.turn_id = event.turn_id
        session.agent.activity = "thinking"
        session.agent.failed = False


def _continue_turn(changes: Changes, session: ConversationState, row: Row, event: TurnContinued) -> None:
    asked = next(call.asked for call in session.calls.values())
    turn = TurnRow(row.position, session.position, event.turn_id, asked, event.at, event.at)
    session.turns[event.turn_id] = turn
    changes.put_turn(turn)
    set_activity(session, "waiting_for_human_input")
    if session.agent is not None:
        session.agent.turn_id = event.turn_id


def _start_step(changes: Changes, session: ConversationState, event: StepStarted) -> None:
    turn = session.turns[event.turn_id]
    turn.steps = event.step
    changes.put_turn(turn)
    set_activity(session, "thinking")


def _add_answer(changes: Changes, session: ConversationState, row: Row, event: AnswerRecorded) -> None:
    turn = session.turns[event.turn_id]
    turn.model = event.model
    turn.answer = row.position
    use_model_in(changes, session, turn, row, event)
    session.uses = asked_for(event.content)
    message = _add_message(changes, session, row, event, turn.asked, role="assistant")
    message.stop_reason, message.partial = event.stop_reason, event.partial
    message.stop_sequence, message.stop_details = packed(event.stop_sequence), packed(event.stop_details)
    message.usage = packed(event.usage or None)


def _complete_turn(changes: Changes, session: ConversationState, row: Row, event: TurnCompleted) -> None:
    turn = session.turns.pop(event.turn_id)
    turn.ended_at, turn.ended = row.recorded_at, row.position
    turn.outcome = event.outcome
    activity = session.activity
    activity.turn, activity.outcome = turn.position, event.outcome
    activity.turns += 1
    turn.stop_reason = event.stop_reason
    turn.duration = event.duration
    counted, turn.usage = turn.usage, packed(event.usage or None)
    turn.cost = known(event.cost)
    turn.failure = packed(event.failure)
    turn.stop_sequence = packed(event.stop_sequence)
    turn.stop_details = packed(event.stop_details)
    changes.put_turn(turn)
    session.uses = ()  # the calls were never run
    if turn.started_at is None:
        session.waiting -= 1
    elif session.agent is not None:
        session.agent.turn_id = session.agent.activity = None
        session.agent.failed = event.outcome == "failed"
    if turn.position > session.position:  # otherwise the turn belongs to the session from which this one branches off
        error = None if event.failure is None else event.failure.type
        duration = None if turn.started_at is None else known(event.duration)
        changes.turn_ends.append(TurnEndRow(*fact_of(session, row), turn.model or "", event.outcome, error, duration))
    if turn.usage not in (None, counted):
        _count_rest(changes, session, turn, row, event)


def _count_rest(changes: Changes, session: ConversationState, turn: TurnRow, row: Row, event: TurnCompleted) -> None:
    """Count the usage of an answer without a recorded message; its model may be unknown."""
    told = counts_of(event.usage).items()
    rest = {name: count - turn.counted.get(name, 0) for name, count in told if count > turn.counted.get(name, 0)}
    if rest:
        model, cost = (None, None) if event.unsaid is None else (event.unsaid.model, known(event.unsaid.cost))
        use_model(changes, session, row, model=model, counts=rest, cost=cost)


def _move_calls(
    changes: Changes,
    session: ConversationState,
    row: Row,
    event: ToolsRequested | ResultsRecorded | RoundEvent | ChildEvent,
) -> None:
    match event:
        case ToolStarted():
            call = _changed_call(changes, session, event.id)
            call.stage, call.attempts = "running", event.attempt
            call.started_at, call.started = row.recorded_at, row.position
            set_activity(session, "tool_executing")
        case ToolResult():
            _end_call(changes, session, row, event)
        case ResultsRecorded():
            _record_results(changes, session, row, event)
        case ToolsRequested():
            _add_calls(changes, session, event)
        case ChildStarted() | ChildEnded():
            _project_child(changes, session, row, event)
        case ChildrenInterrupted():
            pass  # the next event of the step shows the effect
        case HumanApproveRequired():
            for asked in event.calls:
                call = _changed_call(changes, session, asked.id)
                call.kind, call.digest, call.reason = "approval", encode(asked.digest), encode(asked.reason)
        case HumanPromptRequired() | HumanSelectRequired():
            _add_question(changes, session, event)
        case ToolPending():
            for id_ in event.ids:
                call = _changed_call(changes, session, id_)
                call.stage, call.asked_at = "waiting", row.recorded_at
        case ToolApproved() | ToolEdited() | ToolRejected() | HumanResponded():
            _record_decision(changes, session, row, event)
        case _:
            assert_never(event)


def _project_child(changes: Changes, session: ConversationState, row: Row, event: ChildStarted | ChildEnded) -> None:
    """Change the stage of the child's call; a child's activity and usage are in its own rows."""
    call = session.calls.get(event.call_id)
    match event:
        case ChildEnded(outcome="waiting") if call is not None and call.stage != "answered":
            call.stage, call.kind, call.asked_at = "waiting", "child", row.recorded_at
            changes.put_call(call)
        case ChildStarted(origin=ChildOrigin()) if call is not None and call.stage == "waiting":
            call.stage = "running"  # until the branch of the child has begun; see `tables.UNFINISHED`
            changes.put_call(call)
        case _:
            pass


def _changed_call(changes: Changes, session: ConversationState, id_: str) -> CallRow:
    call = session.calls[id_]
    changes.put_call(call)
    return call


def _add_calls(changes: Changes, session: ConversationState, event: ToolsRequested) -> None:
    turn = session.turns[event.turn_id]
    assert turn.answer is not None  # the turn has an answer, which requests the tools
    set_activity(session, event.from_state)
    uses, session.uses = session.uses, ()
    for number, use in enumerate(uses):
        call = CallRow(turn.answer, number, session.position, use.id, use.name, encode(use.input), asked=turn.asked)
        session.calls[use.id] = call
        changes.put_call(call)


def _end_call(changes: Changes, session: ConversationState, row: Row, event: ToolResult) -> None:
    call = _changed_call(changes, session, event.id)
    call.stage, call.ended_at = "answered", row.recorded_at
    call.result, call.is_error, call.ran = encode(event.result), event.is_error, event.ran
    call.cost = known(event.cost) if event.ran else None
    is_own = event.ran and call.started is not None and call.started > session.position
    if is_own or event.denied:
        duration = _seconds(call.started_at, row) if event.ran else None
        of = *fact_of(session, row), call.position, call.name
        changes.call_ends.append(CallEndRow(*of, is_own and event.is_error, event.denied, duration, call.cost))
    if not event.ran:
        return
    spend(changes, session, ("tool", event.name), {}, call.cost)
    turn = session.turns.get(session.agent.turn_id or "") if session.agent is not None else None
    if turn is not None:
        turn.cost = plus_cost(turn.cost, call.cost)
        changes.put_turn(turn)


def _record_results(changes: Changes, session: ConversationState, row: Row, event: ResultsRecorded) -> None:
    asked = [call.asked for call in session.calls.values()]
    _add_message(changes, session, row, event, asked[0])
    for id_ in session.calls:
        _changed_call(changes, session, id_).results = row.position
    session.calls = {}


def _add_question(
    changes: Changes, session: ConversationState, event: HumanPromptRequired | HumanSelectRequired
) -> None:
    call = _changed_call(changes, session, event.id or "")
    if isinstance(event, HumanPromptRequired):
        call.kind, call.question = "prompt", encode(Question(event.prompt))
    else:
        call.kind, call.question = "select", encode(Question(event.prompt, event.options, event.multi))


def _record_decision(
    changes: Changes,
    session: ConversationState,
    row: Row,
    event: ToolApproved | ToolEdited | ToolRejected | HumanResponded,
) -> None:
    call = _changed_call(changes, session, event.id or "")
    is_known = isinstance(event, ToolApproved) and call.decision == "edited" and call.decided == row.position - 1
    call.decided_by, call.decided_at, call.decided = event.by, row.recorded_at, row.position
    decision: Decision
    match event:
        case ToolApproved():
            decision, call.stage = "approved", "ready"
        case ToolEdited():
            decision = "edited"
            call.original, call.arguments = call.arguments, encode(event.edited)
        case ToolRejected():
            decision = "rejected"
        case HumanResponded():
            decision = "answered"
        case _:
            assert_never(event)
    if not (isinstance(event, ToolApproved) and call.decision):
        call.decision = decision
    if not is_known:
        of = *fact_of(session, row), call.position, call.name
        changes.decisions.append(DecisionRow(*of, decision, _seconds(call.asked_at, row)))


def _seconds(since: int | None, row: Row) -> float:
    """Return the time in seconds until the event, at least 0: clocks may have been set back."""
    return max(0, row.recorded_at - (row.recorded_at if since is None else since)) / 1_000_000


def open_before(log: Log, conversations: Mapping[str, ConversationState], first: Row) -> OpenEnd:
    """Return the end of the history before a branch's first event.

    The `conversations` must be in the state after all events before that one in the log.

    Raises:
        LogUnusableError: the log lacks that history.
    """
    known = _known_before(log, conversations, first)
    if known is not None:
        return known
    aside = Changes()
    ends: list[OpenEnd] = []
    for part in shared_before(log, first):
        own: dict[str, ConversationState] = {}
        for row in part:
            project(aside, own, row, lambda _: ends[-1])
        ends.append(OpenEnd(own[part[0].stream], part[-1]))
    return ends[-1]


def _known_before(log: Log, conversations: Mapping[str, ConversationState], first: Row) -> OpenEnd | None:
    """Return the end of the history if it is the other session's current state, as it usually is; else None."""
    branched = first.event
    assert isinstance(branched, SessionBranched)  # only this event begins a branch
    stream = stream_of(branched.origin)
    session = conversations.get(stream)
    if session is None:
        return None
    since = log.read(stream, after=branched.version - 1)[:2]
    is_last = len(since) == 1 or (len(since) > 1 and since[1].position > first.position)
    return OpenEnd(session, since[0]) if is_last and since[0].version == branched.version else None
