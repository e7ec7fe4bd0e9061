"""Decisions about calls that wait for a person, and how the agent is told of them."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from reenact.actors.facades import Agents
from reenact.domain.people import PendingCall


@dataclass(frozen=True, kw_only=True)
class Approved:
    """The call may run, with these arguments if there are any."""

    call: PendingCall
    arguments: dict[str, object] | None = None
    by: str | None = None


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """The call may not run. The model is told why and goes on, unless this `ends_turn`."""

    call: PendingCall
    reason: str = ""
    ends_turn: bool = False
    by: str | None = None


@dataclass(frozen=True, kw_only=True)
class Answered:
    """This is the answer to the question that the call asks."""

    call: PendingCall
    value: object
    by: str | None = None


def user_name() -> str | None:
    """Return who decides: the name that the system has for the user of this process, None if it has none.

    No variable is asked, which anybody may set.
    """
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return None


Decision: TypeAlias = Approved | Rejected | Answered
Decide: TypeAlias = Callable[[Sequence[PendingCall]], Sequence[Decision] | None]
"""Decides about the calls, or returns None and leaves them waiting."""


def carry_out(decision: Decision, agents: Agents) -> str | None:
    """Tell the agent; return the turn in which it goes on, if it does. Only what was asked about is approved."""
    match decision:
        case Approved(call=call):
            return agents.approve(call, arguments=decision.arguments, digest=call.digest, by=decision.by)
        case Rejected(call=call):
            return agents.reject(call, decision.reason, resume=not decision.ends_turn, by=decision.by)
        case Answered(call=call):
            return agents.respond(call, decision.value, by=decision.by)
        case _:
            assert_never(decision)
