"""Explains what happened in a session: the causes of each event, and one plain sentence for each.

An event is caused by earlier events and by input from outside of the log: a message, a person's decision, a call of the
runtime, an answer of the model or of a tool, a crash, a shutdown. The input is read from the recorded commands; which
earlier events led to an event is derived from the ids in them and from the rules of `turns`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, assert_never

from reenact.domain.children import ChildEnded, ChildrenInterrupted, ChildStarted
from reenact.domain.container import ContainerCreated
from reenact.domain.guards import GuardChecked
from reenact.domain.history.causes import AnyCommand
from reenact.domain.image import ImageRegistered
from reenact.domain.loop.calls import content_of
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
from reenact.domain.messages import Block, ToolUseBlock, instant, text_of
from reenact.domain.output import INVALID
from reenact.domain.session.agent import (
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
from reenact.domain.session.commands import (
    BeginChild,
    BranchSession,
    Delete,
    Finish,
    FireSchedule,
    Interrupt,
    Reject,
    ReportChild,
    Resume,
    Run,
    Stop,
)
from reenact.domain.session.state import (
    SessionBranched,
    SessionCreated,
    SessionDeleted,
    SessionEvent,
    SessionForgotten,
)
from reenact.domain.session.turns import ANSWER_REFUSED, COST_LIMIT
from reenact.domain.structs import Frozen

AnyEvent: TypeAlias = SessionEvent | ContainerCreated | ImageRegistered
OutsideKind: TypeAlias = Literal[
    "message", "person", "caller", "model", "tool", "guard", "environment", "crash", "shutdown", "child", "parent"
]

_CommandKind: TypeAlias = type[AnyCommand] | None
_EXCERPT = 60
_RUNNING = (Run, FireSchedule)
_ENDING = (Interrupt, Stop, Delete)
_Decided: TypeAlias = ToolEdited | ToolApproved | ToolRejected | HumanResponded


class Outside(Frozen):
    """A cause outside of the log.

    `name` is the id of the request that brought a message, the person if known, the reason that a caller gave, the
    model, the tool, the guard, the child session, the calling session, or the type of the environment's failure.
    """

    kind: OutsideKind
    name: str | None = None


class Cause(Frozen):
    """The cause of an event: the indices of earlier events in the history, in order, and the cause from outside."""

    places: tuple[int, ...] = ()
    outside: Outside | None = None


_BY_CALLER = Cause((), Outside("caller"))


def causes_of(history: Iterable[tuple[_CommandKind, Sequence[SessionEvent]]]) -> list[Cause]:
    """Return the direct cause of each event of a session's history; a branch's history includes what it shares.

    The history is given as its steps: the type of each one's command, None if none was recorded, and its events.
    """
    tracing = _Tracing()
    for kind, events in history:
        tracing.kind = kind
        for event, then in zip(events, (*events[1:], None), strict=True):
            tracing.causes.append(tracing.trace(len(tracing.causes), event, then))
    return tracing.causes


class _Tracing:
    """The indices of the events that later events may follow from."""

    def __init__(self) -> None:
        self.causes: list[Cause] = []
        self.kind: _CommandKind = None
        """The type of the step's command."""
        self._branched: int | None = None
        """The event with which the branch began."""
        self._agent: int | None = None
        self._accepted: dict[str, int] = {}
        self._last_unblocked = -1
        """The last event after which a waiting turn could begin."""
        self._turn_start: int | None = None
        self._model_asked: int | None = None
        """The event at which the model was last asked."""
        self._latest: int | None = None
        """The latest event of the turn."""
        self._interrupted: int | None = None
        self._failed: int | None = None
        self._handover: int | None = None
        self._scheduled: dict[str, int] = {}
        self._results: int | None = None
        self._begun_by: int | None = None
        """The event that began the step: of this session as a child, of a schedule, or of a child session's end."""
        self._children: dict[str, int] = {}
        self._rejected: int | None = None
        """The rejection of an answer after which the model is asked again."""
        self._checked: dict[str, list[int]] = {}
        """The guards' verdicts on the message that begins a turn, or on the turn's last answer, by turn."""
        self._round = _Round()

    def trace(self, place: int, event: SessionEvent, following: SessionEvent | None) -> Cause:  # noqa: C901, PLR0912, PLR0915 - one case for each event
        """Return the cause of the event at this index, and record the event for later ones."""
        latest = self._latest
        match event:
            case SessionCreated(parent=parent) if parent is not None:
                self._begun_by = place
                return Cause((), Outside("parent", parent.session_id))
            case SessionCreated() | SessionDeleted() | SessionForgotten() | RulesRecorded():
                return _BY_CALLER
            case SessionBranched():
                self._agent, self._branched, self._accepted, self._handover = None, place, {}, None
                outside = Outside("caller") if event.parent is None else Outside("parent", event.parent.session_id)
                return _cause(place - 1 if place else None, outside=outside)
            case AgentStarted():
                self._agent, self._last_unblocked = place, place
                return self._schedule_or_child_cause() or _BY_CALLER
            case AgentStopped():
                self._agent = None
                return (
                    _cause(self._last_unblocked)
                    if event.reason == "finished"
                    else Cause((), self._outside_of_interrupt(event.reason))
                )
            case MessageAccepted():
                self._accepted[event.turn_id] = place
                if self.kind is BranchSession:  # the message was queued in the original session
                    return _cause(self._branched)
                checked = self._checked.pop(event.turn_id, ())
                return self._schedule_or_child_cause() or _cause(*checked, outside=Outside("message", event.request_id))
            case TurnStarted():
                accepted = self._accepted.pop(event.turn_id, None)
                self._turn_start = self._model_asked = self._latest = place
                return _cause(
                    accepted, self._last_unblocked if accepted is not None and self._last_unblocked > accepted else None
                )
            case TurnContinued():
                self._turn_start = self._latest = place
                return _cause(self._round.latest)
            case TurnInterrupted():
                return self._trace_interrupt(place, event, following)
            case TurnFailed():
                self._failed = place
                checked = self._checked.pop(event.turn_id, ())
                if event.failure.type == ANSWER_REFUSED:
                    return _cause(*checked)
                is_ours = event.failure.type == INVALID
                return _cause(latest, outside=None if is_ours else Outside("environment", event.failure.type))
            case TurnCompleted():
                return self._trace_completion(place, event)
            case StepStarted():
                self._model_asked = self._latest = place
                rejected, self._rejected = self._rejected, None
                return _cause(self._results if rejected is None else rejected)
            case AnswerRecorded():
                self._latest = place
                ends = (self._interrupted, self._failed) if event.partial else ()
                checked = self._checked.pop(event.turn_id, ())
                return _cause(self._model_asked, *ends, *checked, outside=Outside("model", event.model))
            case ContextCompressed():
                return _cause(self._model_asked, outside=Outside("model", event.model))
            case OutputAccepted():
                self._latest = place
                return _cause(latest)
            case OutputRejected():
                self._latest = place
                self._rejected = place if event.again else None
                return _cause(latest)
            case ToolsRequested():
                self._latest, self._round = place, _Round(place)
                return _cause(latest)
            case ResultsRecorded():
                self._results = self._latest = place
                if self._turn_start is None:
                    self._last_unblocked = place
                round_, self._round = self._round, _Round()
                return _cause(*round_.results.values())
            case LimitWarning():
                return _cause(latest)
            case GuardChecked():
                return self._trace_guard(place, event)
            case HandoverRequested() | ImageChanged():
                return self._trace_handover(place, event)
            case MessageScheduled() | ScheduleCancelled() | ScheduleFired():
                return self._trace_schedule(place, event)
            case ChildStarted():
                self._children[event.child_id] = place
                return _cause(self._round.started_at(event.call_id) if event.origin is None else self._branched)
            case ChildEnded():
                self._begun_by = place
                self._round.child_ended(place, event)
                return _cause(self._children.get(event.child_id), outside=Outside("child", event.child_id))
            case ChildrenInterrupted():
                return _cause(self._turn_start, outside=self._outside_of_interrupt(event.reason))
            case _:
                cut = self._branched if self.kind is BranchSession else self._interrupted
                return self._round.trace(place, event, self.kind, agent=self._agent, cut=cut)

    def _schedule_or_child_cause(self) -> Cause | None:
        """Return the cause of an event that a schedule or a child session brought about, None for other commands."""
        return _cause(self._begun_by) if self.kind in (BeginChild, FireSchedule, ReportChild) else None

    def _trace_schedule(self, place: int, event: MessageScheduled | ScheduleCancelled | ScheduleFired) -> Cause:
        scheduled = self._scheduled.get(event.schedule_id)
        if isinstance(event, ScheduleFired):
            self._begun_by = place
            return _cause(scheduled)
        self._scheduled[event.schedule_id] = place
        return _cause(scheduled, outside=Outside("caller"))

    def _trace_handover(self, place: int, event: HandoverRequested | ImageChanged) -> Cause:
        asked, self._handover = self._handover, None
        if isinstance(event, HandoverRequested):
            self._handover = place
            started = None if event.call_id is None else self._round.started_at(event.call_id)
            return _BY_CALLER if started is None else _cause(started)
        if asked is None:
            return _BY_CALLER
        freed, self._last_unblocked = self._last_unblocked, max(place, self._last_unblocked)
        return _cause(asked, freed if freed > asked else None)

    def _trace_guard(self, place: int, event: GuardChecked) -> Cause:
        outside = Outside("guard", event.name)
        if event.point == "call":
            return self._round.trace_guard(place, event, outside)
        self._checked.setdefault(event.turn_id or "", []).append(place)
        return _cause(self._model_asked if event.point == "answer" else None, outside=outside)

    def _trace_interrupt(self, place: int, event: TurnInterrupted, following: SessionEvent | None) -> Cause:
        self._interrupted = place
        if isinstance(following, TurnCompleted) and following.stop_reason == COST_LIMIT:
            return _cause(self._turn_start, self._latest)
        if self.kind is BranchSession:
            return _cause(self._turn_start, self._branched)
        if self.kind is Reject:
            return _cause(self._turn_start, self._round.rejected)
        return _cause(self._turn_start, outside=self._outside_of_interrupt(event.reason))

    def _outside_of_interrupt(self, reason: str) -> Outside:
        if self.kind is Stop and reason == "crash":
            return Outside("crash")
        return Outside("shutdown") if self.kind is Stop and reason == "shutdown" else Outside("caller", reason)

    def _trace_completion(self, place: int, event: TurnCompleted) -> Cause:
        accepted = self._accepted.pop(event.turn_id, None)
        if accepted is not None:  # the turn never began
            return _cause(accepted, outside=Outside("caller", "deleted"))
        match event.outcome:
            case "interrupted":
                cause = _cause(self._interrupted if self._interrupted is not None else self._latest)
            case "waiting":
                cause = _cause(self._round.pending, self._round.latest)
            case "completed" | "failed":
                told = event.failure is None or self._failed is not None
                outside = None if told or event.failure is None else Outside("environment", event.failure.type)
                cause = _cause(self._latest if self._failed is None else self._failed, outside=outside)
            case _:
                assert_never(event.outcome)
        self._last_unblocked = place
        self._turn_start = self._model_asked = self._latest = self._interrupted = self._failed = None
        return cause


