"""The decisions about a turn: how it continues, and how it ends.

A turn begins with a message or with a person's decision about a call. The model is asked; its answer ends the turn or
requests tools; the calls run, wait for a person or are denied; when all are answered, the results go back to the model.
A turn that can continue only after a person's decision ends as `waiting`; the decision begins the next one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import count as counting
from typing import Final, NamedTuple, TypeAlias, assert_never

from msgspec.structs import replace

from reenact.domain.children import ChildrenInterrupted
from reenact.domain.guards import GuardChecked, of_point, refusal_in
from reenact.domain.loop import rounds
from reenact.domain.loop.events import ToolResult
from reenact.domain.loop.events import Warning as LimitWarning
from reenact.domain.loop.ledger import CostLimit, cost_of, price_of, sum_of
from reenact.domain.loop.rounds import Round, Stage
from reenact.domain.loop.rules import Rules
from reenact.domain.messages import Block, ToolUseBlock, is_blank
from reenact.domain.output import INVALID, OutputSpec, faults_of_answer, is_checked
from reenact.domain.session.agent import (
    AgentStarted,
    AnswerRecorded,
    ContextCompressed,
    Failure,
    HandoverRequested,
    ImageChanged,
    OutputAccepted,
    OutputRejected,
    ReceivedAnswer,
    ResultsRecorded,
    StepStarted,
    ToolsRequested,
    Turn,
    TurnCompleted,
    TurnContinued,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
    UnrecordedUsage,
)
from reenact.domain.session.child_calls import awaited, exhausted_budget, is_at_its_part, started
from reenact.domain.session.commands import (
    Approve,
    BranchSession,
    Compress,
    Delete,
    Finish,
    FireSchedule,
    GiveUpChildren,
    Interrupt,
    PassAnswer,
    Receive,
    Reject,
    Report,
    ReportChild,
    Respond,
    Resume,
    Run,
    Stop,
    Switch,
)
from reenact.domain.session.state import Session, SessionEvent, calls_of, evolve, plus_cost
from reenact.domain.stream.events import AgentState, Outcome

TOOL_USE = "tool_use"
MAX_STEPS = "max_steps_exceeded"
COST_LIMIT = "cost_limit_exceeded"
REPEATED = "repeated_tool_calls"
REJECTED = "rejected"
BUDGET = "budget_exceeded"
ANSWER_REFUSED = "answer_refused"
"""Stop reasons of the loop itself, besides those of the Messages API."""
NO_TOOLS = Failure(
    "environment_error", "this environment runs no tools, so that the model cannot be given their results"
)

_INTERRUPT_STOP_REASONS: Final = frozenset({REJECTED, BUDGET})
"""Reasons of interrupts that are also stop reasons."""

GoesOn: TypeAlias = Run | FireSchedule | Finish | Report | Resume | Approve | Reject | Respond | ReportChild
_ContinuingCommand: TypeAlias = GoesOn | GiveUpChildren
_EndingCommand: TypeAlias = Interrupt | Stop | Delete | BranchSession
_Command: TypeAlias = Receive | _ContinuingCommand | _EndingCommand


class ReachedLimit(NamedTuple):
    """A limit that ends a turn: its stop reason, and the explanation in words."""

    limit: str
    why: str


class Decided(tuple[SessionEvent, ...]):  # noqa: SLOT001 - a tuple has no room for slots
    """The events of a decision, with the session's state after them, which was computed on the way."""

    after: Session


class DecisionDraft:
    """The events of one decision as they are added, and the session's state after them."""

    def __init__(self, session: Session) -> None:
        self.before = self.session = session
        self._events: list[SessionEvent] = []

    @property
    def events(self) -> Decided:
        """The events that were decided."""
        decided = Decided(self._events)
        decided.after = self.session
        return decided

    @property
    def turn(self) -> Turn:
        """The turn under way."""
        turn = self.session.turn
        assert turn is not None  # callers know that there is one: an answer or its calls belong to it
        return turn

    @property
    def round(self) -> Round:
        """The calls under way."""
        round_ = self.session.round
        assert round_ is not None  # callers have checked that there are calls
        return round_

    def add(self, *events: SessionEvent) -> None:
        """Add events, and apply them to the session."""
        for event in events:
            self.session = evolve(self.session, event)
            self._events.append(event)


