"""What-if analysis: which decisions of a recorded history would differ under other policies, limits or prices.

Each decision is made again separately, in the state after the recorded events before it: the consequences of a
different decision are unknown. `decide` judges the calls of a step again; limits are checked wherever a turn checks
them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from reenact.domain.errors import ReenactError
from reenact.domain.history.causes import read_cause
from reenact.domain.history.decision_replay import command_of, of_session
from reenact.domain.image import Definition, rules_of
from reenact.domain.loop.events import (
    HumanApproveRequired,
    HumanPromptRequired,
    HumanSelectRequired,
    ToolEdited,
    ToolResult,
    ToolStarted,
)
from reenact.domain.loop.ledger import CostLimit, Price, cost_of, price_of
from reenact.domain.loop.rounds import Call, Round
from reenact.domain.loop.rules import Rules, rules_from_stored
from reenact.domain.marks import is_marked
from reenact.domain.plain import JsonObject
from reenact.domain.policy.judge import Policies
from reenact.domain.session import decide as sessions
from reenact.domain.session.agent import (
    AnswerRecorded,
    ContextCompressed,
    ImageChanged,
    ResultsRecorded,
    RulesRecorded,
    ToolsRequested,
    TurnCompleted,
    TurnContinued,
    TurnInterrupted,
    TurnStarted,
    UnrecordedUsage,
)
from reenact.domain.session.commands import Approve, FireSchedule, Resume, Run
from reenact.domain.session.state import Session, SessionBranched, SessionEvent, calls_of, evolve
from reenact.domain.session.turns import (
    COST_LIMIT,
    ReachedLimit,
    exceeded,
    overspent,
    reached_before_calls,
    reached_steps,
)
from reenact.domain.structs import FrozenByName

OfCall: TypeAlias = Literal["run", "ask", "deny"]
OfTurn: TypeAlias = Literal["go_on", "warn", "stop", "interrupt"]
_DEFAULT_RULES = RulesRecorded()


class Ruling(FrozenByName):
    """A decision and its reason.

    A call runs (`run`), a person is asked (`ask`), or it is denied (`deny`). A turn goes on (`go_on`), perhaps with a
    warning (`warn`); or a `limit`, which is a stop reason, ends it as completed (`stop`) or interrupted (`interrupt`).
    """

    decision: OfCall | OfTurn
    reason: str = ""
    limit: str | None = None


_GOES_ON = Ruling(decision="go_on", reason="no limit is reached")
_ENDS = ("stop", "interrupt")
_Checked: TypeAlias = TurnStarted | ToolsRequested | ResultsRecorded


class Otherwise(FrozenByName):
    """A recorded decision that would be different.

    `position` is that of the event that records the decision on a call, or at which the limits of a turn were checked.
    `call_id`, `tool` and `arguments` are None if the decision is about a turn.
    """

    position: int
    turn_id: str | None
    recorded: Ruling
    decided: Ruling
    call_id: str | None = None
    tool: str | None = None
    arguments: JsonObject | None = None


class RuleOverrides(FrozenByName, gc=True):
    """Rules that replace recorded ones; a rule that is not given stays as it was recorded.

    The `prices` replace those of the named models. `costs` replace those of all tools.
    """

    policies: Policies | None = None
    max_steps: int | UnsetType | None = UNSET
    max_repeats: int | UnsetType | None = UNSET
    cost_limit: CostLimit | UnsetType | None = UNSET
    prices: Mapping[str, Price] = {}
    costs: Mapping[str, float] | None = None

    def by(self, definition: Definition) -> RuleOverrides:
        """Return the same with the policies, limits and costs of the image's definition."""
        rules = rules_of(definition, {}, 0)
        same = ("policies", "max_steps", "max_repeats", "cost_limit", "costs")
        return replace(self, **{name: getattr(rules, name) for name in same})

    def limits(self, recorded: Rules) -> Rules:
        """Return the recorded rules with these limits."""
        same = ("max_steps", "max_repeats", "cost_limit")
        given = {name: getattr(self, name) for name in same if getattr(self, name) is not UNSET}
        return replace(recorded, **given)

    @property
    def says_limits(self) -> bool:
        """Whether these rules can change when a limit is reached."""
        is_unset = self.max_steps is self.max_repeats is self.cost_limit is UNSET
        return not is_unset or bool(self.prices) or self.costs is not None