class _Round:
    """The indices of the events about the calls of one answer."""

    def __init__(self, requested: int | None = None) -> None:
        self._requested = requested
        self._questions: dict[str, int] = {}
        self._decided: dict[str, int] = {}
        self._started: dict[str, int] = {}
        self._ended: dict[str, int] = {}
        """The ends of the child sessions that calls started, by call."""
        self._checked: dict[str, list[int]] = {}
        self._refused: dict[str, int] = {}
        self.results: dict[str, int] = {}
        self.pending: int | None = None
        self.rejected: int | None = None
        self.latest: int | None = None
        """The last decision or result."""

    def started_at(self, id_: str) -> int | None:
        """Return the index of the call's start, None if it was not started."""
        return self._started.get(id_)

    def trace(self, place: int, event: RoundEvent, kind: _CommandKind, *, agent: int | None, cut: int | None) -> Cause:
        """Return the cause of the event at this index; `cut` is where the turn was interrupted."""
        match event:
            case HumanApproveRequired():
                return self._trace_question(place, [call.id for call in event.calls], kind, agent)
            case HumanPromptRequired() | HumanSelectRequired():
                self._questions[event.id or ""] = place
                return _cause(self._requested)
            case ToolPending():
                self.pending = place
                return _cause(*(self._questions.get(id_) for id_ in event.ids))
            case ToolEdited() | ToolApproved() | ToolRejected() | HumanResponded():
                return self._trace_decision(place, event)
            case ToolStarted():
                return self._trace_start(place, event, kind)
            case ToolResult():
                self.results[event.id] = self.latest = place
                if event.ran and event.id in self._started:
                    return self._trace_run_result(event, kind, cut)
                return self._trace_unrun_result(event.id, kind, agent, cut)
            case _:
                assert_never(event)

    def child_ended(self, place: int, event: ChildEnded) -> None:
        """Record the end of a child session, if one of the calls started it."""
        if event.call_id in self._started:
            self._ended[event.call_id] = self.latest = place

    def trace_guard(self, place: int, event: GuardChecked, outside: Outside) -> Cause:
        """Return the cause of a guard's verdict on a call."""
        id_ = event.call_id or ""
        self._checked.setdefault(id_, []).append(place)
        if event.verdict == "refused":
            self._refused.setdefault(id_, place)
        return _cause(self._decided.get(id_, self._requested), outside=outside)

    def _trace_question(self, place: int, ids: Sequence[str], kind: _CommandKind, agent: int | None) -> Cause:
        before = tuple(self._questions[id_] for id_ in ids if id_ in self._questions)
        lost = [self._started[id_] for id_ in ids if id_ in self._started]
        self._questions |= dict.fromkeys(ids, place)
        if lost:  # the process ended while they ran, and they may not run again without a person's approval
            return _cause(*lost, outside=Outside("crash"))
        if kind in _RUNNING:  # the policies have changed
            return _cause(agent, *before)
        return _cause(*(before or (self._requested,)))

    def _trace_decision(self, place: int, event: _Decided) -> Cause:
        id_ = event.id or ""
        asked, edited = self._questions.get(id_), self._decided.get(id_)
        self._decided[id_] = self.latest = place
        if isinstance(event, ToolRejected):
            self.rejected = place
        cause = edited if edited is not None and edited == place - 1 else asked
        return _cause(cause, outside=Outside("person", event.by))

    def _trace_start(self, place: int, event: ToolStarted, kind: _CommandKind) -> Cause:
        decided, before = self._decided.get(event.id), self._started.get(event.id)
        self._started[event.id] = place
        if kind is Resume:
            return _cause(before, outside=Outside("crash"))
        return _cause(self._requested if decided is None else decided, *self._checked.get(event.id, ()))

    def _trace_run_result(self, event: ToolResult, kind: _CommandKind, cut: int | None) -> Cause:
        started, ended = self._started[event.id], self._ended.get(event.id)
        if ended is not None:
            return _cause(started, ended)
        if cut is not None:
            return _cause(started, cut)
        if kind is Resume:
            return _cause(started, outside=Outside("crash"))
        return _cause(started, outside=Outside("environment") if kind is Finish else Outside("tool", event.name))

    def _trace_unrun_result(self, id_: str, kind: _CommandKind, agent: int | None, cut: int | None) -> Cause:
        """Return the cause of the result of a call that did not run."""
        asked, decided = self._questions.get(id_, self._requested), self._decided.get(id_)
        if id_ in self._refused:
            return _cause(self._refused[id_])
        if decided is not None and (asked is None or decided > asked):
            return _cause(decided)
        if cut is not None:
            return _cause(asked, cut)
        if kind in _RUNNING:
            return _cause(asked, agent)
        if kind is Reject:
            return _cause(asked, self.rejected)
        if kind in _ENDING:
            return _cause(asked, outside=Outside("caller"))
        return _cause(self._requested)  # denied by a policy or a limit, or answered without asking anyone