def has_done_its_part(draft: DecisionDraft) -> bool:
    """Return whether the session is a child that has just completed its call: its queue is then left to others."""
    return is_at_its_part(draft.before) and not is_at_its_part(draft.session)


def take_up_next(draft: DecisionDraft, command: _Command) -> None:
    """Begin the turn of the message that was queued first, if nothing prevents it.

    If the session is handed over to another image first, the rules are not that image's: its limits are checked from
    its first answer on.
    """
    if draft.session.parent is not None and has_done_its_part(draft):
        return
    has_changed = hand_over(draft)
    while draft.session.turn is None and draft.session.round is None and draft.session.queue:
        draft.add(TurnStarted(draft.session.queue[0].turn_id, command.at))
        if has_changed or not _apply_cost_limit(draft, command):
            return


def hand_over(draft: DecisionDraft) -> bool:
    """Change to the image of a requested hand-over if no turn or call is open; return whether the image changed."""
    asked = draft.session.handover
    if asked is None or draft.session.turn is not None or draft.session.round is not None or draft.session.deleted:
        return False
    draft.add(ImageChanged(asked.image_id, asked.image_revision, asked.history))
    return True


def switch(draft: DecisionDraft, command: Switch) -> None:
    """Change to the image: now if no turn or call is open, otherwise once all of them have ended."""
    session = draft.session
    asked = HandoverRequested(command.image_id, command.image_revision, command.history)
    is_there = (session.image_id, session.image_revision) == (command.image_id, command.image_revision)
    if session.turn is not None or session.round is not None:
        if session.handover is None or replace(session.handover, call_id=None) != asked:
            draft.add(asked)
    elif not is_there or session.since or command.history != "all":
        draft.add(ImageChanged(command.image_id, command.image_revision, command.history))


def start_agent(draft: DecisionDraft, agent_id: str, command: Run | FireSchedule | ReportChild) -> None:
    """Start the agent; ask people again about the calls that wait for approval, if the policies have changed since."""
    draft.add(AgentStarted(agent_id))
    round_, rules = draft.session.round, command.rules
    if round_ is not None and round_.revision not in ("", rules.policies.revision):
        draft.add(*rounds.judged_anew(round_, rules, session_id=draft.session.id or ""))
        go_on(draft, command)


def finish(draft: DecisionDraft, command: Finish | PassAnswer) -> None:
    """End the turn with its answer, or start the calls that it requests; or record that a held answer has passed."""
    turn = draft.session.turn
    if turn is None or turn.id != command.turn_id:
        return
    if isinstance(command, PassAnswer):
        draft.add(*(command.checked if draft.session.round is None else ()))
        return
    so_far = command.so_far
    if draft.session.round is not None:
        if so_far.failure is not None:  # the log failed during the calls, and is writable again
            _give_up(draft, command, "the turn failed", {"ready", "waiting", "running"})
            _end_turn(draft, ReceivedAnswer(failure=so_far.failure, untold=so_far.untold), "failed", command)
            take_up_next(draft, command)
        return
    of_answer = of_point(command.checked, "answer")
    draft.add(*of_answer)
    refusal = refusal_in(of_answer)
    if refusal is not None:
        _refuse_answer(draft, command, refusal)
    elif _asks_for_tools(so_far, command.rules):
        _begin_round(draft, command)
    elif faults := _output_faults(turn, so_far, command.rules):
        _ask_for_output(draft, command, faults)
    else:
        _end_turn(draft, so_far, "completed" if so_far.failure is None else "failed", command)
        take_up_next(draft, command)


