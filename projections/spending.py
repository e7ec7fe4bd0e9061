"""What is used adds up: by model, by tool, by turn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from reenact.domain.agent import AnswerRecorded, ContextCompressed
from reenact.domain.loop.ledger import Spent
from reenact.domain.session_state import plus_cost
from reenact.projections.state import NOTHING, Changes, Conversing, Spender, TurnRow

MOST_TOKENS: Final = 1 << 40
"""No turn has so many; sums of what is below stay far from the largest integer that can be written."""

encode: Final = msgspec.msgpack.Encoder().encode


def packed(value: object) -> bytes | None:
    """Return the value as it is stored where there may be none."""
    return None if value is None else encode(value)


def spend(changes: Changes, session: Conversing, by: Spender, usage: Mapping[str, int], cost: float | None) -> None:
    """Count one more use by the model or tool."""
    before = session.spent.get(by, NOTHING)
    spent = Spent(
        before.calls + 1,
        _sum(before.usage, usage) if usage else before.usage,
        before.cost if cost is None else before.cost + cost,
        before.unpriced + (cost is None),
    )
    session.spent[by] = changes.spent[session.position, by] = spent


def spend_in(changes: Changes, session: Conversing, turn: TurnRow, event: AnswerRecorded | ContextCompressed) -> None:
    """Count one more answer of a model, given in the turn."""
    counts, cost = counts_of(event.usage), known(event.cost)
    spend(changes, session, ("model", event.model or ""), counts, cost)
    if counts:
        turn.counted = _sum(turn.counted, counts) if turn.counted else counts
        turn.usage = encode(turn.counted)
    turn.cost = plus_cost(turn.cost, cost)
    changes.put_turn(turn)


def _sum(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Return the sums of counts that are known to be such."""
    total = {**counts}
    for name, count in more.items():
        total[name] = total.get(name, 0) + count
    return total


def counts_of(usage: Mapping[str, Any]) -> dict[str, int]:
    """Return the token counts that can be added up."""
    return {name: count for name, count in usage.items() if type(count) is int and 0 < count < MOST_TOKENS}


def known(cost: float | None) -> float | None:
    """Return the cost if it is an amount."""
    return cost if cost is not None and math.isfinite(cost) else None
