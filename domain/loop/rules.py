"""What holds for an agent's loop: its limits, its policies, its prices; from its image and the runtime it lives in."""

from __future__ import annotations

from typing import Final

import msgspec

from reenact.domain.loop.ledger import CostLimit, Price
from reenact.domain.loop.policy import Policies, judge
from reenact.domain.loop.rounds import Judge

MAX_STEPS: Final = 100
MAX_REPEATS: Final = 3


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What decisions about a turn depend on besides the session's state.

    `max_steps` bounds how often the model is asked in one turn, and those that continue it after a person has decided;
    None: it does not. `max_repeats` is how often in a row
    the same calls may have the same results before they are not run again. `cost_limit` is for the whole session.
    `idempotent` names the tools that may be run again after a crash, `costs` what a call of a tool costs. Beyond
    `compress_at` tokens the conversation is summarised before the model is asked again. `runs_tools` is whether the
    environment runs tools at all; an answer that asks for some ends the turn if it does not.
    `judging` applies the policies; what knows the working directory and where links lead judges paths by these.
    """

    policies: Policies = Policies()
    prices: dict[str, Price] = {}
    costs: dict[str, float] = {}
    idempotent: frozenset[str] = frozenset()
    max_steps: int | None = MAX_STEPS
    max_repeats: int | None = MAX_REPEATS
    cost_limit: CostLimit | None = None
    compress_at: int | None = None
    runs_tools: bool = True
    judging: Judge = judge