def report(draft: DecisionDraft, command: Report) -> None:
    """Record the result of a call, unless nothing waits for it any more."""
    turn, call = draft.session.turn, draft.session.call(command.call_id)
    if turn is None or turn.id != command.turn_id or call is None or call.stage != "running":
        return
    cost = command.rules.costs.get(call.name)
    if command.handover is not None:
        draft.add(command.handover)
    draft.add(ToolResult(id=call.id, name=call.name, result=command.result, is_error=command.is_error, cost=cost))
    go_on(draft, command)


def compress(draft: DecisionDraft, command: Compress) -> None:
    """Record the summary that replaces older messages for the model from now on."""
    turn, conversation, summary = draft.session.turn, draft.session.conversation, draft.session.summary
    replaced = len(conversation) - command.kept
    if 0 < replaced < len(conversation) and conversation[replaced].tool_results:
        replaced -= 1  # results stay with their calls
    before = max(draft.session.since, 0 if summary is None else summary.replaced)
    if turn is None or turn.id != command.turn_id or draft.session.round is not None:
        return
    if not before < replaced <= len(conversation) or not command.summary.strip():
        return
    cost = cost_of(command.usage, price_of(command.rules.prices, command.model))
    draft.add(ContextCompressed(turn.id, command.summary, replaced, command.usage, command.model, cost, command.at))


def person_decides(draft: DecisionDraft, command: Approve | Reject | Respond) -> None:
    """Record a person's decision about a call, and continue the call."""
    round_ = draft.session.round or Round()
    match command:
        case Approve():
            approved = rounds.approved(
                round_,
                command.call_id,
                command.rules,
                arguments=command.arguments,
                digest=command.digest,
                by=command.by,
            )
            draft.add(*approved)
            draft.add(*_guard_results(draft.round, command.checked))
        case Reject():
            draft.add(*rounds.rejected(round_, command.call_id, command.reason, by=command.by))
            if not command.resume:
                _stop_rejected(draft, command)
                return
        case Respond():
            draft.add(*rounds.responded(round_, command.call_id, command.value, by=command.by))
        case _:
            assert_never(command)
    go_on(draft, command)


def _stop_rejected(draft: DecisionDraft, command: Reject) -> None:
    """End the turn of a rejected call; children that calls wait for are interrupted first."""
    if awaited(draft.session):
        _interrupt_children(draft, REJECTED, command.at)
        return
    if draft.session.turn is not None:
        draft.add(TurnInterrupted(draft.session.turn.id, REJECTED))
    _give_up(draft, command, "a person stopped the turn", {"ready", "waiting", "running"})
    _end_turn(draft, ReceivedAnswer(), "interrupted", command, REJECTED)
    take_up_next(draft, command)


def resume(draft: DecisionDraft, command: Resume) -> None:
    """Run idempotent tools again; all other running calls get an error that their effect is unknown."""
    session, rules = draft.session, command.rules
    if session.turn is None or session.turn.id != command.turn_id or session.round is None:
        return
    idempotent = rules.idempotent if rules.runs_tools else ()
    draft.add(
        *rounds.resumed(session.round, rules, session.asked, idempotent, session_id=session.id or ""),
    )
    go_on(draft, command)


def interrupt(draft: DecisionDraft, command: Interrupt) -> None:
    """End the turn under way and give up its calls; children that calls wait for are interrupted first."""
    if awaited(draft.session):
        _interrupt_children(draft, command.reason, command.at)
        return
    cut_short(draft, command, command.reason)
    if draft.session.agent is not None:
        take_up_next(draft, command)


def _interrupt_children(draft: DecisionDraft, reason: str, at: int) -> None:
    if draft.session.interrupted is None:
        draft.add(ChildrenInterrupted(reason, at))


