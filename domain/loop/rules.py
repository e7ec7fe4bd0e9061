"""What holds for an agent's loop: its limits, its policies, its prices; from its image and the runtime it lives in."""

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


class Held(msgspec.Struct, frozen=True, array_like=True):
    """What a session's log keeps of the rules: all that decisions depend on, wherever they are made again."""

    policies: Policies = Policies()
    prices: dict[str, Price] = {}
    costs: dict[str, float] = {}
    idempotent: tuple[str, ...] = ()
    max_steps: int | None = MAX_STEPS
    max_repeats: int | None = MAX_REPEATS
    cost_limit: CostLimit | None = None
    agents: tuple[OfferedAgent, ...] = ()
    output: OutputSpec | None = None


BY_DEFAULT = Held()
"""What holds where nobody has said anything."""


class Rules(Held, frozen=True, kw_only=True, dict=True):
    """What decisions about a turn depend on besides the session's state.

    `max_steps` bounds how often the model is asked in one turn, and those that continue it after a person has decided;
    None: it does not. `max_repeats` is how often in a row the same calls may have the same results before they are not
    run again. `cost_limit` is for the whole session. `idempotent` are the names, sorted, of the tools that may be run
    again after a crash, `costs` what a call of a tool costs. Calls of `agents` start child sessions. `output` is what
    answers must be, unless the message says something else. Beyond `compress_at` tokens the conversation is summarised
    before the model is asked again. `handovers` are what calls of tools that hand the session over ask for, by name.
    `runs_tools` is whether the environment runs tools at all; an answer that asks for
    some ends the turn if it does not. The policies judge paths from `cwd` and `home`, absolute paths, and follow links
    by `resolve`, as `judge` says. `guards` are asked before a command is decided. Change no mapping.
    """

    compress_at: int | None = None
    handovers: Mapping[str, Handover] = {}
    runs_tools: bool = True
    cwd: str | None = None
    home: str | None = None
    resolve: Callable[[str], str] | None = None
    guards: Guards | None = None

    @cached_property
    def held(self) -> Held:
        """The part of the rules that is recorded: the same object each time; one look tells if it changed."""
        held = Held(*(getattr(self, name) for name in Held.__struct_fields__))
        return BY_DEFAULT if held == BY_DEFAULT else held

    def verdict(self, name: str, arguments: Mapping[str, object], asked: Collection[str] = ()) -> Verdict:
        """Return what the policies say of a call here; `asked` as `judge` says. Never raises."""
        return judge(self.policies, name, arguments, asked, cwd=self.cwd, home=self.home, resolve=self.resolve)


def rules_held(held: Held, *, cwd: str | None = None, home: str | None = None, runs_tools: bool = True) -> Rules:
    """Return the rules that were recorded so, in an environment that runs tools or does not; links lead nowhere."""
    return Rules(**msgspec.structs.asdict(held), runs_tools=runs_tools, cwd=cwd, home=home)
