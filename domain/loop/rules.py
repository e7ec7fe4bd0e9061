"""The rules of an agent's loop: limits, policies and prices, from its image and its runtime."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property

import msgspec

from reenact.domain.children import OfferedAgent
from reenact.domain.guards import Guards
from reenact.domain.loop.ledger import CostLimit, Price
from reenact.domain.output import OutputSpec
from reenact.domain.policy.judge import Policies, judge
from reenact.domain.policy.rules import Verdict
from reenact.domain.tools import Handover

MAX_STEPS = 100
MAX_REPEATS = 3


class StoredRules(msgspec.Struct, frozen=True, array_like=True):
    """The part of the rules that a session's log records: everything that decisions depend on."""

    policies: Policies = Policies()
    prices: dict[str, Price] = {}
    costs: dict[str, float] = {}
    idempotent: tuple[str, ...] = ()
    max_steps: int | None = MAX_STEPS
    max_repeats: int | None = MAX_REPEATS
    cost_limit: CostLimit | None = None
    agents: tuple[OfferedAgent, ...] = ()
    output: OutputSpec | None = None


DEFAULT_RULES = StoredRules()
"""The recorded rules if nothing is configured."""


class Rules(StoredRules, frozen=True, kw_only=True, dict=True):
    """The rules that decisions about a turn depend on, besides the session's state.

    `max_steps` bounds how often the model is asked in one turn, including the turns that continue it after a person has
    decided; None is without limit. `max_repeats` is how often in a row the same calls may have the same results before
    they are no longer run. `cost_limit` is for the whole session. `idempotent` are the names, sorted, of the tools that
    may be run again after a crash, `costs` the costs of one call of each tool. Calls of `agents` start child sessions.
    `output` is the required form of answers, unless the message has another. Beyond `compress_at` tokens the
    conversation is summarised before the model is asked again. `handovers` are the hand-overs that calls of tools
    request, by the tool's name.

    `runs_tools` is whether the environment runs tools at all; if it does not, an answer that requests some ends the
    turn. The policies judge paths from `cwd` and `home`, absolute paths, and follow links by `resolve`, as described at
    `judge`. `guards` run before a command is decided. The mappings must not be changed.
    """

    compress_at: int | None = None
    handovers: Mapping[str, Handover] = {}
    runs_tools: bool = True
    cwd: str | None = None
    home: str | None = None
    resolve: Callable[[str], str] | None = None
    guards: Guards | None = None

    @cached_property
    def stored(self) -> StoredRules:
        """The recorded part of the rules: always the same object, so that a change is detected by identity."""
        stored = StoredRules(*(getattr(self, name) for name in StoredRules.__struct_fields__))
        return DEFAULT_RULES if stored == DEFAULT_RULES else stored

    def verdict(self, name: str, arguments: Mapping[str, object], asked: Collection[str] = ()) -> Verdict:
        """Return the policies' verdict on a call; for `asked` see `judge`. Never raises."""
        return judge(self.policies, name, arguments, asked, cwd=self.cwd, home=self.home, resolve=self.resolve)


def rules_from_stored(stored: StoredRules, *, cwd: str | None = None, home: str | None = None) -> Rules:
    """Return rules from their recorded part, in an environment that runs tools; links are not followed."""
    return Rules(**msgspec.structs.asdict(stored), cwd=cwd, home=home)