def cut_short(draft: DecisionDraft, command: _EndingCommand, reason: str) -> None:
    """End the turn under way before its regular end. After a stop or in a branch, calls keep waiting for people."""
    turn, so_far = draft.session.turn, command.so_far
    in_answer = draft.session.round is None
    ended = in_answer and (so_far.failure is not None or so_far.stop_reason is not None)
    faults = _output_faults(turn, so_far, command.rules) if turn is not None and ended else ()
    asks = ended and _asks_for_tools(so_far, command.rules)
    if turn is not None and ended and not asks and not faults:  # its regular end came just before
        _end_turn(draft, so_far, "completed" if so_far.failure is None else "failed", command)
        return
    if turn is not None:
        draft.add(TurnInterrupted(turn.id, reason))
    if turn is not None and asks:
        _request_tools(draft, command)
    elif turn is not None and faults:
        _reject_output(draft, command, faults, again=False)
    goes_on_waiting = isinstance(command, Stop | BranchSession)
    stages: set[Stage] = {"ready", "running"} if goes_on_waiting else {"ready", "running", "waiting"}
    if draft.session.round is not None:
        _give_up(draft, command, f"interrupted ({reason})", stages)
    if turn is not None:
        so_far = so_far if in_answer and not ended else ReceivedAnswer()
        _end_turn(draft, so_far, "interrupted", command, reason if reason in _INTERRUPT_STOP_REASONS else None)


def output_of(turn: Turn, rules: Rules) -> OutputSpec | None:
    """Return the required form of the turn's answer, None if there is none."""
    return rules.output if turn.output is None else turn.output


def reached_before_calls(session: Session, rules: Rules, cost: float) -> ReachedLimit | None:
    """Return the limit that prevents the requested calls from running, if one is reached at this cost of the session.

    A turn and a round must be under way.
    """
    turn, round_, limit = session.turn, session.round, exceeded(cost, rules)
    assert turn is not None
    assert round_ is not None
    if rules.max_repeats is not None and turn.repeats >= rules.max_repeats and round_.digest() == turn.calls:
        return ReachedLimit(REPEATED, f"the same calls had the same results {turn.repeats} times in a row")
    if (steps := reached_steps(turn, rules)) is not None:
        return steps
    if limit is not None and limit.on_exceeded != "warn":
        return ReachedLimit(COST_LIMIT, overspent(cost, limit))
    return _reached_budget(session)


def reached_steps(turn: Turn, rules: Rules) -> ReachedLimit | None:
    """Return the limit of steps, if the model was asked as often as it allows."""
    if rules.max_steps is None or turn.requests < rules.max_steps:
        return None
    return ReachedLimit(MAX_STEPS, f"the limit of {rules.max_steps} steps is reached")


def _reached_budget(session: Session) -> ReachedLimit | None:
    why = exhausted_budget(session)
    return None if why is None else ReachedLimit(BUDGET, why)


def exceeded(cost: float, rules: Rules) -> CostLimit | None:
    """Return the cost limit, if this cost of the session exceeds it."""
    limit = rules.cost_limit
    return limit if limit is not None and limit.is_exceeded(cost) else None


def overspent(cost: float, limit: CostLimit) -> str:
    """Return a text that says how far the limit is exceeded."""
    return f"{cost:.6g} were spent, more than the limit of {limit.max_total:.6g}"


def _begin_round(draft: DecisionDraft, command: Finish) -> None:
    rules = command.rules
    _request_tools(draft, command)
    reached = reached_before_calls(draft.session, rules, draft.session.ledger.cost)
    if reached is None:
        draft.add(*rounds.judged(draft.round, rules, draft.session.asked, session_id=draft.session.id or ""))
        draft.add(*_guard_results(draft.round, command.checked))
        _continue_calls(draft, command)
    elif reached.limit == COST_LIMIT:
        _give_up(draft, command, "the cost limit is exceeded", {"ready"})
        _apply_cost_limit(draft, command)
        take_up_next(draft, command)
    else:
        _stop_at_limit(draft, command, reached)