def _cause(*places: int | None, outside: Outside | None = None) -> Cause:
    return Cause(tuple(sorted({place for place in places if place is not None})), outside)


def sentence(event: AnyEvent) -> str:  # noqa: C901, PLR0912, PLR0915 - one case for each event
    """Return a sentence that describes the event."""
    match event:
        case ContainerCreated():
            return f"Container {event.container_id} was created."
        case ImageRegistered():
            return f"Image {event.image_id} was registered, revision {event.revision}."
        case SessionCreated():
            image = f"image {event.image_id}, revision {event.image_revision}"
            return f"The session was created in container {event.container_id}, on {image}."
        case SessionBranched():
            return f"The session branched off from session {event.origin}, behind its event {event.version}."
        case SessionDeleted():
            return "The session was deleted."
        case SessionForgotten():
            return f"The session was forgotten by {event.by}{f': {event.why}' if event.why else ''}."
        case AgentStarted():
            return f"Agent {event.agent_id} was started."
        case AgentStopped():
            return f"Agent {event.agent_id} was stopped: {event.reason}."
        case MessageAccepted():
            return f"A message came in: {_describe_content(event.content)}."
        case TurnStarted():
            return f"Turn {event.turn_id} began: the model is asked."
        case TurnContinued():
            return f"Turn {event.turn_id} began: a person has decided."
        case TurnInterrupted():
            return f"Turn {event.turn_id} was interrupted: {event.reason}."
        case TurnFailed():
            return f"Turn {event.turn_id} cannot go on: {excerpt(event.failure.message)}."
        case TurnCompleted():
            details = event.stop_details
            why = f": {excerpt(details.explanation)}" if details is not None and details.explanation else ""
            return f"Turn {event.turn_id} ended: {event.outcome} ({event.stop_reason}{why})."
        case StepStarted():
            return f"The model is asked again, step {event.step}."
        case AnswerRecorded():
            return f"The model answered{', in part' if event.partial else ''}: {_describe_content(event.content)}."
        case OutputAccepted():
            return "The answer is what it was to be."
        case OutputRejected():
            again = "the model is asked again" if event.again else "it is not asked for again"
            return f"Answer {event.attempt} does not fit, and {again}: {excerpt('; '.join(event.errors))}."
        case ToolsRequested():
            return "The answer asks for tools."
        case ResultsRecorded():
            return f"{_count(len(event.content), 'result')} went back to the model."
        case ContextCompressed():
            return f"The first {event.replaced} messages were summarised for the model."
        case RulesRecorded():
            return "From here on other rules held: policies, prices, costs or limits."
        case LimitWarning():
            return f"A limit is exceeded that only warns: {event.message}."
        case GuardChecked():
            guarded = f"call {event.call_id}" if event.point == "call" else f"the {event.point}"
            if event.verdict == "passed":
                return f"Guard {event.name} let {guarded} pass."
            return f"Guard {event.name} refused {guarded}: {excerpt(event.reason)}."
        case HandoverRequested():
            by = "A caller" if event.call_id is None else f"Call {event.call_id}"
            return f"{by} asked for a hand-over to image {event.image_id}, revision {event.image_revision}."
        case ImageChanged():
            given = {"all": "all", "summary": "a summary", "none": "nothing"}[event.history]
            image = f"image {event.image_id}, revision {event.image_revision}"
            return f"The session went over to {image}; its agent is given {given} of what was said before."
        case MessageScheduled():
            times = "once" if event.every is None else f"every {event.every / 1_000_000:g} s"
            return f"A message is to come at {_utc(event.due)}, {times}: {_describe_content(event.content)}."
        case ScheduleCancelled():
            return f"Schedule {event.schedule_id} was cancelled."
        case ScheduleFired():
            late = ", late" if event.late else ""
            return f"Schedule {event.schedule_id} was due at {_utc(event.due)}: its message comes{late}."
        case ChildStarted():
            if event.origin is not None:
                return (
                    f"Call {event.call_id} has a branch of child session {event.origin.session_id}: {event.child_id}."
                )
            return f"Call {event.call_id} started child session {event.child_id} of image {event.image_id}."
        case ChildEnded():
            return f"Child session {event.child_id} ended: {event.outcome} ({event.stop_reason})."
        case ChildrenInterrupted():
            return f"The child sessions at work are interrupted: {event.reason}."
        case HumanApproveRequired():
            calls = ", ".join(f"{call.name} ({call.id})" for call in event.calls)
            return f"A person is to approve {calls}."
        case HumanPromptRequired() | HumanSelectRequired():
            return f"A person is asked: {excerpt(event.prompt)}."
        case ToolPending():
            return f"{_count(len(event.ids), 'call')} wait{'s' if len(event.ids) == 1 else ''} for a person."
        case ToolApproved():
            return f"{_person(event.by)} approved call {event.id}."
        case ToolEdited():
            return f"{_person(event.by)} changed the arguments of call {event.id}."
        case ToolRejected():
            reason = f": {excerpt(event.reason)}" if event.reason else ""
            return f"{_person(event.by)} rejected call {event.id}{reason}."
        case HumanResponded():
            return f"{_person(event.by)} answered question {event.id}."
        case ToolStarted():
            again = "" if event.attempt == 1 else f", attempt {event.attempt}"
            return f"Call {event.id} of {event.name} was started{again}."
        case ToolResult():
            content = content_of(event.result)
            result = f": {excerpt(content)}" if isinstance(content, str) else ""
            return f"Call {event.id} of {event.name} {_result_verb(event)}{result}."
        case _:
            assert_never(event)


