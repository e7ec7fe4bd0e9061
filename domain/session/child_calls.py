"""Calls that start child sessions: which of them start, with what budget, and the model's text about how they ended.

A budget is reserved when a child starts, and its actual use is settled when it ends: both are folds over the events of
the parent. A value that a budget leaves open is an equal share of what remains, with one share for the parent itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from reenact.domain.children import (
    MAX_CHILDREN,
    MAX_DEPTH,
    NO_BUDGET,
    Budget,
    Child,
    ChildOutcome,
    ChildStarted,
    OfferedAgent,
    child_id,
)
from reenact.domain.loop import rounds
from reenact.domain.loop.events import ToolResult
from reenact.domain.loop.ledger import SMALLEST, sum_of, tokens_in_context
from reenact.domain.loop.rounds import Call
from reenact.domain.loop.rules import Rules
from reenact.domain.session.state import Session, SessionEvent

_MICROSECONDS: Final = 1_000_000
_ENDED: Final = {
    "failed": "failed",
    "interrupted": "was interrupted",
    "limit": "was ended by a limit",
    "waiting": "waits for a person",
    "unknown": "has not said what became of it",
}


class Used(NamedTuple):
    """What a session and its children have used, as far as that is settled. `cost` is None if nothing has a price."""

    steps: int
    usage: dict[str, int]
    cost: float | None


def used(session: Session) -> Used:
    """Return what the session has used, including its children."""
    ledger = session.ledger
    models = ledger.models.values()
    is_priced = any(one.calls > one.unpriced for one in (*models, *ledger.tools.values(), ledger.children))
    return Used(
        sum(spent.calls for spent in models) + ledger.children.calls,
        sum_of(ledger.usage, ledger.children.usage),
        ledger.cost if is_priced or ledger.cost else None,
    )


def exhausted_budget(session: Session) -> str | None:
    """Return why the session may not ask the model again, None unless the unreserved part of its budget is used up."""
    budget = session.budget
    if budget is None or budget == NO_BUDGET:
        return None
    steps, tokens, cost = _unreserved(session, budget.cost)
    if steps is not None and steps < 1:
        return f"the budget of {budget.steps} steps is used up"
    if tokens is not None and tokens < 1:
        return f"the budget of {budget.tokens} tokens is used up"
    return f"more than the budget of {budget.cost:g} was spent" if cost is not None and cost < -SMALLEST else None


def depth_of(session: Session) -> int:
    """Return the session's depth in its family."""
    return 0 if session.parent is None else session.parent.depth


def root_of(session: Session) -> str:
    """Return the id of the session at the top of the session's family."""
    return session.id or "" if session.parent is None else session.parent.root


def is_at_its_part(session: Session) -> bool:
    """Return whether the session is a child that has not yet ended, or waits for a person."""
    return session.parent is not None and (session.ended is None or session.ended.outcome == "waiting")


def awaited(session: Session) -> tuple[Child, ...]:
    """Return the children that calls of the round wait for."""
    return tuple(child for child in session.children if is_awaited(session, child))


def is_awaited(session: Session, child: Child) -> bool:
    """Return whether a call waits for the child."""
    call = session.call(child.call_id)
    return not child.detached and call is not None and call.stage != "answered"


def started(session: Session, rules: Rules, at: int) -> Iterator[SessionEvent]:
    """Yield the start of every call that is ready, or an error result for one that may not start a child session."""
    round_, turn = session.round, session.turn
    assert round_ is not None
    assert turn is not None
    agents = {agent.name: agent for agent in rules.agents}
    depth, free = depth_of(session) + 1, MAX_CHILDREN - turn.children
    calls, refused = round_.at("ready"), dict[str, str]()
    starting: list[tuple[Call, OfferedAgent]] = []
    for call in calls:
        if call.name in agents:
            why = _refusal(call, depth, free - len(starting))
            if why is None:
                starting.append((call, agents[call.name]))
            else:
                refused[call.id] = why
    budgets = dict(_budgets(session, rules, at, starting))
    for call in calls:
        agent, budget = agents.get(call.name), budgets.get(call.id)
        if agent is None:
            yield rounds.start_of(call)
        elif budget is None:
            yield rounds.not_run(call, refused.get(call.id, "nothing is left of the budget"))
        else:
            yield from _start_child(session, call, agent, budget, at)