def _output_faults(turn: Turn, so_far: ReceivedAnswer, rules: Rules) -> tuple[str, ...]:
    """Return the problems of a complete answer that lacks the required form."""
    output = output_of(turn, rules)
    if output is None or so_far.message_id is None or so_far.failure is not None:
        return ()
    if not is_checked(so_far.stop_reason):
        return ()
    return () if _asks_for_tools(so_far, rules) else faults_of_answer(output, so_far.content)


def _ask_for_output(draft: DecisionDraft, command: Finish, faults: tuple[str, ...]) -> None:
    """Ask the model again for an answer that fits, unless its attempts are used up, or a limit prevents it."""
    turn, rules = draft.turn, command.rules
    output = output_of(turn, rules)
    assert output is not None  # an answer did not fit it
    again = turn.rejected < output.retries and rules.runs_tools  # otherwise the environment would not run another step
    _reject_output(draft, command, faults, again=again)
    if not again:
        failure = Failure(INVALID, f"the answer does not fit what was asked for, after {turn.rejected + 1} attempts")
        _end_turn(draft, ReceivedAnswer(failure=failure, untold=True), "failed", command, INVALID)
    elif not _apply_cost_limit(draft, command) and _ask_model_again(draft, command):
        return
    take_up_next(draft, command)


def _reject_output(
    draft: DecisionDraft, command: Finish | _EndingCommand, faults: tuple[str, ...], *, again: bool
) -> None:
    turn, so_far = draft.turn, command.so_far
    answer = _answer_recorded(draft, so_far, command, so_far.stop_reason or "", partial=False)
    draft.add(answer)
    draft.add(
        OutputRejected(turn.id, answer.message_id, turn.rejected + 1, faults, again, _from_state(so_far), command.at)
    )


def _refuse_answer(draft: DecisionDraft, command: Finish, refusal: GuardChecked) -> None:
    """End the turn without the answer, which is not added to the conversation; its usage is counted."""
    failure = Failure(ANSWER_REFUSED, f"guard {refusal.name!r} refuses the answer: {refusal.reason}")
    so_far = replace(command.so_far, content=(), failure=failure, untold=True)
    _end_turn(draft, so_far, "failed", command, ANSWER_REFUSED)
    take_up_next(draft, command)


def _guard_results(round_: Round, checked: Sequence[GuardChecked]) -> Iterator[GuardChecked | ToolResult]:
    """Yield the guards' verdicts on the calls that are ready, and the results of those that they refuse."""
    for call in round_.at("ready") if checked else ():
        of_call = tuple(one for one in checked if one.call_id == call.id)
        yield from of_call
        refusal = refusal_in(of_call)
        if refusal is not None:
            yield rounds.not_run(call, f"guard {refusal.name!r} refuses it: {refusal.reason}", denied=True)


def _request_tools(draft: DecisionDraft, command: Finish | _EndingCommand) -> None:
    draft.add(_answer_recorded(draft, command.so_far, command, TOOL_USE, partial=False))
    draft.add(ToolsRequested(draft.turn.id, _from_state(command.so_far)))


def _stop_at_limit(draft: DecisionDraft, command: GoesOn, reached: ReachedLimit) -> None:
    _give_up(draft, command, reached.why, {"ready"})
    _end_turn(draft, ReceivedAnswer(), "completed", command, reached.limit)
    take_up_next(draft, command)


def go_on(draft: DecisionDraft, command: GoesOn) -> None:
    """Continue according to the state of the calls: run them, ask the model again, or wait for people."""
    interrupted = draft.session.interrupted
    if interrupted is None:
        _continue_calls(draft, command)
    elif not awaited(draft.session):
        end_interrupted(draft, command, interrupted.reason)