class WhatIf:
    """Follows a session's history step by step from its beginning, and judges it by the replacing rules."""

    def __init__(self, instead: RuleOverrides) -> None:
        self.session = Session()
        self.decisions = 0
        """How many decisions were made again."""
        self.undecided = 0
        """How many of them could not be made again, because the log does not hold everything they depended on."""
        self._instead = instead
        self._in_force: RulesRecorded = _DEFAULT_RULES
        self._recorded = rules_from_stored(_DEFAULT_RULES.rules)
        self._limits = instead.limits(self._recorded)
        self._extra_cost = 0.0
        """How much more than recorded the session would have cost."""
        self._warned = False
        self._ended_turn_id = ""
        """The turn that would have ended earlier than it did; its later events are not judged."""

    def hold(self, instead: RuleOverrides) -> None:
        """Replace the rules from here on, because the session was handed over to another image."""
        self._instead = instead
        self._limits = instead.limits(self._recorded)

    def apply(self, event: SessionEvent) -> None:
        """Apply the event without judging anything."""
        self.session = evolve(self.session, event)
        self._extra_cost += _extra_cost_of(event, self._instead)

    def follow(self, cause: bytes | None, position: int, events: Sequence[SessionEvent]) -> list[Otherwise]:
        """Apply a step, whose first event has this position; return the decisions that would be different.

        Raises:
            LogUnusableError: the command that was recorded with it cannot be read.
        """
        self._enforce(events[0])
        before, found = self.session, list[Otherwise]()
        is_judged = has_changed = False
        is_cut = any(isinstance(event, TurnCompleted) and event.outcome == "failed" for event in events)
        for place, event in enumerate(events):
            self.apply(event)
            match event:
                case TurnInterrupted() | SessionBranched():
                    is_cut = True  # the rest of the turn in this step is abandoned, and no limit is checked
                case ImageChanged():
                    has_changed = True  # no limit is checked until the first answer
                case TurnStarted() if not has_changed:
                    found += self._judge_limits(event, position + place)
                case ToolsRequested() if not is_cut:
                    found += self._judge_limits(event, position + place)
                    is_cut = self._ruling(event).decision in _ENDS
                    is_judged = not is_cut
                case ResultsRecorded(turn_id=str()) if not is_cut:
                    found += self._judge_limits(event, position + place)
                case ToolEdited():
                    is_judged = True
                case _:
                    pass
        policies = self._instead.policies
        if policies is not None and (is_judged or _judges_again(before, cause)):
            found += self._judge_calls(_Step(before, cause, position, events), policies)
        return sorted(found, key=lambda one: one.position)

    def _ruling(self, event: _Checked) -> Ruling:
        """Return the recorded rules' decision on the turn, after the event at which its limits are checked."""
        return _ruling_of_turn(
            event, self.session, self._recorded, self.session.ledger.cost, is_warned=self.session.warned
        )

    def _judge_limits(self, event: _Checked, position: int) -> Iterator[Otherwise]:
        turn = self.session.turn
        if not self._instead.says_limits or turn is None or turn.id == self._ended_turn_id:
            return
        self.decisions += 1
        was, cost = self._ruling(event), self.session.ledger.cost + self._extra_cost
        is_warned = (self._warned or self.session.warned) and was.decision != "warn"
        now = _ruling_of_turn(event, self.session, self._limits, cost, is_warned=is_warned)
        self._warned |= now.decision == "warn"
        if (now.decision, now.limit) != (was.decision, was.limit):
            if now.decision in _ENDS and was.decision not in _ENDS:
                self._ended_turn_id = turn.id
            yield Otherwise(position=position, turn_id=turn.id, recorded=was, decided=now)

    def _judge_calls(self, step: _Step, policies: Policies) -> Iterator[Otherwise]:
        was, calls, recorded = _decisions_by_call(step.events), step.calls(), self._recorded
        rules = replace(recorded, policies=policies)
        self.decisions += len(was)
        try:
            now = step.decided(recorded, policies)
        except ReenactError:  # the replay of decisions reports that today's code cannot decide it
            self.undecided += len(was)
            return
        for id_, (place, decision) in was.items():
            call, decided = calls.get(id_), now.get(id_, (0, decision))[1]
            if call is None or is_marked(call.arguments):
                self.undecided += 1
            elif decided != decision:
                before = _ruling(recorded, call, step.before.asked, decision)
                if not before.reason and step.decided(recorded, recorded.policies).get(id_, (0, None))[1] != decision:
                    self.undecided += 1  # the recorded rules do not explain the recorded decision either
                    continue
                yield Otherwise(
                    position=step.position + place,
                    turn_id=step.turn_id,
                    call_id=id_,
                    tool=call.name,
                    arguments=call.arguments,
                    recorded=before,
                    decided=_ruling(rules, call, step.before.asked, decided),
                )

    def _enforce(self, first: SessionEvent) -> None:
        """Put in force the rules under which the step was decided, and the limits that replace them."""
        in_force = first if isinstance(first, RulesRecorded) else self.session.rules or _DEFAULT_RULES
        if in_force is not self._in_force:
            self._in_force = in_force
            self._recorded = rules_from_stored(in_force.rules, cwd=in_force.cwd, home=in_force.home)
            self._limits = self._instead.limits(self._recorded)