def _utc(at: int) -> str:
    return f"{instant(at):%Y-%m-%d %H:%M:%S} UTC"


def outside_phrase(outside: Outside) -> str:
    """Return the outside cause in words, as the end of a sentence that has "from" before it."""
    match outside.kind:
        case "message":
            return "outside" if outside.name is None else f"outside, by request {outside.name}"
        case "person":
            return "a person" if outside.name is None else f"a person: {outside.name}"
        case "caller":
            return "a caller" if outside.name is None else f"a caller: {outside.name}"
        case "model":
            return "the model" if outside.name is None else f"the model {outside.name}"
        case "tool":
            return f"the tool {outside.name}"
        case "guard":
            return f"the guard {outside.name}"
        case "environment":
            return "the environment" if outside.name is None else f"the environment: {outside.name}"
        case "crash":
            return "a crash of the process"
        case "shutdown":
            return "a shutdown"
        case "child":
            return f"the child session {outside.name}"
        case "parent":
            return f"session {outside.name}"
        case _:
            assert_never(outside.kind)


def excerpt(text: str) -> str:
    """Return the beginning of a text in quotes, on one line."""
    words = " ".join(text[: 4 * _EXCERPT].split())
    is_whole = len(text) <= 4 * _EXCERPT and len(words) <= _EXCERPT
    return f'"{words}"' if is_whole else f'"{words[:_EXCERPT].rstrip()}…"'


def _result_verb(event: ToolResult) -> str:
    if not event.ran:
        return "was answered without being run"
    return "failed" if event.is_error else "returned"


def _describe_content(content: tuple[Block, ...]) -> str:
    text = text_of(content)
    calls = [block.name for block in content if isinstance(block, ToolUseBlock)]
    told_calls = f"calls of {', '.join(calls)}" if calls else ""
    if text.strip() or not calls:
        return f"{excerpt(text)}, and {told_calls}" if calls else excerpt(text)
    return told_calls


def _person(by: str | None) -> str:
    return "A person" if by is None else f"A person ({by})"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