def end_interrupted(draft: DecisionDraft, command: _ContinuingCommand, reason: str) -> None:
    """End the interrupted turn under way, now that no call waits for a child any more."""
    turn = draft.session.turn
    if turn is not None:
        draft.add(TurnInterrupted(turn.id, reason))
    _give_up(draft, command, f"interrupted ({reason})", {"ready", "running", "waiting"})
    _end_turn(draft, ReceivedAnswer(), "interrupted", command, reason if reason in _INTERRUPT_STOP_REASONS else None)
    if draft.session.agent is not None:
        take_up_next(draft, command)


def _continue_calls(draft: DecisionDraft, command: GoesOn) -> None:
    if not command.rules.runs_tools:
        draft.add(*rounds.given_up(draft.round, "this environment runs no tools", stages={"ready"}))
    round_ = draft.round
    if round_.at("ready"):
        _continue_turn(draft, command)
        if not command.rules.agents:
            draft.add(*rounds.started(round_))
            return
        draft.add(*started(draft.session, command.rules, command.at))
        round_ = draft.round
    if round_.is_answered:
        _continue_turn(draft, command)
        _record_results(draft, command)
        _next_step(draft, command)
    elif draft.session.turn is not None and not round_.runs:
        _end_turn(draft, ReceivedAnswer(), "waiting", command)


def _next_step(draft: DecisionDraft, command: GoesOn) -> None:
    """Ask the model again, unless a limit or the environment prevents it."""
    if not _apply_cost_limit(draft, command):
        if not command.rules.runs_tools:
            _end_turn(draft, ReceivedAnswer(failure=NO_TOOLS, untold=True), "failed", command)
        elif _ask_model_again(draft, command):
            return
    take_up_next(draft, command)


def _ask_model_again(draft: DecisionDraft, command: GoesOn) -> bool:
    """Ask the model again, or end the turn if a limit is reached; return whether the model is asked."""
    turn = draft.turn
    reached = reached_steps(turn, command.rules) or _reached_budget(draft.session)
    if reached is None:
        draft.add(StepStarted(turn.id, turn.steps + 1, command.at))
    else:
        _end_turn(draft, ReceivedAnswer(), "completed", command, reached.limit)
    return reached is None


def _continue_turn(draft: DecisionDraft, command: GoesOn) -> None:
    if draft.session.turn is None:
        draft.add(TurnContinued(command.turn_id, command.at))


def _give_up(draft: DecisionDraft, command: _ContinuingCommand | _EndingCommand, why: str, stages: set[Stage]) -> None:
    """Answer the calls at these stages with an error, and record the results once all calls are answered."""
    draft.add(*rounds.given_up(draft.round, why, stages=stages))
    if draft.round.is_answered:
        _record_results(draft, command)


def _record_results(draft: DecisionDraft, command: _ContinuingCommand | _EndingCommand) -> None:
    turn, results = draft.session.turn, draft.round.results()
    draft.add(ResultsRecorded(None if turn is None else turn.id, command.results_id, results, command.at))


def _apply_cost_limit(draft: DecisionDraft, command: _Command) -> bool:
    """Apply the cost limit if it is exceeded; return whether that ended the turn."""
    turn, cost = draft.session.turn, draft.session.ledger.cost
    limit = exceeded(cost, command.rules)
    if limit is None or turn is None:
        return False
    message = overspent(cost, limit)
    if limit.on_exceeded == "warn":
        if not draft.session.warned:
            draft.add(LimitWarning(reason=COST_LIMIT, message=message))
        return False
    if limit.on_exceeded == "interrupt":
        draft.add(TurnInterrupted(turn.id, message))
    outcome: Outcome = "interrupted" if limit.on_exceeded == "interrupt" else "completed"
    draft.add(_turn_completed(draft, ReceivedAnswer(), outcome, COST_LIMIT, command.at))
    return True