def _ruling_of_turn(event: _Checked, session: Session, rules: Rules, cost: float, *, is_warned: bool) -> Ruling:
    """Return the decision of the limits on the turn under way: when it begins, requests calls, or has their results."""
    limit = exceeded(cost, rules)
    by_cost = _GOES_ON
    if limit is not None and not (limit.on_exceeded == "warn" and is_warned):
        by_cost = Ruling(decision=limit.on_exceeded, reason=overspent(cost, limit), limit=COST_LIMIT)
    if isinstance(event, TurnStarted) or session.turn is None:
        return by_cost
    if isinstance(event, ToolsRequested):
        reached = reached_before_calls(session, rules, cost)
        return _GOES_ON if reached is None else by_cost if reached.limit == COST_LIMIT else _stopped_by(reached)
    reached = None if by_cost.decision in _ENDS else reached_steps(session.turn, rules)
    return by_cost if reached is None else _stopped_by(reached)


def _stopped_by(reached: ReachedLimit) -> Ruling:
    return Ruling(decision="stop", reason=reached.why, limit=reached.limit)


def _extra_cost_of(event: SessionEvent, instead: RuleOverrides) -> float:
    """Return how much more than recorded the event would have cost."""
    match event:
        case (
            AnswerRecorded(model=model, usage=usage, cost=before)
            | ContextCompressed(model=model, usage=usage, cost=before)
            | TurnCompleted(unsaid=UnrecordedUsage(model=model, usage=usage, cost=before))
        ):
            cost = cost_of(usage, price_of(instead.prices, model))
        case ToolResult(ran=True, cost=before) if instead.costs is not None and (
            before is not None or not event.is_error
        ):
            cost = instead.costs.get(event.name, 0.0)  # a call lost in a crash had no cost
        case _:
            return 0.0
    return 0.0 if cost is None else cost - (before or 0.0)


def _judges_again(session: Session, cause: bytes | None) -> bool:
    """Return whether the command may judge calls again."""
    return session.round is not None and cause is not None and read_cause(cause).kind in (Run, FireSchedule, Resume)


def _decisions_by_call(events: Iterable[SessionEvent]) -> dict[str, tuple[int, OfCall]]:
    """Return the decision on each call by its id, with the index of the event that records it."""
    found: dict[str, tuple[int, OfCall]] = {}
    for place, event in enumerate(events):
        match event:
            case ToolStarted():
                found.setdefault(event.id, (place, "run"))
            case HumanApproveRequired():
                for call in event.calls:
                    found.setdefault(call.id, (place, "ask"))
            case HumanPromptRequired(id=str() as id_) | HumanSelectRequired(id=str() as id_):
                found.setdefault(id_, (place, "ask"))
            case ToolResult(is_error=True):
                found.setdefault(event.id, (place, "deny"))
            case _:
                pass
    return found


def _ruling(rules: Rules, call: Call, asked: Collection[str], decision: OfCall) -> Ruling:
    """Return the decision on the call, and its reason if the policies explain it."""
    verdict = rules.verdict(call.name, call.arguments, asked)
    return Ruling(decision=decision, reason=verdict.reason if verdict.decision == decision else "")


class _Step(NamedTuple):
    """A step in which calls were judged, and the session before it."""

    before: Session
    cause: bytes | None
    position: int
    events: Sequence[SessionEvent]

    @property
    def turn_id(self) -> str | None:
        """The turn of the calls."""
        begun = (event.turn_id for event in self.events if isinstance(event, ToolsRequested | TurnContinued))
        turn = self.before.turn or self.before.waited
        return next(begun, None if turn is None else turn.id)

    def calls(self) -> dict[str, Call]:
        """Return the calls by their ids, with the arguments by which they were judged."""
        calls = {} if self.before.round is None else {call.id: call for call in self.before.round.calls}
        for event in self.events:
            match event:
                case AnswerRecorded():
                    calls.update({call.id: call for call in calls_of(event.content)})
                case ToolEdited() if event.id in calls:
                    calls[event.id] = replace(calls[event.id], arguments=event.edited)
                case _:
                    pass
        return calls

    def decided(self, recorded: Rules, policies: Policies) -> dict[str, tuple[int, OfCall]]:
        """Return the decisions of these policies, with the recorded rules for everything else.

        Raises:
            ReenactError: the command is refused today, or cannot be read.
        """
        rules = replace(recorded, policies=policies)
        command = of_session(command_of(self.cause, self.events, rules))
        if isinstance(command, Approve):
            command = replace(command, digest=None)
        before = _asked_under(self.before, recorded.policies.revision, policies.revision)
        return _decisions_by_call(sessions.decide(before, command))


def _asked_under(session: Session, recorded: str, revision: str) -> Session:
    """Return the session as if people had been asked under policies of this revision instead of the recorded one."""
    round_ = session.round
    if round_ is None:
        return session
    calls = [
        replace(call, digest=call.digest_under(revision))
        if call.digest and call.digest == call.digest_under(recorded)
        else call
        for call in round_.calls
    ]
    known = {"": "", recorded: revision}
    under = known.get(round_.revision, f"not {revision}")  # under others, calls were judged again
    return replace(session, round=Round(tuple(calls), under))