def child_result_text(
    child: str, outcome: ChildOutcome, stop_reason: str, *, steps: int, text: str = "", failure: str = ""
) -> str:
    """Return the model's text about a child that has ended: its answer, or why there is none or only a part."""
    if outcome == "completed":
        return text or "The agent has ended without an answer."
    why = f"{stop_reason}: {failure}" if failure else stop_reason
    count = f"{steps} step{'' if steps == 1 else 's'}"
    told = f"The agent {_ENDED[outcome]} ({why}) after {count}; its session is {child}."
    return f"{told} Until then it had said:\n{text}" if text else told


def _refusal(call: Call, depth: int, free: int) -> str | None:
    prompt = call.arguments.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        return "it needs a `prompt`, a text that says what is to be done"
    if depth > MAX_DEPTH:
        return f"agents call agents {MAX_DEPTH} deep at most"
    return f"a turn starts {MAX_CHILDREN} agents at most" if free <= 0 else None


def _start_child(session: Session, call: Call, agent: OfferedAgent, budget: Budget, at: int) -> Iterator[SessionEvent]:
    start, depth = rounds.start_of(call), depth_of(session) + 1
    id_ = child_id(session.id or "", call.id, start.attempt, root=root_of(session))
    yield start
    yield ChildStarted(call.id, id_, agent.image_id, agent.image_revision, depth, budget, agent.detached, at)
    if agent.detached:
        told = f"Session {id_} has started. What it answers will come as a message."
        yield ToolResult(id=call.id, name=call.name, result=told)


def _budgets(
    session: Session, rules: Rules, at: int, starting: list[tuple[Call, OfferedAgent]]
) -> Iterator[tuple[str, Budget]]:
    """Yield the budget of each call for which enough is left."""
    steps, tokens, cost = _unreserved(session, _max_cost(session, rules))
    seconds = _seconds_left(session, at)
    for number, (call, agent) in enumerate(starting):
        stated, among = agent.budget or NO_BUDGET, len(starting) - number + 1
        if any(left is not None and left < 1 for left in (steps, tokens)):
            continue
        if any(left is not None and left <= SMALLEST for left in (cost, seconds)):
            continue
        budget = Budget(
            steps=_count_share(stated.steps, steps, among),
            tokens=_count_share(stated.tokens, tokens, among),
            cost=_amount_share(stated.cost, cost, among),
            seconds=_amount_share(stated.seconds, seconds, 1),
        )
        steps, tokens = _minus(steps, budget.steps), _minus(tokens, budget.tokens)
        cost = _minus(cost, budget.cost)
        yield call.id, budget


def _unreserved(session: Session, cost: float | None) -> tuple[float | None, float | None, float | None]:
    """Return what is left of the steps, the tokens and this cost of the session, None where nothing limits them."""
    budget, spent = session.budget or NO_BUDGET, used(session)
    still = session.children
    tokens = ((child.budget.tokens, tokens_in_context(child.usage)) for child in still)
    return (
        _remaining(budget.steps, spent.steps, ((child.budget.steps, child.steps) for child in still)),
        _remaining(budget.tokens, tokens_in_context(spent.usage), tokens),
        _remaining(cost, spent.cost or 0.0, ((child.budget.cost, child.cost or 0.0) for child in still)),
    )


def _max_cost(session: Session, rules: Rules) -> float | None:
    """Return the greatest cost that the session may have, None if nothing limits it."""
    limit, costs = rules.cost_limit, [] if session.budget is None else [session.budget.cost]
    if limit is not None and limit.on_exceeded != "warn" and math.isfinite(limit.max_total):
        costs.append(limit.max_total)
    return min((cost for cost in costs if cost is not None), default=None)


def _seconds_left(session: Session, at: int) -> float | None:
    """Return how many seconds are left of the session's budget, None if nothing limits them."""
    budget, turn = session.budget, session.turn
    if budget is None or budget.seconds is None or turn is None:
        return None
    return budget.seconds - session.seconds - max(0, at - turn.at) / _MICROSECONDS


def _remaining(whole: float | None, spent: float, reserved: Iterable[tuple[float | None, float]]) -> float | None:
    """Return what is left of the whole; reserved amounts of children that are not settled yet count as spent."""
    if whole is None:
        return None
    return whole - spent - sum(max(0.0, (most or 0.0) - settled) for most, settled in reserved)


def _count_share(stated: int | None, left: float | None, among: int) -> int | None:
    return stated if left is None else max(1, int(min(left, left / among if stated is None else stated)))


def _amount_share(stated: float | None, left: float | None, among: int) -> float | None:
    return stated if left is None else min(left, left / among if stated is None else stated)


def _minus(left: float | None, reserved: float | None) -> float | None:
    return None if left is None else left - (reserved or 0)