def _end_turn(
    draft: DecisionDraft,
    so_far: ReceivedAnswer,
    outcome: Outcome,
    command: _ContinuingCommand | _EndingCommand,
    reason: str | None = None,
) -> None:
    """End the turn under way, with the answer so far if there is one."""
    turn = draft.session.turn
    if turn is None:
        return
    by_outcome = {"interrupted": "interrupted", "failed": "error", "waiting": "waiting"}
    stop_reason = reason or by_outcome.get(outcome) or so_far.stop_reason or "end_turn"
    completed = _turn_completed(draft, so_far, outcome, stop_reason, command.at)
    if so_far.failure is not None and so_far.untold:
        draft.add(TurnFailed(turn.id, so_far.failure))
    if so_far.message_id is not None:
        partial = outcome != "completed"
        answer = _answer_recorded(draft, so_far, command, stop_reason, partial=partial)
        completed = replace(completed, cost=plus_cost(turn.cost, answer.cost))
        if not is_blank(so_far.content):
            draft.add(answer)
            if not partial and is_checked(so_far.stop_reason) and output_of(turn, command.rules) is not None:
                draft.add(OutputAccepted(turn.id, answer.message_id))
        elif so_far.usage:
            unsaid = UnrecordedUsage(so_far.model, so_far.usage, answer.cost)
            completed = replace(completed, unsaid=unsaid)
    draft.add(completed)


def _turn_completed(
    draft: DecisionDraft, so_far: ReceivedAnswer, outcome: Outcome, stop_reason: str, at: int
) -> TurnCompleted:
    turn = draft.turn
    in_answer = draft.session.round is None and turn.activity == "thinking"
    return TurnCompleted(
        turn.id,
        outcome,
        stop_reason,
        sum_of(turn.usage, so_far.usage) if turn.usage else so_far.usage,
        max(0, at - turn.at) / 1_000_000,
        _from_state(so_far) if in_answer else turn.activity,
        so_far.failure,
        turn.cost,
        stop_sequence=so_far.stop_sequence,
        stop_details=so_far.stop_details,
    )


def _answer_recorded(
    draft: DecisionDraft, so_far: ReceivedAnswer, command: _Command, stop_reason: str, *, partial: bool
) -> AnswerRecorded:
    cost = cost_of(so_far.usage, price_of(command.rules.prices, so_far.model))
    message_id = so_far.message_id or ""
    return AnswerRecorded(
        draft.turn.id,
        message_id,
        _with_unique_ids(so_far.content, message_id, draft.session.known_calls),
        stop_reason,
        partial,
        so_far.usage,
        so_far.model,
        command.at,
        cost,
        so_far.stop_sequence,
        so_far.stop_details,
        so_far.first_delta,
    )


def _asks_for_tools(so_far: ReceivedAnswer, rules: Rules) -> bool:
    return (
        rules.runs_tools
        and so_far.failure is None
        and so_far.stop_reason == TOOL_USE
        and bool(calls_of(so_far.content))
    )


def _with_unique_ids(content: tuple[Block, ...], message_id: str, known: Collection[str]) -> tuple[Block, ...]:
    """Return the content with a new id for each call whose own is blank, or has been used before in the session."""
    given = [block.id for block in content if isinstance(block, ToolUseBlock)]
    if len({id_ for id_ in given if id_.strip() and id_ not in known}) == len(given):
        return content
    kept: set[str] = set()
    taken = set(given)
    blocks: list[Block] = []
    for number, block in enumerate(content):
        if not isinstance(block, ToolUseBlock):
            blocks.append(block)
        elif block.id.strip() and block.id not in known and block.id not in kept:
            kept.add(block.id)
            blocks.append(block)
        else:
            made = (f"{message_id}_{count}" for count in counting(number))
            id_ = next(new for new in made if new not in taken and new not in known)
            taken.add(id_)
            blocks.append(replace(block, id=id_))
    return tuple(blocks)


def _from_state(so_far: ReceivedAnswer) -> AgentState:
    return "responding" if so_far.responding else "thinking"
