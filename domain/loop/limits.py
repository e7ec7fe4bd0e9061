"""How far a conversation may go: its steps, and what it may cost."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, assert_never

from reenact.domain.errors import InvalidInputError
from reenact.domain.loop.events import LoopEvent, Warning  # noqa: A004 - the word of the specification
from reenact.domain.loop.instructions import snake
from reenact.domain.loop.ledger import CostLimit
from reenact.domain.loop.progress import Done, Interrupted
from reenact.domain.loop.values import is_mapping

if TYPE_CHECKING:
    from reenact.domain.loop.state import AgentState

MAX_STEPS_EXCEEDED: Final = "max_steps_exceeded"
COST_LIMIT_EXCEEDED: Final = "cost_limit_exceeded"


def checked_max_steps(max_steps: object) -> None:
    """Raise `InvalidInputError` unless this is a number of steps, or None for any number of them."""
    if max_steps is None or (type(max_steps) is int and 0 < max_steps < 1 << 63):
        return
    msg = f"max_steps is a number of 1 or more, with at most 63 bits, or None for no limit; not {max_steps!r:.80}"
    raise InvalidInputError(msg)


def cost_limit_of(value: object) -> CostLimit | None:
    """Return the limit that a mapping or an amount stands for, or raise `InvalidInputError`."""
    match value:
        case CostLimit(max_total=math.inf):
            return None  # which JSON has, unlike infinity
        case None | CostLimit():
            return value
        case int() | float():
            return cost_limit_of(CostLimit(value))
        case _ if is_mapping(value):
            told: dict[str, Any] = {snake(str(name)): each for name, each in value.items()}
            most = told.get("max_total", told.get("max_total_cost", -1))
            return cost_limit_of(CostLimit(most, told.get("on_exceeded", "stop")))
        case _:
            msg = f"a cost limit is a `CostLimit`, a mapping with `max_total`, or an amount; not {value!r}"
            raise InvalidInputError(msg)


def steps_exceeded(state: AgentState) -> Done | None:
    """Return the end of the conversation, if one more step is one too many."""
    if state.max_steps is None or state.step_count + 1 - state.free_steps <= state.max_steps:
        return None
    detail = f"the conversation has had its {state.max_steps} steps"
    return Done(reason=MAX_STEPS_EXCEEDED, reason_detail=detail, counted=False)


def cost_exceeded(state: AgentState) -> tuple[LoopEvent, ...]:
    """Return what follows from what the conversation has cost until now."""
    limit = state.cost_limit
    if limit is None or not limit.is_exceeded(state.cost):
        return ()
    detail = f"the conversation has cost {state.cost:g}, and may cost {limit.max_total:g}"
    match limit.on_exceeded:
        case "stop":
            return (Done(reason=COST_LIMIT_EXCEEDED, reason_detail=detail),)
        case "interrupt":
            return (Interrupted(reason=f"{COST_LIMIT_EXCEEDED}: {detail}"),)
        case "warn":
            return () if state.warned else (Warning(reason=COST_LIMIT_EXCEEDED, message=detail),)
        case _:
            assert_never(limit.on_exceeded)
